//! Krea 2 Turbo and Raw: text to image, image to image, inside a mask.
//!
//! The reference is `Krea2Pipeline` of diffusers 0.42.1, except for three things: a guidance of 5.5 here is 4.5 there, as
//! in other models; texts have no padding, which nothing there attends to; and that pipeline has text to image alone: start
//! images and masks work as in the other image models.
//!
//! In the transformer, the hidden states of each text token are fused to one, then text and image go through common blocks
//! in one sequence, in the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_krea2.py`). Fields have the
//! authors' names, which ComfyUI's files have too.
//!
//! All blocks get the same six vectors of a timestep, to which each block adds its own. Norms are root mean squares with
//! weights stored as offsets from 1; norm and scale are one factor per channel, computed once per timestep. A text is fused
//! once, as its blocks do not depend on the timestep. diffusers pads texts and masks the padding; here is none.
//!
//! Shapes: `B` images of one text; `L` tokens, `T` of text and then `I` of an image; `C` width, `H` heads of `D`, `G` heads
//! of keys and values; `S` hidden states of each text token.

use safelight_core::families::ModelFamily;
use safelight_core::families::krea2::{LANGUAGE, PROMPT};
use safelight_core::job::JobFolder;
use safelight_core::networks::krea2_transformer::BlockShape;
use safelight_core::networks::{Krea2TransformerConfig, Krea2TransformerKeys, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use crate::denoise::fits;
use crate::fault::FaultSite;
use crate::nn::{
    GateArgs, Linear, Mlp, QkNorm, Rope, SpreadHeads, SwiGlu, TokenRows, angles_of_ids, gated_add,
    gelu_tanh, image_ids, rms_norm, rms_norm_shifted, rounded_timesteps, times_sigmoid,
    timestep_embedding,
};
use crate::parallel::TokenShards;
use crate::sampling::FlowSchedule;
use crate::stages::images::{ContextInput, ForwardPass, ImageModel, NoControlNet, WeightsDialect};
use crate::step_cache::BlockSkipper;
use crate::text::{PromptEmbeds, TextEmbeds, language_embeds};
use crate::{EngineError, Hooks, StageWork, Weights, WeightsError};

pub(crate) static FAMILY: ImageFamily<Krea2Transformer> = ImageFamily::NEW;

/// Numbers of tokens between which the published shift is interpolated.
const SHIFT_TOKENS: [i64; 2] = [256, 6400];

pub struct Krea2Transformer {
    first: Linear,
    tmlp: Mlp,
    tproj: Linear,
    fusion: TextFusion,
    blocks: Vec<ModulatedBlock>,
    /// The last norm's factor: `(C)` in f32
    norm: Tensor,
    /// Scale and shift, to which the timestep's vector is added: `(2, C)` in f32
    table: Tensor,
    last: Linear,
    config: Krea2TransformerConfig,
    kind: Kind,
    device: Device,
}

/// Text embedded once for all steps, for one image size.
pub struct Krea2Context {
    /// `(1, T, C)`
    text: Tensor,
    rope: Rope,
}

/// Modulation vectors for one timestep.
pub struct Krea2Modulation {
    /// Per block, see [`ModulatedBlock::forward`].
    blocks: Vec<Tensor>,
    /// Factor and shift of the last norm: `(2, C)` in f32
    last: Tensor,
}

impl Krea2Transformer {
    /// RoPE of text tokens, which are not rotated, and of image tokens by row and column.
    fn rope(&self, text: i64, grid: [i64; 2]) -> Rope {
        let (axes, theta) = (self.config.axes_dims_rope, self.config.rope_theta);
        let text = Tensor::zeros([text, 3], (Kind::Int64, Device::Cpu));
        let ids = Tensor::cat(&[text, image_ids(grid, 0, Kind::Int64)], 0);
        Rope::new(&angles_of_ids(&ids, &axes, theta), self.device)
    }
}

impl ImageModel for Krea2Transformer {
    type Config = Krea2TransformerConfig;
    type Control = NoControlNet<Self>;
    type Context = Krea2Context;
    type Modulation = Krea2Modulation;

    const FAMILY: ModelFamily = ModelFamily::KREA2;

    fn new(config: &Krea2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &WeightsDialect::of::<Self>(w).weights;
        for name in Krea2TransformerKeys::UNREAD {
            w.ignore(name);
        }
        let dim = config.dim();
        // Run once for each text, or once for all steps.
        let seldom = &w.seldom();
        let blocks =
            (0..config.num_layers).map(|i| ModulatedBlock::new(config, &(w / "blocks" / i)));
        let last = &w.with_kind(Kind::Float) / "last";
        Ok(Self {
            first: Linear::new(config.in_channels, dim, &(w / "first"))?,
            tmlp: Mlp::new(
                [config.timestep_embed_dim, dim, dim],
                ["0", "2"],
                &(seldom / "tmlp"),
            )?,
            tproj: Linear::new(dim, 6 * dim, &(seldom / "tproj" / 1))?,
            fusion: TextFusion::new(config, seldom)?,
            blocks: blocks.collect::<Result<_, _>>()?,
            norm: factor("norm.scale", dim, &last)?,
            table: last.tensor("modulation.lin", &[2, dim])?,
            last: Linear::new(dim, config.in_channels, &(w / "last" / "linear"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<Krea2Context, EngineError> {
        let (text, conditioning, hooks) = (input.text, input.conditioning, input.hooks);
        let states = text.prompt.to_device(self.device).to_kind(self.kind);
        let text = self.fusion.forward(&states, hooks);
        let text = text.ok_or(EngineError::Cancelled)?;
        Ok(Krea2Context {
            rope: self.rope(text.size()[1], conditioning.shape.grid()),
            text,
        })
    }

    fn modulations(&self, timesteps: &[f32], _: &Krea2Context) -> Vec<Krea2Modulation> {
        let times = Tensor::from_slice(&rounded_timesteps(timesteps)).to_device(self.device);
        let sinusoids = timestep_embedding(&times, self.config.timestep_embed_dim);
        let time = self.tmlp.forward(&sinusoids.to_kind(self.kind), gelu_tanh);
        let for_blocks = self.tproj.forward(&gelu_tanh(time.copy()));
        // n (k c) -> n k c
        let count = timesteps.len() as i64;
        let for_blocks = for_blocks.to_kind(Kind::Float).view([count, 6, -1]);
        let of_last = time.to_kind(Kind::Float).unsqueeze(1) + &self.table;
        let last = Tensor::stack(
            &[
                (of_last.select(1, 0) + 1.0) * &self.norm,
                of_last.select(1, 1),
            ],
            1,
        );
        (0..count)
            .map(|i| {
                let vectors = for_blocks.get(i);
                let blocks = self.blocks.iter().map(|block| block.modulation(&vectors));
                Krea2Modulation {
                    blocks: blocks.collect(),
                    last: last.get(i),
                }
            })
            .collect()
    }

    /// `tokens`: `(B, I, in_channels)` -> velocity, as large
    fn predict(&self, tokens: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let (context, modulation) = (pass.context, pass.modulation);
        let tokens = tokens.to_device(self.device).to_kind(self.kind);
        let (num_images, count, _) = tokens.size3().expect("tokens have three dimensions");
        let text = context.text.expand([num_images, -1, -1], false);
        let shards = TokenShards::new([text.size()[1], count]);
        let rope = context.rope.spread(&shards);
        let xs = Tensor::cat(&[&text, &self.first.forward(&tokens)], 1);
        let mut xs = shards.own(&xs, 1);
        let mut skip = BlockSkipper::of(pass.skip);
        let mut known = skip.start(&xs, &xs);
        for (i, (block, vectors)) in self.blocks.iter().zip(&modulation.blocks).enumerate() {
            if known.is_some() {
                break;
            }
            pass.hooks.check_cancelled(FaultSite::Block)?;
            if !skip.skips_block(i) {
                block.forward(&mut xs, vectors, &rope);
            }
            if i == 0 {
                known = skip.first(&xs);
            }
        }
        let xs = known.unwrap_or_else(|| {
            skip.end(&xs);
            xs
        });
        let (start, len) = shards.ranges()[1];
        let own = xs.narrow(1, start, len).contiguous();
        let (factor, shift) = (modulation.last.get(0), modulation.last.get(1));
        let own = rms_norm_shifted(&own, &factor, &shift, self.config.norm_eps);
        let own = self.last.forward(&own).to_kind(Kind::Float);
        Some(shards.of([count]).gathered(&own))
    }

    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        language_embeds((LANGUAGE, &PROMPT), work)
    }

    /// The shift depends on the size; requests for Turbo have their own.
    fn schedule(_: &Self::Config) -> FlowSchedule {
        FlowSchedule {
            is_exponential: true,
            ..SchedulerConfig::of_tokens(SHIFT_TOKENS).into()
        }
    }

    fn config(&self) -> &Krea2TransformerConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        let width = self.config.num_text_layers * self.config.text_hidden_dim;
        fits(&text.prompt, &[1, -1, width])
    }
}

/// Factor of a norm whose weight is stored as an offset from 1; `w` in f32.
fn factor(name: &str, dim: i64, w: &Weights) -> Result<Tensor, WeightsError> {
    Ok(w.tensor(name, &[dim])? + 1.0)
}

/// Fuses the hidden states of each text token to one with the width of the blocks.
struct TextFusion {
    layerwise_blocks: Vec<Krea2Block>,
    projector: Linear,
    refiner_blocks: Vec<Krea2Block>,
    /// `txtmlp`: the norm's factor, `(text_hidden_dim)` in f32, and two layers.
    norm: Tensor,
    txtmlp: Mlp,
    /// Hidden states per token.
    num_states: i64,
    eps: f64,
    device: Device,
}

impl TextFusion {
    fn new(config: &Krea2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, text) = (config.dim(), config.text_hidden_dim);
        let fusion = w / "txtfusion";
        let blocks = |list: &str, count: i64| {
            let of =
                |i| Krea2Block::new(config.text_block(), config.norm_eps, &(&fusion / list / i));
            (0..count).map(of).collect::<Result<Vec<_>, _>>()
        };
        let mlp = w / "txtmlp";
        Ok(Self {
            layerwise_blocks: blocks("layerwise_blocks", config.num_layerwise_text_blocks)?,
            projector: Linear::one_row(config.num_text_layers, &(&fusion / "projector"))?,
            refiner_blocks: blocks("refiner_blocks", config.num_refiner_text_blocks)?,
            norm: factor("0.scale", text, &mlp.with_kind(Kind::Float))?,
            txtmlp: Mlp::new([text, dim, dim], ["1", "3"], &mlp)?,
            num_states: config.num_text_layers,
            eps: config.norm_eps,
            device: w.device(),
        })
    }

    /// `states`: `(1, T, S c)` -> `(1, T, C)`; `None` when cancelled
    fn forward(&self, states: &Tensor, hooks: &dyn Hooks) -> Option<Tensor> {
        let tokens = states.size()[1];
        // 1 t (s c) -> t s c
        let mut xs = states.reshape([tokens, self.num_states, -1]).copy();
        self.run(&self.layerwise_blocks, &mut xs, hooks)?;
        // t s c -> 1 t c
        let projected = self.projector.forward(&xs.transpose(1, 2).contiguous());
        let mut xs = projected.squeeze_dim(2).unsqueeze(0);
        self.run(&self.refiner_blocks, &mut xs, hooks)?;
        let xs = rms_norm(&xs, &self.norm, self.eps);
        Some(self.txtmlp.forward(&xs, gelu_tanh))
    }

    /// `xs`: `(N, l, c)`, changed in place, without positions
    fn run(&self, blocks: &[Krea2Block], xs: &mut Tensor, hooks: &dyn Hooks) -> Option<()> {
        let dim = blocks.first().map_or(2, |block| block.shape.head_dim);
        let angles = Tensor::zeros([xs.size()[1], dim / 2], (Kind::Double, Device::Cpu));
        let rope = Rope::new(&angles, self.device);
        for block in blocks {
            hooks.check_cancelled(FaultSite::Block)?;
            block.forward(xs, &rope);
        }
        Some(())
    }
}

struct ModulatedBlock {
    block: Krea2Block,
    /// `mod.lin`: added to the vectors of the timestep, `(6, C)` in f32
    table: Tensor,
}

impl ModulatedBlock {
    fn new(config: &Krea2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let shape = config.block();
        let exact = w.with_kind(Kind::Float);
        // Rows in diffusers, flat in the authors' files.
        let flat = [6 * shape.dim];
        let rows = [6, shape.dim];
        let is_flat = w.shape_of("mod.lin").is_none_or(|found| found.len() == 1);
        let size: &[i64] = if is_flat { &flat } else { &rows };
        Ok(Self {
            table: exact.tensor("mod.lin", size)?.view(rows),
            block: Krea2Block::new(shape, config.norm_eps, w)?,
        })
    }

    /// `vectors`: of the timestep, `(6, C)` in f32 -> norm factor, shift and gate of attention and of feed-forward layers:
    /// `(6, C)` in f32
    fn modulation(&self, vectors: &Tensor) -> Tensor {
        let values = vectors + &self.table;
        let [attn, feed] = &self.block.norms;
        let parts = [
            (values.get(0) + 1.0) * attn,
            values.get(1),
            values.get(2),
            (values.get(3) + 1.0) * feed,
            values.get(4),
            values.get(5),
        ];
        Tensor::stack(&parts, 0)
    }

    /// `xs`: `(B, L, C)`, changed in place; `modulation`: see [`Self::modulation`]; `rope`: of `L` tokens
    fn forward(&self, xs: &mut Tensor, modulation: &Tensor, rope: &Rope) {
        let ranges = [(0, xs.size()[1])];
        let values = modulation.unsqueeze(0);
        let gate = |index| {
            let rows = TokenRows {
                values: &values,
                ranges: &ranges,
            };
            Some(GateArgs { rows, index })
        };
        let normed = |xs: &Tensor, first: i64| {
            let [factor, shift] = [first, first + 1].map(|i| modulation.get(i));
            rms_norm_shifted(xs, &factor, &shift, self.block.eps)
        };
        let ys = self.block.attn.forward(&normed(xs, 0), rope);
        gated_add(xs, &ys, gate(2));
        let ys = self.block.mlp.forward(&normed(xs, 3));
        gated_add(xs, &ys, gate(5));
    }
}

struct Krea2Block {
    /// Factors of the norms before attention and feed-forward layers: `(C)` in f32
    norms: [Tensor; 2],
    attn: GatedAttention,
    mlp: SwiGlu,
    shape: BlockShape,
    eps: f64,
}

impl Krea2Block {
    fn new(shape: BlockShape, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        let exact = w.with_kind(Kind::Float);
        Ok(Self {
            norms: [
                factor("prenorm.scale", shape.dim, &exact)?,
                factor("postnorm.scale", shape.dim, &exact)?,
            ],
            attn: GatedAttention::new(shape, eps, &(w / "attn"))?,
            mlp: SwiGlu::new(["gate", "up", "down"], shape.dim, shape.wide, &(w / "mlp"))?,
            shape,
            eps,
        })
    }

    /// `xs`: `(B, l, C)`, changed in place
    fn forward(&self, xs: &mut Tensor, rope: &Rope) {
        let [attn, feed] = &self.norms;
        let ys = self.attn.forward(&rms_norm(xs, attn, self.eps), rope);
        gated_add(xs, &ys, None);
        let ys = self.mlp.forward(&rms_norm(xs, feed, self.eps));
        gated_add(xs, &ys, None);
    }
}

/// Attention with a gate for each channel of its output.
struct GatedAttention {
    /// Queries, keys, values and gates.
    heads: Linear,
    norm: QkNorm,
    wo: Linear,
    shape: BlockShape,
}

impl GatedAttention {
    fn new(shape: BlockShape, eps: f64, w: &Weights) -> Result<Self, WeightsError> {
        let exact = &w.with_kind(Kind::Float) / "qknorm";
        let norm = |name| factor(name, shape.head_dim, &exact);
        let (query, key) = (norm("qnorm.scale")?, norm("knorm.scale")?);
        // The query norm once for each query head of a key head.
        let [heads, shared] = shape.heads;
        let mut norms = vec![&query; (heads / shared) as usize];
        norms.push(&key);
        Ok(Self {
            heads: Linear::fused(false, shape.dim, &shape.parts(), &(w / "heads"))?,
            norm: QkNorm::of_weights(Tensor::stack(&norms, 0), eps),
            wo: Linear::without_bias(shape.dim, shape.dim, &(w / "wo"))?,
            shape,
        })
    }

    /// `(B, l, C)` -> the same
    fn forward(&self, normed: &Tensor, rope: &Rope) -> Tensor {
        let (num_images, tokens, _) = normed.size3().expect("tokens have three dimensions");
        let (head_dim, [heads, shared]) = (self.shape.head_dim, self.shape.heads);
        let all = self.heads.forward(normed);
        let of = |first: i64, count: i64| {
            let part = all.narrow(2, first * head_dim, count * head_dim);
            part.view([num_images, tokens, count, head_dim])
        };
        self.norm.forward_rope(&mut of(0, heads + shared), rope);
        let parts: [&dyn Fn() -> Tensor; 3] = [&|| of(0, heads), &|| of(heads, shared), &|| {
            of(heads + shared, shared)
        }];
        let ys = SpreadHeads::start(parts, heads / shared, rope.shards()).attend();
        let gate = of(heads + 2 * shared, heads).flatten(2, 3);
        self.wo.forward(&times_sigmoid(ys, &gate))
    }
}

#[cfg(test)]
pub(crate) mod tests;
