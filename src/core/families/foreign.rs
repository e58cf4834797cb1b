//! Transformers of other models that have a family's tensors.

use std::collections::BTreeSet;

use crate::formats::weights::WeightSet;
use crate::model::ModelFamily;
use crate::networks::TransformerConfig;
use crate::networks::dialects::TensorKeys;

/// The model of a transformer that has tensors of others, as a noun phrase. `foreign`: beginnings of name components that
/// tell another model.
pub(super) fn foreign_part<C: TransformerConfig + Default>(
    weights: &WeightSet,
    family: ModelFamily,
    foreign: &[(&str, &str)],
) -> Option<String> {
    let keys = TensorKeys::<C>::detect(|key| weights.has(key))?;
    let own = || {
        weights
            .names()
            .filter_map(|key| key.strip_prefix(keys.prefix))
    };
    let named = foreign
        .iter()
        .find(|(part, _)| own().any(|key| key.split('.').any(|name| name.starts_with(part))));
    if let Some((_, what)) = named {
        return Some((*what).to_owned());
    }
    // A file with a prefix holds other models' tensors too.
    let more = C::MORE_TOPS.filter(|_| keys.prefix.is_empty())?;
    let read = C::default().tensors_in(keys);
    let mut known: BTreeSet<&str> = read
        .iter()
        .filter_map(|it| it.name.split('.').next())
        .collect();
    known.extend(more);
    own()
        .filter(|key| !WeightSet::is_aside(key))
        .filter_map(|key| key.split('.').next())
        .find(|top| !known.contains(top))
        .map(|top| format!("a {} transformer with the part '{top}'", family.label))
}
