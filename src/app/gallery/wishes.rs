//! What is remembered of the gallery, and what its page asks for.

use std::path::PathBuf;

use safelight_core::gallery::{Sort, ThumbKey};
use serde::{Deserialize, Serialize};

/// What the window remembers of the gallery.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GalleryLook {
    /// Of a small picture, in points.
    pub side: f32,
    pub sort: Sort,
}

impl Default for GalleryLook {
    fn default() -> Self {
        Self {
            side: 168.0,
            sort: Sort::default(),
        }
    }
}

/// Which small pictures a page needs: told when it is other than before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Of which list.
    pub generation: u64,
    /// From this one of the list to before that one.
    pub from: usize,
    pub to: usize,
    /// In pixels.
    pub side: u32,
    /// The one with details.
    pub current: Option<ThumbKey>,
}

/// A small picture that is to be drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThumbWish {
    pub path: PathBuf,
    pub key: ThumbKey,
    /// How long its longer side needs to be, in pixels.
    pub side: u32,
}

/// A result that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashWish {
    pub path: PathBuf,
    /// It stands for all numbered pictures of a clip.
    pub is_frame: bool,
}
