//! Folders of wildcard files: `name.txt` with one choice a line.
//!
//! As A1111's Dynamic Prompts and SwarmUI keep them, without their YAML. Nothing outside the folders is read by name.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use fancy_regex::Regex;

use super::odds::WeightedChoice;
use super::parse::weight_of;
use super::{PromptError, check_length};
use crate::files::{decode_text, read_bounded, read_text_bounded};

/// A file of a hundred thousand whole prompts has that.
const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024;
/// Of all files that one prompt reads, each as often as another name is written for it: whole collections have less.
const MAX_READ_BYTES: usize = 64 * 1024 * 1024;
/// As above. The largest files that are published have some hundred thousand.
const MAX_LINES: usize = 1_000_000;
/// Of lines that are chosen for one prompt, which may become a small part of that.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Nesting of wildcards in wildcards.
const MAX_WILDCARDS_DEEP: usize = 12;
/// Nesting of folders in folders.
const MAX_DEPTH: usize = 8;
const MAX_FILES: usize = 100_000;
const MAX_FOLDERS: usize = 10_000;

/// Folders of wildcard files. Later folders do not replace files of earlier ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WildcardFolders(Vec<PathBuf>);

impl WildcardFolders {
    pub fn new(folders: impl IntoIterator<Item = PathBuf>) -> Self {
        Self(folders.into_iter().collect())
    }

    pub fn names(&self) -> Vec<String> {
        files(&self.0).into_keys().collect()
    }

    pub fn first(&self) -> Option<&Path> {
        self.0.first().map(PathBuf::as_path)
    }

    /// All wildcards with what is in them, in the order of their names. Reads every file, and leaves out those that are
    /// no text.
    pub fn list(&self) -> Vec<WildcardFile> {
        let files = files(&self.0).into_iter();
        files
            .filter_map(|(name, path)| WildcardFile::new(name, &path))
            .collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WildcardFile {
    pub name: String,
    pub num_lines: usize,
    /// The first choices, so that one sees what it is about.
    pub beginning: Vec<String>,
}

impl WildcardFile {
    /// A file that cannot be opened or is too large has no lines; why is said when a prompt wants it. `None` for what
    /// is not text.
    fn new(name: String, path: &Path) -> Option<Self> {
        const NUM_SHOWN: usize = 8;
        const MAX_SHOWN: usize = 80;
        let mut found = Self {
            name,
            num_lines: 0,
            beginning: Vec::new(),
        };
        let Ok(bytes) = read_bounded(path, MAX_FILE_BYTES) else {
            return Some(found);
        };
        for line in choices(&decode_text(bytes).ok()?) {
            found.num_lines += 1;
            if found.beginning.len() < NUM_SHOWN {
                found.beginning.push(line.chars().take(MAX_SHOWN).collect());
            }
        }
        Some(found)
    }
}

/// Finds wildcards for one prompt; what was read is kept.
#[derive(Default)]
pub(super) struct WildcardLookup<'a> {
    folders: &'a [PathBuf],
    read: BTreeMap<String, Rc<WildcardLines>>,
    /// Of all files that were read.
    num_lines: usize,
    num_read_bytes: usize,
    /// Of the lines that were chosen.
    num_text_bytes: usize,
    /// The wildcards that are being read, outermost first.
    names: Vec<String>,
    /// Maximum nesting that was read, see [`Self::depth`].
    pub deepest: usize,
    /// Choices and wildcards so far, those within others included.
    pub num_choices: usize,
    max_choices: usize,
}

/// The choices of a wildcard, at least one: templates themselves. Held closely, as there may be very many.
#[derive(Default)]
pub(super) struct WildcardLines {
    /// All of them, without anything between.
    text: String,
    /// End of each choice in the text.
    ends: Vec<u32>,
    weights: Vec<f64>,
    /// Created at the first draw, and taken out while drawing.
    odds: Cell<Option<WeightedChoice>>,
}

impl WildcardLines {
    fn push(&mut self, line: &str) {
        let (weight, length) = weight_of(line);
        self.text.push_str(&line[length..]);
        // No more bytes are read than such a number counts.
        self.ends.push(self.text.len() as u32);
        self.weights.push(weight);
    }

    pub fn text(&self, line: usize) -> &str {
        let start = line.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start as usize..self.ends[line] as usize]
    }

    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// For drawing; to be brought back with [`Self::keep_odds`], so that they need not be made again.
    pub fn take_odds(&self) -> WeightedChoice {
        let kept = self.odds.take();
        kept.unwrap_or_else(|| WeightedChoice::from_weights(self.weights.clone()))
    }

    pub fn keep_odds(&self, odds: WeightedChoice) {
        self.odds.set(Some(odds));
    }
}

impl<'a> WildcardLookup<'a> {
    pub fn new(folders: &'a WildcardFolders, max_choices: usize) -> Self {
        Self {
            folders: &folders.0,
            max_choices,
            ..Self::default()
        }
    }

    /// One more choice or wildcard of this prompt.
    pub fn count(&mut self) -> Result<(), PromptError> {
        self.num_choices += 1;
        if self.num_choices > self.max_choices {
            let limit = self.max_choices;
            return Err(PromptError::TooManyChoices { limit });
        }
        Ok(())
    }

    /// Returns whether this number of further choices and levels of nested wildcards is within the limits.
    pub fn has_room(&self, num_choices: usize, height: usize) -> bool {
        self.num_choices + num_choices <= self.max_choices
            && self.depth() + height <= MAX_WILDCARDS_DEEP
    }

