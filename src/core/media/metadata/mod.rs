//! Texts embedded in a file, with their names: our settings and other programs', from an image, a video, a JSON file or
//! a plain text.
//!
//! [`crate::restore`] interprets them; pixels are not decoded. Files are untrusted: the readers of [`crate::formats`]
//! check every length before anything is read, and texts are limited in length and number.

mod exif;
mod gif;
mod jpeg;
mod mp4;
mod png;
mod webm;
mod webp;

use std::fs::File;
use std::io;
use std::path::Path;

use serde::de::IgnoredAny;

use super::{MediaError, MediaErrorKind};
use crate::formats::kind::{self, FileFormat};
use crate::formats::{ByteSource, FilePart};
use crate::media::MAX_SETTINGS_BYTES;
use crate::media::opened::open_file;
use crate::units::size_text;

/// Name of the settings in images: the keyword of a PNG text, the name before a JPEG comment.
pub(super) const OWN_NAME: &str = "safelight";
/// Start of JPEG comments with the parts of the settings.
pub(super) const JPEG_PREFIX: &[u8] = b"safelight:";
/// The element of our own in the XMP of a WebP file.
pub(super) const XMP_ELEMENT: &str = "safelight:settings";
/// Name of the text in videos, as players and other programs have it.
const COMMENT: &str = "comment";

/// A longer part of a file holds no text: settings, with the room that their container needs for names and entities.
const MAX_PART_BYTES: u64 = 2 * MAX_SETTINGS_BYTES;
/// More texts, or longer ones in all, no file needs.
const MAX_TEXTS: usize = 256;
const MAX_BYTES: usize = 4 * MAX_SETTINGS_BYTES as usize;

/// Of the compressed ones among them.
const MAX_UNPACKED_BYTES: usize = 2 * MAX_SETTINGS_BYTES as usize;

/// One text and what the file calls it: `parameters`, `UserComment`, `comment`; empty for a file that is one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetadataText {
    pub name: String,
    pub text: String,
}

#[derive(Default)]
struct MetadataTexts {
    /// The name of the settings where nothing else is looked for.
    wanted: Option<&'static str>,
    found: Vec<MetadataText>,
    num_bytes: usize,
    /// Of compressed texts, whether or not they were kept.
    num_unpacked: usize,
}

impl MetadataTexts {
    /// Bytes that may still be decompressed; `None` if the limit is reached.
    fn room_to_unpack(&self) -> Option<u64> {
        let room = MAX_UNPACKED_BYTES.checked_sub(self.num_unpacked)?;
        (room > 0).then_some(room as u64)
    }

    fn push(&mut self, name: &str, text: String) {
        let num_bytes = self.num_bytes + text.len() + name.len();
        let is_asked_for = match self.wanted {
            Some(wanted) => name == wanted && is_settings(&text),
            None => !text.trim().is_empty(),
        };
        if is_asked_for && !self.is_complete() && num_bytes <= MAX_BYTES {
            self.num_bytes = num_bytes;
            let name = name.to_owned();
            self.found.push(MetadataText { name, text });
        }
    }

    fn is_complete(&self) -> bool {
        let most = self.wanted.map_or(MAX_TEXTS, |_| 1);
        self.found.len() >= most
    }
}

/// The settings inside the file at `path`, as the JSON object that was put there, or nothing when the file carries
/// none.
pub fn read_settings(path: &Path) -> Result<Option<String>, MediaError> {
    let opened = open_file(path, "read the settings")?;
    let no_carrier = |found: &str| {
        let sentence = format_args!(
            "this is {found}, which carries no settings; use an image, a video or a JSON file"
        );
        Err(MediaError::of_kind(
            MediaErrorKind::NoCarrier,
            sentence,
            path,
        ))
    };
    if opened.len == 0 {
        return no_carrier("an empty file");
    }
    let name = match opened.kind {
        FileFormat::Png | FileFormat::Jpeg | FileFormat::WebP => OWN_NAME,
        FileFormat::Gif | FileFormat::Mp4 | FileFormat::Foreign(_) => COMMENT,
        // Safelight writes none of these.
        FileFormat::Bmp | FileFormat::Tiff | FileFormat::Avif | FileFormat::Heic => {
            return Ok(None);
        }
        FileFormat::Json => return read_json(opened.file, opened.len, path).map(Some),
        FileFormat::Other(words) => return no_carrier(words),
    };
    let mut texts = MetadataTexts {
        wanted: Some(name),
        ..MetadataTexts::default()
    };
    let mut source = ByteSource::new(opened.file, opened.len);
    match search(opened.kind, &mut source, &mut texts) {
        Ok(()) => Ok(texts.found.pop().map(|settings| settings.text)),
        Err(err) if err.kind() == io::ErrorKind::UnexpectedEof => {
            Err(MediaError::truncated(opened.kind.name(), path))
        }
        Err(err) => Err(MediaError::from_io("read the settings", &err, path)),
    }
}

