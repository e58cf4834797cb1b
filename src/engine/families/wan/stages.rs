//! Wan's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::{JobFolder, Stage};
use tch::Tensor;

use crate::error::EngineError;
use crate::families::EngineFamily;
use crate::families::wan::{self, Expert, FittedVideo, KeptVideo, WanConditioning, WanConfig};
use crate::hooks::DenoiseState;
use crate::stages::job_images::PixelRestore;
use crate::stages::{StageContext, job_images};
use crate::tensor_files::{self, TensorFile};
use crate::text::PromptEmbeds;
use crate::work::StageWork;

const LATENTS: &str = "image_latents";
const BASE: &str = "base_latents";
const KEPT: &str = "kept_latents";
const MASK: &str = "mask";
const CONTROL: &str = "control";

pub(crate) struct WanFamily;

impl EngineFamily for WanFamily {
    fn id(&self) -> &'static str {
        families::wan::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        let config = config(context)?;
        context.texts(|work| wan::encode_text(&config, work))
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        let config = config(context)?;
        if context.request().source_video.is_some() {
            return encode_source(context, &config);
        }
        let all = context.part(|work| shown(&config, &context.folder(), work))?;
        write(context, &all)
    }

    fn enlarge(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        let config = config(context)?;
        let (folder, latents) = (context.folder(), made(context)?);
        let all = context.part(|work| {
            let video = wan::enlarged(&config, &latents, work)?;
            let base = wan::encode_source(&config, &video, work)?;
            let mut all = shown(&config, &folder, work)?;
            all.push((BASE, base));
            Ok(all)
        })?;
        write(context, &all)
    }

    fn encode_vision(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        let config = config(context)?;
        let (start, end) = job_images::of_job(&context.folder(), context.request())?;
        let images: Vec<_> = [Some(start), end]
            .into_iter()
            .flatten()
            .map(|image| image.fitted)
            .collect();
        context.tensor("image_embeds", |work| {
            wan::encode_vision(&config, &images, work)
        })
    }

    fn denoise(&self, context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError> {
        let expert = match stage {
            Stage::DenoiseHigh => Expert::HighNoise,
            Stage::DenoiseLow => Expert::LowNoise,
            _ => Expert::Only,
        };
        let config = config(context)?;
        let mut stored = context.earlier(Stage::EncodeImage, TensorFile::read)?;
        let mut given = |name| stored.as_mut().and_then(|stored| stored.find(name));
        let controls = &context.request().controls;
        let how = controls.first().map(|control| control.settings.clone());
        let conditions = WanConditioning {
            embeds: PromptEmbeds::load(&context.result(Stage::EncodeText))?,
            image_latents: given(LATENTS),
            image_embeds: context.earlier(Stage::EncodeVision, |path| {
                tensor_files::read_one(path, "image_embeds")
            })?,
            base: given(BASE),
            kept: kept(context)?,
            control: given(CONTROL).zip(Some(how.unwrap_or_default())),
        };
        let resume = resume_point(context, expert);
        let state =
            context.part(|work| wan::denoise(&config, expert, &conditions, resume, work))?;
        let result = context.own_result();
        if expert == Expert::HighNoise {
            state.save(&result)
        } else {
            tensor_files::write_one(&result, "latents", &state.latents)
        }
    }

    fn decode(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        let config = config(context)?;
        let latents = made(context)?;
        let kept = kept(context)?.map(|kept| {
            if context.request().source_video.is_some() {
                return PixelRestore::of_video(&source(context)?.frames, &kept.mask);
            }
            PixelRestore::of_job(&context.folder(), context.request())
        });
        let kept = kept.transpose()?;
        context
            .part(|work| work.decoded(|work| wan::decode(&config, &latents, kept.as_ref(), work)))
    }
}

/// The given frames, or what control blocks read, by the names of the stage's result.
fn shown(
    config: &WanConfig,
    folder: &JobFolder,
    work: &mut StageWork<'_>,
) -> Result<Vec<(&'static str, Tensor)>, EngineError> {
    let request = work.request;
    if config.transformer.has_control() {
        let video = wan::control_of_job(folder, request)?;
        let name = job_images::reference;
        let references = job_images::references_of_job(folder, request, name, work.capture)?;
        let control = wan::encode_control(config, &video, &references, work)?;
        return Ok(vec![(CONTROL, control)]);
    }
    if !request.has_start() {
        return Ok(Vec::new());
    }
    let (start, end) = job_images::frames_of_job(folder, request, work.capture)?;
    let mask = job_images::mask_of_job(folder, request)?;
    let end = end.as_ref().map(|end| &end.rgb[..]);
    let mut all = vec![(LATENTS, wan::encode_image(config, &start.rgb, end, work)?)];
    if let Some(mask) = mask {
        mask.record("mask", work.capture);
        let kept = wan::encode_kept(config, &start.rgb, &mask.fitted, work)?;
        all.extend([(KEPT, kept.latents), (MASK, kept.mask)]);
    }
    Ok(all)
}

/// The video that the new one is made of, and what a mask says of it.
fn encode_source(context: &StageContext<'_>, config: &WanConfig) -> Result<(), EngineError> {
    let video = source(context)?;
    let base = context.part(|work| wan::encode_source(config, &video, work))?;
    let made = context.request().mask.is_some().then(|| video.made());
    let mut all = vec![(BASE, base)];
    all.extend(made.map(|made| (MASK, made)));
    write(context, &all)
}

fn write(context: &StageContext<'_>, all: &[(&'static str, Tensor)]) -> Result<(), EngineError> {
    let named = all.iter().map(|(name, tensor)| (name, tensor));
    tensor_files::write(&context.own_result(), named)
}

/// The latents that the last pass before a stage made.
fn made(context: &StageContext<'_>) -> Result<Tensor, EngineError> {
    let last = match context.request().files.transformer_2 {
        Some(_) => Stage::DenoiseLow,
        None => Stage::Denoise,
    };
    tensor_files::read_one(&context.result(last), "latents")
}

fn source(context: &StageContext<'_>) -> Result<FittedVideo, EngineError> {
    let video = wan::source_of_job(&context.folder(), context.request())?;
    video.ok_or_else(|| EngineError::internal("no video was given"))
}

/// Inpainting, if the job has a mask.
fn kept(context: &StageContext<'_>) -> Result<Option<KeptVideo>, EngineError> {
    let stored = context.earlier(Stage::EncodeImage, TensorFile::read)?;
    Ok(stored.and_then(|mut stored| {
        Some(KeptVideo {
            latents: stored.find(KEPT).or_else(|| stored.find(BASE))?,
            mask: stored.find(MASK)?,
        })
    }))
}

fn config(context: &StageContext<'_>) -> Result<WanConfig, EngineError> {
    WanConfig::read(&context.request().files)
}

/// Checkpoint of an earlier run of this stage, or else the other expert's result.
fn resume_point(context: &StageContext<'_>, expert: Expert) -> Option<DenoiseState> {
    let is_low = expert == Expert::LowNoise && !context.is_of_second_pass();
    let halfway = is_low.then(|| DenoiseState::load(&context.result(Stage::DenoiseHigh)).ok());
    let states = context.checkpoint().into_iter().chain(halfway.flatten());
    states.max_by_key(|state| state.step)
}
