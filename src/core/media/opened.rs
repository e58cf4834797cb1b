//! Opening of a regular file whose format decides who reads it.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::MediaError;
use crate::files::open_regular;
use crate::formats::kind::{FileFormat, HEAD_BYTES, sniff};

/// An open file whose length and first bytes are known.
pub(super) struct SniffedFile {
    pub file: File,
    pub len: u64,
    pub kind: FileFormat,
}

/// Opens a regular file and looks at its first bytes; `action` continues "could not …".
pub(super) fn open_file(path: &Path, action: &'static str) -> Result<SniffedFile, MediaError> {
    let failed = |err: io::Error| MediaError::from_io(action, &err, path);
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        return Err(MediaError::is_folder(path));
    }
    if !meta.is_file() {
        return Err(MediaError::not_a_file(path));
    }
    let mut file = open_regular(path).map_err(failed)?;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    file.by_ref()
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(SniffedFile {
        file,
        len: meta.len(),
        kind: sniff(&head),
    })
}
