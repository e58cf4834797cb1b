//! Specification of one model: files, capabilities and defaults.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::ModelFamily;
use super::choices::SectionOrder;
use super::{ControlUse, ModelFiles, PartialSampling, SamplingOptions};
use crate::model::{GuidanceMode, ImageRole, InputUse};

/// A model on this disk that can be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelSpec {
    /// The catalogue's id, or the path for a folder that the catalogue does not know.
    pub id: String,
    /// Computer that has the model, as ssh knows it, which then ends the id; absent for this one.
    #[serde(default)]
    pub computer: Option<String>,
    pub name: String,
    /// One sentence for the picker.
    pub description: String,
    pub licence: String,
    pub family: ModelFamily,
    /// The published variant, such as `TI2V`.
    pub variant: String,
    /// The diffusers folder, or the transformer's file.
    pub folder: PathBuf,
    pub files: ModelFiles,
    /// Bytes of all weight files.
    pub bytes: u64,
    pub start_image: InputUse,
    /// Role of the start image.
    #[serde(default)]
    pub image_role: ImageRole,
    /// Support of a mask.
    #[serde(default)]
    pub mask: InputUse,
    pub end_image: InputUse,
    /// Meaning of the model's `guidance_scale`.
    #[serde(default)]
    pub guidance: GuidanceMode,
    /// The order in which the model was made to make a video's sections; absent for those that make it at once.
    pub section_order: Option<SectionOrder>,
    pub defaults: ModelDefaults,
    /// Named sets of values that go together.
    pub presets: Vec<SamplingPreset>,
    pub limits: SizeLimits,
    pub example_prompts: Vec<String>,
    pub latent_rgb: Option<LatentRgb>,
    /// Channels of the latents; `None` of latents that no other model has.
    #[serde(default)]
    pub latent_channels: Option<u64>,
    /// Sentence on the files needed for image prompts; `None` if the model supports none. Installed ones are among the
    /// files.
    pub prompt_images: Option<String>,
}

/// Values that go together, such as what a distilled LoRA needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SamplingPreset {
    /// The name on the command line, such as `fast-4`.
    pub id: String,
    pub name: String,
    /// Sentence on its purpose and requirements.
    pub note: String,
    /// LoRAs that it is for: each entry lists words that must all occur in the name of the file or its folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub loras: Vec<String>,
    /// Models that it is for, likewise: its values are then their defaults.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    /// The strength that their authors say, where that is not 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lora_strength: Option<f64>,
    #[serde(flatten)]
    pub sampling: PartialSampling,
}

impl SamplingPreset {
    /// Returns whether it is for this LoRA file, by the names of the file and its folder.
    fn is_for(&self, lora: &Path) -> bool {
        has_any(&self.loras, lora)
    }

    /// Returns whether it is for the model at a path, by the names of the file and its folder.
    pub(crate) fn is_for_model(&self, model: &Path) -> bool {
        has_any(&self.models, model)
    }
}

/// Returns whether all words of one of `ways` are in the names of a file and its folder.
fn has_any(ways: &[String], file: &Path) -> bool {
    let names = [file.parent().and_then(Path::file_name), file.file_stem()];
    let names = names.into_iter().flatten();
    let name: String = names
        .flat_map(|name| {
            let name = name.to_string_lossy().to_lowercase();
            name.chars()
                .filter(|c| c.is_alphanumeric())
                .collect::<Vec<_>>()
        })
        .collect();
    let mut ways = ways.iter();
    ways.any(|way| way.split_whitespace().all(|word| name.contains(word)))
}

/// Default values of a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelDefaults {
    pub width: u32,
    pub height: u32,
    pub num_frames: u32,
    pub fps: f64,
    /// Without a shift that of the scheduler applies; a strength is missing in models without start images.
    #[serde(flatten)]
    pub sampling: SamplingOptions,
    /// Instead of `shift`, where frames are small.
    pub small_shift: Option<SmallShift>,
    #[serde(default)]
    pub negative_prompt: String,
}

/// Shift of the schedule for frames up to this number of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SmallShift {
    pub max_pixels: u64,
    pub shift: f64,
}

