//! What can be chosen as a preset of a model.

use safelight_core::model::ModelSpec;
use safelight_core::presets::{OwnPreset, PresetValues, Quality};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PresetKey {
    /// Every model has these.
    Quality(Quality),
    /// One of the model's, by its id.
    Model(String),
    /// One of the user's, by its name.
    Own(String),
}

impl PresetKey {
    /// Tells it from others between runs of the program.
    pub fn id(&self) -> String {
        match self {
            Self::Quality(quality) => quality.label().to_lowercase(),
            Self::Model(id) => id.clone(),
            Self::Own(name) => format!("own:{name}"),
        }
    }
}

/// A preset as it can be chosen.
pub struct PresetChoice {
    pub key: PresetKey,
    pub name: String,
    /// What it is for; empty for the user's own.
    pub note: String,
    pub values: PresetValues,
}

/// All that can be chosen for a model: those of every model, the model's, the user's.
pub(super) fn all(own: &[OwnPreset], spec: &ModelSpec) -> Vec<PresetChoice> {
    let qualities = Quality::ALL.into_iter().map(|quality| PresetChoice {
        key: PresetKey::Quality(quality),
        name: quality.label().to_owned(),
        note: quality.note().to_owned(),
        values: quality.values(spec),
    });
    let models = spec.presets.iter().map(|preset| PresetChoice {
        key: PresetKey::Model(preset.id.clone()),
        name: preset.name.clone(),
        note: preset.note.clone(),
        values: PresetValues::of_model(preset, spec),
    });
    let own = own.iter().map(|preset| PresetChoice {
        key: PresetKey::Own(preset.name.clone()),
        name: preset.name.clone(),
        note: match &preset.model {
            Some(model) if *model != spec.id => format!("Saved with {model}"),
            _ => String::new(),
        },
        values: preset.values.clone(),
    });
    qualities.chain(models).chain(own).collect()
}
