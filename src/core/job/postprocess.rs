//! A validated request to finish an image or video: what a job of this kind needs to know, and that repeats it.

use std::ops::Not;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::job::{DtypeChoice, Recipe, Stage};
use crate::media::{VideoFormat, VideoInfo};
use crate::memory::MemoryOptions;

/// A validated request. The engine need not check it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostprocessRequest {
    /// Path of the image or video.
    pub source: PathBuf,
    /// Fingerprint of the source: a job resumes with the same file only.
    pub fingerprint: String,
    /// It is one image, whatever else of its name is there.
    pub is_image: bool,
    /// Size, length and rate of the source.
    pub before: VideoInfo,
    /// And of the result. An image has a rate of 0.
    pub after: VideoInfo,
    #[serde(flatten)]
    pub work: PostprocessKind,
    #[serde(default)]
    pub dtype: DtypeChoice,
    /// Longest edge of tiles, in pixels; `None`: as large as fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tile: Option<u32>,
    #[serde(default)]
    pub memory: MemoryOptions,
    /// Quality of lossy files, as [`VideoOptions::crf`](crate::media::VideoOptions::crf): the same for all parts of a video.
    pub crf: u8,
    /// The file to write; its extension is its kind.
    pub out: PathBuf,
    /// As in [`GenerateRequest`](crate::job::GenerateRequest).
    #[serde(default, skip_serializing_if = "Not::not")]
    pub is_out_automatic: bool,
}

/// Kind of post-processing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
pub enum PostprocessKind {
    /// Through a network that enlarges, and then to the size of [`PostprocessRequest::after`].
    Upscale {
        network: PathBuf,
        /// Passes through the network.
        passes: u32,
    },
    /// Frames between frames by RIFE, so that there are as many a second as [`PostprocessRequest::after`] says.
    Interpolate { network: PathBuf },
    /// Depth of each frame, near is bright.
    Depth { network: PathBuf },
}

impl PostprocessKind {
    /// The network's file.
    pub fn network(&self) -> &Path {
        match self {
            Self::Upscale { network, .. }
            | Self::Interpolate { network }
            | Self::Depth { network } => network,
        }
    }

    /// Display name of the network.
    pub fn network_name(&self) -> String {
        let stem = self.network().file_stem().unwrap_or_default();
        stem.to_string_lossy().into_owned()
    }
}

impl PostprocessRequest {
    /// The stage that computes.
    pub fn stage(&self) -> Stage {
        match &self.work {
            PostprocessKind::Upscale { .. } => Stage::Upscale,
            PostprocessKind::Interpolate { .. } => Stage::Interpolate,
            PostprocessKind::Depth { .. } => Stage::Depth,
        }
    }

    /// Returns true if the result keeps transparency: its format has it, and no frames are made between others.
    pub fn keeps_alpha(&self) -> bool {
        matches!(self.work, PostprocessKind::Upscale { .. })
            && VideoFormat::from_path(&self.out).is_ok_and(VideoFormat::has_alpha)
    }

    /// The stages of the job, in order.
    pub fn recipe(&self) -> Recipe {
        Recipe {
            stages: vec![self.stage(), Stage::Save],
        }
    }

    /// The network's file.
    pub fn network(&self) -> &Path {
        self.work.network()
    }

    /// Display name of the network.
    pub fn network_name(&self) -> String {
        self.work.network_name()
    }

    /// File stem of an automatic name: `boat_x2`.
    pub fn stem(&self) -> String {
        let stem = self.source.file_stem().unwrap_or_default();
        let stem = stem.to_string_lossy();
        match &self.work {
            PostprocessKind::Upscale { .. } => format!("{stem}_x{}", self.factor()),
            PostprocessKind::Interpolate { .. } => format!("{stem}_{}fps", self.frames_a_second()),
            PostprocessKind::Depth { .. } => format!("{stem}_depth"),
        }
    }

    /// Of the result, to a hundredth.
    fn frames_a_second(&self) -> f64 {
        (self.after.fps * 100.0).round() / 100.0
    }

    /// Scale factor, to a hundredth.
    fn factor(&self) -> f64 {
        let factor = f64::from(self.after.width) / f64::from(self.before.width.max(1));
        (factor * 100.0).round() / 100.0
    }

    /// Title for lists: `Upscale ×2: boat.mp4`.
    pub fn title(&self) -> String {
        let name = self.source.file_name().unwrap_or_default();
        let name = name.to_string_lossy();
        match &self.work {
            PostprocessKind::Upscale { .. } => format!("Upscale ×{}: {name}", self.factor()),
            PostprocessKind::Interpolate { .. } => {
                format!("{} frames a second: {name}", self.frames_a_second())
            }
            PostprocessKind::Depth { .. } => format!("Depth map: {name}"),
        }
    }
}
