//! Form of one layer's change, and the faults for which a layer is left out.

use std::fmt;

use super::alphas;
use super::file::{LayerParts, LoraFile};
use crate::library::lora_keys::LoraTensorKind::{
    self, Alpha, Diff, DoraScale, Down, HadaW1A, HadaW1B, HadaW2A, HadaW2B, LokrW1, LokrW1A,
    LokrW1B, LokrW2, LokrW2A, LokrW2B, Mid, Unsupported, Up, UpBias,
};

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

impl LoraDelta {
    /// Its tensors, always in the same order.
    pub(super) fn keys(&self) -> Vec<&String> {
        match self {
            Self::LowRank { down, up } => vec![down, up],
            Self::Hadamard { w1, w2 } => w1.iter().chain(w2).collect(),
            Self::Kronecker { w1, w2 } => {
                let factors = [w1, w2].into_iter();
                let keys = factors.flat_map(|factor| match factor {
                    LoraFactor::Whole(key) => vec![key],
                    LoraFactor::Product(a, b) => vec![a, b],
                });
                keys.collect()
            }
            Self::Whole { diff } => vec![diff],
        }
    }
}

impl ReadDelta {
    /// The first form that a layer's tensors make.
    pub fn from_parts(file: &LoraFile, parts: &LayerParts) -> Option<Self> {
        if UNSUPPORTED.iter().any(|leaf| parts.contains_key(leaf)) {
            return None;
        }
        let sides_of = |key: &String| sides(file.shape(key));
        let product = |a: LoraTensorKind, b: LoraTensorKind| {
            let (a, b) = (parts.get(&a)?, parts.get(&b)?);
            let ((outputs, rank), (other, columns)) = (sides_of(a)?, sides_of(b)?);
            (rank == other).then(|| ([a.clone(), b.clone()], (outputs, columns), Some(rank)))
        };
        let factor = |whole: LoraTensorKind, a, b| match parts.get(&whole) {
            Some(key) => Some((LoraFactor::Whole(key.clone()), sides_of(key)?, None)),
            None => {
                product(a, b).map(|([a, b], sides, rank)| (LoraFactor::Product(a, b), sides, rank))
            }
        };
        let low_rank = || {
            let ([up, down], sides, rank) = product(Up, Down)?;
            Some((LoraDelta::LowRank { down, up }, sides, rank))
        };
        let hadamard = || {
            let (w1, sides, rank) = product(HadaW1A, HadaW1B)?;
            let (w2, other, _) = product(HadaW2A, HadaW2B)?;
            (sides == other).then_some((LoraDelta::Hadamard { w1, w2 }, sides, rank))
        };
        let kronecker = || {
            let (w1, (outputs, inputs), rank) = factor(LokrW1, LokrW1A, LokrW1B)?;
            let (w2, (rows, columns), other) = factor(LokrW2, LokrW2A, LokrW2B)?;
            let sides = (outputs.checked_mul(rows)?, inputs.checked_mul(columns)?);
            Some((LoraDelta::Kronecker { w1, w2 }, sides, rank.or(other)))
        };
        let whole = || {
            let diff = parts.get(&Diff)?;
            Some((
                LoraDelta::Whole { diff: diff.clone() },
                sides_of(diff)?,
                None,
            ))
        };
        let found = low_rank().or_else(hadamard).or_else(kronecker);
        let (delta, sides, rank) = found.or_else(whole)?;
        Some(Self { delta, sides, rank })
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
        let mut forms = HALVES.iter().chain(&[Diff]);
        let keys = read.delta.keys();
        if forms.any(|leaf| parts.get(leaf).is_some_and(|key| !keys.contains(&key))) {
            return fault("it mixes several forms", String::new());
        }
        let (outputs, inputs) = read.sides;
        if let Some(key) = parts.get(&DoraScale) {
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
        if let Some(key) = parts.get(&UpBias)
            && file.numel(key) != outputs
        {
            let detail = format!("{:?} for {outputs} outputs", file.shape(key));
            return fault("the bias of its change does not fit it", detail);
        }
        // Without a rank it means nothing.
        let key = parts.get(&Alpha).filter(|_| read.rank.is_some())?;
        let dtype = file.weights.tensors.get(key)?.dtype;
        match file.numel(key) {
            1 if alphas::is_number(dtype) => None,
            1 => Some(LayerFault::of_alpha(format_args!("of type {dtype}"))),
            count => Some(LayerFault::of_alpha(format_args!("of {count} numbers"))),
        }
    }
}

/// Parts of which a layer has no use alone.
const HALVES: [LoraTensorKind; 12] = [
    Down, Up, HadaW1A, HadaW1B, HadaW2A, HadaW2B, LokrW1, LokrW1A, LokrW1B, LokrW2, LokrW2A,
    LokrW2B,
];

/// Parts that no form here has.
const UNSUPPORTED: [LoraTensorKind; 2] = [Mid, Unsupported];

/// Outputs and inputs of a matrix or of a convolution's kernel.
fn sides(shape: &[u64]) -> Option<(u64, u64)> {
    let (first, rest) = shape.split_first()?;
    let columns = rest.iter().try_fold(1_u64, |all, &n| all.checked_mul(n))?;
    (!rest.is_empty() && *first > 0 && columns > 0).then_some((*first, columns))
}
