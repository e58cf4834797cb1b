//! The files of a model, as far as families treat them alike: from a diffusers folder or from one transformer's file to
//! a whole model that is checked.
//!
//! Looks at configs and headers only. What differs is in each family's [`OneTransformer`]; a family whose models have
//! two transformers puts them together itself.

use std::path::Path;

use super::{Family, FileRules, TinyDecoderRules};
use crate::formats::weights::WeightSet;
use crate::library::Library;
use crate::library::companions;
use crate::library::companions::Companions;
use crate::library::companions::wanted;
use crate::library::companions::wanted::Wanted;
use crate::library::identify::check_components;
use crate::library::single::{Assembled, before_comma, file_stem, not_a_model};
use crate::library::{kind, scan, storage};
use crate::model::configs::ModelIndex;
use crate::model::facts::{Facts, Schedule};
use crate::model::{CatalogError, Component, ModelFiles};
use crate::networks::NetworkConfig;

pub(super) trait OneTransformer {
    type Config: NetworkConfig + Default;
    /// What tells the family's models apart.
    type Variant: Copy;

    const FAMILY: Family;
    /// What a diffusers folder must have, and the class of each part where only one will do.
    const COMPONENTS: &'static [(&'static str, Option<&'static str>)];

    /// Whether a transformer of the family is in a file, whole or not.
    fn is_in(weights: &WeightSet) -> bool;

    /// Refuses a pipeline for another kind of the family's models, with a noun phrase for it.
    fn check_class(_class: &str) -> Result<(), String> {
        Ok(())
    }

    /// Which other model a transformer with tensors of its own belongs to, as a noun phrase.
    fn foreign_part(_weights: &WeightSet) -> Option<String> {
        None
    }

    /// What the weights are quantised with, by diffusers' config.
    fn is_quantised(config: &Self::Config) -> bool;

    /// The variant of a transformer, or a noun phrase for one of another kind. Names and the class tell what headers do
    /// not.
    fn variant(config: &Self::Config, hints: &Hints<'_>) -> Result<Self::Variant, String>;

    fn variant_name(variant: Self::Variant) -> &'static str;

    /// Adds what a diffusers folder has beside the usual parts.
    fn add_files(_folder: &Path, _files: &mut ModelFiles) {}

    fn parts(config: &Self::Config) -> Vec<Wanted<'_>>;

    /// Whether the autoencoder at a place has the layers of the published one: the transformer tells its channels alone.
    fn is_published_vae(place: &Path) -> bool;

    /// The defaults of the model's own scheduler.
    fn schedule(scheduler: &Path) -> Result<Schedule, CatalogError>;

    /// What is known of a model that has been checked.
    fn facts(
        config: &Self::Config,
        variant: Self::Variant,
        files: &ModelFiles,
        checked: Checked,
    ) -> Result<Facts, CatalogError>;
}

/// What stands around a transformer.
pub(super) struct Hints<'a> {
    /// Of the pipeline, in a diffusers folder.
    pub class: Option<&'a str>,
    /// The same: whether the model was distilled to few steps.
    pub is_distilled: Option<bool>,
    /// Of the model and of the folder that it lies in.
    pub names: &'a [&'a str],
}

/// What the check of a whole model gives.
pub(super) struct Checked {
    pub schedule: Option<Schedule>,
    /// Bytes of all weight files.
    pub bytes: u64,
}

/// The rules that follow from the family's [`OneTransformer`]; the others find nothing.
pub(super) const fn rules<F: OneTransformer>() -> FileRules {
    FileRules {
        check_folder: check_folder::<F>,
        has_transformer: F::is_in,
        assemble: assemble::<F>,
        variant_at: variant_at::<F>,
        are_experts: |_, _| false,
        is_published_part: |component, _, place| {
            let is_wide = component != Component::Vae || F::is_published_vae(place);
            is_wide && is_one_of(&F::parts(&F::Config::default()), component, place)
        },
        owns_pipeline: |_| false,
        kinds: &[],
        published_name: |_| None,
        instead: |_| None,
        ships_tokenizers: true,
        picture_prompts: None,
        tiny_decoder: TinyDecoderRules {
            words: &[],
            is_f16: false,
        },
        control_network: |_, _| None,
        control_weights: None,
        control_lora: None,
    }
}

/// Checks a diffusers folder whole. Parts that the user named stand in for the folder's own.
fn check_folder<F: OneTransformer>(
    folder: &Path,
    index: &ModelIndex,
    companions: &Companions,
    library: &Library,
) -> Result<(ModelFiles, Facts), CatalogError> {
    let unsupported = |what: String| CatalogError::unsupported(what, folder);
    F::check_class(&index.class).map_err(unsupported)?;
    check_components(folder, index, F::COMPONENTS, companions)?;
    let mut files = ModelFiles::from_index(folder, index);
    F::add_files(folder, &mut files);
    let config = read_config::<F>(&files.transformer)?;
    let hints = Hints {
        class: Some(&index.class),
        is_distilled: index.is_distilled,
        names: &[&scan::model_name(folder)],
    };
    let variant = F::variant(&config, &hints).map_err(unsupported)?;
    if let Some(what) = F::foreign_part(&WeightSet::at(&files.transformer)?) {
        return Err(unsupported(what));
    }
    if !companions.is_empty() {
        companions::replace(&mut files, &F::parts(&config), companions, library)?;
    }
    let facts = check::<F>(&files, &config, variant)?;
    Ok((files, facts))
}

