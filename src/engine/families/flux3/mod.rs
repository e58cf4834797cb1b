//! FLUX.3 klein, distilled and base: text to image, reference images, image to image, inpainting.
//!
//! The reference is `Flux3ModularPipeline` and `Flux3DistilledModularPipeline` of diffusers 0.42.1 at a given size, without
//! the prompt upsampler, with one difference: a distilled model obeys a guidance above 1. Those have neither start images
//! nor masks: these work as in the other image models.
//!
//! Tokens of text, image and reference images go through blocks of their own, each seeing its kind alone, and then together
//! through common ones, in the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_flux3.py`). Fields have the
//! authors' names. In each block attention and feed-forward part read the same input. Text and references have the
//! timestep 0. Distilled models are flow maps: the timestep at the end of a step modulates all tokens too.
//!
//! Shapes: `B` images of one text; `L` tokens, `T` of text, then `I` of an image and `R` of its references; `C` width,
//! `M` width of the feed-forward layers.

mod references;

use safelight_core::families::ModelFamily;
use safelight_core::families::flux3::{LANGUAGE, PROMPT, SHIFT};
use safelight_core::job::JobFolder;
use safelight_core::networks::flux3_transformer::{MODE_BLOCKS, MODES, UNREAD};
use safelight_core::networks::{Flux3TransformerConfig, Flux3TransformerKeys, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use super::flux2::text_ids;
use crate::denoise::fits;
use crate::fault::FaultSite;
use crate::nn::{
    FusedNorm, Linear, Mlp, QkNorm, Rope, TokenRows, angles_of_ids, image_ids, layer_norm,
    rounded_timesteps, silu, silu_times, spread_qkv_attention, timestep_embedding,
};
use crate::parallel::TokenShards;
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    CapturedInputs, ContextInput, ForwardPass, ImageConditioning, ImageLatentShape, ImageModel,
    LatentForm, NoControlNet, ReferenceEncoding, WeightsDialect,
};
use crate::step_cache::BlockSkipper;
use crate::streams::{add_norm, embedder};
use crate::text::{PromptEmbeds, TextEmbeds, language_embeds};
use crate::{EngineError, StageCapture, StageWork, Weights, WeightsError};

pub(crate) static FAMILY: ImageFamily<Flux3Transformer> = ImageFamily::NEW;

/// Place of the image among the modes.
const IMAGE: usize = 1;
/// Positions from one row or column of tokens to the next.
const IMAGE_SCALE: f64 = 0.5;
/// Vectors of a mode's modulation: shift, scale and gate.
const VECTORS: i64 = 3;
const GATE: i64 = 2;

pub struct Flux3Transformer {
    /// In the order of their tokens.
    modes: Vec<TokenMode>,
    time_in: Mlp,
    /// Of the timestep at the end of a step, in flow maps.
    ref_time_in: Option<Mlp>,
    single_blocks: Vec<ParallelBlock>,
    /// The last norm's modulation, and the indices of shift and scale in it.
    last_modulation: Linear,
    shift_and_scale: (i64, i64),
    linear: Linear,
    config: Flux3TransformerConfig,
    kind: Kind,
    device: Device,
}

/// Layers of the tokens of text, of an image or of its references.
struct TokenMode {
    embedder: Linear,
    /// Of the mode's own blocks, and of the common ones.
    modulations: [Linear; 2],
    blocks: Vec<ParallelBlock>,
}

/// Text and references embedded once for all steps.
pub struct Flux3Context {
    /// `(1, T, C)`
    text: Tensor,
    /// `(1, R, C)`
    references: Option<Tensor>,
    rope: Rope,
    /// Of all calls of the schedule.
    timesteps: Vec<f32>,
}

/// Modulation vectors for one timestep.
pub struct Flux3Modulation {
    /// Shift, scale and gate of each mode, in the mode's own blocks and in the common ones: `(3, 3, C)`
    early: Tensor,
    single: Tensor,
    /// `(1, 2, C)`
    last: Tensor,
}

/// Position ids of an image's tokens: time, row, column, order, `(I, 4)` in f32; `number`: of a reference from 1, 0 of the
/// result
fn img_ids(shape: &ImageLatentShape, number: i64) -> Tensor {
    let ids = image_ids(shape.grid(), 0, Kind::Float) * IMAGE_SCALE;
    let order = Tensor::full([ids.size()[0], 1], -number, (Kind::Float, Device::Cpu));
    Tensor::cat(&[ids, order], 1)
}

