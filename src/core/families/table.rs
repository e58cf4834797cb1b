//! A family whose models have one transformer, as a table. What follows from it is in [`single`](super::single).

use std::any::Any;
use std::path::Path;
use std::sync::Arc;

use super::ModelFamily;
use super::def::{ControlNets, ExpertRules, FindImagePrompts, WithControlLora};
use super::parts;
use crate::footprint::text::{anima_adapter, clip_text, language, t5};
use crate::footprint::{NetworkReader, PlannedJob, PlannedNetwork, StageFootprint};
use crate::formats::weights::WeightSet;
use crate::job::Stage;
use crate::library::component_search::wanted::ComponentQuery;
use crate::lora::{self, LayerTable, LoraCoverage, LoraTarget};
use crate::model::choices::SamplerKind;
use crate::model::facts::{ModelFacts, ModelVariant, SchedulerDefaults, TransformerShape};
use crate::model::{CatalogError, GuidanceMode, LoraSignature, ModelFiles, SharedLoraNames};
use crate::networks::{
    AnimaAdapterConfig, ClipG, ClipGTextConfig, ClipL, ClipTextConfig, DenoiserConfig, KlVaeConfig,
    LanguageKind, LanguageUse, NetworkConfig, Qwen3VisionConfig, QwenVisionConfig, SchedulerConfig,
    T5Config, T5Kind, TransformerConfig, WanVaeConfig,
};
use crate::tokens::{CLIP_TOKENS, TextRule};

/// Memory and time of the networks of a stage, at most two.
pub(super) type StageNeeds = [Option<StageFootprint>; 2];

/// [`FamilyTable::refused`] for pipelines that the table does not name.
pub(super) const OTHER_PIPELINE: &str = "a {family} model for {class}";

/// A network's config as the memory plan looks it up.
pub(super) type AnyConfig = Arc<dyn Any + Send + Sync>;

pub(super) trait SingleTransformerFamily: Sync + 'static {
    type Config: DenoiserConfig + Default + Any + Send + Sync;
    const FAMILY: ModelFamily;
    const TABLE: FamilyTable<Self::Config>;
}

