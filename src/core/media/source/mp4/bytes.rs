//! Numbers and boxes out of bytes that nobody vouches for: what is not there is `None`, never a panic.
//!
//! Knows no box's meaning.

/// Bytes being read from the front.
#[derive(Clone, Copy)]
pub(super) struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
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

/// The boxes one after the other in `bytes`, up to the first that is cut off.
pub(super) fn boxes(bytes: &[u8]) -> impl Iterator<Item = ([u8; 4], &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let mut bytes = Bytes(rest);
        let size = bytes.u32()?;
        let name = bytes.array()?;
        let (header, size) = match size {
            0 => (8, rest.len() as u64),
            1 => (16, bytes.u64()?),
            size => (8, u64::from(size)),
        };
        let whole = rest.get(..usize::try_from(size).ok()?)?;
        rest = &rest[whole.len()..];
        whole.get(header..).map(|content| (name, content))
    })
}

/// The content of the first box called `name` in `bytes`.
pub(super) fn child(bytes: &[u8], name: [u8; 4]) -> Option<&[u8]> {
    boxes(bytes)
        .find(|(found, _)| *found == name)
        .map(|(_, content)| content)
}

/// The content of the box at the end of a path of names.
pub(super) fn descend<'a>(bytes: &'a [u8], path: &[[u8; 4]]) -> Option<&'a [u8]> {
    path.iter()
        .try_fold(bytes, |bytes, name| child(bytes, *name))
}
