//! Families whose models have one transformer: recognition, files, networks, memory needs and LoRAs, from a
//! [`FamilyTable`](super::table::FamilyTable).
//!
//! Looks at configs and headers only. A family whose models have two transformers puts them together itself.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use super::parts::image_limits;
use super::table::{SingleTransformerFamily, VariantHints};
use super::{FamilyDef, FileRules, LoraRules, ModelFamily, PublishedNetwork};
use crate::footprint::autoencoder::image;
use crate::footprint::{NetworkReader, PlannedJob, PlannedNetwork, StageFootprint};
use crate::formats::weights::WeightSet;
use crate::job::Stage;
use crate::library::component_search::wanted;
use crate::library::component_search::wanted::ComponentQuery;
use crate::library::identify::check_components;
use crate::library::single::{AssembledModel, before_comma, file_stem, not_a_model};
use crate::library::{ComponentLibrary, component_search, scan, storage, tensor_kind};
use crate::lora::{self, LayerTable, LoraTarget};
use crate::model::choices::SamplerKind;
use crate::model::configs::ModelIndex;
use crate::model::facts::{ModelFacts, ModelVariant, SchedulerDefaults, TransformerShape};
use crate::model::{
    CatalogError, ComponentOverrides, ModelComponent, ModelFiles, ModelSpec, SizeLimits,
};
use crate::networks::dialects::TensorKeys;
use crate::networks::{
    DeclaredConfig as _, DenoiserConfig as _, NetworkConfig as _, SchedulerConfig,
    TransformerConfig,
};
use crate::tokens::TextReader;

/// The definition of a family of image models; others change what differs.
pub(super) const fn definition<F: SingleTransformerFamily>() -> FamilyDef {
    let table = F::TABLE;
    FamilyDef {
        family: F::FAMILY,
        text_readers: text_readers::<F>,
        networks: networks::<F>,
        needs: needs::<F>,
        published: published::<F>,
        text_encoder_weights: match table.text_encoders {
            [] => [0, 0],
            [one] => [one.weights, 0],
            [first, second, ..] => [first.weights, second.weights],
        },
        files: FileRules {
            owns_pipeline: |class| {
                let mut prefixes = F::TABLE.pipeline_prefixes.iter();
                prefixes.any(|prefix| class.starts_with(prefix))
            },
            check_folder: check_folder::<F>,
            has_transformer: has_transformer::<F>,
            assemble: assemble::<F>,
            variant_at: variant_at::<F>,
            are_experts: |_, _| false,
            boundary_of: |_| None,
            is_published_part: |component, shape, place| {
                let is_wide =
                    component != ModelComponent::Vae || (F::TABLE.vae.is_published)(place);
                let config = (F::TABLE.published)(&shape);
                is_wide && is_one_of(&parts::<F>(&config), component, place)
            },
            ships_tokenizers: true,
            image_prompts: None,
            control_network: |_, _| None,
            control_weights: None,
            control_lora: None,
        },
        lora: LoraRules {
            signs: table.lora.signs,
            accepts: |origin, _| F::TABLE.lora.origins.contains(&origin),
            published: || {
                let models = (F::TABLE.lora_models)().into_iter();
                let network = (F::TABLE.lora.network)(false);
                let table = |config: F::Config| LayerTable::of_schema(network, config.schema(None));
                let models = models.map(|(label, config)| (label.to_owned(), table(config)));
                models.collect()
            },
            shared_names: None,
            objection: |_| None,
            tables: lora_tables::<F>,
            has_musubi: table.lora.has_musubi,
        },
    }
}

/// The components of a text encoder, and its part in memory: of the first and of the second.
const ENCODERS: [(ModelComponent, PlannedNetwork); 2] = [
    (ModelComponent::TextEncoder, PlannedNetwork::TextEncoder),
    (ModelComponent::TextEncoder2, PlannedNetwork::TextEncoder2),
];

fn has_transformer<F: SingleTransformerFamily>(weights: &WeightSet) -> bool {
    TensorKeys::<F::Config>::detect(|key| weights.has(key)).is_some()
}

