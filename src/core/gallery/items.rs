//! All results that are known: put in as they are found, read one after the other, and listed as they are looked for.
//!
//! Touches no result. Only what it remembers is read and written here.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::facts::{MediaKind, ResultMetadata, number_of};
use super::index::{self, IndexError, KnownFile};
use super::marks::{ResultMark, ResultMarks};
use super::query::{GalleryFilter, GalleryQuery, ResultDate, ShownKind, SortOrder, folded};
use super::{FileStamp, FoundFile, GalleryScan, ThumbKey};
use crate::media::has_video_name;
use crate::naming;

/// State of a file's metadata.
#[derive(Clone, Debug, PartialEq)]
pub enum ItemReading {
    Unread,
    Read(Arc<ResultMetadata>),
    /// Why it cannot be read, a sentence.
    Broken(String),
}

#[derive(Clone, Debug)]
pub struct GalleryItem {
    pub path: PathBuf,
    pub stamp: FileStamp,
    pub thumb: ThumbKey,
    pub reading: ItemReading,
    pub is_favourite: bool,
    pub tags: BTreeSet<String>,
    /// When it was made, for people to read.
    pub made: String,
    searched: String,
    name: String,
}

impl GalleryItem {
    pub fn facts(&self) -> Option<&ResultMetadata> {
        match &self.reading {
            ItemReading::Read(facts) => Some(facts),
            ItemReading::Unread | ItemReading::Broken(_) => None,
        }
    }

