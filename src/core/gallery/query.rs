//! Search and order of results.
//!
//! Words are compared case-insensitively, in any language; there is no fuzzy matching.

use serde::{Deserialize, Serialize};

use crate::enum_macros::labelled;

labelled! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub enum SortOrder {
        #[default]
        Newest = "Newest first",
        Oldest = "Oldest first",
        Name = "By name",
    }
}

labelled! {
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum ShownKind {
        #[default]
        All = "All",
        Images = "Images",
        Videos = "Videos",
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GalleryQuery {
    /// All of them must be found.
    pub words: String,
    pub sort: SortOrder,
    pub show: ShownKind,
    pub only_favourites: bool,
}

impl GalleryQuery {
    /// Returns whether any result may be filtered out.
    pub fn leaves_out(&self) -> bool {
        !self.words.trim().is_empty() || self.show != ShownKind::All || self.only_favourites
    }
}

/// The words of a text as they are compared.
pub(super) fn folded(text: &str) -> String {
    // The lower-case form of a capital may have a separate accent, as with the Turkish İ.
    text.to_lowercase().replace('\u{307}', "")
}
