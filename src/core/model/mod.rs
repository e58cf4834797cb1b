//! Model specifications: files, capabilities, defaults and errors of one model.
//!
//! Terms shared by the catalogue, jobs and families. Nothing here searches a disk or opens weights.

mod advice;
mod blocks;
pub mod choices;
mod component;
pub(crate) mod configs;
mod control;
mod detection;
pub(crate) mod facts;
pub mod family;
mod files;
mod guider;
mod input_use;
mod overrides;
mod preset;
mod sampling;
mod spec;
mod step_cache;
#[cfg(test)]
mod testing;

pub use crate::formats::{CatalogError, read_json};
pub(crate) use advice::SEE_MODELS;
pub use advice::advice_for;
pub use blocks::BlockSet;
pub use component::ModelComponent;
pub use control::{ControlBy, ControlKind, ControlUse};
pub(crate) use detection::{DetectionRule, LoraSignature, PartKind, SharedLoraNames};
pub(crate) use detection::{detection_rules, lora_signatures};
pub use family::{ModelFamily, first_step, with_article};
pub use files::{ModelFiles, ReduxFiles};
pub use guider::{GuidanceRange, Guider, GuiderKind};
pub use input_use::{GuidanceMode, ImageRole, InputUse};
pub use overrides::ComponentOverrides;
pub use preset::{CacheChoice, PresetSize, PresetValues};
pub use sampling::{PartialSampling, SamplingOptions};
pub use spec::{
    LatentRgb, ModelDefaults, ModelSpec, SamplingPreset, SizeLimits, SmallShift, remote_id,
};
pub(crate) use spec::{nearest_multiple, one, usable_aspect};
pub use step_cache::{StepCache, StepCacheKind};
#[cfg(test)]
pub(crate) use testing::test_spec;
