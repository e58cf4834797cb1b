//! Notices that something changed where models are looked for, by asking for the times and sizes of the
//! folders that a search went through.
//!
//! Asks instead of waiting for events: that works on every file system, needs no handle for each folder, and a
//! folder's own time says whether something was put into it. Looks into no file; what changed, the next
//! search finds out.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Limit of watched paths.
pub(crate) const MAX_WATCHED: usize = 4096;

/// Modification time, size and inode of a path; `None` if nothing is there.
pub(crate) type PathStamp = Option<(i64, i64, u64, u64)>;

/// The paths that are watched, and how they were when they were last searched.
#[derive(Clone, Debug, Default)]
pub struct FolderWatch {
    paths: Vec<PathBuf>,
    searched: Vec<PathStamp>,
    last: Vec<PathStamp>,
}

impl FolderWatch {
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let looks = looks(&paths);
        Self::since(paths.into_iter().zip(looks))
    }

    /// Watches from when each path was as it is said to have been; nothing is lost in between.
    pub(crate) fn since(paths: impl Iterator<Item = (PathBuf, PathStamp)>) -> Self {
        let (paths, looks): (Vec<_>, Vec<_>) = paths.take(MAX_WATCHED).unzip();
        Self {
            paths,
            last: looks.clone(),
            searched: looks,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// Returns true if something is other than it was, and has stayed so since the last call: a file that is
    /// still being copied settles first. Says so once for each change.
    pub fn has_settled_change(&mut self) -> bool {
        let now = looks(&self.paths);
        let is_settled = now == self.last;
        self.last = now;
        let is_change = is_settled && self.last != self.searched;
        if is_change {
            self.searched.clone_from(&self.last);
        }
        is_change
    }
}

fn looks(paths: &[PathBuf]) -> Vec<PathStamp> {
    paths.iter().map(|path| path_stamp(path)).collect()
}

pub(crate) fn path_stamp(path: &Path) -> PathStamp {
    Some(look_of(&fs::metadata(path).ok()?))
}

pub(crate) fn look_of(stat: &Metadata) -> (i64, i64, u64, u64) {
    (stat.mtime(), stat.mtime_nsec(), stat.len(), stat.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_change_is_reported_once_after_it_has_settled() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("later");
        let file = folder.path().join("file");
        fs::write(&file, "a").unwrap();
        let mut watch = FolderWatch::new(vec![absent.clone(), file.clone()]);
        assert!(!watch.has_settled_change() && !watch.has_settled_change());
        for text in ["ab", "abc", "abcd"] {
            fs::write(&file, text).unwrap();
            assert!(!watch.has_settled_change(), "it is still growing");
        }
        assert!(watch.has_settled_change());
        assert!(!watch.has_settled_change());
        fs::create_dir(&absent).unwrap();
        assert!(!watch.has_settled_change());
        assert!(watch.has_settled_change());
        fs::remove_dir(&absent).unwrap();
        assert!(!watch.has_settled_change());
        assert!(watch.has_settled_change());
        assert!(!watch.has_settled_change());
    }

    #[test]
    fn nothing_to_watch_never_changes() {
        let mut watch = FolderWatch::default();
        assert!(watch.is_empty() && !watch.has_settled_change());
    }
}
