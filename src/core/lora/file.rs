//! One LoRA file by its header: its layers, what each holds, and what the file says about its scaling.
//!
//! Reads no numbers but those in texts; the engine reads the tensors.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use safetensors::Dtype;

use super::alphas::short;
use super::copies::StoredTensors;
use super::delta::{LayerFault, ReadDelta};
use super::scaling::LoraScaling;
use crate::formats::weights::WeightSet;
use crate::formats::weights::keys::SCALES;
use crate::library::lora_keys::{self as keys, LoraScope, LoraTensorKind};
use crate::library::{storage, tensor_kind};
use crate::model::CatalogError;

/// Sentences about the metadata of one file.
const MAX_NOTICES: usize = 4;

/// Names in one sentence.
const MAX_NAMED: usize = 3;

/// The parts of one layer's update, and their keys.
pub(crate) type LayerParts = BTreeMap<LoraTensorKind, String>;

/// A LoRA's header.
#[derive(Clone, Debug)]
pub struct LoraFile {
    pub path: PathBuf,
    pub weights: WeightSet,
    /// By the layer's name in the file.
    pub layers: BTreeMap<String, LayerParts>,
    /// Layers that do not act. A header does not show all of them, see [`Self::read_alphas`].
    pub(crate) left_out: BTreeMap<String, LayerFault>,
    /// Keys that no LoRA tool writes.
    pub(crate) strange: Vec<String>,
    /// Keys of parts that a layer has under another key too.
    pub(crate) num_repeated: usize,
    /// Sentences about metadata that is not used, and about strange values.
    pub(crate) notices: Vec<String>,
    /// kohya's alpha in the metadata is part of the tensors already, see `LoraScaling`.
    is_converted: bool,
    /// Metadata divides alpha by the square root of the rank.
    pub(crate) has_rslora: bool,
    /// From the metadata, of layers without an `alpha` tensor; of the others once those are read.
    pub(crate) scales: BTreeMap<String, f64>,
}

/// Why a LoRA cannot be read: one of its tensors is not stored as plain numbers.
fn unreadable(weights: &WeightSet, layers: &BTreeMap<String, LayerParts>) -> Option<String> {
    let mut parts = layers.iter().flat_map(|(layer, parts)| {
        let parts = parts.iter().map(move |(leaf, key)| (layer, leaf, key));
        parts
            .filter(|(_, leaf, _)| !matches!(leaf, LoraTensorKind::Alpha | LoraTensorKind::Reshape))
    });
    parts.find_map(|(layer, _, key)| {
        let dtype = weights.tensors.get(key)?.dtype;
        let tensor = key.strip_suffix(".weight").unwrap_or(key);
        let ends = SCALES.iter().chain(&[".scale"]);
        let mut scales = ends.flat_map(|end| [tensor, key, layer].map(|it| format!("{it}{end}")));
        let scale = scales.find(|scale| weights.has(scale));
        let is_small = dtype != Dtype::F32 && dtype != Dtype::F16 && dtype != Dtype::BF16;
        let stored = match scale {
            Some(scale) if is_small => format!("{dtype} with scales ('{scale}')"),
            _ if storage::is_plain(dtype) => return None,
            _ => format!("{dtype} ('{key}')"),
        };
        Some(format!(
            "this LoRA is stored as {stored}, which is not supported: get it as bf16, f16, f32 or plain fp8"
        ))
    })
}

/// Returns true if a layer has the beginning of a change.
fn is_update(parts: &LayerParts) -> bool {
    let found = [
        LoraTensorKind::Down,
        LoraTensorKind::Diff,
        LoraTensorKind::DiffBias,
        LoraTensorKind::HadaW1A,
        LoraTensorKind::LokrW1,
        LoraTensorKind::LokrW1A,
    ];
    found.iter().any(|leaf| parts.contains_key(leaf))
}

