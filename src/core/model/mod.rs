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
pub use component::Component;
pub use configs::read_json;
pub use control::{ControlBy, ControlKind, ControlUse};
pub use error::CatalogError;
pub use files::{ModelFiles, PicturePrompts};
pub use guider::{GuidanceRange, Guider, GuiderKind};
pub use sampling::{PartialSampling, Sampling};
#[cfg(test)]
pub(crate) use spec::test_spec;
pub use spec::{
    Defaults, Guidance, ImageRole, InputUse, LatentRgb, Limits, ModelSpec, Preset, SmallShift,
};
pub(crate) use spec::{nearest_multiple, one, usable_aspect};
