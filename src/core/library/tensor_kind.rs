//! Kind of a weight file, from the names and shapes of its tensors.
//!
//! For display only: nothing runs because of it.

use std::collections::HashSet;
use std::sync::LazyLock;

use safetensors::Dtype;
use serde::Serialize;

use super::{WeightFileRole, lora_keys, other_models, storage};
use crate::formats::weights::{TensorEntry, WeightSet, keys};
use crate::model::{ModelFamily, with_article};
use crate::networks::{self, DetectionRule};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TensorKind {
    /// The id of a family, the short name of a relative or of an encoder (`umt5`, `t5`, `video`, `llama`, `qwen`, `gemma`, `vision`), or empty.
    pub family: &'static str,
    /// `transformer`, `text_encoder`, `image_encoder`, `vae`, `tiny_decoder`, `upscaler`, `interpolator`, `adapter`, `lora`, or empty.
    pub role: &'static str,
    /// A noun phrase for people.
    pub text: String,
    /// Used by this version, as far as the rules say it; LoRAs and ControlNets are checked by who reads them.
    pub is_supported: bool,
}

/// All rules in the order in which they are tried: a file that has a transformer may have the other parts, too.
fn rules() -> impl Iterator<Item = &'static DetectionRule> {
    let of_families = |is_vae: bool| {
        let kinds = ModelFamily::all().flat_map(|family| family.kinds);
        kinds.filter(move |rule| (rule.role == "vae") == is_vae)
    };
    // A file with both halves of CLIP counts as its image encoder.
    let [vision, encoders @ ..] = networks::ENCODERS;
    other_models::models()
        .chain(of_families(false))
        .chain(vision)
        .chain(other_models::relatives())
        .chain(encoders.into_iter().flatten())
        .chain(of_families(true))
        .chain(networks::DECODERS.into_iter().flatten())
        .chain(networks::FINISHERS.into_iter().flatten())
        .chain(other_models::parts())
}

/// Longer texts of a header are no names of tensors.
const MAX_NAME_BYTES: usize = 512;

/// Ends of keys that any rule asks for.
static ENDS: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| rules().flat_map(|rule| rule.ends).copied().collect());

/// Returns those of [`ENDS`] that a name has, bare or after a prefix of whole names.
fn known_ends<'a>(names: impl Iterator<Item = &'a str>) -> HashSet<&'static str> {
    let mut found = HashSet::new();
    for name in names.filter(|name| name.len() <= MAX_NAME_BYTES) {
        let mut end = Some(name);
        while let Some(text) = end {
            found.extend(ENDS.get(text));
            end = text.split_once('.').map(|(_, rest)| rest);
        }
    }
    found
}

/// Guesses the role of a file from the tensor names in its header. `names` may include other texts.
pub(super) fn at_a_glance<'a>(
    names: impl Iterator<Item = &'a str> + Clone,
) -> Option<WeightFileRole> {
    let ends = known_ends(names.clone());
    // Sizes are not known here, and decide nothing but which model of another family it is.
    let mut rules = rules().filter(|rule| rule.size.is_none() || rule.role == "transformer");
    let rule = rules.find(|rule| rule.fits(|end| ends.contains(end)))?;
    if rule.role == "transformer" {
        let family = ModelFamily::of_id(rule.family);
        return Some(family.map_or(WeightFileRole::Foreign, WeightFileRole::Transformer));
    }
    // Remaining files with a transformer are checkpoints of other families, with other components.
    let mut names = names;
    let is_checkpoint = names.any(|name| name.contains("diffusion_model."));
    rule.part
        .filter(|_| !is_checkpoint)
        .map(WeightFileRole::Part)
}

pub fn of_tensors(weights: &WeightSet) -> TensorKind {
    let keys: Vec<String> = weights
        .tensors
        .keys()
        .map(|key| keys::plain_name(key))
        .collect();
    let ends = known_ends(keys.iter().map(String::as_str));
    let has = |end: &str| ends.contains(end);
    // nunchaku's models have parts that are named like those of LoRAs.
    let foreign = storage::foreign(weights);
    if foreign.is_none() && weights.tensors.keys().any(|key| lora_keys::is_of_lora(key)) {
        return lora_kind("a LoRA");
    }
    let shape_of = |end: &str| weights.shape_by_end(&[end]);
    let is_it = |rule: &&DetectionRule| rule.fits(has) && rule.has_size(shape_of);
    let language = language_model(weights);
    let found = rules().find(is_it).filter(|_| language.is_none());
    let Some(rule) = found else {
        if weights
            .tensors
            .keys()
            .any(|key| lora_keys::is_difference(key))
        {
            return lora_kind("a set of differences");
        }
        let plain = storage::PLAIN;
        let stored = foreign.map(|name| format!(", stored as {name} (get {plain})"));
        let unknown = || {
            let count = match weights.tensors.len() {
                0 => "a file without tensors".to_owned(),
                1 => "1 tensor of no known model".to_owned(),
                count => format!("{count} tensors of no known model"),
            };
            [count, stored.unwrap_or_default()].concat()
        };
        let named = language.or_else(|| lora_keys::unsupported_adapter(weights));
        return TensorKind {
            text: named.unwrap_or_else(unknown),
            ..Default::default()
        };
    };
    let mut text = rule.text.to_owned();
    if let Some(family) = ModelFamily::of_id(rule.family)
        && rule.role == "transformer"
        && let Some(name) = (family.published_name)(weights)
    {
        let plain = format!("{} transformer", with_article(family.label));
        let named = format!("{} transformer", with_article(name));
        text = text.replacen(&plain, &named, 1);
    }
    if let Some(label) = storage::quant_label(weights) {
        text.push_str(", ");
        text.push_str(label);
    } else if is_scaled_fp8(weights) {
        text.push_str(", fp8 with scales");
    }
    TensorKind {
        family: rule.family,
        role: rule.role,
        text,
        is_supported: match rule.role {
            "transformer" => ModelFamily::of_id(rule.family).is_some(),
            "vae" | "text_encoder" | "image_encoder" => rule.part.is_some(),
            role => !role.is_empty(),
        },
    }
}

fn lora_kind(text: &str) -> TensorKind {
    TensorKind {
        role: "lora",
        text: text.to_owned(),
        ..TensorKind::default()
    }
}

/// Architectures of language models in GGUF files that text encoders have.
const ENCODER_ARCHITECTURES: [&str; 6] = ["gemma", "llama", "pig", "cow", "qwen", "t5"];

/// A language model in a GGUF file that is not a text encoder of any model here, as a noun phrase.
fn language_model(weights: &WeightSet) -> Option<String> {
    let architecture = weights.notes.get("general.architecture")?;
    let is_other = weights.has("token_embd.weight")
        && !ENCODER_ARCHITECTURES
            .iter()
            .any(|known| architecture.starts_with(known));
    let name: String = architecture.chars().take(40).collect();
    is_other.then(|| format!("a language model ({name})"))
}

fn is_scaled_fp8(weights: &WeightSet) -> bool {
    let mut entries = weights.tensors.values();
    let is_fp8 =
        |entry: &TensorEntry| entry.dtype == Dtype::F8_E4M3 || entry.dtype == Dtype::F8_E5M2;
    entries.any(is_fp8) && weights.tensors.keys().any(|key| keys::is_aside(key))
}
