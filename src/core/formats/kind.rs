//! Format of a file by its first bytes.
//!
//! Extensions do not count, and nothing is decoded here.

use super::cut::transport_packets;

/// Format of a file by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileFormat {
    Png,
    Jpeg,
    WebP,
    Gif,
    Bmp,
    Tiff,
    Avif,
    Heic,
    Mp4,
    /// A video that only ffmpeg reads.
    Foreign(&'static ForeignVideo),
    Json,
    /// Any other file; a noun phrase that follows "found".
    Other(&'static str),
}

/// A video container that is recognised here and read through ffmpeg.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ForeignVideo {
    pub name: &'static str,
    /// Noun phrase that follows "found".
    pub described: &'static str,
    /// Name in ffmpeg.
    pub demuxer: &'static str,
}

impl FileFormat {
    /// Name of its files, and a description that follows "found".
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Png => ("PNG", "a PNG image"),
            Self::Jpeg => ("JPEG", "a JPEG image"),
            Self::WebP => ("WebP", "a WebP image"),
            Self::Gif => ("GIF", "a GIF image"),
            Self::Bmp => ("BMP", "a BMP image"),
            Self::Tiff => ("TIFF", "a TIFF image"),
            Self::Avif => ("AVIF", "an AVIF image"),
            Self::Heic => ("HEIC", "a HEIC image"),
            Self::Mp4 => ("MP4", "an MP4 video"),
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
            Self::Foreign(video) => Some(video.demuxer),
            _ => None,
        }
    }

    /// Noun phrase that follows "found".
    pub fn described(self) -> &'static str {
        self.words().1
    }
}

/// Formats of images that are read.
const IMAGES: [FileFormat; 8] = [
    FileFormat::Png,
    FileFormat::Jpeg,
    FileFormat::WebP,
    FileFormat::Gif,
    FileFormat::Bmp,
    FileFormat::Tiff,
    FileFormat::Avif,
    FileFormat::Heic,
];

/// Names of all formats of images that are read: "PNG, JPEG … or HEIC".
pub fn image_formats() -> String {
    listed(IMAGES.map(FileFormat::name).to_vec())
}

/// Names of all formats of videos that are read, some of which need ffmpeg.
pub fn video_formats() -> String {
    let mut names = vec![FileFormat::Mp4.name(), "MOV"];
    names.extend(FOREIGN.map(|video| video.name));
    names.dedup();
    listed(names)
}

fn listed(mut names: Vec<&str>) -> String {
    let last = names.pop().unwrap_or_default();
    format!("{} or {last}", names.join(", "))
}

/// Description of a text file.
pub(crate) const TEXT: &str = "a text file";
/// Description of a file without images.
pub(crate) const SOUND: &str = "a sound file";

/// As many bytes as [`sniff`] looks at.
pub(crate) const HEAD_BYTES: usize = 1024;
/// Bytes of the head that decide whether a file is text.
const TEXT_BYTES: usize = 512;

