//! Wan 2.1 and 2.2: text to video, image to video, first and last frame to video, text to image.
//!
//! The stages of a job, each a function of its own, because each may run in a process of its own:
//!
//! 1. [`encode_text`]: prompt and negative prompt to [`PromptEmbeds`],
//! 2. [`encode_image`]: given first and last frames to latents,
//! 3. [`encode_vision`]: the same to embeddings, for models of Wan 2.1 that read them,
//! 4. [`denoise()`]: noise to latents, through the transformer, or through one expert and then the other,
//! 5. [`decode`]: latents to frames.
//!
//! Each stage loads what it needs and has dropped it when it returns. `Ok(None)` means cancelled.
//! What comes between stages (files, unloading, messages) is the caller's.
//! The reference is `WanPipeline` and `WanImageToVideoPipeline` of diffusers 0.42.1.
//!
//! Shapes: `C` latent channels; `F`, `H`, `W` frames and pixels; `f`, `h`, `w` the same in latents; `L` tokens.

mod condition;
mod config;
mod denoise;
mod guidance;
mod prepare;
mod solver;
mod stages;
mod state;
mod transformer;

use safelight_core::job::GenerateRequest;
use safelight_core::tokens::{SpieceModel, clean_wan_prompt};
use tch::{Device, Kind, Tensor};

use crate::capture::Capture;
use crate::error::EngineError;
use crate::fault::{self, Site};
use crate::hooks::Hooks;
use crate::memory::Lent;
use crate::pixels::rgb8_from_pixels;
use crate::place::{Placement, warn_unexpected};
use crate::text::{T5Encoder, TextTokenizer, Tokens};
use crate::vae::wan::denormalize;
use crate::vae::{Tiling, WanVaeDecoder};

pub use condition::{encode_image, encode_vision};
pub use config::WanConfig;
pub use denoise::{Conditions, Expert, denoise, open_transformer};
pub use prepare::{
    LatentShape, TokenTimesteps, clip_of_given, first_frame_mask, given_frames_mask,
    with_first_frame,
};
pub use solver::new_solver;
pub(crate) use stages::Wan;
pub use state::PromptEmbeds;
pub use transformer::{Context, WanTransformer};

/// Ids of one text, padding included: Wan was trained so.
pub const TEXT_LENGTH: usize = 512;

