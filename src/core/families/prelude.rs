//! Vocabulary of a family's files: its table and what the table is filled with.

pub(super) use super::ModelFamily;
pub(super) use super::def::{ControlNets, ExpertRules};
pub(super) use super::parts::check_width;
pub(super) use super::single::control_net;
pub(super) use super::table::{
    FamilyTable, FamilyVae, LoraTable, OTHER_PIPELINE, SingleTransformerFamily, StageNeeds,
    TextEncoder, TextNetwork, VariantHints,
};
pub(super) use crate::footprint::autoencoder::PixelVolume;
pub(super) use crate::footprint::streams::{
    JointSequence, TokenSequence, add_controls, joint, streams,
};
pub(super) use crate::footprint::{
    NetworkFootprint, PlannedJob, PlannedNetwork, REFERENCE_PIXELS, StageFootprint,
};
pub(super) use crate::formats::weights::WeightSet;
pub(super) use crate::job::Stage;
pub(super) use crate::library::ControlNetwork;
pub(super) use crate::library::component_search::wanted::{
    ComponentQuery, TokenizerForm, WantedTokenizer, fits_transformer,
};
pub(super) use crate::library::names::model_words;
pub(super) use crate::lora::LayerTable;
pub(super) use crate::model::choices::SamplerKind;
pub(super) use crate::model::facts::{
    ModelFacts, ModelVariant, SchedulerDefaults, TransformerShape,
};
pub(super) use crate::model::{
    CatalogError, ControlUse, GuidanceMode, ImageRole, InputUse, ModelComponent, ModelFiles,
    SizeLimits, lora_signatures,
};
pub(super) use crate::networks::{
    LanguageConfig, LanguageKind, LanguageTap, LanguageUse, NetworkConfig, PartKind,
    SchedulerConfig,
};
pub(super) use crate::tokens::{PromptPadding, PromptTemplate, QWEN_CHAT, TextRule};