impl LoraFile {
    /// Reads the header of a file, or of the only weights in a folder. Fails for what is no LoRA.
    pub fn read(path: &Path) -> Result<Self, CatalogError> {
        if !path.exists() {
            return Err(CatalogError::lora("this LoRA is missing", path));
        }
        let weights = WeightSet::open(path)?;
        let mut layers: BTreeMap<String, LayerParts> = BTreeMap::new();
        let mut strange = Vec::new();
        let mut repeated: Vec<[String; 2]> = Vec::new();
        let mut num_repeated = 0;
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
                Entry::Occupied(first) => {
                    num_repeated += 1;
                    if leaf != LoraTensorKind::Unsupported {
                        repeated.push([first.get().clone(), key.clone()]);
                    }
                }
            }
        }
        let wrong = |reason: String| Err(CatalogError::lora(reason, path));
        if !layers.values().any(is_update) || storage::foreign(&weights).is_some() {
            return wrong(match keys::unsupported_adapter(&weights) {
                Some(name) => format!("this is {name}"),
                None => format!(
                    "this is not a LoRA, but {}",
                    tensor_kind::of_tensors(&weights).text
                ),
            });
        }
        if let Some(reason) = unreadable(&weights, &layers) {
            return wrong(reason);
        }
        let mut file = Self {
            path: path.to_owned(),
            weights,
            layers,
            left_out: BTreeMap::new(),
            strange,
            num_repeated,
            notices: Vec::new(),
            is_converted: false,
            has_rslora: false,
            scales: BTreeMap::new(),
        };
        if let Some([first, second]) = repeated.first() {
            let stored = StoredTensors::open(&file);
            let mut pairs = repeated.iter();
            if let Some([one, other]) = pairs.find(|[one, other]| !stored.are_equal(one, other)) {
                return wrong(format!(
                    "this LoRA has '{one}' and '{other}', which are different values of one thing: remove one of the two from the file"
                ));
            }
            let count = repeated.len();
            file.notices = vec![format!(
                "tensors that are in the file twice and are used once: {count}, such as {first}, which is {second} too"
            )];
        }
        let faults = file.layers.iter().filter_map(|(layer, parts)| {
            let fault = ReadDelta::fault(&file, parts)?;
            Some((layer.clone(), fault))
        });
        file.left_out = faults.collect();
        file.take_scales();
        Ok(file)
    }

    /// Sentences about all of it that is not used or not as usual, whichever the model: the same wherever they are shown.
    pub(crate) fn notices(&self) -> Vec<String> {
        let total = self.layers.len();
        let strange = self.strange.iter().take(MAX_NAMED).cloned();
        let strange: Vec<String> = strange.collect();
        let strange = (!strange.is_empty()).then(|| {
            let (count, first) = (self.strange.len(), strange.join(", "));
            format!("keys that are no part of a LoRA are not used: {count}, such as {first}")
        });
        let mut reasons: BTreeMap<&str, Vec<(&String, &LayerFault)>> = BTreeMap::new();
        for (layer, fault) in &self.left_out {
            let same = reasons.entry(fault.reason).or_default();
            same.push((layer, fault));
        }
        let left_out = reasons.into_iter().map(|(reason, layers)| {
            let (first, fault) = layers[0];
            let detail = match &fault.detail[..] {
                "" => String::new(),
                detail => format!(" ({detail})"),
            };
            let count = layers.len();
            format!("layers that do not act: {count} of {total}, such as {first}: {reason}{detail}")
        });
        let adapter = keys::unsupported_adapter(&self.weights);
        let adapter = adapter.map(|adapter| format!("not used: some layers have {adapter}"));
        let all = strange.into_iter().chain(left_out).chain(adapter);
        all.chain(self.notices.iter().cloned()).collect()
    }

    /// The scale of its layers as a noun phrase; `None` where the file states none.
    pub(crate) fn scale_text(&self) -> Option<String> {
        let mut layers = self.layers.values();
        let has_alpha = layers.any(|parts| parts.contains_key(&LoraTensorKind::Alpha));
        if self.is_converted && !has_alpha {
            return Some("1: a converter has applied the alpha of its metadata already".to_owned());
        }
        let (least, most) = self.scale_range()?;
        let range = if least == most {
            short(least)
        } else {
            format!("{} to {}", short(least), short(most))
        };
        let how = match (has_alpha, self.has_rslora) {
            (true, _) => "alpha over rank",
            (false, false) => "alpha over rank by its metadata",
            (false, true) => "alpha over the square root of the rank by its metadata (rsLoRA)",
        };
        Some(format!("{range}, {how}"))
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
    fn scale_range(&self) -> Option<(f64, f64)> {
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
        self.notices.extend(scaling.notices);
        self.is_converted = scaling.is_converted;
    }

    /// The rank of a layer's update; `None` of one that is whole or left out.
    pub(crate) fn rank(&self, parts: &LayerParts) -> Option<u64> {
        ReadDelta::from_parts(self, parts)?.rank
    }

    /// Networks whose layers it changes.
    pub fn scopes(&self) -> [bool; 2] {
        [LoraScope::Transformer, LoraScope::TextEncoder]
            .map(|wanted| self.layers.keys().any(|layer| keys::scope(layer) == wanted))
    }
}
