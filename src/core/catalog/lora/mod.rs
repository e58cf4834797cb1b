//! LoRA files: what they are, and which layers of a model they change.
//!
//! Reads headers only. The engine loads what a [`Plan`] names, and adds it to the layers while they compute; nothing
//! here or there changes a model's own weights.

mod card;
mod coverage;
mod file;
mod framepack;
mod keys;
mod names;
mod origin;
mod plan;
mod shelf;
mod table;

use std::path::Path;

pub use card::LoraCard;
pub use coverage::{Coverage, Misfit};
pub use file::LoraFile;
pub use origin::Origin;
pub use plan::{Delta, Factor, Plan, Update};
pub use shelf::{Fit, Fitting, FoundLora, find};
pub use table::{Layer, Network, Rows, Table};

use self::keys::Leaf;
use super::names::{self as file_names, Side};
use super::{
    CatalogError, Family, FluxTransformerKeys, FramePackTransformerKeys, ModelFiles,
    TransformerKeys, WeightSet,
};
use crate::job::Lora;

/// Whether only LoRAs have such a key.
pub(super) fn is_of_lora(key: &str) -> bool {
    let tells = |leaf| {
        !matches!(
            leaf,
            Leaf::Alpha | Leaf::Diff | Leaf::DiffBias | Leaf::Unsupported
        )
    };
    keys::split(key).is_some_and(|(_, leaf)| tells(leaf))
}

/// Which of a model's transformers is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoraExpert {
    /// There is one alone.
    Only,
    HighNoise,
    LowNoise,
}

/// How strongly each LoRA acts on an expert. A file whose name is that of one expert leaves the other alone.
pub fn strengths(loras: &[Lora], expert: LoraExpert) -> Vec<f64> {
    let strength = |(index, lora): (usize, &Lora)| {
        let low = lora.strength_2.unwrap_or(lora.strength);
        match (expert, side(loras, index)) {
            (LoraExpert::HighNoise, Some(Side::Low)) | (LoraExpert::LowNoise, Some(Side::High)) => {
                0.0
            }
            (LoraExpert::LowNoise, _) => low,
            (LoraExpert::Only | LoraExpert::HighNoise, _) => lora.strength,
        }
    };
    loras.iter().enumerate().map(strength).collect()
}

/// The expert that one of several LoRAs is for: what its name states, or what another states whose name is the same
/// but for such words. Two strengths say themselves what is meant.
fn side(loras: &[Lora], index: usize) -> Option<Side> {
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
        twin.map(Side::other)
            .or_else(|| file_names::side_beside(&name, &other))
    })
}

/// The expert that a file's name states; `high` and `low` alone may mean something else.
fn side_of_name(path: &Path) -> Option<Side> {
    file_names::stated_side(&stem(path))
}

