//! Encoders that are parts of larger files: their key prefix, and their unread keys.
//!
//! `core` defines the prefix of each.

use crate::weights::Weights;

/// Position below a prefix.
pub(crate) fn behind(prefix: &str, weights: &Weights) -> Weights {
    match prefix.strip_suffix('.') {
        Some(name) => weights / name,
        None => weights.clone(),
    }
}

/// Keys below a prefix that were not requested, except those of an encoder's `others`.
pub(crate) fn left_over(prefix: &str, weights: &Weights, others: &[&str]) -> Vec<String> {
    let mut keys = weights.finish();
    keys.retain(|key| {
        let name = key.strip_prefix(prefix);
        name.is_some_and(|name| !others.iter().any(|other| name.starts_with(other)))
    });
    keys
}
