//! Wan's stages: which function makes which result, of which files.

use safelight_core::families::wan::FAMILY;
use safelight_core::job::{GenerateRequest, JobFolder, Stage};
use safelight_core::media::RgbPixels;
use safelight_core::networks::T5Kind;
use safelight_core::tokens::{SpieceModel, clean_wan_parts};
use tch::{Kind, Tensor};

use super::prepare::{given_frames_mask, latent_shape, still_video, video_of_given};
use super::video::{
    FittedVideo, control_of_job, encode_control, encode_source, enlarged, source_of_job,
};
use super::{Expert, TEXT_LENGTH, WanConditioning, WanConfig, decode, denoise, tiling};
use crate::denoise::check_result;
use crate::families::family::EngineFamily;
use crate::fault::FaultSite;
use crate::hooks::DenoiseState;
use crate::pixels::pixels_from_rgb8;
use crate::stages::images::binary_mask;
use crate::stages::job_images::PixelRestore;
use crate::stages::video_latents::VideoLatentShape;
use crate::stages::{StageContext, job_images};
use crate::tensor_files::{self, TensorFile};
use crate::text::{
    EncodedText, EncoderFiles, PaddingMode, PromptEmbeds, TextEmbeds, embeds_of, read_t5,
};
use crate::vae::WanVaeEncoder;
use crate::vae::wan::normalize;
use crate::vision::{ClipImageProcessor, ClipVisionEncoder, pixel_values};
use crate::{EngineError, StageWork};

const LATENTS: &str = "image_latents";
const BASE: &str = "base_latents";
const KEPT: &str = "kept_latents";
const MASK: &str = "mask";
const CONTROL: &str = "control";

pub(crate) struct WanFamily;

impl EngineFamily for WanFamily {
    fn id(&self) -> &'static str {
        FAMILY.id
    }

    fn run(&self, context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError> {
        let config = &WanConfig::read(&context.request().files)?;
        match stage {
            Stage::EncodeText => context.texts(|work| encode_text(config, work)),
            Stage::EncodeImage if context.is_of_second_pass() => enlarge(config, context),
            Stage::EncodeImage => encode_given(config, context),
            Stage::EncodeVision => look(config, context),
            Stage::Denoise => denoise_as(Expert::Only, config, context),
            Stage::DenoiseHigh => denoise_as(Expert::HighNoise, config, context),
            Stage::DenoiseLow => denoise_as(Expert::LowNoise, config, context),
            Stage::Decode => decode_made(config, context),
            _ => Err(context.no_such_stage()),
        }
    }
}

fn encode_given(config: &WanConfig, context: &StageContext<'_>) -> Result<(), EngineError> {
    if context.request().source_video.is_some() {
        let video = source(context)?;
        let base = context.part(|work| encode_source(config, &video, work))?;
        let made = context.request().mask.is_some().then(|| video.made());
        let made = made.map(|made| (MASK, made));
        return write(context, [Some((BASE, base)), made].into_iter().flatten());
    }
    let all = context.part(|work| shown(config, &context.folder(), work))?;
    write(context, all)
}

fn enlarge(config: &WanConfig, context: &StageContext<'_>) -> Result<(), EngineError> {
    let (folder, latents) = (context.folder(), made(context)?);
    let all = context.part(|work| {
        let video = enlarged(config, &latents, work)?;
        let base = encode_source(config, &video, work)?;
        let mut all = shown(config, &folder, work)?;
        all.push((BASE, base));
        Ok(all)
    })?;
    write(context, all)
}

fn look(config: &WanConfig, context: &StageContext<'_>) -> Result<(), EngineError> {
    let (start, end) = job_images::of_job(&context.folder(), context.request())?;
    let images: Vec<_> = [Some(start), end]
        .into_iter()
        .flatten()
        .map(|image| image.fitted)
        .collect();
    context.tensor("image_embeds", |work| encode_vision(config, &images, work))
}