fn stem(path: &Path) -> String {
    path.file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// What is known of a LoRA before a job with it begins.
#[derive(Clone, Debug)]
pub struct CheckedLora {
    pub lora: Lora,
    pub coverage: Coverage,
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

/// Reads the LoRAs' headers and says how much of each the model takes. Fails for what is no LoRA, was made for another
/// model, or has nothing that this one knows.
pub fn check(
    loras: &[Lora],
    family: Family,
    files: &ModelFiles,
) -> Result<Vec<CheckedLora>, CatalogError> {
    if loras.is_empty() {
        return Ok(Vec::new());
    }
    let tables = tables(family, files)?;
    loras
        .iter()
        .map(|lora| {
            if !lora.strength.is_finite() || lora.strength_2.is_some_and(|low| !low.is_finite()) {
                return Err(CatalogError::Lora {
                    reason: "expected a number for the strength of a LoRA".to_owned(),
                    path: lora.path.clone(),
                });
            }
            let file = LoraFile::read(&lora.path)?;
            let coverage = fitting_plan(&file, family, &tables)?.coverage;
            Ok(CheckedLora {
                lora: lora.clone(),
                coverage,
            })
        })
        .collect()
}

/// The plan for a model of `family` with these networks, if the LoRA is for such a model.
pub fn fitting_plan(
    file: &LoraFile,
    family: Family,
    tables: &[Table],
) -> Result<Plan, CatalogError> {
    let wrong = |reason: String| CatalogError::Lora {
        reason,
        path: file.path.clone(),
    };
    let origin = Origin::of(file);
    if !origin.family.is_empty() && !is_for(origin.family, family, tables) {
        return Err(wrong(format!(
            "expected a LoRA for {}, found one for {}",
            family.label(),
            origin.label
        )));
    }
    let plan = Plan::new(file, tables);
    let coverage = &plan.coverage;
    if family == Family::Flux && coverage.misfits.iter().any(is_of_control) {
        return Err(wrong(
            "expected a LoRA, found one that makes another model of Flux, which reads a second picture (a control LoRA)"
                .to_owned(),
        ));
    }
    if let Some(first) = coverage.misfits.first()
        && coverage.num_misfits() > coverage.applied
    {
        return Err(wrong(misfit_text(&origin, family, tables, first)));
    }
    if coverage.applied == 0 {
        let what = if coverage.pictures > 0 {
            "it only changes how pictures are read, which this model does not do".to_owned()
        } else if coverage.text_encoder > 0 {
            "it only changes text encoders that this version leaves as they are".to_owned()
        } else {
            coverage.to_string()
        };
        return Err(wrong(format!(
            "none of this LoRA's keys can be applied: {what}"
        )));
    }
    Ok(plan)
}

/// Whether a LoRA of an origin is for a family. What was made for HunyuanVideo acts in FramePack too, and names that
/// Flux has as well tell the two apart only where there are more blocks than in Flux.
fn is_for(origin: &str, family: Family, tables: &[Table]) -> bool {
    match family {
        Family::Wan => origin == "wan",
        Family::Flux => origin == "flux",
        Family::FramePack => {
            let layers = tables.iter().flat_map(Table::layers);
            let mut beyond = layers.filter(|layer| layer.name.starts_with("double_blocks.19."));
            let is_small = beyond.next().is_none();
            matches!(origin, "framepack" | "hunyuan") || (origin == "flux" && is_small)
        }
    }
}

/// Whether a layer takes in more than pictures to be made.
fn is_of_control(misfit: &Misfit) -> bool {
    let name = keys::normal(&misfit.layer);
    let is_input = name.ends_with("img_in") || name.ends_with("x_embedder");
    is_input && misfit.found.1 > misfit.expected.1
}

/// A sentence that names both models.
fn misfit_text(origin: &Origin, family: Family, tables: &[Table], first: &Misfit) -> String {
    let model = match family {
        Family::Wan => wan_width(tables).map_or_else(|| "Wan".to_owned(), origin::wan_label),
        Family::Flux | Family::FramePack => family.label().to_owned(),
    };
    let (expected, found) = (first.expected, first.found);
    let layer = &first.layer;
    let made_for = if origin.label == model || origin.label.is_empty() {
        "one for another size of it"
    } else {
        &format!("one for {}", origin.label)
    };
    format!(
        "expected a LoRA for {model}, found {made_for}: its '{layer}' has {} outputs and {} inputs, the model's {} and {}",
        found.0, found.1, expected.0, expected.1
    )
}

fn wan_width(tables: &[Table]) -> Option<u64> {
    let transformer = tables.iter().find(|table| table.network == Network::Wan)?;
    let layers = transformer.layers().iter();
    let mut attention = layers.filter(|layer| layer.name.ends_with("self_attn.q"));
    attention.next().map(|layer| layer.sides().0)
}

/// The networks of a model that LoRAs change. Both experts of a model have the same layers.
fn tables(family: Family, files: &ModelFiles) -> Result<Vec<Table>, CatalogError> {
    let weights = WeightSet::at(&files.transformer)?;
    if family == Family::Wan {
        let keys = TransformerKeys::detect(|key| weights.has(key));
        return Ok(vec![Table::new(Network::Wan, "", &|name| match keys {
            Some(keys) => shape(&weights, &keys.file_key(name)),
            None => shape(&weights, name),
        })]);
    }
    if family == Family::FramePack {
        let keys = FramePackTransformerKeys::detect(|key| weights.has(key))
            .unwrap_or(FramePackTransformerKeys::DIFFUSERS);
        let is_diffusers = keys.is_diffusers();
        let network = Network::FramePack { is_diffusers };
        return Ok(vec![Table::new(network, "", &|name| {
            shape(&weights, &keys.file_key(name))
        })]);
    }
    let keys = FluxTransformerKeys::detect(|key| weights.has(key))
        .unwrap_or(FluxTransformerKeys::ORIGINAL);
    let is_diffusers = keys.is_diffusers;
    let mut tables = vec![Table::new(Network::Flux { is_diffusers }, "", &|name| {
        shape(&weights, &keys.file_key(name))
    })];
    let encoders = [
        (Network::Clip, Some(&files.text_encoder)),
        (Network::T5, files.text_encoder_2.as_ref()),
    ];
    for (network, place) in encoders {
        // One that cannot be read is told where it is loaded.
        if let Some(Ok(weights)) = place.map(|place| WeightSet::at(place)) {
            let keys = weights.tensors.keys().map(String::as_str);
            let prefix = text_encoder_prefix(network, keys);
            tables.push(Table::new(network, prefix, &|name| shape(&weights, name)));
        }
    }
    Ok(tables)
}

fn shape(weights: &WeightSet, key: &str) -> Option<Vec<u64>> {
    weights.tensors.get(key).map(|entry| entry.shape.clone())
}

/// What stands before the names of a text encoder's layers in a file with these keys.
pub fn text_encoder_prefix<'a>(network: Network, keys: impl Iterator<Item = &'a str>) -> &'a str {
    let end = match network {
        Network::T5 => "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
        _ => "embeddings.token_embedding.weight",
    };
    let before = |key: &'a str| {
        let before = key.strip_suffix(end)?;
        (before.is_empty() || before.ends_with('.')).then_some(before)
    };
    // The shortest: other encoders may stand in the same file, behind more.
    keys.filter_map(before)
        .min_by_key(|before| before.len())
        .unwrap_or_default()
}
