//! The chunks of a WebP file.

use std::io::{self, Read, Seek};

use super::{ByteSource, Part, Parts};

/// `RIFF`, the size of what follows, `WEBP`.
const HEAD_BYTES: u64 = 12;

/// Where the file ends by its own header: behind its true end when it is cut off.
pub(crate) fn end<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<u64> {
    let size = u32::from_le_bytes(source.array_at(4)?);
    Ok(u64::from(size) + 8)
}

pub(crate) fn chunks<R: Read + Seek>(
    source: &mut ByteSource<R>,
) -> io::Result<Parts<'_, R, [u8; 4]>> {
    let all = (HEAD_BYTES, end(source)?);
    Ok(Parts::new(source, all, |source, at, end| {
        if at + 8 > end {
            return Ok(None);
        }
        let [name @ .., a, b, c, d] = source.array_at::<8>(at)?;
        let len = u64::from(u32::from_le_bytes([a, b, c, d]));
        let start = at + 8;
        let part = Part {
            name,
            start,
            end: start + len,
        };
        Ok(Some((part, start + len.next_multiple_of(2))))
    }))
}
