//! The small images of results, kept in the cache folder under a name made of the file's path, time and size.
//!
//! As the desktop's own thumbnails are, but small WebP files of our own: a changed file has another name, and the oldest
//! go when there are too many. Nothing is kept in memory here.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use super::FileStamp;
use crate::files::{finish_partial, make_private_folder, partial_path, private};
use crate::media::{MediaError, RgbPixels, open_rgb, open_rgba, thumbnail};
use crate::uri::encoded;

/// The longer side of a small image, in pixels.
pub const THUMB_SIDE: u32 = 320;
/// As good as can be seen at that size.
const QUALITY: f32 = 82.0;
/// All of them together; some twenty thousand.
const MAX_BYTES: u64 = 512 << 20;
/// Changes with the way files are decoded, so that thumbnails of another one are made again.
const DECODING_VERSION: u8 = 2;
/// Number of new thumbnails after which old ones are pruned.
const PRUNE_EVERY: usize = 1000;

/// The name of a file's small image.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThumbKey(u128);

impl ThumbKey {
    pub fn new(path: &Path, stamp: FileStamp) -> Self {
        Self::with_version(path, stamp, DECODING_VERSION)
    }

    fn with_version(path: &Path, stamp: FileStamp, version: u8) -> Self {
        let mut hash = Sha256::new();
        hash.update([version]);
        hash.update(encoded(path));
        hash.update(stamp.modified_ns.to_le_bytes());
        hash.update(stamp.bytes.to_le_bytes());
        let first = hash.finalize().into_iter().take(16);
        Self(first.fold(0, |key, byte| key << 8 | u128::from(byte)))
    }
}

impl fmt::Display for ThumbKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[derive(Clone, Debug)]
pub struct ThumbFolder {
    folder: PathBuf,
    pub(super) max_bytes: u64,
    /// Number of thumbnails created by all users of the folder.
    num_kept: Arc<AtomicUsize>,
}

impl ThumbFolder {
    pub fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            max_bytes: MAX_BYTES,
            num_kept: Arc::default(),
        }
    }

    /// The small image of a file: the one that is kept, else a new one.
    pub fn get(&self, path: &Path, key: ThumbKey) -> Result<RgbPixels, MediaError> {
        let kept = self.path_of(key);
        // One that cannot be read is made anew.
        if let Ok(image) = open_rgb(&kept) {
            return Ok(image);
        }
        let image = open_rgba(path)?.over_white();
        let small = thumbnail(&image, THUMB_SIDE, THUMB_SIDE)?;
        if let Err(err) = self.keep(&kept, &small) {
            // It is shown all the same.
            tracing::debug!("a thumbnail was not kept: {err}");
        }
        Ok(small)
    }

    fn path_of(&self, key: ThumbKey) -> PathBuf {
        self.folder.join(format!("{key}.webp"))
    }

    fn keep(&self, path: &Path, image: &RgbPixels) -> io::Result<()> {
        let encoder = webp::Encoder::from_rgb(&image.rgb, image.width, image.height);
        let bytes = encoder
            .encode_simple(false, QUALITY)
            .map_err(|err| io::Error::other(format!("{err:?}")))?;
        make_private_folder(&self.folder)?;
        // Not forced to the disk: what a power cut leaves broken is made anew.
        let partial = partial_path(path);
        let mut options = File::options();
        let opened = private(options.write(true).create(true).truncate(true)).open(&partial);
        let written = opened.and_then(|mut file| file.write_all(&bytes));
        finish_partial(&partial, path, written)?;
        let num_kept = self.num_kept.fetch_add(1, Ordering::Relaxed) + 1;
        if num_kept.is_multiple_of(PRUNE_EVERY) {
            self.prune();
        }
        Ok(())
    }

    pub fn prune(&self) {
        let Ok(entries) = fs::read_dir(&self.folder) else {
            return;
        };
        let mut kept: Vec<(SystemTime, u64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let stat = entry.metadata().ok().filter(fs::Metadata::is_file)?;
                Some((stat.modified().ok()?, stat.len(), entry.path()))
            })
            .collect();
        let mut bytes: u64 = kept.iter().map(|(_, bytes, _)| bytes).sum();
        if bytes <= self.max_bytes {
            return;
        }
        kept.sort();
        for (_, its_bytes, path) in kept {
            if bytes <= self.max_bytes / 10 * 9 {
                break;
            }
            if fs::remove_file(path).is_ok() {
                bytes -= its_bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_decoding_makes_thumbnails_again() {
        let key =
            |version| ThumbKey::with_version(Path::new("/a.png"), FileStamp::default(), version);
        let expected = ThumbKey::new(Path::new("/a.png"), FileStamp::default());
        assert_eq!(key(DECODING_VERSION), expected);
        assert_ne!(key(DECODING_VERSION), key(DECODING_VERSION - 1));
    }
}
