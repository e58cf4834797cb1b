//! The results that lie in folders: what they say of themselves, which of them somebody looks for, and their
//! small pictures.
//!
//! Plain data and files, for threads that may wait for a disk. Nothing here starts one, and nothing changes a
//! result: throwing away is [`crate::trash`]'s.

mod facts;
mod index;
mod query;
mod scan;
mod shelf;
mod thumbs;

pub use facts::{Facts, Finished, MediaKind, files_of, read_facts};
pub use index::IndexError;
pub use query::{Query, Show, Sort};
pub use scan::{Found, Scan, Scanner, Stamp};
pub use shelf::{Entry, Reading, Shelf};
pub use thumbs::{THUMB_SIDE, ThumbFolder, ThumbKey};

#[cfg(test)]
mod tests;
