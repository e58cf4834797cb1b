//! Model that a LoRA was trained for, by the names and sizes of its layers.
//!
//! Families define the key patterns of their LoRAs.

use std::collections::BTreeMap;

use super::file::LoraFile;
use super::keys::{self, LoraScope, LoraTensorKind};
use crate::families::{LoraSignature, ModelFamily, SharedLoraNames};
use crate::library::other_models;

/// A family of models, as far as a LoRA shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoraOrigin {
    /// A family's id, the short name of a relative, the label of another model, or empty.
    pub family: &'static str,
    /// Another family whose LoRAs may have the same layers.
    pub alternative: Option<&'static str>,
    /// Its name among people, with its size where that shows.
    pub label: String,
}

/// Metadata that names the model.
const BASE_MODELS: [&str; 4] = [
    "ss_base_model_version",
    "modelspec.architecture",
    "base_model",
    "ss_sd_model_name",
];

impl LoraOrigin {
    pub fn from_file(file: &LoraFile) -> Self {
        let layers: Vec<(Vec<String>, Option<u64>)> = file
            .layers
            .iter()
            .filter(|(layer, _)| keys::scope(layer) == LoraScope::Transformer)
            .map(|(layer, parts)| (keys::candidates(layer), outputs(file, parts)))
            .collect();
        let fits = |sign: &&LoraSignature| {
            let is_name = |name: &String| {
                behind(name, sign.start).is_some_and(|(block, rest)| {
                    block.is_none_or(|block| block >= sign.first_block)
                        && (sign.ends.is_empty() || sign.ends.iter().any(|end| rest.ends_with(end)))
                })
            };
            layers.iter().any(|(names, outputs)| {
                (sign.outputs.is_none() || sign.outputs == *outputs) && names.iter().any(is_name)
            })
        };
        // The first that fits any layer wins, so the more special come first.
        let of_families = ModelFamily::all().flat_map(|family| family.lora.signs);
        let mut signs = other_models::lora_signs().chain(of_families);
        let Some(sign) = signs.find(fits) else {
            return Self {
                family: "",
                alternative: None,
                label: String::new(),
            };
        };
        let names = || layers.iter().flat_map(|(names, _)| names);
        let family = ModelFamily::of_id(sign.family);
        if let Some(shared) = family.and_then(|family| family.lora.shared_names) {
            return Self::of_shared_names(shared, sign, file, names);
        }
        let sized = family
            .zip(width(file))
            .and_then(|(family, width)| (family.lora.label_of_width)(width));
        Self {
            family: sign.family,
            alternative: None,
            label: sized.unwrap_or_else(|| sign.label.to_owned()),
        }
    }

    /// From layers of a family that another family may have, too. `names`: in underscores.
    fn of_shared_names<'a, N: Iterator<Item = &'a String>>(
        shared: &SharedLoraNames,
        sign: &LoraSignature,
        file: &LoraFile,
        names: impl Fn() -> N,
    ) -> Self {
        let has = |parts: &[&str]| {
            let mut layers = file.layers.keys();
            layers.any(|layer| parts.iter().any(|part| layer.contains(part)))
        };
        let names_model = |model: &str| {
            let mut notes = BASE_MODELS
                .iter()
                .filter_map(|note| file.weights.notes.get(*note));
            notes.any(|note| note.to_lowercase().contains(model))
        };
        let is_own_name = |name: &String| {
            shared.own_ends.iter().any(|end| name.ends_with(end))
                || shared
                    .own_blocks
                    .iter()
                    .any(|block| name.starts_with(block))
        };
        let (other, other_label) = shared.other;
        let (family, alternative, label) = if has(shared.other_parts) || names_model(other) {
            (other, None, other_label.to_owned())
        } else if has(shared.own_parts) || names_model(sign.family) || names().any(is_own_name) {
            (sign.family, None, sign.label.to_owned())
        } else {
            (
                sign.family,
                Some(other),
                format!("{} or {other_label}", sign.label),
            )
        };
        Self {
            family,
            alternative,
            label,
        }
    }

    /// Returns true if LoRAs of this origin may be for models that `accepts` their families, or nothing shows whose they
    /// are.
    pub fn is_accepted(&self, accepts: impl Fn(&str) -> bool) -> bool {
        self.family.is_empty() || accepts(self.family) || self.alternative.is_some_and(accepts)
    }

    /// Returns true if a family takes such LoRAs, or nothing shows whose they are.
    pub fn is_supported(&self) -> bool {
        ModelFamily::all()
            .any(|family| self.is_accepted(|origin| (family.lora.accepts)(origin, &[])))
    }
}

/// The outputs of the first attention.
fn width(file: &LoraFile) -> Option<u64> {
    file.layers.iter().find_map(|(layer, parts)| {
        let name = keys::normal(layer);
        let is_query = name.ends_with("self_attn_q") || name.ends_with("attn1_to_q");
        is_query.then(|| outputs(file, parts))?
    })
}

/// The outputs of a layer, where a tensor of its update has as many rows.
fn outputs(file: &LoraFile, parts: &BTreeMap<LoraTensorKind, String>) -> Option<u64> {
    let up = parts
        .get(&LoraTensorKind::Up)
        .or_else(|| parts.get(&LoraTensorKind::HadaW1A))?;
    file.shape(up).first().copied()
}

/// Returns the rest of a name after `start`, and the number at its last `#`.
fn behind<'a>(name: &'a str, start: &str) -> Option<(Option<usize>, &'a str)> {
    let mut parts = start.split('#');
    let mut rest = name.strip_prefix(parts.next()?)?;
    let mut number = None;
    for part in parts {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        number = Some(rest[..digits].parse().ok()?);
        rest = rest[digits..].strip_prefix(part)?;
    }
    Some((number, rest))
}
