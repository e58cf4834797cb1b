//! The elements of a WebM or Matroska file, and their names.

use std::io::{self, Read, Seek};

use super::{ByteSource, FilePart, FileParts, cut_off, invalid};

/// Sequence of elements; containers are skipped unless they are entered. An element of unknown length has no end: its
/// content follows it.
pub(crate) fn elements<R: Read + Seek>(source: &mut ByteSource<R>) -> FileParts<'_, R, u32> {
    let all = (0, source.len);
    FileParts::new(source, all, |source, at, end| {
        if at >= end {
            return Ok(None);
        }
        let (name, name_bytes) = number_at(source, at, 4)?;
        let (size, size_bytes) = number_at(source, at + name_bytes, 8)?;
        let start = at + name_bytes + size_bytes;
        let mask = (1 << (7 * size_bytes)) - 1;
        let size = size & mask;
        if size == mask {
            let name = name as u32;
            return Ok(Some((FilePart { name, start, end }, start)));
        }
        let part = FilePart {
            name: name as u32,
            start,
            end: start.checked_add(size).ok_or_else(cut_off)?,
        };
        if part.end > end {
            return Err(cut_off());
        }
        Ok(Some((part, part.end)))
    })
}

/// A number whose leading zero bits give its count of bytes, with the bit after them, and that count.
fn number_at<R: Read + Seek>(
    source: &mut ByteSource<R>,
    at: u64,
    longest: u32,
) -> io::Result<(u64, u64)> {
    let [first] = source.array_at::<1>(at)?;
    let length = first.leading_zeros() + 1;
    if length > longest {
        return Err(invalid("it has a name without end"));
    }
    let length = u64::from(length);
    let bytes = source.read_at(at, length)?;
    let number = bytes
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    Ok((number, length))
}

/// Names of elements, from the Matroska specification.
pub(crate) mod id {
    pub const SEGMENT: u32 = 0x1853_8067;
    pub const TAGS: u32 = 0x1254_C367;
    pub const TAG: u32 = 0x7373;
    pub const SIMPLE_TAG: u32 = 0x67C8;
    pub const TAG_NAME: u32 = 0x45A3;
    pub const TAG_STRING: u32 = 0x4487;
}
