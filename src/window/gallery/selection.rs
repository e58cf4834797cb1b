//! Selection of results, by mouse or keyboard.
//!
//! Results are identified by path, so the selection survives a new order.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use egui::Modifiers;
use safelight_core::gallery::GalleryItem;

#[derive(Clone, Debug, Default)]
pub struct GallerySelection {
    chosen: HashSet<PathBuf>,
    /// The last one that was chosen, and where it stood.
    cursor: Option<(PathBuf, usize)>,
    anchor: Option<PathBuf>,
    revision: u64,
    /// These are chosen as soon as they are listed, unless something else is chosen before.
    expected: Vec<PathBuf>,
}

impl GallerySelection {
    pub fn is_empty(&self) -> bool {
        self.chosen.is_empty()
    }

    pub fn len(&self) -> usize {
        self.chosen.len()
    }

    pub fn contains(&self, path: &Path) -> bool {
        self.chosen.contains(path)
    }

    pub fn is_cursor(&self, path: &Path) -> bool {
        self.cursor
            .as_ref()
            .is_some_and(|(cursor, _)| cursor == path)
    }

    pub fn cursor_at(&self) -> Option<usize> {
        self.cursor.as_ref().map(|(_, at)| *at)
    }

    /// Another one whenever something else may be chosen.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn clear(&mut self) {
        *self = Self {
            revision: self.revision + 1,
            ..Self::default()
        };
    }

    /// Selects results as soon as they are listed.
    pub fn expect(&mut self, paths: Vec<PathBuf>) {
        self.expected = paths;
    }

    pub fn entries<'a>(
        &'a self,
        items: &'a [Arc<GalleryItem>],
    ) -> impl Iterator<Item = &'a Arc<GalleryItem>> {
        // A long list is left as soon as all are found.
        let count = self.chosen.len();
        let chosen = items.iter().filter(|entry| self.contains(&entry.path));
        chosen.take(count)
    }

    pub fn all(&mut self, items: &[Arc<GalleryItem>]) {
        self.revision += 1;
        self.expected.clear();
        self.chosen = items.iter().map(|entry| entry.path.clone()).collect();
        if self.cursor.is_none() {
            self.move_to(items, 0);
        }
    }

    pub fn click(&mut self, items: &[Arc<GalleryItem>], index: usize, modifiers: Modifiers) {
        let Some(entry) = items.get(index) else {
            return;
        };
        let path = entry.path.clone();
        self.revision += 1;
        self.expected.clear();
        if modifiers.shift {
            self.range_to(items, index, modifiers.command);
        } else if modifiers.command {
            if !self.chosen.remove(&path) {
                self.chosen.insert(path.clone());
            }
            self.anchor = Some(path);
        } else {
            self.chosen = HashSet::from([path.clone()]);
            self.anchor = Some(path);
        }
        self.move_to(items, index);
    }

    /// Arrow keys: moves the cursor, and with `extends` selects from the anchor.
    pub fn step(&mut self, items: &[Arc<GalleryItem>], by: isize, extends: bool) {
        let Some(last) = items.len().checked_sub(1) else {
            return;
        };
        let index = match self.cursor_at() {
            Some(at) => at.saturating_add_signed(by).min(last),
            None => 0,
        };
        let modifiers = if extends {
            Modifiers::SHIFT
        } else {
            Modifiers::NONE
        };
        self.click(items, index, modifiers);
    }

    fn range_to(&mut self, items: &[Arc<GalleryItem>], index: usize, keeps: bool) {
        let anchor = self.anchor.as_ref();
        let from = anchor.and_then(|anchor| items.iter().position(|item| item.path == *anchor));
        let from = from.unwrap_or(index);
        if !keeps {
            self.chosen.clear();
        }
        let range = from.min(index)..=from.max(index);
        let paths = items[range].iter().map(|entry| entry.path.clone());
        self.chosen.extend(paths);
        if self.anchor.is_none() {
            self.anchor = items.get(index).map(|entry| entry.path.clone());
        }
    }

    fn move_to(&mut self, items: &[Arc<GalleryItem>], index: usize) {
        self.cursor = items.get(index).map(|entry| (entry.path.clone(), index));
    }

    /// Goes on in a new list: what is not in it is not chosen any more. With `moves_on` the neighbour of what has gone is
    /// chosen instead. Tells whether what was expected has come, and is chosen now.
    pub fn settle(&mut self, items: &[Arc<GalleryItem>], moves_on: bool) -> bool {
        if self.choose_expected(items) {
            return true;
        }
        if self.chosen.is_empty() && self.cursor.is_none() {
            return false;
        }
        let had_any = !self.chosen.is_empty();
        self.revision += 1;
        let paths = items.iter().map(|entry| &entry.path);
        self.chosen = paths
            .filter(|path| self.chosen.contains(*path))
            .cloned()
            .collect();
        let Some((path, at)) = self.cursor.take() else {
            return false;
        };
        if let Some(at) = items.iter().position(|entry| entry.path == path) {
            self.cursor = Some((path, at));
        } else if moves_on && had_any && self.chosen.is_empty() && !items.is_empty() {
            self.click(items, at.min(items.len() - 1), Modifiers::NONE);
        }
        false
    }

    fn choose_expected(&mut self, items: &[Arc<GalleryItem>]) -> bool {
        if self.expected.is_empty() {
            return false;
        }
        let expected: HashSet<&PathBuf> = self.expected.iter().collect();
        let is_expected = |entry: &&Arc<GalleryItem>| expected.contains(&entry.path);
        let Some(first) = items.iter().position(|entry| is_expected(&entry)) else {
            return false;
        };
        let found = items.iter().filter(is_expected);
        let chosen = found.map(|entry| entry.path.clone()).collect();
        self.click(items, first, Modifiers::NONE);
        self.chosen = chosen;
        true
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::gallery::{
        FileStamp, FoundFile, GalleryIndex, GalleryQuery, GalleryScan, SortOrder,
    };

    use super::*;

    fn items(names: &[&str]) -> Vec<Arc<GalleryItem>> {
        let files = names.iter().map(|name| FoundFile {
            path: PathBuf::from(name),
            stamp: FileStamp::default(),
        });
        let mut index = GalleryIndex::default();
        index.put(GalleryScan {
            files: files.collect(),
            ..GalleryScan::default()
        });
        index.list(&GalleryQuery {
            sort: SortOrder::Name,
            ..GalleryQuery::default()
        })
    }

    fn chosen(selection: &GallerySelection, items: &[Arc<GalleryItem>]) -> String {
        let names = selection.entries(items).map(|entry| entry.file_name());
        names.collect()
    }

    #[test]
    fn clicks_choose_one_some_and_ranges() {
        let items = items(&["a", "b", "c", "d", "e"]);
        let mut selection = GallerySelection::default();
        for (index, modifiers, expected) in [
            (1, Modifiers::NONE, "b"),
            (3, Modifiers::SHIFT, "bcd"),
            (0, Modifiers::SHIFT, "ab"),
            (4, Modifiers::COMMAND, "abe"),
            (1, Modifiers::COMMAND, "ae"),
            (2, Modifiers::SHIFT | Modifiers::COMMAND, "abce"),
            (3, Modifiers::NONE, "d"),
        ] {
            selection.click(&items, index, modifiers);
            let found = chosen(&selection, &items);
            assert_eq!(found, expected, "{index} {modifiers:?}");
        }
        selection.step(&items, -2, true);
        assert_eq!(chosen(&selection, &items), "bcd");
        selection.step(&items, 9, false);
        assert_eq!(chosen(&selection, &items), "e");
    }

    #[test]
    fn selection_survives_reordering_and_moves_on_when_its_result_is_deleted() {
        let mut selection = GallerySelection::default();
        selection.click(&items(&["b", "c"]), 1, Modifiers::NONE);
        let more = items(&["a", "b", "c", "d"]);
        selection.settle(&more, false);
        assert_eq!(chosen(&selection, &more), "c");
        assert_eq!(selection.cursor_at(), Some(2));
        let fewer = items(&["a", "b", "d"]);
        let mut moved = selection.clone();
        moved.settle(&fewer, true);
        assert_eq!(chosen(&moved, &fewer), "d");
        selection.settle(&fewer, false);
        assert!(selection.is_empty() && selection.cursor_at().is_none());
        moved.settle(&[], true);
        assert!(moved.is_empty());
    }

    #[test]
    fn restored_results_are_selected_unless_the_selection_changed() {
        let listed = items(&["a", "b"]);
        let mut selection = GallerySelection::default();
        selection.click(&listed, 0, Modifiers::NONE);
        selection.expect(vec!["c".into(), "d".into()]);
        assert!(!selection.settle(&listed, false));
        assert_eq!(chosen(&selection, &listed), "a");
        let mut other = selection.clone();
        other.click(&listed, 1, Modifiers::NONE);
        let more = items(&["a", "b", "c", "d"]);
        assert!(selection.settle(&more, false));
        assert_eq!(chosen(&selection, &more), "cd");
        assert_eq!(selection.cursor_at(), Some(2));
        assert!(!other.settle(&more, false));
        assert_eq!(chosen(&other, &more), "b");
    }
}
