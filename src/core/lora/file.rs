//! One LoRA file by its header: its layers, what each holds, and what the file says about its scaling.
//!
//! Reads no numbers but those in texts; the engine reads the tensors.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::keys::{self, LoraScope, LoraTensorKind};
use super::scaling::LoraScaling;
use crate::formats::weights::WeightSet;
use crate::library::{storage, tensor_kind};
use crate::model::CatalogError;

/// Sentences about the metadata of one file.
const MAX_NOTICES: usize = 4;

/// A LoRA's header.
#[derive(Clone, Debug)]
pub struct LoraFile {
    pub path: PathBuf,
    pub weights: WeightSet,
    /// The parts of each layer's update, and their keys, by the layer's name in the file.
    pub layers: BTreeMap<String, BTreeMap<LoraTensorKind, String>>,
    /// Keys that no LoRA tool writes.
    pub strange: Vec<String>,
    /// Sentences about metadata that is not used, and about strange values.
    pub notices: Vec<String>,
    /// kohya's alpha in the metadata is part of the tensors already, see `LoraScaling`.
    pub is_converted: bool,
    /// Metadata divides alpha by the square root of the rank.
    pub(super) has_rslora: bool,
    /// From the metadata, of layers without an `alpha` tensor; of the others once those are read.
    pub(super) scales: BTreeMap<String, f64>,
}

/// First key of an update in integers or with a scale.
fn quantised_key<'a>(
    weights: &'a WeightSet,
    layers: &BTreeMap<String, BTreeMap<LoraTensorKind, String>>,
) -> Option<&'a str> {
    let scale = weights.tensors.keys().find(|key| {
        let ends = [".weight_scale", ".scale_weight", ".weight.scale"];
        ends.iter().any(|end| key.ends_with(end))
    });
    let parts = layers.values().flatten();
    let mut updates = parts.filter(|(leaf, _)| **leaf != LoraTensorKind::Alpha);
    let integer = updates.find_map(|(_, key)| {
        let (key, entry) = weights.tensors.get_key_value(key)?;
        let is_integer = matches!(
            entry.dtype.plain()?,
            Dtype::I8 | Dtype::U8 | Dtype::I16 | Dtype::U16 | Dtype::I32 | Dtype::U32
        );
        is_integer.then_some(key)
    });
    scale.or(integer).map(String::as_str)
}

impl LoraFile {
    /// Reads the header of a file, or of the only weights in a folder. Fails for what is no LoRA.
    pub fn read(path: &Path) -> Result<Self, CatalogError> {
        if !path.exists() {
            return Err(CatalogError::lora("this LoRA is missing", path));
        }
        let weights = WeightSet::open(path)?;
        let mut layers: BTreeMap<String, BTreeMap<LoraTensorKind, String>> = BTreeMap::new();
        let mut strange = Vec::new();
        for key in weights.tensors.keys() {
            let norm = || keys::whole_norm(key).map(|layer| (layer, LoraTensorKind::Set));
            let Some((layer, leaf)) = keys::split(key).or_else(norm) else {
                strange.push(key.clone());
                continue;
            };
            let (layer, leaf) = match leaf {
                LoraTensorKind::DiffModulation => {
                    (format!("{layer}.modulation"), LoraTensorKind::Diff)
                }
                leaf => (layer.to_owned(), leaf),
            };
            let parts = layers.entry(layer).or_default();
            match parts.entry(leaf) {
                Entry::Vacant(place) => drop(place.insert(key.clone())),
                Entry::Occupied(_) => strange.push(key.clone()),
            }
        }
        let is_update = |parts: &BTreeMap<LoraTensorKind, String>| {
            let found = [
                LoraTensorKind::Down,
                LoraTensorKind::Diff,
                LoraTensorKind::DiffBias,
                LoraTensorKind::HadaW1A,
            ];
            let lokr = [LoraTensorKind::LokrW1, LoraTensorKind::LokrW1A];
            found
                .iter()
                .chain(&lokr)
                .any(|leaf| parts.contains_key(leaf))
        };
        if !layers.values().any(is_update) || storage::foreign(&weights).is_some() {
            let reason = match keys::unsupported_adapter(&weights) {
                Some(name) => format!("this is {name}"),
                None => format!(
                    "this is not a LoRA, but {}",
                    tensor_kind::of_tensors(&weights).text
                ),
            };
            return Err(CatalogError::lora(reason, path));
        }
        if let Some(key) = quantised_key(&weights, &layers) {
            let reason = format!("this LoRA is quantised ({key}), which is not supported");
            return Err(CatalogError::lora(reason, path));
        }
        let mut file = Self {
            path: path.to_owned(),
            weights,
            layers,
            strange,
            notices: Vec::new(),
            is_converted: false,
            has_rslora: false,
            scales: BTreeMap::new(),
        };
        file.take_scales();
        let incomplete: Vec<&str> = file.incomplete_layers().collect();
        if let Some(first) = incomplete.first() {
            let (count, total) = (incomplete.len(), file.layers.len());
            let notice = format!(
                "layers that do not act, because a half of each is missing or does not fit the other: {count} of {total}, such as {first}"
            );
            file.notices.push(notice);
        }
        Ok(file)
    }

