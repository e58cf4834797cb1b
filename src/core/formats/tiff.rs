//! The first directory of a TIFF, in both its sizes: whether the lists that it tells of can be in the file at all.
//!
//! Decoders make room for a list before they read it.

use std::io::{self, Read, Seek};

use super::source::ByteSource;
use super::{cut_off, invalid};

/// The larger of the two counts in 64 bits, and has no more entries than the smaller one can count.
const MAX_ENTRIES: u64 = u16::MAX as u64;

/// An error where a list is longer than the whole file, or where this is no TIFF.
pub(crate) fn check_lists(source: &mut ByteSource<impl Read + Seek>) -> io::Result<()> {
    let head: [u8; 4] = source.array_at(0)?;
    let is_big_endian = head.starts_with(b"MM");
    let file_bytes = source.len;
    let mut number = |at: u64, bytes: u64| -> io::Result<u64> {
        let bytes = source.read_at(at, bytes)?;
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(if is_big_endian {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        })
    };
    // Position of the directory's offset, widths of offsets, of counts and of the number of entries, and size of an
    // entry.
    let (start, wide, narrow, entry) = match number(2, 2)? {
        42 => (4, 4, 2, 12),
        43 => (8, 8, 8, 20),
        _ => return Err(invalid("it does not begin as a TIFF")),
    };
    let directory = number(start, wide)?;
    let count = number(directory, narrow)?;
    if count > MAX_ENTRIES {
        return Err(invalid("its directory is too long"));
    }
    for index in 0..count {
        let at = directory.saturating_add(narrow + index * entry);
        let bytes = match number(at.saturating_add(2), 2)? {
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16..=18 => 8,
            _ => 1,
        };
        if number(at.saturating_add(4), wide)?.saturating_mul(bytes) > file_bytes {
            return Err(cut_off());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, ErrorKind};

    use super::*;

    fn check(bytes: &[u8]) -> Result<(), ErrorKind> {
        let len = bytes.len() as u64;
        let checked = check_lists(&mut ByteSource::new(Cursor::new(bytes), len));
        checked.map_err(|err| err.kind())
    }

    /// One entry: tag, type 4 (four bytes each), and how many of them there are.
    fn small(count: u32) -> Vec<u8> {
        let mut file = b"II*\0\x08\0\0\0\x01\0\x11\x01\x04\0".to_vec();
        file.extend(count.to_le_bytes());
        file.extend([0; 40]);
        file
    }

    fn large(count: u64) -> Vec<u8> {
        let mut file = b"MM\0+\0\x08\0\0\0\0\0\0\0\0\0\x10".to_vec();
        file.extend([0, 0, 0, 0, 0, 0, 0, 1, 1, 0x11, 0, 16]);
        file.extend(count.to_be_bytes());
        file.extend([0; 40]);
        file
    }

    #[test]
    fn a_list_longer_than_its_file_is_refused_before_there_is_room_for_it() {
        assert_eq!(check(&small(10)), Ok(()));
        assert_eq!(check(&large(6)), Ok(()));
        for file in [small(16), small(u32::MAX), large(11), large(u64::MAX)] {
            assert_eq!(check(&file), Err(ErrorKind::UnexpectedEof), "{file:?}");
        }
        assert_eq!(check(&small(10)[..14]), Err(ErrorKind::UnexpectedEof));
        assert_eq!(check(b"II+"), Err(ErrorKind::UnexpectedEof));
        assert_eq!(check(&[7; 60]), Err(ErrorKind::InvalidData));
        let mut many = large(1);
        many[16..24].fill(0xff);
        assert_eq!(check(&many), Err(ErrorKind::InvalidData));
    }
}
