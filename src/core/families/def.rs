//! The declaration of a family.
//!
//! Data where data says it, a function where it depends on the model, the request or a file. Names and shapes
//! of tensors are in `networks`.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use crate::formats::weights::WeightSet;
use crate::job::{DtypeChoice, GenerateRequest, Stage, StepCacheKind, first_step};
use crate::library::component_search::ComponentOverrides;
use crate::library::single::AssembledModel;
use crate::library::tensor_kind::TensorKind;
use crate::library::{ComponentCandidate, ComponentLibrary, ControlNetwork};
use crate::lora::{LayerTable, LoraCoverage};
use crate::memory::conv_backends::ConvDimensions;
use crate::memory::{NetworkFootprint, NetworkReader, PlannedJob, PlannedNetwork, StageFootprint};
use crate::model::configs::ModelIndex;
use crate::model::facts::{ModelFacts, TransformerShape};
use crate::model::{CatalogError, GuidanceMode, ModelComponent, ModelFiles, ModelSpec, ReduxFiles};
use crate::networks::DetectionRule;
use crate::tokens::TextReader;

pub struct FamilyDef {
    /// The name in files and on the command line, which never changes.
    pub id: &'static str,
    /// The name in the interface.
    pub label: &'static str,
    /// Its models, in words that fit into a list; empty for a family of tests.
    pub models: &'static str,
    pub makes_pictures: bool,
    /// Default denoising strength of a variant's video-to-video; `None` for variants without it.
    pub clip_strength: fn(&str) -> Option<f64>,
    /// A job may upscale its result and denoise it again (hires fix).
    pub has_second_pass: bool,
    pub has_dynamic_shift: bool,
    /// `guidance_scale` is true CFG; otherwise `true_cfg_scale` is.
    pub guidance_is_cfg: bool,
    /// Step caches that it supports, in the order in which they are offered.
    pub step_caches: fn(&ModelSpec) -> &'static [StepCacheKind],
    /// The most tokens of a prompt that a request may ask for; `None` where the number is fixed.
    pub token_limit: fn(GuidanceMode) -> Option<u32>,
    pub time_convolutions: TemporalConvPolicy,
    /// The autoencoder computes in f16 on a GPU where the rest computes in bf16.
    pub vae_in_f16: bool,
    /// The sizes, width and height, that its models were trained at; none where any will do.
    pub trained_sizes: &'static [(u32, u32)],
    pub recipe: fn(&GenerateRequest) -> Vec<Stage>,
    /// The text encoders of a model, first the one that reads the most tokens.
    pub text_readers: fn(&ModelSpec) -> Vec<TextReader>,
    /// Reads the networks of a model, the halves of its autoencoder apart.
    pub(crate) networks: fn(&ModelFiles, &mut NetworkReader) -> Result<(), CatalogError>,
    /// The networks that a stage needs, one after the other.
    pub(crate) needs: fn(&PlannedJob<'_>, Stage) -> Vec<StageFootprint>,
    /// The configs of the networks that a published model with such a transformer has, for plans before its files are here.
    pub(crate) published: fn(&TransformerShape) -> Vec<PublishedNetwork>,
    /// About how many weights the text encoders have: the first and the second.
    pub(crate) text_encoder_weights: [u64; 2],
    /// Matrices of width × width in one block of a transformer of this width, on average.
    pub(crate) matrices_a_block: fn(f64) -> f64,
    /// Returns whether another program's name of a model, in lower-case letters and digits, belongs to this family.
    pub(crate) is_named: fn(&str) -> bool,
    /// Beginnings of Wan2GP's `model_type` for models of this family, where [`is_named`](Self::is_named) does not hold.
    pub(crate) wan2gp_types: &'static [&'static str],
    pub(crate) files: FileRules,
    pub(crate) lora: LoraRules,
}

impl FamilyDef {
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
    /// no step at all, where the strength is too small for one. The reference counts the steps of clips in whole ones.
    pub fn first_step(&self, num_steps: u32, strength: f64) -> u32 {
        if self.makes_pictures {
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

/// A network of a published model, and its config.
pub(crate) type PublishedNetwork = (PlannedNetwork, Arc<dyn Any + Send + Sync>);

/// Temporal convolutions of the autoencoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporalConvPolicy {
    /// None: it knows pictures alone.
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
            Self::None => ConvDimensions::Pictures,
            Self::Fastest | Self::FrameByFrame => ConvDimensions::Clips,
        }
    }
}