    /// One more text of a wildcard, as long as a prompt at most. Each is read letter by letter, so all are bounded.
    pub fn count_text(&mut self, text: &str) -> Result<(), PromptError> {
        check_length(text)?;
        self.num_text_bytes += text.len();
        if self.num_text_bytes > MAX_TEXT_BYTES {
            let limit = MAX_TEXT_BYTES;
            return Err(PromptError::TooMuchText { limit });
        }
        Ok(())
    }

    pub fn depth(&self) -> usize {
        self.names.len()
    }

    /// The choices of a wildcard, at least one; it is being read until [`Self::leave`].
    pub fn enter(&mut self, name: &str) -> Result<Rc<WildcardLines>, PromptError> {
        self.count()?;
        let is_circle = self.names.iter().any(|outer| outer == name);
        self.names.push(name.to_owned());
        if is_circle || self.names.len() > MAX_WILDCARDS_DEEP {
            let names = self.names.clone();
            return Err(PromptError::WildcardCircle { names });
        }
        self.deepest = self.deepest.max(self.depth());
        self.lines(name)
    }

    pub fn leave(&mut self) {
        self.names.pop();
    }

    fn lines(&mut self, name: &str) -> Result<Rc<WildcardLines>, PromptError> {
        if let Some(lines) = self.read.get(name) {
            return Ok(Rc::clone(lines));
        }
        let paths = self.paths(name)?;
        let mut lines = WildcardLines::default();
        for path in &paths {
            self.read_file(path, &mut lines)?;
        }
        if lines.ends.is_empty() {
            let path = paths.into_iter().next().unwrap_or_default();
            return Err(PromptError::EmptyWildcard { path });
        }
        lines.text.shrink_to_fit();
        let lines = Rc::new(lines);
        self.read.insert(name.to_owned(), Rc::clone(&lines));
        Ok(lines)
    }

    fn read_file(&mut self, path: &Path, lines: &mut WildcardLines) -> Result<(), PromptError> {
        let failed = |source| PromptError::ReadWildcard {
            source,
            path: path.to_owned(),
        };
        let text = read_text_bounded(path, MAX_FILE_BYTES).map_err(failed)?;
        self.num_read_bytes += text.len();
        if self.num_read_bytes > MAX_READ_BYTES {
            let limit = MAX_READ_BYTES;
            return Err(PromptError::TooLargeWildcards { limit });
        }
        for line in choices(&text) {
            self.num_lines += 1;
            if self.num_lines > MAX_LINES {
                return Err(PromptError::TooManyLines { limit: MAX_LINES });
            }
            lines.push(line);
        }
        Ok(())
    }

    /// Files of a name: one, or all that match a `*`.
    fn paths(&self, name: &str) -> Result<Vec<PathBuf>, PromptError> {
        let is_outside = |part: &str| part.is_empty() || part == "." || part == "..";
        if name.split('/').any(is_outside) || Path::new(name).is_absolute() {
            let name = name.to_owned();
            return Err(PromptError::WildcardOutside { name });
        }
        let name = name.strip_suffix(".txt").unwrap_or(name);
        let exact = self
            .folders
            .iter()
            .map(|folder| folder.join(format!("{name}.txt")));
        if let Some(path) = exact.into_iter().find(|path| path.is_file()) {
            return Ok(vec![path]);
        }
        let names = names_like(&name.to_lowercase());
        let is_wanted = |found: &str| {
            let is_like = |names: &Regex| names.is_match(&found.to_lowercase());
            names
                .as_ref()
                .is_some_and(|names| is_like(names).unwrap_or_default())
        };
        let mut found: Vec<PathBuf> = files(self.folders)
            .into_iter()
            .filter_map(|(found, path)| is_wanted(&found).then_some(path))
            .collect();
        if !name.contains('*') {
            found.truncate(1);
        }
        if found.is_empty() {
            let folders: Vec<_> = self
                .folders
                .iter()
                .map(|it| it.display().to_string())
                .collect();
            return Err(PromptError::MissingWildcard {
                name: name.to_owned(),
                folders: match &folders[..] {
                    [] => "no folder, as none is set".to_owned(),
                    _ => folders.join(" and "),
                },
            });
        }
        Ok(found)
    }
}

fn choices(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

/// All wildcard files by their names, with `/` between folders and without `.txt`. Folders that are not there have none.
fn files(folders: &[PathBuf]) -> BTreeMap<String, PathBuf> {
    let mut files = BTreeMap::new();
    for folder in folders {
        let mut left = vec![(folder.clone(), String::new(), 0)];
        let mut num_folders = 0;
        while let Some((folder, prefix, depth)) = left.pop() {
            num_folders += 1;
            if num_folders > MAX_FOLDERS {
                break;
            }
            let entries = fs::read_dir(&folder).into_iter().flatten().flatten();
            for path in entries.map(|entry| entry.path()) {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if path.is_dir() && depth < MAX_DEPTH {
                    left.push((path.clone(), format!("{prefix}{name}/"), depth + 1));
                } else if let Some(stem) = name.strip_suffix(".txt")
                    && files.len() < MAX_FILES
                    && path.is_file()
                {
                    files.entry(format!("{prefix}{stem}")).or_insert(path);
                }
            }
        }
    }
    files
}

/// Of the names that a pattern means: `*` is anything but `/`, `**` anything.
fn names_like(pattern: &str) -> Option<Regex> {
    let pattern = fancy_regex::escape(pattern);
    let pattern = pattern.replace(r"\*\*", ".*").replace(r"\*", "[^/]*");
    Regex::new(&format!("(?s)^{pattern}$")).ok()
}
