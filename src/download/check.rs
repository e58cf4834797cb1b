//! Checks of free space, and of a file's size and checksum.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use safelight_core::job::CancelToken;
use safelight_core::units::size_text;
use safelight_wheels::hex;
use sha2::{Digest as _, Sha256};

use super::DownloadError;
use crate::telemetry::host::room_in;

const PIECE_BYTES: usize = 4 << 20;
/// Left free on the disk: full disks break other programs.
const SPARE_BYTES: u64 = 1 << 30;

/// Fails if the disks lack room for these additional bytes at these paths.
pub(super) fn space<'a>(
    wanted: impl Iterator<Item = (&'a Path, u64)>,
) -> Result<(), DownloadError> {
    // Several files may go to one disk.
    let mut disks: BTreeMap<u64, (PathBuf, u64)> = BTreeMap::new();
    for (path, bytes) in wanted {
        let Some(folder) = path.ancestors().skip(1).find(|folder| folder.is_dir()) else {
            continue;
        };
        let stat = folder
            .metadata()
            .map_err(|source| DownloadError::disk(&source, folder))?;
        let disk = disks.entry(stat.dev());
        let (_, wanted) = disk.or_insert_with(|| (folder.to_owned(), 0));
        // A server may claim any size.
        *wanted = wanted.saturating_add(bytes);
    }
    for (folder, bytes) in disks.into_values().filter(|(_, bytes)| *bytes > 0) {
        let found = room_in(&folder).map_err(|source| DownloadError::disk(&source, &folder))?;
        let expected = bytes.saturating_add(SPARE_BYTES);
        if found < expected {
            let (expected, found) = (size_text(expected), size_text(found));
            let sentence =
                format!("the download needs {expected} of free space, and there is {found}");
            return Err(DownloadError::no_space(sentence, &folder));
        }
    }
    Ok(())
}

/// The file's SHA-256 in lower-case hexadecimal; `None` when cancelled.
pub(super) fn sha256(file: &File, cancel: &CancelToken) -> io::Result<Option<String>> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut hash = Sha256::new();
    let mut offset = 0;
    loop {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        let len = file.read_at(&mut piece, offset)?;
        if len == 0 {
            break;
        }
        hash.update(&piece[..len]);
        offset += len as u64;
    }
    Ok(Some(hex(&hash.finalize())))
}
