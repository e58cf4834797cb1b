//! Encoders that are parts of larger files: where their names begin, and which of them nobody read.
//!
//! Knows no network: `core` says what stands before the names of each.

use crate::weights::Weights;

/// The position behind a prefix.
pub(crate) fn behind(prefix: &str, weights: &Weights) -> Weights {
    match prefix.strip_suffix('.') {
        Some(name) => weights / name,
        None => weights.clone(),
    }
}

/// The keys behind a prefix that nobody asked for, but for those of an encoder's `others`.
pub(crate) fn left_over(prefix: &str, weights: &Weights, others: &[&str]) -> Vec<String> {
    let mut keys = weights.finish();
    keys.retain(|key| {
        let name = key.strip_prefix(prefix);
        name.is_some_and(|name| !others.iter().any(|other| name.starts_with(other)))
    });
    keys
}
