//! Model that a LoRA was trained for, by the names and sizes of its layers.
//!
//! Families define the key patterns of their LoRAs, and the layers of their published models.

use std::collections::HashSet;
use std::sync::LazyLock;

use crate::families::def_of;
use crate::library::lora_keys::{self as keys, LoraScope};
use crate::library::other_models;
use crate::lora::{LayerTable, LoraCoverage, LoraFile, LoraPlan, ReadDelta};
use crate::model::{LoraSignature, ModelFamily, SharedLoraNames};

/// A family of models, as far as a LoRA shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoraOrigin {
    /// A family's id, the short name of a relative, the label of another model, or empty.
    pub family: &'static str,
    /// Another family whose LoRAs may have the same layers.
    pub alternative: Option<&'static str>,
    /// Its name among people, with its size where that shows.
    pub label: String,
    /// Its layers have the names of that model, and no layer the size.
    pub has_other_sizes: bool,
    /// Coverage by the published model of that name; `None` where no family here has one.
    pub coverage: Option<LoraCoverage>,
}

/// The transformers of published models with their labels, by their schemas.
static PUBLISHED: LazyLock<Vec<(ModelFamily, String, LayerTable)>> = LazyLock::new(|| {
    let tables = ModelFamily::published().flat_map(|family| {
        let tables = def_of(family).lora_models().into_iter();
        tables.map(move |(label, table)| {
            let own = Some(label).filter(|label| !label.is_empty());
            (
                family,
                own.unwrap_or_else(|| family.label.to_owned()),
                table,
            )
        })
    });
    tables.collect()
});

/// Metadata that names the model.
const BASE_MODELS: [&str; 4] = [
    "ss_base_model_version",
    "modelspec.architecture",
    "base_model",
    "ss_sd_model_name",
];

impl LoraOrigin {
    pub fn from_file(file: &LoraFile) -> Self {
        let [has_transformer, _] = file.scopes();
        let scope = if has_transformer {
            LoraScope::Transformer
        } else {
            LoraScope::TextEncoder
        };
        let layers = file.layers.iter();
        let layers = layers.filter(|(layer, _)| keys::scope(layer) == scope);
        let layers: Vec<(Vec<String>, _)> = layers
            .map(|(layer, parts)| {
                let sides = ReadDelta::from_parts(file, parts).map(|read| read.sides);
                (keys::candidates(layer), sides)
            })
            .collect();
        let fits = |sign: &&LoraSignature| {
            let is_name = |name: &String| {
                behind(name, sign.start).is_some_and(|(block, rest)| {
                    block.is_none_or(|block| block >= sign.first_block)
                        && (sign.ends.is_empty() || sign.ends.iter().any(|end| rest.ends_with(end)))
                })
            };
            layers.iter().any(|(names, sides)| {
                let is =
                    |wanted: Option<u64>, found: Option<u64>| wanted.is_none() || wanted == found;
                is(sign.outputs, sides.map(|(outputs, _)| outputs))
                    && is(sign.inputs, sides.map(|(_, inputs)| inputs))
                    && names.iter().any(is_name)
            })
        };
        if !has_transformer {
            // A text encoder belongs to many models.
            let found = other_models::text_encoder_loras().find(fits);
            return Self {
                label: found.map_or("a text encoder", |sign| sign.label).to_owned(),
                ..Self::default()
            };
        }
        // The first that fits any layer wins, so the more special come first.
        let of_families = ModelFamily::all().flat_map(|family| def_of(family).lora().signs);
        let sign = other_models::lora_signs().chain(of_families).find(fits);
        let of_sign = |sign: &LoraSignature| Self {
            family: sign.family,
            label: sign.label.to_owned(),
            ..Self::default()
        };
        let by_name = sign.and_then(|sign| Some((sign, ModelFamily::of_id(sign.family)?)));
        if let (Some(sign), None) = (sign, by_name) {
            return of_sign(sign);
        }
        let own = by_name.and_then(|(_, family)| published_fit(file, |other| other == family));
        let is_whole = |found: &Self| {
            let coverage = found.coverage.as_ref();
            coverage.is_some_and(|it| it.misfits.is_empty() && it.unknown.is_empty())
        };
        let found = match own {
            Some(own) if is_whole(&own) => Some(own),
            own => {
                let least = own.as_ref().map_or(0, Self::num_layers);
                let best = published_fit(file, |_| true);
                best.filter(|best| best.num_layers() > least).or(own)
            }
        };
        let Some((sign, family)) = by_name else {
            return found.unwrap_or_default();
        };
        let found = found.unwrap_or_else(|| Self {
            // Layers that do not act show no sizes.
            has_other_sizes: file.left_out.len() < file.layers.len(),
            ..of_sign(sign)
        });
        match def_of(family).lora().shared_names {
            Some(shared) if found.family == sign.family => {
                let names = || layers.iter().flat_map(|(names, _)| names);
                found.with_shared_names(shared, sign, file, names)
            }
            _ => found,
        }
    }

