//! Where the frames of what is played come from: memory, or a file that is read as they are wanted.
//!
//! The starts of uneven frames come from the file too.

use std::sync::Arc;

use safelight_core::job::Clip;
use safelight_core::media::{FrameStarts, MediaError, Picture};

use crate::app::player::reading::FileFrames;

/// The frames of a clip, or the pictures of a batch.
#[derive(Clone, Debug)]
pub enum Frames {
    Memory(Arc<Clip>),
    File(Arc<FileFrames>),
}

impl Frames {
    pub fn len(&self) -> usize {
        match self {
            Self::Memory(clip) => clip.frames.len(),
            Self::File(frames) => frames.len(),
        }
    }

    /// Starts of the frames; `None` where they have an even rate.
    pub fn starts(&self) -> Option<&FrameStarts> {
        match self {
            Self::Memory(_) => None,
            Self::File(frames) => frames.starts(),
        }
    }

    /// The frame, or the nearest one that is there.
    pub fn picture(&self, index: usize) -> Option<Arc<Picture>> {
        match self {
            Self::Memory(clip) => clip.frames.get(index).cloned(),
            Self::File(frames) => frames.picture(index),
        }
    }

    /// The frame itself, when it is there.
    pub fn exact(&self, index: usize) -> Option<Arc<Picture>> {
        match self {
            Self::Memory(clip) => clip.frames.get(index).cloned(),
            Self::File(frames) => frames.exact(index),
        }
    }

    /// This frame is looked at now.
    pub fn look_at(&self, index: usize, is_backward: bool) {
        if let Self::File(frames) = self {
            frames.look_at(index, is_backward);
        }
    }

    /// What went wrong with its file, once.
    pub fn take_failure(&self) -> Option<MediaError> {
        match self {
            Self::Memory(_) => None,
            Self::File(frames) => frames.take_failure(),
        }
    }
}
