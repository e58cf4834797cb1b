//! The texts in an MP4 or MOV: the items of its movie's metadata in the dialects that there are (iTunes' four letters,
//! iTunes' free form, QuickTime's keys, QuickTime's plain user data).
//!
//! Pictures among the items are passed over.

use std::io::{self, Read, Seek};

use super::super::metadata::{ByteSource, MAX_SETTINGS_BYTES};
use super::{Texts, text_of};

/// Boxes beside each other that are looked at: fragments of a long stream stand beside the movie.
const MAX_BOXES: usize = 200_000;
/// Items of metadata.
const MAX_ITEMS: usize = 1_000;

/// A box's name, and where its content begins and ends.
struct Part {
    name: [u8; 4],
    start: u64,
    end: u64,
}

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut Texts,
) -> io::Result<()> {
    let file = (0, source.len);
    let Some(movie) = first(source, file, *b"moov")? else {
        return Ok(());
    };
    for part in parts(source, (movie.start, movie.end), MAX_ITEMS)? {
        match &part.name {
            b"meta" => metadata(source, &part, texts)?,
            b"udta" => user_data(source, &part, texts)?,
            _ => {}
        }
    }
    Ok(())
}

fn user_data<R: Read + Seek>(
    source: &mut ByteSource<R>,
    udta: &Part,
    texts: &mut Texts,
) -> io::Result<()> {
    for part in parts(source, (udta.start, udta.end), MAX_ITEMS)? {
        if &part.name == b"meta" {
            metadata(source, &part, texts)?;
        } else if part.name[0] == 0xa9 && part.end - part.start > 4 {
            // Its length and language, then the text itself.
            let [a, b, _, _] = source.array_at::<4>(part.start)?;
            let len = u64::from(u16::from_be_bytes([a, b]));
            let len = len.min(part.end - part.start - 4);
            let text = text_of(&source.read_at(part.start + 4, len)?);
            texts.push(name_of(part.name), text);
        }
    }
    Ok(())
}

fn metadata<R: Read + Seek>(
    source: &mut ByteSource<R>,
    meta: &Part,
    texts: &mut Texts,
) -> io::Result<()> {
    let start = meta.start + header_bytes(source, meta)?;
    let inside = parts(source, (start, meta.end), MAX_ITEMS)?;
    let find = |name: &[u8; 4]| inside.iter().find(|part| &part.name == name);
    let keys = match find(b"keys") {
        Some(keys) => keys_of(source, keys)?,
        None => Vec::new(),
    };
    let Some(list) = find(b"ilst") else {
        return Ok(());
    };
    for item in parts(source, (list.start, list.end), MAX_ITEMS)? {
        let number = u32::from_be_bytes(item.name) as usize;
        let key = number.checked_sub(1).and_then(|index| keys.get(index));
        let mut name = key.map_or_else(|| name_of(item.name).to_owned(), Clone::clone);
        for part in parts(source, (item.start, item.end), 16)? {
            match &part.name {
                // Behind a version.
                b"name" if part.end - part.start > 4 => {
                    let len = (part.end - part.start - 4).min(256);
                    name = text_of(&source.read_at(part.start + 4, len)?);
                }
                b"data" => value(source, &part, &name, texts)?,
                _ => {}
            }
        }
    }
    Ok(())
}

/// Pushes a value that is a text and no picture or number.
fn value<R: Read + Seek>(
    source: &mut ByteSource<R>,
    data: &Part,
    name: &str,
    texts: &mut Texts,
) -> io::Result<()> {
    let len = (data.end - data.start).saturating_sub(8);
    if len == 0 || len > MAX_SETTINGS_BYTES {
        return Ok(());
    }
    let [_, _, _, kind, ..] = source.array_at::<8>(data.start)?;
    // Untyped or UTF-8.
    if kind <= 1 {
        texts.push(name, text_of(&source.read_at(data.start + 8, len)?));
    }
    Ok(())
}

/// The names of a `keys` box, which the items call by number.
fn keys_of<R: Read + Seek>(source: &mut ByteSource<R>, keys: &Part) -> io::Result<Vec<String>> {
    // A version and the number of keys; then each is as a box of its own.
    let entries = parts(source, (keys.start + 8, keys.end), MAX_ITEMS)?;
    let mut names = Vec::with_capacity(entries.len());
    for entry in entries {
        let len = (entry.end - entry.start).min(256);
        names.push(text_of(&source.read_at(entry.start, len)?));
    }
    Ok(names)
}

/// The bytes before the first box in `meta`: QuickTime leaves the version out that MP4 has.
fn header_bytes<R: Read + Seek>(source: &mut ByteSource<R>, meta: &Part) -> io::Result<u64> {
    if meta.end - meta.start < 8 {
        return Ok(0);
    }
    let [.., a, b, c, d] = source.array_at::<8>(meta.start)?;
    Ok(if &[a, b, c, d] == b"hdlr" { 0 } else { 4 })
}

/// What the four letters of iTunes stand for.
fn name_of(name: [u8; 4]) -> &'static str {
    match &name {
        b"\xa9cmt" => "comment",
        b"desc" | b"ldes" | b"\xa9des" | b"\xa9inf" => "description",
        b"\xa9nam" => "title",
        b"\xa9too" | b"\xa9swr" => "software",
        _ => "item",
    }
}

/// The first box of this name, without keeping the others.
fn first<R: Read + Seek>(
    source: &mut ByteSource<R>,
    (mut at, end): (u64, u64),
    name: [u8; 4],
) -> io::Result<Option<Part>> {
    for _ in 0..MAX_BOXES {
        match next(source, at, end)? {
            Some(part) if part.name == name => return Ok(Some(part)),
            Some(part) => at = part.end,
            None => break,
        }
    }
    Ok(None)
}

/// The boxes beside each other, up to `most`.
fn parts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    (mut at, end): (u64, u64),
    most: usize,
) -> io::Result<Vec<Part>> {
    let mut parts = Vec::new();
    while parts.len() < most
        && let Some(part) = next(source, at, end)?
    {
        at = part.end;
        parts.push(part);
    }
    Ok(parts)
}

/// The box at `at`, when there is room for one.
fn next<R: Read + Seek>(source: &mut ByteSource<R>, at: u64, end: u64) -> io::Result<Option<Part>> {
    if end.saturating_sub(at) < 8 {
        return Ok(None);
    }
    let [a, b, c, d, name @ ..] = source.array_at::<8>(at)?;
    let (header, size) = match u32::from_be_bytes([a, b, c, d]) {
        0 => (8, end - at),
        1 => (16, u64::from_be_bytes(source.array_at(at + 8)?)),
        size => (8, u64::from(size)),
    };
    let part_end = at.checked_add(size);
    match part_end.filter(|part_end| *part_end <= end && size >= header) {
        Some(part_end) => Ok(Some(Part {
            name,
            start: at + header,
            end: part_end,
        })),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}
