//! Recipe of a job: the list of stages that the worker runs.
//!
//! One list gives the sequence, the progress bar, the bands in the memory graph, and the stage from which a job resumes
//! after its engine died.

use serde::{Deserialize, Serialize};

use super::GenerateRequest;
use crate::enum_macros::named;
use crate::model::family::RecipeKind;

named! {
    /// One stage of a job. Stages are run one at a time and leave their results on disk.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum Stage {
        /// Prompt and negative prompt to embeddings.
        EncodeText = "encode_text", "Reading the prompt";
        /// Start and end images to latents, through the VAE's encoder.
        EncodeImage = "encode_image", "Reading the image";
        /// Start and end images to embeddings, through the image encoder.
        EncodeVision = "encode_vision", "Encoding the image (CLIP vision)";
        /// Noise to latents, through the only transformer.
        Denoise = "denoise", "Denoising";
        /// Noise to half-made latents, through the high-noise expert.
        DenoiseHigh = "denoise_high", "Denoising the composition";
        /// Half-made latents to latents, through the low-noise expert.
        DenoiseLow = "denoise_low", "Denoising the details";
        /// Drop every weight of the transformer, and prove it.
        Unload = "unload", "Unloading the transformer";
        /// Latents to frames, through the VAE's decoder.
        Decode = "decode", "Decoding";
        /// Finished images or frames to larger ones.
        Upscale = "upscale", "Upscaling";
        /// Frames of a video to more frames a second.
        Interpolate = "interpolate", "Interpolating frames";
        /// Frames to depth maps.
        Depth = "depth", "Estimating depth";
        /// Frames to a file. The one stage that needs no engine.
        Save = "save", "Saving";
    }
}

impl Stage {
    pub fn is_denoising(self) -> bool {
        matches!(self, Self::Denoise | Self::DenoiseHigh | Self::DenoiseLow)
    }

    /// Post-processing of existing frames, which are computed one by one.
    pub fn is_postprocess(self) -> bool {
        matches!(self, Self::Upscale | Self::Interpolate | Self::Depth)
    }

    /// The file in the job's folder that proves the stage finished and holds its result; that of its first time
    /// where a recipe has it several times.
    ///
    /// `None` for stages that leave nothing: they are run again when a job resumes.
    pub fn result_file(self) -> Option<&'static str> {
        match self {
            Self::EncodeText => Some("prompt.safetensors"),
            Self::EncodeImage => Some("image.safetensors"),
            Self::EncodeVision => Some("vision.safetensors"),
            Self::DenoiseHigh => Some("latents.high.safetensors"),
            Self::Denoise | Self::DenoiseLow => Some("latents.safetensors"),
            Self::Unload
            | Self::Decode
            | Self::Upscale
            | Self::Interpolate
            | Self::Depth
            | Self::Save => None,
        }
    }
}

/// The stages of one job, in order. One that makes its video in sections has some of them once a section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recipe {
    pub stages: Vec<Stage>,
}

impl Recipe {
    pub fn from_request(request: &GenerateRequest) -> Self {
        Self {
            stages: match request.family.recipe {
                RecipeKind::Images => stages_of_images(request),
                RecipeKind::Videos => stages_of_video(request),
                RecipeKind::Sections => stages_of_sections(request),
            },
        }
    }

    /// Number of earlier occurrences of the stage at a position.
    pub fn section(&self, position: usize) -> u32 {
        let before = self.stages.iter().take(position);
        let stage = self.stages.get(position);
        before.filter(|earlier| Some(*earlier) == stage).count() as u32
    }

    /// The last time that the recipe has `stage` before a position, counted from 0; `None` where it has it not.
    pub fn last_before(&self, stage: Stage, position: usize) -> Option<u32> {
        let before = self.stages.iter().take(position);
        let times = before.filter(|earlier| **earlier == stage).count() as u32;
        times.checked_sub(1)
    }

    /// Position of a stage's occurrence number `section`; `None` if it occurs less often.
    pub fn position(&self, stage: Stage, section: u32) -> Option<usize> {
        let all = self.stages.iter().enumerate();
        let mut same = all.filter(|(_, other)| **other == stage);
        same.nth(section as usize).map(|(position, _)| position)
    }

    /// In how many sections the video is made; 1 for those that are made at once.
    pub fn num_sections(&self) -> u32 {
        let decoded = self.stages.iter().filter(|stage| **stage == Stage::Decode);
        (decoded.count() as u32).max(1)
    }
}

/// Stages that make images from a text, and from input images where there are any.
fn stages_of_images(request: &GenerateRequest) -> Vec<Stage> {
    let mut stages = vec![Stage::EncodeText];
    if !request.prompt_images.is_empty() {
        stages.push(Stage::EncodeVision);
    }
    let is_shown = !request.references.is_empty() || !request.controls.is_empty();
    if request.image.is_some() || is_shown {
        stages.push(Stage::EncodeImage);
    }
    stages.extend([Stage::Denoise, Stage::Unload]);
    if request.second_pass.is_some() {
        stages.extend([Stage::EncodeImage, Stage::Denoise, Stage::Unload]);
    }
    stages.extend([Stage::Decode, Stage::Save]);
    stages
}

/// Stages of a video that is made section by section.
fn stages_of_sections(request: &GenerateRequest) -> Vec<Stage> {
    let mut stages = vec![Stage::EncodeText, Stage::EncodeImage, Stage::EncodeVision];
    let num_sections = request.sections.map_or(1, |sections| sections.count);
    for _ in 0..num_sections {
        stages.extend([Stage::Denoise, Stage::Unload, Stage::Decode]);
    }
    stages.push(Stage::Save);
    stages
}

/// Stages of a video that is made at once, by one transformer or by two experts.
fn stages_of_video(request: &GenerateRequest) -> Vec<Stage> {
    let mut stages = vec![Stage::EncodeText];
    let has_frames = request.has_start() || request.last_image.is_some();
    // Control layers see something in every job: where nothing is given, grey that is all to be made.
    if has_frames || request.source_video.is_some() || request.files.takes_control {
        stages.push(Stage::EncodeImage);
        if has_frames && request.files.image_encoder.is_some() {
            stages.push(Stage::EncodeVision);
        }
    }
    let last = if request.files.transformer_2.is_some() {
        stages.push(Stage::DenoiseHigh);
        Stage::DenoiseLow
    } else {
        Stage::Denoise
    };
    stages.extend([last, Stage::Unload]);
    if request.second_pass.is_some() {
        // The second pass adds details, which are the low-noise expert's.
        stages.extend([Stage::EncodeImage, last, Stage::Unload]);
    }
    stages.extend([Stage::Decode, Stage::Save]);
    stages
}
