//! Undo history of the whole window: Ctrl+Z takes the last entry back, Ctrl+Shift+Z or Ctrl+Y does it again.
//!
//! Parts push the data that they need, and receive it again from [`crate::window::app::SafelightApp`] to restore it.

use std::collections::VecDeque;

use safelight_core::gallery::MarkChange;
use safelight_core::job::{GenerateForm, JobId};
use safelight_core::trash::TrashedFile;

use crate::window::create::choices::TrashRequest;
use crate::window::inputs::SlotContents;
use crate::window::queue::jobs::RemovedJob;
use crate::window::tabs::FormTab;

/// Older ones cannot be taken back any more.
const MAX_ENTRIES: usize = 50;

pub enum UndoAction {
    /// Jobs that were removed from the queue, which may have been paused.
    Jobs {
        jobs: Vec<RemovedJob>,
        was_paused: bool,
    },
    /// Results that went to the trash, which the gallery knows by the entry's number.
    Results(Vec<TrashRequest>),
    Form(Box<FormChange>),
    /// A tab that was closed, and its place among the others.
    Tab(usize, Box<FormTab>),
    /// Results that were marked, or are not any more.
    Mark(MarkChange),
    /// Files of a model that went to the trash.
    Model(Vec<TrashedFile>),
}

/// An undone action, to be done again.
#[derive(Debug)]
pub enum RedoAction {
    Jobs(Vec<JobId>),
    Results(Vec<TrashRequest>),
    Form(Box<FormChange>),
    /// Id of the tab to close.
    Tab(u64),
    Mark(MarkChange),
}

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
    /// Id of the tab with this form.
    pub tab: u64,
}

/// Entries that can be undone, oldest first, and those that were, the last one at the end.
#[derive(Default)]
pub struct UndoHistory {
    entries: VecDeque<UndoEntry>,
    pub undone: Vec<(String, RedoAction)>,
    /// Id of the active tab: changes of other forms are theirs to undo.
    pub tab: u64,
    num_pushed: u64,
}

impl UndoHistory {
    /// Keeps how to take back what was just done; gives the entry's number. What was undone cannot be redone any more,
    /// except in other tabs.
    pub fn push(&mut self, name: impl Into<String>, what: UndoAction) -> u64 {
        let tab = self.tab;
        self.undone
            .retain(|(_, action)| matches!(action, RedoAction::Form(it) if it.tab != tab));
        self.num_pushed += 1;
        let (id, name) = (self.num_pushed, name.into());
        self.entries.push_back(UndoEntry { id, name, what });
        let too_many = self.entries.len().saturating_sub(MAX_ENTRIES);
        self.entries.drain(..too_many);
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
            tab: self.tab,
        };
        self.push(name, UndoAction::Form(Box::new(change)))
    }

    /// Adds an action that could not be undone just now: all others precede it.
    pub fn push_behind(&mut self, name: impl Into<String>, what: UndoAction) -> u64 {
        let id = self.push(name, what);
        self.entries.rotate_right(1);
        id
    }

    /// Changes of the active form while files for it are being opened.
    pub fn unsettled(&mut self) -> impl Iterator<Item = &mut FormChange> {
        let tab = self.tab;
        let entries = self.entries.iter_mut();
        entries.filter_map(move |entry| match &mut entry.what {
            UndoAction::Form(it) if it.tab == tab && it.after.is_none() => Some(&mut **it),
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
        self.last_at().map(|at| self.entries[at].name.as_str())
    }

    /// Place of the last entry that is not of another tab.
    fn last_at(&self) -> Option<usize> {
        let is_here =
            |it: &UndoEntry| !matches!(&it.what, UndoAction::Form(it) if it.tab != self.tab);
        self.entries.iter().rposition(is_here)
    }

    pub fn last_undone(&self) -> Option<&str> {
        self.last_undone_at().map(|at| self.undone[at].0.as_str())
    }

    pub fn last_undone_at(&self) -> Option<usize> {
        let is_here = |(_, action): &(String, RedoAction)| !matches!(action, RedoAction::Form(it) if it.tab != self.tab);
        self.undone.iter().rposition(is_here)
    }

    /// Removes the entry with this number, else the last one of the window and the active tab.
    pub fn take(&mut self, id: Option<u64>) -> Option<UndoEntry> {
        let at = match id {
            Some(id) => self.entries.iter().position(|entry| entry.id == id),
            None => self.last_at(),
        };
        at.and_then(|at| self.entries.remove(at))
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