impl ModelDefaults {
    /// The shift for frames of a size; the scheduler's own when absent.
    pub fn shift_at(&self, width: u32, height: u32) -> Option<f64> {
        let pixels = u64::from(width) * u64::from(height);
        self.small_shift
            .filter(|small| pixels <= small.max_pixels)
            .map(|small| small.shift)
            .or(self.sampling.shift)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SizeLimits {
    /// Width and height are multiples of this: the VAE's factor times the transformer's patch.
    pub size_multiple: u32,
    /// No width or height is larger: the transformer knows no places beyond.
    pub max_edge: u32,
    pub max_pixels: u64,
    /// Frames are `frame_stride` × n + 1.
    pub frame_stride: u32,
    pub max_frames: u32,
    /// The model knows one size only, so a start image does not change it.
    pub fixed_size: bool,
    /// Images that one job may make at once.
    #[serde(default = "one")]
    pub max_batch: u32,
    /// Maximum number of reference images.
    #[serde(default)]
    pub max_references: u32,
    /// Images that say where things are to be.
    #[serde(default)]
    pub controls: ControlUse,
}

pub(crate) fn one() -> u32 {
    1
}

/// A linear map from normalised latents to colours, for live previews.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatentRgb {
    /// One row a latent channel; red, green, blue in 0…1.
    pub factors: Vec<[f32; 3]>,
    pub bias: [f32; 3],
}

impl ModelSpec {
    /// Names the computer that has the model.
    #[must_use]
    pub fn on(self, host: &str) -> Self {
        let short = host.rsplit('@').next().unwrap_or(host);
        Self {
            id: remote_id(&self.id, host),
            name: format!("{} · on {short}", self.name),
            computer: Some(host.to_owned()),
            ..self
        }
    }

    /// Returns whether the model makes images of any aspect ratio at one of a few sizes.
    pub fn has_buckets(&self) -> bool {
        let default = (self.defaults.width, self.defaults.height);
        self.family.trained_sizes.contains(&default)
    }

    /// Returns whether it edits the one reference image and has no start image: the reference is fitted to the size.
    pub fn edits_reference(&self) -> bool {
        !self.start_image.is_possible() && self.limits.max_references == 1
    }

    /// The preset for a LoRA of few steps, by the name of its file.
    pub fn preset_for(&self, lora: &Path) -> Option<&SamplingPreset> {
        self.presets.iter().find(|preset| preset.is_for(lora))
    }

    pub fn has_two_experts(&self) -> bool {
        self.files.transformer_2.is_some()
    }

    /// Returns whether a video can be extended: not if its end is made first.
    pub fn can_extend(&self) -> bool {
        self.start_image.is_possible()
            && !self.family.makes_images
            && self.section_order != Some(SectionOrder::Original)
    }

    /// Default denoising strength of a source video; `None` if the model cannot regenerate videos.
    pub fn video_strength(&self) -> Option<f64> {
        let own = (self.family.video_strength)(&self.variant)?;
        Some(self.defaults.sampling.strength.unwrap_or(own))
    }

    /// Returns whether a job of this model can have a second pass.
    pub fn has_second_pass(&self) -> bool {
        self.family.has_second_pass && !self.limits.fixed_size
    }

    /// Returns whether a batch is one job; with other models it becomes several.
    pub fn takes_batches(&self) -> bool {
        self.limits.max_batch > 1
    }

    /// The size with the default's area that is nearest to an aspect (width / height).
    pub fn size_for_aspect(&self, aspect: f64) -> (u32, u32) {
        let default = (self.defaults.width, self.defaults.height);
        if self.limits.fixed_size || !aspect.is_finite() || aspect <= 0.0 {
            return default;
        }
        if self.has_buckets() {
            let far =
                |(width, height): (u32, u32)| (f64::from(width) - aspect * f64::from(height)).abs();
            // Of two that are as near, the later one.
            return self
                .family
                .trained_sizes
                .iter()
                .copied()
                .reduce(|best, next| if far(next) <= far(best) { next } else { best })
                .unwrap_or(default);
        }
        let area = f64::from(default.0) * f64::from(default.1);
        let aspect = usable_aspect(aspect);
        let snap = |value: f64| nearest_multiple(value, self.limits.size_multiple);
        (snap((area * aspect).sqrt()), snap((area / aspect).sqrt()))
    }
}

/// Id on this computer of a model that another one has.
pub fn remote_id(id: &str, host: &str) -> String {
    format!("{id}@{host}")
}

/// The nearest aspect of frames that anybody can mean; beyond, most of an image is cut off or letterboxed.
pub(crate) fn usable_aspect(aspect: f64) -> f64 {
    aspect.clamp(0.25, 4.0)
}

/// The multiple of `multiple` nearest to `value`, at least one of it.
pub(crate) fn nearest_multiple(value: f64, multiple: u32) -> u32 {
    let multiple = multiple.max(1);
    let times = (value / f64::from(multiple)).round().max(1.0) as u32;
    times.min(u32::MAX / multiple) * multiple
}
