//! Families whose models have one transformer: recognition, files, networks, memory needs and LoRAs, from a
//! [`FamilyTable`](super::table::FamilyTable).
//!
//! Looks at configs and headers only. A family whose models may have two transformers puts them together itself.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;

use super::ModelFamily;
use super::def::{ControlNets, ExpertRules, FamilyDef, FindImagePrompts, PublishedNetwork};
use super::foreign::{foreign_part, refusal};
use super::parts::image_limits;
use super::table::{LoraTable, SingleTransformerFamily, StageNeeds, TextNetwork, VariantHints};
use crate::footprint::autoencoder::image;
use crate::footprint::text::{redux, siglip};
use crate::footprint::{NetworkReader, PlannedJob, PlannedNetwork, StageFootprint};
use crate::formats::weights::WeightSet;
use crate::job::Stage;
use crate::library::component_search::wanted;
use crate::library::component_search::wanted::ComponentQuery;
use crate::library::identify::check_components;
use crate::library::single::{AssembledModel, before_comma, file_stem, not_a_model};
use crate::library::{
    ComponentLibrary, ControlNetwork, component_search, scan, storage, tensor_kind,
};
use crate::lora::{self, LayerTable, LoraTarget, of_transformer};
use crate::model::configs::ModelIndex;
use crate::model::facts::{ModelFacts, ModelVariant, TransformerShape};
use crate::model::{
    CatalogError, ComponentOverrides, ModelComponent, ModelFiles, ModelSpec, SizeLimits,
    with_article,
};
use crate::networks::dialects::TensorKeys;
use crate::networks::{
    ClipVisionConfig, DeclaredConfig as _, DenoiserConfig as _, NetworkConfig as _, PartKind,
    ReduxConfig, Schema, SiglipConfig, TransformerConfig,
};
use crate::tokens::TextReader;

/// The components of a text encoder, and its part in memory: of the first and of the second.
const ENCODERS: [(ModelComponent, PlannedNetwork); 2] = [
    (ModelComponent::TextEncoder, PlannedNetwork::TextEncoder),
    (ModelComponent::TextEncoder2, PlannedNetwork::TextEncoder2),
];

/// The folder of a diffusers folder that says how images are prepared for an image encoder.
const IMAGE_PROCESSOR: &str = "feature_extractor";

impl<F: SingleTransformerFamily> FamilyDef for F {
    fn family(&self) -> ModelFamily {
        F::FAMILY
    }

