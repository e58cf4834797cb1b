//! Relatives of a family's models that do not run here: by the class of a pipeline, or by tensors besides a family's own.

use std::collections::BTreeSet;

use super::table::SingleTransformerFamily;
use crate::formats::weights::WeightSet;
use crate::model::with_article;
use crate::networks::TransformerConfig as _;
use crate::networks::dialects::TensorKeys;

/// The model of a transformer that has tensors of others, as a noun phrase.
pub(super) fn foreign_part<F: SingleTransformerFamily>(weights: &WeightSet) -> Option<String> {
    let keys = TensorKeys::<F::Config>::detect(|key| weights.has(key))?;
    let own = || {
        weights
            .names()
            .filter_map(|key| key.strip_prefix(keys.prefix))
    };
    let named = F::TABLE
        .refused
        .iter()
        .find(|(part, _)| own().any(|key| key.split('.').any(|name| name.starts_with(part))));
    if let Some((_, what)) = named {
        return Some((*what).to_owned());
    }
    // A file with a prefix holds other models' tensors too.
    let more = F::Config::MORE_TOPS.filter(|_| keys.prefix.is_empty())?;
    let read = keys.tensors(&F::Config::default());
    let mut known: BTreeSet<&str> = read
        .iter()
        .filter_map(|it| it.name.split('.').next())
        .collect();
    known.extend(more);
    own()
        .filter(|key| !WeightSet::is_aside(key))
        .filter_map(|key| key.split('.').next())
        .find(|top| !known.contains(top))
        .map(|top| {
            format!(
                "{} transformer with the part '{top}'",
                with_article(F::FAMILY.label)
            )
        })
}

/// A noun phrase for the models of a pipeline that does not run here, if it is one of the family's.
pub(super) fn refusal<F: SingleTransformerFamily>(class: &str) -> Option<String> {
    let mut refused = F::TABLE.refused.iter();
    let (_, what) = refused.find(|(start, _)| class.starts_with(start))?;
    let what = what.replace("{family}", F::FAMILY.label);
    Some(what.replace("{class}", class))
}
