//! Mapping of a LoRA's keys to a model's layers, checked by shapes.
//!
//! The engine reads the values.

use std::collections::BTreeSet;

use super::copies;
use super::coverage::{LayerMismatch, LoraCoverage};
use super::delta::{LoraDelta, ReadDelta};
use super::file::{LayerParts, LoraFile};
use super::table::{LayerTable, LoraTarget, RowRange, TableLayer};
use crate::library::lora_keys::{self as keys, LoraScope, LoraTensorKind};

/// Change of one layer by a LoRA.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraUpdate {
    /// The layer as the file names it.
    pub source: String,
    pub network: LoraTarget,
    pub layer: TableLayer,
    pub rows: RowRange,
    /// Inputs of the change, which in the layer of what is noised may be more than the model has there, or fewer.
    pub columns: u64,
    pub delta: Option<LoraDelta>,
    /// Scales `delta`: alpha over rank, see [`LoraFile::read_alphas`].
    pub factor: f64,
    pub dora_scale: Option<String>,
    /// Added to the bias, scaled as `delta`.
    pub up_bias: Option<String>,
    /// Added to the bias.
    pub bias: Option<String>,
    /// Stands in the tensor's place, however strong the LoRA is.
    pub instead: Option<String>,
}

/// All of a LoRA that a model can take.
#[derive(Clone, Debug)]
pub struct LoraPlan {
    pub updates: Vec<LoraUpdate>,
    pub coverage: LoraCoverage,
}

impl LoraPlan {
    /// Matches a LoRA with the layers of the networks that it may change.
    pub fn new(file: &LoraFile, tables: &[LayerTable]) -> Self {
        let mut plan = Self {
            updates: Vec::new(),
            coverage: LoraCoverage::new(file),
        };
        for (name, parts) in &file.layers {
            if !file.left_out.contains_key(name) {
                plan.add(file, tables, name, parts);
            }
        }
        copies::merge(&mut plan, file);
        plan.coverage.changed_layers = plan.updates.len();
        plan
    }

    fn add(&mut self, file: &LoraFile, tables: &[LayerTable], name: &str, parts: &LayerParts) {
        let is_text = keys::scope(name) == LoraScope::TextEncoder;
        let candidates = keys::candidates(name);
        let is_second = keys::is_of_second_encoder(name);
        let is_possible = |network: LoraTarget| {
            network.is_text_encoder == is_text && network.is_second.is_none_or(|it| it == is_second)
        };
        let mut of_scope = tables
            .iter()
            .filter(|table| is_possible(table.network))
            .peekable();
        if is_text && of_scope.peek().is_none() {
            self.coverage.text_encoder += parts.len();
            return;
        }
        let found = of_scope.find_map(|table| {
            let (layer, rows) = table.find(&candidates)?;
            Some((table.network, layer, rows))
        });
        let Some((network, layer, rows)) = found else {
            let is_of_images = |name: &String| {
                let mut networks = tables.iter().map(|table| table.network);
                networks.any(|network| (network.of_images)(name))
            };
            if candidates.iter().any(is_of_images) {
                self.coverage.images += parts.len();
            } else {
                self.coverage.unknown.extend(parts.values().cloned());
            }
            return;
        };
        let mut used = BTreeSet::new();
        match update(file, name, parts, (network, layer, rows), &mut used) {
            Ok(Some(update)) => {
                self.coverage.applied += used.len();
                let unused = parts.iter().filter(|(leaf, _)| !used.contains(*leaf));
                self.coverage
                    .unknown
                    .extend(unused.map(|(_, key)| key.clone()));
                self.updates.push(update);
            }
            Ok(None) => self.coverage.unknown.extend(parts.values().cloned()),
            Err(misfit) => {
                self.coverage.misfits.push(LayerMismatch {
                    keys: parts.len(),
                    ..misfit
                });
            }
        }
    }

