//! Qwen-Image's transformer: text and image in one sequence, with separate weights in all blocks.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_qwenimage.py`). The blocks are the double blocks of Flux ([`streams`](crate::streams)), with the same field names.
//!
//! Editing models see reference images: their tokens follow those of the image, and from 2511 on they have the modulation of
//! a timestep without noise.
//!
//! Shapes: `B` images of one text; `L` tokens, `B` × `T` of text and then `B` × (`I` + `R`) of images and of the references
//! of each; `C` width.

use std::path::Path;

use safelight_core::families::qwen_image::lora;
use safelight_core::job::JobFolder;
use safelight_core::networks::{
    QwenImageTransformerConfig, QwenImageTransformerKeys, SchedulerConfig, ZERO_TIME,
};
use tch::{Device, Kind, Tensor};

use super::backbone::QwenImageBackbone;
use super::control::QwenImageControl;
use super::measured::measured;
use super::text;
use crate::capture::StageCapture;
use crate::controls::LoadedControls;
use crate::denoise::fits;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::{FusedNorm, Linear, Rope, TokenRows, angles_at, layer_norm};
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    ForwardPass, ImageConditioning, ImageModel, ReferenceEncoding, WeightsDialect,
};
use crate::step_cache::{BlockSkipper, CacheCalibration};
use crate::streams::{BlocksForward, DoubleOutput, EPS, TokenRanges};
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::weights::{Weights, WeightsError};
use crate::work::StageWork;

const ROPE_THETA: f64 = 10000.0;

pub struct QwenImageTransformer {
    backbone: QwenImageBackbone,
    /// Scale and shift of the last norm.
    last_modulation: Linear,
    last: Linear,
    config: QwenImageTransformerConfig,
}

/// Text and references embedded once for all steps, for one image size.
pub struct QwenImageContext {
    /// `(1, T, C)`
    txt: Tensor,
    /// Of all tokens of a batch.
    rope: Rope,
    /// Tokens of references: `(1, R, in_channels)`
    references: Option<Tensor>,
}

/// Modulation vectors for one timestep.
pub struct QwenImageModulation {
    /// Per block, text first, and those of references if they have another timestep: `(2 or 3, 6, C)`
    blocks: Vec<Tensor>,
    /// Scale and shift: `(1, 2, C)`
    last: Tensor,
}

impl QwenImageTransformer {
    /// RoPE of texts and then of images with their references. Rows and columns of an image count from its middle, images
    /// from 0, and text from the largest half of an edge, on all axes.
    fn rope(&self, text: i64, grids: &[[i64; 2]], num_images: i64) -> Rope {
        let f32s = (Kind::Float, Device::Cpu);
        let centred = |count: i64| Tensor::arange_start(count / 2 - count, count / 2, f32s);
        let each = (0..).zip(grids).map(|(number, &[rows, columns])| {
            let own = |values: &Tensor| values.expand([rows, columns], false).reshape([-1]);
            [
                Tensor::full([rows * columns], number, f32s),
                own(&centred(rows).view([-1, 1])),
                own(&centred(columns)),
            ]
        });
        let each: Vec<[Tensor; 3]> = each.collect();
        let image = [0, 1, 2].map(|axis: usize| {
            let places: Vec<&Tensor> = each.iter().map(|places| &places[axis]).collect();
            Tensor::cat(&places, 0)
        });
        let first = grids.iter().flatten().map(|edge| edge / 2).max();
        let first = first.unwrap_or(0);
        let words = Tensor::arange_start(first, first + text, f32s);
        let axes = image.iter().zip(self.config.axes_dims_rope);
        let axes = axes.map(|(image, dim)| {
            let texts = words.repeat([num_images]);
            let places = Tensor::cat(&[texts, image.repeat([num_images])], 0);
            angles_at(&places, dim, ROPE_THETA)
        });
        let angles = Tensor::cat(&axes.collect::<Vec<_>>(), 1);
        Rope::of_turns(&angles.cos(), &angles.sin(), self.device())
    }
}

