//! Undo history of the whole window: Ctrl+Z takes the last entry back, Ctrl+Shift+Z or Ctrl+Y does it again.
//!
//! Parts push the data that they need, and receive it again from [`crate::window::app::SafelightApp`] to restore it.

use std::collections::VecDeque;

use safelight_core::job::{GenerateForm, JobId};

use crate::window::create::choices::TrashRequest;
use crate::window::inputs::SlotContents;
use crate::window::queue::jobs::RemovedJob;

/// Older ones cannot be taken back any more.
const MAX_ENTRIES: usize = 50;

#[derive(Debug)]
pub enum UndoAction {
    /// Jobs that were removed from the queue, which may have been paused.
    Jobs {
        jobs: Vec<RemovedJob>,
        was_paused: bool,
    },
    /// Results that went to the trash, which the gallery knows by the entry's number.
    Results(Vec<TrashRequest>),
    Form(Box<FormChange>),
}

/// An undone action, to be done again.
#[derive(Debug)]
pub enum RedoAction {
    Jobs(Vec<JobId>),
    Results(Vec<TrashRequest>),
    Form(Box<FormChange>),
}

#[derive(Debug)]
pub struct UndoEntry {
    pub id: u64,
    /// Name of the action, such as `remove 3 jobs`.
    pub name: String,
    pub what: UndoAction,
}

/// The form and its images, masks and videos.
#[derive(Clone, Debug, PartialEq)]
pub struct FormSnapshot {
    pub form: GenerateForm,
    pub inputs: SlotContents,
}

#[derive(Debug)]
pub struct FormChange {
    pub before: FormSnapshot,
    /// State after the change: what differs from it by now is newer, and stays. `None` while files are being opened.
    pub after: Option<FormSnapshot>,
    /// The job whose settings the form held.
    pub edited: Option<JobId>,
}

/// Entries that can be undone, oldest first, and those that were, the last one at the end.
#[derive(Debug, Default)]
pub struct UndoHistory {
    entries: VecDeque<UndoEntry>,
    pub undone: Vec<(String, RedoAction)>,
    num_pushed: u64,
}

impl UndoHistory {
    /// Keeps how to take back what was just done; gives the entry's number. What was undone cannot be redone any more.
    pub fn push(&mut self, name: impl Into<String>, what: UndoAction) -> u64 {
        self.undone.clear();
        self.num_pushed += 1;
        let (id, name) = (self.num_pushed, name.into());
        self.entries.push_back(UndoEntry { id, name, what });
        if self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
        id
    }

    pub fn push_form(
        &mut self,
        name: impl Into<String>,
        before: FormSnapshot,
        edited: Option<JobId>,
    ) -> u64 {
        self.settle(&before, edited);
        let change = FormChange {
            before,
            after: None,
            edited,
        };
        self.push(name, UndoAction::Form(Box::new(change)))
    }

    /// Adds an action that could not be undone just now: all others precede it.
    pub fn push_behind(&mut self, name: impl Into<String>, what: UndoAction) -> u64 {
        let id = self.push(name, what);
        self.entries.rotate_right(1);
        id
    }

    /// Changes of the form while files for it are being opened.
    pub fn unsettled(&mut self) -> impl Iterator<Item = &mut FormChange> {
        self.entries
            .iter_mut()
            .filter_map(|entry| match &mut entry.what {
                UndoAction::Form(change) if change.after.is_none() => Some(&mut **change),
                _ => None,
            })
    }

    /// Notes the state to which changes of this job's form led, or of the user's own.
    pub fn settle(&mut self, after: &FormSnapshot, edited: Option<JobId>) {
        for change in self.unsettled().filter(|change| change.edited == edited) {
            change.after = Some(after.clone());
        }
    }

    pub fn last(&self) -> Option<&str> {
        self.entries.back().map(|entry| entry.name.as_str())
    }

    pub fn last_undone(&self) -> Option<&str> {
        self.undone.last().map(|(name, _)| name.as_str())
    }

    /// Removes the entry with this number, else the last one.
    pub fn take(&mut self, id: Option<u64>) -> Option<UndoEntry> {
        match id {
            Some(id) => {
                let at = self.entries.iter().position(|entry| entry.id == id);
                at.and_then(|at| self.entries.remove(at))
            }
            None => self.entries.pop_back(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_comes_first_and_only_so_many_are_kept() {
        let results = || UndoAction::Results(Vec::new());
        let mut history = UndoHistory::default();
        let first = history.push("first", results());
        for number in 0..MAX_ENTRIES {
            history.push(format!("number {number}"), results());
        }
        assert!(history.take(Some(first)).is_none(), "it is too long ago");
        assert_eq!(history.last(), Some("number 49"));
        let behind = history.push_behind("behind", results());
        assert_eq!(history.take(None).unwrap().name, "number 49");
        assert_eq!(history.take(Some(behind)).unwrap().name, "behind");
        assert_eq!(history.last(), Some("number 48"));
    }
}
