//! What is said of results that are deleted and brought back, as whole sentences.
//!
//! What the gallery's page says is in `ui/gallery/words.rs`.

use std::path::Path;

pub(super) const FAVOURITES_NOT_KEPT: &str =
    "Favourites are lost when Safelight closes. Make that folder writable to keep them";
pub(super) const UNMOVED: &str = "Nothing else was changed";
pub(super) const TRASH_EMPTIED: &str = "The trash was emptied, or another program took the file";
pub(super) const STILL_IN_TRASH: &str = "It is still in the desktop's trash";
pub(super) const TRY_AGAIN: &str = "Try again";
pub(super) const BACK_FROM_TRASH: &str = "Restored from the trash";

pub(super) fn in_trash(count: usize) -> String {
    match count {
        1 => "1 result is in the trash".to_owned(),
        more => format!("{more} results are in the trash"),
    }
}

/// The undo history's name for it.
pub(super) fn delete(count: usize) -> String {
    match count {
        1 => "delete a result".to_owned(),
        more => format!("delete {more} results"),
    }
}

pub(super) fn not_deleted(why: &str) -> String {
    format!("not deleted: {why}")
}

pub(super) fn several_not_deleted(count: usize, first: &str) -> String {
    format!("{count} files were not deleted: {first}")
}

pub(super) fn not_restored(why: &str) -> String {
    format!("not restored: {why}")
}

pub(super) fn is_being_written(path: &Path) -> String {
    format!("the running job writes this file: {}", path.display())
}

pub(super) fn is_needed(path: &Path) -> String {
    format!("a job in the queue uses this file: {}", path.display())
}

pub(super) fn not_in_trash(path: &Path) -> String {
    format!("this file is not in the trash any more: {}", path.display())
}
