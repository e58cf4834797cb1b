//! The families of models that this version runs: one folder each, and the registry of them.
//!
//! A family's folder declares a `FamilyTable` with what depends on its files, from which its `FamilyDef` follows. Nothing
//! outside of this folder and of `model::family` names a family: others ask the [`ModelFamily`] that a model, a request or
//! a file carries.

pub mod anima;
pub mod chroma;
mod def;
mod dispatch;
pub mod flux;
pub mod flux2;
pub mod flux3;
mod foreign;
pub mod framepack;
pub mod krea2;
pub mod ltx2;
mod parts;
mod prelude;
pub mod qwen_image;
pub mod qwen_image_21;
mod registry;
pub mod sdxl;
mod single;
mod table;
// A family that lives in one folder of the tests. Releases are built without.
#[cfg(debug_assertions)]
#[path = "../../../tests/toy_family/core.rs"]
pub mod toy;
pub mod wan;
pub mod z_image;

pub use crate::model::family::{ModelFamily, TemporalConvPolicy};
pub(crate) use dispatch::{assemble, check_folder, family_of_pipeline, transformer_at, variant_at};
pub use dispatch::{
    control_network, lora_target, read_footprint, stage_needs, text_readers, with_control_lora,
};
pub(crate) use registry::def_of;

#[cfg(test)]
mod tests;
