//! What a family declares of itself.
//!
//! Data where data says it, a function where it depends on the model, the request or a file. What a network's tensors
//! are called and how large they are stands in `networks`.

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use crate::formats::weights::WeightSet;
use crate::job::{DtypeChoice, GenerateRequest, Stage, StepCacheKind, first_step};
use crate::library::companions::Companions;
use crate::library::kind::TensorKind;
use crate::library::single::Assembled;
use crate::library::{ControlNetwork, Item, Library};
use crate::lora::{Coverage, Table};
use crate::memory::conv_backends::Convolutions;
use crate::memory::{Job, Need, Network, NetworkReader, PartName};
use crate::model::configs::ModelIndex;
use crate::model::facts::{Facts, TransformerShape};
use crate::model::{CatalogError, Component, Guidance, ModelFiles, ModelSpec, PicturePrompts};
use crate::networks::KindRule;
use crate::tokens::TextReader;

pub struct FamilyDef {
    /// The name in files and on the command line, which never changes.
    pub id: &'static str,
    /// The name in the interface.
    pub label: &'static str,
    /// Its models, in words that fit into a list; empty for a family of tests.
    pub models: &'static str,
    pub makes_pictures: bool,
    /// How much of a given clip a variant makes anew where nobody says; none where it makes no clip of another.
    pub clip_strength: fn(&str) -> Option<f64>,
    /// Whether what is made can be enlarged and run again in the same job.
    pub has_second_pass: bool,
    pub has_dynamic_shift: bool,
    /// Whether `guidance_scale` is true CFG; where not, `true_cfg_scale` is.
    pub guidance_is_cfg: bool,
    /// What steps may take over of earlier ones, in the order in which it is offered.
    pub step_caches: fn(&ModelSpec) -> &'static [StepCacheKind],
    /// The most tokens of a prompt that a request may ask for; `None` where the number is fixed.
    pub token_limit: fn(Guidance) -> Option<u32>,
    pub time_convolutions: TimeConvolutions,
    /// Whether the autoencoder computes in f16 on a GPU where the rest does in bf16.
    pub vae_in_f16: bool,
    /// The sizes, width and height, that its models were trained at; none where any will do.
    pub trained_sizes: &'static [(u32, u32)],
    pub recipe: fn(&GenerateRequest) -> Vec<Stage>,
    /// The text encoders of a model, first the one that reads the most tokens.
    pub text_readers: fn(&ModelSpec) -> Vec<TextReader>,
    /// Reads the networks of a model, the halves of its autoencoder apart.
    pub(crate) networks: fn(&ModelFiles, &mut NetworkReader) -> Result<(), CatalogError>,
    /// The networks that a stage needs, one after the other.
    pub(crate) needs: fn(&Job<'_>, Stage) -> Vec<Need>,
    /// The configs of the networks that a published model with such a transformer has, for plans before its files are here.
    pub(crate) published: fn(&TransformerShape) -> Vec<PublishedNetwork>,
    /// About how many weights the text encoders have: the first and the second.
    pub(crate) text_encoder_weights: [u64; 2],
    /// Matrices of width × width in one block of a transformer of this width, on average.
    pub(crate) matrices_a_block: fn(f64) -> f64,
    /// Whether what another program calls a model, in lower-case letters and digits, is one of this family.
    pub(crate) is_named: fn(&str) -> bool,
    /// How Wan2GP's `model_type` begins for models of this family, where that is no name of it.
    pub(crate) wan2gp_types: &'static [&'static str],
    pub(crate) files: FileRules,
    pub(crate) lora: LoraRules,
}

impl FamilyDef {
    /// What people call a model of this kind, such as "Z-Image Turbo". A word that the family's name ends with is not
    /// said twice.
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

    /// What an autoencoder computes in on a GPU, where the job asks for `dtype`.
    pub fn vae_dtype(&self, dtype: DtypeChoice) -> DtypeChoice {
        match dtype {
            DtypeChoice::Auto | DtypeChoice::Bf16 if self.vae_in_f16 => DtypeChoice::F16,
            DtypeChoice::Auto => DtypeChoice::Bf16,
            dtype => dtype,
        }
    }
}

/// A network of a published model, and its config.
pub(crate) type PublishedNetwork = (PartName, Arc<dyn Any + Send + Sync>);

/// Which convolutions over time the autoencoder has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeConvolutions {
    /// None: it knows pictures alone.
    None,
    /// The fastest that the device computes right.
    Fastest,
    /// Frame by frame where the device computes that right, else the fastest.
    FrameByFrame,
}

