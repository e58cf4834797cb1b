//! Gallery: result files in folders, their metadata, search, and thumbnails.
//!
//! Plain data and files, for threads that may wait for a disk. Starts no thread and changes no result: [`crate::trash`]
//! deletes.

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
