//! FLUX.2's transformer: FLUX.1's two kinds of blocks with modulation that all blocks of a kind share, gated feed-forward
//! layers and no biases. klein of both sizes are configurations of it.
//!
//! After <https://github.com/black-forest-labs/flux2/blob/main/src/flux2/model.py> in the arithmetic of diffusers 0.42.1
//! (`models/transformers/transformer_flux2.py`). Fields have the original names; the blocks are in
//! [`streams`](crate::streams).
//!
//! Shapes: `B` images of one text; `T` tokens of text, `I` of an image with its references; `C` width.

use std::rc::Rc;

use safelight_core::families::flux2::{LANGUAGE, PROMPT, lora};
use safelight_core::job::JobFolder;
use safelight_core::networks::{Flux2TransformerConfig, Flux2TransformerKeys, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::references;
use crate::capture::StageCapture;
use crate::denoise::fits;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::rounded_timesteps;
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    ForwardPass, ImageConditioning, ImageLatentShape, ImageModel, NoControlNet, ReferenceEncoding,
    WeightsDialect, record_ids,
};
use crate::streams::{
    FluxBackbone, FluxSequence, SharedModulation, StreamModulations, TokenDims, image_ids,
};
use crate::text::{PromptEmbeds, TextEmbeds, language_embeds};
use crate::weights::{Weights, WeightsError};
use crate::work::StageWork;

/// Denoising strength of diffusers' pipeline.
const STRENGTH: f64 = 0.8;
/// Distance in time between the position ids of images.
const TIME_STEP: i64 = 10;

pub struct Flux2Transformer {
    backbone: FluxBackbone,
    modulation: SharedModulation,
    config: Flux2TransformerConfig,
}

/// Position ids of text tokens: time, row, column, and their order: `(tokens, 4)`
fn text_ids(text: &TextEmbeds) -> Tensor {
    let order = Tensor::arange(text.prompt.size()[1], (Kind::Int64, Device::Cpu));
    let zeros = order.zeros_like();
    Tensor::stack(&[&zeros, &zeros, &zeros, &order], -1)
}

/// Position ids of images, the first at time 0, each other one ten further: `(tokens, 4)`
fn img_ids<'a>(first: i64, shapes: impl IntoIterator<Item = &'a ImageLatentShape>) -> Tensor {
    let ids = (first..).zip(shapes).map(|(number, shape)| {
        image_ids(shape.grid(), TIME_STEP * number, Kind::Int64).constant_pad_nd([0, 1])
    });
    Tensor::cat(&ids.collect::<Vec<_>>(), 0)
}

/// Position ids of the image's tokens and of its references'.
fn all_img_ids(conditioning: &ImageConditioning<'_, Flux2Transformer>) -> Tensor {
    let references = &conditioning.references.shapes;
    img_ids(0, std::iter::once(&conditioning.shape).chain(references))
}

impl ImageModel for Flux2Transformer {
    type Config = Flux2TransformerConfig;
    type Control = NoControlNet<Self>;
    type Context = FluxSequence;
    type Modulation = StreamModulations;

    const STRENGTH: f64 = STRENGTH;
    const REFERENCES: Option<ReferenceEncoding> = Some(references::ENCODING);
    const SEES_START_IMAGE: bool = true;

    fn new(config: &Flux2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = Flux2TransformerKeys::of(|key| w.has(key));
        let w = &Self::dialect(w).weights;
        let shape = config.streams();
        let dims = TokenDims {
            input: config.in_channels,
            text: config.joint_attention_dim,
            output: config.out_channels(),
            axes: config.axes_dims_rope.to_vec(),
            theta: config.rope_theta,
        };
        Ok(Self {
            backbone: FluxBackbone::new(&shape, dims, keys.final_shift_and_scale(), w)?,
            modulation: SharedModulation::new(&shape, w)?,
            config: config.clone(),
        })
    }

    fn context(
        &self,
        text: &TextEmbeds,
        conditioning: &ImageConditioning<'_, Self>,
        num_images: i64,
        _: &dyn Hooks,
    ) -> Result<FluxSequence, EngineError> {
        let (txt_ids, img_ids) = (text_ids(text), all_img_ids(conditioning));
        let prompt = &text.prompt;
        Ok(self
            .backbone
            .context(prompt, &txt_ids, &img_ids, num_images))
    }

    fn modulations(&self, timesteps: &[f32], _: &FluxSequence) -> Vec<StreamModulations> {
        self.modulation.modulations(&rounded_timesteps(timesteps))
    }

    /// `img`: `(B, I, in_channels)` -> velocity, as large
    fn predict(
        &self,
        img: &Tensor,
        modulation: &StreamModulations,
        context: &FluxSequence,
        pass: &ForwardPass<'_, Self::Control>,
    ) -> Option<Tensor> {
        let none = || Some(Rc::default());
        self.backbone
            .forward(img, modulation, context, pass.skip, none, pass.hooks)
    }

