//! From a checked model to its spec: which entry of the catalogue it is, and whose word wins.

use std::fs;
use std::path::{Path, PathBuf};

use super::details::{ModelMetadata, PartialDefaults};
use super::entry::{self, ModelEntry};
use super::helper::{HelperKind, HelperNetwork};
use crate::families::def_of;
use crate::formats::read_json;
use crate::job::{FormInputs, GenerateForm, SizeChoice, form};
use crate::library::single::AssembledModel;
use crate::library::{ComponentCandidate, tiny_decoder};
use crate::model::choices::SamplerKind;
use crate::model::facts::{ModelFacts, SchedulerDefaults};
use crate::model::{
    CatalogError, LatentRgb, ModelDefaults, ModelFamily, ModelFiles, ModelSpec, PartialSampling,
    SamplingOptions, SizeLimits,
};

/// The entry that a model is: by the place that the user gave, else by its name where its shape fits.
pub(super) fn claiming<'a>(
    entries: &'a [ModelEntry],
    model: &AssembledModel,
) -> Option<&'a ModelEntry> {
    let same_place = |path: &PathBuf| {
        let canonical = |path: &Path| fs::canonicalize(path).ok();
        canonical(path).is_some_and(|path| Some(path) == canonical(&model.place))
    };
    let by_place = |entry: &&ModelEntry| entry.path.as_ref().is_some_and(same_place);
    let by_name = |entry: &&ModelEntry| {
        let has_name = if model.place.is_dir() {
            entry.has_folder_name(&model.name)
        } else {
            entry.has_file_name(&model.name)
        };
        entry.path.is_none() && has_name && entry.may_be(&model.facts)
    };
    entries
        .iter()
        .find(by_place)
        .or_else(|| entries.iter().find(by_name))
}

/// A spec from what configs say and, in rising order, the catalogue, the folder's own `safelight.json` and the user's
/// entry. A model that no entry claims takes the defaults of one with its very shape.
pub(super) fn build(
    model: &AssembledModel,
    claim: Option<&ModelEntry>,
    entries: &[ModelEntry],
    parts: &[ComponentCandidate],
) -> Result<ModelSpec, CatalogError> {
    let facts = &model.facts;
    let known = match (claim, entry::most_like(entries, facts, &model.name)) {
        (Some(entry), _) => entry.built_in.clone(),
        (None, Some(entry)) => ModelMetadata {
            name: None,
            description: None,
            licence: None,
            defaults: with_schedule(&entry.built_in.defaults, facts.schedule),
            ..entry.built_in.clone()
        },
        (None, None) => of_variant(entries, facts),
    };
    let known = with_preset(known, &model.place);
    let own_file = model.place.join("safelight.json");
    let own: ModelMetadata = if own_file.exists() {
        read_json(&own_file)?
    } else {
        ModelMetadata::default()
    };
    // A model that brings a latent-to-RGB map has latents of its own.
    let latent_channels = own.latent_rgb.is_none().then_some(facts.latent_channels);
    let preview_decoder =
        latent_channels.and_then(|channels| tiny_decoder::for_model(facts.family, channels, parts));
    let rules = def_of(facts.family).image_prompts();
    let redux = HelperNetwork::find(HelperKind::ImagePrompts, Some(facts.family), None);
    let redux = redux.filter(|_| rules.is_some());
    let users = claim.map(|entry| entry.user.clone()).unwrap_or_default();
    let details = known.overlaid(own).overlaid(users);
    let limits = details.limits.within(facts.limits);
    let mut defaults = details
        .defaults
        .over(plain_defaults(facts.family, &limits, facts.schedule));
    let strength = &mut defaults.sampling.strength;
    *strength = strength.or_else(|| (facts.family.video_strength)(facts.variant.name));
    let path_text = || model.place.to_string_lossy().into_owned();
    let spec = ModelSpec {
        id: claim.map_or_else(path_text, |entry| entry.id.clone()),
        computer: None,
        name: details.name.unwrap_or_else(|| model.name.clone()),
        description: details
            .description
            .unwrap_or_else(|| format!("A {} model", facts.family.kind_text(facts.variant.name))),
        licence: details.licence.unwrap_or_else(|| "not stated".to_owned()),
        family: facts.family,
        variant: facts.variant.name.to_owned(),
        folder: model.place.clone(),
        bytes: facts.bytes,
        files: ModelFiles {
            preview_decoder,
            image_prompts: rules.and_then(|find| find(&model.files, parts)),
            ..model.files.clone()
        },
        start_image: facts.variant.start_image,
        image_role: facts.variant.image_role,
        mask: facts.variant.mask,
        end_image: facts.variant.end_image,
        guidance: facts.variant.guidance,
        section_order: facts.section_order,
        presets: details.presets.unwrap_or_default(),
        defaults,
        limits,
        example_prompts: details.example_prompts.unwrap_or_default(),
        latent_rgb: details.latent_rgb,
        latent_channels,
        prompt_images: redux.map(HelperNetwork::to_get),
    };
    check_spec(&spec, facts, &own_file)?;
    Ok(spec)
}

