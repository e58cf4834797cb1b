//! What is remembered of the gallery, and what its page asks for.

use std::path::{Path, PathBuf};

use safelight_core::gallery::Sort;
use safelight_core::media::ClipFormat;
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

/// A result that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashWish {
    pub path: PathBuf,
    /// It stands for all numbered pictures of a clip.
    pub is_frame: bool,
}

impl TrashWish {
    pub fn picture(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_frame: false,
        }
    }

    /// All files of a clip, also when it was written as numbered pictures.
    pub fn clip(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_frame: ClipFormat::from_path(path).is_ok_and(ClipFormat::is_still),
        }
    }
}
