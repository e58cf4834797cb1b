//! Anima: text to image, image to image, inpainting.
//!
//! The reference is `AnimaModularPipeline` of diffusers 0.42.1, which has no masks: these work as in the other image models.
//!
//! The transformer is Cosmos Predict2's, in the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_cosmos.py`):
//! blocks of self-attention, cross-attention to the text, and a feed-forward part, each with a modulation that two small
//! matrices make of the timestep (AdaLN-LoRA). Fields have the authors' names.
//!
//! Shapes: `B` images of one text; `I` tokens of an image, `T` of a text; `C` width.

mod adapter;
mod attention;

use attention::{EPS, HeadNormAttention};
use safelight_core::families::ModelFamily;
use safelight_core::families::anima::SHIFT;
use safelight_core::job::JobFolder;
use safelight_core::networks::anima_transformer::{MODULATED, UNREAD, UNREAD_END};
use safelight_core::networks::{AnimaTransformerConfig, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use crate::denoise::fits;
use crate::fault::FaultSite;
use crate::nn::{
    FusedNorm, GateArgs, Linear, Mlp, NUM_TIMESTEPS, PatchOrder, Rope, TokenRmsNorm, TokenRows,
    angles_at, from_patches, gated_add_norm, image_ids, layer_norm, patches, silu,
    timestep_embedding,
};
use crate::parallel::TokenShards;
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    ContextInput, ForwardPass, ImageModel, LatentForm, NoControlNet, WeightsDialect,
};
use crate::step_cache::BlockSkipper;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::{EngineError, StageWork, Weights, WeightsError};

pub(crate) static FAMILY: ImageFamily<AnimaTransformer> = ImageFamily::NEW;

/// Latents along the edge of a token.
const PATCH: i64 = 2;
const TOKEN: [i64; 3] = [1, PATCH, PATCH];
/// Epsilon of the norms of heads, as in diffusers; the authors' is that of the others.
const HEAD_EPS: f64 = 1e-5;

pub struct AnimaTransformer {
    x_embedder: Linear,
    t_embedder: Mlp,
    t_embedding_norm: TokenRmsNorm,
    blocks: Vec<AnimaBlock>,
    /// Shift and scale of the last norm.
    last_modulation: Mlp,
    linear: Linear,
    config: AnimaTransformerConfig,
    kind: Kind,
    device: Device,
}

/// A text for all steps, and what depends on the image size.
pub struct AnimaContext {
    /// `(1, T, text_embed_dim)`
    text: Tensor,
    rope: Rope,
    /// Rows and columns of tokens.
    grid: [i64; 2],
}

/// Modulation vectors for one timestep.
pub struct AnimaModulation {
    /// Shift, scale and gate of each part of a block: `(1, 9, C)`
    blocks: Vec<Tensor>,
    /// `(1, 2, C)`
    last: Tensor,
}

impl ImageModel for AnimaTransformer {
    type Config = AnimaTransformerConfig;
    type Control = NoControlNet<Self>;
    type Context = AnimaContext;
    type Modulation = AnimaModulation;

    const FAMILY: ModelFamily = ModelFamily::ANIMA;
    const SAMPLES_START_IMAGE: bool = false;
    const LATENTS: LatentForm = LatentForm::Grid;

