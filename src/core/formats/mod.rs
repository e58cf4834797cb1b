//! Containers of images and videos as a sequence of parts: PNG, JPEG, WebP, GIF, MP4 and Matroska (WebM); and TIFF's
//! directory.
//!
//! One bounded reader for each, used by everything that reads such a file. Files are untrusted: every length is checked
//! against the file's size and against a limit before anything is read. `media` interprets the parts.

pub(crate) mod cut;
mod error;
pub(crate) mod gif;
pub(crate) mod heif;
pub(crate) mod jpeg;
mod json;
pub(crate) mod kind;
pub(crate) mod mp4;
pub(crate) mod png;
mod source;
pub(crate) mod tiff;
pub(crate) mod webm;
pub(crate) mod webp;
pub mod weights;

pub use error::CatalogError;
pub use json::read_json;
pub(crate) use json::{read_capped, sorted_entries};
pub(crate) use source::ByteSource;

use std::io::{self, Read, Seek};

/// So many parts of a file are looked at before it is given up as endless: a film of hours has fewer.
const MAX_PARTS: usize = 4_000_000;

/// A part's name, and where its content begins and ends in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FilePart<N> {
    pub name: N,
    pub start: u64,
    pub end: u64,
}

impl<N> FilePart<N> {
    pub fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Reads the part that begins at the first number, where the parts end at the second; gives also where the next part
/// begins. Nothing where no part follows.
type NextPart<R, N> = fn(&mut ByteSource<R>, u64, u64) -> io::Result<Option<(FilePart<N>, u64)>>;

/// The parts of a file, one after the other. Only their heads are read.
pub(crate) struct FileParts<'a, R, N> {
    pub source: &'a mut ByteSource<R>,
    at: u64,
    end: u64,
    num_left: usize,
    step: NextPart<R, N>,
}

impl<'a, R: Read + Seek, N> FileParts<'a, R, N> {
    fn new(source: &'a mut ByteSource<R>, (at, end): (u64, u64), step: NextPart<R, N>) -> Self {
        Self {
            source,
            at,
            end,
            num_left: MAX_PARTS,
            step,
        }
    }

    /// Returns `None` after the last part; an error where the file ends before that, or contradicts itself.
    pub fn next_part(&mut self) -> io::Result<Option<FilePart<N>>> {
        if self.num_left == 0 {
            return Ok(None);
        }
        self.num_left -= 1;
        let found = (self.step)(self.source, self.at, self.end)?;
        Ok(found.map(|(part, next)| {
            self.at = next;
            part
        }))
    }

    pub fn content(&mut self, part: &FilePart<N>) -> io::Result<Vec<u8>> {
        self.source.read_at(part.start, part.len())
    }

    /// The first bytes of the part's content.
    pub fn beginning(&mut self, part: &FilePart<N>, most: u64) -> io::Result<Vec<u8>> {
        self.source.read_at(part.start, part.len().min(most))
    }

    /// Continues with the parts inside this one instead of those after it.
    pub fn enter(&mut self, part: &FilePart<N>) {
        self.at = part.start;
    }
}

fn cut_off() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn invalid(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