fn parts<F: SingleTransformerFamily>(config: &F::Config) -> Vec<ComponentQuery<'static>> {
    let table = F::TABLE;
    let vae = (table.vae.wanted)(config.latent_channels());
    let encoders = table.text_encoders.iter();
    let encoders = encoders.map(|encoder| (encoder.wanted)(config));
    [vae]
        .into_iter()
        .chain(encoders)
        .chain((table.more_parts)(config))
        .collect()
}

/// Checks a diffusers folder whole. Parts that the user named replace the folder's own.
fn check_folder<F: SingleTransformerFamily>(
    folder: &Path,
    index: &ModelIndex,
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<(ModelFiles, ModelFacts), CatalogError> {
    let unsupported = |what: String| CatalogError::unsupported(what, folder);
    check_pipeline::<F>(&index.class).map_err(unsupported)?;
    check_components(folder, index, &components::<F>(), companions)?;
    let mut files = ModelFiles::from_index(folder, index);
    let processor = "feature_extractor";
    if F::TABLE
        .more_components
        .iter()
        .any(|(name, _)| *name == processor)
    {
        files.image_processor = Some(folder.join(processor));
    }
    let config = read_config::<F>(&files.transformer)?;
    let hints = VariantHints {
        class: Some(&index.class),
        is_distilled: index.is_distilled,
        names: &[&scan::model_name(folder)],
    };
    let variant = (F::TABLE.variant)(&config, &hints).map_err(unsupported)?;
    if let Some(what) = foreign_part::<F::Config>(
        &WeightSet::open(&files.transformer)?,
        F::FAMILY,
        F::TABLE.foreign_parts,
    ) {
        return Err(unsupported(what));
    }
    if !companions.is_empty() {
        component_search::replace(&mut files, &parts::<F>(&config), companions, library)?;
    }
    let facts = check::<F>(&files, &config, variant)?;
    Ok((files, facts))
}

/// Refuses a pipeline for another kind of the family's models, with a noun phrase for it.
fn check_pipeline<F: SingleTransformerFamily>(class: &str) -> Result<(), String> {
    if F::TABLE.pipelines.contains(&class) {
        return Ok(());
    }
    let mut refused = F::TABLE.refused_pipelines.iter();
    let known = refused.find(|(start, _)| class.starts_with(start));
    Err(known.map_or_else(
        || format!("a {} model for {class}", F::FAMILY.label),
        |(_, what)| (*what).to_owned(),
    ))
}

/// The folders of a diffusers folder, and the class of each where only one will do.
fn components<F: SingleTransformerFamily>() -> Vec<(&'static str, Option<&'static str>)> {
    let table = F::TABLE;
    let mut components = table.more_components.to_vec();
    components.push(("scheduler", None));
    let encoders = table
        .text_encoders
        .iter()
        .zip(["text_encoder", "text_encoder_2"]);
    components.extend(encoders.map(|(encoder, name)| (name, encoder.network.class())));
    let tokenizers = table.text_encoders.iter().zip(["tokenizer", "tokenizer_2"]);
    components.extend(tokenizers.map(|(_, name)| (name, None)));
    components.push(("transformer", F::Config::CLASSES.first().copied()));
    components.push(("vae", table.vae_class));
    components
}

/// The model of the transformer at a place, whose header is `weights`.
fn assemble<F: SingleTransformerFamily>(
    place: &Path,
    weights: &WeightSet,
    companions: &ComponentOverrides,
    library: &ComponentLibrary,
) -> Result<AssembledModel, CatalogError> {
    let unsupported = |what: String| CatalogError::unsupported(what, place);
    if let Some(what) = foreign_part::<F::Config>(weights, F::FAMILY, F::TABLE.foreign_parts) {
        return Err(unsupported(what));
    }
    // Some storages have other names.
    let kind_of = tensor_kind::of_tensors(weights);
    storage::check(weights, before_comma(&kind_of.text))?;
    if !has_transformer::<F>(weights) {
        return Err(not_a_model(&kind_of, place));
    }
    let config = read_config::<F>(place)?;
    let variant = variant_of::<F>(&config, place).map_err(unsupported)?;
    config.check_weights(weights)?;
    let mut files = ModelFiles {
        transformer: place.to_owned(),
        ..ModelFiles::default()
    };
    component_search::complete(&mut files, &parts::<F>(&config), companions, library)?;
    let facts = check::<F>(&files, &config, variant)?;
    Ok(AssembledModel {
        place: place.to_owned(),
        name: model_name(place),
        files,
        facts,
    })
}

/// The variant of the transformer at a place, where its header and its name say it.
fn variant_at<F: SingleTransformerFamily>(place: &Path) -> Option<&'static str> {
    let config = read_config::<F>(place).ok()?;
    Some(variant_of::<F>(&config, place).ok()?.name)
}

