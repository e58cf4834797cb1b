//! What the engine holds of each network, exactly, from the headers of its files.
//!
//! Plain numbers come to the type that is computed with, some stay in f32, and matrices of fp8 and of GGUF's blocks
//! stay as they are stored and are expanded one at a time. Reads headers and configs only; how many numbers a network
//! makes on its way is the formulas'.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::parts::{self, PartName};
use crate::catalog::{
    CatalogError, Component, Family, ModelFiles, TensorEntry, TensorType, WeightSet,
    component_config,
};
use crate::job::Lora;

/// Numbers by what becomes of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Numbers that come to the type that is computed with.
    pub plain: u64,
    /// Numbers that are f32 whatever is computed with.
    pub exact: u64,
    /// Bytes that stay as they are stored.
    pub stored: u64,
}

impl Tally {
    /// `number_bytes`: of the type that is computed with.
    pub fn bytes(&self, number_bytes: u64) -> u64 {
        let plain = self.plain.saturating_mul(number_bytes);
        let exact = self.exact.saturating_mul(4);
        plain.saturating_add(exact).saturating_add(self.stored)
    }

    fn add(&mut self, other: Self) {
        self.plain = self.plain.saturating_add(other.plain);
        self.exact = self.exact.saturating_add(other.exact);
        self.stored = self.stored.saturating_add(other.stored);
    }
}

/// One network as the engine holds it.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// What is no matrix, and stays.
    pub fixed: Tally,
    /// Matrices that every call uses.
    pub often: Tally,
    /// Matrices that a job uses once for many calls.
    pub seldom: Tally,
    /// Matrices of which some rows are looked up.
    pub tables: Tally,
    /// The largest matrix of a product.
    largest: Tally,
    /// The most numbers of one matrix that is expanded for its product.
    expanded: u64,
    /// The numbers of its config, in diffusers' terms.
    config: Value,
}

/// Which weights of a network a tensor is among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Fixed,
    Often,
    Seldom,
    Table,
}

impl Network {
    pub fn bytes(&self, number_bytes: u64) -> u64 {
        let all = [self.fixed, self.often, self.seldom, self.tables];
        let bytes = all.iter().map(|tally| tally.bytes(number_bytes));
        bytes.fold(0, u64::saturating_add)
    }

    /// Of the largest matrix that can stream.
    pub fn largest_bytes(&self, number_bytes: u64) -> u64 {
        self.largest.bytes(number_bytes)
    }

    /// What the largest matrix of narrow numbers takes while it is used: it is expanded in one pass.
    pub fn expansion_bytes(&self, number_bytes: u64) -> u64 {
        self.expanded.saturating_mul(number_bytes)
    }

    /// A number of the config, which formulas multiply.
    pub fn number(&self, key: &str, default: f64) -> f64 {
        let number = self.config.get(key).and_then(Value::as_f64);
        number.unwrap_or(default)
    }

    /// A list of numbers of the config; true and false are 1 and 0.
    pub fn numbers(&self, key: &str) -> Option<Vec<f64>> {
        let list = self.config.get(key)?.as_array()?;
        let number = |value: &Value| {
            let flag = value.as_bool().map(|is| f64::from(u8::from(is)));
            value.as_f64().or(flag)
        };
        list.iter().map(number).collect()
    }

    pub fn is(&self, key: &str) -> bool {
        let flag = self.config.get(key).and_then(Value::as_bool);
        flag.unwrap_or(false)
    }

    /// Whether the config has something under the key.
    pub fn has(&self, key: &str) -> bool {
        self.config.get(key).is_some_and(|value| !value.is_null())
    }

    /// What the header says of the part that a network is asked for.
    fn of(family: Family, part: PartName, weights: &WeightSet, config: Value) -> Self {
        let mut network = Self {
            config,
            ..Self::default()
        };
        let prefix = parts::prefix(family, part, weights);
        for (key, entry) in &weights.tensors {
            let own = key.strip_prefix(prefix);
            if let Some(own) = own.filter(|own| parts::is_read(family, part, own, weights, prefix))
            {
                network.add(family, part, own, entry);
            }
        }
        network
    }

    fn add(&mut self, family: Family, part: PartName, own: &str, entry: &TensorEntry) {
        let numbers = entry.shape.iter();
        let numbers = numbers.fold(1_u64, |all, n| all.saturating_mul(*n));
        let used = parts::use_of(part, own, &entry.shape);
        let is_narrow = match entry.dtype {
            TensorType::Plain(dtype) => dtype.bitsize() == 8,
            TensorType::Blocks(_) | TensorType::Foreign(_) => true,
        };
        let mut tally = Tally::default();
        if is_narrow && used != Use::Fixed {
            tally.stored = entry.bytes;
            if used != Use::Table {
                self.expanded = self.expanded.max(numbers);
            }
        } else if parts::is_exact(family, part, own) {
            tally.exact = numbers;
        } else {
            tally.plain = parts::held_numbers(part, own, numbers);
        }
        if matches!(used, Use::Often | Use::Seldom) && tally.bytes(4) > self.largest.bytes(4) {
            self.largest = tally;
        }
        match used {
            Use::Fixed => self.fixed.add(tally),
            Use::Often => self.often.add(tally),
            Use::Seldom => self.seldom.add(tally),
            Use::Table => self.tables.add(tally),
        }
    }
}

/// All networks of one model.
#[derive(Clone, Debug, Default)]
pub struct ModelWeights {
    parts: BTreeMap<PartName, Network>,
    /// Numbers of the LoRAs.
    lora_numbers: u64,
    /// Numbers of the tiny decoder for previews.
    preview_numbers: u64,
}

impl ModelWeights {
    /// Reads the headers of a model's files, and of the LoRAs that change them.
    pub fn read(family: Family, files: &ModelFiles, loras: &[Lora]) -> Result<Self, CatalogError> {
        let mut weights = Self::default();
        let mut known: BTreeMap<&Path, WeightSet> = BTreeMap::new();
        for part in PartName::ALL {
            let Some((component, place)) = part.place(files) else {
                continue;
            };
            if !known.contains_key(place) {
                known.insert(place, WeightSet::at(place)?);
            }
            let config = part_config(family, component, place)?;
            if let Some(set) = known.get(place) {
                let network = Network::of(family, part, set, config);
                weights.parts.insert(part, network);
            }
        }
        for lora in loras {
            // One that cannot be read is told where it is opened.
            let numbers = WeightSet::at(&lora.path).map_or(0, |set| set.parameters());
            weights.lora_numbers = weights.lora_numbers.saturating_add(numbers);
        }
        if let Some(place) = &files.preview_decoder {
            // Without it previews are linear.
            weights.preview_numbers = WeightSet::at(place).map_or(0, |set| set.parameters());
        }
        Ok(weights)
    }

    pub fn part(&self, part: PartName) -> Option<&Network> {
        self.parts.get(&part)
    }

    /// Of the tiny decoder for previews; 0 where there is none.
    pub(super) fn preview_numbers(&self) -> u64 {
        self.preview_numbers
    }

    /// What the LoRAs of a transformer take.
    pub fn lora_bytes(&self, number_bytes: u64) -> u64 {
        self.lora_numbers.saturating_mul(number_bytes)
    }
}

/// The config in diffusers' terms; image encoders may stand within that of a whole CLIP.
fn part_config(family: Family, component: Component, place: &Path) -> Result<Value, CatalogError> {
    let mut config = component_config(family, component, place)?;
    if component == Component::ImageEncoder
        && let Some(inner @ Value::Object(_)) = config.get_mut("vision_config")
    {
        config = inner.take();
    }
    Ok(config)
}
