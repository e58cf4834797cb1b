//! Undo history of the whole window, of which Ctrl+Z takes the last entry.
//!
//! Parts push the data that they need, and receive it again from [`super::SafelightApp`] to restore it.

use std::collections::VecDeque;

use safelight_core::job::{GenerateForm, JobId};

use crate::app::inputs::SlotContents;
use crate::app::queue::jobs::RemovedJob;

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
    Results,
    Form(Box<FormBefore>),
}

#[derive(Debug)]
pub struct UndoEntry {
    pub id: u64,
    /// Name of the action, such as `remove 3 jobs`.
    pub name: String,
    pub what: UndoAction,
}

/// Entries that can be undone, oldest first.
#[derive(Debug, Default)]
pub struct UndoHistory {
    entries: VecDeque<UndoEntry>,
    num_pushed: u64,
}

impl UndoHistory {
    /// Keeps how to take back what was just done; gives the entry's number.
    pub fn push(&mut self, name: impl Into<String>, what: UndoAction) -> u64 {
        self.num_pushed += 1;
        let (id, name) = (self.num_pushed, name.into());
        self.entries.push_back(UndoEntry { id, name, what });
        if self.entries.len() > MAX_ENTRIES {
            self.entries.pop_front();
        }
        id
    }

    /// Adds an action that could not be undone just now: all others precede it.
    pub fn push_behind(&mut self, name: impl Into<String>, what: UndoAction) -> u64 {
        let id = self.push(name, what);
        self.entries.rotate_right(1);
        id
    }

    pub fn last(&self) -> Option<&str> {
        self.entries.back().map(|entry| entry.name.as_str())
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

#[derive(Debug)]
pub struct FormBefore {
    pub form: GenerateForm,
    /// Its inputs, if those were replaced too.
    pub inputs: Option<SlotContents>,
    /// Text that replaced its negative prompt.
    pub negative_after: Option<String>,
    /// The job whose settings it held.
    pub edited: Option<JobId>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_entry_comes_first_and_only_so_many_are_kept() {
        let mut history = UndoHistory::default();
        let first = history.push("first", UndoAction::Results);
        for number in 0..MAX_ENTRIES {
            history.push(format!("number {number}"), UndoAction::Results);
        }
        assert!(history.take(Some(first)).is_none(), "it is too long ago");
        assert_eq!(history.last(), Some("number 49"));
        let behind = history.push_behind("behind", UndoAction::Results);
        assert_eq!(history.take(None).unwrap().name, "number 49");
        assert_eq!(history.take(Some(behind)).unwrap().name, "behind");
        assert_eq!(history.last(), Some("number 48"));
    }
}
