//! Qwen-Image 2.1: text to image, image to image, inside a mask, and as a text says of reference images; RGBA images.
//!
//! The reference is `QwenImage21Pipeline` of diffusers 0.42.1, which has neither start images nor masks: these work as in
//! the other image models.
//!
//! Text, references and image are one sequence through common blocks, in the arithmetic of diffusers 0.42.1
//! (`models/transformers/transformer_qwenimage21.py`); fields have its names. Each text token sees those before it, each
//! image its own tokens and all before them. Text and references have the timestep 0 and come first, so that nothing in
//! them depends on the step: they go through the blocks once, and each step computes the image's tokens alone.
//!
//! All blocks get the same scales and gates of a timestep; gates go through tanh, and nothing is shifted.
//!
//! Shapes: `B` images of one text; `P` tokens of text and references (the prefix), `I` of an image; `C` width, `H` heads
//! of `D`.

mod text;

use safelight_core::families::ModelFamily;
use safelight_core::job::JobFolder;
use safelight_core::networks::{QwenImage21TransformerConfig, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use crate::denoise::fits;
use crate::fault::FaultSite;
use crate::nn::{
    FusedNorm, GateArgs, Linear, Mlp, QkNorm, Rope, SpreadHeads, TokenRows, angles_at, attention,
    gated_add, gelu_tanh, join_heads, layer_norm, lowest, rms_norm, rounded_timesteps, silu,
    silu_times, timestep_embedding,
};
use crate::parallel::TokenShards;
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    CapturedInputs, ContextInput, ForwardPass, ImageConditioning, ImageModel, LatentForm,
    NoControlNet, ReferenceEncoding, WeightsDialect,
};
use crate::step_cache::BlockSkipper;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::{EngineError, Hooks, StageCapture, StageWork, Weights, WeightsError};

pub(crate) static FAMILY: ImageFamily<QwenImage21Transformer> = ImageFamily::NEW;

const ROPE_THETA: f64 = 10000.0;
/// Width of the sinusoids of timesteps.
const SINUSOIDS: i64 = 256;
/// Tokens of an image for each of its tokens in the text encoder.
pub(super) const TOKENS_A_SLOT: i64 = 4;
/// Vectors of a timestep, see [`QwenImage21Modulation`].
const SCALE_1: i64 = 0;
const GATE_1: i64 = 1;
const SCALE_2: i64 = 2;
const GATE_2: i64 = 3;
const LAST_SCALE: i64 = 4;
const NO_SHIFT: i64 = 5;

pub struct QwenImage21Transformer {
    img_in: Linear,
    txt_in: TextProjection,
    timestep_embedder: Mlp,
    modulation: Linear,
    blocks: Vec<QwenImage21Block>,
    norm_out: Linear,
    proj_out: Linear,
    config: QwenImage21TransformerConfig,
    kind: Kind,
    device: Device,
}

/// Text and references after all blocks, for one image size.
pub struct QwenImage21Context {
    /// Keys and values of each block, of this rank's heads: `(1, h, P, D)`
    prefix: Vec<[Tensor; 2]>,
    /// Of the image's tokens.
    rope: Rope,
}

/// Scales and gates of both halves of a block, scale of the last norm, zeros: `(1, 6, C)` in f32
pub struct QwenImage21Modulation(Tensor);

/// Tokens before those of an image.
struct PrefixTokens {
    /// `(1, P, C)`
    tokens: Tensor,
    /// Number of tokens of each stretch of text and of each reference, in order, and whether it is text.
    segments: Vec<(i64, bool)>,
    /// Position ids of the prefix and of the image: `(P + I, 3)`
    ids: Tensor,
}

