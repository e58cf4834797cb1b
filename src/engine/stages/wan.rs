//! Wan's stages: which function makes which result, of which files.

use safelight_core::job::Stage;

use super::{StageContext, pictures};
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::memory::Boundary;
use crate::store;
use crate::wan::{self, Conditions, Expert, PromptEmbeds, WanConfig};

pub(super) fn run(context: &StageContext<'_>, stage: Stage) -> Result<Option<()>, EngineError> {
    match stage {
        Stage::EncodeText => encode_text(context),
        Stage::EncodeImage => encode_image(context),
        Stage::EncodeVision => encode_vision(context),
        Stage::Denoise => denoise(context, Expert::Only),
        Stage::DenoiseHigh => denoise(context, Expert::HighNoise),
        Stage::DenoiseLow => denoise(context, Expert::LowNoise),
        Stage::Decode => decode(context),
        Stage::Unload | Stage::Save => Err(context.no_such_stage()),
    }
}

fn config(context: &StageContext<'_>) -> Result<WanConfig, EngineError> {
    WanConfig::read(&context.request().files)
}

fn encode_text(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let config = config(context)?;
    let (request, place) = (context.request(), context.placement());
    let embeds =
        context.part(|capture, hooks| wan::encode_text(&config, request, place, capture, hooks))?;
    context.reclaim(Boundary::PostUnloadTextEncoder);
    embeds
        .map(|embeds| embeds.save(&context.own_result()))
        .transpose()
}

fn encode_image(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let config = config(context)?;
    let (request, place) = (context.request(), context.placement());
    let (start, end) = pictures::of_job(&context.folder(), request)?;
    let latents = context.part(|capture, hooks| {
        start.record("image", capture);
        if let Some(end) = &end {
            end.record("last_image", capture);
        }
        let start = start.resized(request)?;
        let end = end.map(|end| end.resized(request)).transpose()?;
        let end = end.as_ref().map(|end| &end.rgb[..]);
        wan::encode_image(&config, request, &start.rgb, end, place, capture, hooks)
    })?;
    latents
        .map(|latents| store::write_one(&context.own_result(), "image_latents", &latents))
        .transpose()
}

fn encode_vision(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let config = config(context)?;
    let (start, end) = pictures::of_job(&context.folder(), context.request())?;
    let pictures: Vec<_> = [Some(start), end]
        .into_iter()
        .flatten()
        .map(|picture| picture.fitted)
        .collect();
    let place = context.placement();
    let embeds = context
        .part(|capture, hooks| wan::encode_vision(&config, &pictures, place, capture, hooks))?;
    embeds
        .map(|embeds| store::write_one(&context.own_result(), "image_embeds", &embeds))
        .transpose()
}

fn denoise(context: &StageContext<'_>, expert: Expert) -> Result<Option<()>, EngineError> {
    let config = config(context)?;
    let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
    let image_latents = context.earlier(Stage::EncodeImage, |path| {
        store::read_one(path, "image_latents")
    })?;
    let image_embeds = context.earlier(Stage::EncodeVision, |path| {
        store::read_one(path, "image_embeds")
    })?;
    let conditions = Conditions {
        embeds: &embeds,
        image_latents: image_latents.as_ref(),
        image_embeds: image_embeds.as_ref(),
    };
    let (request, place) = (context.request(), context.placement());
    let resume = resume_point(context, expert);
    let state = context.part(|capture, hooks| {
        wan::denoise(
            &config,
            request,
            expert,
            &conditions,
            resume,
            place,
            capture,
            hooks,
        )
    })?;
    let Some(state) = state else {
        return Ok(None);
    };
    let result = context.own_result();
    if expert == Expert::HighNoise {
        state.save(&result)?;
    } else {
        store::write_one(&result, "latents", &state.latents)?;
    }
    Ok(Some(()))
}

/// Where an earlier run of this stage got to, else where the other expert did.
fn resume_point(context: &StageContext<'_>, expert: Expert) -> Option<DenoiseState> {
    let is_low = expert == Expert::LowNoise;
    let halfway = is_low.then(|| DenoiseState::load(&context.result(Stage::DenoiseHigh)).ok());
    let states = context.checkpoint().into_iter().chain(halfway.flatten());
    states.max_by_key(|state| state.step)
}

fn decode(context: &StageContext<'_>) -> Result<Option<()>, EngineError> {
    let config = config(context)?;
    let latents = store::read_one(&context.result(Stage::Denoise), "latents")?;
    let (request, place) = (context.request(), context.placement());
    context.part(|capture, hooks| wan::decode(&config, request, &latents, place, capture, hooks))
}
