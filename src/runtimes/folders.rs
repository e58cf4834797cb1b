//! Folders that are put in place as wholes, and what they are made of.

use std::fs;
use std::io;
use std::path::Path;

/// Removes an interrupted attempt: filling a folder is fast, and its state is unknown.
pub(super) fn empty(tree: &Path) -> io::Result<()> {
    match fs::remove_dir_all(tree) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => fs::create_dir_all(tree),
    }
}

/// Puts a folder in place; what is there goes when that is done, and comes back when it fails.
pub(super) fn exchange(tree: &Path, to: &Path, old: &Path) -> io::Result<()> {
    if !to.exists() {
        return fs::rename(tree, to);
    }
    if old.exists() {
        fs::remove_dir_all(old)?;
    }
    fs::rename(to, old)?;
    if let Err(err) = fs::rename(tree, to) {
        fs::rename(old, to)?;
        return Err(err);
    }
    // Of no use any more.
    fs::remove_dir_all(old).ok();
    Ok(())
}

/// Hard link of the file, or a copy if the disk has no links.
pub(super) fn share(file: &Path, to: &Path) -> io::Result<()> {
    fs::hard_link(file, to).or_else(|_| fs::copy(file, to).map(drop))
}
