//! What the tensors of a weight file are, from their names and shapes.
//!
//! For people who ask what a file is: nothing is run because of what is said here.

use safetensors::Dtype;
use serde::Serialize;

use super::{Role, storage};
use crate::families::Family;
use crate::formats::weights::{TensorEntry, WeightSet, ends_with_path, keys};
use crate::lora;
use crate::networks::{self, KindRule};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TensorKind {
    /// The id of a family, the short name of a relative or of an encoder (`umt5`, `t5`, `clip`, `llama`, `qwen`, `gemma`, `vision`), or empty.
    pub family: &'static str,
    /// `transformer`, `text_encoder`, `image_encoder`, `vae`, `tiny_decoder`, `upscaler`, `interpolator`, `adapter`, `lora`, or empty.
    pub role: &'static str,
    /// A noun phrase for people.
    pub text: String,
}

/// What is left when no family knows it.
const OTHERS: &[KindRule] = &[KindRule::new(
    "",
    "vae",
    "an image VAE",
    &["decoder.conv_in.weight", "encoder.conv_in.weight"],
)];

/// All rules in the order in which they are tried: a file that has a transformer may have the other parts, too.
fn rules() -> impl Iterator<Item = &'static KindRule> {
    let of_families = |is_vae: bool| {
        let kinds = Family::all().flat_map(|family| family.files.kinds);
        kinds.filter(move |rule| (rule.role == "vae") == is_vae)
    };
    of_families(false)
        .chain(networks::ENCODERS.into_iter().flatten())
        .chain(of_families(true))
        .chain(networks::DECODERS.into_iter().flatten())
        .chain(networks::FINISHERS.into_iter().flatten())
        .chain(OTHERS)
}

/// What a header may be of by its text, whose names are in quotes, so that a LoRA's longer ones are not meant.
pub(super) fn at_a_glance(header: &str) -> Option<Role> {
    let has = |end: &str| header.contains(&format!("{end}\""));
    let rule = rules().find(|rule| rule.fits(has))?;
    if rule.role == "transformer" {
        let family = Family::of_id(rule.family);
        return Some(family.map_or(Role::Foreign, Role::Transformer));
    }
    // What is left of files that hold a transformer are checkpoints of other families, with their own parts.
    let is_checkpoint = header.contains("diffusion_model.");
    rule.part.filter(|_| !is_checkpoint).map(Role::Part)
}

pub fn of_tensors(weights: &WeightSet) -> TensorKind {
    let keys: Vec<String> = weights
        .tensors
        .keys()
        .map(|key| keys::plain_name(key))
        .collect();
    let has = |end: &str| keys.iter().any(|key| ends_with_path(key, end));
    let is_lora = weights.tensors.keys().any(|key| lora::is_of_lora(key));
    if is_lora {
        return TensorKind {
            family: "",
            role: "lora",
            text: "a LoRA".to_owned(),
        };
    }
    let Some(rule) = rules().find(|rule| rule.fits(has)) else {
        return TensorKind {
            text: format!("{} tensors of no known model", weights.tensors.len()),
            ..Default::default()
        };
    };
    let mut text = rule.text.to_owned();
    if let Some(family) = Family::of_id(rule.family)
        && rule.role == "transformer"
        && let Some(name) = (family.files.published_name)(weights)
    {
        let plain = format!("a {} transformer", family.label);
        text = text.replacen(&plain, &format!("a {name} transformer"), 1);
    }
    if storage::has_int8(weights) {
        text.push_str(", int8 with rotation");
    } else if is_scaled_fp8(weights) {
        text.push_str(", fp8 with scales");
    }
    TensorKind {
        family: rule.family,
        role: rule.role,
        text,
    }
}

fn is_scaled_fp8(weights: &WeightSet) -> bool {
    let mut entries = weights.tensors.values();
    let is_fp8 =
        |entry: &TensorEntry| entry.dtype == Dtype::F8_E4M3 || entry.dtype == Dtype::F8_E5M2;
    entries.any(is_fp8) && weights.tensors.keys().any(|key| keys::is_aside(key))
}