/// The variant of a transformer by its config and the names of the model and of the folder around it.
fn variant_of<F: SingleTransformerFamily>(
    config: &F::Config,
    place: &Path,
) -> Result<ModelVariant, String> {
    let folder = place.parent().map(scan::model_name).unwrap_or_default();
    let hints = VariantHints {
        class: None,
        is_distilled: None,
        names: &[&model_name(place), &folder],
    };
    (F::TABLE.variant)(config, &hints)
}

pub(super) fn is_one_of(
    parts: &[ComponentQuery<'_>],
    component: ModelComponent,
    place: &Path,
) -> bool {
    let mut parts = parts.iter().filter(|wanted| wanted.component == component);
    parts.any(|wanted| wanted.check(place).is_ok())
}

pub(super) fn model_name(place: &Path) -> String {
    if place.is_dir() {
        scan::model_name(place)
    } else {
        file_stem(place)
    }
}

pub(super) fn refuse_quantised(
    is_quantised: bool,
    family: ModelFamily,
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

fn read_config<F: SingleTransformerFamily>(place: &Path) -> Result<F::Config, CatalogError> {
    let config = F::Config::read(place)?;
    refuse_quantised(config.is_quantized(), F::FAMILY, place)?;
    Ok(config)
}

/// Checks a model whose parts are known whole: each against its config, and with the transformer.
fn check<F: SingleTransformerFamily>(
    files: &ModelFiles,
    config: &F::Config,
    variant: ModelVariant,
) -> Result<ModelFacts, CatalogError> {
    let table = F::TABLE;
    let scheduler = files.scheduler.as_deref();
    let scheduler = scheduler
        .map(SchedulerConfig::read_flow_match_euler)
        .transpose()?;
    let bytes = wanted::check_model(
        files,
        &[&files.transformer],
        &format!("a {} transformer", F::FAMILY.label),
        &|weights| config.check_weights(weights),
        &parts::<F>(config),
    )?;
    let (latent_channels, factor) = (table.vae.sizes)(&files.vae)?;
    let mut facts = ModelFacts {
        family: F::FAMILY,
        variant,
        shape: (table.shape)(config),
        section_order: None,
        latent_channels: latent_channels.unsigned_abs(),
        limits: SizeLimits {
            controls: variant.controls,
            max_references: variant.max_references,
            ..image_limits(factor)
        },
        schedule: scheduler.map(|scheduler| SchedulerDefaults {
            sampler: SamplerKind::Euler,
            shift: (table.shift)(&scheduler),
        }),
        bytes,
    };
    (table.complete)(config, files, &mut facts)?;
    Ok(facts)
}

/// The text encoders of a model, first the one that reads the most tokens.
fn text_readers<F: SingleTransformerFamily>(spec: &ModelSpec) -> Vec<TextReader> {
    let encoders = F::TABLE.text_encoders.iter().enumerate();
    let readers = encoders.filter_map(|(number, encoder)| {
        let (name, limit) = (encoder.name, (encoder.limit)(spec.guidance));
        if number == 0 {
            Some(TextReader::first(spec, name, limit, encoder.rule))
        } else {
            TextReader::second(spec, name, limit)
        }
    });
    let mut readers: Vec<TextReader> = readers.collect();
    readers.sort_by_key(|reader| Reverse(reader.limit));
    readers
}

fn networks<F: SingleTransformerFamily>(
    files: &ModelFiles,
    reader: &mut NetworkReader,
) -> Result<(), CatalogError> {
    let table = F::TABLE;
    reader.read::<F::Config>(PlannedNetwork::Transformer, &files.transformer)?;
    (table.vae.read)(&files.vae, reader)?;
    for (encoder, (component, part)) in table.text_encoders.iter().zip(ENCODERS) {
        if let Some(place) = files.path(component) {
            encoder.network.read(part, place, reader)?;
        }
    }
    (table.more_networks)(files, reader)
}

/// The networks of a published model with a transformer of such a shape.
fn published<F: SingleTransformerFamily>(shape: &TransformerShape) -> Vec<PublishedNetwork> {
    let table = F::TABLE;
    let config = (table.published)(shape);
    let encoders = table.text_encoders.iter().zip(ENCODERS);
    let encoders =
        encoders.filter_map(|(encoder, (_, part))| Some((part, (encoder.published)(&config)?)));
    let mut networks: Vec<PublishedNetwork> = encoders.collect();
    networks.push((PlannedNetwork::VaeDecoder, (table.vae.published)()));
    networks.push((PlannedNetwork::Transformer, Arc::new(config)));
    networks
}

fn needs<F: SingleTransformerFamily>(job: &PlannedJob<'_>, stage: Stage) -> Vec<StageFootprint> {
    let table = F::TABLE;
    if let Some(needs) = (table.other_needs)(job, stage) {
        return needs;
    }
    match stage {
        // One encoder is unloaded before the next.
        Stage::EncodeText => encode_text::<F>(job),
        Stage::EncodeImage => image(job, PlannedNetwork::VaeEncoder).into_iter().collect(),
        Stage::Denoise => (table.transformer_need)(job).into_iter().collect(),
        Stage::Decode => image(job, PlannedNetwork::VaeDecoder).into_iter().collect(),
        Stage::EncodeVision
        | Stage::DenoiseHigh
        | Stage::DenoiseLow
        | Stage::Unload
        | Stage::Upscale
        | Stage::Interpolate
        | Stage::Save => Vec::new(),
    }
}

fn encode_text<F: SingleTransformerFamily>(job: &PlannedJob<'_>) -> Vec<StageFootprint> {
    let encoders = F::TABLE.text_encoders.iter().zip(ENCODERS);
    let needs = encoders.filter_map(|(encoder, (_, part))| {
        let tokens = (encoder.tokens)(job);
        encoder.network.need(job, part, tokens)
    });
    needs.collect()
}

/// The networks of a model that LoRAs change.
fn lora_tables<F: SingleTransformerFamily>(
    files: &ModelFiles,
) -> Result<Vec<LayerTable>, CatalogError> {
    let table = F::TABLE;
    let transformer = transformer_table::<F::Config>(&files.transformer, table.lora.network)?;
    let mut tables = vec![transformer];
    for (encoder, (component, _)) in table.text_encoders.iter().zip(ENCODERS) {
        let network = encoder
            .network
            .lora()
            .filter(|_| table.lora.has_text_encoders);
        // One that cannot be read is an error where it is loaded.
        let weights = files.path(component).map(WeightSet::open);
        if let (Some(network), Some(Ok(weights))) = (network, weights) {
            let keys = weights.tensors.keys().map(String::as_str);
            let prefix = lora::text_encoder_prefix(network, keys);
            tables.push(LayerTable::new(network, prefix, &|name| {
                weights.shape(name)
            }));
        }
    }
    Ok(tables)
}

/// The layers of the transformer at a place.
pub(super) fn transformer_table<C: TransformerConfig>(
    place: &Path,
    network: fn(bool) -> LoraTarget,
) -> Result<LayerTable, CatalogError> {
    let weights = WeightSet::open(place)?;
    let keys = TensorKeys::<C>::of(|key| weights.has(key));
    let shape = |name: &str| weights.shape(&keys.file_key(name));
    Ok(LayerTable::new(network(keys.is_diffusers), "", &shape))
}
