//! Model that a LoRA was trained for, by the names and sizes of its layers.
//!
//! Families define the key patterns of their LoRAs.

use std::collections::BTreeMap;

use super::file::LoraFile;
use super::keys::{self, LoraScope, LoraTensorKind};
use crate::families::{LoraSignature, ModelFamily};
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

/// Short names of FLUX.1 and HunyuanVideo, whose blocks have the same sizes and nearly the same names.
const FLUX: &str = "flux";
const HUNYUAN: &str = "hunyuan";

/// Parts of names in which HunyuanVideo has an underscore, and FLUX.1 a dot.
const HUNYUAN_PARTS: [&str; 2] = [".img_attn_", ".txt_attn_"];
/// Parts of names that LoRAs for HunyuanVideo do not have, and ends in underscores.
const FLUX_PARTS: [&str; 4] = [".img_attn.", ".txt_attn.", ".processor.", "lora_te1_"];
const FLUX_ENDS: [&str; 3] = ["_mlp_0", "_mlp_2", "_lin"];
/// Last blocks of FLUX.1: HunyuanVideo has more, and few LoRAs change all blocks but the last.
const FLUX_LAST_BLOCKS: [&str; 4] = [
    "double_blocks_18_",
    "transformer_blocks_18_",
    "single_blocks_37_",
    "single_transformer_blocks_37_",
];
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
        if sign.family == FLUX {
            return Self::of_flux_or_hunyuan(file, names, sign.label);
        }
        let sized = ModelFamily::of_id(sign.family)
            .zip(width(file))
            .and_then(|(family, width)| (family.lora.label_of_width)(width));
        Self {
            family: sign.family,
            alternative: None,
            label: sized.unwrap_or_else(|| sign.label.to_owned()),
        }
    }

    /// From layers that are in FLUX.1. `names`: in underscores.
    fn of_flux_or_hunyuan<'a, N: Iterator<Item = &'a String>>(
        file: &LoraFile,
        names: impl Fn() -> N,
        flux_label: &str,
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
        let is_flux_name = |name: &String| {
            FLUX_ENDS.iter().any(|end| name.ends_with(end))
                || FLUX_LAST_BLOCKS.iter().any(|block| name.starts_with(block))
        };
        let (family, alternative, label) = if has(&HUNYUAN_PARTS) || names_model(HUNYUAN) {
            (HUNYUAN, None, "HunyuanVideo")
        } else if has(&FLUX_PARTS) || names_model(FLUX) || names().any(is_flux_name) {
            (FLUX, None, flux_label)
        } else {
            (FLUX, Some(HUNYUAN), "Flux or HunyuanVideo")
        };
        Self {
            family,
            alternative,
            label: label.to_owned(),
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