pub(super) struct FamilyTable<C: 'static> {
    /// Classes of its pipelines that run here.
    pub pipelines: &'static [&'static str],
    /// Beginnings of the classes of its other pipelines, and of name components of tensors that only other models have,
    /// with a noun phrase for those models: the first that fits counts.
    pub refused: &'static [(&'static str, &'static str)],
    /// A tensor that its transformers have, by the authors' name, and those of a relative with the same names lack.
    pub mark: Option<&'static str>,
    /// The variant of a transformer, or a noun phrase for one of another model.
    pub variant: fn(&C, &VariantHints<'_>) -> Result<ModelVariant, String>,
    pub vae: FamilyVae,
    /// One or two, as a model's files name them.
    pub text_encoders: &'static [TextEncoder<C>],
    pub image_encoder: fn(&C) -> Option<ComponentQuery<'static>>,
    /// Components that other families do not have, and the reader of their networks.
    pub more_parts: fn(&C) -> Vec<ComponentQuery<'static>>,
    pub read_more: fn(&ModelFiles, &mut NetworkReader) -> Result<(), CatalogError>,
    /// The transformer of a published model of such a shape.
    pub published: fn(&TransformerShape) -> C,
    /// Checks and changes what a table cannot say of a model.
    pub complete: fn(&C, &ModelFiles, &mut ModelFacts) -> Result<(), CatalogError>,
    /// Sigmas that a variant was distilled to, for files that do not state them.
    pub sample_sigmas: fn(&str) -> Option<&'static [f32]>,
    /// Returns whether a single file predicts v, and whether its noisiest level has nothing of the image.
    pub predicts_v: fn(&WeightSet, &VariantHints<'_>) -> [bool; 2],
    /// Checks a scheduler's folder, for the defaults in it.
    pub read_schedule: fn(&Path) -> Result<SchedulerDefaults, CatalogError>,
    /// Needs of a stage, one network after the other; `None` where they are those that every family has.
    pub needs: fn(&PlannedJob<'_>, Stage) -> Option<StageNeeds>,
    pub experts: Option<ExpertRules>,
    pub image_prompts: Option<FindImagePrompts>,
    pub control_nets: Option<ControlNets>,
    pub lora: LoraTable,
    /// Its published models whose LoRAs differ in the sizes of layers, with their labels, where those are not the family's.
    pub lora_models: fn() -> Vec<(&'static str, C)>,
}

/// LoRAs of a family.
#[derive(Clone, Copy)]
pub(crate) struct LoraTable {
    /// Names that only layers of its LoRAs, or of relatives', have, in the order in which they are tried.
    pub signs: &'static [LoraSignature],
    /// Returns true if a LoRA of an origin may act on a model with these layers.
    pub accepts: fn(&str, &[LayerTable]) -> bool,
    /// The layer of what is noised, where LoRAs may have more inputs than the model or fewer, those of a control image;
    /// and the model that such a LoRA makes of one.
    pub control: Option<(&'static str, WithControlLora)>,
    /// Returns true if a layer of this name is one that only models have which look at images.
    pub of_images: fn(&str) -> bool,
    /// LoRAs change the text encoders too.
    pub has_text_encoders: bool,
    /// Another family whose LoRAs may have the same layers.
    pub shared_names: Option<&'static SharedLoraNames>,
    /// Reason against a LoRA with such a coverage, whatever else it has.
    pub objection: fn(&LoraCoverage) -> Option<&'static str>,
    /// musubi-tuner trains them, whose names are otherwise kohya's.
    pub has_musubi: bool,
}

impl LoraTable {
    pub const NONE: Self = Self {
        signs: &[],
        accepts: |_, _| false,
        control: None,
        of_images: |_| false,
        has_text_encoders: false,
        shared_names: None,
        objection: |_| None,
        has_musubi: false,
    };
}

/// Evidence for a variant that tensors do not show.
pub(super) struct VariantHints<'a> {
    /// Class of the pipeline, in a diffusers folder.
    pub class: Option<&'a str>,
    /// Distillation to few steps, as the pipeline states it.
    pub is_distilled: Option<bool>,
    /// Names of the model and of the folder around it.
    pub names: &'a [&'a str],
}

impl<'a> VariantHints<'a> {
    /// Hints of a model that is no diffusers folder.
    pub fn of_names(names: &'a [&'a str]) -> Self {
        Self {
            class: None,
            is_distilled: None,
            names,
        }
    }

    /// The first answer that a name gives.
    pub fn first<T>(&self, says: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.names.iter().find_map(|name| says(name))
    }
}

impl<C: TransformerConfig + Default> FamilyTable<C> {
    /// An image family without what each of them states.
    pub const DEFAULT: Self = Self {
        pipelines: &[],
        refused: &[],
        mark: None,
        variant: |_, _| Ok(ModelVariant::new("")),
        vae: FamilyVae::FLUX,
        text_encoders: &[],
        image_encoder: |_| None,
        more_parts: |_| Vec::new(),
        read_more: |_, _| Ok(()),
        published: |_| C::default(),
        complete: |_, _, _| Ok(()),
        sample_sigmas: |_| None,
        predicts_v: |_, _| [false; 2],
        read_schedule: |folder| {
            let scheduler = SchedulerConfig::read_flow_match_euler(folder)?;
            Ok(SchedulerDefaults {
                sampler: SamplerKind::Euler,
                // One that depends on the number of tokens is no default.
                shift: scheduler
                    .stated_shift()
                    .filter(|_| !scheduler.use_dynamic_shifting),
            })
        },
        needs: |_, _| None,
        experts: None,
        image_prompts: None,
        control_nets: None,
        lora: LoraTable::NONE,
        lora_models: || vec![("", C::default())],
    };
}

/// An autoencoder that families share.
pub(super) struct FamilyVae {
    /// diffusers' class, where only one will do.
    pub class: Option<&'static str>,
    /// The part for latents of a number of channels.
    pub wanted: fn(i64) -> ComponentQuery<'static>,
    /// The published one for latents of a number of channels.
    pub published: fn(i64) -> AnyConfig,
    /// Returns whether the autoencoder at a path has the layers of that one: the transformer only states its channels.
    pub is_published: fn(i64, &Path) -> bool,
    pub read: fn(&Path, &mut NetworkReader) -> Result<(), CatalogError>,
    /// Channels of latents, and pixels along an edge of one.
    pub sizes: fn(&Path) -> Result<(i64, i64), CatalogError>,
}

impl FamilyVae {
    /// FLUX.1's.
    pub const FLUX: Self = Self {
        class: Some("AutoencoderKL"),
        wanted: parts::flux_vae,
        published: |_| Arc::new(KlVaeConfig::of_sixteen_channels()),
        is_published: |_, place| has_widths_of(&KlVaeConfig::of_sixteen_channels(), place),
        read: |place, reader| reader.autoencoder::<KlVaeConfig>(place),
        sizes: |place| {
            let config = KlVaeConfig::read(place)?;
            Ok((config.latent_channels, config.spatial_factor()))
        },
    };
    /// SDXL's.
    pub const SDXL: Self = Self {
        wanted: parts::sdxl_vae,
        published: |_| Arc::new(KlVaeConfig::of_four_channels()),
        is_published: |_, place| has_widths_of(&KlVaeConfig::of_four_channels(), place),
        ..Self::FLUX
    };
    /// FLUX.2's, with normed latents.
    pub const FLUX2: Self = Self {
        class: Some("AutoencoderKLFlux2"),
        wanted: parts::flux2_vae,
        published: |_| Arc::new(KlVaeConfig::of_thirty_two_channels()),
        is_published: |_, place| has_widths_of(&KlVaeConfig::of_thirty_two_channels(), place),
        ..Self::FLUX
    };
    /// Qwen-Image 2.1's, of RGBA images.
    pub const QWEN_IMAGE_21: Self = Self {
        class: Some("AutoencoderKLQwenImage21"),
        wanted: parts::rgba_vae,
        ..Self::QWEN_IMAGE
    };
    /// Wan 2.1's as Qwen-Image was trained with it.
    pub const QWEN_IMAGE: Self = Self {
        class: Some("AutoencoderKLQwenImage"),
        wanted: parts::image_wan_vae,
        published: |channels| Arc::new(WanVaeConfig::published(channels)),
        is_published: |channels, place| {
            let published = WanVaeConfig::published(channels);
            WanVaeConfig::read(place).is_ok_and(|config| config.is_as_wide_as(&published))
        },
        read: |place, reader| reader.autoencoder::<WanVaeConfig>(place),
        sizes: |place| {
            let config = WanVaeConfig::read(place)?;
            Ok((config.z_dim, config.spatial_factor()))
        },
    };
}

fn has_widths_of(published: &KlVaeConfig, place: &Path) -> bool {
    let widths = &published.block_out_channels;
    KlVaeConfig::read(place).is_ok_and(|config| config.block_out_channels == *widths)
}

/// The kinds of text encoders.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum TextNetwork {
    ClipL,
    /// OpenCLIP's bigG, which reads the first text encoder's tokens.
    ClipG,
    T5(T5Kind),
    Language(LanguageUse),
    /// With its vision transformer, where the file has one: models that make images of text alone run without.
    VisionLanguage(LanguageUse),
    /// Anima's text adapter, in the transformer's file, with a tokenizer of its own.
    AnimaAdapter,
}

