//! The texts in a block of EXIF: the user's comment in each of its encodings, the description, and the tags that
//! `ComfyUI` puts its graphs into.
//!
//! The block itself is read by `kamadak-exif`, which believes no length and walks no circle.

use std::io::{BufRead, Seek};

use ::exif::{Context, Error, Exif, In, Reader, Tag, Value};

use super::{MetadataTexts, text_of};

/// Start of the block in a JPEG, and in the WebP files of careless programs.
pub(super) const PREFIX: &[u8] = b"Exif\0\0";

/// Windows' own comment, always in UTF-16.
const XP_COMMENT: Tag = Tag(Context::Tiff, 0x9c9c);
/// Offset of the user's comment in files of programs without directories.
const OUTER_COMMENT: Tag = Tag(Context::Tiff, Tag::UserComment.1);

const TAGS: [(Tag, &str); 6] = [
    (Tag::ImageDescription, "ImageDescription"),
    (Tag::Make, "Make"),
    (Tag::Model, "Model"),
    (XP_COMMENT, "XPComment"),
    (OUTER_COMMENT, "UserComment"),
    (Tag::UserComment, "UserComment"),
];

/// Pushes what the block says; what does not hold together is passed over.
pub(super) fn texts(mut block: Vec<u8>, texts: &mut MetadataTexts) {
    if block.starts_with(PREFIX) {
        block.drain(..PREFIX.len());
    }
    push_read(Reader::new().continue_on_error(true).read_raw(block), texts);
}

/// Pushes what the block in a HEIF file says.
pub(super) fn heif_texts(file: &mut (impl BufRead + Seek), texts: &mut MetadataTexts) {
    let mut reader = Reader::new();
    push_read(
        reader.continue_on_error(true).read_from_container(file),
        texts,
    );
}

fn push_read(read: Result<Exif, Error>, texts: &mut MetadataTexts) {
    let Ok(exif) = read.or_else(|err| err.distill_partial_result(|_| ())) else {
        return;
    };
    for (tag, name) in TAGS {
        let value = exif.get_field(tag, In::PRIMARY).map(|field| &field.value);
        let value = match value {
            Some(Value::Byte(bytes) | Value::Undefined(bytes, _)) => bytes.clone(),
            // Texts with a zero after each.
            Some(Value::Ascii(parts)) => parts.join(&0),
            _ => continue,
        };
        match tag {
            XP_COMMENT => texts.push(name, utf16(&value, true)),
            Tag::UserComment | OUTER_COMMENT => {
                texts.push(name, user_comment(&value, exif.little_endian()));
            }
            _ => push(name, text_of(&value), texts),
        }
    }
}

fn push(name: &str, text: String, texts: &mut MetadataTexts) {
    // `prompt:{…}`: a tag without a meaning, with a name as prefix.
    match text.split_once(':') {
        Some((name @ ("prompt" | "workflow"), graph)) if graph.starts_with('{') => {
            texts.push(name, graph.to_owned());
        }
        _ => texts.push(name, text),
    }
}

/// The comment after the eight bytes of its encoding, which some name wrongly.
fn user_comment(value: &[u8], is_block_little: bool) -> String {
    let text = match value.split_at_checked(8) {
        Some((
            b"UNICODE\0" | b"ASCII\0\0\0" | b"JIS\0\0\0\0\0" | &[0, 0, 0, 0, 0, 0, 0, 0],
            text,
        )) => text,
        _ => value,
    };
    let end = text
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    let num_zeros = text[..end]
        .iter()
        .copied()
        .filter(|byte| *byte == 0)
        .count();
    let is_utf16 = if value.starts_with(b"UNICODE\0") {
        num_zeros > 0 || str::from_utf8(text).is_err()
    } else {
        num_zeros > end / 4
    };
    let has_mark = text.starts_with(&[0xff, 0xfe]) || text.starts_with(&[0xfe, 0xff]);
    if is_utf16 && !has_mark {
        utf16(text, is_little_endian(text, is_block_little))
    } else {
        text_of(text)
    }
}

/// Byte order of each letter. The standard leaves it to the block, but the most used writer always puts the large half
/// first; so the zeros next to the Latin letters decide.
fn is_little_endian(text: &[u8], is_block_little: bool) -> bool {
    let zeros = |offset: usize| text.iter().skip(offset).step_by(2).take(4096);
    let first = zeros(0).filter(|byte| **byte == 0).count();
    let second = zeros(1).filter(|byte| **byte == 0).count();
    match first.cmp(&second) {
        std::cmp::Ordering::Less => true,
        std::cmp::Ordering::Greater => false,
        std::cmp::Ordering::Equal => is_block_little,
    }
}

pub(super) fn utf16(bytes: &[u8], is_little: bool) -> String {
    let units = bytes.chunks_exact(2).map(|pair| {
        let pair = [pair[0], pair[1]];
        if is_little {
            u16::from_le_bytes(pair)
        } else {
            u16::from_be_bytes(pair)
        }
    });
    let text: String = char::decode_utf16(units)
        .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect();
    text.trim_matches(['\u{feff}', '\0']).to_owned()
}
