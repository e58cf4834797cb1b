//! A file of known length that is read in pieces.
//!
//! It knows no container.

use std::io::{self, BufReader, Read, Seek};

use super::{cut_off, invalid};

/// No piece of a container that is read as a whole is longer: a header, a text, an encoded frame.
const MAX_PIECE_BYTES: u64 = 64 << 20;

pub(crate) struct ByteSource<R> {
    reader: BufReader<R>,
    /// Position of the reader.
    at: u64,
    pub len: u64,
}

impl<R: Read + Seek> ByteSource<R> {
    /// A reader at the beginning of `len` bytes.
    pub fn new(reader: R, len: u64) -> Self {
        Self {
            reader: BufReader::new(reader),
            at: 0,
            len,
        }
    }

    pub fn into_inner(self) -> R {
        self.reader.into_inner()
    }

    /// The reader at the beginning, for a decoder that reads all of it.
    pub fn reader(&mut self) -> io::Result<&mut BufReader<R>> {
        self.reader.rewind()?;
        self.at = 0;
        Ok(&mut self.reader)
    }

    /// Exactly `count` bytes from `at`: an error when the file ends before, or when that is more than any piece has.
    pub fn read_at(&mut self, at: u64, count: u64) -> io::Result<Vec<u8>> {
        self.check(at, count)?;
        if count > MAX_PIECE_BYTES {
            return Err(invalid("a part of it is too long"));
        }
        let mut bytes = vec![0; count as usize];
        self.fill(at, &mut bytes)?;
        Ok(bytes)
    }

    pub fn array_at<const N: usize>(&mut self, at: u64) -> io::Result<[u8; N]> {
        self.check(at, N as u64)?;
        let mut bytes = [0; N];
        self.fill(at, &mut bytes)?;
        Ok(bytes)
    }

    fn check(&self, at: u64, count: u64) -> io::Result<()> {
        match at.checked_add(count) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(cut_off()),
        }
    }

    /// Steps inside of what is buffered cost no reading.
    fn fill(&mut self, at: u64, bytes: &mut [u8]) -> io::Result<()> {
        self.reader
            .seek_relative(at.wrapping_sub(self.at).cast_signed())?;
        self.at = at;
        self.reader.read_exact(bytes)?;
        self.at += bytes.len() as u64;
        Ok(())
    }
}
