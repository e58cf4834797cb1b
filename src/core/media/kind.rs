//! Telling what a file is from its first bytes, and opening it safely.
//!
//! Extensions are never believed, and nothing is decoded here.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use super::MediaError;
use crate::files::open_regular;

/// What the first bytes of a file say it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Png,
    Jpeg,
    WebP,
    Gif,
    Bmp,
    Tiff,
    Avif,
    Heic,
    Mp4,
    WebM,
    /// A video that only ffmpeg reads.
    Foreign(&'static ForeignVideo),
    Json,
    /// Something that is not read here, in words that fit behind "found".
    Other(&'static str),
}

/// A video container that is recognised here and read through ffmpeg.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForeignVideo {
    pub name: &'static str,
    /// In words that fit behind "found".
    pub described: &'static str,
    /// Name in ffmpeg.
    pub demuxer: &'static str,
}

impl Kind {
    /// Name of its files, and a description that follows "found".
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Png => ("PNG", "a PNG picture"),
            Self::Jpeg => ("JPEG", "a JPEG picture"),
            Self::WebP => ("WebP", "a WebP picture"),
            Self::Gif => ("GIF", "a GIF picture"),
            Self::Bmp => ("BMP", "a BMP picture"),
            Self::Tiff => ("TIFF", "a TIFF picture"),
            Self::Avif => ("AVIF", "an AVIF image"),
            Self::Heic => ("HEIC", "a HEIC image"),
            Self::Mp4 => ("MP4", "an MP4 video"),
            Self::WebM => ("WebM", "a WebM or Matroska video"),
            Self::Foreign(video) => (video.name, video.described),
            Self::Json => ("JSON", "a JSON file"),
            Self::Other(words) => (words, words),
        }
    }

    /// The name of its files, such as `PNG`.
    pub fn name(self) -> &'static str {
        self.words().0
    }

    /// Name in ffmpeg of a video container.
    pub fn demuxer(self) -> Option<&'static str> {
        match self {
            Self::Mp4 => Some("mov"),
            Self::WebM => Some("matroska"),
            Self::Foreign(video) => Some(video.demuxer),
            _ => None,
        }
    }

    /// In words that fit behind "found".
    pub fn described(self) -> &'static str {
        self.words().1
    }
}

/// What a file of text is called.
pub(super) const TEXT: &str = "a text file";

/// As many bytes as [`sniff`] looks at.
const HEAD_BYTES: usize = 1024;
/// Bytes of the head that decide whether a file is text.
const TEXT_BYTES: usize = 512;

/// Beginnings of files, and what they mean.
const MAGIC: [(&[u8], Kind); 21] = [
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
    (b"version https://git-lfs", Kind::Other("a Git LFS pointer")),
];

const fn foreign(
    name: &'static str,
    described: &'static str,
    demuxer: &'static str,
) -> ForeignVideo {
    ForeignVideo {
        name,
        described,
        demuxer,
    }
}

static AVI: ForeignVideo = foreign("AVI", "an AVI video", "avi");
static MPEG_TS: ForeignVideo = foreign("MPEG-TS", "an MPEG transport stream", "mpegts");
static MPEG_PS: ForeignVideo = foreign("MPEG", "an MPEG video", "mpeg");
static MPEG_ES: ForeignVideo = foreign("MPEG", "an MPEG video", "mpegvideo");
static FLV: ForeignVideo = foreign("FLV", "a Flash video", "flv");
static ASF: ForeignVideo = foreign("WMV", "a Windows Media video", "asf");
static OGG: ForeignVideo = foreign("Ogg", "an Ogg video", "ogg");
static MXF: ForeignVideo = foreign("MXF", "an MXF video", "mxf");

/// Beginnings of videos for ffmpeg.
static FOREIGN_MAGIC: [(&[u8], &ForeignVideo); 6] = [
    (b"\0\0\x01\xba", &MPEG_PS),
    (b"\0\0\x01\xb3", &MPEG_ES),
    (b"FLV\x01", &FLV),
    (
        b"\x30\x26\xb2\x75\x8e\x66\xcf\x11\xa6\xd9\0\xaa\0\x62\xce\x6c",
        &ASF,
    ),
    (b"OggS\0", &OGG),
    (
        b"\x06\x0e\x2b\x34\x02\x05\x01\x01\x0d\x01\x02\x01\x01\x02",
        &MXF,
    ),
];