impl ImageModel for QwenImageTransformer {
    type Config = QwenImageTransformerConfig;
    type Control = QwenImageControl;
    type Context = QwenImageContext;
    type Modulation = QwenImageModulation;

    const REFERENCES: Option<ReferenceEncoding> = Some(text::ENCODING);
    const RESCALES_TO_COND: bool = true;

    fn new(config: &QwenImageTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dialect = Self::dialect(w);
        w.ignore(&format!("{}{ZERO_TIME}", dialect.prefix));
        let (w, dim) = (&dialect.weights, config.dim());
        let last = w / "final_layer";
        // Run once for all steps.
        let modulation = &last.seldom() / "adaLN_modulation" / 1;
        Ok(Self {
            backbone: QwenImageBackbone::new(config, w)?,
            last_modulation: Linear::new(dim, 2 * dim, &modulation)?,
            last: Linear::new(dim, config.in_channels, &(&last / "linear"))?,
            config: config.clone(),
        })
    }

    fn context(
        &self,
        text: &TextEmbeds,
        conditioning: &ImageConditioning<'_, Self>,
        num_images: i64,
        _: &dyn Hooks,
    ) -> Result<QwenImageContext, EngineError> {
        let (prompt, tokens) = (&text.prompt, text.prompt.size()[1]);
        let grid = conditioning.shape.grid();
        conditioning.controls.read_prompt(|network, _| {
            Ok(network.prompt(prompt, self.rope(tokens, &[grid], num_images)))
        })?;
        let references = &conditioning.references;
        let grids = references.shapes.iter().map(|shape| shape.grid());
        let grids: Vec<[i64; 2]> = std::iter::once(grid).chain(grids).collect();
        let (device, kind) = self.place();
        let tokens_of = |xs: &Tensor| xs.to_device(device).to_kind(kind);
        Ok(QwenImageContext {
            rope: self.rope(tokens, &grids, num_images),
            txt: self.backbone.text(prompt),
            references: references.tokens.as_ref().map(tokens_of),
        })
    }

    fn modulations(&self, timesteps: &[f32], _: &QwenImageContext) -> Vec<QwenImageModulation> {
        // Modulation of references comes last.
        let zero = self.config.zero_cond_t.then_some(0.0);
        let times: Vec<f32> = timesteps.iter().copied().chain(zero).collect();
        let time = self.backbone.time(&times);
        let blocks = self.backbone.modulations(&time);
        let last = self.last_modulation.forward(&time);
        let (dim, count) = (self.config.dim(), timesteps.len() as i64);
        let of_block = |all: &Tensor, i: i64| {
            // u n (m c) -> u m c
            let own = all.select(1, i).view([2, 6, dim]);
            if zero.is_none() {
                return own;
            }
            let references = all.get(1).get(count).view([1, 6, dim]);
            Tensor::cat(&[own, references], 0)
        };
        (0..count)
            .map(|i| QwenImageModulation {
                blocks: blocks.iter().map(|all| of_block(all, i)).collect(),
                last: last.get(i).view([1, 2, dim]),
            })
            .collect()
    }

