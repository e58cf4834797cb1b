//! Model library of this disk: search folders, their files, and the components that belong together.
//!
//! `catalog` assigns models to entries of `models.toml`.

pub(crate) mod component_search;
mod components;
mod controls;
pub(crate) mod identify;
pub(crate) mod lora_keys;
pub(crate) mod names;
pub(crate) mod networks;
pub(crate) mod other_models;
mod places;
mod removal;
pub(crate) mod scan;
pub(crate) mod single;
pub(crate) mod storage;
pub(crate) mod tensor_kind;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tiny_decoder;
pub(crate) mod tokenizer;
pub(crate) mod watch;

pub(crate) use components::{
    ComponentCandidate, ComponentLibrary, KnownComponents, TOKENIZERS, WeightFileRole, glance,
    place_of, weight_files,
};
pub use controls::{ControlNetwork, FoundControl};
pub use places::{SearchPath, folders_listed_in};
pub(crate) use places::{SearchPaths, is_for_loras};
pub use removal::ModelRemoval;
pub use tensor_kind::TensorKind;
pub use watch::FolderWatch;