/// Beginnings of files, and what they mean.
const MAGIC: [(&[u8], FileFormat); 26] = [
    (b"\x89PNG\r\n\x1a\n", FileFormat::Png),
    (b"\xff\xd8\xff", FileFormat::Jpeg),
    (b"GIF87a", FileFormat::Gif),
    (b"GIF89a", FileFormat::Gif),
    (b"II\x2a\0", FileFormat::Tiff),
    (b"MM\0\x2a", FileFormat::Tiff),
    (b"II\x2b\0", FileFormat::Tiff),
    (b"MM\0\x2b", FileFormat::Tiff),
    (b"\0\0\0\x0cJXL ", FileFormat::Other("a JPEG XL image")),
    (b"\xff\x0a", FileFormat::Other("a JPEG XL image")),
    (b"\0\0\0\x0cjP  ", FileFormat::Other("a JPEG 2000 image")),
    (b"8BPS", FileFormat::Other("a Photoshop document")),
    (b"\x76\x2f\x31\x01", FileFormat::Other("an OpenEXR image")),
    (b"%PDF", FileFormat::Other("a PDF document")),
    (b"PK\x03\x04", FileFormat::Other("a ZIP archive")),
    (b"\x1f\x8b", FileFormat::Other("a gzip archive")),
    (b"<svg", FileFormat::Other("an SVG drawing")),
    (b"GGUF", FileFormat::Other("a GGUF model")),
    (b"qoif", FileFormat::Other("a QOI image")),
    (b"ID3", FileFormat::Other(SOUND)),
    (b"fLaC", FileFormat::Other(SOUND)),
    (b"\x0b\x77", FileFormat::Other(SOUND)),
    (b"#!AMR", FileFormat::Other(SOUND)),
    (b"MThd", FileFormat::Other(SOUND)),
    (b"wvpk", FileFormat::Other(SOUND)),
    (
        b"version https://git-lfs",
        FileFormat::Other("a Git LFS pointer"),
    ),
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
static WEBM: ForeignVideo = foreign("WebM", "a WebM video", MATROSKA);
static MKV: ForeignVideo = foreign("MKV", "a Matroska video", MATROSKA);

static FOREIGN: [&ForeignVideo; 10] = [
    &WEBM, &MKV, &AVI, &MPEG_TS, &MPEG_PS, &MPEG_ES, &FLV, &ASF, &OGG, &MXF,
];

/// Name of WebM and Matroska in ffmpeg.
pub(crate) const MATROSKA: &str = "matroska";
/// Bytes of an EBML header that name the type of document.
const DOCUMENT_BYTES: usize = 64;

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

pub(crate) fn sniff(head: &[u8]) -> FileFormat {
    if let Some((_, kind)) = MAGIC.iter().find(|(magic, _)| head.starts_with(magic)) {
        return *kind;
    }
    if head.starts_with(b"RIFF") || head.starts_with(b"FORM") {
        match head.get(8..12) {
            Some(b"WEBP") => return FileFormat::WebP,
            Some(b"AVI ") => return FileFormat::Foreign(&AVI),
            Some(b"WAVE" | b"AIFF" | b"AIFC") => return FileFormat::Other(SOUND),
            _ => {}
        }
    }
    if head.starts_with(b"\x1a\x45\xdf\xa3") {
        let header = head.get(..DOCUMENT_BYTES).unwrap_or(head);
        let is_webm = header.windows(4).any(|word| word == b"webm");
        return FileFormat::Foreign(if is_webm { &WEBM } else { &MKV });
    }
    // MP3 and AAC without a header begin with a frame.
    let is_frame = matches!(head, [0xff, 0xe2 | 0xe3 | 0xf0..=0xf3 | 0xf8..=0xfb, ..]);
    // The first packet of an Ogg file names its codec; the first page has one packet.
    let codecs = [&b"\x01vorbis"[..], b"OpusHead", b"\x7fFLAC", b"Speex"];
    let is_sound = |packet: &[u8]| codecs.iter().any(|codec| packet.starts_with(codec));
    if is_frame || (head.starts_with(b"OggS") && head.get(28..).is_some_and(is_sound)) {
        return FileFormat::Other(SOUND);
    }
    let mut foreign = FOREIGN_MAGIC.iter();
    if let Some((_, video)) = foreign.find(|(magic, _)| head.starts_with(magic)) {
        return FileFormat::Foreign(video);
    }
    // Two letters alone are no proof: the four reserved bytes of a BMP are zero in practice, and the header that
    // follows has a known length.
    if head.starts_with(b"BM") && head.get(15..18) == Some(&[0, 0, 0]) {
        return FileFormat::Bmp;
    }
    if head.get(4..8) == Some(b"ftyp") {
        return match head.get(8..12) {
            Some(b"avif" | b"avis") => FileFormat::Avif,
            Some(b"heic" | b"heix" | b"heim" | b"heis" | b"hevc" | b"mif1" | b"msf1") => {
                FileFormat::Heic
            }
            Some(b"M4A " | b"M4B " | b"M4P ") => FileFormat::Other(SOUND),
            _ => FileFormat::Mp4,
        };
    }
    if matches!(
        head.get(4..8),
        Some(b"moov" | b"mdat" | b"wide" | b"free" | b"skip" | b"pnot")
    ) {
        return FileFormat::Mp4;
    }
    let beginning = head.get(..TEXT_BYTES).unwrap_or(head);
    let is_text = match std::str::from_utf8(beginning) {
        Ok(_) => true,
        // The head may end within a character.
        Err(err) => err.valid_up_to() + 4 > beginning.len() && err.error_len().is_none(),
    };
    if matches!(head, [0xff, 0xfe, _, 0, ..] | [0xfe, 0xff, 0, ..]) {
        // UTF-16.
        return FileFormat::Other(TEXT);
    }
    if is_text && !beginning.contains(&0) {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let is_json = head.trim_ascii_start().starts_with(b"{");
        if is_json {
            FileFormat::Json
        } else {
            FileFormat::Other(TEXT)
        }
    } else if transport_packets(head).is_some() {
        FileFormat::Foreign(&MPEG_TS)
    } else {
        FileFormat::Other("a file of another kind")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_formats_are_detected_from_their_content() {
        assert_eq!(sniff(b"RIFF\x10\0\0\0WEBPVP8 "), FileFormat::WebP);
        assert_eq!(sniff(b"RIFF\x10\0\0\0AVI LIST"), FileFormat::Foreign(&AVI));
        assert_eq!(sniff(b"OggS\0\x02"), FileFormat::Foreign(&OGG));
        let ebml =
            |document: &[u8]| sniff(&[b"\x1a\x45\xdf\xa3\x93\x42\x82\x88", document].concat());
        assert_eq!(ebml(b"webm"), FileFormat::Foreign(&WEBM));
        assert_eq!(ebml(b"matroska"), FileFormat::Foreign(&MKV));
        assert_eq!(sniff(b"\0\0\0\x18ftypisom\0\0\0\0"), FileFormat::Mp4);
        assert_eq!(sniff(b"\0\0\0\x18ftypavif\0\0\0\0"), FileFormat::Avif);
        let vorbis = [&b"OggS\0\x02"[..], &[0; 22], b"\x01vorbis\0"].concat();
        let sounds: [&[u8]; 6] = [
            b"ID3\x04\0",
            b"\xff\xfb\x90\x64",
            b"fLaC\0",
            b"RIFF\x10\0\0\0WAVEfmt ",
            b"\0\0\0\x18ftypM4A \0\0\0\0",
            &vorbis,
        ];
        for sound in sounds {
            assert_eq!(sniff(sound), FileFormat::Other(SOUND), "{sound:?}");
        }
        assert_eq!(
            sniff("BMW, a car; ünïcode".as_bytes()),
            FileFormat::Other("a text file")
        );
        assert_eq!(
            sniff(b"\0\x01\x02\xff\xfe"),
            FileFormat::Other("a file of another kind")
        );
    }

    #[test]
    fn transport_streams_are_recognised_by_their_packets_from_any_byte_on() {
        for (packet, first) in [(188, 0), (192, 4), (204, 0), (188, 100)] {
            let mut head = vec![0xff; HEAD_BYTES];
            for at in (first..HEAD_BYTES).step_by(packet) {
                head[at] = 0x47;
            }
            assert_eq!(
                sniff(&head),
                FileFormat::Foreign(&MPEG_TS),
                "{packet} {first}"
            );
            head[first + 2 * packet] = 0;
            assert_eq!(sniff(&head), FileFormat::Other("a file of another kind"));
        }
    }
}
