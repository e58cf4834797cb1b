//! The elements of a WebM or Matroska file, and their names.

use std::io::{self, Read, Seek};

use super::{ByteSource, Part, Parts, cut_off, invalid};

/// The elements one after the other; those that hold others are stepped over unless they are entered. One whose length
/// was not known when it was written has no end of its own: what is in it follows it.
pub(crate) fn elements<R: Read + Seek>(source: &mut ByteSource<R>) -> Parts<'_, R, u32> {
    let all = (0, source.len);
    Parts::new(source, all, |source, at, end| {
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
            return Ok(Some((Part { name, start, end }, start)));
        }
        let part = Part {
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

/// A number whose leading zero bits say how many bytes it has, with the bit behind them, and the count of its bytes.
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
    let number = unsigned(&source.read_at(at, length)?);
    Ok((number, length))
}

/// The content of an element that is a number.
pub(crate) fn unsigned(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Names of elements, from the Matroska specification.
pub(crate) mod id {
    pub const SEGMENT: u32 = 0x1853_8067;
    pub const INFO: u32 = 0x1549_A966;
    pub const TIMESTAMP_SCALE: u32 = 0x2A_D7B1;
    pub const TRACKS: u32 = 0x1654_AE6B;
    pub const TRACK_ENTRY: u32 = 0xAE;
    pub const TRACK_NUMBER: u32 = 0xD7;
    pub const TRACK_TYPE: u32 = 0x83;
    pub const DEFAULT_DURATION: u32 = 0x23_E383;
    pub const VIDEO: u32 = 0xE0;
    pub const PIXEL_WIDTH: u32 = 0xB0;
    pub const PIXEL_HEIGHT: u32 = 0xBA;
    pub const DISPLAY_WIDTH: u32 = 0x54B0;
    pub const DISPLAY_HEIGHT: u32 = 0x54BA;
    pub const ALPHA_MODE: u32 = 0x53C0;
    pub const CODEC_ID: u32 = 0x86;
    pub const CODEC_PRIVATE: u32 = 0x63A2;
    pub const CLUSTER: u32 = 0x1F43_B675;
    pub const TIMESTAMP: u32 = 0xE7;
    pub const SIMPLE_BLOCK: u32 = 0xA3;
    /// What holds a block that is not a simple one, and that block.
    pub const BLOCK_GROUP: u32 = 0xA0;
    pub const BLOCK: u32 = 0xA1;
    pub const TAGS: u32 = 0x1254_C367;
    pub const TAG: u32 = 0x7373;
    pub const SIMPLE_TAG: u32 = 0x67C8;
    pub const TAG_NAME: u32 = 0x45A3;
    pub const TAG_STRING: u32 = 0x4487;
}