    /// `img`: `(B, I, in_channels)` -> velocity, as large
    fn predict(
        &self,
        img: &Tensor,
        modulation: &QwenImageModulation,
        context: &QwenImageContext,
        pass: &ForwardPass<'_, QwenImageControl>,
    ) -> Option<Tensor> {
        let (num_images, own, _) = img.size3().expect("tokens have three dimensions");
        let residuals = || pass.residuals(img);
        let (device, kind) = self.place();
        let mut img = img.to_device(device).to_kind(kind);
        if let Some(references) = &context.references {
            let references = references.expand([num_images, -1, -1], false);
            img = Tensor::cat(&[&img, &references], 1);
        }
        let tokens = TokenRanges::of(&img, &context.txt);
        let (count, txt_len) = (img.size()[1], tokens.txt.1);
        let mut ranges = vec![tokens.txt, tokens.img];
        if count > own && self.config.zero_cond_t {
            ranges = vec![tokens.txt, (txt_len, own), (txt_len + own, count - own)];
        }
        let blocks = modulation.blocks.iter();
        let blocks = blocks.map(|all| all.narrow(0, 0, ranges.len() as i64));
        let blocks: Vec<Tensor> = blocks.collect();
        let [whole, of_img] = [tokens.count(), tokens.img.1].map(|count| [(0, count)]);
        // diffusers has the scale first.
        let [last, last_of_img] = [&whole, &of_img].map(|ranges| FusedNorm::Modulated {
            rows: TokenRows {
                values: &modulation.last,
                ranges,
            },
            shift: 1,
            scale: 0,
        });
        let mut xs = self.backbone.entry.embed(&img, &context.txt, &tokens);
        let forward = BlocksForward::new(
            &self.backbone.blocks,
            &blocks,
            &tokens,
            &context.rope,
            pass.skip.without,
            pass.hooks,
        );
        let forward = forward.ending_with(last, ranges);
        let mut skip = BlockSkipper::of(pass.skip);
        let of_images = |xs: &Tensor| tokens.of_img(xs);
        let normed = match forward.double(&mut xs, &mut skip, of_images, residuals)? {
            DoubleOutput::Skipped(hidden) => layer_norm(&hidden, &last_of_img, EPS),
            DoubleOutput::Computed(normed, _) => {
                skip.end(&tokens.of_img(&xs));
                tokens.of_img(&normed)
            }
        };
        let normed = normed.view([num_images, count, -1]);
        let normed = normed.narrow(1, 0, own).contiguous();
        Some(self.last.forward(&normed).to_kind(Kind::Float))
    }

    fn encode_text(
        folder: &JobFolder,
        work: &mut StageWork<'_>,
    ) -> Result<PromptEmbeds, EngineError> {
        text::encode_text(folder, work)
    }

    fn latent_channels(config: &Self::Config) -> i64 {
        config.latent_channels()
    }

    fn load_controls(
        _: &Self::Config,
        home: &Path,
        work: &mut StageWork<'_>,
    ) -> Result<LoadedControls<QwenImageControl>, EngineError> {
        work.control_networks(home, QwenImageControl::new)
    }

    /// The shift depends on the size.
    fn schedule(scheduler: Option<SchedulerConfig>, _: &Self::Config) -> FlowSchedule {
        FlowSchedule::from_config(scheduler.unwrap_or_else(SchedulerConfig::of_qwen_image))
    }

    fn dialect(w: &Weights) -> WeightsDialect {
        let keys = QwenImageTransformerKeys::of(|key| w.has(key));
        WeightsDialect {
            prefix: keys.prefix,
            lora: lora::NETWORK,
            weights: w.translated(move |name| keys.file_key(name)),
        }
    }

    fn config(&self) -> &QwenImageTransformerConfig {
        &self.config
    }

    fn place(&self) -> (Device, Kind) {
        self.backbone.place()
    }

    fn num_blocks(&self) -> usize {
        self.backbone.blocks.count()
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        fits(&text.prompt, &[1, -1, self.config.joint_attention_dim])
    }

    /// 1 also where references have other modulation than the image: their tokens must be adjacent.
    fn max_batch(&self, num_images: i64, conditioning: &ImageConditioning<'_, Self>) -> i64 {
        let has_references = conditioning.references.tokens.is_some();
        if self.device() == Device::Cpu || (has_references && self.config.zero_cond_t) {
            1
        } else {
            num_images
        }
    }

    /// References are in the context.
    fn model_input(&self, latents: &Tensor, _: &ImageConditioning<'_, Self>) -> Tensor {
        latents.shallow_clone()
    }

    fn calibration(
        &self,
        conditioning: &ImageConditioning<'_, Self>,
        num_calls: usize,
    ) -> CacheCalibration {
        measured(conditioning.references.tokens.is_some(), num_calls)
    }

    fn noise_for_capture(noise: &Tensor) -> Tensor {
        // b c h w -> b 1 c h w
        noise.unsqueeze(1)
    }

    fn record(&self, conditioning: &ImageConditioning<'_, Self>, capture: &mut StageCapture) {
        conditioning.record_mask(capture);
        if let Some(tokens) = &conditioning.references.tokens {
            capture.put("image_latents", tokens);
        }
    }
}
