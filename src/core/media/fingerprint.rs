//! Fingerprint of a file's content, to detect later whether an image or video has changed.
//!
//! Weight files are large, so they are only sampled. Not cryptographic: collisions are easy to construct.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;

use safelight_loops::hash::{OFFSET, hashed};

use super::MediaError;
use super::source::video_files;
use crate::files::{open_regular, sorted_entries};

/// The fingerprint of an image's file, such as `fnv1a64:0011223344556677`.
pub fn image_fingerprint(path: &Path) -> Result<String, MediaError> {
    of_files([path])
}

/// The fingerprint of a video: of its file, or of all its numbered images.
pub fn video_fingerprint(path: &Path) -> Result<String, MediaError> {
    let files = video_files(path)?;
    of_files(files.iter().map(AsRef::as_ref))
}

/// Bytes that are read at each of the places of a large file.
const SAMPLE_BYTES: u64 = 1 << 18;

/// The fingerprint of a component's file or folder: the names and sizes of its files, and the bytes at the
/// beginning, in the middle and at the end of each. Folders in the folder count, but not theirs.
pub fn component_fingerprint(path: &Path) -> Result<String, MediaError> {
    let hash = if path.is_dir() {
        of_folder(OFFSET, path, 1)?
    } else {
        sampled(OFFSET, path)?
    };
    Ok(text_of(hash))
}

fn of_folder(mut hash: u64, folder: &Path, depth: usize) -> Result<u64, MediaError> {
    let places = sorted_entries(folder)
        .map_err(|err| MediaError::from_io("read the folder", &err, folder))?;
    for place in places {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        if place.is_file() {
            hash = sampled(hashed(hash, name.as_bytes()), &place)?;
        } else if depth > 0 && place.is_dir() {
            hash = of_folder(hashed(hash, name.as_bytes()), &place, depth - 1)?;
        }
    }
    Ok(hash)
}

fn sampled(hash: u64, path: &Path) -> Result<u64, MediaError> {
    let failed = |err| MediaError::from_io("read the file", &err, path);
    let mut file = open_regular(path).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    let mut hash = hashed(hash, &bytes.to_le_bytes());
    let last = bytes.saturating_sub(SAMPLE_BYTES);
    let mut sample = Vec::new();
    for start in [0, last / 2, last] {
        sample.clear();
        file.seek(SeekFrom::Start(start))
            .and_then(|_| (&file).take(SAMPLE_BYTES).read_to_end(&mut sample))
            .map_err(failed)?;
        hash = hashed(hash, &sample);
    }
    Ok(hash)
}

fn text_of(hash: u64) -> String {
    format!("fnv1a64:{hash:016x}")
}

fn of_files<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<String, MediaError> {
    let mut hash = OFFSET;
    let mut buffer = vec![0; 1 << 16];
    for path in files {
        let failed = |err| MediaError::from_io("read the file", &err, path);
        let mut file = open_regular(path).map_err(failed)?;
        loop {
            let count = file.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            hash = hashed(hash, &buffer[..count]);
        }
    }
    Ok(text_of(hash))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_the_published_function_and_changes_with_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        // From the table of test vectors next to the function's definition.
        for (text, expected) in [("", "cbf29ce484222325"), ("foobar", "85944171f73967e8")] {
            std::fs::write(&path, text).unwrap();
            let found = image_fingerprint(&path).unwrap();
            assert_eq!(found, format!("fnv1a64:{expected}"));
        }
    }

    #[test]
    fn a_component_is_another_one_when_its_size_or_its_ends_or_a_files_name_change() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        let mut found = Vec::new();
        let mut look = |path: &Path| {
            for place in [path, folder.path()] {
                found.push(component_fingerprint(place).unwrap());
            }
        };
        let mut bytes = vec![7; 1 << 20];
        for changed in [None, Some(3), Some(1 << 19), Some((1 << 20) - 1)] {
            if let Some(place) = changed {
                bytes[place] += 1_u8;
            }
            std::fs::write(&path, &bytes).unwrap();
            look(&path);
        }
        bytes.push(0);
        std::fs::write(&path, &bytes).unwrap();
        look(&path);
        let renamed = folder.path().join("others");
        std::fs::rename(&path, &renamed).unwrap();
        look(&renamed);
        let same_file = found.remove(10);
        assert_eq!(same_file, found[8]);
        let num_looks = found.len();
        found.sort();
        found.dedup();
        assert_eq!(found.len(), num_looks);
        assert!(component_fingerprint(&folder.path().join("none")).is_err());
    }
}
