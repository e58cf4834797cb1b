//! The settings in a GIF: the comment that is a JSON object.

use std::io::{self, Read, Seek};

use super::{ByteSource, MAX_PARTS, MAX_SETTINGS_BYTES, settings_from_bytes};

const EXTENSION: u8 = 0x21;
const COMMENT: u8 = 0xfe;
const IMAGE: u8 = 0x2c;
const TRAILER: u8 = 0x3b;

pub(super) fn settings<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<Option<String>> {
    let [.., flags, _, _] = source.array_at::<13>(0)?;
    let mut at = 13 + palette_bytes(flags);
    for _ in 0..MAX_PARTS {
        let [kind] = source.array_at::<1>(at)?;
        match kind {
            EXTENSION => {
                let [label] = source.array_at::<1>(at + 1)?;
                let (end, content) = blocks(source, at + 2, label == COMMENT)?;
                if let Some(settings) = settings_from_bytes(&content) {
                    return Ok(Some(settings));
                }
                at = end;
            }
            IMAGE => {
                let [.., flags] = source.array_at::<10>(at)?;
                // Place, size and flags, the palette, and the width of the first code.
                let data = at + 10 + palette_bytes(flags) + 1;
                (at, _) = blocks(source, data, false)?;
            }
            TRAILER => return Ok(None),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    "it has an unknown block",
                ));
            }
        }
    }
    Ok(None)
}

fn palette_bytes(flags: u8) -> u64 {
    if flags & 0x80 == 0 {
        0
    } else {
        3 << ((flags & 7) + 1)
    }
}

/// Where a chain of blocks from `at` ends, and what is in it when it is wanted.
fn blocks<R: Read + Seek>(
    source: &mut ByteSource<R>,
    mut at: u64,
    is_wanted: bool,
) -> io::Result<(u64, Vec<u8>)> {
    let mut content = Vec::new();
    loop {
        let [len] = source.array_at::<1>(at)?;
        if len == 0 {
            return Ok((at + 1, content));
        }
        if is_wanted && content.len() as u64 <= MAX_SETTINGS_BYTES {
            content.extend(source.read_at(at + 1, len.into())?);
        }
        at += 1 + u64::from(len);
    }
}