fn denoise_as(
    expert: Expert,
    config: &WanConfig,
    context: &StageContext<'_>,
) -> Result<(), EngineError> {
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
    let state = context.part(|work| denoise(config, expert, &conditions, resume, work))?;
    let result = context.own_result();
    if expert == Expert::HighNoise {
        state.save(&result)
    } else {
        tensor_files::write_one(&result, "latents", &state.latents)
    }
}

fn decode_made(config: &WanConfig, context: &StageContext<'_>) -> Result<(), EngineError> {
    let latents = made(context)?;
    let kept = kept(context)?.map(|kept| {
        if context.request().source_video.is_some() {
            return PixelRestore::of_video(&source(context)?.frames, &kept.mask);
        }
        PixelRestore::of_job(&context.folder(), context.request())
    });
    let kept = kept.transpose()?;
    context.part(|work| work.decoded(|work| decode(config, &latents, kept.as_ref(), work)))
}

/// The given frames, or what control blocks read, by the names of the stage's result.
fn shown(
    config: &WanConfig,
    folder: &JobFolder,
    work: &mut StageWork<'_>,
) -> Result<Vec<(&'static str, Tensor)>, EngineError> {
    let request = work.request;
    if config.transformer.has_control() {
        let video = control_of_job(folder, request)?;
        let how = (job_images::reference as _, false);
        let references = job_images::references_of_job(folder, request, how, work.capture)?;
        let control = encode_control(config, &video, &references, work)?;
        return Ok(vec![(CONTROL, control)]);
    }
    if !request.has_start() {
        return Ok(Vec::new());
    }
    let (start, end) = job_images::frames_of_job(folder, request, work.capture)?;
    let mask = job_images::mask_of_job(folder, request)?;
    let end = end.as_ref().map(|end| &end.rgb[..]);
    let mut all = vec![(LATENTS, encode_image(config, &start.rgb, end, work)?)];
    if let Some(mask) = mask {
        mask.record("mask", work.capture);
        let kept = encode_kept(config, &start.rgb, &mask.fitted, work)?;
        all.extend([(KEPT, kept.latents), (MASK, kept.mask)]);
    }
    Ok(all)
}

