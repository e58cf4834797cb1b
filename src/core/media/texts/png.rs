//! The texts in a PNG: `tEXt`, `zTXt` and `iTXt`, and those of its EXIF.

use std::io::{self, Read, Seek};

use super::super::metadata::{ByteSource, MAX_SETTINGS_BYTES, inflated};
use super::{Texts, exif, text_of, xmp};

/// So many chunks are looked at; a picture of a gigabyte has fewer.
const MAX_CHUNKS: usize = 1_000_000;

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut Texts,
) -> io::Result<()> {
    let mut at = 8;
    for _ in 0..MAX_CHUNKS {
        let [a, b, c, d, name @ ..] = source.array_at::<8>(at)?;
        let len = u64::from(u32::from_be_bytes([a, b, c, d]));
        match &name {
            b"IEND" => break,
            b"tEXt" | b"zTXt" | b"iTXt" | b"eXIf" if len <= MAX_SETTINGS_BYTES => {
                let data = source.read_at(at + 8, len)?;
                if &name == b"eXIf" {
                    exif::texts(&data, texts);
                } else {
                    chunk(name, &data, texts);
                }
            }
            _ => {}
        }
        // Its head, its data, its checksum.
        at += 12 + len;
    }
    Ok(())
}

fn chunk(kind: [u8; 4], data: &[u8], texts: &mut Texts) {
    let Some((keyword, rest)) = split_at_zero(data) else {
        return;
    };
    let content = match &kind {
        b"tEXt" => Some(rest.to_vec()),
        b"zTXt" => rest.get(1..).and_then(inflated),
        _ => international(rest),
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

/// The text behind the flags, the language and the translated keyword of an `iTXt`.
fn international(rest: &[u8]) -> Option<Vec<u8>> {
    let (flags, rest) = rest.split_at_checked(2)?;
    let (_, rest) = split_at_zero(rest)?;
    let (_, text) = split_at_zero(rest)?;
    if flags[0] == 0 {
        Some(text.to_vec())
    } else {
        inflated(text)
    }
}

fn split_at_zero(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}
