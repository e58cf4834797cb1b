//! A short number for a file's content, to tell later whether a picture or clip is still the same.
//!
//! Not for security: somebody who wants two files of one number can have them.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use super::MediaError;
use super::source::clip_files;

/// FNV-1a of 64 bits.
const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01b3;

/// The fingerprint of a picture's file, such as `fnv1a64:0011223344556677`.
pub fn picture_fingerprint(path: &Path) -> Result<String, MediaError> {
    of_files([path])
}

/// The fingerprint of a clip: of its file, or of all its numbered pictures.
pub fn clip_fingerprint(path: &Path) -> Result<String, MediaError> {
    let files = clip_files(path)?;
    of_files(files.iter().map(AsRef::as_ref))
}

fn of_files<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<String, MediaError> {
    let mut hash = OFFSET;
    let mut buffer = vec![0; 1 << 16];
    for path in files {
        let failed = |err| MediaError::from_io("read the file", err, path);
        let mut file = File::open(path).map_err(failed)?;
        loop {
            let count = file.read(&mut buffer).map_err(failed)?;
            if count == 0 {
                break;
            }
            for byte in &buffer[..count] {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(PRIME);
            }
        }
    }
    Ok(format!("fnv1a64:{hash:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_is_that_of_the_published_function_and_changes_with_the_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        // From the table of test vectors beside the function's definition.
        for (text, expected) in [("", "cbf29ce484222325"), ("foobar", "85944171f73967e8")] {
            std::fs::write(&path, text).unwrap();
            let found = picture_fingerprint(&path).unwrap();
            assert_eq!(found, format!("fnv1a64:{expected}"));
        }
    }
}