    pub fn shape(&self, key: &str) -> &[u64] {
        self.weights
            .tensors
            .get(key)
            .map_or(&[], |entry| &entry.shape)
    }

    pub fn numel(&self, key: &str) -> u64 {
        let sizes = self.shape(key).iter();
        sizes.fold(1, |all: u64, &size| all.saturating_mul(size))
    }

    pub fn num_keys(&self) -> usize {
        self.weights.tensors.len()
    }

    /// The scale of a layer without an `alpha` tensor: as the metadata has it, or 1.
    pub fn factor(&self, layer: &str) -> f64 {
        self.scales.get(layer).copied().unwrap_or(1.0)
    }

    /// The scales that are known, smallest and largest; `None` where no layer has one.
    pub fn scale_range(&self) -> Option<(f64, f64)> {
        let scales = self.scales.values().copied();
        let ends = |range: Option<(f64, f64)>, scale: f64| {
            let (least, most) = range.unwrap_or((scale, scale));
            Some((least.min(scale), most.max(scale)))
        };
        scales.fold(None, ends)
    }

    /// Takes the scales of the metadata for the layers that have a rank and no `alpha` tensor.
    fn take_scales(&mut self) {
        let has_kohya_names = |layer: &String| {
            let mut starts = ["lora_", "lycoris_"].into_iter();
            starts.any(|start| layer.starts_with(start))
        };
        let has_kohya_names = self.layers.keys().any(has_kohya_names);
        let mut scaling = LoraScaling::read(&self.path, &self.weights, has_kohya_names);
        for (layer, parts) in &self.layers {
            let rank = self
                .rank(parts)
                .filter(|_| !parts.contains_key(&LoraTensorKind::Alpha));
            let Some(rank) = rank else {
                continue;
            };
            match scaling.of_layer(layer, rank) {
                Ok(scale) => self
                    .scales
                    .extend(scale.map(|scale| (layer.clone(), scale))),
                Err(notice) if !scaling.notices.contains(&notice) => scaling.notices.push(notice),
                Err(_) => {}
            }
        }
        scaling.notices.truncate(MAX_NOTICES);
        self.has_rslora = scaling.has_rslora();
        self.notices = scaling.notices;
        self.is_converted = scaling.is_converted;
    }

    /// The rank of a layer's update; `None` of one that is whole.
    pub(super) fn rank(&self, parts: &BTreeMap<LoraTensorKind, String>) -> Option<u64> {
        let leaves = [
            LoraTensorKind::Down,
            LoraTensorKind::HadaW1B,
            LoraTensorKind::LokrW1B,
            LoraTensorKind::LokrW2B,
        ];
        let key = leaves.iter().find_map(|leaf| parts.get(leaf))?;
        self.shape(key).first().copied()
    }

    /// Networks whose layers it changes.
    pub fn scopes(&self) -> [bool; 2] {
        [LoraScope::Transformer, LoraScope::TextEncoder]
            .map(|wanted| self.layers.keys().any(|layer| keys::scope(layer) == wanted))
    }
}
