//! Facts of a family, as its file states them.

use super::comfy::ComfyNodes;
use crate::compute::conv_backends::ConvDimensions;
use crate::formats::weights::WeightSet;
use crate::model::choices::DtypeChoice;
use crate::model::{DetectionRule, GuidanceMode, StepCacheKind};

/// Facts of a family.
pub struct FamilyInfo {
    /// The name in files and on the command line, which never changes.
    pub id: &'static str,
    /// The name in the interface.
    pub label: &'static str,
    /// Its models, in words that fit into a list; empty for a family of tests.
    pub models: &'static str,
    /// Words in the names that other programs give its models, in lower-case letters and digits, and words in the names
    /// of other models that have one of these too.
    pub(crate) names: &'static [&'static str],
    pub(crate) other_names: &'static [&'static str],
    /// Beginnings of Wan2GP's `model_type` for its models, where no name shows them.
    pub(crate) wan2gp_types: &'static [&'static str],
    pub makes_images: bool,
    /// Default denoising strength of a variant's video-to-video; `None` for variants without it.
    pub video_strength: fn(&str) -> Option<f64>,
    /// Steps of a denoising strength are counted down to whole ones, as in the reference of videos.
    pub floors_steps: bool,
    /// A job may upscale its result and denoise it again (hires fix).
    pub has_second_pass: bool,
    /// Its sigmas may be shifted, as those of flow models.
    pub has_shift: bool,
    pub has_dynamic_shift: bool,
    /// Noise levels of all steps that its models were distilled to; none where a schedule gives them.
    pub sigmas: &'static [f32],
    /// Prompt weights act, as in `ComfyUI`, which has them switched off for other families' text encoders.
    pub has_prompt_weights: bool,
    /// Prompts of any length are read in chunks, with embeddings.
    pub has_prompt_chunks: bool,
    /// `guidance_scale` is true CFG; otherwise `true_cfg_scale` is.
    pub guidance_is_cfg: bool,
    /// Step caches that a variant supports, in the order in which they are offered.
    pub step_caches: fn(&str) -> &'static [StepCacheKind],
    /// The most tokens of a prompt that a request may ask for; `None` where the number is fixed.
    pub token_limit: fn(GuidanceMode) -> Option<u32>,
    pub time_convolutions: TemporalConvPolicy,
    /// The autoencoder computes in f16 on a GPU where the rest computes in bf16.
    pub vae_in_f16: bool,
    /// The sizes, width and height, that its models were trained at; none where any will do.
    pub trained_sizes: &'static [(u32, u32)],
    pub recipe: RecipeKind,
    /// Matrices of width × width in one block of a transformer of this width, on average.
    pub(crate) matrices_a_block: fn(f64) -> f64,
    /// By which its files and those of relatives are known, in the order in which rules are tried.
    pub(crate) kinds: &'static [DetectionRule],
    /// The published name of a transformer of full size, where its shapes show it.
    pub(crate) published_name: fn(&WeightSet) -> Option<&'static str>,
    /// Files with the same weights in a form that is read, and where they are; the first that fits counts.
    pub(crate) instead: &'static [ReadableFile],
    pub(crate) tiny_decoder: TinyDecoderRules,
    /// `None` where `ComfyUI` has no standard nodes for its models.
    pub comfy: Option<&'static ComfyNodes>,
}

impl FamilyInfo {
    /// An image family without what each of them states.
    pub(super) const IMAGES: Self = Self {
        id: "",
        label: "",
        models: "",
        names: &[],
        other_names: &[],
        wan2gp_types: &[],
        makes_images: true,
        video_strength: |_| None,
        floors_steps: false,
        has_second_pass: true,
        has_shift: true,
        has_dynamic_shift: false,
        sigmas: &[],
        has_prompt_weights: false,
        has_prompt_chunks: false,
        guidance_is_cfg: true,
        step_caches: |_| StepCacheKind::OF_ANY_MODEL,
        token_limit: |_| None,
        time_convolutions: TemporalConvPolicy::None,
        vae_in_f16: false,
        trained_sizes: &[],
        recipe: RecipeKind::Images,
        matrices_a_block: |_| 0.0,
        kinds: &[],
        published_name: |_| None,
        instead: &[],
        tiny_decoder: TinyDecoderRules::of(&[]),
        comfy: None,
    };

