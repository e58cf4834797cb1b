//! Presets: groups of form values. Three exist for every model (draft, balanced, final); users save others to `presets.toml`.
//!
//! The catalogue has the presets of distilled models. The app applies presets to the form.

mod apply;
mod content;
mod file;
mod quality;

pub use crate::model::{CacheChoice, PresetSize, PresetValues};
pub use content::PresetContent;
pub use file::{LoadedPresets, OwnPreset, PresetEdit, PresetsError, edit, load};
pub use quality::{QualityPreset, draft_size};

#[cfg(test)]
mod tests;
