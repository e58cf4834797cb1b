//! Image and video files in the result folders, and detection of changes.
//!
//! Reads names, times and sizes; opens no file. Like [`crate::library::Watch`] it polls, which works on every file
//! system: a folder's time changes when files are added, and recent files may still be growing.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::media::{has_image_name, has_video_name};

/// Folders in folders in folders.
const MAX_DEPTH: usize = 8;
const MAX_FOLDERS: usize = 20_000;
/// A folder of more is no folder of results.
const MAX_FILES: usize = 200_000;
/// Number of files per report during the first scan.
const TELL_EVERY: usize = 1000;
/// A file that was changed so recently may be changed again without its folder showing it.
const YOUNG_FOR: Duration = Duration::from_mins(1);
/// Times of files are not finer than this.
const CLOCK_STEP: Duration = Duration::from_millis(50);
/// Interval of complete scans, whatever the folders' times.
const LOOK_EVERY: Duration = Duration::from_secs(30);

/// When a file was changed, and how long it is: another one under the same name differs in one of them.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct FileStamp {
    /// Nanoseconds since 1970.
    pub modified_ns: i64,
    pub bytes: u64,
}

impl FileStamp {
    pub fn from_metadata(stat: &Metadata) -> Self {
        let whole = stat.mtime().saturating_mul(1_000_000_000);
        Self {
            modified_ns: whole.saturating_add(stat.mtime_nsec()),
            bytes: stat.len(),
        }
    }
}

/// A file that may be a result.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FoundFile {
    pub path: PathBuf,
    pub stamp: FileStamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GalleryScan {
    pub files: Vec<FoundFile>,
    /// Folders that could not be read, and that there is more than can be shown; a sentence each.
    pub problems: Vec<String>,
    /// Nothing is missing here that is there.
    pub is_whole: bool,
}

#[derive(Debug, Default)]
pub struct GalleryScanner {
    folders: Vec<PathBuf>,
    /// The folders that were read, and their times then.
    looked: Vec<(PathBuf, Option<FileStamp>)>,
    last: Option<GalleryScan>,
    at: Option<Instant>,
}

impl GalleryScanner {
    pub fn new(folders: Vec<PathBuf>) -> Self {
        Self {
            folders,
            ..Self::default()
        }
    }

    /// All files, if they changed since the last scan. `tell` receives the files of the first scan as they are found,
    /// and stops it by returning `false`.
    pub fn scan(&mut self, tell: &mut dyn FnMut(GalleryScan) -> bool) -> Option<GalleryScan> {
        if !self.may_differ() {
            return None;
        }
        let mut walk = ScanWalk {
            is_first: self.last.is_none(),
            ..ScanWalk::default()
        };
        for folder in &self.folders {
            walk.folder(folder, 0, tell);
        }
        if walk.is_stopped {
            return None;
        }
        walk.scan.is_whole = true;
        walk.scan.files.sort();
        walk.scan.files.dedup();
        self.looked = walk.looked;
        self.at = Some(Instant::now());
        let is_change = self.last.as_ref() != Some(&walk.scan);
        if is_change {
            self.last = Some(walk.scan.clone());
        }
        is_change.then_some(walk.scan)
    }

    fn may_differ(&self) -> bool {
        let (Some(last), Some(at)) = (&self.last, self.at) else {
            return true;
        };
        if at.elapsed() >= LOOK_EVERY {
            return true;
        }
        let differs = |(folder, time): &(PathBuf, Option<FileStamp>)| stamp_at(folder) != *time;
        if self.looked.iter().any(differs) {
            return true;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let young = now.unwrap_or_default().saturating_sub(YOUNG_FOR);
        let young = i64::try_from(young.as_nanos()).unwrap_or(i64::MAX);
        last.files
            .iter()
            .filter(|found| found.stamp.modified_ns >= young)
            .any(|found| stamp_at(&found.path) != Some(found.stamp))
    }
}

fn stamp_at(path: &Path) -> Option<FileStamp> {
    fs::metadata(path)
        .ok()
        .map(|stat| FileStamp::from_metadata(&stat))
}

#[derive(Default)]
struct ScanWalk {
    scan: GalleryScan,
    looked: Vec<(PathBuf, Option<FileStamp>)>,
    /// Visited folders: links may form circles, and result folders may be nested.
    seen: HashSet<(u64, u64)>,
    is_first: bool,
    num_reported: usize,
    is_stopped: bool,
    is_full: bool,
}

impl ScanWalk {
    fn folder(&mut self, folder: &Path, depth: usize, tell: &mut dyn FnMut(GalleryScan) -> bool) {
        if depth > MAX_DEPTH || self.looked.len() >= MAX_FOLDERS || self.is_stopped || self.is_full
        {
            return;
        }
        let stat = match fs::metadata(folder) {
            Ok(stat) => stat,
            Err(err) => {
                self.looked.push((folder.to_path_buf(), None));
                // The first result makes it.
                if err.kind() != std::io::ErrorKind::NotFound {
                    self.problem(folder, &err);
                }
                return;
            }
        };
        if !self.seen.insert((stat.dev(), stat.ino())) {
            return;
        }
        // Asked before reading: what is put in meanwhile is seen the next time. A folder's clock is coarse, so one
        // that was changed just now may be changed again without another time.
        let is_sure = stat
            .modified()
            .is_ok_and(|time| time.elapsed().is_ok_and(|age| age > CLOCK_STEP));
        let time = is_sure.then(|| FileStamp::from_metadata(&stat));
        self.looked.push((folder.to_path_buf(), time));
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(err) => return self.problem(folder, &err),
        };
        let mut inner = Vec::new();
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let is_hidden = name.to_string_lossy().starts_with('.');
            if is_hidden || self.is_stopped {
                continue;
            }
            let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
            let is_folder = if is_link {
                fs::metadata(&path).is_ok_and(|stat| stat.is_dir())
            } else {
                entry.file_type().is_ok_and(|kind| kind.is_dir())
            };
            if is_folder {
                inner.push(path);
            } else if has_known_name(&path)
                && let Ok(stat) = fs::metadata(&path)
                && stat.is_file()
            {
                self.file(path, FileStamp::from_metadata(&stat), tell);
            }
        }
        inner.sort();
        for path in inner {
            self.folder(&path, depth + 1, tell);
        }
    }

    fn file(&mut self, path: PathBuf, stamp: FileStamp, tell: &mut dyn FnMut(GalleryScan) -> bool) {
        if self.scan.files.len() >= MAX_FILES {
            if !self.is_full {
                self.is_full = true;
                self.scan.problems.push(format!(
                    "there are more than {MAX_FILES} files; the others are not shown"
                ));
            }
            return;
        }
        self.scan.files.push(FoundFile { path, stamp });
        let unreported = &self.scan.files[self.num_reported..];
        if self.is_first && unreported.len() >= TELL_EVERY {
            let files = unreported.to_vec();
            self.num_reported = self.scan.files.len();
            self.is_stopped = !tell(GalleryScan {
                files,
                ..GalleryScan::default()
            });
        }
    }

    fn problem(&mut self, folder: &Path, err: &std::io::Error) {
        self.scan.problems.push(format!(
            "the folder cannot be read ({err}): {}",
            folder.display()
        ));
    }
}

fn has_known_name(path: &Path) -> bool {
    has_image_name(path) || has_video_name(path)
}