/// Defaults of a model whose name says that it was distilled to few steps.
fn with_preset(mut known: ModelMetadata, model: &Path) -> ModelMetadata {
    let mut presets = known.presets.iter().flatten();
    if let Some(preset) = presets.find(|preset| preset.is_for_model(model)) {
        known.defaults.sampling = preset.sampling.or(known.defaults.sampling);
    }
    known
}

/// Defaults of a variant, for a model of another shape that makes images, or videos in sections: the steps and
/// the guidance that it was trained for do not go with its size, nor do those of LoRAs. Those of other videos go with much
/// else.
fn of_variant(entries: &[ModelEntry], facts: &ModelFacts) -> ModelMetadata {
    let is_same = |entry: &&ModelEntry| {
        (facts.family.makes_images || facts.section_order.is_some())
            && entry.family == Some(facts.family)
            && entry.variant.as_deref() == Some(facts.variant.name)
    };
    let Some(entry) = entries.iter().find(is_same) else {
        return ModelMetadata::default();
    };
    let known = &entry.built_in;
    let has_colours = |rgb: &LatentRgb| rgb.factors.len() as u64 == facts.latent_channels;
    let mut defaults = with_schedule(&known.defaults, facts.schedule);
    let mut presets = None;
    if facts.family.makes_images {
        (defaults.width, defaults.height) = (None, None);
        presets = known.presets.clone();
    }
    ModelMetadata {
        defaults,
        presets,
        example_prompts: known.example_prompts.clone(),
        latent_rgb: known.latent_rgb.clone().filter(has_colours),
        ..ModelMetadata::default()
    }
}

/// A shape says nothing of what a model was distilled or tuned for: its own scheduler knows better.
fn with_schedule(
    defaults: &PartialDefaults,
    schedule: Option<SchedulerDefaults>,
) -> PartialDefaults {
    let Some(schedule) = schedule else {
        return defaults.clone();
    };
    PartialDefaults {
        sampling: PartialSampling {
            sampler: Some(schedule.sampler),
            shift: schedule.shift,
            ..defaults.sampling
        },
        small_shift: None,
        ..defaults.clone()
    }
}

/// For a model without a description: a short, small video, so that a first try ends soon.
fn plain_defaults(
    family: ModelFamily,
    limits: &SizeLimits,
    schedule: Option<SchedulerDefaults>,
) -> ModelDefaults {
    // Models that were distilled to some noise levels have these steps, and no guidance.
    let (num_steps, guidance_scale, sampler) = match family.sigmas.len() {
        0 => (20, 5.0, SamplerKind::default()),
        steps => (steps as u32, 1.0, SamplerKind::Euler),
    };
    let edge = limits
        .size_multiple
        .saturating_mul((256 / limits.size_multiple).max(1));
    ModelDefaults {
        width: edge.min(limits.max_edge),
        height: edge.min(limits.max_edge),
        num_frames: limits.frame_stride
            * (limits.max_frames.saturating_sub(1) / limits.frame_stride).min(4)
            + 1,
        fps: 24.0,
        sampling: SamplingOptions {
            sampler: schedule.map_or(sampler, |schedule| schedule.sampler),
            ..SamplingOptions::plain(num_steps, guidance_scale)
        },
        small_shift: None,
        negative_prompt: String::new(),
    }
}

/// A description that asks for what the model cannot make, or previews another number of channels.
fn check_spec(spec: &ModelSpec, facts: &ModelFacts, path: &Path) -> Result<(), CatalogError> {
    // A model without a separate file blames the catalogue.
    let path = if path.exists() { path } else { &spec.folder };
    let wrong = |reason: String| CatalogError::config(reason, path);
    let (width, height) = (spec.defaults.width, spec.defaults.height);
    let form = GenerateForm {
        inputs: FormInputs::required_by(spec),
        size: SizeChoice::Custom,
        width: Some(width),
        height: Some(height),
        out: PathBuf::from(if spec.family.makes_images {
            "image.png"
        } else {
            "video.mp4"
        }),
        ..GenerateForm::default()
    };
    let limits = &spec.limits;
    let smallest = u64::from(limits.size_multiple) * u64::from(limits.size_multiple);
    if limits.max_frames == 0 || limits.max_pixels < smallest {
        return Err(wrong(format!(
            "wrong defaults: expected limits of at least 1 frame and {smallest} pixels, found {} and {}",
            limits.max_frames, limits.max_pixels
        )));
    }
    // Defaults that have to be changed before they can be used are wrong too.
    let mut reasons: Vec<String> = match form.validate(spec) {
        Ok(checked) => checked.notices.into_iter().map(|it| it.message).collect(),
        Err(errors) => errors.into_iter().map(|err| err.message).collect(),
    };
    let small_shift = spec.defaults.small_shift.map(|small| small.shift);
    reasons.extend(small_shift.and_then(form::wrong_shift));
    if !reasons.is_empty() {
        return Err(wrong(format!("wrong defaults: {}", reasons.join("; "))));
    }
    if let Some(preview) = &spec.latent_rgb
        && preview.factors.len() as u64 != facts.latent_channels
    {
        return Err(wrong(format!(
            "expected {} rows in latent_rgb.factors, one a channel, found {}",
            facts.latent_channels,
            preview.factors.len()
        )));
    }
    Ok(())
}
