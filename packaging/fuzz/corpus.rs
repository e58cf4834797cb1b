//! The files that readers are tried with: small ones, sound and damaged, kept beside this program.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::readers::Reader;

/// Of this package, wherever it is started.
pub fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

pub fn folder(reader: &Reader) -> PathBuf {
    package().join("corpus").join(reader.name)
}

/// The files of one reader, by name.
pub fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let mut paths = entries.collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}