/// The model of the transformer at a place, whose header is `weights`.
fn assemble<F: OneTransformer>(
    place: &Path,
    weights: &WeightSet,
    companions: &Companions,
    library: &Library,
) -> Result<Assembled, CatalogError> {
    let unsupported = |what: String| CatalogError::unsupported(what, place);
    if let Some(what) = F::foreign_part(weights) {
        return Err(unsupported(what));
    }
    // Some storages have other names.
    let kind_of = kind::of_tensors(weights);
    storage::check(weights, before_comma(&kind_of.text))?;
    if !F::is_in(weights) {
        return Err(not_a_model(&kind_of, place));
    }
    let config = read_config::<F>(place)?;
    let variant = variant_by_names::<F>(&config, place).map_err(unsupported)?;
    config.check_weights(weights)?;
    let mut files = ModelFiles {
        transformer: place.to_owned(),
        ..ModelFiles::default()
    };
    companions::complete(&mut files, &F::parts(&config), companions, library)?;
    let facts = check::<F>(&files, &config, variant)?;
    Ok(Assembled {
        place: place.to_owned(),
        name: model_name(place),
        files,
        facts,
    })
}

/// The variant of the transformer at a place, where its header and its name say it.
fn variant_at<F: OneTransformer>(place: &Path) -> Option<&'static str> {
    let config = read_config::<F>(place).ok()?;
    let variant = variant_by_names::<F>(&config, place).ok()?;
    Some(F::variant_name(variant))
}

pub(super) fn is_one_of(parts: &[Wanted<'_>], component: Component, place: &Path) -> bool {
    let mut parts = parts.iter().filter(|wanted| wanted.component == component);
    parts.any(|wanted| wanted.check(place).is_ok())
}

/// What the model at a place is called.
pub(super) fn model_name(place: &Path) -> String {
    if place.is_dir() {
        scan::model_name(place)
    } else {
        file_stem(place)
    }
}

pub(super) fn refuse_quantised(
    is_quantised: bool,
    family: Family,
    transformer: &Path,
) -> Result<(), CatalogError> {
    if !is_quantised {
        return Ok(());
    }
    Err(CatalogError::unsupported(
        format!("a quantised {} model", family.label),
        transformer,
    ))
}

/// What a transformer with parts that the family's models have not is, as a noun phrase. `prefix`: what stands before
/// the names in the file; `foreign`: beginnings of names that tell another model; `known`: the names before the first
/// dot, of which the family's transformers have no others.
pub(super) fn foreign_part(
    weights: &WeightSet,
    family: Family,
    prefix: &str,
    foreign: &[(&str, &str)],
    known: &[&str],
) -> Option<String> {
    let own = || weights.names().filter_map(|key| key.strip_prefix(prefix));
    let named = foreign
        .iter()
        .find(|(part, _)| own().any(|key| key.split('.').any(|name| name.starts_with(part))));
    if let Some((_, what)) = named {
        return Some((*what).to_owned());
    }
    // A file with a prefix holds other models' tensors beside it.
    if !prefix.is_empty() {
        return None;
    }
    own()
        .filter(|key| !WeightSet::is_aside(key))
        .filter_map(|key| key.split('.').next())
        .find(|top| !known.contains(top))
        .map(|top| format!("a {} transformer with the part '{top}'", family.label))
}

fn variant_by_names<F: OneTransformer>(
    config: &F::Config,
    place: &Path,
) -> Result<F::Variant, String> {
    let folder = place.parent().map(scan::model_name).unwrap_or_default();
    let hints = Hints {
        class: None,
        is_distilled: None,
        names: &[&model_name(place), &folder],
    };
    F::variant(config, &hints)
}

fn read_config<F: OneTransformer>(place: &Path) -> Result<F::Config, CatalogError> {
    let config = F::Config::read(place)?;
    refuse_quantised(F::is_quantised(&config), F::FAMILY, place)?;
    Ok(config)
}

/// Checks a model whose parts are known whole: each against its config, and with the transformer.
fn check<F: OneTransformer>(
    files: &ModelFiles,
    config: &F::Config,
    variant: F::Variant,
) -> Result<Facts, CatalogError> {
    let schedule = files.scheduler.as_deref().map(F::schedule).transpose()?;
    let bytes = wanted::check_model(
        files,
        &[&files.transformer],
        &format!("a {} transformer", F::FAMILY.label),
        &|weights| config.check_weights(weights),
        &F::parts(config),
    )?;
    F::facts(config, variant, files, Checked { schedule, bytes })
}