/// All texts in the file at `path`: none where it is of a kind that carries none. What is broken ends the search with
/// what was found until then.
pub fn read_texts(path: &Path) -> Result<Vec<MetadataText>, MediaError> {
    let opened = open_file(path, "read the texts")?;
    let mut texts = MetadataTexts::default();
    let mut source = ByteSource::new(opened.file, opened.len);
    match search(opened.kind, &mut source, &mut texts) {
        Err(err) if is_of_disk(&err) => Err(MediaError::from_io("read the texts", &err, path)),
        // Texts before damaged or missing data are used.
        _ => Ok(texts.found),
    }
}

fn search(
    kind: FileFormat,
    source: &mut ByteSource<File>,
    texts: &mut MetadataTexts,
) -> io::Result<()> {
    match kind {
        FileFormat::Png => png::texts(source, texts),
        FileFormat::Jpeg => jpeg::texts(source, texts),
        FileFormat::WebP => webp::texts(source, texts),
        FileFormat::Gif => gif::texts(source, texts),
        FileFormat::Mp4 => mp4::texts(source, texts),
        FileFormat::Foreign(video) if video.demuxer == kind::MATROSKA => webm::texts(source, texts),
        FileFormat::Json | FileFormat::Other(kind::TEXT) => {
            if source.len <= MAX_SETTINGS_BYTES {
                let bytes = source.read_at(0, source.len)?;
                texts.push("", text_of(&bytes));
            }
            Ok(())
        }
        // The file is one block.
        FileFormat::Tiff => {
            exif::texts(source.read_at(0, source.len)?, texts);
            Ok(())
        }
        FileFormat::Avif | FileFormat::Heic => {
            exif::heif_texts(source.reader()?, texts);
            Ok(())
        }
        FileFormat::Bmp | FileFormat::Foreign(_) | FileFormat::Other(_) => Ok(()),
    }
}

/// Returns true if the disk is at fault, and not what the file says.
fn is_of_disk(err: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    !matches!(err.kind(), InvalidData | UnexpectedEof)
}

fn read_json(file: File, len: u64, path: &Path) -> Result<String, MediaError> {
    if len > MAX_SETTINGS_BYTES {
        return Err(MediaError::settings(&size_text(len), path));
    }
    let bytes = ByteSource::new(file, len)
        .read_at(0, len)
        .map_err(|err| MediaError::from_io("read the settings", &err, path))?;
    let text = text_of(&bytes);
    if is_settings(&text) {
        Ok(text)
    } else {
        Err(MediaError::settings("something else", path))
    }
}

/// A JSON object of a bearable length: people write other comments too.
fn is_settings(text: &str) -> bool {
    text.len() as u64 <= MAX_SETTINGS_BYTES && is_json_object(text)
}

pub(super) fn is_json_object(text: &str) -> bool {
    // Read without being built, so nesting costs no stack.
    text.trim_start().starts_with('{') && serde_json::from_str::<IgnoredAny>(text).is_ok()
}

/// UTF-16 after its mark, UTF-8 where it is that, else Latin-1: careless programs write all of them in the same places.
fn text_of(bytes: &[u8]) -> String {
    if let [0xff, 0xfe, ..] | [0xfe, 0xff, ..] = bytes {
        return exif::utf16(bytes, bytes[0] == 0xff);
    }
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let mut text = match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    // C programs count the zero byte after a text to it.
    text.truncate(text.trim_end_matches('\0').len());
    text
}

fn is_short<N>(part: &FilePart<N>) -> bool {
    part.len() <= MAX_PART_BYTES
}

/// Texts for people in an XMP packet, and our own settings.
fn xmp(packet: &[u8], texts: &mut MetadataTexts) {
    let Ok(packet) = str::from_utf8(packet) else {
        return;
    };
    for (element, name) in [
        (XMP_ELEMENT, OWN_NAME),
        ("exif:UserComment", "exif:UserComment"),
        ("dc:description", "dc:description"),
    ] {
        let behind = packet.split_once(&format!("<{element}>"));
        let inside = behind.and_then(|(_, rest)| rest.split_once(&format!("</{element}>")));
        // Or in short, as an attribute.
        let inside = inside.or_else(|| {
            let (_, rest) = packet.split_once(&format!(" {element}="))?;
            let mark = rest.chars().next().filter(|mark| "\"'".contains(*mark))?;
            rest[1..].split_once(mark)
        });
        let Some((inside, _)) = inside else {
            continue;
        };
        // `<rdf:Alt><rdf:li xml:lang="x-default">…</rdf:li></rdf:Alt>`
        let text = match inside.split_once("<rdf:li") {
            Some((_, item)) => item
                .split_once('>')
                .and_then(|(_, text)| text.split_once("</rdf:li>"))
                .map_or("", |(text, _)| text),
            None => inside,
        };
        texts.push(name, htmlize::unescape(text).into_owned());
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
pub(crate) use tests::files as test_files;
