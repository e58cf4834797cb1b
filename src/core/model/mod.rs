//! Model specifications: files, capabilities, defaults and errors of one model.
//!
//! Terms shared by the catalogue, jobs and families. Nothing here searches a disk or opens weights.

mod blocks;
pub mod choices;
mod component;
pub(crate) mod configs;
mod control;
mod error;
pub(crate) mod facts;
mod files;
mod guider;
mod sampling;
mod spec;

pub use blocks::BlockSet;
pub use component::ModelComponent;
pub use configs::read_json;
pub use control::{ControlBy, ControlKind, ControlUse};
pub use error::CatalogError;
pub use files::{ModelFiles, ReduxFiles};
pub use guider::{GuidanceRange, Guider, GuiderKind};
pub use sampling::{PartialSampling, SamplingOptions};
#[cfg(test)]
pub(crate) use spec::test_spec;
pub use spec::{
    GuidanceMode, ImageRole, InputUse, LatentRgb, ModelDefaults, ModelSpec, SamplingPreset,
    SizeLimits, SmallShift,
};
pub(crate) use spec::{nearest_multiple, one, usable_aspect};
