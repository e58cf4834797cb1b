//! Z-Image Turbo and Base: text to image, image to image, inpainting.
//!
//! The reference is `ZImagePipeline`, `ZImageImg2ImgPipeline` and `ZImageInpaintPipeline` of diffusers 0.42.1, with two
//! differences: a guidance of 5 here is 4 there, as in other models, and unmasked pixels stay exactly.
//!
//! In the transformer, image and text each go through a small refiner, then both in one sequence through common blocks
//! (S3-DiT), in the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_z_image.py`). Fields have the
//! authors' names, which ComfyUI's files have too.
//!
//! Modulation has no shifts: it scales the input and gates the output of attention and feed-forward layers, besides norms
//! with separate weights. Norm and scale, and norm and gate, are one factor per channel, computed once per timestep. A
//! text is refined once, as its refiner does not depend on the timestep.
//!
//! Shapes: `B` images of one text; `L` tokens, `I` of an image and then `T` of its text, both padded to multiples of 32
//! with learned tokens; `C` width, `H` heads of `D`.

mod block;
mod control;

use block::ZImageBlock;
use control::ControlHiddenStates;
use safelight_core::families::ModelFamily;
use safelight_core::families::z_image::{LANGUAGE, PROMPT};
use safelight_core::job::JobFolder;
use safelight_core::networks::z_image_transformer::{SINUSOIDS, TIME_WIDTH, TOKENS_MULTIPLE};
use safelight_core::networks::{SchedulerConfig, ZImageTransformerConfig};
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use crate::denoise::fits;
use crate::fault::FaultSite;
use crate::nn::{
    FusedNorm, Linear, Mlp, NUM_TIMESTEPS, PatchOrder, Rope, TokenRmsNorm, TokenRows,
    angles_of_ids, from_patches, image_ids, layer_norm, patches, timestep_embedding,
};
use crate::parallel::TokenShards;
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    CapturedInputs, ContextInput, ControlEncoding, ForwardPass, ImageModel, LatentForm,
    WeightsDialect,
};
use crate::step_cache::BlockSkipper;
use crate::text::{PromptEmbeds, TextEmbeds, language_embeds};
use crate::{EngineError, StageCapture, StageWork, Weights, WeightsError};

pub use control::{ZImageControl, ZImageControlModulation};

pub(crate) static FAMILY: ImageFamily<ZImageTransformer> = ImageFamily::NEW;

/// Latents along the edge of a token.
const PATCH: i64 = 2;
const TOKEN: [i64; 3] = [1, PATCH, PATCH];
/// Epsilon of the last norm, which the config lacks.
const LAST_EPS: f64 = 1e-6;
/// Published shift of Turbo, for files without a scheduler.
const SHIFT: f64 = 3.0;

pub struct ZImageTransformer {
    x_embedder: Linear,
    /// `(1, 1, C)`
    x_pad_token: Tensor,
    cap_norm: TokenRmsNorm,
    cap_embedder: Linear,
    cap_pad_token: Tensor,
    t_embedder: Mlp,
    noise_refiner: Vec<ZImageBlock>,
    context_refiner: Vec<ZImageBlock>,
    layers: Vec<ZImageBlock>,
    /// `adaLN_modulation.1`: a scale alone.
    last_scale: Linear,
    last: Linear,
    config: ZImageTransformerConfig,
    kind: Kind,
    device: Device,
}

/// Text embedded once for all steps, for one image size.
pub struct ZImageContext {
    /// `(1, T, C)`
    cap: Tensor,
    /// Of all tokens.
    rope: Rope,
    /// Rows and columns of image tokens.
    grid: [i64; 2],
}

/// Modulation vectors for one timestep.
pub struct ZImageModulation {
    /// Per block of the noise refiner and then of the common layers, `(4, C)` in f32: see [`ZImageBlock::forward`].
    blocks: Vec<Tensor>,
    /// Zeros, and the scale of the last layer: `(1, 2, C)`
    last: Tensor,
}

/// Tokens missing to the next multiple.
fn padding(tokens: i64) -> i64 {
    (TOKENS_MULTIPLE - tokens % TOKENS_MULTIPLE) % TOKENS_MULTIPLE
}

impl ImageModel for ZImageTransformer {
    type Config = ZImageTransformerConfig;
    type Control = ZImageControl;
    type Context = ZImageContext;
    type Modulation = ZImageModulation;

    const FAMILY: ModelFamily = ModelFamily::Z_IMAGE;
    const CONTROLS: ControlEncoding = ControlEncoding::Means;
    const LATENTS: LatentForm = LatentForm::Grid;
    const PREDICTS_TO_IMAGE: bool = true;

