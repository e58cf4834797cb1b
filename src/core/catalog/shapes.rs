//! What the names and shapes in a header say of a component's numbers: looking one up, and counting layers.

use super::kind;
use super::weights::WeightSet;

/// How many things are numbered from 0 without a gap.
pub(super) fn count(weights: &WeightSet, key: impl Fn(usize) -> String) -> usize {
    (0..weights.tensors.len())
        .take_while(|&n| weights.has(&key(n)))
        .count()
}

/// The sizes of a tensor, none of them 0.
pub(super) fn shape_of(weights: &WeightSet, key: &str, rank: usize) -> Result<Vec<u64>, String> {
    let Some(entry) = weights.tensors.get(key) else {
        return Err(format!("the tensor '{key}' is missing"));
    };
    if entry.shape.len() != rank || entry.shape.contains(&0) {
        return Err(format!(
            "expected {rank} sizes above 0 of the tensor '{key}', found {:?}",
            entry.shape
        ));
    }
    Ok(entry.shape.clone())
}

/// The rows and columns of a matrix.
pub(super) fn matrix(weights: &WeightSet, key: &str) -> Result<[u64; 2], String> {
    let shape = shape_of(weights, key, 2)?;
    Ok([shape[0], shape[1]])
}

/// What stands before the shortest key that ends in one of `ends`, whole names only.
pub(super) fn prefix_before<'a>(
    keys: impl Iterator<Item = &'a str>,
    ends: &[&str],
) -> Option<&'a str> {
    keys.filter_map(|key| ends.iter().find_map(|end| key.strip_suffix(end)))
        .filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        .min_by_key(|prefix| prefix.len())
}

pub(super) fn not_a(what: &str, weights: &WeightSet) -> String {
    let found = kind::of_tensors(weights).text;
    format!("expected a {what}, found {found}")
}
