//! Encoding of given images before denoising begins.
//!
//! The caller opens, crops and resizes the images.

use safelight_core::job::GenerateRequest;
use safelight_core::media::RgbPixels;
use safelight_core::networks::WanTransformerConfig;
use tch::{Kind, Tensor};

use super::config::WanConfig;
use super::denoise::WanConditioning;
use super::prepare::{WanLatentShape, given_frames_mask, still_video, video_of_given};
use super::tiling;
use crate::denoise::fits;
use crate::error::EngineError;
use crate::fault::FaultSite;
use crate::pixels::pixels_from_rgb8;
use crate::stages::images::binary_mask;
use crate::text::TextEmbeds;
use crate::vae::WanVaeEncoder;
use crate::vae::wan::normalize;
use crate::vision::{ClipImageProcessor, ClipVisionEncoder, pixel_values};
use crate::work::StageWork;

/// Inpainting of a start image, in every frame, or of a source video.
#[derive(Debug)]
pub struct KeptVideo {
    /// Of that video, or of the image as one in which nothing moves: `(1, C, f, h, w)` in f32
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
    let shape = WanLatentShape::new(config, request.width, request.height, request.num_frames)?;
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

fn check(config: &WanConfig, shape: WanLatentShape, has_end: bool) -> Result<(), EngineError> {
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
    shape: WanLatentShape,
) -> Result<(), EngineError> {
    let (embeds, network) = (&conditions.embeds, &config.transformer);
    let mut texts = std::iter::once(&embeds.prompt).chain(&embeds.negative);
    let is_text = |embeds: &TextEmbeds| fits(&embeds.prompt, &[1, -1, network.text_dim]);
    let is_size = |xs: Option<&Tensor>, size: [i64; 5]| xs.is_none_or(|xs| fits(xs, &size));
    let whole = shape.size();
    let [_, channels, frames, height, width] = whole;
    let image_size = match network.condition_channels() {
        0 if config.files.expand_timesteps => Some([1, channels, 1, height, width]),
        0 => None,
        more => Some([1, more, frames, height, width]),
    };
    let control_size = [1, network.vace_in_channels, frames, height, width];
    let (image, kept) = (conditions.image_latents.as_ref(), conditions.kept.as_ref());
    let control = conditions.control.as_ref().map(|(latents, _)| latents);
    let problem = if !texts.all(is_text) {
        "the embeddings are not of this model"
    } else if request.is_guided() && embeds.negative.is_none() {
        "the negative prompt has not been read"
    } else if image.is_some() && image_size.is_none() {
        "this model cannot start from an image"
    } else if image.is_none() && network.condition_channels() > 0 {
        "this model needs an image to start from"
    } else if !is_size(image, image_size.unwrap_or_default()) {
        "the image's latents are not of this job"
    } else if !is_size(conditions.base.as_ref(), whole) {
        "the video's latents are not of this job"
    } else if !is_size(kept.map(|kept| &kept.latents), whole) {
        "what the mask keeps is not of this job"
    } else if network.has_control() != control.is_some() {
        "what the control blocks read is missing, or there are none"
    } else if !is_size(control, control_size) {
        "the control video's latents are not of this job"
    } else if !fit_image_embeds(network, conditions.image_embeds.as_ref()) {
        "the image's embeddings are not of this model"
    } else {
        return Ok(());
    };
    Err(EngineError::internal(problem))
}

fn fit_image_embeds(network: &WanTransformerConfig, embeds: Option<&Tensor>) -> bool {
    match (network.image_dim, embeds.map(Tensor::size).as_deref()) {
        (None, None) => true,
        (Some(width), Some(&[images, tokens, dim])) => {
            dim == width
                && network
                    .pos_embed_seq_len
                    .is_none_or(|places| images * tokens == places)
        }
        _ => false,
    }
}
