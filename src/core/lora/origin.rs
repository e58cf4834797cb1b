//! Which model a LoRA was made for, by the names and sizes of its layers.
//!
//! The families say what tells their LoRAs apart from those of others.

use super::file::LoraFile;
use super::keys::{self, Leaf, Scope};
use crate::families::{Family, LoraSign};

/// A family of models, as far as a LoRA shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// A family's id, the short name of another, or empty.
    pub family: &'static str,
    /// Its name among people, with its size where that shows.
    pub label: String,
}

impl Origin {
    pub fn of(file: &LoraFile) -> Self {
        let names: Vec<Vec<String>> = file
            .layers
            .keys()
            .filter(|layer| keys::scope(layer) == Scope::Transformer)
            .map(|layer| keys::candidates(layer))
            .collect();
        let fits = |sign: &&LoraSign| {
            names.iter().flatten().any(|name| {
                behind(name, sign.start).is_some_and(|(block, rest)| {
                    block.is_none_or(|block| block >= sign.first_block)
                        && (sign.ends.is_empty() || sign.ends.iter().any(|end| rest.ends_with(end)))
                })
            })
        };
        // The first that fits any layer wins, so the more special come first.
        let mut signs = Family::all().flat_map(|family| family.lora.signs);
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
}

/// The outputs of the first attention.
fn width(file: &LoraFile) -> Option<u64> {
    file.layers.iter().find_map(|(layer, parts)| {
        let name = keys::normal(layer);
        let is_query = name.ends_with("self_attn_q") || name.ends_with("attn1_to_q");
        let up = parts.get(&Leaf::Up).or_else(|| parts.get(&Leaf::HadaW1A))?;
        is_query.then(|| file.shape(up).first().copied())?
    })
}

/// What stands behind `start`, and the number in the place of its `#`.
fn behind<'a>(name: &'a str, start: &str) -> Option<(Option<usize>, &'a str)> {
    let Some((before, after)) = start.split_once('#') else {
        return name.strip_prefix(start).map(|rest| (None, rest));
    };
    let rest = name.strip_prefix(before)?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let number = rest[..digits].parse().ok()?;
    rest[digits..]
        .strip_prefix(after)
        .map(|rest| (Some(number), rest))
}