/// Rules to recognise, assemble and check the files of a model.
pub(crate) struct FileRules {
    pub owns_pipeline: fn(&str) -> bool,
    /// Checks a diffusers folder whole. Parts that the user named replace the folder's own.
    pub check_folder: CheckFolder,
    /// Returns true if a transformer of the family is in a file, whole or not.
    pub has_transformer: fn(&WeightSet) -> bool,
    /// The model of the transformer at a place, whose header the weights are.
    pub assemble: fn(
        &Path,
        &WeightSet,
        &ComponentOverrides,
        &ComponentLibrary,
    ) -> Result<AssembledModel, CatalogError>,
    /// The variant of the transformer at a place as far as its header and its name say it.
    pub variant_at: fn(&Path) -> Option<&'static str>,
    pub are_experts: fn(&Path, &Path) -> bool,
    /// Share of the timesteps at which the published low-noise expert of a model of this plain name takes over.
    pub boundary_of: fn(&str) -> Option<f64>,
    /// Returns true if a place holds this part of the published models with such a transformer.
    pub is_published_part: fn(ModelComponent, TransformerShape, &Path) -> bool,
    /// By which its files and those of relatives are known, in the order in which rules are tried.
    pub kinds: &'static [DetectionRule],
    /// The published name of a transformer of full size, where its shapes show it.
    pub published_name: fn(&WeightSet) -> Option<&'static str>,
    /// A file with the same weights in a form that is read, and where it is.
    pub instead: fn(&TensorKind) -> Option<&'static str>,
    pub ships_tokenizers: bool,
    /// Finds the networks of image prompts for a model among installed parts; `None` for families without them.
    pub picture_prompts: Option<FindPicturePrompts>,
    pub tiny_decoder: TinyDecoderRules,
    /// The ControlNet with these weights at a place, or its error; `None` where it is not one of the family.
    pub control_network: FindControlNetwork,
    /// Reads the memory needs of a ControlNet at a place; `None` for families without ControlNets.
    pub control_weights: Option<ReadNetwork>,
    /// The model that a control LoRA makes of one, which then takes a control image; `None` for families without such
    /// LoRAs.
    pub control_lora: Option<WithControlLora>,
}

pub(crate) type FindPicturePrompts = fn(&ModelFiles, &[ComponentCandidate]) -> Option<ReduxFiles>;

pub(crate) type ReadNetwork = fn(&Path) -> Result<NetworkFootprint, CatalogError>;

pub(crate) type WithControlLora = fn(&ModelSpec, &Path) -> Result<ModelSpec, String>;

pub(crate) type FindControlNetwork =
    fn(&WeightSet, &Path) -> Option<Result<ControlNetwork, CatalogError>>;

/// Checks a diffusers folder whole -> where its parts are, and what is known of the model.
pub(crate) type CheckFolder = fn(
    &Path,
    &ModelIndex,
    &ComponentOverrides,
    &ComponentLibrary,
) -> Result<(ModelFiles, ModelFacts), CatalogError>;

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
    pub const FLUX: Self = Self {
        words: &["taef1", "flux"],
        is_f16: false,
    };
}

pub(crate) struct LoraRules {
    /// Names that only layers of its LoRAs, or of relatives', have, in the order in which they are tried.
    pub signs: &'static [LoraSignature],
    /// Returns true if a LoRA of an origin may act on a model with these layers.
    pub accepts: fn(&str, &[LayerTable]) -> bool,
    /// Transformers of its published models, one of each size, with labels where those are not the family's.
    pub published: fn() -> Vec<(String, LayerTable)>,
    pub shared_names: Option<&'static SharedLoraNames>,
    /// Reason against a LoRA with such a coverage, whatever else it has.
    pub objection: fn(&LoraCoverage) -> Option<&'static str>,
    /// The networks of a model that LoRAs change. Both experts of a model have the same layers.
    pub tables: fn(&ModelFiles) -> Result<Vec<LayerTable>, CatalogError>,
    /// musubi-tuner trains them, whose names are otherwise kohya's.
    pub has_musubi: bool,
}

/// Layer names that a family shares with another one, and the differences.
pub(crate) struct SharedLoraNames {
    /// Short name and label of the other family.
    pub other: (&'static str, &'static str),
    /// Parts of names in files of the other family alone.
    pub other_parts: &'static [&'static str],
    /// Parts of names in files of this family alone.
    pub own_parts: &'static [&'static str],
    /// Ends of names in underscores of this family alone.
    pub own_ends: &'static [&'static str],
    /// Last blocks of this family, in underscores: the other one has more, and few LoRAs change all blocks but the last.
    pub own_blocks: &'static [&'static str],
}

/// Layer names by which LoRAs of one origin are recognised.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoraSignature {
    /// A family's id, the short name of a relative, or the label of another model.
    pub family: &'static str,
    pub label: &'static str,
    /// The beginning of a layer's name, where each `#` is a number: the last one that of a block.
    pub start: &'static str,
    /// The ends of that; none where every end will do.
    pub ends: &'static [&'static str],
    /// The first number of a block that tells.
    pub first_block: usize,
    /// The outputs and inputs of the layer, where only those tell.
    pub outputs: Option<u64>,
    pub inputs: Option<u64>,
}

impl LoraSignature {
    pub const fn of(family: &'static str, label: &'static str, start: &'static str) -> Self {
        Self::ending(family, label, start, &[])
    }

    pub const fn ending(
        family: &'static str,
        label: &'static str,
        start: &'static str,
        ends: &'static [&'static str],
    ) -> Self {
        Self {
            family,
            label,
            start,
            ends,
            first_block: 0,
            outputs: None,
            inputs: None,
        }
    }
}

/// Stages that make images from a text, and from input images where there are any.
pub(super) fn recipe_of_pictures(request: &GenerateRequest) -> Vec<Stage> {
    let mut stages = vec![Stage::EncodeText];
    if !request.prompt_pictures.is_empty() {
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
