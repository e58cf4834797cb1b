//! The settings in an MP4: the comment among the movie's items, wherever the movie box stands.

use std::io::{self, Read, Seek};

use super::{ByteSource, MAX_PARTS, settings_from_bytes};

/// Where a box's content begins and ends.
struct Span {
    start: u64,
    end: u64,
}

pub(super) fn settings<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<Option<String>> {
    let mut span = Span {
        start: 0,
        end: source.len,
    };
    for name in [b"moov", b"udta", b"meta", b"ilst", b"\xa9cmt", b"data"] {
        if span.start > 0 && name == b"ilst" {
            span.start += meta_header(source, &span)?;
        }
        match child(source, &span, *name)? {
            Some(found) => span = found,
            // A file that ends before its movie box is cut off; one without a comment is not ours.
            None if name == b"moov" => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => return Ok(None),
        }
    }
    // The value's type and language, which are not needed.
    let start = span.start + 8;
    if start > span.end {
        return Ok(None);
    }
    Ok(settings_from_bytes(
        &source.read_at(start, span.end - start)?,
    ))
}

/// The bytes before the first box in `meta`: QuickTime leaves the version out that MP4 has.
fn meta_header<R: Read + Seek>(source: &mut ByteSource<R>, meta: &Span) -> io::Result<u64> {
    if meta.end - meta.start < 8 {
        return Ok(0);
    }
    let [.., a, b, c, d] = source.array_at::<8>(meta.start)?;
    Ok(if &[a, b, c, d] == b"hdlr" { 0 } else { 4 })
}

/// The first box called `name` directly inside `parent`.
fn child<R: Read + Seek>(
    source: &mut ByteSource<R>,
    parent: &Span,
    name: [u8; 4],
) -> io::Result<Option<Span>> {
    let mut at = parent.start;
    for _ in 0..MAX_PARTS {
        if parent.end.saturating_sub(at) < 8 {
            return Ok(None);
        }
        let [a, b, c, d, found @ ..] = source.array_at::<8>(at)?;
        let (header, size) = match u32::from_be_bytes([a, b, c, d]) {
            0 => (8, parent.end - at),
            1 => (16, u64::from_be_bytes(source.array_at(at + 8)?)),
            size => (8, u64::from(size)),
        };
        let Some(end) = at
            .checked_add(size)
            .filter(|end| *end <= parent.end && size >= header)
        else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        if found == name {
            return Ok(Some(Span {
                start: at + header,
                end,
            }));
        }
        at = end;
    }
    Ok(None)
}
