//! Values of the form, and the images and videos in it.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::choices::{ChosenLora, SizeChoice};
use super::inputs::FormInputs;
use super::literal::LiteralPrompt;
use super::seed::SeedMode;
use crate::job::grid::GridAxis;
use crate::job::options::JobOptions;
use crate::job::second_pass::SecondPass;
use crate::media::VideoInfo;
use crate::model::choices::{ResizeMode, SectionOrder};
use crate::model::{PartialSampling, PresetValues};

/// Values of the widgets and arguments, not yet checked. `None` means the default of the model.
///
/// The window keeps its images and settings separately, and fills them in before it requests jobs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GenerateForm {
    pub model: Option<String>,
    pub prompt: String,
    /// True if each line of the prompt is a separate job.
    pub is_one_a_line: bool,
    /// Text that is not expanded, see [`Self::unedited_prompt`].
    pub literal_prompt: Option<LiteralPrompt>,
    pub negative_prompt: Option<String>,
    pub literal_negative: Option<LiteralPrompt>,
    pub loras: Vec<ChosenLora>,
    #[serde(flatten)]
    pub inputs: FormInputs,
    /// A video in the start image's place is made anew where the model could continue it, too. Only the window asks.
    pub remakes_video: bool,
    /// Keeps unmasked pixels exactly, also in inpainting models.
    pub keeps_unmasked: bool,
    /// Stretched where absent, as diffusers does; cropped where the size is one of a few for its aspect.
    pub fit: Option<ResizeMode>,
    /// Id of one of the model's presets, which provides values that this form does not set.
    pub preset: Option<String>,
    pub size: SizeChoice,
    /// Used when the size is custom.
    pub width: Option<u32>,
    pub height: Option<u32>,
    /// Off if absent.
    pub second_pass: Option<SecondPass>,
    pub num_frames: Option<u32>,
    /// Length of a video that is made in sections.
    pub secs: Option<f64>,
    /// As many as another video had; wins over seconds and frames.
    pub num_sections: Option<u32>,
    /// Latent frames of a section.
    pub window: Option<u32>,
    pub section_order: Option<SectionOrder>,
    pub fps: Option<f64>,
    pub batch_size: Option<u32>,
    #[serde(flatten)]
    pub sampling: PartialSampling,
    /// Values before a preset was applied.
    pub before_preset: Option<Box<PresetValues>>,
    /// Seed of the first result.
    pub seed: u64,
    /// Text of the seed's field while it is no number.
    pub typed_seed: Option<String>,
    pub seed_mode: SeedMode,
    #[serde(flatten)]
    pub options: JobOptions,
    /// The file to write, or one of its kind.
    pub out: PathBuf,
    /// As in [`GenerateRequest::is_out_automatic`](crate::job::GenerateRequest::is_out_automatic).
    #[serde(skip)]
    pub is_out_automatic: bool,
    /// The settings that are varied, one or two, each with its values: a job for each cell.
    pub grid: Vec<GridAxis>,
}

/// A start or end image and its size as the user sees it (after EXIF rotation).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartImage {
    pub path: PathBuf,
    pub width: u32,
    pub height: u32,
}

/// A video that is given, and what is known of it without decoding it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceVideo {
    pub path: PathBuf,
    pub info: VideoInfo,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum InputMedia {
    Video(SourceVideo),
    Image(StartImage),
}

impl InputMedia {
    pub fn path(&self) -> &Path {
        match self {
            Self::Image(image) => &image.path,
            Self::Video(video) => &video.path,
        }
    }

    /// Width and height in pixels.
    pub fn size(&self) -> (u32, u32) {
        match self {
            Self::Image(image) => (image.width, image.height),
            Self::Video(video) => (video.info.width, video.info.height),
        }
    }

    pub fn file_name(&self) -> String {
        let name = self.path().file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }
}