/// Position ids of all reference images.
fn reference_ids(conditioning: &ImageConditioning<'_, Flux3Transformer>) -> Option<Tensor> {
    let shapes = &conditioning.references.shapes;
    let ids = (1..)
        .zip(shapes)
        .map(|(number, shape)| img_ids(shape, number));
    (!shapes.is_empty()).then(|| Tensor::cat(&ids.collect::<Vec<_>>(), 0))
}

impl Flux3Transformer {
    /// Embeds timesteps of the scheduler: `(N, C)`
    fn embedded(&self, layers: &Mlp, timesteps: &[f32]) -> Tensor {
        let times = Tensor::from_slice(&rounded_timesteps(timesteps)).to_device(self.device);
        let sinusoids = timestep_embedding(&times, self.config.timestep_channels);
        layers.forward(&sinusoids.to_kind(self.kind), silu)
    }
}

impl ImageModel for Flux3Transformer {
    type Config = Flux3TransformerConfig;
    type Control = NoControlNet<Self>;
    type Context = Flux3Context;
    type Modulation = Flux3Modulation;

    const FAMILY: ModelFamily = ModelFamily::FLUX3;
    const REFERENCES: Option<ReferenceEncoding> = Some(references::ENCODING);
    const LATENTS: LatentForm = LatentForm::FoldedTokens;