/// Stage 1. The negative prompt is read only where the request is guided.
pub fn encode_text(
    config: &WanConfig,
    request: &GenerateRequest,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<PromptEmbeds>, EngineError> {
    let tokenizer = TextTokenizer::open(
        &config.files.tokenizer,
        config.files.tokenizer_class.as_deref(),
        TEXT_LENGTH,
    )?;
    tokenizer.check_ids(config.text_encoder.vocab_size)?;
    let home = &config.files.text_encoder;
    let encoder = place.network("text encoder", home, &[], || {
        let weights = place.open(home)?;
        let encoder = T5Encoder::new(&config.text_encoder, &weights)?;
        warn_unexpected(&weights.finish(), "text encoder", hooks);
        Ok(encoder)
    })?;

    let reader = Reader {
        tokenizer,
        spiece: if capture.is_on() {
            SpieceModel::find(&config.files.tokenizer)?
        } else {
            None
        },
        encoder,
    };
    let texts = [
        (true, "prompt", &request.prompt),
        (request.is_guided(), "negative", &request.negative_prompt),
    ];
    let mut embeds = Vec::new();
    for (_, role, text) in texts.into_iter().filter(|(is_read, ..)| *is_read) {
        let Some(read) = tch::no_grad(|| reader.read(role, text, capture, hooks))? else {
            return Ok(None);
        };
        embeds.push(read);
    }
    let mut embeds = embeds.into_iter();
    Ok(embeds.next().map(|prompt| PromptEmbeds {
        prompt,
        negative: embeds.next(),
    }))
}

struct Reader {
    tokenizer: TextTokenizer,
    /// The published form of the tokenizer, where there is one; only for the record.
    spiece: Option<SpieceModel>,
    encoder: Lent<T5Encoder>,
}

impl Reader {
    /// `role`: `prompt` or `negative` -> `(1, 512, C)`
    fn read(
        &self,
        role: &str,
        text: &str,
        capture: &mut Capture,
        hooks: &dyn Hooks,
    ) -> Result<Option<Tensor>, EngineError> {
        let tokens = self.tokenizer.encode(&clean_wan_prompt(text))?;
        if let Some(notice) = tokens.cut_notice(role) {
            hooks.warn(notice);
        }
        let Some(embeds) = embed(&self.encoder, &tokens, hooks) else {
            return Ok(None);
        };
        if capture.is_on() {
            if let Some(spiece) = &self.spiece {
                let ids = Tensor::from_slice(&spiece.encode(&clean_wan_prompt(text)));
                capture.put(format!("tokenizer.{role}.spiece_ids"), &ids.unsqueeze(0));
            }
            capture.put(format!("tokenizer.{role}.input_ids"), &tokens.ids);
            capture.put(format!("tokenizer.{role}.attention_mask"), &tokens.mask);
            let name = match role {
                "prompt" => "prompt_embeds".to_owned(),
                role => format!("{role}_prompt_embeds"),
            };
            capture.put(name, &embeds);
            // The reference encodes the padding too. Nobody reads that.
            let whole = self.encoder.forward(&tokens.ids, Some(&tokens.mask), hooks);
            let Some(whole) = whole else {
                return Ok(None);
            };
            capture.put(format!("text_encoder.{role}.last_hidden_state"), &whole);
        }
        Ok(Some(embeds))
    }
}

/// Only what is not padding is encoded, which gives the same numbers for it, and much sooner.
fn embed(encoder: &T5Encoder, tokens: &Tokens, hooks: &dyn Hooks) -> Option<Tensor> {
    let used = |tensor: &Tensor| tensor.narrow(1, 0, tokens.num_tokens);
    let embeds = encoder.forward(&used(&tokens.ids), Some(&used(&tokens.mask)), hooks)?;
    let padding = TEXT_LENGTH as i64 - tokens.num_tokens;
    Some(embeds.constant_pad_nd([0, 0, 0, padding]))
}

/// Stage 5. `latents`: what [`denoise()`] gave. Frames go to [`Hooks::frames`] while they are made.
pub fn decode(
    config: &WanConfig,
    request: &GenerateRequest,
    latents: &Tensor,
    place: Placement,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<Option<()>, EngineError> {
    if latents.dim() != 5 || latents.size()[..2] != [1, config.vae.z_dim] {
        return Err(EngineError::Internal {
            reason: format!("these are no latents of this model: {:?}", latents.size()),
        });
    }
    let home = &config.files.vae;
    let decoder = place.network("decoder", home, &[], || {
        let weights = place.open(home)?;
        let decoder = WanVaeDecoder::new(&config.vae, &weights)?;
        let unexpected = WanVaeDecoder::unexpected_keys(&weights);
        warn_unexpected(&unexpected, "autoencoder", hooks);
        Ok(decoder)
    })?;
    let latents = latents.to_device(place.device).to_kind(place.kind);
    let latents = denormalize(&config.vae, &latents);
    capture.put("vae.decode.0.input", &latents);
    let mut recorded = Vec::new();
    let recording = capture.is_on();
    let cancelled = || {
        fault::at(Site::VaeDecode);
        hooks.cancelled()
    };
    let mut take = |pixels: Tensor| {
        hooks.frames(&rgb8_from_pixels(&pixels));
        if recording {
            recorded.push(pixels.to_device(Device::Cpu).to_kind(Kind::Float));
        }
    };
    let done = match tiling(config, request) {
        Some(tiling) => decoder.decode_tiled(&latents, tiling, &cancelled, &mut take),
        None => decoder.decode(&latents, &cancelled, &mut take),
    };
    if done.is_none() {
        return Ok(None);
    }
    if recording {
        let pixels = Tensor::cat(&recorded, 2);
        capture.put("vae.decode.0.output", &pixels);
        capture.put("pixels", &pixels);
        capture.put("output_u8", &rgb8_from_pixels(&pixels).unsqueeze(0));
    }
    Ok(Some(()))
}

/// The tiles that the request wants the autoencoder to work in. They are counted in its own patches.
fn tiling(config: &WanConfig, request: &GenerateRequest) -> Option<Tiling> {
    let size = i64::from(request.vae_tile?);
    Some(Tiling::of_size(size / config.vae.patch()))
}

#[cfg(test)]
mod tests;