    fn new(config: &ZImageTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &WeightsDialect::of::<Self>(w).weights;
        let (dim, time_dim) = (config.dim, config.modulation_dim());
        let time = &w.with_kind(Kind::Float) / "t_embedder" / "mlp";
        // Run once for each text, or once for all steps.
        let seldom = &w.seldom();
        let list = |name: &str, count: i64, is_modulated: bool| {
            let w = if is_modulated { w } else { seldom };
            let blocks =
                (0..count).map(|i| ZImageBlock::new(config, is_modulated, &(w / name / i)));
            blocks.collect::<Result<Vec<_>, _>>()
        };
        // Left over from Lumina 2.
        w.ignore("norm_final.weight");
        Ok(Self {
            x_embedder: Linear::new(config.token_numbers(), dim, &(w / "x_embedder"))?,
            x_pad_token: pad_token("x_pad_token", dim, w)?,
            cap_norm: TokenRmsNorm::new(
                config.cap_feat_dim,
                config.norm_eps,
                &(w / "cap_embedder" / 0),
            )?,
            cap_embedder: Linear::new(config.cap_feat_dim, dim, &(seldom / "cap_embedder" / 1))?,
            cap_pad_token: pad_token("cap_pad_token", dim, w)?,
            t_embedder: Mlp::new([SINUSOIDS, TIME_WIDTH, time_dim], ["0", "2"], &time)?,
            context_refiner: list("context_refiner", config.n_refiner_layers, false)?,
            noise_refiner: list("noise_refiner", config.n_refiner_layers, true)?,
            layers: list("layers", config.n_layers, true)?,
            last_scale: Linear::new(
                time_dim,
                dim,
                &(seldom / "final_layer" / "adaLN_modulation" / 1),
            )?,
            last: Linear::new(dim, config.token_numbers(), &(w / "final_layer" / "linear"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<ZImageContext, EngineError> {
        let (text, conditioning, hooks) = (input.text, input.conditioning, input.hooks);
        conditioning.controls.read_prompt(|_, _| Ok(()))?;
        let prompt = text.prompt.to_device(self.device).to_kind(self.kind);
        let cap = self.cap_norm.forward(&prompt.contiguous());
        let mut cap = padded(&self.cap_embedder.forward(&cap), &self.cap_pad_token);
        let (tokens, grid) = (cap.size()[1], conditioning.shape.grid());
        let rope = self.rope(tokens, grid);
        let own = rope.narrow(image_tokens(grid), tokens);
        for block in &self.context_refiner {
            let next = hooks.check_cancelled(FaultSite::Block);
            next.ok_or(EngineError::Cancelled)?;
            block.forward(&mut cap, block.norms(), &own);
        }
        Ok(ZImageContext { cap, rope, grid })
    }

    fn modulations(&self, timesteps: &[f32], _: &ZImageContext) -> Vec<ZImageModulation> {
        let time = &self.time(timesteps);
        let blocks = self.noise_refiner.iter().chain(&self.layers);
        let blocks: Vec<Tensor> = blocks.map(|block| block.factors(time)).collect();
        let scales = self.last_scale.forward(&time.silu());
        let last = Tensor::stack(&[scales.zeros_like(), scales], 1);
        (0..time.size()[0])
            .map(|i| ZImageModulation {
                blocks: blocks.iter().map(|all| all.get(i)).collect(),
                last: last.narrow(0, i, 1),
            })
            .collect()
    }

    /// `latents`: `(B, in_channels, h, w)` -> velocity from noise to image, as large
    fn predict(&self, latents: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let (context, modulation, hooks) = (pass.context, pass.modulation, pass.hooks);
        let latents = latents.to_device(self.device).to_kind(self.kind);
        let tokens = context.grid[0] * context.grid[1];
        let embedded = self.x_embedder.forward(&Self::patches(&latents));
        let xs = padded(&embedded, &self.x_pad_token);
        drop(embedded);
        let padding = xs.size()[1] - tokens;
        let shards = TokenShards::new([tokens, padding, context.cap.size()[1]]);
        let images = shards.of([tokens, padding]);
        let rope = context.rope.spread(&shards);
        let own = context.rope.narrow(0, xs.size()[1]).spread(&images);
        let mut xs = images.own(&xs, 1);
        let controls = pass
            .controls
            .map_or_else(Vec::new, |(controls, modulations)| {
                let acting = controls.acting().into_iter();
                acting
                    .map(|(index, it)| (it, &modulations[index]))
                    .collect()
            });
        let is_refined = controls.iter().any(|(it, _)| it.network.is_along());
        let unrefined = is_refined.then(|| xs.copy());
        let (first, common) = modulation.blocks.split_at(self.noise_refiner.len());
        for (block, factors) in self.noise_refiner.iter().zip(first) {
            hooks.check_cancelled(FaultSite::Block)?;
            block.forward(&mut xs, factors, &own);
        }
        let cap = shards.of([context.cap.size()[1]]).own(&context.cap, 1);
        let texts = cap.expand([latents.size()[0], -1, -1], false);
        xs = Tensor::cat(&[&xs, &texts], 1);
        let mut skip = BlockSkipper::of(pass.skip);
        let mut known = skip.start(&xs, &xs);
        let input = ControlHiddenStates {
            transformer: self,
            cap: &cap,
            unrefined: unrefined.as_ref(),
            factors: first,
            xs: &xs.shallow_clone(),
        };
        let runs = controls.iter().filter(|_| known.is_none());
        let runs = runs.map(|(it, modulation)| it.start(modulation, &input, [&rope, &own], hooks));
        let mut runs = runs.collect::<Option<Vec<_>>>()?;
        drop(unrefined);
        for (i, (block, factors)) in self.layers.iter().zip(common).enumerate() {
            if known.is_some() {
                break;
            }
            hooks.check_cancelled(FaultSite::Block)?;
            if !skip.skips_block(i) {
                block.forward(&mut xs, factors, &rope);
            }
            if i == 0 {
                known = skip.first(&xs);
            }
            for run in runs.iter_mut().filter(|_| known.is_none()) {
                run.add_after(i, &mut xs, hooks)?;
            }
        }
        let xs = known.unwrap_or_else(|| {
            skip.end(&xs);
            xs
        });
        let (_, len) = shards.ranges()[0];
        let xs = xs.narrow(1, 0, len).contiguous();
        let rows = TokenRows {
            values: &modulation.last,
            ranges: &[(0, len)],
        };
        let xs = layer_norm(&xs, &FusedNorm::modulated(rows, 0), LAST_EPS);
        let ys = self.last.forward(&xs).to_kind(Kind::Float);
        let ys = shards.of([tokens]).gathered(&ys);
        let [height, width] = context.grid.map(|edge| edge * PATCH);
        let order = PatchOrder::ChannelsLast;
        Some(from_patches(&ys, [1, height, width], TOKEN, order).squeeze_dim(2))
    }

    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        language_embeds((LANGUAGE, &PROMPT), work)
    }

    fn schedule(_: &Self::Config) -> FlowSchedule {
        FlowSchedule {
            is_in_single: true,
            ..SchedulerConfig::of_shift(SHIFT).into()
        }
    }

    fn config(&self) -> &ZImageTransformerConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        fits(&text.prompt, &[1, -1, self.config.cap_feat_dim])
    }

    fn record(&self, inputs: &CapturedInputs<'_, Self>, capture: &mut StageCapture) {
        inputs.record("cap_feats", capture);
    }
}

impl ZImageTransformer {
    /// RoPE of an image's tokens and of its text's. Text positions count from 1, with padding; an image has the next one,
    /// rows and columns, and its padding is at 0.
    fn rope(&self, text: i64, grid: [i64; 2]) -> Rope {
        let int64s = (Kind::Int64, Device::Cpu);
        let padding = Tensor::zeros([padding(grid[0] * grid[1]), 3], int64s);
        let texts = Tensor::arange_start(1, 1 + text, int64s).unsqueeze(1);
        let texts = texts.constant_pad_nd([0, 2]);
        let ids = [image_ids(grid, 1 + text, Kind::Int64), padding, texts];
        let (axes, theta) = (self.config.axes_dims, self.config.rope_theta);
        let angles = angles_of_ids(&Tensor::cat(&ids, 0), &axes, theta);
        // The angles themselves are rounded, as in diffusers and in the authors' code.
        Rope::new(&angles.to_kind(Kind::Float), self.device)
    }

    /// Embeds timesteps of the scheduler, 1000 for pure noise: `(N, time_dim)`, the input of all modulation layers
    fn time(&self, timesteps: &[f32]) -> Tensor {
        let scale = self.config.t_scale as f32;
        let times = timesteps.iter();
        let times: Vec<f32> = times
            .map(|t| (NUM_TIMESTEPS - t) / NUM_TIMESTEPS * scale)
            .collect();
        let times = Tensor::from_slice(&times).to_device(self.device);
        let sinusoids = timestep_embedding(&times, SINUSOIDS);
        let time = self.t_embedder.forward(&sinusoids, |xs| xs.silu());
        time.to_kind(self.kind)
    }

    /// `(B, c, h, w)` -> `(B, h / 2 * w / 2, 4 c)`, channels innermost
    fn patches(latents: &Tensor) -> Tensor {
        patches(&latents.unsqueeze(2), TOKEN, PatchOrder::ChannelsLast)
    }
}

/// Image tokens with padding.
fn image_tokens([rows, columns]: [i64; 2]) -> i64 {
    rows * columns + padding(rows * columns)
}

/// `(1, 1, C)`; some converters to GGUF drop the first axis of the file's `(1, C)`.
fn pad_token(name: &str, dim: i64, w: &Weights) -> Result<Tensor, WeightsError> {
    let is_squeezed = w.shape_of(name).is_some_and(|shape| shape == [dim]);
    let shape: &[i64] = if is_squeezed { &[dim] } else { &[1, dim] };
    Ok(w.tensor(name, shape)?.view([1, 1, dim]))
}

/// `(B, tokens, C)` padded with `pad` to the next multiple.
fn padded(xs: &Tensor, pad: &Tensor) -> Tensor {
    let (num_images, tokens, _) = xs.size3().expect("tokens have three dimensions");
    match padding(tokens) {
        0 => xs.shallow_clone(),
        missing => Tensor::cat(&[xs, &pad.expand([num_images, missing, -1], false)], 1),
    }
}

#[cfg(test)]
pub(crate) mod tests;
