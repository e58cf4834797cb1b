//! The texts in a PNG: `tEXt`, `zTXt` and `iTXt`, and those of its EXIF.

use std::io::{self, Read, Seek};

use flate2::read::ZlibDecoder;

use super::{MetadataTexts, exif, is_short, text_of, xmp};
use crate::formats::{ByteSource, png};
use crate::media::MAX_SETTINGS_BYTES;

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut MetadataTexts,
) -> io::Result<()> {
    let mut chunks = png::chunks(source);
    while !texts.is_complete()
        && let Some(chunk) = chunks.next_part()?
    {
        if !is_short(&chunk) {
            continue;
        }
        match &chunk.name {
            b"tEXt" | b"zTXt" | b"iTXt" => push(chunk.name, &chunks.content(&chunk)?, texts),
            b"eXIf" => exif::texts(chunks.content(&chunk)?, texts),
            _ => {}
        }
    }
    Ok(())
}

fn push(kind: [u8; 4], data: &[u8], texts: &mut MetadataTexts) {
    let Some((keyword, rest)) = split_at_zero(data) else {
        return;
    };
    let content = match &kind {
        b"tEXt" => Some(rest.to_vec()),
        b"zTXt" => rest.get(1..).and_then(|packed| inflated(packed, texts)),
        _ => international(rest, texts),
    };
    let Some(content) = content else {
        return;
    };
    if keyword == b"XML:com.adobe.xmp" {
        xmp(&content, texts);
    } else {
        texts.push(&text_of(keyword), text_of(&content));
    }
}

/// The text after the flags, the language and the translated keyword of an `iTXt`.
fn international(rest: &[u8], texts: &mut MetadataTexts) -> Option<Vec<u8>> {
    let (flags, rest) = rest.split_at_checked(2)?;
    let (_, rest) = split_at_zero(rest)?;
    let (_, text) = split_at_zero(rest)?;
    if flags[0] == 0 {
        Some(text.to_vec())
    } else {
        inflated(text, texts)
    }
}

fn split_at_zero(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

/// The decompressed bytes, unless they are broken or more than settings may have.
fn inflated(bytes: &[u8], texts: &mut MetadataTexts) -> Option<Vec<u8>> {
    let room = texts.room_to_unpack()?;
    let mut out = Vec::new();
    let read = ZlibDecoder::new(bytes)
        .take(room.min(MAX_SETTINGS_BYTES) + 1)
        .read_to_end(&mut out);
    texts.num_unpacked += out.len();
    read.ok()?;
    (out.len() as u64 <= MAX_SETTINGS_BYTES).then_some(out)
}
