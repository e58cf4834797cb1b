//! Compiled kernels in the cache folder, and how often checking them ended the engine.
//!
//! Everything here may fail and nothing may be missed: without the folder the kernels are compiled again.

use std::fs;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use safelight_core::files::{read_bounded, read_text_bounded, write_atomically};
use safelight_core::settings::AppPaths;

/// Time for which a check that never ended counts against a binary: the whole machine may have been switched off.
const COUNTED_FOR: Duration = Duration::from_hours(24);
/// Far more than the kernels of one source need.
const MAX_BINARY_BYTES: u64 = 64 << 20;
/// One number.
const MAX_TRIES_BYTES: u64 = 64;
/// The checks that this process is in, with the tries before each.
static TRIES: Mutex<Vec<(PathBuf, u32)>> = Mutex::new(Vec::new());

/// This process ends because the app is gone: that is no fault of the kernels that it checks.
pub(crate) fn forget_tries() {
    let mut going_on = TRIES.lock().unwrap_or_else(PoisonError::into_inner);
    forget(going_on.drain(..));
}

fn forget(tries: impl Iterator<Item = (PathBuf, u32)>) {
    for (path, before) in tries {
        StoredBinary::put(&path, before.to_string().as_bytes());
    }
}

/// The files of one binary.
pub(super) struct StoredBinary {
    binary: PathBuf,
    tries: PathBuf,
}

impl StoredBinary {
    /// `what` is all that the binary depends on; `name` is for people. `None` without a home folder.
    pub(super) fn of_this_user(name: &str, what: &[&str]) -> Option<Self> {
        let folder = AppPaths::of_this_user()?.kernels();
        Some(Self::under(&folder, name, what))
    }

    fn under(folder: &Path, name: &str, what: &[&str]) -> Self {
        let mut hasher = DefaultHasher::new();
        for part in what {
            hasher.write(part.as_bytes());
            hasher.write_u8(0xff); // No text has this byte, so no two lists run into one.
        }
        let name: String = name
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
            .collect();
        let stem = format!("{name}-{:016x}", hasher.finish());
        Self {
            binary: folder.join(format!("{stem}.bin")),
            tries: folder.join(format!("{stem}.tries")),
        }
    }

    /// The binary, unless there is none or it is not what was written.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let bytes = read_bounded(&self.binary, MAX_BINARY_BYTES).ok()?;
        let (sum, binary) = bytes.split_first_chunk::<8>()?;
        (u64::from_le_bytes(*sum) == checksum(binary)).then(|| binary.to_vec())
    }

    pub(super) fn write(&self, binary: &[u8]) {
        let mut bytes = checksum(binary).to_le_bytes().to_vec();
        bytes.extend_from_slice(binary);
        Self::put(&self.binary, &bytes);
    }

    /// Number of checks that began and never ended: each took the engine down.
    pub(super) fn tries(&self) -> u32 {
        let written = fs::metadata(&self.tries).and_then(|meta| meta.modified());
        let is_old = written.is_ok_and(|written| {
            let age = SystemTime::now().duration_since(written);
            age.is_ok_and(|age| age > COUNTED_FOR)
        });
        let text = read_text_bounded(&self.tries, MAX_TRIES_BYTES).unwrap_or_default();
        text.trim().parse().ok().filter(|_| !is_old).unwrap_or(0)
    }

    pub(super) fn begin_try(&self) {
        let before = self.tries();
        let mut going_on = TRIES.lock().unwrap_or_else(PoisonError::into_inner);
        going_on.push((self.tries.clone(), before));
        Self::put(&self.tries, (before + 1).to_string().as_bytes());
    }

    pub(super) fn end_try(&self) {
        let mut going_on = TRIES.lock().unwrap_or_else(PoisonError::into_inner);
        going_on.retain(|(path, _)| *path != self.tries);
        fs::remove_file(&self.tries).ok(); // At worst the next start counts one try too many.
    }

    /// Another engine may read or write the same file.
    fn put(path: &Path, bytes: &[u8]) {
        let Some(folder) = path.parent() else { return };
        let written = fs::create_dir_all(folder).and_then(|()| write_atomically(path, bytes));
        if let Err(err) = written {
            tracing::debug!("{} could not be written: {err}", path.display());
        }
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_binary_comes_back_for_the_same_source_device_and_compiler_alone() {
        let dir = tempfile::tempdir().unwrap();
        let stored = |what: &[&str]| StoredBinary::under(dir.path(), "gfx90a:xnack- bf16", what);
        assert_eq!(stored(&["source", "sm_90"]).read(), None);
        stored(&["source", "sm_90"]).write(b"code");
        assert_eq!(
            stored(&["source", "sm_90"]).read().as_deref(),
            Some(&b"code"[..])
        );
        assert_eq!(stored(&["source", "sm_89"]).read(), None);
        assert_eq!(stored(&["sources", "m_90"]).read(), None);
    }

    #[test]
    fn a_damaged_binary_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let stored = StoredBinary::under(dir.path(), "sm_90", &["source"]);
        stored.write(b"code");
        let whole = fs::read(&stored.binary).unwrap();
        for damaged in [&whole[..whole.len() - 1], &whole[..4], b""] {
            fs::write(&stored.binary, damaged).unwrap();
            assert_eq!(stored.read(), None);
        }
    }

    #[test]
    fn a_binary_or_a_count_that_is_no_plain_file_is_none_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let stored = StoredBinary::under(dir.path(), "sm_90", &["source"]);
        let pipe = Command::new("mkfifo").arg(&stored.binary).status();
        assert!(pipe.unwrap().success());
        symlink("/dev/zero", &stored.tries).unwrap();
        assert_eq!((stored.read(), stored.tries()), (None, 0));
    }

    #[test]
    fn checks_that_never_ended_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let stored = StoredBinary::under(dir.path(), "sm_90", &["source"]);
        assert_eq!(stored.tries(), 0);
        stored.begin_try();
        stored.begin_try();
        assert_eq!(stored.tries(), 2);
        stored.end_try();
        assert_eq!(stored.tries(), 0);
    }

    #[test]
    fn a_check_that_ends_with_the_app_or_was_long_ago_is_not_counted() {
        let dir = tempfile::tempdir().unwrap();
        let stored = StoredBinary::under(dir.path(), "sm_90", &["source"]);
        stored.begin_try();
        stored.begin_try();
        // Other tests are in checks of theirs.
        forget(
            TRIES
                .lock()
                .unwrap()
                .extract_if(.., |(path, _)| *path == stored.tries),
        );
        assert_eq!(stored.tries(), 1);
        let long_ago = SystemTime::now() - COUNTED_FOR - Duration::from_mins(1);
        let file = fs::File::options().write(true).open(&stored.tries).unwrap();
        file.set_modified(long_ago).unwrap();
        assert_eq!(stored.tries(), 0);
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_no_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let stored = StoredBinary::under(&file, "sm_90", &["source"]);
        stored.write(b"code");
        stored.begin_try();
        assert_eq!((stored.read(), stored.tries()), (None, 0));
    }
}