    /// Inputs of the first layer with this LoRA, where those are more than the model's own: noise, and a
    /// control image next to it.
    pub fn widened(&self) -> Option<u64> {
        let wider = self.updates.iter();
        let wider = wider.filter(|update| update.columns > update.layer.sides().1);
        wider.map(|update| update.columns).max()
    }

    /// Changes of one network.
    pub fn of_network(self, network: LoraTarget) -> impl Iterator<Item = LoraUpdate> {
        let updates = self.updates.into_iter();
        updates.filter(move |update| update.network == network)
    }
}

/// Change of a layer by `parts`; those that count are added to `used`. `None` if none does.
fn update(
    file: &LoraFile,
    name: &str,
    parts: &LayerParts,
    (network, layer, rows): (LoraTarget, &TableLayer, RowRange),
    used: &mut BTreeSet<LoraTensorKind>,
) -> Result<Option<LoraUpdate>, LayerMismatch> {
    let (all, columns) = layer.sides();
    let outputs = match rows {
        RowRange::Range(_, count) => count,
        RowRange::All | RowRange::SwappedHalves => all,
    };
    let misfit = |found: (u64, u64)| LayerMismatch {
        layer: name.to_owned(),
        expected: (outputs, columns),
        found,
        keys: 0,
    };
    let mut update = LoraUpdate {
        source: name.to_owned(),
        network,
        layer: layer.clone(),
        rows,
        columns,
        delta: None,
        factor: 1.0,
        dora_scale: None,
        up_bias: None,
        bias: None,
        instead: None,
    };
    if let Some(bias) = parts.get(&LoraTensorKind::DiffBias)
        && (layer.bias.is_some() || layer.is_matrix)
    {
        let found = file.numel(bias);
        if found != outputs {
            return Err(misfit((found, columns)));
        }
        update.bias = Some(bias.clone());
        used.insert(LoraTensorKind::DiffBias);
    }
    let whole = [LoraTensorKind::Set, LoraTensorKind::Diff];
    let of_parts = |leaf| Some((leaf, parts.get(&leaf)?));
    if layer.is_matrix {
        if let Some(read) = ReadDelta::from_parts(file, parts) {
            let is_input = network.input == Some(layer.name.as_str());
            let fits =
                |found| found == columns || is_input && (found < columns || found == 2 * columns);
            if read.sides.0 != outputs || !fits(read.sides.1) {
                return Err(misfit(read.sides));
            }
            update.columns = read.sides.1;
            update.take_delta(file, parts, read, used);
            if parts.contains_key(&LoraTensorKind::Reshape) {
                used.insert(LoraTensorKind::Reshape);
            }
        }
    } else if let Some((leaf, key)) = whole.into_iter().find_map(of_parts) {
        let found = file.numel(key);
        if found != outputs.saturating_mul(columns) {
            return Err(misfit((found / columns.max(1), columns)));
        }
        if leaf == LoraTensorKind::Set {
            update.instead = Some(key.clone());
        } else {
            update.delta = Some(LoraDelta::Whole { diff: key.clone() });
        }
        used.insert(leaf);
    }
    Ok((!used.is_empty()).then_some(update))
}

impl LoraUpdate {
    /// The change of a matrix, and what belongs to it: its scale, its norms, its bias.
    fn take_delta(
        &mut self,
        file: &LoraFile,
        parts: &LayerParts,
        read: ReadDelta,
        used: &mut BTreeSet<LoraTensorKind>,
    ) {
        let mut take = |leaf: LoraTensorKind| {
            let key = parts.get(&leaf)?;
            used.insert(leaf);
            Some(key.clone())
        };
        take(LoraTensorKind::Alpha);
        self.dora_scale = take(LoraTensorKind::DoraScale);
        self.up_bias = take(LoraTensorKind::UpBias);
        let keys = read.delta.keys();
        let own = parts.iter().filter(|(_, key)| keys.contains(key));
        used.extend(own.map(|(leaf, _)| *leaf));
        if !matches!(read.delta, LoraDelta::Whole { .. }) {
            self.factor = file.factor(&self.source);
        }
        self.delta = Some(read.delta);
    }
}
