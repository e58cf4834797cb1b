//! The texts in an MP4 or MOV: the items of its movie's metadata in the dialects that there are (iTunes' four letters,
//! iTunes' free form, QuickTime's keys, QuickTime's plain user data).
//!
//! Images among the items are passed over.

use std::io::{self, Read, Seek};

use super::{COMMENT, MAX_PART_BYTES, MetadataTexts, text_of};
use crate::formats::ByteSource;
use crate::formats::mp4::{self, BoxBytes, boxes, child};

/// Items of metadata, and boxes in one.
const MAX_ITEMS: usize = 1_000;
const MAX_IN_ITEM: usize = 16;
const MAX_NAME_BYTES: usize = 256;

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut MetadataTexts,
) -> io::Result<()> {
    let movie = mp4::movie(source)?;
    for (name, content) in boxes(&movie).take(MAX_ITEMS) {
        match &name {
            b"meta" => metadata(content, texts),
            b"udta" => user_data(content, texts),
            _ => {}
        }
    }
    Ok(())
}

fn user_data(udta: &[u8], texts: &mut MetadataTexts) {
    for (name, content) in boxes(udta).take(MAX_ITEMS) {
        if &name == b"meta" {
            metadata(content, texts);
        } else if name[0] == 0xa9
            && let Some((&[a, b, _, _], text)) = content.split_first_chunk()
        {
            // Its length and language, then the text itself.
            let len = usize::from(u16::from_be_bytes([a, b])).min(text.len());
            texts.push(name_of(name), text_of(&text[..len]));
        }
    }
}

fn metadata(meta: &[u8], texts: &mut MetadataTexts) {
    let meta = without_version(meta);
    let keys = child(meta, *b"keys").map(keys_of).unwrap_or_default();
    let list = child(meta, *b"ilst").unwrap_or_default();
    for (item, inside) in boxes(list).take(MAX_ITEMS) {
        let number = u32::from_be_bytes(item) as usize;
        let key = number.checked_sub(1).and_then(|index| keys.get(index));
        let mut name = key.map_or_else(|| name_of(item).to_owned(), Clone::clone);
        for (kind, content) in boxes(inside).take(MAX_IN_ITEM) {
            match (&kind, content.split_at_checked(4)) {
                // Behind a version.
                (b"name", Some((_, text))) => name = short_text(text),
                (b"data", _) => value(content, &name, texts),
                _ => {}
            }
        }
    }
}

/// Pushes a value that is a text and no image or number.
fn value(data: &[u8], name: &str, texts: &mut MetadataTexts) {
    // Its type and language; untyped or UTF-8.
    if let Some(([_, _, _, 0 | 1, ..], text)) = data.split_first_chunk::<8>()
        && text.len() as u64 <= MAX_PART_BYTES
    {
        texts.push(name, text_of(text));
    }
}

/// The names of a `keys` box, which the items call by number.
fn keys_of(keys: &[u8]) -> Vec<String> {
    // A version and the number of keys, followed by one box per key.
    let entries = boxes(keys.get(8..).unwrap_or_default());
    entries
        .take(MAX_ITEMS)
        .map(|(_, name)| short_text(name))
        .collect()
}

fn short_text(bytes: &[u8]) -> String {
    text_of(&bytes[..bytes.len().min(MAX_NAME_BYTES)])
}

/// The boxes in `meta`: QuickTime leaves the version out that MP4 has before them.
fn without_version(meta: &[u8]) -> &[u8] {
    match BoxBytes(meta).array::<8>() {
        Some([_, _, _, _, b'h', b'd', b'l', b'r']) | None => meta,
        Some(_) => &meta[4..],
    }
}

/// Meanings of the four letters of iTunes.
fn name_of(name: [u8; 4]) -> &'static str {
    match &name {
        &mp4::COMMENT => COMMENT,
        b"desc" | b"ldes" | b"\xa9des" | b"\xa9inf" => "description",
        b"\xa9nam" => "title",
        b"\xa9too" | b"\xa9swr" => "software",
        _ => "item",
    }
}