    fn new(config: &Flux3TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = Flux3TransformerKeys::of(|key| w.has(key));
        let file = w;
        let w = &WeightsDialect::of::<Self>(w).weights;
        let names = file.keys().filter_map(|key| key.strip_prefix(keys.prefix));
        for name in names.filter(|name| name.starts_with(UNREAD)) {
            w.ignore(name);
        }
        let (dim, channels) = (config.dim(), config.in_channels);
        // Run once for each text, or once for all steps.
        let seldom = &w.seldom();
        let blocks = |list: &str, count: i64| {
            let all = (0..count).map(|i| ParallelBlock::new(config, &(w / list / i)));
            all.collect::<Result<Vec<_>, _>>()
        };
        let time = |name: &str| embedder(false, config.timestep_channels, dim, &(seldom / name));
        let modes = MODES.iter().zip(MODE_BLOCKS).map(|(mode, list)| {
            let modulation = |stage: &str| {
                let name = format!("{stage}_stream_modulations");
                Linear::without_bias(dim, VECTORS * dim, &(seldom / name / mode / "lin"))
            };
            Ok(TokenMode {
                embedder: match *mode {
                    "txt" => {
                        Linear::without_bias(config.joint_attention_dim, dim, &(seldom / "txt_in"))?
                    }
                    image => Linear::without_bias(channels, dim, &(w / "emb_in" / image))?,
                },
                modulations: [modulation("early")?, modulation("single")?],
                blocks: blocks(list, config.num_layers)?,
            })
        });
        let last = w / "final_layer" / "image";
        let adaln = &(&last / "adaLN_modulation" / 1).seldom();
        Ok(Self {
            modes: modes.collect::<Result<_, WeightsError>>()?,
            time_in: time("time_in")?,
            ref_time_in: config.flow_map.then(|| time("ref_time_in")).transpose()?,
            single_blocks: blocks("single_blocks", config.num_single_layers)?,
            last_modulation: Linear::without_bias(dim, 2 * dim, adaln)?,
            shift_and_scale: keys.final_shift_and_scale(),
            linear: Linear::without_bias(dim, channels, &(&last / "linear"))?,
            config: config.clone(),
            kind: w.kind(),
            device: w.device(),
        })
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<Flux3Context, EngineError> {
        let conditioning = input.conditioning;
        let embedded = |mode: usize, xs: &Tensor| {
            let xs = xs.to_device(self.device).to_kind(self.kind);
            self.modes[mode].embedder.forward(&xs.contiguous())
        };
        let (text, tokens) = (&input.text.prompt, &conditioning.references.tokens);
        let texts = text_ids(text.size()[1]).to_kind(Kind::Float);
        let mut ids = vec![texts, img_ids(&conditioning.shape, 0)];
        ids.extend(reference_ids(conditioning));
        let (axes, theta) = (&self.config.axes_dims_rope, self.config.rope_theta);
        let angles = angles_of_ids(&Tensor::cat(&ids, 0), axes, theta);
        Ok(Flux3Context {
            text: embedded(0, text),
            references: tokens.as_ref().map(|tokens| embedded(IMAGE + 1, tokens)),
            rope: Rope::new(&angles, self.device),
            timesteps: input.timesteps.to_vec(),
        })
    }

    fn modulations(&self, timesteps: &[f32], context: &Flux3Context) -> Vec<Flux3Modulation> {
        let count = timesteps.len() as i64;
        // In one batch: some libraries multiply a single row by another sum.
        let times: Vec<f32> = timesteps.iter().copied().chain([0.0]).collect();
        let times = self.embedded(&self.time_in, &times);
        let targets = self.ref_time_in.as_ref().map(|layers| {
            let targets: Vec<f32> = timesteps.iter().map(|&t| context.target(t)).collect();
            self.embedded(layers, &targets)
        });
        let times = [times.narrow(0, 0, count), times.narrow(0, count, 1)];
        let [image, others] = times.map(|time| {
            let time = time.expand([count, -1], false);
            match &targets {
                Some(targets) => (time + targets).silu(),
                None => time.silu(),
            }
        });
        // m n (k c) -> n m k c
        let [early, single] = [0, 1].map(|stage| {
            let each = self.modes.iter().enumerate().map(|(mode, layers)| {
                let time = if mode == IMAGE { &image } else { &others };
                layers.modulations[stage].forward(time)
            });
            let all = Tensor::stack(&each.collect::<Vec<_>>(), 1);
            all.view([count, MODES.len() as i64, VECTORS, -1])
        });
        let last = self.last_modulation.forward(&image);
        let last = last.view([count, 1, 2, -1]);
        let of_timestep = |i| Flux3Modulation {
            early: early.get(i),
            single: single.get(i),
            last: last.get(i),
        };
        (0..count).map(of_timestep).collect()
    }

    /// `latents`: `(B, I, in_channels)` -> velocity, as large
    fn predict(&self, latents: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let (context, modulation, eps) = (pass.context, pass.modulation, self.config.eps);
        let latents = latents.to_device(self.device).to_kind(self.kind);
        let image = self.modes[IMAGE].embedder.forward(&latents.contiguous());
        let (num_images, num_tokens, _) = image.size3().expect("tokens have three dimensions");
        let parts: Vec<&Tensor> = [&context.text, &image]
            .into_iter()
            .chain(&context.references)
            .collect();
        let shards = TokenShards::new(parts.iter().map(|xs| xs.size()[1]));
        let rope = context.rope.spread(&shards);
        let ranges = shards.ranges();
        let mut skip = BlockSkipper::of(pass.skip);
        let mut known = None;
        let mut streams = Vec::with_capacity(parts.len());
        for (mode, xs) in parts.into_iter().enumerate() {
            let (start, len) = ranges[mode];
            let own = shards.of([xs.size()[1]]);
            let mut xs = own.own(xs, 1).copy();
            let whole = [(0, len)];
            let values = [&modulation.early, &modulation.single];
            let values = values.map(|all| all.narrow(0, mode as i64, 1));
            let [rows, single] = values.each_ref().map(|values| TokenRows {
                values,
                ranges: &whole,
            });
            let rope = rope.narrow(start, len);
            let mut normed = layer_norm(&xs, &FusedNorm::modulated(rows, 0), eps);
            if mode == IMAGE {
                known = skip.start(&xs, &normed);
            }
            let (last, others) = self.modes[mode].blocks.split_last()?;
            let nexts = others
                .iter()
                .map(|block| (block, rows))
                .chain([(last, single)]);
            for (i, (block, next)) in nexts.enumerate() {
                if known.is_some() {
                    break;
                }
                pass.hooks.check_cancelled(FaultSite::Block)?;
                let next = FusedNorm::modulated(next, 0);
                normed = if skip.skips_block(i) {
                    layer_norm(&xs, &next, eps)
                } else {
                    let ys = block.forward(normed, &rope, &own);
                    add_norm(&mut xs, &ys, rows, GATE, &next)
                };
                if mode == IMAGE && i == 0 {
                    known = skip.first(&xs);
                }
            }
            streams.push([xs, normed]);
        }
        let (start, len) = ranges[IMAGE];
        let hidden = if let Some(hidden) = known {
            hidden
        } else {
            let values = modulation.single.narrow(0, 0, streams.len() as i64);
            let rows = TokenRows {
                values: &values,
                ranges: &ranges,
            };
            let next = FusedNorm::modulated(rows, 0);
            let [mut xs, mut normed] = [0, 1].map(|part| {
                let each = streams.iter().map(|both: &[Tensor; 2]| &both[part]);
                let each = each.map(|xs| xs.expand([num_images, -1, -1], false));
                Tensor::cat(&each.collect::<Vec<_>>(), 1)
            });
            drop(streams);
            let blocks = (self.config.num_layers as usize..).zip(&self.single_blocks);
            for (_, block) in blocks.filter(|(i, _)| !skip.skips_block(*i)) {
                pass.hooks.check_cancelled(FaultSite::Block)?;
                let ys = block.forward(normed, &rope, &shards);
                normed = add_norm(&mut xs, &ys, rows, GATE, &next);
            }
            let hidden = xs.narrow(1, start, len).contiguous();
            skip.end(&hidden);
            hidden
        };
        let rows = TokenRows {
            values: &modulation.last,
            ranges: &[(0, len)],
        };
        let (shift, scale) = self.shift_and_scale;
        let normed = layer_norm(&hidden, &FusedNorm::Modulated { rows, shift, scale }, eps);
        let own = self.linear.forward(&normed).to_kind(Kind::Float);
        Some(shards.of([num_tokens]).gathered(&own))
    }

    /// The model was trained to attend to padding.
    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        language_embeds((LANGUAGE, &PROMPT), work)
    }