    /// Returns whether another program's name of a model, in lower-case letters and digits, belongs to this family.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        has(self.names) && !has(self.other_names)
    }
    /// Display name of a variant, such as "Z-Image Turbo". A word that the family's name ends with is not repeated.
    pub fn kind_text(&self, variant: &str) -> String {
        let said = self.label.rsplit([' ', '-']).next();
        if said == Some(variant) {
            self.label.to_owned()
        } else {
            format!("{} {variant}", self.label)
        }
    }

    /// The first step, from 0, that is made of what is given: the less `strength`, 0 to 1, the later. `num_steps`, which is
    /// no step at all, where the strength is too small for one.
    pub fn first_step(&self, num_steps: u32, strength: f64) -> u32 {
        if self.makes_images && !self.floors_steps {
            return first_step(num_steps, strength);
        }
        let made = (f64::from(num_steps) * strength).max(0.0) as u32;
        num_steps - made.min(num_steps)
    }

    /// Type in which an autoencoder computes on a GPU, in a job of type `dtype`.
    pub fn vae_dtype(&self, dtype: DtypeChoice) -> DtypeChoice {
        match dtype {
            DtypeChoice::Auto | DtypeChoice::Bf16 if self.vae_in_f16 => DtypeChoice::F16,
            DtypeChoice::Auto => DtypeChoice::Bf16,
            dtype => dtype,
        }
    }
}

/// Temporal convolutions of the autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporalConvPolicy {
    /// None: it knows images alone.
    None,
    /// The fastest that the device computes right.
    Fastest,
    /// Frame by frame where the device computes that right, else the fastest.
    FrameByFrame,
}

impl TemporalConvPolicy {
    /// Dimensions of the autoencoder's convolutions.
    pub fn convolutions(self) -> ConvDimensions {
        match self {
            Self::None => ConvDimensions::Images,
            Self::Fastest | Self::FrameByFrame => ConvDimensions::Videos,
        }
    }
}

/// Stages of a family's jobs, which `job` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecipeKind {
    Images,
    Videos,
    /// Videos section by section.
    Sections,
}

/// Tiny decoders for previews that read the family's latents.
#[derive(Clone, Copy)]
pub(crate) struct TinyDecoderRules {
    /// Words in the names of its files and folders.
    pub words: &'static [&'static str],
    /// The published file is in f16; for files without such a name.
    pub is_f16: bool,
}

impl TinyDecoderRules {
    /// Those of FLUX.1's latents.
    pub const FLUX: Self = Self::of(&["taef1", "flux"]);

    pub const fn of(words: &'static [&'static str]) -> Self {
        Self {
            words,
            is_f16: false,
        }
    }
}

/// Role of a file, a part of its description, and the file to get instead.
pub(crate) type ReadableFile = (&'static str, &'static str, &'static str);

/// [`ReadableFile`]s, one a row; the part of a description is left out where any will do.
macro_rules! readable_files {
    ($($role:literal $($part:literal)?: $file:literal;)+) => {
        &[$(($role, concat!("" $(, $part)?), $file)),+]
    };
}
pub(super) use readable_files;

/// The first step that is made of a given image, see [`FamilyInfo::first_step`].
pub fn first_step(num_steps: u32, strength: f64) -> u32 {
    let all = f64::from(num_steps);
    (all - (all * strength).min(all)).max(0.0) as u32
}

/// "a Wan", "an Anima"
pub fn with_article(name: &str) -> String {
    let is_vowel = name.starts_with(['A', 'E', 'I', 'O']);
    format!("{} {name}", if is_vowel { "an" } else { "a" })
}