    fn text_readers(&self, spec: &ModelSpec) -> Vec<TextReader> {
        let encoders = F::TABLE.text_encoders.iter().enumerate();
        let encoders = encoders.filter(|(_, encoder)| encoder.network != TextNetwork::ClipG);
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

    fn networks(&self, files: &ModelFiles, reader: &mut NetworkReader) -> Result<(), CatalogError> {
        let table = F::TABLE;
        let config = F::Config::read(&files.transformer)?;
        let image_encoder = (table.image_encoder)(&config);
        reader.with_config(PlannedNetwork::Transformer, &files.transformer, config)?;
        if let Some(place) = &files.transformer_2 {
            reader.read::<F::Config>(PlannedNetwork::Transformer2, place)?;
        }
        (table.vae.read)(&files.vae, reader)?;
        for (encoder, (component, part)) in table.text_encoders.iter().zip(ENCODERS) {
            if let Some(place) = files.path(component) {
                encoder.network.read(part, place, reader)?;
            }
        }
        if let (Some(wanted), Some(place)) = (image_encoder, &files.image_encoder) {
            read_image_encoder(wanted.part, place, reader)?;
        }
        (table.read_more)(files, reader)?;
        if let Some(prompts) = &files.image_prompts {
            read_image_encoder(PartKind::Siglip, &prompts.image_encoder, reader)?;
            reader.read::<ReduxConfig>(PlannedNetwork::ImageEmbedder, &prompts.embedder)?;
        }
        Ok(())
    }

    fn needs(&self, job: &PlannedJob<'_>, stage: Stage) -> Vec<StageFootprint> {
        // One network is unloaded before the next.
        let needs = (F::TABLE.needs)(job, stage).unwrap_or_else(|| match stage {
            Stage::EncodeText => encode_text::<F>(job),
            Stage::EncodeImage => [image(job, PlannedNetwork::VaeEncoder), None],
            Stage::EncodeVision => [siglip(job), redux(job)],
            Stage::Decode => [image(job, PlannedNetwork::VaeDecoder), None],
            _ => [None, None],
        });
        needs.into_iter().flatten().collect()
    }

    fn published(&self, shape: &TransformerShape) -> Vec<PublishedNetwork> {
        let table = F::TABLE;
        let config = (table.published)(shape);
        let encoders = table.text_encoders.iter().zip(ENCODERS);
        let encoders =
            encoders.filter_map(|(encoder, (_, part))| Some((part, (encoder.published)(&config)?)));
        let mut networks: Vec<PublishedNetwork> = encoders.collect();
        let vae = (table.vae.published)(config.latent_channels());
        networks.push((PlannedNetwork::VaeDecoder, vae));
        let transformer = Arc::new(config);
        if table.experts.is_some() {
            networks.push((PlannedNetwork::Transformer2, transformer.clone()));
        }
        networks.push((PlannedNetwork::Transformer, transformer));
        networks
    }

    fn text_encoder_weights(&self) -> [u64; 2] {
        let weights = |number: usize| {
            F::TABLE
                .text_encoders
                .get(number)
                .map_or(0, |it| it.weights)
        };
        [weights(0), weights(1)]
    }

    fn owns_pipeline(&self, class: &str) -> bool {
        F::TABLE.pipelines.contains(&class) || refusal::<F>(class).is_some()
    }

    fn check_folder(
        &self,
        folder: &Path,
        index: &ModelIndex,
        companions: &ComponentOverrides,
        library: &ComponentLibrary,
    ) -> Result<(ModelFiles, ModelFacts), CatalogError> {
        if let Some(experts) = F::TABLE.experts {
            return (experts.check_folder)(folder, index, companions, library);
        }
        let unsupported = |what: String| CatalogError::unsupported(what, folder);
        if !F::TABLE.pipelines.contains(&&*index.class) {
            let what = refusal::<F>(&index.class).unwrap_or_default();
            return Err(unsupported(what));
        }
        check_components(folder, index, &components::<F>(), companions)?;
        let mut files = ModelFiles::from_index(folder, index);
        let config = read_config::<F>(&files.transformer)?;
        if (F::TABLE.image_encoder)(&config).is_some() {
            files.image_processor = Some(folder.join(IMAGE_PROCESSOR));
        }
        let hints = VariantHints {
            class: Some(&index.class),
            is_distilled: index.is_distilled,
            names: &[&scan::model_name(folder)],
        };
        let variant = (F::TABLE.variant)(&config, &hints).map_err(unsupported)?;
        if let Some(what) = foreign_part::<F>(&WeightSet::open(&files.transformer)?) {
            return Err(unsupported(what));
        }
        if !companions.is_empty() {
            component_search::replace(&mut files, &parts::<F>(&config), companions, library)?;
        }
        let facts = check::<F>(&files, &config, variant)?;
        Ok((files, facts))
    }

    fn has_transformer(&self, weights: &WeightSet) -> bool {
        let keys = TensorKeys::<F::Config>::detect(|key| weights.has(key));
        let has = |keys: TensorKeys<F::Config>| {
            let mark = F::TABLE.mark.map(|mark| keys.file_key(mark));
            mark.is_none_or(|mark| weights.has(&mark))
        };
        keys.is_some_and(has)
    }

    fn assemble(
        &self,
        place: &Path,
        weights: &WeightSet,
        companions: &ComponentOverrides,
        library: &ComponentLibrary,
    ) -> Result<AssembledModel, CatalogError> {
        if let Some(experts) = F::TABLE.experts {
            return (experts.assemble)(place, companions, library);
        }
        let config = whole_transformer::<F>(place, weights)?;
        let names = names_around(place);
        let names = names.each_ref().map(String::as_str);
        let hints = VariantHints::of_names(&names);
        let variant = (F::TABLE.variant)(&config, &hints);
        let variant = variant.map_err(|what| CatalogError::unsupported(what, place))?;
        config.check_weights(weights)?;
        let sigmas = (F::TABLE.sample_sigmas)(variant.name);
        let [predicts_v, zero_terminal_snr] = (F::TABLE.predicts_v)(weights, &hints);
        let mut files = ModelFiles {
            predicts_v,
            zero_terminal_snr,
            transformer: place.to_owned(),
            sample_sigmas: sigmas.map(<[f32]>::to_vec),
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

    fn variant_at(&self, place: &Path) -> Option<&'static str> {
        if let Some(experts) = F::TABLE.experts {
            return (experts.variant_at)(place);
        }
        let config = read_config::<F>(place).ok()?;
        let names = names_around(place);
        let names = names.each_ref().map(String::as_str);
        let variant = (F::TABLE.variant)(&config, &VariantHints::of_names(&names));
        Some(variant.ok()?.name)
    }

    fn is_published_part(
        &self,
        component: ModelComponent,
        shape: TransformerShape,
        place: &Path,
    ) -> bool {
        let config = (F::TABLE.published)(&shape);
        let is_published = || (F::TABLE.vae.is_published)(config.latent_channels(), place);
        let is_wide = component != ModelComponent::Vae || is_published();
        is_wide && is_one_of(&parts::<F>(&config), component, place)
    }

    fn ships_tokenizers(&self) -> bool {
        let config = F::Config::default();
        let mut parts = parts::<F>(&config).into_iter();
        parts.all(|part| part.tokenizer.is_none_or(|it| it.bundled.is_some()))
    }

    fn experts(&self) -> Option<ExpertRules> {
        F::TABLE.experts
    }

    fn image_prompts(&self) -> Option<FindImagePrompts> {
        F::TABLE.image_prompts
    }

    fn control_nets(&self) -> Option<ControlNets> {
        F::TABLE.control_nets
    }

    fn lora(&self) -> LoraTable {
        F::TABLE.lora
    }

    fn lora_target(&self, is_diffusers: bool) -> LoraTarget {
        let layers = |is_diffusers: bool| {
            let models = (F::TABLE.lora_models)();
            models
                .first()
                .map_or_else(Vec::new, |(_, config)| of_transformer(config, is_diffusers))
        };
        LoraTarget {
            input: F::TABLE.lora.control.map(|(layer, _)| layer),
            of_images: F::TABLE.lora.of_images,
            is_diffusers,
            ..LoraTarget::transformer(F::FAMILY.id, layers)
        }
    }

    fn lora_models(&self) -> Vec<(String, LayerTable)> {
        let target = self.lora_target(false);
        let table = |config: F::Config| LayerTable::of_schema(target, Schema::of(&config, None));
        let models = (F::TABLE.lora_models)().into_iter();
        let models = models.map(|(label, config)| (label.to_owned(), table(config)));
        models.collect()
    }

    fn lora_tables(&self, files: &ModelFiles) -> Result<Vec<LayerTable>, CatalogError> {
        let table = F::TABLE;
        let transformer = transformer_table(self, &files.transformer)?;
        let mut tables = vec![transformer];
        for (encoder, (component, _)) in table.text_encoders.iter().zip(ENCODERS) {
            let network = encoder
                .network
                .lora()
                .filter(|_| table.lora.has_text_encoders);
            // One that cannot be read is an error where it is loaded.
            let weights = files.path(component).map(WeightSet::open);
            if let (Some(network), Some(Ok(weights))) = (network, weights) {
                let keys = lora::text_encoder_keys(network, &weights.names());
                let shape = |name: &str| weights.shape(&keys.file_key(name));
                tables.push(LayerTable::new(network, &shape));
            }
        }
        Ok(tables)
    }
}

pub(super) fn parts<F: SingleTransformerFamily>(
    config: &F::Config,
) -> Vec<ComponentQuery<'static>> {
    let table = F::TABLE;
    let vae = (table.vae.wanted)(config.latent_channels());
    let encoders = table.text_encoders.iter();
    let encoders = encoders.map(|encoder| (encoder.wanted)(config));
    [vae]
        .into_iter()
        .chain(encoders)
        .chain((table.image_encoder)(config))
        .chain((table.more_parts)(config))
        .collect()
}

/// The folders of a diffusers folder, and the class of each where only one will do.
fn components<F: SingleTransformerFamily>() -> Vec<(&'static str, Option<&'static str>)> {
    let table = F::TABLE;
    let mut components = vec![("scheduler", None)];
    if let Some(wanted) = (table.image_encoder)(&F::Config::default()) {
        components.push((IMAGE_PROCESSOR, None));
        let class = match wanted.part {
            PartKind::Siglip => "SiglipVisionModel",
            _ => "CLIPVisionModel",
        };
        components.push(("image_encoder", Some(class)));
    }
    let encoders = table
        .text_encoders
        .iter()
        .zip(["text_encoder", "text_encoder_2"]);
    components.extend(encoders.map(|(encoder, name)| (name, encoder.network.class())));
    let tokenizers = table.text_encoders.iter().zip(["tokenizer", "tokenizer_2"]);
    components.extend(tokenizers.map(|(_, name)| (name, None)));
    components.push(("transformer", F::Config::CLASSES.first().copied()));
    components.push(("vae", table.vae.class));
    components
}

/// The config of the transformer at a place, whose header is `weights`. Other models and storages that cannot be read are
/// named and refused.
pub(super) fn whole_transformer<F: SingleTransformerFamily>(
    place: &Path,
    weights: &WeightSet,
) -> Result<F::Config, CatalogError> {
    if let Some(what) = foreign_part::<F>(weights) {
        return Err(CatalogError::unsupported(what, place));
    }
    // Some storages have other names.
    let kind_of = tensor_kind::of_tensors(weights);
    storage::check(weights, before_comma(&kind_of.text))?;
    if TensorKeys::<F::Config>::detect(|key| weights.has(key)).is_none() {
        return Err(not_a_model(&kind_of, place));
    }
    read_config::<F>(place)
}

/// Names of a model and of the folder around it.
fn names_around(place: &Path) -> [String; 2] {
    let folder = place.parent().map(scan::model_name).unwrap_or_default();
    [model_name(place), folder]
}

fn is_one_of(parts: &[ComponentQuery<'_>], component: ModelComponent, place: &Path) -> bool {
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
    let schedule = scheduler.map(table.read_schedule).transpose()?;
    let bytes = wanted::check_model(
        files,
        &[&files.transformer],
        &format!("{} transformer", with_article(F::FAMILY.label)),
        &|weights| config.check_weights(weights),
        &parts::<F>(config),
    )?;
    let (latent_channels, factor) = (table.vae.sizes)(&files.vae)?;
    let mut facts = ModelFacts {
        family: F::FAMILY,
        variant,
        shape: config.shape(),
        section_order: None,
        latent_channels: latent_channels.unsigned_abs(),
        limits: SizeLimits {
            controls: variant.controls,
            max_references: variant.max_references,
            ..image_limits(factor)
        },
        schedule,
        bytes,
    };
    (table.complete)(config, files, &mut facts)?;
    Ok(facts)
}

fn encode_text<F: SingleTransformerFamily>(job: &PlannedJob<'_>) -> StageNeeds {
    std::array::from_fn(|number| {
        let encoder = F::TABLE.text_encoders.get(number)?;
        let (_, part) = ENCODERS[number];
        encoder.network.need(job, part, (encoder.tokens)(job))
    })
}

fn read_image_encoder(
    kind: PartKind,
    place: &Path,
    reader: &mut NetworkReader,
) -> Result<(), CatalogError> {
    let part = PlannedNetwork::ImageEncoder;
    match kind {
        PartKind::Siglip => reader.read::<SiglipConfig>(part, place),
        _ => reader.read::<ClipVisionConfig>(part, place),
    }
}

/// The layers of the transformer at a place.
pub(super) fn transformer_table<F: SingleTransformerFamily>(
    family: &F,
    place: &Path,
) -> Result<LayerTable, CatalogError> {
    let weights = WeightSet::open(place)?;
    let keys = TensorKeys::<F::Config>::of(|key| weights.has(key));
    let shape = |name: &str| weights.shape(&keys.file_key(name));
    let target = family.lora_target(keys.is_diffusers);
    Ok(LayerTable::new(target, &shape))
}

/// The ControlNet of config `C` with these weights at a place, as `describe` says of its config; `None` where it is another
/// network.
pub(super) fn control_net<C: TransformerConfig>(
    weights: &WeightSet,
    place: &Path,
    describe: impl FnOnce(&C) -> ControlNetwork,
) -> Option<Result<ControlNetwork, CatalogError>> {
    TensorKeys::<C>::detect(|key| weights.has(key))?;
    let read = C::read(place).and_then(|config| {
        config.check_weights(weights)?;
        Ok(describe(&config))
    });
    Some(read)
}