/// A text encoder of a family, next to a transformer of config `C`.
pub(super) struct TextEncoder<C: 'static> {
    pub network: TextNetwork,
    /// Name in the token counter.
    pub name: &'static str,
    /// Tokens of a prompt at most.
    pub limit: fn(GuidanceMode) -> u32,
    pub rule: TextRule,
    pub wanted: fn(&C) -> ComponentQuery<'static>,
    /// The config in plans before a model is here; none where such plans leave it out.
    pub published: fn(&C) -> Option<AnyConfig>,
    /// Tokens that are encoded at once.
    pub tokens: fn(&PlannedJob<'_>) -> f64,
    /// Numbers in all, about.
    pub weights: u64,
}

impl<C> TextEncoder<C> {
    pub const fn clip_l(
        wanted: fn(&C) -> ComponentQuery<'static>,
        published: fn(&C) -> Option<AnyConfig>,
    ) -> Self {
        Self {
            network: TextNetwork::ClipL,
            name: "CLIP",
            limit: |_| CLIP_TOKENS,
            rule: TextRule::Plain,
            wanted,
            published,
            tokens: |_| CLIP_TOKENS as f64,
            weights: 123_000_000,
        }
    }

    /// The encoder half of T5-XXL.
    pub const fn t5_xxl(
        wanted: fn(&C) -> ComponentQuery<'static>,
        limit: fn(GuidanceMode) -> u32,
        tokens: fn(&PlannedJob<'_>) -> f64,
    ) -> Self {
        Self {
            network: TextNetwork::T5(T5Kind::T5),
            name: "T5",
            limit,
            rule: TextRule::Plain,
            wanted,
            published: |_| Some(Arc::new(T5Config::xxl(T5Kind::T5))),
            tokens,
            weights: 4_800_000_000,
        }
    }
}

impl TextNetwork {
    /// diffusers' class, where only one will do.
    pub const fn class(self) -> Option<&'static str> {
        match self {
            Self::ClipL | Self::ClipG => Some("CLIPTextModel"),
            Self::T5(T5Kind::T5) => Some("T5EncoderModel"),
            Self::T5(T5Kind::Umt5) => Some("UMT5EncoderModel"),
            Self::AnimaAdapter => Some("AnimaTextConditioner"),
            Self::Language(_) | Self::VisionLanguage(_) => None,
        }
    }