impl TimeConvolutions {
    /// What the autoencoder's convolutions are of.
    pub fn convolutions(self) -> Convolutions {
        match self {
            Self::None => Convolutions::Pictures,
            Self::Fastest | Self::FrameByFrame => Convolutions::Clips,
        }
    }
}

/// How the files of a model are recognised, put together and checked.
pub(crate) struct FileRules {
    pub owns_pipeline: fn(&str) -> bool,
    /// Checks a diffusers folder whole. Parts that the user named stand in for the folder's own.
    pub check_folder: CheckFolder,
    /// Whether a transformer of the family is in a file, whole or not.
    pub has_transformer: fn(&WeightSet) -> bool,
    /// The model of the transformer at a place, whose header the weights are.
    pub assemble: fn(&Path, &WeightSet, &Companions, &Library) -> Result<Assembled, CatalogError>,
    /// The variant of the transformer at a place as far as its header and its name say it.
    pub variant_at: fn(&Path) -> Option<&'static str>,
    pub are_experts: fn(&Path, &Path) -> bool,
    /// Whether a place holds this part of the published models with such a transformer.
    pub is_published_part: fn(Component, TransformerShape, &Path) -> bool,
    /// By which its files and those of relatives are known, in the order in which rules are tried.
    pub kinds: &'static [KindRule],
    /// The published name of a transformer of full size, where its shapes show it.
    pub published_name: fn(&WeightSet) -> Option<&'static str>,
    /// A file with the same weights in a form that is read, and where it is.
    pub instead: fn(&TensorKind) -> Option<&'static str>,
    pub ships_tokenizers: bool,
    /// What makes prompts of pictures for a model, among parts that were found; absent where no file does.
    pub picture_prompts: Option<FindPicturePrompts>,
    pub tiny_decoder: TinyDecoderRules,
    /// What the ControlNet with these weights at a place is, or what is wrong with it; nothing where it is none of the
    /// family's.
    pub control_network: FindControlNetwork,
    /// What the engine holds of the family's ControlNet at a place; absent where it has none.
    pub control_weights: Option<ReadNetwork>,
    /// What a model becomes with a LoRA that lets it see a control picture beside the noise, and why one does not; absent
    /// where there are no such LoRAs.
    pub control_lora: Option<WithControlLora>,
}

pub(crate) type FindPicturePrompts = fn(&ModelFiles, &[Item]) -> Option<PicturePrompts>;

pub(crate) type ReadNetwork = fn(&Path) -> Result<Network, CatalogError>;

pub(crate) type WithControlLora = fn(&ModelSpec, &Path) -> Result<ModelSpec, String>;

pub(crate) type FindControlNetwork =
    fn(&WeightSet, &Path) -> Option<Result<ControlNetwork, CatalogError>>;

/// Checks a diffusers folder whole -> where its parts are, and what is known of the model.
pub(crate) type CheckFolder =
    fn(&Path, &ModelIndex, &Companions, &Library) -> Result<(ModelFiles, Facts), CatalogError>;

/// Tiny decoders for previews that read the family's latents.
#[derive(Clone, Copy)]
pub(crate) struct TinyDecoderRules {
    /// Words in the names of its files and folders.
    pub words: &'static [&'static str],
    /// Whether the published file is in f16, for those without such a name.
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
    /// What only layers of its LoRAs, and of relatives', are called, in the order in which signs are tried.
    pub signs: &'static [LoraSign],
    /// Whether a LoRA of an origin may act on a model with these layers.
    pub accepts: fn(&str, &[Table]) -> bool,
    /// What a model with these layers is called.
    pub model_label: fn(&[Table]) -> String,
    /// What a LoRA of this family is called whose attention's outputs are so many.
    pub label_of_width: fn(u64) -> Option<String>,
    /// Why a LoRA that fits so is none for this model, whatever else it has.
    pub objection: fn(&Coverage) -> Option<&'static str>,
    /// The networks of a model that LoRAs change. Both experts of a model have the same layers.
    pub tables: fn(&ModelFiles) -> Result<Vec<Table>, CatalogError>,
    /// Whether musubi-tuner trains them, whose names are otherwise kohya's.
    pub has_musubi: bool,
}

/// What the layers of one origin's LoRAs are called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoraSign {
    /// A family's id, the short name of a relative, or the label of another model.
    pub family: &'static str,
    pub label: &'static str,
    /// The beginning of a layer's name, where each `#` is a number: the last one that of a block.
    pub start: &'static str,
    /// The ends of that; none where every end will do.
    pub ends: &'static [&'static str],
    /// The first number of a block that tells.
    pub first_block: usize,
    /// The outputs of the layer, where only those tell.
    pub outputs: Option<u64>,
}

impl LoraSign {
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
        }
    }
}

/// What makes pictures of a text, and of given pictures where there are any.
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
