//! Writing files so that nothing half-written is ever seen: to a temporary name beside the target,
//! then renamed.
//!
//! Also JSON files that only help, and keeping those that nobody can read. It knows nobody's format.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

/// What is wrong with a file, in a sentence that ends in its path.
#[derive(Debug, thiserror::Error)]
#[error("{sentence}: {}", path.display())]
pub struct FileError {
    sentence: String,
    path: PathBuf,
}

impl FileError {
    pub(crate) fn new(sentence: impl Into<String>, path: &Path) -> Self {
        Self {
            sentence: sentence.into(),
            path: path.to_owned(),
        }
    }
}

/// The temporary name under which `path` is written: in the same folder, so that a rename suffices.
pub fn partial_path(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}

/// Writes `bytes` to `path` as a whole or not at all.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let partial = partial_path(path);
    let written = File::create(&partial).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    finish_partial(&partial, path, written)
}

/// Writes a value as JSON, as a whole or not at all, and makes the folder where it is missing.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    write_atomically(path, &serde_json::to_vec(value)?)
}

/// What lies in a folder, in a steady order.
pub(crate) fn sorted_entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

/// Whether a file's name ends on one of these, in capitals or not.
pub(crate) fn has_ending(path: &Path, endings: &[&str]) -> bool {
    path.extension()
        .is_some_and(|end| endings.iter().any(|known| end.eq_ignore_ascii_case(known)))
}

/// What a JSON file says; the default where there is none, or it cannot be read: for what only helps.
pub fn read_json_or_default<T: DeserializeOwned + Default>(path: &Path) -> T {
    let read = fs::read(path).ok();
    read.and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .unwrap_or_default()
}

/// Copies a JSON file that is not read whole beside itself, before a new one takes its place; gives the copy.
pub fn keep_aside(path: &Path) -> io::Result<PathBuf> {
    let name = |number: u32| path.with_extension(format!("broken-{number}.json"));
    let free = (1..1000).map(name).find(|path| !path.exists());
    let copy = free.unwrap_or_else(|| name(0));
    fs::copy(path, &copy)?;
    Ok(copy)
}

/// Renames `partial` to `path` when `written` succeeded, and removes it otherwise.
pub fn finish_partial(partial: &Path, path: &Path, written: io::Result<()>) -> io::Result<()> {
    let result = written.and_then(|()| fs::rename(partial, path));
    if result.is_err() {
        // The first error is the one that matters; a leftover that cannot be removed changes nothing.
        fs::remove_file(partial).ok();
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_kept_aside_takes_no_earlier_ones_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue.json");
        for text in ["first", "second"] {
            fs::write(&path, text).unwrap();
            let copy = keep_aside(&path).unwrap();
            assert_eq!(fs::read_to_string(copy).unwrap(), text);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3);
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_leftover() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        write_atomically(&path, b"old").unwrap();
        let partial = partial_path(&path);
        fs::write(&partial, b"half").unwrap();
        let failed = finish_partial(&partial, &path, Err(io::Error::other("disk full")));
        assert!(failed.is_err());
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
