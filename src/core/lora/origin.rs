//! Which model a LoRA was made for, by the names and sizes of its layers.
//!
//! The families say what tells their LoRAs apart from those of others.

use std::collections::BTreeMap;

use super::file::LoraFile;
use super::keys::{self, Leaf, Scope};
use crate::families::{Family, LoraSignature};
use crate::library::other_models;

/// A family of models, as far as a LoRA shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// A family's id, the short name of a relative, the label of another model, or empty.
    pub family: &'static str,
    /// Its name among people, with its size where that shows.
    pub label: String,
}

impl Origin {
    pub fn of(file: &LoraFile) -> Self {
        let layers: Vec<(Vec<String>, Option<u64>)> = file
            .layers
            .iter()
            .filter(|(layer, _)| keys::scope(layer) == Scope::Transformer)
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
        let of_families = Family::all().flat_map(|family| family.lora.signs);
        let mut signs = other_models::lora_signs().chain(of_families);
        let Some(sign) = signs.find(fits) else {
            return Self {
                family: "",
                label: String::new(),
            };
        };
        let sized = Family::of_id(sign.family)
            .zip(width(file))
            .and_then(|(family, width)| (family.lora.label_of_width)(width));
        Self {
            family: sign.family,
            label: sized.unwrap_or_else(|| sign.label.to_owned()),
        }
    }

    /// Returns true if a family takes such LoRAs, or nothing shows whose they are.
    pub fn is_supported(&self) -> bool {
        let mut families = Family::all();
        self.family.is_empty() || families.any(|it| (it.lora.accepts)(self.family, &[]))
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
fn outputs(file: &LoraFile, parts: &BTreeMap<Leaf, String>) -> Option<u64> {
    let up = parts.get(&Leaf::Up).or_else(|| parts.get(&Leaf::HadaW1A))?;
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
