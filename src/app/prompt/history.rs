//! The way through the prompts that were submitted, newest first.
//!
//! Where they are kept is not known here.

use std::sync::Arc;

use safelight_core::prompts::PromptEntry;

/// The prompts of earlier jobs, and which of them stands in the field.
#[derive(Default)]
pub struct History {
    entries: Arc<Vec<PromptEntry>>,
    /// The place of the one in the field.
    at: Option<usize>,
    /// What was being written before the first step back.
    draft: PromptEntry,
    /// The file has been read.
    pub is_known: bool,
}

impl History {
    pub fn entries(&self) -> &Arc<Vec<PromptEntry>> {
        &self.entries
    }

    pub(super) fn take(&mut self, entries: Vec<PromptEntry>) {
        let shown = self.at.and_then(|at| self.entries.get(at).cloned());
        self.at = shown.and_then(|shown| entries.iter().position(|entry| *entry == shown));
        self.entries = Arc::new(entries);
        self.is_known = true;
    }

    pub(super) fn change(&mut self, change: impl FnOnce(&mut Vec<PromptEntry>)) {
        let mut entries = self.entries.to_vec();
        change(&mut entries);
        self.take(entries);
    }

    /// What comes next is a draft again.
    pub(super) fn leave(&mut self) {
        self.at = None;
    }

    /// The prompt before the one in the field; `None` when there is none.
    pub(super) fn older(&mut self, current: &PromptEntry) -> Option<PromptEntry> {
        self.settle(current);
        let next = match self.at {
            None => {
                self.draft = current.clone();
                // The newest is often what stands in the field still.
                usize::from(self.is_shown(0, current))
            }
            Some(at) => at + 1,
        };
        let entry = self.entries.get(next)?.clone();
        self.at = Some(next);
        Some(entry)
    }

    /// The prompt after the one in the field, and behind the newest the draft.
    pub(super) fn newer(&mut self, current: &PromptEntry) -> Option<PromptEntry> {
        self.settle(current);
        let at = self.at?;
        let newer = at.checked_sub(1);
        let is_draft = |at: usize| self.is_shown(at, &self.draft);
        self.at = newer.filter(|newer| !is_draft(*newer));
        let entry = self.at.and_then(|at| self.entries.get(at));
        Some(entry.unwrap_or(&self.draft).clone())
    }

    /// What was changed since is a draft of its own.
    fn settle(&mut self, current: &PromptEntry) {
        self.at = self.at.filter(|at| self.is_shown(*at, current));
    }

    fn is_shown(&self, at: usize, current: &PromptEntry) -> bool {
        let entry = self.entries.get(at);
        entry.is_some_and(|entry| entry.prompt == current.prompt.trim())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(prompt: &str) -> PromptEntry {
        PromptEntry {
            prompt: prompt.to_owned(),
            ..PromptEntry::default()
        }
    }

    fn history(prompts: &[&str]) -> History {
        let mut history = History::default();
        history.take(prompts.iter().map(|prompt| entry(prompt)).collect());
        history
    }

    #[test]
    fn steps_lead_back_and_forth_and_end_at_the_draft() {
        let mut history = history(&["c", "b", "a"]);
        let mut field = entry("half writt");
        let mut steps = Vec::new();
        for step in [
            History::older as fn(&mut History, &PromptEntry) -> Option<PromptEntry>,
            History::older,
            History::older,
            History::older,
            History::newer,
            History::newer,
            History::newer,
            History::newer,
        ] {
            let next = step(&mut history, &field);
            steps.push(next.clone().map_or_else(String::new, |next| next.prompt));
            field = next.unwrap_or(field);
        }
        assert_eq!(steps, ["c", "b", "a", "", "b", "c", "half writt", ""]);
    }

    #[test]
    fn the_newest_is_skipped_while_it_stands_in_the_field() {
        let mut history = history(&["c", "b"]);
        assert_eq!(history.older(&entry("c")), Some(entry("b")));
        assert_eq!(history.newer(&entry("b")), Some(entry("c")));
        assert_eq!(history.newer(&entry("c")), None);
    }

    #[test]
    fn a_prompt_that_was_changed_on_the_way_is_the_new_draft() {
        let mut history = history(&["c", "b"]);
        history.older(&entry("x"));
        assert_eq!(history.older(&entry("c, changed")), Some(entry("c")));
        assert_eq!(history.newer(&entry("c")), Some(entry("c, changed")));
    }
}
