//! The texts in a WebP file: its EXIF and its XMP.

use std::io::{self, Read, Seek};

use super::super::metadata::{ByteSource, MAX_SETTINGS_BYTES};
use super::{Texts, exif, xmp};

/// A clip has a chunk for each frame.
const MAX_CHUNKS: usize = 1_000_000;

pub(super) fn texts<R: Read + Seek>(
    source: &mut ByteSource<R>,
    texts: &mut Texts,
) -> io::Result<()> {
    let mut at = 12;
    for _ in 0..MAX_CHUNKS {
        if at + 8 > source.len {
            break;
        }
        let [name @ .., a, b, c, d] = source.array_at::<8>(at)?;
        let len = u64::from(u32::from_le_bytes([a, b, c, d]));
        if matches!(&name, b"EXIF" | b"XMP ") && len <= MAX_SETTINGS_BYTES {
            let data = source.read_at(at + 8, len)?;
            if &name == b"EXIF" {
                exif::texts(&data, texts);
            } else {
                xmp(&data, texts);
            }
        }
        at += 8 + len.next_multiple_of(2);
    }
    Ok(())
}