fn write(
    context: &StageContext<'_>,
    all: impl IntoIterator<Item = (&'static str, Tensor)>,
) -> Result<(), EngineError> {
    let all: Vec<_> = all.into_iter().collect();
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
    let video = source_of_job(&context.folder(), context.request())?;
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

/// Checkpoint of an earlier run of this stage, or else the other expert's result.
fn resume_point(context: &StageContext<'_>, expert: Expert) -> Option<DenoiseState> {
    let is_low = expert == Expert::LowNoise && !context.is_of_second_pass();
    let halfway = is_low.then(|| DenoiseState::load(&context.result(Stage::DenoiseHigh)).ok());
    let states = context.checkpoint().into_iter().chain(halfway.flatten());
    states.max_by_key(|state| state.step)
}

/// Stage 1: prompts, cleaned as Wan's authors clean them, through UMT5.
pub fn encode_text(
    config: &WanConfig,
    work: &mut StageWork<'_>,
) -> Result<PromptEmbeds, EngineError> {
    let files = EncoderFiles::first(&config.files);
    embeds_of(work, |texts, work| {
        let cleaned = texts.iter().map(|text| EncodedText {
            parts: clean_wan_parts(&text.parts),
            ..*text
        });
        let texts: Vec<EncodedText> = cleaned.collect();
        // The published form of the tokenizer, where there is one; only for the record.
        if work.capture.is_on()
            && let Some(spiece) = SpieceModel::find(&config.files.tokenizer)?
        {
            for text in &texts {
                let whole: String = text.parts.iter().map(|part| &*part.text).collect();
                let ids = Tensor::from_slice(&spiece.encode(&whole)).unsqueeze(0);
                let name = format!("tokenizer.{}.spiece_ids", text.role);
                work.capture.put(name, &ids);
            }
        }
        let padded = (TEXT_LENGTH, PaddingMode::Zero);
        let read = read_t5(&files, T5Kind::Umt5, &texts, padded, work)?;
        Ok(read.into_iter().map(TextEmbeds::without_mask).collect())
    })
}

/// Inpainting of a start image, in every frame, or of a source video.
#[derive(Debug)]
pub struct KeptVideo {
    /// Latents of that video, or of the image repeated as one: `(1, C, f, h, w)` in f32
    pub latents: Tensor,
    /// 1 for what is made anew: `(1, 1, H, W)`, or [`made`](super::FittedVideo::made)
    pub mask: Tensor,
}

/// Stage 2. `start` and `end`: the first and last frame, already as large as the video, RGB bytes row by row.
///
/// Gives `(1, C, 1, h, w)` in f32 in models where the start replaces the first latent frame, else `(1, 4 + C, f, h, w)`
/// in f32: which frames are given, and the latents of a video that is grey between them.
pub fn encode_image(
    config: &WanConfig,
    start: &[u8],
    end: Option<&[u8]>,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let request = work.request;
    let shape = latent_shape(config, request)?;
    check(config, shape, end.is_some())?;
    let pixels = |rgb| pixels_from_rgb8(rgb, request.width, request.height);
    let start = pixels(start)?;
    let end = end.map(pixels).transpose()?;
    work.capture.put("image.preprocessed", &start);
    if let Some(end) = &end {
        work.capture.put("last_image.preprocessed", end);
    }
    let video = if config.files.expand_timesteps {
        start.unsqueeze(2)
    } else {
        video_of_given(&start, end.as_ref(), i64::from(request.num_frames))
    };
    let latents = encode(config, &encoder(config, work)?, &video, 0, work)?;
    if config.files.expand_timesteps {
        return Ok(latents);
    }
    let per_latent = config.vae.temporal_factor();
    let mask = given_frames_mask(shape, per_latent, end.is_some()).to_device(latents.device());
    Ok(Tensor::cat(&[mask, latents], 1))
}

/// Stage 2, too, where there is a mask of the start image: as large as the video, RGB bytes row by row.
pub fn encode_kept(
    config: &WanConfig,
    start: &[u8],
    mask: &RgbPixels,
    work: &mut StageWork<'_>,
) -> Result<KeptVideo, EngineError> {
    let request = work.request;
    let pixels = pixels_from_rgb8(start, request.width, request.height)?;
    let video = still_video(&pixels, i64::from(request.num_frames));
    Ok(KeptVideo {
        latents: encode(config, &encoder(config, work)?, &video, 1, work)?,
        mask: binary_mask(mask, request.width, request.height)?,
    })
}

fn check(config: &WanConfig, shape: VideoLatentShape, has_end: bool) -> Result<(), EngineError> {
    let takes_start = config.files.expand_timesteps || config.transformer.condition_channels() > 0;
    let reason = if !takes_start {
        "this model cannot start from an image"
    } else if has_end && config.files.expand_timesteps {
        "this model cannot end with an image"
    } else if has_end && shape.frames < 2 {
        "a video with an end image needs more than one frame"
    } else {
        return Ok(());
    };
    Err(EngineError::request(reason))
}

/// The autoencoder's encoder, for one video after the other.
pub(super) fn encoder(
    config: &WanConfig,
    work: &StageWork<'_>,
) -> Result<WanVaeEncoder, EngineError> {
    let new = |w: &_| WanVaeEncoder::new(&config.vae, w);
    let (home, unexpected) = (&config.files.vae, WanVaeEncoder::unexpected_keys);
    work.load("autoencoder", home, new, unexpected)
}

/// `video`: `(1, 3, F, H, W)`, the `number`-th of the job -> its latents as the transformer has them, `(1, C, f, h, w)` in
/// f32
pub(super) fn encode(
    config: &WanConfig,
    encoder: &WanVaeEncoder,
    video: &Tensor,
    number: usize,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    work.capture
        .put(format!("vae.encode.{number}.input"), video);
    let cancelled = work.cancelled(FaultSite::VaeEncode);
    let posterior = encoder.encode(video, tiling(config, work.request), &cancelled);
    let posterior = posterior.ok_or(EngineError::Cancelled)?;
    let posterior = posterior.recorded(number, work.capture);
    Ok(normalize(&config.vae, &posterior.mean))
}

/// Stage 3. `images`: the start image and, where there is one, the end image, as they were opened -> what the
/// transformer reads of them, `(N, 257, C)` in f32.
///
/// Computed in f32 whatever the transformer computes in, as the published model is meant to be: it is small.
pub fn encode_vision(
    config: &WanConfig,
    images: &[RgbPixels],
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let files = &config.files;
    let Some((network, folder)) = config
        .image_encoder
        .as_ref()
        .zip(files.image_encoder.as_deref())
    else {
        return Err(EngineError::internal("this model has no image encoder"));
    };
    let expected = match config.transformer.pos_embed_seq_len {
        Some(places) => places / network.num_tokens(),
        None => 1,
    };
    if images.len() as i64 != expected {
        return Err(EngineError::request(format!(
            "this model reads {expected} images, not {}",
            images.len()
        )));
    }
    let processor = ClipImageProcessor::read(files.image_processor.as_deref())?;
    let read_at = files.image_processor.as_deref().unwrap_or(folder);
    processor.check(network.image_size, read_at)?;
    let pixels: Vec<Tensor> = images
        .iter()
        .map(|image| pixel_values(&image.rgb, image.width, image.height, &processor))
        .collect::<Result<_, _>>()?;
    let pixels = Tensor::cat(&pixels, 0);
    work.place.kind = Kind::Float;
    let new = |w: &_| ClipVisionEncoder::new(network, w);
    let unexpected = ClipVisionEncoder::unexpected_keys;
    let encoder = work.load("image encoder", folder, new, unexpected)?;
    let embeds = tch::no_grad(|| encoder.encode_images(&pixels, work.hooks));
    let embeds = embeds.ok_or(EngineError::Cancelled)?;
    let capture = &mut *work.capture;
    capture.put("image_encoder.image.pixel_values", &pixels);
    capture.put("image_embeds", &embeds);
    if capture.is_on() {
        let whole = encoder.finish(&embeds);
        capture.put(
            "image_encoder.image.last_hidden_state",
            &whole.last_hidden_state,
        );
        capture.put("image_encoder.image.pooler_output", &whole.pooler_output);
    }
    Ok(embeds)
}

/// Results of earlier stages are checked before anything is loaded.
pub(super) fn check_inputs(
    config: &WanConfig,
    request: &GenerateRequest,
    conditions: &WanConditioning,
    shape: VideoLatentShape,
) -> Result<(), EngineError> {
    let (embeds, network) = (&conditions.embeds, &config.transformer);
    let whole = shape.size();
    let [_, channels, frames, height, width] = whole;
    for text in embeds.all() {
        let size = [1, -1, network.text_dim];
        check_result("the texts' embeddings", Some(&text.prompt), Some(&size))?;
    }
    if request.is_guided() && embeds.negative.is_none() {
        let reason = "the negative prompt has not been read";
        return Err(EngineError::internal(reason));
    }
    let (image, base) = (conditions.image_latents.as_ref(), conditions.base.as_ref());
    let kept = conditions.kept.as_ref().map(|kept| &kept.latents);
    let control = conditions.control.as_ref().map(|(latents, _)| latents);
    let image_size = match network.condition_channels() {
        0 if config.files.expand_timesteps => image.map(|_| [1, channels, 1, height, width]),
        0 => None,
        more => Some([1, more, frames, height, width]),
    };
    let control_size = [1, network.vace_in_channels, frames, height, width];
    let control_size = network.has_control().then_some(control_size);
    for (what, found, size) in [
        ("the image's latents", image, image_size),
        ("the video's latents", base, base.map(|_| whole)),
        ("the latents that the mask keeps", kept, kept.map(|_| whole)),
        ("the control video's latents", control, control_size),
    ] {
        check_result(what, found, size.as_ref().map(|size| &size[..]))?;
    }
    let images = conditions.image_embeds.as_ref();
    // Places of all images together.
    let images = images.map(|images| images.flatten(0, 1));
    let image_size = network
        .image_dim
        .map(|width| [network.pos_embed_seq_len.unwrap_or(-1), width]);
    let image_size = image_size.as_ref().map(|size| &size[..]);
    check_result("the image's embeddings", images.as_ref(), image_size)
}