    /// Decides between two families with the same layers. `names`: in underscores.
    fn with_shared_names<'a, N: Iterator<Item = &'a String>>(
        self,
        shared: &SharedLoraNames,
        sign: &LoraSignature,
        file: &LoraFile,
        names: impl Fn() -> N,
    ) -> Self {
        let has = |parts: &[&str]| {
            let mut layers = file.layers.keys();
            layers.any(|layer| parts.iter().any(|part| layer.contains(part)))
        };
        let names_model = |model: &str| {
            let mut notes = BASE_MODELS
                .iter()
                .filter_map(|note| file.weights.notes.get(*note));
            notes.any(|note| note.to_lowercase().contains(model))
        };
        let is_own_name = |name: &String| {
            shared.own_ends.iter().any(|end| name.ends_with(end))
                || shared
                    .own_blocks
                    .iter()
                    .any(|block| name.starts_with(block))
        };
        let (other, other_label) = shared.other;
        if has(shared.other_parts) || names_model(other) {
            return Self {
                family: other,
                label: other_label.to_owned(),
                ..Self::default()
            };
        }
        if has(shared.own_parts) || names_model(sign.family) || names().any(is_own_name) {
            return self;
        }
        Self {
            alternative: Some(other),
            label: format!("{} or {other_label}", self.label),
            ..self
        }
    }

    /// Layers of the published model that it changes.
    fn num_layers(&self) -> usize {
        self.coverage.as_ref().map_or(0, |it| it.changed_layers)
    }

    /// The model that it is for; empty where nothing shows it.
    pub fn name(&self) -> String {
        let start = if self.has_other_sizes {
            "another model with the layer names of "
        } else {
            ""
        };
        format!("{start}{}", self.label)
    }

    /// Returns true if LoRAs of this origin may be for models that `accepts` their families, or nothing shows whose they
    /// are.
    pub fn is_accepted(&self, accepts: impl Fn(&str) -> bool) -> bool {
        self.family.is_empty() || accepts(self.family) || self.alternative.is_some_and(accepts)
    }

    /// Returns true if a family takes such LoRAs, or nothing shows whose they are.
    pub fn is_supported(&self) -> bool {
        ModelFamily::all()
            .any(|family| self.is_accepted(|origin| (def_of(family).lora().accepts)(origin, &[])))
    }
}

/// The published model of a family that has most of a LoRA's layers in their sizes; `None` where none has any.
fn published_fit(file: &LoraFile, is_wanted: impl Fn(ModelFamily) -> bool) -> Option<LoraOrigin> {
    let models = PUBLISHED.iter().filter(|(family, ..)| is_wanted(*family));
    let origins = models.map(|(family, label, table)| LoraOrigin {
        family: family.id,
        alternative: None,
        has_other_sizes: false,
        label: label.clone(),
        coverage: Some(LoraPlan::new(file, std::slice::from_ref(table)).coverage),
    });
    // Of equals the first, as families are tried.
    let best = origins.reduce(|best, other| {
        let is_better = other.num_layers() > best.num_layers();
        if is_better { other } else { best }
    });
    best.filter(|best| best.num_layers() > 0)
}

/// Name of a model with these layers: the published one that shares most of them.
pub(super) fn model_label(family: ModelFamily, tables: &[LayerTable]) -> String {
    let layers = |table: &'_ LayerTable| -> HashSet<(String, (u64, u64))> {
        let layers = table.layers().iter();
        layers
            .map(|layer| (layer.name.clone(), layer.sides()))
            .collect()
    };
    let own = tables.first().map(layers).unwrap_or_default();
    let models = PUBLISHED.iter().filter(|(other, ..)| *other == family);
    let shared = models.map(|(_, label, table)| (layers(table).intersection(&own).count(), label));
    let best = shared.max_by_key(|(count, _)| *count);
    let best = best.filter(|(count, _)| *count > 0);
    best.map_or_else(|| family.label.to_owned(), |(_, label)| label.clone())
}

/// Returns the rest of a name after `start`, and the number at its last `#`.
fn behind<'a>(name: &'a str, start: &str) -> Option<(Option<usize>, &'a str)> {
    let mut parts = start.split('#');
    let mut rest = name.strip_prefix(parts.next()?)?;
    let mut number = None;
    for part in parts {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        number = Some(rest[..digits].parse().ok()?);
        rest = rest[digits..].strip_prefix(part)?;
    }
    Some((number, rest))
}
