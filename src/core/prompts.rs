//! The prompts that were submitted, and their file: one JSON object a line, newest first, shared by all windows.
//!
//! A window takes the file for itself while it changes it, and writes it as a whole or not at all. Lines that make no
//! sense are left out; a file that cannot be read is not written over.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::files::{make_private_folder, read_bounded, write_private};
use crate::job::{GenerateForm, LiteralPrompt, prompt};
use crate::locks::FileLock;
use crate::model::ModelSpec;

/// As many prompts as are kept, each as long as any encoder reads, are smaller.
const MAX_BYTES: u64 = 64 << 20;

/// More are forgotten, oldest first.
pub const MAX_ENTRIES: usize = 500;

/// A prompt as it was written, with the negative one where that acted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromptEntry {
    pub prompt: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub negative: String,
    /// The prompt looks like a template and is not one.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_literal: bool,
    /// As `is_literal`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_negative_literal: bool,
}

impl PromptEntry {
    /// The prompts of a job that is submitted: without spaces around them, the negative one if it acts.
    pub fn from_form(form: &GenerateForm, spec: &ModelSpec) -> Self {
        let mut entry = Self::from(form);
        if !form.is_guided(spec) {
            (entry.negative, entry.is_negative_literal) = (String::new(), false);
        }
        for text in [&mut entry.prompt, &mut entry.negative] {
            *text = text.trim().to_owned();
        }
        entry
    }

    /// Puts the prompts into the form; an empty negative one changes nothing.
    pub fn put(&self, form: &mut GenerateForm) {
        form.prompt.clone_from(&self.prompt);
        form.literal_prompt = self.is_literal.then(|| self.prompt.clone().into());
        if !self.negative.is_empty() {
            form.negative_prompt = Some(self.negative.clone());
            form.literal_negative = self
                .is_negative_literal
                .then(|| self.negative.clone().into());
        }
    }
}

impl From<&GenerateForm> for PromptEntry {
    fn from(form: &GenerateForm) -> Self {
        let is_literal = |literal: &LiteralPrompt| !prompt::is_plain(&literal.text);
        Self {
            prompt: form.prompt.clone(),
            negative: form.negative_prompt.clone().unwrap_or_default(),
            is_literal: form.unedited_prompt().is_some_and(is_literal),
            is_negative_literal: form.unedited_negative().is_some_and(is_literal),
        }
    }
}

/// Puts one in front; no two are the same, and there are never too many.
pub fn remember(entries: &mut Vec<PromptEntry>, entry: PromptEntry) {
    entries.retain(|known| *known != entry);
    entries.insert(0, entry);
    entries.truncate(MAX_ENTRIES);
}

/// Changes what is in the file, and gives what is in it then.
pub fn change(
    path: &Path,
    change: impl FnOnce(&mut Vec<PromptEntry>),
) -> io::Result<Vec<PromptEntry>> {
    if let Some(folder) = path.parent() {
        make_private_folder(folder)?;
    }
    // Not the file itself, which is replaced by another.
    let _guard = FileLock::wait(&path.with_extension("lock"))?;
    let before = read(path)?;
    let mut entries = before.clone();
    change(&mut entries);
    entries.truncate(MAX_ENTRIES);
    if entries != before {
        write_private(path, &to_lines(&entries)?)?;
    }
    Ok(entries)
}

fn read(path: &Path) -> io::Result<Vec<PromptEntry>> {
    let bytes = match read_bounded(path, MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(err) if err.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(err) => return Err(err),
    };
    let mut entries: Vec<PromptEntry> = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let entry = serde_json::from_slice::<PromptEntry>(line).ok();
        if let Some(entry) = entry.filter(|entry| !entries.contains(entry)) {
            entries.push(entry);
        }
    }
    Ok(entries)
}

fn to_lines(entries: &[PromptEntry]) -> io::Result<Vec<u8>> {
    let mut lines = Vec::new();
    for entry in entries {
        serde_json::to_writer(&mut lines, entry)?;
        lines.push(b'\n');
    }
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn entry(prompt: &str) -> PromptEntry {
        PromptEntry {
            prompt: prompt.to_owned(),
            negative: "fog".to_owned(),
            ..PromptEntry::default()
        }
    }

    #[test]
    fn no_prompt_is_there_twice_and_the_oldest_goes() {
        let mut entries = Vec::new();
        for i in 0..MAX_ENTRIES + 10 {
            remember(&mut entries, entry(&format!("prompt {i}")));
        }
        assert_eq!(entries.len(), MAX_ENTRIES);
        remember(&mut entries, entry("prompt 300"));
        let found = (entries.len(), &entries[0]);
        assert_eq!(found, (MAX_ENTRIES, &entry("prompt 300")));
        assert_eq!(
            entries
                .iter()
                .filter(|it| it.prompt == "prompt 300")
                .count(),
            1
        );
    }

    #[test]
    fn prompt_history_is_shared_between_windows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/prompts.jsonl");
        change(&path, |entries| {
            remember(entries, entry("one\nof two lines"));
        })
        .unwrap();
        let found = change(&path, |entries| remember(entries, entry("two"))).unwrap();
        assert_eq!(found, [entry("two"), entry("one\nof two lines")]);
        assert_eq!(change(&path, |_| {}).unwrap(), found);
        let left = change(&path, |entries| entries.retain(|it| it.prompt == "two")).unwrap();
        assert_eq!(left, [entry("two")]);
    }

    #[test]
    fn readable_lines_of_a_damaged_prompt_history_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts.jsonl");
        let text = "{\"prompt\":\"a\"}\nnonsense\n\n{\"prompt\":\"b\",\"later\":1}\n{\"prompt\":\"a\"}\n{\"pro";
        fs::write(&path, [text.as_bytes(), &[0xff, 0xfe]].concat()).unwrap();
        let found = change(&path, |_| {}).unwrap();
        let prompts: Vec<&str> = found.iter().map(|it| it.prompt.as_str()).collect();
        assert_eq!(prompts, ["a", "b"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("prompts.jsonl");
        fs::create_dir(&path).unwrap();
        assert!(change(&path, |all| remember(all, entry("a"))).is_err());
        assert!(path.is_dir());
    }
}