impl QwenImage21Transformer {
    /// Replaces the image tokens of a text by those of the references.
    fn prefix_tokens(
        &self,
        text: &TextEmbeds,
        conditioning: &ImageConditioning<'_, Self>,
    ) -> Result<PrefixTokens, EngineError> {
        let states = text.prompt.to_device(self.device).to_kind(self.kind);
        let text_tokens = self.txt_in.forward(&states);
        let references = &conditioning.references;
        let mut grids = references.shapes.iter().map(|shape| shape.grid());
        let mut prefix = PrefixIds::default();
        let (mut parts, mut segments) = (Vec::new(), Vec::new());
        let (mut place, mut seen) = (0, 0);
        let others = || EngineError::internal("the text has other images than the job");
        for (len, is_text) in stretches(text)? {
            let tokens = if is_text {
                prefix.text(len);
                text_tokens.narrow(1, place, len)
            } else {
                let grid = grids.next();
                let (grid, all) = grid.zip(references.tokens.as_ref()).ok_or_else(others)?;
                let count = grid[0] * grid[1];
                if count != len * TOKENS_A_SLOT {
                    return Err(others());
                }
                prefix.image(grid);
                seen += count;
                let own = all.narrow(1, seen - count, count);
                self.img_in.forward(&own.to_kind(self.kind).contiguous())
            };
            segments.push((tokens.size()[1], is_text));
            parts.push(tokens);
            place += len;
        }
        if grids.next().is_some() {
            return Err(others());
        }
        prefix.image(conditioning.shape.grid());
        Ok(PrefixTokens {
            tokens: Tensor::cat(&parts, 1),
            segments,
            ids: Tensor::cat(&prefix.ids, 0),
        })
    }

    fn rope(&self, ids: &Tensor) -> Rope {
        let axes = (0..).zip(self.config.axes_dims_rope);
        let angles = axes.map(|(axis, dim)| {
            let places = ids.select(1, axis).to_kind(Kind::Float);
            angles_at(&places, dim, ROPE_THETA)
        });
        Rope::new(&Tensor::cat(&angles.collect::<Vec<_>>(), 1), self.device)
    }

    /// Keys and values of the prefix in each block, `(1, H, P, D)`; fails when cancelled.
    fn prefix(
        &self,
        prefix: PrefixTokens,
        hooks: &dyn Hooks,
    ) -> Result<Vec<[Tensor; 2]>, EngineError> {
        let [mut xs, ids] = [prefix.tokens, prefix.ids];
        let count = xs.size()[1];
        let rope = self.rope(&ids.narrow(0, 0, count));
        let modulations = self.all_modulations(&[0.0]);
        let values = &modulations[0].0;
        let blocks = self.blocks.iter().map(|block| {
            hooks
                .check_cancelled(FaultSite::Block)
                .ok_or(EngineError::Cancelled)?;
            let mut cached = None;
            block.forward(&mut xs, values, &rope, |qkv| {
                let [q, k, v] = qkv.map(|xs| xs.transpose(1, 2));
                let ys = segment_attention([&q, &k, &v], &prefix.segments);
                cached = Some([k.contiguous(), v.contiguous()]);
                ys
            });
            cached.ok_or_else(|| EngineError::internal("a block has no attention"))
        });
        blocks.collect()
    }

    /// Modulations of some timesteps, in one batch with that of the timestep 0: some libraries multiply a single row by
    /// another sum, which depends on where the matrix is in memory.
    fn all_modulations(&self, timesteps: &[f32]) -> Vec<QwenImage21Modulation> {
        let count = timesteps.len() as i64;
        let times: Vec<f32> = timesteps.iter().copied().chain([0.0]).collect();
        let times = Tensor::from_slice(&rounded_timesteps(&times)).to_device(self.device);
        let sinusoids = timestep_embedding(&times, SINUSOIDS).to_kind(self.kind);
        let time = silu(self.timestep_embedder.forward(&sinusoids, silu));
        // n (k c) -> n k c
        let size = [count + 1, -1, self.config.dim()];
        let vectors = self.modulation.forward(&time).view(size);
        let vectors = vectors.to_kind(Kind::Float);
        for gate in [GATE_1, GATE_2] {
            drop(vectors.narrow(1, gate, 1).tanh_());
        }
        let last = self.norm_out.forward(&time).view(size).to_kind(Kind::Float);
        let all = Tensor::cat(&[&vectors, &last, &last.zeros_like()], 1);
        let each = (0..count).map(|i| QwenImage21Modulation(all.narrow(0, i, 1)));
        each.collect()
    }
}

