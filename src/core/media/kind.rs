//! Telling what a file is from its first bytes, and opening it safely.
//!
//! Extensions are never believed, and nothing is decoded here.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::MediaError;

/// What the first bytes of a file say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Png,
    Jpeg,
    WebP,
    Gif,
    Bmp,
    Tiff,
    Mp4,
    WebM,
    Json,
    /// Something that is not read here, in words that fit behind "found".
    Other(&'static str),
}

impl Kind {
    /// What its files are called, such as `PNG`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Png => "PNG",
            Self::Jpeg => "JPEG",
            Self::WebP => "WebP",
            Self::Gif => "GIF",
            Self::Bmp => "BMP",
            Self::Tiff => "TIFF",
            Self::Mp4 => "MP4",
            Self::WebM => "WebM",
            Self::Json => "JSON",
            Self::Other(words) => words,
        }
    }

    /// In words that fit behind "found".
    pub fn described(self) -> &'static str {
        match self {
            Self::Png => "a PNG picture",
            Self::Jpeg => "a JPEG picture",
            Self::WebP => "a WebP picture",
            Self::Gif => "a GIF picture",
            Self::Bmp => "a BMP picture",
            Self::Tiff => "a TIFF picture",
            Self::Mp4 => "an MP4 video",
            Self::WebM => "a WebM or Matroska video",
            Self::Json => "a JSON file",
            Self::Other(words) => words,
        }
    }
}

/// What a file of text is called.
pub(super) const TEXT: &str = "a text file";

/// As many bytes as [`sniff`] looks at.
const HEAD_BYTES: usize = 512;

/// Beginnings of files, and what they mean.
const MAGIC: [(&[u8], Kind); 20] = [
    (b"\x89PNG\r\n\x1a\n", Kind::Png),
    (b"\xff\xd8\xff", Kind::Jpeg),
    (b"GIF87a", Kind::Gif),
    (b"GIF89a", Kind::Gif),
    (b"II\x2a\0", Kind::Tiff),
    (b"MM\0\x2a", Kind::Tiff),
    (b"II\x2b\0", Kind::Tiff),
    (b"MM\0\x2b", Kind::Tiff),
    (b"\x1a\x45\xdf\xa3", Kind::WebM),
    (b"\0\0\0\x0cJXL ", Kind::Other("a JPEG XL picture")),
    (b"\xff\x0a", Kind::Other("a JPEG XL picture")),
    (b"\0\0\0\x0cjP  ", Kind::Other("a JPEG 2000 picture")),
    (b"8BPS", Kind::Other("a Photoshop document")),
    (b"\x76\x2f\x31\x01", Kind::Other("an OpenEXR picture")),
    (b"%PDF", Kind::Other("a PDF document")),
    (b"PK\x03\x04", Kind::Other("a ZIP archive")),
    (b"\x1f\x8b", Kind::Other("a gzip archive")),
    (b"<svg", Kind::Other("an SVG drawing")),
    (b"GGUF", Kind::Other("a GGUF model")),
    (b"qoif", Kind::Other("a QOI picture")),
];

pub(crate) fn sniff(head: &[u8]) -> Kind {
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *kind;
    }
    if head.starts_with(b"RIFF") && head.get(8..12) == Some(b"WEBP") {
        return Kind::WebP;
    }
    // Two letters alone are no proof: the four reserved bytes of a BMP are zero in practice, and
    // the header that follows has a known length.
    if head.starts_with(b"BM") && head.get(15..18) == Some(&[0, 0, 0]) {
        return Kind::Bmp;
    }
    if head.get(4..8) == Some(b"ftyp") {
        return match head.get(8..12) {
            Some(b"avif" | b"avis") => Kind::Other("an AVIF picture"),
            Some(b"heic" | b"heix" | b"hevc" | b"mif1" | b"msf1") => Kind::Other("a HEIC picture"),
            _ => Kind::Mp4,
        };
    }
    if matches!(head.get(4..8), Some(b"moov" | b"mdat" | b"wide" | b"free")) {
        return Kind::Mp4;
    }
    let is_text = match std::str::from_utf8(head) {
        Ok(_) => true,
        // The head may end within a character.
        Err(err) => err.valid_up_to() + 4 > head.len() && err.error_len().is_none(),
    };
    if is_text && !head.contains(&0) {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let is_json = head.trim_ascii_start().starts_with(b"{");
        if is_json {
            Kind::Json
        } else {
            Kind::Other(TEXT)
        }
    } else {
        Kind::Other("a file of another kind")
    }
}

/// An open file whose length and first bytes are known.
pub(super) struct Opened {
    pub file: File,
    pub len: u64,
    pub kind: Kind,
}

/// Opens a regular file and looks at its first bytes; `action` continues "could not …".
pub(super) fn open_file(path: &Path, action: &'static str) -> Result<Opened, MediaError> {
    let failed = |err: io::Error| MediaError::from_io(action, err, path);
    // Before opening, because opening a pipe waits for its other end.
    let meta = fs::metadata(path).map_err(failed)?;
    if meta.is_dir() {
        return Err(MediaError::IsFolder {
            path: path.to_path_buf(),
        });
    }
    if !meta.is_file() {
        return Err(MediaError::NotAFile {
            path: path.to_path_buf(),
        });
    }
    let mut file = File::open(path).map_err(failed)?;
    let mut head = Vec::with_capacity(HEAD_BYTES);
    file.by_ref()
        .take(HEAD_BYTES as u64)
        .read_to_end(&mut head)
        .map_err(failed)?;
    file.seek(SeekFrom::Start(0)).map_err(failed)?;
    Ok(Opened {
        file,
        len: meta.len(),
        kind: sniff(&head),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_from_content() {
        assert_eq!(sniff(b"RIFF\x10\0\0\0WEBPVP8 "), Kind::WebP);
        assert_eq!(sniff(b"\0\0\0\x18ftypisom\0\0\0\0"), Kind::Mp4);
        assert_eq!(
            sniff(b"\0\0\0\x18ftypavif\0\0\0\0"),
            Kind::Other("an AVIF picture")
        );
        assert_eq!(
            sniff("BMW, a car; ünïcode".as_bytes()),
            Kind::Other("a text file")
        );
        assert_eq!(
            sniff(b"\0\x01\x02\xff\xfe"),
            Kind::Other("a file of another kind")
        );
    }
}