    fn new(config: &AnimaTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dialect = WeightsDialect::of::<Self>(w);
        let names = w.keys().filter_map(|key| key.strip_prefix(dialect.prefix));
        let is_unread = |name: &&str| {
            let top = name.split('.').next().unwrap_or_default();
            UNREAD.contains(&top) || name.ends_with(UNREAD_END)
        };
        let w = &dialect.weights;
        for name in names.filter(is_unread) {
            w.ignore(name);
        }
        let (dim, channels) = (config.dim(), config.in_channels);
        let patch = PATCH * PATCH;
        let last = w / "final_layer";
        let time = &(w.seldom() / "t_embedder" / 1);
        let blocks = (0..config.num_layers).map(|i| AnimaBlock::new(config, &(w / "blocks" / i)));
        Ok(Self {
            x_embedder: Linear::without_bias(
                patch * (channels + 1),
                dim,
                &(w / "x_embedder" / "proj" / 1),
            )?,
            t_embedder: Mlp::biased(false, [dim, dim, 3 * dim], ["linear_1", "linear_2"], time)?,
            t_embedding_norm: TokenRmsNorm::new(dim, EPS, &(w / "t_embedding_norm"))?,
            blocks: blocks.collect::<Result<_, _>>()?,
            last_modulation: modulation(config, 2, &(&last / "adaln_modulation"))?,
            linear: Linear::without_bias(dim, patch * config.out_channels, &(&last / "linear"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<AnimaContext, EngineError> {
        let grid = input.conditioning.shape.grid();
        let ids = image_ids(grid, 0, Kind::Float);
        let axes = (0..).zip(self.config.rope_axes());
        let axes = axes.map(|(axis, (dim, theta))| angles_at(&ids.select(1, axis), dim, theta));
        let angles = Tensor::cat(&axes.collect::<Vec<_>>(), 1);
        let text = input.text.prompt.to_device(self.device);
        Ok(AnimaContext {
            text: text.to_kind(self.kind).contiguous(),
            rope: Rope::new(&angles, self.device),
            grid,
        })
    }

    fn modulations(&self, timesteps: &[f32], _: &AnimaContext) -> Vec<AnimaModulation> {
        let times: Vec<f32> = timesteps.iter().map(|t| t / NUM_TIMESTEPS).collect();
        let times = Tensor::from_slice(&times).to_device(self.device);
        let sinusoids = timestep_embedding(&times, self.config.dim()).to_kind(self.kind);
        let shared = self.t_embedder.forward(&sinusoids, silu); // (N, 3 C)
        let time = self.t_embedding_norm.forward(&sinusoids.unsqueeze(0));
        let time = silu(time.squeeze_dim(0)); // (N, C)
        let count = times.size()[0];
        let made = |layers: &Mlp| {
            let own = layers.forward(&time, |xs| xs);
            let width = own.size()[1];
            (own + shared.narrow(1, 0, width)).view([count, -1, self.config.dim()])
        };
        let of_block = |block: &AnimaBlock| Tensor::cat(&block.modulations.each_ref().map(made), 1);
        let blocks: Vec<Tensor> = self.blocks.iter().map(of_block).collect();
        let last = made(&self.last_modulation);
        let of_timestep = |i| AnimaModulation {
            blocks: blocks.iter().map(|all| all.narrow(0, i, 1)).collect(),
            last: last.narrow(0, i, 1),
        };
        (0..count).map(of_timestep).collect()
    }

    /// `latents`: `(B, in_channels, h, w)` → velocity, as large
    fn predict(&self, latents: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let (context, modulation) = (pass.context, pass.modulation);
        let latents = latents.to_device(self.device).to_kind(self.kind);
        let tokens = patches(&latents.unsqueeze(2), TOKEN, PatchOrder::ChannelsFirst);
        // Nothing is padded, says the last channel.
        let tokens = tokens.constant_pad_nd([0, PATCH * PATCH]);
        let shards = TokenShards::new([tokens.size()[1]]);
        let (rope, ranges) = (context.rope.spread(&shards), shards.ranges());
        let mut xs = self.x_embedder.forward(&shards.own(&tokens, 1));
        let rows = |values| TokenRows {
            values,
            ranges: &ranges,
        };
        let values: Vec<&Tensor> = modulation.blocks.iter().chain([&modulation.last]).collect();
        let first_norm = |i: usize| FusedNorm::modulated(rows(values[i]), 0);
        let mut normed = layer_norm(&xs, &first_norm(0), EPS);
        let mut skip = BlockSkipper::of(pass.skip);
        let mut known = skip.start(&xs, &normed);
        for (i, block) in self.blocks.iter().enumerate() {
            if known.is_some() {
                break;
            }
            pass.hooks.check_cancelled(FaultSite::Block)?;
            // The last pass of a block is also the first of the next one, or of the last layer.
            let next = first_norm(i + 1);
            normed = if skip.skips_block(i) {
                layer_norm(&xs, &next, EPS)
            } else {
                block.forward(&mut xs, normed, rows(values[i]), context, &rope, &next)
            };
            if i == 0 {
                known = skip.first(&xs);
            }
        }
        if let Some(hidden) = known {
            normed = layer_norm(&hidden, &first_norm(self.blocks.len()), EPS);
        } else {
            skip.end(&xs);
        }
        let velocity = self.linear.forward(&normed).to_kind(Kind::Float);
        let [height, width] = context.grid.map(|edge| edge * PATCH);
        let order = PatchOrder::ChannelsLast;
        let velocity = shards.gathered(&velocity);
        Some(from_patches(&velocity, [1, height, width], TOKEN, order).squeeze_dim(2))
    }

    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        adapter::adapted_embeds(work)
    }

    fn schedule(_: &Self::Config) -> FlowSchedule {
        SchedulerConfig::of_shift(SHIFT).into()
    }

    fn config(&self) -> &AnimaTransformerConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        fits(&text.prompt, &[1, -1, self.config.text_embed_dim])
    }

    /// A video of one frame.
    fn noise_for_capture(noise: &Tensor) -> Tensor {
        // b c h w -> b c 1 h w
        noise.unsqueeze(2)
    }
}

/// Two layers that make `count` vectors of a timestep.
fn modulation(
    config: &AnimaTransformerConfig,
    count: i64,
    w: &Weights,
) -> Result<Mlp, WeightsError> {
    let dim = config.dim();
    let sizes = [dim, config.adaln_lora_dim, count * dim];
    Mlp::biased(false, sizes, ["1", "2"], &w.seldom())
}

/// GELU without approximation. Consumes `xs`: the result uses its memory.
fn gelu(mut xs: Tensor) -> Tensor {
    drop(xs.gelu_("none"));
    xs
}

struct AnimaBlock {
    self_attn: HeadNormAttention,
    cross_attn: HeadNormAttention,
    mlp: Mlp,
    /// Shift, scale and gate of each of the three.
    modulations: [Mlp; 3],
}

impl AnimaBlock {
    fn new(config: &AnimaTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dim = config.dim();
        let attention = |name: &str, context| {
            let sizes = [dim, context, config.num_attention_heads];
            HeadNormAttention::new(sizes, ("output_proj", HEAD_EPS), &(w / name))
        };
        let made = |part: &str| modulation(config, 3, &(w / format!("adaln_modulation_{part}")));
        let [of_self, of_cross, of_mlp] = MODULATED.map(made);
        let sizes = [dim, config.mlp_dim(), dim];
        Ok(Self {
            self_attn: attention("self_attn", dim)?,
            cross_attn: attention("cross_attn", config.text_embed_dim)?,
            mlp: Mlp::biased(false, sizes, ["layer1", "layer2"], &(w / "mlp"))?,
            modulations: [of_self?, of_cross?, of_mlp?],
        })
    }

    /// `xs`: `(B, I, C)`, changed in place; `normed`: `xs` after this block's first norm → `xs` after the `next` norm
    fn forward(
        &self,
        xs: &mut Tensor,
        normed: Tensor,
        rows: TokenRows<'_>,
        context: &AnimaContext,
        rope: &Rope,
        next: &FusedNorm<'_>,
    ) -> Tensor {
        let gate = |index| Some(GateArgs { rows, index });
        let ys = self.self_attn.forward(normed, rope);
        let norm = FusedNorm::modulated(rows, 3);
        let normed = gated_add_norm(xs, &ys, gate(2), &norm, EPS);
        let ys = self.cross_attn.forward_to(&context.text, &normed, None);
        let norm = FusedNorm::modulated(rows, 6);
        let normed = gated_add_norm(xs, &ys, gate(5), &norm, EPS);
        let ys = self.mlp.forward(&normed, gelu);
        drop(normed);
        gated_add_norm(xs, &ys, gate(8), next, EPS)
    }
}

#[cfg(test)]
pub(crate) mod tests;
