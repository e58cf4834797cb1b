//! The directories of a TIFF, in both its sizes: whether the lists of the first can be in the file at all, and the number
//! of pages.
//!
//! Decoders make room for a list before they read it.

use std::io::{self, Read, Seek};

use super::source::ByteSource;
use super::{cut_off, invalid};

/// The larger of the two counts in 64 bits, and has no more entries than the smaller one can count.
const MAX_ENTRIES: u64 = u16::MAX as u64;
/// Pages that are counted: a chain of directories may be a circle.
const MAX_PAGES: usize = 10_000;

/// Tag of a directory that says whether its image is a page, and the bits of its value that deny it: a smaller copy, and
/// a mask.
const SUBFILE_KIND: u64 = 254;
const NO_PAGE: u64 = 1 | 4;

/// Numbers of a TIFF in its byte order and its widths.
struct TiffNumbers<'a, R> {
    source: &'a mut ByteSource<R>,
    is_big_endian: bool,
    /// Bytes of offsets and counts, of the number of entries, and of an entry.
    widths: (u64, u64, u64),
}

impl<'a, R: Read + Seek> TiffNumbers<'a, R> {
    /// And the offset of the first directory.
    fn open(source: &'a mut ByteSource<R>) -> io::Result<(Self, u64)> {
        let is_big_endian = source.array_at::<4>(0)?.starts_with(b"MM");
        let mut numbers = Self {
            source,
            is_big_endian,
            widths: (4, 2, 12),
        };
        let start = match numbers.at(2, 2)? {
            42 => 4,
            43 => {
                numbers.widths = (8, 8, 20);
                8
            }
            _ => return Err(invalid("it does not begin as a TIFF")),
        };
        let directory = numbers.at(start, numbers.widths.0)?;
        Ok((numbers, directory))
    }

    fn at(&mut self, at: u64, bytes: u64) -> io::Result<u64> {
        let bytes = self.source.read_at(at, bytes)?;
        let join = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Ok(if self.is_big_endian {
            bytes.iter().fold(0, join)
        } else {
            bytes.iter().rev().fold(0, join)
        })
    }

    /// Offsets of the entries of a directory, and after the last one that of the next directory.
    fn entries(&mut self, directory: u64) -> io::Result<(impl Iterator<Item = u64> + use<R>, u64)> {
        let (_, narrow, entry) = self.widths;
        let count = self.at(directory, narrow)?;
        if count > MAX_ENTRIES {
            return Err(invalid("its directory is too long"));
        }
        let at = move |index| directory.saturating_add(narrow + index * entry);
        Ok(((0..count).map(at), at(count)))
    }
}

/// An error where a list is longer than the whole file, or where this is no TIFF.
pub(crate) fn check_lists(source: &mut ByteSource<impl Read + Seek>) -> io::Result<()> {
    let file_bytes = source.len;
    let (mut numbers, directory) = TiffNumbers::open(source)?;
    for at in numbers.entries(directory)?.0 {
        let bytes = match numbers.at(at.saturating_add(2), 2)? {
            3 | 8 => 2,
            4 | 9 | 11 | 13 => 4,
            5 | 10 | 12 | 16..=18 => 8,
            _ => 1,
        };
        let count = numbers.at(at.saturating_add(4), numbers.widths.0)?;
        if count.saturating_mul(bytes) > file_bytes {
            return Err(cut_off());
        }
    }
    Ok(())
}

/// Number of pages, up to damage.
pub(crate) fn count_pages(source: &mut ByteSource<impl Read + Seek>) -> usize {
    let mut pages = 0;
    let Ok((mut numbers, mut directory)) = TiffNumbers::open(source) else {
        return pages;
    };
    let mut is_page_at = |directory: &mut u64| -> io::Result<bool> {
        let (entries, next) = numbers.entries(*directory)?;
        let mut is_page = true;
        let (wide, ..) = numbers.widths;
        for at in entries {
            let is_kind = numbers.at(at, 2)? == SUBFILE_KIND;
            is_page &= !is_kind || numbers.at(at + 4 + wide, 4)? & NO_PAGE == 0;
        }
        *directory = numbers.at(next, wide)?;
        Ok(is_page)
    };
    for _ in 0..MAX_PAGES {
        match is_page_at(&mut directory) {
            Ok(is_page) if directory > 0 => pages += usize::from(is_page),
            Ok(is_page) => return pages + usize::from(is_page),
            Err(_) => break,
        }
    }
    pages
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
    fn pages_are_counted_without_small_copies_and_circles_end() {
        // A directory of one entry, the kind of its image, and the offset of the next.
        let page = |kind: u32, next: u32| {
            let entry = [&[1, 0, 254, 0, 4, 0, 1, 0, 0, 0][..], &kind.to_le_bytes()];
            [entry.concat(), next.to_le_bytes().to_vec()].concat()
        };
        let count = |pages: &[Vec<u8>]| {
            let file = [b"II*\0\x08\0\0\0".to_vec(), pages.concat()].concat();
            let len = file.len() as u64;
            count_pages(&mut ByteSource::new(Cursor::new(file), len))
        };
        assert_eq!(count(&[page(0, 26), page(1, 44), page(2, 0)]), 2);
        assert_eq!(count(&[page(0, 26), page(0, 999)]), 2);
        assert_eq!(count(&[page(0, 8)]), MAX_PAGES);
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
