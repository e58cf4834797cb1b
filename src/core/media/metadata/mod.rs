//! Reading the settings back that travel inside a file: from a picture, a clip, or a plain JSON file.
//!
//! Only the settings are looked for, never a pixel; what the JSON means is for others to say. Files are
//! not trusted: every length is checked against the file's own and against a limit before it is read.

mod gif;
mod jpeg;
mod mp4;
mod png;
mod webm;
mod webp;

use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use serde::de::IgnoredAny;

use super::MediaError;
use super::kind::{self, Kind};
use crate::catalog::size_text;

pub(super) use png::inflated;
pub(super) use webm::element_at;
pub(super) use webp::unescaped;

/// The name of the PNG text that holds the settings.
pub(super) const PNG_KEYWORD: &str = "safelight";
/// What a JPEG comment with a part of the settings begins with.
pub(super) const JPEG_PREFIX: &[u8] = b"safelight:";

/// Larger settings are neither written nor read.
pub const MAX_SETTINGS_BYTES: u64 = 8 << 20;

/// So many parts of a file are looked at before it is given up as endless.
const MAX_PARTS: usize = 1_000_000;

/// The settings inside the file at `path`, as the JSON object that was put there, or nothing when the
/// file carries none.
pub fn read_settings(path: &Path) -> Result<Option<String>, MediaError> {
    let opened = kind::open_file(path, "read the settings")?;
    let no_carrier = |found: &str| {
        Err(MediaError::NoCarrier {
            found: found.to_owned(),
            path: path.to_path_buf(),
        })
    };
    if opened.len == 0 {
        return no_carrier("an empty file");
    }
    let mut source = ByteSource {
        reader: BufReader::new(opened.file),
        len: opened.len,
    };
    let (kind, found) = match opened.kind {
        Kind::Png => ("PNG", png::settings(&mut source)),
        Kind::Mp4 => ("MP4", mp4::settings(&mut source)),
        Kind::WebM => ("WebM", webm::settings(&mut source)),
        Kind::Gif => ("GIF", gif::settings(&mut source)),
        Kind::WebP => ("WebP", webp::settings(&mut source)),
        Kind::Jpeg => ("JPEG", jpeg::settings(&mut source)),
        // Pictures of others, which are never ours.
        Kind::Bmp | Kind::Tiff => return Ok(None),
        Kind::Json => return read_json(&mut source, path).map(Some),
        Kind::Other(words) => return no_carrier(words),
    };
    found.map_err(|err| match err.kind() {
        io::ErrorKind::UnexpectedEof => MediaError::Truncated {
            kind,
            path: path.to_path_buf(),
        },
        _ => MediaError::from_io("read the settings", err, path),
    })
}

fn read_json<R: Read + Seek>(
    source: &mut ByteSource<R>,
    path: &Path,
) -> Result<String, MediaError> {
    let wrong = |found: String| MediaError::Settings {
        max_bytes: MAX_SETTINGS_BYTES,
        found,
        path: path.to_path_buf(),
    };
    if source.len > MAX_SETTINGS_BYTES {
        return Err(wrong(size_text(source.len)));
    }
    let bytes = source
        .read_at(0, source.len)
        .map_err(|err| MediaError::from_io("read the settings", err, path))?;
    settings_from_bytes(&bytes).ok_or_else(|| wrong("something else".to_owned()))
}

pub(super) fn is_json_object(text: &str) -> bool {
    // Read without being built, so nesting costs no stack.
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// The text when it is a JSON object: people write other comments too.
fn settings_from_bytes(bytes: &[u8]) -> Option<String> {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let text = str::from_utf8(bytes).ok()?;
    is_json_object(text).then(|| text.to_owned())
}

/// A file of known length that is read in pieces.
pub(super) struct ByteSource<R> {
    pub reader: R,
    pub len: u64,
}

impl<R: Read + Seek> ByteSource<R> {
    /// Exactly `count` bytes from `at`: an error when the file ends before, or when it is more than
    /// settings could need.
    pub fn read_at(&mut self, at: u64, count: u64) -> io::Result<Vec<u8>> {
        let end = at.checked_add(count).filter(|end| *end <= self.len);
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if count > 2 * MAX_SETTINGS_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "its comment is too long",
            ));
        }
        self.reader.seek(SeekFrom::Start(at))?;
        let mut bytes = vec![0; count as usize];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    pub fn array_at<const N: usize>(&mut self, at: u64) -> io::Result<[u8; N]> {
        if at.checked_add(N as u64).is_none_or(|end| end > self.len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.reader.seek(SeekFrom::Start(at))?;
        let mut bytes = [0; N];
        self.reader.read_exact(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
pub(crate) mod test_files;
#[cfg(test)]
mod tests;
