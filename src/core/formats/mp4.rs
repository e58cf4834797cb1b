//! Boxes of an MP4 or MOV, in the file and nested, and numbers from them.
//!
//! Anything missing is `None`, never a panic.

use std::io::{self, Read, Seek};

use super::{ByteSource, FilePart, FileParts, cut_off, invalid};

/// The item of metadata that is the comment, as iTunes names it.
pub(crate) const COMMENT: [u8; 4] = *b"\xa9cmt";

/// As many bytes as a box's head can have.
const MAX_HEAD_BYTES: u64 = 16;

/// The outer boxes of the file.
pub(crate) fn file_boxes<R: Read + Seek>(source: &mut ByteSource<R>) -> FileParts<'_, R, [u8; 4]> {
    let all = (0, source.len);
    FileParts::new(source, all, |source, at, end| {
        let room = end.saturating_sub(at);
        if room < 8 {
            return Ok(None);
        }
        let first = source.read_at(at, room.min(MAX_HEAD_BYTES))?;
        let head = BoxHeader::read(&first, room).ok_or_else(cut_off)?;
        if head.size < head.bytes {
            return Err(invalid("a box of it has no room for its name"));
        }
        if head.size > room {
            return Err(cut_off());
        }
        let part = FilePart {
            name: head.name,
            start: at + head.bytes,
            end: at + head.size,
        };
        Ok(Some((part, part.end)))
    })
}

/// The content of the movie box, wherever it is. A file that ends before it is cut off.
pub(crate) fn movie<R: Read + Seek>(source: &mut ByteSource<R>) -> io::Result<Vec<u8>> {
    let mut boxes = file_boxes(source);
    while let Some(part) = boxes.next_part()? {
        if &part.name == b"moov" {
            return boxes.content(&part);
        }
    }
    Err(cut_off())
}

/// The boxes one after the other in `bytes`, up to the first that is cut off.
pub(crate) fn boxes(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let head = BoxHeader::read(rest, rest.len() as u64)?;
        let (whole, behind) = rest.split_at_checked(usize::try_from(head.size).ok()?)?;
        rest = behind;
        let content = whole.get(head.bytes as usize..)?;
        Some((head.name, content))
    })
}

/// The content of the first box called `name` in `bytes`.
pub(crate) fn child(bytes: &[u8], name: [u8; 4]) -> Option<&[u8]> {
    boxes(bytes)
        .find(|(found, _)| *found == name)
        .map(|(_, content)| content)
}

/// The content of the box at the end of a path of names.
pub(crate) fn descend<'a>(bytes: &'a [u8], path: &[[u8; 4]]) -> Option<&'a [u8]> {
    path.iter()
        .try_fold(bytes, |bytes, name| child(bytes, *name))
}

/// Peak of the mastering display in cd/m², from the content of an `mdcv` box.
pub(crate) fn mastering_peak(content: &[u8]) -> Option<f64> {
    let mut bytes = BoxBytes(content.get(16..)?);
    bytes.u32().map(|light| f64::from(light) / 10_000.0)
}

/// Head of a box: its name, and the sizes of the head and of the whole box in bytes.
struct BoxHeader {
    name: [u8; 4],
    bytes: u64,
    size: u64,
}

impl BoxHeader {
    /// Of the box at the front of `bytes`, which can have up to `room`.
    fn read(bytes: &[u8], room: u64) -> Option<Self> {
        let mut bytes = BoxBytes(bytes);
        let size = bytes.u32()?;
        let name = bytes.array()?;
        let (bytes, size) = match size {
            // The last one, up to the end.
            0 => (8, room),
            1 => (16, bytes.u64()?),
            size => (8, size.into()),
        };
        Some(Self { name, bytes, size })
    }
}

/// Bytes being read from the front.
#[derive(Clone, Copy)]
pub(crate) struct BoxBytes<'a>(pub &'a [u8]);

impl<'a> BoxBytes<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(front)
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }

    pub fn skip(&mut self, count: usize) -> Option<()> {
        self.take(count).map(drop)
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    /// A box's version and flags.
    pub fn version(&mut self) -> Option<(u8, u32)> {
        let [version, a, b, c] = self.array()?;
        Some((version, u32::from_be_bytes([0, a, b, c])))
    }

    /// A number that is four bytes long in version 0 and eight in version 1.
    pub fn sized(&mut self, version: u8) -> Option<u64> {
        if version == 1 {
            self.u64()
        } else {
            self.u32().map(u64::from)
        }
    }
}
