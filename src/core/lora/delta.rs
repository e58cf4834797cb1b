//! Form of one layer's change, and the faults for which a layer is left out.

use std::fmt;

use super::alphas;
use super::file::{LayerParts, LoraFile};
use crate::library::lora_keys::LoraTensorKind;

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

/// Form of a layer's change, if its tensors fit each other.
pub(crate) struct ReadDelta {
    pub delta: LoraDelta,
    pub leaves: Vec<LoraTensorKind>,
    /// Outputs and inputs.
    pub sides: (u64, u64),
    /// Two whole matrices have no rank, and no alpha scales them.
    pub rank: Option<u64>,
}

/// Reason why a layer does not act, as a clause, and the values that show it.
#[derive(Clone, Debug)]
pub(crate) struct LayerFault {
    pub reason: &'static str,
    pub detail: String,
}

impl LayerFault {
    /// `what`: the value that is found instead.
    pub fn of_alpha(what: impl fmt::Display) -> Self {
        Self {
            reason: "its alpha is not one finite number",
            detail: format!("alpha {what}"),
        }
    }
}

impl ReadDelta {
    pub fn from_parts(file: &LoraFile, parts: &LayerParts) -> Option<Self> {
        if UNSUPPORTED.iter().any(|leaf| parts.contains_key(leaf)) {
            return None;
        }
        Self::low_rank(file, parts)
            .or_else(|| Self::hadamard(file, parts))
            .or_else(|| Self::kronecker(file, parts))
            .or_else(|| Self::whole(file, parts))
    }

    /// Returns the fault of a layer, as far as the header shows it.
    pub fn fault(file: &LoraFile, parts: &LayerParts) -> Option<LayerFault> {
        let fault = |reason, detail| Some(LayerFault { reason, detail });
        if UNSUPPORTED.iter().any(|leaf| parts.contains_key(leaf)) {
            return fault("its form is not supported", String::new());
        }
        let has = |leaf: &&LoraTensorKind| parts.contains_key(*leaf);
        let Some(read) = Self::from_parts(file, parts) else {
            let reason = "a half of it is missing or does not fit the other";
            let is_half = HALVES.iter().any(|leaf| has(&leaf));
            return is_half.then(|| fault(reason, String::new()))?;
        };
        let mut forms = HALVES.iter().chain(&[LoraTensorKind::Diff]).filter(has);
        if forms.any(|leaf| !read.leaves.contains(leaf)) {
            return fault("it mixes several forms", String::new());
        }
        let (outputs, inputs) = read.sides;
        if let Some(key) = parts.get(&LoraTensorKind::DoraScale) {
            let (shape, count) = (file.shape(key), file.numel(key));
            let fits = match shape {
                [1, _, ..] => count == inputs || outputs == 1,
                [_, _, ..] => count == outputs,
                _ => count == outputs || count == inputs,
            };
            if !fits {
                let reason = "its DoRA norms (dora_scale) do not fit it";
                let detail = format!("{shape:?} for {outputs} outputs and {inputs} inputs");
                return fault(reason, detail);
            }
        }
        if let Some(key) = parts.get(&LoraTensorKind::UpBias)
            && file.numel(key) != outputs
        {
            let detail = format!("{:?} for {outputs} outputs", file.shape(key));
            return fault("the bias of its change does not fit it", detail);
        }
        // Without a rank it means nothing.
        let key = parts
            .get(&LoraTensorKind::Alpha)
            .filter(|_| read.rank.is_some())?;
        let dtype = file.weights.tensors.get(key)?.dtype;
        match file.numel(key) {
            1 if alphas::is_number(dtype) => None,
            1 => Some(LayerFault::of_alpha(format_args!("of type {dtype}"))),
            count => Some(LayerFault::of_alpha(format_args!("of {count} numbers"))),
        }
    }

    fn low_rank(file: &LoraFile, parts: &LayerParts) -> Option<Self> {
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

    fn hadamard(file: &LoraFile, parts: &LayerParts) -> Option<Self> {
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

    fn kronecker(file: &LoraFile, parts: &LayerParts) -> Option<Self> {
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

    fn whole(file: &LoraFile, parts: &LayerParts) -> Option<Self> {
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

/// Parts that no form here has.
const UNSUPPORTED: [LoraTensorKind; 2] = [LoraTensorKind::Mid, LoraTensorKind::Unsupported];

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
