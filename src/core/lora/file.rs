//! One LoRA file by its header: its layers, what each holds, and what the file says about its scaling.
//!
//! Reads no numbers but those in texts; the engine reads the tensors.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::keys::{self, Leaf, Scope};
use crate::formats::weights::WeightSet;
use crate::library::kind;
use crate::model::CatalogError;
use crate::model::configs::read_capped;

/// Where diffusers notes the scaling of a file.
const PEFT_NOTE: &str = "lora_adapter_metadata";
/// Where PEFT does, beside the file.
const PEFT_CONFIG: &str = "adapter_config.json";
const PEFT_FILE: &str = "adapter_model.safetensors";
const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// A LoRA's header.
#[derive(Clone, Debug)]
pub struct LoraFile {
    pub path: PathBuf,
    pub weights: WeightSet,
    /// The parts of each layer's update, and their keys, by the layer's name in the file.
    pub layers: BTreeMap<String, BTreeMap<Leaf, String>>,
    /// Keys that no LoRA tool writes.
    pub strange: Vec<String>,
    scaling: Vec<Scaling>,
}

#[derive(Clone, Debug)]
struct Scaling {
    /// `transformer`, `text_encoder`; all where empty.
    network: String,
    config: Value,
}

impl LoraFile {
    /// Reads the header of a file, or of the only weights in a folder. Fails for what is no LoRA.
    pub fn read(path: &Path) -> Result<Self, CatalogError> {
        if !path.exists() {
            return Err(CatalogError::lora("this LoRA is missing", path));
        }
        let weights = WeightSet::at(path)?;
        let mut layers: BTreeMap<String, BTreeMap<Leaf, String>> = BTreeMap::new();
        let mut strange = Vec::new();
        for key in weights.tensors.keys() {
            let norm = || keys::whole_norm(key).map(|layer| (layer, Leaf::Set));
            let Some((layer, leaf)) = keys::split(key).or_else(norm) else {
                strange.push(key.clone());
                continue;
            };
            let (layer, leaf) = match leaf {
                Leaf::DiffModulation => (format!("{layer}.modulation"), Leaf::Diff),
                leaf => (layer.to_owned(), leaf),
            };
            let parts = layers.entry(layer).or_default();
            match parts.entry(leaf) {
                Entry::Vacant(place) => drop(place.insert(key.clone())),
                Entry::Occupied(_) => strange.push(key.clone()),
            }
        }
        let is_update = |parts: &BTreeMap<Leaf, String>| {
            let found = [Leaf::Down, Leaf::Diff, Leaf::DiffBias, Leaf::HadaW1A];
            let lokr = [Leaf::LokrW1, Leaf::LokrW1A];
            found
                .iter()
                .chain(&lokr)
                .any(|leaf| parts.contains_key(leaf))
        };
        if !layers.values().any(is_update) {
            return Err(CatalogError::lora(
                format!(
                    "this is not a LoRA, but {}",
                    kind::of_tensors(&weights).text
                ),
                path,
            ));
        }
        Ok(Self {
            scaling: scaling(path, &weights),
            path: path.to_owned(),
            weights,
            layers,
            strange,
        })
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

    /// What a layer's update is multiplied with where the layer has no `alpha` of its own: as PEFT noted it, or 1.
    pub fn factor(&self, layer: &str) -> f64 {
        let of_network = self.scaling.iter().find(|scaling| {
            let start = layer.strip_prefix(scaling.network.as_str());
            scaling.network.is_empty() || start.is_some_and(|rest| rest.starts_with('.'))
        });
        of_network
            .and_then(|scaling| scaling.factor(layer))
            .unwrap_or(1.0)
    }

    /// Whose layers it changes.
    pub fn scopes(&self) -> [bool; 2] {
        [Scope::Transformer, Scope::TextEncoder]
            .map(|wanted| self.layers.keys().any(|layer| keys::scope(layer) == wanted))
    }
}

impl Scaling {
    fn factor(&self, layer: &str) -> Option<f64> {
        let of = |whole: &str, pattern: &str| {
            let own = self.config.get(pattern).and_then(Value::as_object);
            let own = own.into_iter().flatten().find_map(|(name, value)| {
                let before = layer.strip_suffix(name.as_str())?;
                (before.is_empty() || before.ends_with('.')).then(|| value.as_f64())?
            });
            own.or_else(|| self.config.get(whole)?.as_f64())
        };
        let alpha = of("lora_alpha", "alpha_pattern").or_else(|| of("alpha", "alpha_pattern"))?;
        let rank = of("r", "rank_pattern").filter(|&rank| rank >= 1.0)?;
        let is_root = self.config.get("use_rslora").and_then(Value::as_bool) == Some(true);
        let factor = alpha / if is_root { rank.sqrt() } else { rank };
        factor.is_finite().then_some(factor)
    }
}

fn scaling(path: &Path, weights: &WeightSet) -> Vec<Scaling> {
    if let Some(Value::Object(entries)) = weights.json_note(PEFT_NOTE) {
        // `transformer.r`, `transformer.lora_alpha`, `text_encoder.r`
        let mut networks: BTreeMap<String, serde_json::Map<String, Value>> = BTreeMap::new();
        for (name, value) in entries {
            let (network, name) = name.split_once('.').unwrap_or(("", &name));
            let network = networks.entry(network.to_owned()).or_default();
            network.insert(name.to_owned(), value);
        }
        let scaling = |(network, config)| Scaling {
            network,
            config: Value::Object(config),
        };
        return networks.into_iter().map(scaling).rev().collect();
    }
    let folder = if path.is_dir() {
        path
    } else if path.ends_with(PEFT_FILE) {
        path.parent().unwrap_or_else(|| Path::new(""))
    } else {
        return Vec::new();
    };
    // Without a config there is nothing to say.
    let text = read_capped(&folder.join(PEFT_CONFIG), MAX_CONFIG_BYTES).unwrap_or_default();
    match serde_json::from_slice(&text) {
        Ok(config @ Value::Object(_)) => vec![Scaling {
            network: String::new(),
            config,
        }],
        _ => Vec::new(),
    }
}
