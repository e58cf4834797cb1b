//! What lies in a folder, and who may read it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Everything in the folder, itself too.
pub fn everything(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    let mut next = 0;
    while let Some(path) = all.get(next).cloned() {
        if path.is_dir() {
            let entries = fs::read_dir(path).expect("a folder that can be read");
            all.extend(entries.map(|entry| entry.expect("a folder that can be read").path()));
        }
        next += 1;
    }
    all
}

pub fn mode(path: &Path) -> u32 {
    let found = fs::symlink_metadata(path).expect("it is there");
    found.permissions().mode() & 0o777
}
