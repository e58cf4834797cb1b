//! Gallery: result files in folders, their metadata, search, and thumbnails.
//!
//! Plain data and files, for threads that may wait for a disk. Starts no thread and changes no result: [`crate::trash`]
//! deletes.

mod facts;
mod index;
mod items;
mod marks;
mod query;
mod scan;
mod thumbs;

pub use facts::{MediaKind, PostprocessInfo, ResultMetadata, files_of, read_facts};
pub use index::IndexError;
pub use items::{GalleryIndex, GalleryItem, ItemReading};
pub use marks::{MarkChange, ResultMark};
pub use query::{GalleryFilter, GalleryQuery, ResultDate, ShownKind, SortOrder};
pub use scan::{FileStamp, FoundFile, GalleryScan, GalleryScanner};
pub use thumbs::{THUMB_SIDE, ThumbFolder, ThumbKey};

#[cfg(test)]
mod tests;
