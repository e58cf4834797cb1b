//! What tests of several parts share: weight files of the published shapes without weights, and tiny whole pipelines.

pub(crate) mod made_up;
pub(crate) mod pipelines;
pub(crate) mod published;
pub(crate) mod random;

/// Pairs of names, a row each: `one -> other`.
pub(crate) fn table(rows: &str) -> impl Iterator<Item = (&str, &str)> {
    rows.lines()
        .map(|row| row.trim().split_once(" -> ").expect("a row has two names"))
}