    /// The model was trained to attend to padding.
    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        language_embeds((LANGUAGE, &PROMPT), work)
    }

    fn latent_channels(config: &Self::Config) -> i64 {
        config.latent_channels()
    }

    /// The shift depends on tokens and steps.
    fn schedule(scheduler: Option<SchedulerConfig>, _: &Self::Config) -> FlowSchedule {
        let published = || SchedulerConfig::of_flux(true);
        let mut schedule = FlowSchedule::from_config(scheduler.unwrap_or_else(published));
        schedule.mu_by_steps = Some(mu);
        schedule
    }

    /// The mean of the four pixels around the middle of a token, for all of it.
    fn latent_mask(mask: &Tensor, shape: ImageLatentShape) -> Tensor {
        let mask = mask.upsample_bilinear2d(shape.grid(), false, None, None);
        mask.upsample_nearest2d([shape.height, shape.width], None, None)
    }

    fn dialect(w: &Weights) -> WeightsDialect {
        let keys = Flux2TransformerKeys::of(|key| w.has(key));
        WeightsDialect {
            prefix: keys.prefix,
            lora: lora::network(keys.is_diffusers),
            weights: w.translated(move |name| keys.file_key(name)),
        }
    }

    fn config(&self) -> &Flux2TransformerConfig {
        &self.config
    }

    fn place(&self) -> (Device, Kind) {
        self.backbone.place()
    }

    fn num_blocks(&self) -> usize {
        self.backbone.num_blocks()
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        fits(&text.prompt, &[1, -1, self.config.joint_attention_dim])
    }

    /// Two by two latents are channels.
    fn noise_for_capture(noise: &Tensor) -> Tensor {
        ImageLatentShape::fold(noise)
    }

    fn record(&self, conditioning: &ImageConditioning<'_, Self>, capture: &mut StageCapture) {
        let ids = img_ids(0, [&conditioning.shape]);
        capture.put("latent_image_ids", &ids.unsqueeze(0));
        let references = &conditioning.references;
        if let Some(tokens) = &references.tokens {
            let ids = img_ids(1, &references.shapes);
            capture.put("image_latents", tokens);
            capture.put("image_latent_ids", &ids.unsqueeze(0));
        }
        if let Some(inpaint) = &conditioning.inpaint {
            // One value for all channels of a token.
            capture.put("mask", &inpaint.mask.narrow(2, 0, 1));
        }
    }

    fn record_text(
        &self,
        text: &TextEmbeds,
        conditioning: &ImageConditioning<'_, Self>,
        branch: &str,
        capture: &mut StageCapture,
    ) {
        let ids = [text_ids(text), all_img_ids(conditioning)];
        let [txt_ids, img_ids] = ids.map(|ids| ids.unsqueeze(0));
        record_ids(branch, &txt_ids, &img_ids, capture);
        let name = format!("transformer.in.{branch}.encoder_hidden_states");
        capture.put(name, &text.prompt);
    }
}

/// Logarithm of the schedule's shift, as the authors fitted it: `compute_empirical_mu` of diffusers.
fn mu(tokens: i64, num_steps: usize) -> f64 {
    const SEVERAL_STEPS: f64 = 10.0;
    const MANY_STEPS: f64 = 200.0;
    const LARGE_FROM: i64 = 4300;
    let large = 0.000_169_27 * tokens as f64 + 0.456_666_66;
    if tokens > LARGE_FROM {
        return large;
    }
    let few = 8.738_095_24e-5 * tokens as f64 + 1.898_333_33;
    let slope = (large - few) / (MANY_STEPS - SEVERAL_STEPS);
    slope * num_steps as f64 + (large - MANY_STEPS * slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_time_row_and_column_of_images_and_the_order_of_text() {
        let row = |ids: &Tensor, index: i64| -> Vec<i64> { ids.get(index).try_into().unwrap() };
        let states = Tensor::zeros([1, 7, 2], (Kind::Float, Device::Cpu));
        let text = TextEmbeds::of_states(states);
        assert_eq!(row(&text_ids(&text), 5), [0, 0, 0, 5]);
        let [shape, small] =
            [(48, 32), (32, 16)].map(|(w, h)| ImageLatentShape::new(3, w, h).unwrap());
        assert_eq!(row(&img_ids(0, [&shape]), 5), [0, 1, 2, 0]);
        let seen = img_ids(1, [&shape, &small]);
        assert_eq!(seen.size(), [8, 4]);
        assert_eq!(row(&seen, 5), [10, 1, 2, 0]);
        assert_eq!(row(&seen, 7), [20, 0, 1, 0]);
    }

    #[test]
    fn the_shift_is_that_of_diffusers() {
        for (tokens, steps, expected) in [
            (15, 4, 1.945_131_570_631_874),
            (4096, 4, 2.291_179_894_115_571),
            (4096, 50, 2.023_351_157_129_263),
            (4300, 28, 2.170_851_489_658_105),
            (4301, 28, 1.184_696_93),
        ] {
            let found = mu(tokens, steps);
            let holds = (found - expected).abs() < 1e-12;
            assert!(holds, "{tokens} {steps}: {found}");
        }
    }
}