    pub fn read(
        self,
        part: PlannedNetwork,
        place: &Path,
        reader: &mut NetworkReader,
    ) -> Result<(), CatalogError> {
        match self {
            Self::ClipL => reader.read::<ClipTextConfig>(part, place),
            Self::ClipG => reader.read::<ClipGTextConfig>(part, place),
            Self::T5(kind) => reader.with_config(part, place, T5Config::read_as(kind, place)?),
            Self::AnimaAdapter => reader.read::<AnimaAdapterConfig>(part, place),
            Self::Language(usage) => reader.with_config(part, place, usage.read(place)?),
            Self::VisionLanguage(usage) => {
                reader.with_config(part, place, usage.read(place)?)?;
                if usage.kind == LanguageKind::Qwen2 {
                    read_vision::<QwenVisionConfig>(QwenVisionConfig::is_in, place, reader)
                } else {
                    read_vision::<Qwen3VisionConfig>(Qwen3VisionConfig::is_in, place, reader)
                }
            }
        }
    }

    pub fn need(
        self,
        job: &PlannedJob<'_>,
        part: PlannedNetwork,
        tokens: f64,
    ) -> Option<StageFootprint> {
        match self {
            Self::ClipL => clip_text::<ClipL>(job, part),
            Self::ClipG => clip_text::<ClipG>(job, part),
            Self::T5(_) => t5(job, part, tokens),
            Self::AnimaAdapter => anima_adapter(job, part, tokens),
            Self::Language(_) | Self::VisionLanguage(_) => language(job, part, tokens),
        }
    }

    /// Its layers in LoRAs, where there are LoRAs for it.
    pub fn lora(self) -> Option<LoraTarget> {
        match self {
            Self::ClipL => Some(lora::CLIP),
            Self::ClipG => Some(lora::CLIP_G),
            Self::T5(_) => Some(lora::T5),
            Self::AnimaAdapter => Some(lora::ANIMA_ADAPTER),
            Self::Language(_) | Self::VisionLanguage(_) => None,
        }
    }
}

/// Reads the vision transformer of a text encoder, if the file has one.
fn read_vision<C: NetworkConfig + Any + Send + Sync>(
    is_in: fn(&WeightSet) -> bool,
    place: &Path,
    reader: &mut NetworkReader,
) -> Result<(), CatalogError> {
    let weights = WeightSet::open(place)?;
    if is_in(&weights)
        && let Ok(config) = C::read(place)
        && config.check_weights(&weights).is_ok()
    {
        reader.with_config(PlannedNetwork::ImageEncoder, place, config)?;
    }
    Ok(())
}
