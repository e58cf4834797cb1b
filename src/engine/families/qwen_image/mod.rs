//! Qwen-Image: text to image, image to image, inpainting; Qwen-Image-Edit: edits of reference images by text.
//!
//! The reference is `QwenImagePipeline`, `QwenImageImg2ImgPipeline`, `QwenImageInpaintPipeline` and
//! `QwenImageEditPlusPipeline` of diffusers 0.42.1, except that unmasked pixels stay exactly, and that image tokens in
//! a text have the position ids that the text encoder was trained with.
//!
//! The transformer has text and image in one sequence, with separate weights in all blocks: the double blocks of Flux
//! ([`streams`](crate::streams)), with the same field names, in the arithmetic of diffusers 0.42.1
//! (`models/transformers/transformer_qwenimage.py`).
//!
//! Editing models see reference images: their tokens follow those of the image, and from 2511 on they have the modulation of
//! a timestep without noise.
//!
//! Shapes: `B` images of one text; `L` tokens, `B` × `T` of text and then `B` × (`I` + `R`) of images and of the references
//! of each; `C` width.

mod backbone;
mod text;

use backbone::QwenImageBackbone;
use safelight_core::families::ModelFamily;
use safelight_core::job::JobFolder;
use safelight_core::networks::{QwenImageTransformerConfig, SchedulerConfig, ZERO_TIME};
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use crate::denoise::fits;
use crate::nn::{FusedNorm, Linear, Rope, TokenRows, angles_at, layer_norm};
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    CapturedInputs, ContextInput, ForwardPass, ImageConditioning, ImageModel, ReferenceEncoding,
    WeightsDialect,
};
use crate::step_cache::{BlockSkipper, CacheCalibration, ResidualMagnitudes};
use crate::streams::{BlocksForward, DoubleOutput, EPS, StreamModulations, TokenRanges};
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::{EngineError, StageCapture, StageWork, Weights, WeightsError};

pub use backbone::QwenImageControl;

pub(crate) static FAMILY: ImageFamily<QwenImageTransformer> = ImageFamily::NEW;

const ROPE_THETA: f64 = 10000.0;

pub struct QwenImageTransformer {
    backbone: QwenImageBackbone,
    last: Linear,
    config: QwenImageTransformerConfig,
}

/// Text and references embedded once for all steps, for one image size.
pub struct QwenImageContext {
    /// `(1, T, C)`
    txt: Tensor,
    /// Rotary tables for all tokens of a batch.
    rope: Rope,
    /// Tokens of references: `(1, R, in_channels)`
    references: Option<Tensor>,
}

impl QwenImageTransformer {
    /// RoPE of texts and then of images with their references. Rows and columns of an image count from its middle, images
    /// from 0, and text from the largest half of an edge, on all axes.
    fn rope(&self, text: i64, grids: &[[i64; 2]], num_images: i64) -> Rope {
        let f32s = (Kind::Float, Device::Cpu);
        let centred = |count: i64| Tensor::arange_start(count / 2 - count, count / 2, f32s);
        let images = (0..).zip(grids).map(|(number, &[rows, columns])| {
            let number = Tensor::full([1], number, f32s);
            Tensor::cartesian_prod(&[number, centred(rows), centred(columns)])
        });
        let images = Tensor::cat(&images.collect::<Vec<_>>(), 0);
        let first = grids.iter().flatten().map(|edge| edge / 2).max();
        let first = first.unwrap_or(0);
        let words = Tensor::arange_start(first, first + text, f32s);
        let texts = words.unsqueeze(1).repeat([num_images, 3]);
        let ids = Tensor::cat(&[texts, images.repeat([num_images, 1])], 0);
        let axes = (0..).zip(self.config.axes_dims_rope);
        let axes = axes.map(|(axis, dim)| angles_at(&ids.select(1, axis), dim, ROPE_THETA));
        let angles = Tensor::cat(&axes.collect::<Vec<_>>(), 1);
        Rope::new(&angles, self.backbone.place().0)
    }
}

impl ImageModel for QwenImageTransformer {
    type Config = QwenImageTransformerConfig;
    type Control = QwenImageControl;
    type Context = QwenImageContext;
    type Modulation = StreamModulations;

