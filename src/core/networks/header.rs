//! Readings of names and shapes in a header, from which a network's config follows.

use super::config::ensure;
use crate::formats::weights::WeightSet;
use crate::model::{DetectionRule, ModelFamily};

/// The sizes of a tensor with `RANK` axes, none of them 0.
pub(super) fn sizes<const RANK: usize>(
    weights: &WeightSet,
    key: &str,
) -> Result<[i64; RANK], String> {
    let sizes = sizes_of(weights, key, RANK)?;
    Ok(std::array::from_fn(|axis| sizes[axis]))
}

/// The sizes of a tensor with `rank` axes, none of them 0. A size that is too large for any config becomes the
/// largest number, so it is refused later.
pub(super) fn sizes_of(weights: &WeightSet, key: &str, rank: usize) -> Result<Vec<i64>, String> {
    let Some(entry) = weights.tensors.get(key) else {
        return Err(format!("the tensor '{key}' is missing"));
    };
    let shape = &entry.shape;
    ensure!(
        shape.len() == rank && !shape.contains(&0),
        "expected {rank} sizes above 0 of the tensor '{key}', found {shape:?}"
    );
    let size = |&size: &u64| i64::try_from(size).unwrap_or(i64::MAX);
    Ok(shape.iter().map(size).collect())
}

/// Counts layers that are numbered from 0 without a gap.
pub(super) fn count(weights: &WeightSet, key: impl Fn(usize) -> String) -> i64 {
    let numbers = 0..weights.tensors.len();
    let layers = numbers.take_while(|&number| weights.has(&key(number)));
    layers.count() as i64
}

/// The prefix of the shortest key that ends in one of `ends`, whole names only.
pub(super) fn prefix_before<'a>(
    keys: impl Iterator<Item = &'a str>,
    ends: &[&str],
) -> Option<&'a str> {
    keys.filter_map(|key| ends.iter().find_map(|end| key.strip_suffix(end)))
        .filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        .min_by_key(|prefix| prefix.len())
}

/// Heads in a network of this width that no config describes.
pub(super) fn heads(dim: i64, head_dim: i64) -> Result<i64, String> {
    ensure!(
        dim % head_dim == 0,
        "expected a width that is a multiple of {head_dim}, as no config.json says how wide a head is, found {dim}"
    );
    Ok(dim / head_dim)
}

/// The refusal of a file without the network.
pub(super) fn not_a(what: &str, weights: &WeightSet) -> String {
    let mut rules = ModelFamily::all().flat_map(|family| family.kinds);
    let shape_of = |end: &str| weights.shape_by_end(&[end]);
    let is_it =
        |rule: &&DetectionRule| rule.fits(|end| shape_of(end).is_some()) && rule.has_size(shape_of);
    let found = match (rules.find(is_it), weights.tensors.keys().next()) {
        (Some(rule), _) => rule.text.to_owned(),
        (None, Some(first)) => format!("{} tensors such as '{first}'", weights.tensors.len()),
        (None, None) => "no tensors".to_owned(),
    };
    let article = if what.starts_with('i') { "an" } else { "a" };
    format!("expected {article} {what}, found {found}")
}