impl ImageModel for QwenImage21Transformer {
    type Config = QwenImage21TransformerConfig;
    type Control = NoControlNet<Self>;
    type Context = QwenImage21Context;
    type Modulation = QwenImage21Modulation;

    const FAMILY: ModelFamily = ModelFamily::QWEN_IMAGE_21;
    const REFERENCES: Option<ReferenceEncoding> = Some(text::ENCODING);
    const LATENTS: LatentForm = LatentForm::SingleTokens;

    fn new(config: &QwenImage21TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &WeightsDialect::of::<Self>(w).weights;
        let (dim, channels) = (config.dim(), config.in_channels);
        // Run once for each text, or once for all steps.
        let seldom = &w.seldom();
        let time = seldom / "time_text_embed" / "timestep_embedder";
        let names = ["linear_1", "linear_2"];
        let img_in = Linear::without_bias(channels, dim, &(w / "img_in"))?;
        let blocks = (0..config.num_layers)
            .map(|i| QwenImage21Block::new(config, &(w / "transformer_blocks" / i)));
        Ok(Self {
            img_in,
            txt_in: TextProjection::new(config, &(seldom / "txt_in"))?,
            timestep_embedder: Mlp::biased(false, [SINUSOIDS, dim, dim], names, &time)?,
            modulation: Linear::without_bias(dim, 4 * dim, &(seldom / "modulation" / 1))?,
            blocks: blocks.collect::<Result<_, _>>()?,
            norm_out: Linear::without_bias(dim, dim, &(seldom / "norm_out" / "linear"))?,
            proj_out: Linear::without_bias(dim, channels, &(w / "proj_out"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<QwenImage21Context, EngineError> {
        let prefix = self.prefix_tokens(input.text, input.conditioning)?;
        let tokens = input.conditioning.shape.tokens();
        let count = prefix.ids.size()[0] - tokens;
        let rope = self.rope(&prefix.ids.narrow(0, count, tokens));
        let shards = TokenShards::new([tokens]);
        let all = self.prefix(prefix, input.hooks)?;
        // (1, h, P, D)
        let own = |xs: Tensor| shards.own_heads(&xs.transpose(1, 2)).transpose(1, 2).copy();
        let all = all.into_iter().map(|both| {
            if shards.is_whole() {
                both
            } else {
                both.map(own)
            }
        });
        Ok(QwenImage21Context {
            prefix: all.collect(),
            rope,
        })
    }

    fn modulations(&self, timesteps: &[f32], _: &QwenImage21Context) -> Vec<QwenImage21Modulation> {
        self.all_modulations(timesteps)
    }

    /// `tokens`: `(B, I, in_channels)` -> velocity, as large
    fn predict(&self, tokens: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let (context, QwenImage21Modulation(values)) = (pass.context, pass.modulation);
        let tokens = tokens.to_device(self.device).to_kind(self.kind);
        let shards = TokenShards::new([tokens.size()[1]]);
        let rope = context.rope.spread(&shards);
        let mut xs = self.img_in.forward(&shards.own(&tokens, 1).contiguous());
        let mut skip = BlockSkipper::of(pass.skip);
        let mut known = skip.start(&xs, &xs);
        for (i, (block, prefix)) in self.blocks.iter().zip(&context.prefix).enumerate() {
            if known.is_some() {
                break;
            }
            pass.hooks.check_cancelled(FaultSite::Block)?;
            if !skip.skips_block(i) {
                block.forward(&mut xs, values, &rope, |[q, k, v]| {
                    let parts: [&dyn Fn() -> Tensor; 3] =
                        [&|| q.shallow_clone(), &|| k.shallow_clone(), &|| {
                            v.shallow_clone()
                        }];
                    SpreadHeads::start(parts, 1, &shards).attend_after(Some(prefix))
                });
            }
            if i == 0 {
                known = skip.first(&xs);
            }
        }
        let xs = known.unwrap_or_else(|| {
            skip.end(&xs);
            xs
        });
        let ranges = [(0, xs.size()[1])];
        let norm = modulated(values, &ranges, LAST_SCALE);
        let normed = layer_norm(&xs, &norm, self.config.eps);
        let own = self.proj_out.forward(&normed).to_kind(Kind::Float);
        Some(shards.gathered(&own))
    }

    fn encode_text(
        folder: &JobFolder,
        work: &mut StageWork<'_>,
    ) -> Result<PromptEmbeds, EngineError> {
        text::encode_text(folder, work)
    }

    /// The shift depends on the size.
    fn schedule(_: &Self::Config) -> FlowSchedule {
        SchedulerConfig::of_qwen_image().into()
    }

    fn config(&self) -> &QwenImage21TransformerConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        fits(&text.prompt, &[1, -1, self.config.context_in_dim])
    }

    /// References are in the context.
    fn model_input(&self, latents: &Tensor, _: &ImageConditioning<'_, Self>) -> Tensor {
        latents.shallow_clone()
    }

    fn noise_for_capture(noise: &Tensor) -> Tensor {
        // b c h w -> b 1 c h w
        noise.unsqueeze(1)
    }

    fn record(&self, inputs: &CapturedInputs<'_, Self>, capture: &mut StageCapture) {
        if let Some(inpaint) = &inputs.conditioning.inpaint {
            capture.put("mask", &inpaint.mask);
        }
        for (branch, text) in &inputs.texts {
            let name = format!("transformer.in.{branch}.encoder_hidden_states");
            capture.put(name, &text.prompt);
        }
        capture.put_some(
            "image_latents",
            inputs.conditioning.references.tokens.as_ref(),
        );
    }
}

/// Lengths of the stretches of text, and of image tokens between them.
fn stretches(text: &TextEmbeds) -> Result<Vec<(i64, bool)>, EngineError> {
    let Some(mask) = &text.mask else {
        return Ok(vec![(text.prompt.size()[1], true)]);
    };
    let mask: Vec<i64> = mask.to_kind(Kind::Int64).view([-1]).try_into()?;
    let parts = mask.chunk_by(|one, next| one == next);
    Ok(parts
        .map(|part| (part.len() as i64, part[0] != 0))
        .collect())
}

/// Position ids of tokens, which text counts up on all axes. Those of an image stand still on the first; its rows and
/// columns count from its middle.
#[derive(Default)]
struct PrefixIds {
    /// Each `(tokens, 3)`
    ids: Vec<Tensor>,
    next: i64,
}

impl PrefixIds {
    fn text(&mut self, len: i64) {
        let words = Tensor::arange_start(self.next, self.next + len, (Kind::Int64, Device::Cpu));
        self.ids.push(words.unsqueeze(1).repeat([1, 3]));
        self.next += len;
    }

    fn image(&mut self, [rows, columns]: [i64; 2]) {
        let whole = (Kind::Int64, Device::Cpu);
        let centred = |count: i64| Tensor::arange_start(count / 2 - count, count / 2, whole);
        let order = Tensor::full([1], self.next, whole);
        let ids = Tensor::cartesian_prod(&[order, centred(rows), centred(columns)]);
        self.ids.push(ids);
        self.next += rows.max(columns);
    }
}

/// Attention of a prefix: `(1, H, P, D)` each -> `(1, P, C)`
fn segment_attention([q, k, v]: [&Tensor; 3], segments: &[(i64, bool)]) -> Tensor {
    let mut start = 0;
    let parts = segments.iter().map(|&(len, is_text)| {
        let end = start + len;
        let bias = is_text.then(|| {
            let hidden = Tensor::ones([len, end], (Kind::Bool, q.device())).triu(start + 1);
            let bias = Tensor::zeros([1, 1, len, end], (q.kind(), q.device()));
            bias.masked_fill(&hidden, lowest(q.kind()))
        });
        let [k, v] = [k, v].map(|xs| xs.narrow(2, 0, end));
        let ys = attention(&q.narrow(2, start, len), &k, &v, bias.as_ref(), None);
        start = end;
        join_heads(&ys)
    });
    Tensor::cat(&parts.collect::<Vec<_>>(), 1)
}

fn modulated<'a>(values: &'a Tensor, ranges: &'a [(i64, i64)], scale: i64) -> FusedNorm<'a> {
    FusedNorm::Modulated {
        rows: TokenRows { values, ranges },
        shift: NO_SHIFT,
        scale,
    }
}

/// Hidden states of the text encoder to those of the blocks.
struct TextProjection {
    /// Factor of the norm: `(context_in_dim)` in f32
    text_norm: Tensor,
    layers: Mlp,
    eps: f64,
}

impl TextProjection {
    fn new(config: &QwenImage21TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (text, dim) = (config.context_in_dim, config.dim());
        let norm = &w.with_kind(Kind::Float) / "text_norm";
        Ok(Self {
            // Stored as offset from 1.
            text_norm: norm.tensor("weight", &[text])? + 1.0,
            layers: Mlp::biased(false, [text, dim, dim], ["in_layer", "out_layer"], w)?,
            eps: config.eps,
        })
    }

    /// `(1, T, context_in_dim)` -> `(1, T, C)`
    fn forward(&self, states: &Tensor) -> Tensor {
        let normed = rms_norm(&states.contiguous(), &self.text_norm, self.eps);
        self.layers.forward(&normed, gelu_tanh)
    }
}

struct QwenImage21Block {
    qkv: Linear,
    norm: QkNorm,
    to_out: Linear,
    gate_up: Linear,
    out: Linear,
    heads: i64,
    eps: f64,
}

impl QwenImage21Block {
    fn new(config: &QwenImage21TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        type Config = QwenImage21TransformerConfig;
        let (dim, wide) = (config.dim(), config.inner_dim());
        let (attn, mlp) = (w / "attn", w / "img_mlp");
        let norms = ["norm_q.weight", "norm_k.weight"];
        Ok(Self {
            qkv: Linear::fused(false, dim, &Config::qkv(dim), &(&attn / "qkv"))?,
            norm: QkNorm::named(norms, config.attention_head_dim, config.eps, &attn)?,
            to_out: Linear::without_bias(dim, dim, &(&attn / "to_out" / 0))?,
            gate_up: Linear::fused(false, dim, &Config::gate_up(wide), &(&mlp / "gate_up"))?,
            out: Linear::without_bias(wide, dim, &(&mlp / "out"))?,
            heads: config.num_attention_heads,
            eps: config.eps,
        })
    }

    /// `xs`: `(B, L, C)`, changed in place; `values`: see [`QwenImage21Modulation`]; `attend`: from queries, keys and values,
    /// `(B, L, H, D)` each, to `(B, L, C)`
    fn forward(
        &self,
        xs: &mut Tensor,
        values: &Tensor,
        rope: &Rope,
        attend: impl FnOnce([Tensor; 3]) -> Tensor,
    ) {
        let (num_images, tokens, _) = xs.size3().expect("tokens have three dimensions");
        let ranges = [(0, tokens)];
        let rows = TokenRows {
            values,
            ranges: &ranges,
        };
        let gate = |index| Some(GateArgs { rows, index });
        let normed = layer_norm(xs, &modulated(values, &ranges, SCALE_1), self.eps);
        // b l (k h d) -> b l (k h) d
        let qkv = self.qkv.forward(&normed);
        let qkv = qkv.view([num_images, tokens, 3 * self.heads, -1]);
        self.norm
            .forward_rope(&mut qkv.narrow(2, 0, 2 * self.heads), rope);
        let qkv = [0, 1, 2].map(|part| qkv.narrow(2, part * self.heads, self.heads));
        gated_add(xs, &self.to_out.forward(&attend(qkv)), gate(GATE_1));
        let normed = layer_norm(xs, &modulated(values, &ranges, SCALE_2), self.eps);
        let both = self.gate_up.forward(&normed);
        let wide = both.size()[2] / 2;
        let hidden = silu_times(both.narrow(2, 0, wide), &both.narrow(2, wide, wide));
        gated_add(xs, &self.out.forward(&hidden), gate(GATE_2));
        if xs.kind() == Kind::Half {
            drop(xs.clamp_(-65504.0, 65504.0));
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
