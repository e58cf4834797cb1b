//! Models on this disk: the places where models are looked for, the files there, and which of them belong together.
//!
//! What a model is in the end, and which entry of `models.toml`, is `catalog`'s to say.

pub(crate) mod companions;
mod controls;
pub(crate) mod identify;
pub(crate) mod kind;
pub(crate) mod names;
pub(crate) mod networks;
pub(crate) mod other_models;
mod parts;
mod places;
pub(crate) mod scan;
pub(crate) mod single;
pub(crate) mod storage;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tiny;
pub(crate) mod tokenizer;
pub(crate) mod watch;

pub use companions::Companions;
pub use controls::{ControlNetwork, FoundControl, control_named, find_controls};
pub use kind::TensorKind;
pub(crate) use parts::{Item, Library, Role, TOKENIZERS, glance, place_of, weight_files};
pub use places::{SearchPath, folders_listed_in};
pub(crate) use places::{SearchPaths, is_for_loras};
pub use watch::Watch;
