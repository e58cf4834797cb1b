//! Favourites and tags of results, in one file.
//!
//! No result has them in it: a broken file of them is moved aside, never overwritten.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::index::IndexError;
use crate::files::{FileError, aside_path, read_bounded, write_json};
use crate::uri::{decoded, encoded};

/// Of a million marked results.
const MAX_BYTES: u64 = 1 << 30;
const MAX_TAG_CHARS: usize = 60;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResultMark {
    Favourite,
    Tag(String),
}

/// Results that get or lose a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkChange {
    pub paths: Vec<PathBuf>,
    pub mark: ResultMark,
    pub is_set: bool,
}

impl MarkChange {
    pub fn reversed(&self) -> Self {
        Self {
            is_set: !self.is_set,
            ..self.clone()
        }
    }
}

impl ResultMark {
    /// Tags in a text with commas between them, without blanks around them.
    pub fn tags_in(text: &str) -> impl Iterator<Item = String> {
        text.split(',').filter_map(|tag| {
            let words: Vec<&str> = tag.split_whitespace().collect();
            let tag: String = words.join(" ").chars().take(MAX_TAG_CHARS).collect();
            (!tag.is_empty()).then_some(tag)
        })
    }
}

#[derive(Serialize, Deserialize)]
struct MarksFile {
    favourites: Vec<String>,
    #[serde(default)]
    tags: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Default)]
pub(super) struct ResultMarks {
    favourites: BTreeSet<PathBuf>,
    tags: BTreeMap<PathBuf, BTreeSet<String>>,
}

impl ResultMarks {
    pub fn load(path: &Path) -> (Self, Option<IndexError>) {
        let bytes = match read_bounded(path, MAX_BYTES) {
            Ok(bytes) => bytes,
            Err(err) if err.kind() == io::ErrorKind::NotFound => return Default::default(),
            Err(err) => return (Self::default(), Some(unreadable(&err, path))),
        };
        if let Ok(file) = serde_json::from_slice::<MarksFile>(&bytes) {
            let tags = file.tags.into_iter();
            let marks = Self {
                favourites: file.favourites.iter().map(|text| decoded(text)).collect(),
                tags: tags.map(|(path, tags)| (decoded(&path), tags)).collect(),
            };
            return (marks, None);
        }
        let aside = aside_path(path);
        let problem = match fs::rename(path, &aside) {
            Ok(()) => IndexError::Other(FileError::new(
                "the list of favourites and tags is damaged and was moved aside",
                &aside,
            )),
            Err(err) => unreadable(&err, path),
        };
        (Self::default(), Some(problem))
    }

    pub fn save(&self, path: &Path) -> Result<(), IndexError> {
        let tags = self.tags.iter();
        let file = MarksFile {
            favourites: self.favourites.iter().map(|path| encoded(path)).collect(),
            tags: tags
                .map(|(path, tags)| (encoded(path), tags.clone()))
                .collect(),
        };
        write_json(path, &file).map_err(|err| {
            let sentence = format!("the list of favourites and tags cannot be saved ({err})");
            IndexError::Other(FileError::new(sentence, path))
        })
    }

    pub fn set(&mut self, path: &Path, mark: &ResultMark, is_set: bool) {
        match (mark, is_set) {
            (ResultMark::Favourite, true) => drop(self.favourites.insert(path.to_path_buf())),
            (ResultMark::Favourite, false) => drop(self.favourites.remove(path)),
            (ResultMark::Tag(tag), true) => {
                let tags = self.tags.entry(path.to_path_buf()).or_default();
                tags.insert(tag.clone());
            }
            (ResultMark::Tag(tag), false) => {
                if let Some(tags) = self.tags.get_mut(path) {
                    tags.remove(tag);
                    if tags.is_empty() {
                        self.tags.remove(path);
                    }
                }
            }
        }
    }

    pub fn is_favourite(&self, path: &Path) -> bool {
        self.favourites.contains(path)
    }

    pub fn tags_of(&self, path: &Path) -> BTreeSet<String> {
        self.tags.get(path).cloned().unwrap_or_default()
    }

    pub fn extend(&mut self, others: Self) {
        self.favourites.extend(others.favourites);
        for (path, tags) in others.tags {
            self.tags.entry(path).or_default().extend(tags);
        }
    }
}

fn unreadable(err: &io::Error, path: &Path) -> IndexError {
    let sentence = format!("the list of favourites and tags cannot be read ({err})");
    IndexError::Unreadable(FileError::new(sentence, path))
}
