//! LoRA files: what they are, and which layers of a model they change.
//!
//! Reads headers only. The engine loads what a [`LoraPlan`] names, and adds it to the layers while they compute; nothing
//! here or there changes a model's own weights.

mod alphas;
mod copies;
mod coverage;
mod delta;
mod file;
mod names;
mod plan;
mod scaling;
mod table;
#[cfg(test)]
pub(crate) mod tests;

use std::path::Path;

use serde::{Deserialize, Serialize};

pub use coverage::{LayerMismatch, LoraCoverage};
pub(crate) use delta::ReadDelta;
pub use delta::{LoraDelta, LoraFactor};
pub use file::LoraFile;
pub(crate) use names::of_transformer;
pub use plan::{LoraPlan, LoraUpdate};
pub use table::{ANIMA_ADAPTER, CLIP, CLIP_G, LayerTable, LoraTarget, RowRange, T5, TableLayer};

use crate::library::names as file_names;
use crate::library::names::NoiseSide;
use crate::model::choices::LoraChoice;
use crate::networks::dialects::TensorKeys;
use crate::networks::{AnimaAdapterConfig, ClipG, ClipL, ClipTextKeys, T5Keys};

/// One of a model's transformers: some have one for steps of much noise and one for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expert {
    /// There is one alone.
    Only,
    HighNoise,
    LowNoise,
}

/// Strength of each LoRA on an expert. A file whose name is that of one expert leaves the other alone.
pub fn strengths(loras: &[LoraChoice], expert: Expert) -> Vec<f64> {
    let strength = |(index, lora): (usize, &LoraChoice)| {
        let low = lora.strength_2.unwrap_or(lora.strength);
        match (expert, side(loras, index)) {
            (Expert::HighNoise, Some(NoiseSide::Low))
            | (Expert::LowNoise, Some(NoiseSide::High)) => 0.0,
            (Expert::LowNoise, _) => low,
            (Expert::Only | Expert::HighNoise, _) => lora.strength,
        }
    };
    loras.iter().enumerate().map(strength).collect()
}

/// The expert that one of several LoRAs is for: what its name states, or what another states whose name is the same
/// but for such words. Two strengths say themselves what is meant.
fn side(loras: &[LoraChoice], index: usize) -> Option<NoiseSide> {
    let own = &loras[index];
    let stated = side_of_name(&own.path);
    if stated.is_some() || own.strength_2.is_some() {
        return stated;
    }
    let name = stem(&own.path);
    let others = loras
        .iter()
        .enumerate()
        .filter(|(other, _)| *other != index);
    others.map(|(_, lora)| stem(&lora.path)).find_map(|other| {
        let is_plain_twin = file_names::without_side(&other).eq_ignore_ascii_case(&name);
        let twin = file_names::stated_side(&other).filter(|_| is_plain_twin);
        twin.map(NoiseSide::other)
            .or_else(|| file_names::side_beside(&name, &other))
    })
}

/// The expert that a file's name states; `high` and `low` alone may mean something else.
pub(crate) fn side_of_name(path: &Path) -> Option<NoiseSide> {
    file_names::stated_side(&stem(path))
}

pub(crate) fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// A LoRA that was checked before a job with it begins.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CheckedLora {
    pub lora: LoraChoice,
    pub coverage: LoraCoverage,
}

impl CheckedLora {
    /// A line for the log: `name.safetensors: 312 of 400 keys applied`.
    pub fn line(&self) -> String {
        let name = self
            .lora
            .path
            .file_name()
            .unwrap_or(self.lora.path.as_os_str());
        format!("{}: {}", name.to_string_lossy(), self.coverage)
    }
}

/// Names of a text encoder's tensors in a file with these keys.
pub fn text_encoder_keys<'a>(
    network: LoraTarget,
    keys: &(impl Iterator<Item = &'a str> + Clone),
) -> TextEncoderKeys {
    if network == ANIMA_ADAPTER {
        let has = |key: &str| keys.clone().any(|it| it == key);
        return TextEncoderKeys::AnimaAdapter(TensorKeys::of(has));
    }
    let clip = if network == CLIP {
        ClipTextKeys::detect::<ClipL>(keys)
    } else if network == CLIP_G {
        ClipTextKeys::detect::<ClipG>(keys)
    } else {
        None
    };
    let t5 = || TextEncoderKeys::T5(T5Keys::of(keys).unwrap_or_default());
    clip.map_or_else(t5, TextEncoderKeys::Clip)
}

/// Names of the tensors of one kind of text encoder.
pub enum TextEncoderKeys {
    Clip(ClipTextKeys),
    T5(T5Keys),
    AnimaAdapter(TensorKeys<AnimaAdapterConfig>),
}

impl TextEncoderKeys {
    /// The file's name of the tensor that readers call `name`.
    pub fn file_key(&self, name: &str) -> String {
        match self {
            Self::Clip(keys) => keys.file_key(name),
            Self::T5(keys) => keys.file_key(name),
            Self::AnimaAdapter(keys) => keys.file_key(name),
        }
    }
}
