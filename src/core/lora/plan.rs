//! Mapping of a LoRA's keys to a model's layers, checked by shapes.
//!
//! The engine reads the values.

use std::collections::{BTreeMap, BTreeSet};

use super::coverage::{LayerMismatch, LoraCoverage};
use super::file::LoraFile;
use super::keys::{self, LoraScope, LoraTensorKind};
use super::table::{LayerTable, LoraTarget, RowRange, TableLayer};

/// Form of the change of a matrix, with the keys of its tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoraDelta {
    /// `up @ down`
    LowRank { down: String, up: String },
    /// `(w1a @ w1b) * (w2a @ w2b)`
    Hadamard { w1: [String; 2], w2: [String; 2] },
    /// The Kronecker product of two matrices.
    Kronecker { w1: LoraFactor, w2: LoraFactor },
    /// The change itself, which no alpha scales.
    Whole { diff: String },
}

/// A matrix, or the product of two that make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoraFactor {
    Whole(String),
    Product(String, String),
}

/// Change of one layer by a LoRA.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraUpdate {
    pub network: LoraTarget,
    pub layer: TableLayer,
    pub rows: RowRange,
    /// Inputs of the change, which in the layer of what is noised may be more than the model has there, or fewer.
    pub columns: u64,
    pub delta: Option<LoraDelta>,
    /// The key of the number that, divided by the rank, scales `delta`.
    pub alpha: Option<String>,
    /// By which `alpha` is divided; `None` where it scales nothing.
    pub rank: Option<u64>,
    /// Scales `delta` where there is no `alpha`.
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
            plan.add(file, tables, name, parts);
        }
        plan
    }

    fn add(
        &mut self,
        file: &LoraFile,
        tables: &[LayerTable],
        name: &str,
        parts: &BTreeMap<LoraTensorKind, String>,
    ) {
        let is_text = keys::scope(name) == LoraScope::TextEncoder;
        let candidates = keys::candidates(name);
        let mut of_scope = tables
            .iter()
            .filter(|table| table.network.is_text_encoder == is_text)
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
            let is_of_pictures = |name: &String| {
                let mut networks = tables.iter().map(|table| table.network);
                networks.any(|network| (network.of_pictures)(name))
            };
            if candidates.iter().any(is_of_pictures) {
                self.coverage.pictures += parts.len();
            } else {
                self.coverage.unknown.extend(parts.values().cloned());
            }
            return;
        };
        let mut used = BTreeSet::new();
        match update(file, name, parts, (network, layer, rows), &mut used) {
            Ok(Some(update)) => {
                if update.delta.is_some() {
                    self.coverage.changed_layers += 1;
                }
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
    /// control picture next to it.
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
    parts: &BTreeMap<LoraTensorKind, String>,
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
        network,
        layer: layer.clone(),
        rows,
        columns,
        delta: None,
        alpha: None,
        rank: None,
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
    if layer.is_matrix {
        if let Some(read) = ReadDelta::from_parts(file, parts) {
            let is_input = network.input == Some(layer.name.as_str());
            let fits =
                |found| found == columns || is_input && (found < columns || found == 2 * columns);
            if read.sides.0 != outputs || !fits(read.sides.1) {
                return Err(misfit(read.sides));
            }
            update.columns = read.sides.1;
            update.take_delta(file, name, parts, read, used);
            if update.columns > columns && parts.contains_key(&LoraTensorKind::Reshape) {
                used.insert(LoraTensorKind::Reshape);
            }
        }
    } else if let Some(whole) = parts.get(&LoraTensorKind::Set) {
        let found = file.numel(whole);
        if found != outputs.saturating_mul(columns) {
            return Err(misfit((found / columns.max(1), columns)));
        }
        update.instead = Some(whole.clone());
        used.insert(LoraTensorKind::Set);
    } else if let Some(diff) = parts.get(&LoraTensorKind::Diff) {
        let found = file.numel(diff);
        if found != outputs.saturating_mul(columns) {
            return Err(misfit((found / columns.max(1), columns)));
        }
        update.delta = Some(LoraDelta::Whole { diff: diff.clone() });
        used.insert(LoraTensorKind::Diff);
    }
    Ok((!used.is_empty()).then_some(update))
}

impl LoraUpdate {
    /// The change of a matrix, and what belongs to it: its scale, its norms, its bias.
    fn take_delta(
        &mut self,
        file: &LoraFile,
        name: &str,
        parts: &BTreeMap<LoraTensorKind, String>,
        read: ReadDelta,
        used: &mut BTreeSet<LoraTensorKind>,
    ) {
        let (outputs, columns) = read.sides;
        let mut take = |leaf: LoraTensorKind, sizes: &[u64]| {
            let key = parts
                .get(&leaf)
                .filter(|key| sizes.contains(&file.numel(key)))?;
            used.insert(leaf);
            Some(key.clone())
        };
        let alpha = take(LoraTensorKind::Alpha, &[1]);
        self.dora_scale = take(LoraTensorKind::DoraScale, &[outputs, columns]);
        self.up_bias = take(LoraTensorKind::UpBias, &[outputs]);
        used.extend(read.leaves);
        self.rank = read.rank;
        // Two whole factors have an alpha that means nothing.
        self.alpha = alpha.filter(|_| read.rank.is_some());
        if self.alpha.is_none() && !matches!(read.delta, LoraDelta::Whole { .. }) {
            self.factor = file.factor(name);
        }
        self.delta = Some(read.delta);
    }
}

/// Form of a layer's change, if its tensors fit each other.
struct ReadDelta {
    delta: LoraDelta,
    leaves: Vec<LoraTensorKind>,
    sides: (u64, u64),
    /// Two whole matrices have no rank, and no alpha scales them.
    rank: Option<u64>,
}

impl ReadDelta {
    fn from_parts(file: &LoraFile, parts: &BTreeMap<LoraTensorKind, String>) -> Option<Self> {
        let unsupported = [LoraTensorKind::Mid, LoraTensorKind::Unsupported];
        if unsupported.iter().any(|leaf| parts.contains_key(leaf)) {
            return None;
        }
        Self::low_rank(file, parts)
            .or_else(|| Self::hadamard(file, parts))
            .or_else(|| Self::kronecker(file, parts))
            .or_else(|| Self::whole(file, parts))
    }

    fn low_rank(file: &LoraFile, parts: &BTreeMap<LoraTensorKind, String>) -> Option<Self> {
        let (down, up) = (
            parts.get(&LoraTensorKind::Down)?,
            parts.get(&LoraTensorKind::Up)?,
        );
        let (sides, rank) = product(file, up, down)?;
        Some(Self {
            delta: LoraDelta::LowRank {
                down: down.clone(),
                up: up.clone(),
            },
            leaves: vec![LoraTensorKind::Down, LoraTensorKind::Up],
            sides,
            rank: Some(rank),
        })
    }

    fn hadamard(file: &LoraFile, parts: &BTreeMap<LoraTensorKind, String>) -> Option<Self> {
        let leaves = [
            LoraTensorKind::HadaW1A,
            LoraTensorKind::HadaW1B,
            LoraTensorKind::HadaW2A,
            LoraTensorKind::HadaW2B,
        ];
        let [w1a, w1b, w2a, w2b] = leaves.map(|leaf| parts.get(&leaf).cloned());
        let (w1, w2) = ([w1a?, w1b?], [w2a?, w2b?]);
        let (sides, rank) = product(file, &w1[0], &w1[1])?;
        let (other, _) = product(file, &w2[0], &w2[1])?;
        (sides == other).then_some(Self {
            delta: LoraDelta::Hadamard { w1, w2 },
            leaves: leaves.to_vec(),
            sides,
            rank: Some(rank),
        })
    }

    fn kronecker(file: &LoraFile, parts: &BTreeMap<LoraTensorKind, String>) -> Option<Self> {
        let factor = |whole: LoraTensorKind, a: LoraTensorKind, b: LoraTensorKind| {
            if let Some(key) = parts.get(&whole) {
                let sides = sides(file.shape(key))?;
                return Some((LoraFactor::Whole(key.clone()), vec![whole], sides, None));
            }
            let (first, second) = (parts.get(&a)?, parts.get(&b)?);
            let (sides, rank) = product(file, first, second)?;
            let factor = LoraFactor::Product(first.clone(), second.clone());
            Some((factor, vec![a, b], sides, Some(rank)))
        };
        let (w1, mut leaves, first, rank_1) = factor(
            LoraTensorKind::LokrW1,
            LoraTensorKind::LokrW1A,
            LoraTensorKind::LokrW1B,
        )?;
        let (w2, more, second, rank_2) = factor(
            LoraTensorKind::LokrW2,
            LoraTensorKind::LokrW2A,
            LoraTensorKind::LokrW2B,
        )?;
        leaves.extend(more);
        Some(Self {
            delta: LoraDelta::Kronecker { w1, w2 },
            leaves,
            sides: (
                first.0.checked_mul(second.0)?,
                first.1.checked_mul(second.1)?,
            ),
            rank: rank_1.or(rank_2),
        })
    }

    fn whole(file: &LoraFile, parts: &BTreeMap<LoraTensorKind, String>) -> Option<Self> {
        let diff = parts.get(&LoraTensorKind::Diff)?;
        Some(Self {
            delta: LoraDelta::Whole { diff: diff.clone() },
            leaves: vec![LoraTensorKind::Diff],
            sides: sides(file.shape(diff))?,
            rank: None,
        })
    }
}

/// Parts of which a layer has no use alone.
const HALVES: [LoraTensorKind; 12] = [
    LoraTensorKind::Down,
    LoraTensorKind::Up,
    LoraTensorKind::HadaW1A,
    LoraTensorKind::HadaW1B,
    LoraTensorKind::HadaW2A,
    LoraTensorKind::HadaW2B,
    LoraTensorKind::LokrW1,
    LoraTensorKind::LokrW1A,
    LoraTensorKind::LokrW1B,
    LoraTensorKind::LokrW2,
    LoraTensorKind::LokrW2A,
    LoraTensorKind::LokrW2B,
];

impl LoraFile {
    /// Layers of which a half of the update is missing or has another rank.
    pub(super) fn incomplete_layers(&self) -> impl Iterator<Item = &str> {
        let is_incomplete = |parts: &BTreeMap<LoraTensorKind, String>| {
            let is_other = parts.contains_key(&LoraTensorKind::Mid)
                || parts.contains_key(&LoraTensorKind::Unsupported);
            let has_half = HALVES.iter().any(|leaf| parts.contains_key(leaf));
            has_half && !is_other && ReadDelta::from_parts(self, parts).is_none()
        };
        let layers = self.layers.iter();
        layers
            .filter(move |(_, parts)| is_incomplete(parts))
            .map(|(layer, _)| layer.as_str())
    }
}

/// Outputs and inputs of a matrix or of a convolution's kernel.
fn sides(shape: &[u64]) -> Option<(u64, u64)> {
    let (first, rest) = shape.split_first()?;
    let columns = rest.iter().try_fold(1_u64, |all, &n| all.checked_mul(n))?;
    (!rest.is_empty() && *first > 0 && columns > 0).then_some((*first, columns))
}

/// The sides of `a @ b`, and what they share.
fn product(file: &LoraFile, a: &str, b: &str) -> Option<((u64, u64), u64)> {
    let (outputs, rank) = sides(file.shape(a))?;
    let (other, columns) = sides(file.shape(b))?;
    (rank == other).then_some(((outputs, columns), rank))
}