    fn schedule(_: &Self::Config) -> FlowSchedule {
        SchedulerConfig::of_shift(SHIFT).into()
    }

    fn config(&self) -> &Flux3TransformerConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        fits(&text.prompt, &[1, -1, self.config.joint_attention_dim])
    }

    /// References are in the context.
    fn model_input(&self, latents: &Tensor, _: &ImageConditioning<'_, Self>) -> Tensor {
        latents.shallow_clone()
    }

    /// Two by two latents are channels.
    fn noise_for_capture(noise: &Tensor) -> Tensor {
        ImageLatentShape::fold(noise)
    }

    fn record(&self, inputs: &CapturedInputs<'_, Self>, capture: &mut StageCapture) {
        inputs.record("encoder_hidden_states", capture);
        let CapturedInputs {
            conditioning,
            texts,
        } = inputs;
        for (branch, text) in texts {
            let prefix = if *branch == "uncond" { "negative_" } else { "" };
            let ids = text_ids(text.prompt.size()[1]).to_kind(Kind::Float);
            capture.put(format!("{prefix}text_ids"), &ids);
        }
        capture.put("latent_image_ids", &img_ids(&conditioning.shape, 0));
        capture.put_some("image_latents", conditioning.references.tokens.as_ref());
        capture.put_some("image_latent_ids", reference_ids(conditioning).as_ref());
    }
}

impl Flux3Context {
    /// Timestep at the end of a step that begins at `timestep`.
    fn target(&self, timestep: f32) -> f32 {
        let later = self.timesteps.iter().copied().filter(|t| *t < timestep);
        later.fold(0.0, f32::max)
    }
}

/// Block whose attention and feed-forward part read the same input.
struct ParallelBlock {
    /// Queries, keys, values, and gates and values of the feed-forward part.
    qkv_mlp: Linear,
    norm: QkNorm,
    attn_out: Linear,
    mlp_out: Linear,
    heads: i64,
    dim: i64,
    mlp_dim: i64,
}

impl ParallelBlock {
    fn new(config: &Flux3TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, mlp_dim) = (config.dim(), config.mlp_dim());
        Ok(Self {
            qkv_mlp: Linear::fused(false, dim, &config.block_inputs(), &(w / "qkv_mlp"))?,
            norm: QkNorm::new(config.attention_head_dim, config.eps, &(w / "norm"))?,
            attn_out: Linear::without_bias(dim, dim, &(w / "attn_out"))?,
            mlp_out: Linear::without_bias(mlp_dim, dim, &(w / "mlp_out"))?,
            heads: config.num_attention_heads,
            dim,
            mlp_dim,
        })
    }

    /// `normed`: this block's norm of all tokens, `(B, S, C)`; `rope`: of these -> what is added to them, as large
    fn forward(&self, normed: Tensor, rope: &Rope, shards: &TokenShards) -> Tensor {
        let products = self.qkv_mlp.forward(&normed); // (B, S, 3 C + 2 M)
        drop(normed);
        // b s (k h d) -> b s (k h) d
        let qkv = products.narrow(2, 0, 3 * self.dim);
        let qkv = qkv.unflatten(2, [3 * self.heads, -1]);
        self.norm
            .forward_rope(&mut qkv.narrow(2, 0, 2 * self.heads), rope);
        let [gates, values] =
            [0, 1].map(|part| products.narrow(2, 3 * self.dim + part * self.mlp_dim, self.mlp_dim));
        let activate = || drop(silu_times(gates.shallow_clone(), &values));
        let ys = spread_qkv_attention(&qkv, None, shards, activate);
        let mut ys = self.attn_out.forward(&ys);
        ys += self.mlp_out.forward(&gates);
        ys
    }
}

#[cfg(test)]
pub(crate) mod tests;