/// True for packets of 188 bytes, alone, behind a time code of 4 bytes (Blu-ray) or before 16 bytes of parity. A
/// recording may begin within a packet.
fn is_transport_stream(head: &[u8]) -> bool {
    const SYNC: u8 = 0x47;
    [188, 192, 204].into_iter().any(|packet| {
        (0..packet).any(|first| {
            let mut starts = head.iter().skip(first).step_by(packet);
            head.len() > first + 3 * packet && starts.all(|byte| *byte == SYNC)
        })
    })
}

pub(crate) fn sniff(head: &[u8]) -> Kind {
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *kind;
    }
    if head.starts_with(b"RIFF") {
        match head.get(8..12) {
            Some(b"WEBP") => return Kind::WebP,
            Some(b"AVI ") => return Kind::Foreign(&AVI),
            _ => {}
        }
    }
    let mut foreign = FOREIGN_MAGIC.iter();
    if let Some((_, video)) = foreign.find(|(magic, _)| head.starts_with(magic)) {
        return Kind::Foreign(video);
    }
    // Two letters alone are no proof: the four reserved bytes of a BMP are zero in practice, and
    // the header that follows has a known length.
    if head.starts_with(b"BM") && head.get(15..18) == Some(&[0, 0, 0]) {
        return Kind::Bmp;
    }
    if head.get(4..8) == Some(b"ftyp") {
        return match head.get(8..12) {
            Some(b"avif" | b"avis") => Kind::Avif,
            Some(b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"mif1" | b"msf1") => Kind::Heic,
            _ => Kind::Mp4,
        };
    }
    if matches!(
        head.get(4..8),
        Some(b"moov" | b"mdat" | b"wide" | b"free" | b"skip" | b"pnot")
    ) {
        return Kind::Mp4;
    }
    let beginning = head.get(..TEXT_BYTES).unwrap_or(head);
    let is_text = match std::str::from_utf8(beginning) {
        Ok(_) => true,
        // The head may end within a character.
        Err(err) => err.valid_up_to() + 4 > beginning.len() && err.error_len().is_none(),
    };
    if matches!(head, [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, ..]) {
        // UTF-16.
        return Kind::Other(TEXT);
    }
    if is_text && !beginning.contains(&0) {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let is_json = head.trim_ascii_start().starts_with(b"{");
        if is_json {
            Kind::Json
        } else {
            Kind::Other(TEXT)
        }
    } else if is_transport_stream(head) {
        Kind::Foreign(&MPEG_TS)
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
    let mut file = open_regular(path).map_err(failed)?;
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
        assert_eq!(sniff(b"RIFF\x10\0\0\0AVI LIST"), Kind::Foreign(&AVI));
        assert_eq!(sniff(b"OggS\0\x02"), Kind::Foreign(&OGG));
        assert_eq!(sniff(b"\0\0\0\x18ftypisom\0\0\0\0"), Kind::Mp4);
        assert_eq!(sniff(b"\0\0\0\x18ftypavif\0\0\0\0"), Kind::Avif);
        assert_eq!(
            sniff("BMW, a car; ünïcode".as_bytes()),
            Kind::Other("a text file")
        );
        assert_eq!(
            sniff(b"\0\x01\x02\xff\xfe"),
            Kind::Other("a file of another kind")
        );
    }

    #[test]
    fn transport_streams_are_recognised_by_their_packets_from_any_byte_on() {
        for (packet, first) in [(188, 0), (192, 4), (204, 0), (188, 100)] {
            let mut head = vec![0xff; HEAD_BYTES];
            for at in (first..HEAD_BYTES).step_by(packet) {
                head[at] = 0x47;
            }
            assert_eq!(sniff(&head), Kind::Foreign(&MPEG_TS), "{packet} {first}");
            head[first + 2 * packet] = 0;
            assert_eq!(sniff(&head), Kind::Other("a file of another kind"));
        }
    }
}