    pub fn file_name(&self) -> String {
        let name = self.path.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// By what is inside; by its name until that is known.
    pub fn is_video(&self) -> bool {
        match &self.reading {
            ItemReading::Read(facts) => facts.kind == MediaKind::Video || facts.is_frame,
            ItemReading::Unread | ItemReading::Broken(_) => has_video_name(&self.path),
        }
    }

    /// The images of one video, by their folder and the name before the number.
    fn sequence(&self) -> Option<((&Path, &str), u64)> {
        let (stem, number) = number_of(&self.path)?;
        Some(((self.path.parent()?, stem), number))
    }

    fn new(found: FoundFile, made: String, reading: ItemReading, marks: &ResultMarks) -> Self {
        let mut entry = Self {
            thumb: ThumbKey::new(&found.path, found.stamp),
            name: folded(&found.path.file_name().unwrap_or_default().to_string_lossy()),
            path: found.path,
            stamp: found.stamp,
            reading,
            is_favourite: false,
            tags: BTreeSet::new(),
            made,
            searched: String::new(),
        };
        entry.take_marks(marks);
        entry
    }

    fn take_marks(&mut self, marks: &ResultMarks) {
        self.is_favourite = marks.is_favourite(&self.path);
        self.tags = marks.tags_of(&self.path);
        self.note_searched();
    }

    fn read(&mut self, reading: ItemReading) {
        self.reading = reading;
        self.note_searched();
    }

    fn note_searched(&mut self) {
        self.searched = self.name.clone();
        for tag in &self.tags {
            self.searched.push_str("\ntag:");
            self.searched.push_str(&folded(tag));
        }
        if let ItemReading::Read(facts) = &self.reading {
            let seed = facts.seed.map(|seed| seed.to_string()).unwrap_or_default();
            for text in [&facts.prompt, &facts.model, &seed] {
                self.searched.push('\n');
                self.searched.push_str(&folded(text));
            }
        }
    }

    /// All filters that it passes. `recent`: those of the last days, with their first day.
    fn filters(&self, recent: &[(ResultDate, String)]) -> Vec<GalleryFilter> {
        let days = recent.iter().filter(|(_, day)| self.made >= *day);
        let dates = days.map(|(date, _)| date.clone());
        let month = self
            .made
            .get(..7)
            .map(|month| ResultDate::Month(Reverse(month.to_owned())));
        let mut filters: Vec<_> = dates.chain(month).map(GalleryFilter::Date).collect();
        filters.extend(self.tags.iter().cloned().map(GalleryFilter::Tag));
        if let Some(facts) = self.facts() {
            if !facts.model.is_empty() {
                filters.push(GalleryFilter::Model(facts.model.clone()));
            }
            // Without its strength.
            let name = |lora: &String| lora.rsplit_once(" (").map_or("", |it| it.0).to_owned();
            let loras: BTreeSet<String> = facts.made_from.loras.iter().map(name).collect();
            filters.extend(loras.into_iter().map(GalleryFilter::Lora));
        }
        filters
    }
}

#[derive(Default)]
pub struct GalleryIndex {
    entries: HashMap<PathBuf, Arc<GalleryItem>>,
    known: HashMap<PathBuf, KnownFile>,
    marks: ResultMarks,
    index_file: PathBuf,
    marks_file: PathBuf,
    /// True if their file could not be read: it is not overwritten.
    are_marks_unread: bool,
    num_unread: usize,
    is_index_old: bool,
}

impl GalleryIndex {
    /// Opens the index and the favourites and tags, and returns an error of the latter.
    pub fn open(index_file: PathBuf, marks_file: PathBuf) -> (Self, Option<IndexError>) {
        let (marks, problem) = ResultMarks::load(&marks_file);
        let shelf = Self {
            known: index::load(&index_file),
            marks,
            index_file,
            marks_file,
            are_marks_unread: matches!(problem, Some(IndexError::Unreadable(_))),
            ..Self::default()
        };
        (shelf, problem)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn num_unread(&self) -> usize {
        self.num_unread
    }

    /// Takes in what a look found; tells which files are to be read, the newest first.
    pub fn put(&mut self, scan: GalleryScan) -> Vec<FoundFile> {
        let mut others = if scan.is_whole {
            std::mem::take(&mut self.entries)
        } else {
            HashMap::new()
        };
        let mut new = Vec::new();
        for found in scan.files {
            let old = others.remove(&found.path);
            let old = old.or_else(|| self.entries.get(&found.path).cloned());
            match old.filter(|old| old.stamp == found.stamp) {
                Some(old) => drop(self.entries.insert(found.path, old)),
                None => new.push(found),
            }
        }
        let mut unread = Vec::new();
        for found in new {
            let secs = found.stamp.modified_ns.div_euclid(1_000_000_000);
            let made = naming::local_minute(secs);
            let reading = match self.known.get(&found.path) {
                Some((stamp, Ok(facts))) if *stamp == found.stamp => {
                    ItemReading::Read(Arc::clone(facts))
                }
                Some((stamp, Err(why))) if *stamp == found.stamp => {
                    ItemReading::Broken(why.clone())
                }
                _ => {
                    unread.push(found.clone());
                    ItemReading::Unread
                }
            };
            let entry = GalleryItem::new(found, made, reading, &self.marks);
            self.entries.insert(entry.path.clone(), Arc::new(entry));
        }
        self.num_unread = self
            .entries
            .values()
            .filter(|entry| entry.reading == ItemReading::Unread)
            .count();
        unread.sort_by_key(|found| std::cmp::Reverse(found.stamp));
        unread
    }

    /// Forgets files that are known to have gone, until they are found again.
    pub fn remove(&mut self, paths: &[PathBuf]) {
        for path in paths {
            let gone = self.entries.remove(path);
            if gone.is_some_and(|entry| entry.reading == ItemReading::Unread) {
                self.num_unread = self.num_unread.saturating_sub(1);
            }
        }
    }

    /// Takes in what was read of a file; `false` when that is another one by now.
    pub fn take(&mut self, found: &FoundFile, read: Result<ResultMetadata, String>) -> bool {
        let Some(entry) = self.entries.get_mut(&found.path) else {
            return false;
        };
        if entry.stamp != found.stamp {
            return false;
        }
        let read = read.map(Arc::new);
        let entry = Arc::make_mut(entry);
        if entry.reading == ItemReading::Unread {
            self.num_unread = self.num_unread.saturating_sub(1);
        }
        entry.read(match &read {
            Ok(facts) => ItemReading::Read(Arc::clone(facts)),
            Err(why) => ItemReading::Broken(why.clone()),
        });
        self.known.insert(found.path.clone(), (found.stamp, read));
        self.is_index_old = true;
        true
    }

    /// Marks results, or takes the mark away, and saves that at once.
    pub fn mark(
        &mut self,
        paths: &[PathBuf],
        mark: &ResultMark,
        is_set: bool,
    ) -> Result<(), IndexError> {
        let reopened = self.reopen_marks();
        for path in paths {
            self.marks.set(path, mark, is_set);
            if let Some(entry) = self.entries.get_mut(path) {
                Arc::make_mut(entry).take_marks(&self.marks);
            }
        }
        if self.are_marks_unread {
            return reopened;
        }
        self.marks.save(&self.marks_file)?;
        reopened
    }

    /// Tries again to read favourites and tags that could not be read before.
    fn reopen_marks(&mut self) -> Result<(), IndexError> {
        if !self.are_marks_unread {
            return Ok(());
        }
        let (marks, problem) = ResultMarks::load(&self.marks_file);
        self.are_marks_unread = matches!(problem, Some(IndexError::Unreadable(_)));
        self.marks.extend(marks);
        let entries = self.entries.values_mut();
        entries.for_each(|entry| Arc::make_mut(entry).take_marks(&self.marks));
        problem.map_or(Ok(()), Err)
    }

    /// Returns whether the index file lacks new metadata.
    pub fn is_index_old(&self) -> bool {
        self.is_index_old
    }

    pub fn save_index(&mut self) -> io::Result<()> {
        self.is_index_old = false;
        index::save(&self.index_file, &self.known)
    }

    /// The results that are looked for, in their order. The numbered images of a video are one of them.
    pub fn list(&self, query: &GalleryQuery) -> Vec<Arc<GalleryItem>> {
        let words = folded(&query.words);
        let words: Vec<&str> = words.split_whitespace().collect();
        let recent = ResultDate::recent();
        let is_found = |entry: &&Arc<GalleryItem>| {
            let is_shown = match query.show {
                ShownKind::All => true,
                ShownKind::Images => !entry.is_video(),
                ShownKind::Videos => entry.is_video(),
            };
            is_shown
                && (entry.is_favourite || !query.only_favourites)
                && words.iter().all(|word| entry.searched.contains(word))
                && (query.filters.is_empty() || query.passes(&entry.filters(&recent)))
        };
        let mut list: Vec<Arc<GalleryItem>> = self.results().filter(is_found).cloned().collect();
        match query.sort {
            SortOrder::Newest => list.sort_unstable_by(|a, b| {
                (b.stamp.modified_ns, &a.path).cmp(&(a.stamp.modified_ns, &b.path))
            }),
            SortOrder::Oldest => list.sort_unstable_by(|a, b| {
                (a.stamp.modified_ns, &a.path).cmp(&(b.stamp.modified_ns, &b.path))
            }),
            SortOrder::Name => {
                list.sort_unstable_by(|a, b| (&a.name, &a.path).cmp(&(&b.name, &b.path)));
            }
        }
        list
    }

    /// Filters that find something, each with the number of results, regardless of any query.
    pub fn filters(&self) -> Vec<(GalleryFilter, usize)> {
        let recent = ResultDate::recent();
        let mut counts = BTreeMap::new();
        for filter in self.results().flat_map(|entry| entry.filters(&recent)) {
            *counts.entry(filter).or_default() += 1;
        }
        counts.into_iter().collect()
    }

    /// All of them, of the numbered images of a video the first.
    fn results(&self) -> impl Iterator<Item = &Arc<GalleryItem>> {
        let firsts = self.first_frames();
        self.entries
            .values()
            .filter(move |entry| match entry.sequence() {
                Some((sequence, number)) => {
                    firsts.get(&sequence).is_none_or(|first| *first == number)
                }
                None => true,
            })
    }

    fn first_frames(&self) -> HashMap<(&Path, &str), u64> {
        let mut firsts = HashMap::new();
        let is_frame = |entry: &GalleryItem| entry.facts().is_some_and(|facts| facts.is_frame);
        for entry in self.entries.values().filter(|entry| is_frame(entry)) {
            if let Some((sequence, number)) = entry.sequence() {
                let first = firsts.entry(sequence).or_insert(number);
                *first = number.min(*first);
            }
        }
        firsts
    }
}
