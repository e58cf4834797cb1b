//! All texts that travel in a file, with their names: in a picture, a clip, a JSON file or a plain text.
//!
//! What they mean is [`crate::restore`]'s to say; no pixel is looked at. Files are not trusted: every length is
//! checked against the file's own and against a limit before it is read, and what is broken ends the search with
//! what was found until then.

mod exif;
mod jpeg;
mod mp4;
mod png;
mod webm;
mod webp;

use std::io::{self, BufReader, Read, Seek};
use std::path::Path;

use super::kind::{self, Kind};
use super::metadata::{ByteSource, MAX_SETTINGS_BYTES};
use super::{MediaError, metadata};

/// More texts, or longer ones in all, no file needs.
const MAX_TEXTS: usize = 256;
const MAX_BYTES: usize = 4 * MAX_SETTINGS_BYTES as usize;

/// One text and what the file calls it: `parameters`, `UserComment`, `comment`; empty for a file that is one text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text {
    pub name: String,
    pub text: String,
}

/// What has been found.
#[derive(Default)]
struct Texts {
    found: Vec<Text>,
    num_bytes: usize,
}

impl Texts {
    fn push(&mut self, name: &str, text: String) {
        let num_bytes = self.num_bytes + text.len() + name.len();
        if self.found.len() < MAX_TEXTS && num_bytes <= MAX_BYTES && !text.trim().is_empty() {
            self.num_bytes = num_bytes;
            let name = name.to_owned();
            self.found.push(Text { name, text });
        }
    }
}

/// The texts in the file at `path`: none where it is of a kind that carries none.
pub fn read_texts(path: &Path) -> Result<Vec<Text>, MediaError> {
    let opened = kind::open_file(path, "read the texts")?;
    let mut source = ByteSource {
        reader: BufReader::new(opened.file),
        len: opened.len,
    };
    let mut texts = Texts::default();
    let searched = match opened.kind {
        Kind::Png => png::texts(&mut source, &mut texts),
        Kind::Jpeg => jpeg::texts(&mut source, &mut texts),
        Kind::WebP => webp::texts(&mut source, &mut texts),
        Kind::Mp4 => mp4::texts(&mut source, &mut texts),
        Kind::WebM => webm::texts(&mut source, &mut texts),
        Kind::Json => whole(&mut source, &mut texts),
        Kind::Other(what) if what == kind::TEXT => whole(&mut source, &mut texts),
        Kind::Gif | Kind::Bmp | Kind::Tiff | Kind::Other(_) => Ok(()),
    };
    match searched {
        Err(err) if is_of_disk(&err) => Err(MediaError::from_io("read the texts", err, path)),
        // What is damaged or cut off may still have said something before.
        _ => Ok(texts.found),
    }
}

/// Whether the disk is at fault, and not what the file says.
fn is_of_disk(err: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    !matches!(err.kind(), InvalidData | UnexpectedEof)
}

fn whole<R: Read + Seek>(source: &mut ByteSource<R>, texts: &mut Texts) -> io::Result<()> {
    if source.len <= MAX_SETTINGS_BYTES {
        let bytes = source.read_at(0, source.len)?;
        texts.push("", text_of(&bytes));
    }
    Ok(())
}

/// UTF-8 where it is that, else Latin-1: careless programs write both into the same places.
fn text_of(bytes: &[u8]) -> String {
    let bytes = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes);
    let text = match str::from_utf8(bytes) {
        Ok(text) => text.to_owned(),
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect(),
    };
    // C programs count the byte behind a text to it.
    match text.trim_end_matches('\0').len() {
        len if len == text.len() => text,
        len => text[..len].to_owned(),
    }
}

/// What an XMP packet keeps as text for people, with its entities put back.
fn xmp(packet: &[u8], texts: &mut Texts) {
    let Ok(packet) = str::from_utf8(packet) else {
        return;
    };
    for name in ["exif:UserComment", "dc:description"] {
        let Some((_, rest)) = packet.split_once(&format!("<{name}>")) else {
            continue;
        };
        let Some((inside, _)) = rest.split_once(&format!("</{name}>")) else {
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
        texts.push(name, metadata::unescaped(text));
    }
}

#[cfg(test)]
mod tests;