    const FAMILY: ModelFamily = ModelFamily::QWEN_IMAGE;
    const REFERENCES: Option<ReferenceEncoding> = Some(text::ENCODING);
    const RESCALES_TO_COND: bool = true;

    fn new(config: &QwenImageTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let dialect = WeightsDialect::of::<Self>(w);
        w.ignore(&format!("{}{ZERO_TIME}", dialect.prefix));
        let (w, dim) = (&dialect.weights, config.dim());
        let last = w / "final_layer";
        Ok(Self {
            backbone: QwenImageBackbone::new(config, w, Some(&last))?,
            last: Linear::new(dim, config.in_channels, &(&last / "linear"))?,
            config: config.clone(),
        })
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<QwenImageContext, EngineError> {
        let (text, conditioning, num_images) = (input.text, input.conditioning, input.num_images);
        let (prompt, tokens) = (&text.prompt, text.prompt.size()[1]);
        let grid = conditioning.shape.grid();
        conditioning.controls.read_prompt(|network, _| {
            Ok(network.prompt(prompt, self.rope(tokens, &[grid], num_images)))
        })?;
        let references = &conditioning.references;
        let grids = references.shapes.iter().map(|shape| shape.grid());
        let grids: Vec<[i64; 2]> = std::iter::once(grid).chain(grids).collect();
        let (device, kind) = self.backbone.place();
        let tokens_of = |xs: &Tensor| xs.to_device(device).to_kind(kind);
        Ok(QwenImageContext {
            rope: self.rope(tokens, &grids, num_images),
            txt: self.backbone.text(prompt),
            references: references.tokens.as_ref().map(tokens_of),
        })
    }

    /// Vectors of references, which have a timestep without noise, follow those of text and image in each block.
    fn modulations(&self, timesteps: &[f32], _: &QwenImageContext) -> Vec<StreamModulations> {
        let zero = self.config.zero_cond_t.then_some(0.0);
        let times: Vec<f32> = timesteps.iter().copied().chain(zero).collect();
        let mut all = self.backbone.modulations(&times);
        let references = zero.and_then(|_| all.pop());
        for own in &mut all {
            let references = references.iter().flat_map(|it| &it.blocks);
            for (block, references) in own.blocks.iter_mut().zip(references) {
                *block = Tensor::cat(&[&*block, &references.narrow(0, 1, 1)], 0);
            }
        }
        all
    }

    /// `img`: `(B, I, in_channels)` -> velocity, as large
    fn predict(&self, img: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let (context, modulation) = (pass.context, pass.modulation);
        let (num_images, own, _) = img.size3().expect("tokens have three dimensions");
        let residuals = || pass.residuals(img);
        let (device, kind) = self.backbone.place();
        let mut img = img.to_device(device).to_kind(kind);
        if let Some(references) = &context.references {
            let references = references.expand([num_images, -1, -1], false);
            img = Tensor::cat(&[&img, &references], 1);
        }
        let tokens = TokenRanges::of(&img, &context.txt);
        let all = self.backbone.entry.embed(&img, &context.txt, &tokens);
        let references = img.size()[1] - own;
        let tokens = tokens.spread(&[own, references]);
        let shards = tokens.all_shards();
        let (mut xs, rope) = (shards.own(&all, 1), context.rope.spread(&shards));
        drop(all);
        let mut ranges = vec![tokens.txt, tokens.img];
        if references > 0 && self.config.zero_cond_t {
            ranges = shards.ranges();
        }
        let blocks = modulation.blocks.iter();
        let blocks = blocks.map(|all| all.narrow(0, 0, ranges.len() as i64));
        let blocks: Vec<Tensor> = blocks.collect();
        let last_modulation = modulation.final_layer.as_ref();
        let last_modulation = last_modulation.expect("a transformer has a final layer");
        let [whole, of_img] = [tokens.count(), tokens.img.1].map(|count| [(0, count)]);
        // diffusers has the scale first.
        let [last, last_of_img] = [&whole, &of_img].map(|ranges| FusedNorm::Modulated {
            rows: TokenRows {
                values: last_modulation,
                ranges,
            },
            shift: 1,
            scale: 0,
        });
        let forward = BlocksForward::new(
            &self.backbone.blocks,
            &blocks,
            &tokens,
            &rope,
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
        let (_, len) = tokens.shards.ranges()[1];
        let size = [num_images, tokens.img.1 / num_images, normed.size()[2]];
        let normed = normed.view(size);
        let normed = normed.narrow(1, 0, len).contiguous();
        let velocity = self.last.forward(&normed).to_kind(Kind::Float);
        Some(tokens.shards.of([own]).gathered(&velocity))
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

    fn config(&self) -> &QwenImageTransformerConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        fits(&text.prompt, &[1, -1, self.config.joint_attention_dim])
    }

    /// Not where references have other modulation than the image: their tokens must be adjacent.
    fn takes_batches(&self, conditioning: &ImageConditioning<'_, Self>) -> bool {
        conditioning.references.tokens.is_none() || !self.config.zero_cond_t
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
        let edits = conditioning.references.tokens.is_some();
        let table = if edits { &EDIT_RATIOS } else { &RATIOS };
        let magnitudes = ResidualMagnitudes::of(table, num_calls, MAX_SKIPS, RETAINED);
        CacheCalibration {
            polynomial: None,
            magnitudes: Some(magnitudes),
        }
    }

    fn noise_for_capture(noise: &Tensor) -> Tensor {
        // b c h w -> b 1 c h w
        noise.unsqueeze(1)
    }

    fn record(&self, inputs: &CapturedInputs<'_, Self>, capture: &mut StageCapture) {
        inputs.record("encoder_hidden_states", capture);
        if let Some(tokens) = &inputs.conditioning.references.tokens {
            capture.put("image_latents", tokens);
        }
    }
}

/// Step cache limits, and ratios of Qwen-Image in 50 steps: from MagCache4QwenImage and MagCache4QwenImageEdit,
/// <https://github.com/Zehong-Ma/MagCache> (commit df81cb1), for the first models of both kinds; of its two values per
/// step, which hardly differ, the prompt's. At most this many calls are skipped one after the other.
const MAX_SKIPS: usize = 2;
/// The share of the calls, the first ones, that always run.
const RETAINED: f64 = 0.2;

/// Qwen-Image, 50 steps.
const RATIOS: [f64; 50] = [
    1.0, 1.64062, 1.45312, 1.1875, 1.17188, 1.05469, 1.21094, 1.10938, 1.11719, 1.13281, 1.11719,
    1.07812, 1.07031, 1.08594, 1.08594, 1.07812, 1.03906, 1.04688, 1.07812, 1.07031, 1.03125,
    1.07812, 1.04688, 1.04688, 1.04688, 1.03906, 1.01562, 1.03125, 1.02344, 1.02344, 1.02344,
    1.03906, 1.0, 1.01562, 1.0, 0.99219, 1.00781, 0.98047, 0.95703, 0.96875, 0.99219, 0.92578,
    0.92578, 0.90625, 0.85938, 0.80469, 0.87891, 0.75, 0.60938, 0.55078,
];

/// Qwen-Image-Edit, 50 steps.
const EDIT_RATIOS: [f64; 50] = [
    1.0, 1.41406, 1.09375, 1.3125, 1.20312, 1.0625, 1.125, 1.14062, 1.17969, 1.09375, 1.10938,
    1.10938, 1.07031, 1.04688, 1.09375, 1.03906, 1.0625, 1.04688, 1.0625, 1.04688, 1.07031,
    1.03125, 1.03906, 1.03906, 1.02344, 1.01562, 1.03125, 1.00781, 1.01562, 1.00781, 1.01562, 1.0,
    1.0, 0.98828, 0.98047, 0.98047, 0.97266, 0.92578, 0.94922, 0.98438, 0.89844, 0.91797, 0.92188,
    0.84375, 0.82812, 0.78516, 0.87891, 0.71094, 0.56641, 0.50781,
];

#[cfg(test)]
pub(crate) mod tests;
