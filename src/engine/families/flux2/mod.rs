//! FLUX.2 dev and klein, distilled and base: text to image, reference images, image to image, inpainting.
//!
//! The reference is `Flux2Pipeline`, `Flux2KleinPipeline` and `Flux2KleinInpaintPipeline` of diffusers 0.42.1, with three
//! differences: the negative prompt need not be empty, a distilled model obeys a guidance above 1, and unmasked pixels
//! stay exactly. An image without a mask is treated as one with a white mask. dev inpaints as klein does: diffusers has
//! no pipeline for that.
//!
//! The transformer has FLUX.1's two kinds of blocks with modulation that all blocks of a kind share, gated feed-forward
//! layers and no biases. klein of both sizes and dev, which has the guidance as an input, are configurations of it.
//!
//! After <https://github.com/black-forest-labs/flux2/blob/main/src/flux2/model.py> in the arithmetic of diffusers 0.42.1
//! (`models/transformers/transformer_flux2.py`). Fields have the original names; the blocks are in
//! [`streams`](crate::streams).
//!
//! Shapes: `B` images of one text; `T` tokens of text, `I` of an image with its references; `C` width.

use std::marker::PhantomData;
use std::rc::Rc;

use safelight_core::families::ModelFamily;
use safelight_core::families::flux2;
use safelight_core::job::JobFolder;
use safelight_core::media::{self, RgbPixels};
use safelight_core::networks::{
    Flux2TransformerConfig, Flux2TransformerKeys, LanguageUse, SchedulerConfig,
};
use safelight_core::tokens::PromptTemplate;
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use super::flux_backbone::{FluxBackbone, FluxContext};
use crate::denoise::fits;
use crate::nn::{image_ids, rounded_timesteps};
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    CapturedInputs, ContextInput, ForwardPass, ImageConditioning, ImageLatentShape, ImageModel,
    LatentForm, NoControlNet, ReferenceEncoding, WeightsDialect,
};
use crate::streams::{StreamModulation, StreamModulations};
use crate::text::{PromptEmbeds, TextEmbeds, language_embeds};
use crate::{EngineError, StageCapture, StageWork, Weights, WeightsError};

pub(crate) static KLEIN: ImageFamily<Flux2Transformer<Flux2Klein>> = ImageFamily::NEW;
pub(crate) static DEV: ImageFamily<Flux2Transformer<Flux2Dev>> = ImageFamily::NEW;

/// A family of these transformers, and its text encoder.
pub trait Flux2Kind: 'static {
    const FAMILY: ModelFamily;
    const TEXT: (LanguageUse, &'static PromptTemplate);
}

pub enum Flux2Klein {}

impl Flux2Kind for Flux2Klein {
    const FAMILY: ModelFamily = flux2::FAMILY;
    const TEXT: (LanguageUse, &'static PromptTemplate) = (flux2::LANGUAGE, &flux2::PROMPT);
}

pub enum Flux2Dev {}

impl Flux2Kind for Flux2Dev {
    const FAMILY: ModelFamily = flux2::dev::FAMILY;
    const TEXT: (LanguageUse, &'static PromptTemplate) =
        (flux2::dev::LANGUAGE, &flux2::dev::PROMPT);
}

/// Denoising strength of diffusers' pipeline.
const STRENGTH: f64 = 0.8;
/// Distance in time between the position ids of images.
const TIME_STEP: i64 = 10;

pub struct Flux2Transformer<K> {
    backbone: FluxBackbone,
    modulation: StreamModulation,
    config: Flux2TransformerConfig,
    kind: PhantomData<K>,
}

/// Position ids of text tokens: time, row, column, and their order: `(tokens, 4)`
pub(super) fn text_ids(tokens: i64) -> Tensor {
    let order = Tensor::arange(tokens, (Kind::Int64, Device::Cpu));
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

impl<K: Flux2Kind> ImageModel for Flux2Transformer<K> {
    type Config = Flux2TransformerConfig;
    type Control = NoControlNet<Self>;
    type Context = FluxContext;
    type Modulation = StreamModulations;

    const FAMILY: ModelFamily = K::FAMILY;
    const STRENGTH: f64 = STRENGTH;
    const REFERENCES: Option<ReferenceEncoding> =
        Some(ReferenceEncoding::of(|image, _| prepared(image)));
    const SEES_START_IMAGE: bool = true;
    const LATENTS: LatentForm = LatentForm::FoldedTokens;

    fn new(config: &Flux2TransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = Flux2TransformerKeys::of(|key| w.has(key));
        let w = &WeightsDialect::of::<Self>(w).weights;
        let shape = config.streams();
        let channels = [
            config.in_channels,
            config.joint_attention_dim,
            config.out_channels(),
        ];
        let axes = (&config.axes_dims_rope[..], config.rope_theta);
        Ok(Self {
            backbone: FluxBackbone::new(&shape, channels, axes, keys.final_shift_and_scale(), w)?,
            modulation: StreamModulation::new(
                &shape,
                Some(config.modulation_inputs()),
                w,
                Some(&(w / "final_layer")),
            )?,
            config: config.clone(),
            kind: PhantomData,
        })
    }

    fn context(&self, input: &ContextInput<'_, Self>) -> Result<FluxContext, EngineError> {
        let ids = position_ids(input.text, input.conditioning);
        let guidance = input.conditioning.guidance.distilled;
        Ok(FluxContext {
            sequence: self.backbone.context(input.text, &ids, input.num_images),
            vec: self.modulation.vec(None, guidance),
        })
    }

    fn modulations(&self, timesteps: &[f32], context: &FluxContext) -> Vec<StreamModulations> {
        let sinusoids = self.modulation.sinusoids(&rounded_timesteps(timesteps));
        self.modulation
            .modulations(&sinusoids, context.vec.as_ref())
    }

    /// `img`: `(B, I, in_channels)` -> velocity, as large
    fn predict(&self, img: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let none = || Some(Rc::default());
        self.backbone
            .forward(img, &pass.context.sequence, pass, none)
    }

    /// The model was trained to attend to padding.
    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        language_embeds(K::TEXT, work)
    }

    /// The shift depends on tokens and steps.
    fn schedule(_: &Self::Config) -> FlowSchedule {
        FlowSchedule {
            mu_by_steps: Some(mu),
            ..SchedulerConfig::of_flux(true).into()
        }
    }

    fn config(&self) -> &Flux2TransformerConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        fits(&text.prompt, &[1, -1, self.config.joint_attention_dim])
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
            let ids = position_ids(text, conditioning).map(|ids| ids.unsqueeze(0));
            FluxBackbone::record_ids(branch, &ids, capture);
            if self.config.guidance_embeds {
                let guidance = Tensor::from_slice(&[conditioning.guidance.distilled as f32]);
                capture.put(format!("transformer.in.{branch}.guidance"), &guidance);
            }
        }
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
}

/// Position ids of text tokens, and of the tokens of an image and its references.
fn position_ids<K: Flux2Kind>(
    text: &TextEmbeds,
    conditioning: &ImageConditioning<'_, Flux2Transformer<K>>,
) -> [Tensor; 2] {
    let references = &conditioning.references.shapes;
    let images = std::iter::once(&conditioning.shape).chain(references);
    [text_ids(text.prompt.size()[1]), img_ids(0, images)]
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

/// Larger images are downscaled.
const SEEN_PIXELS: f64 = 1024.0 * 1024.0;
/// Edge of a token in pixels.
pub(super) const TOKEN_PIXELS: u32 = 16;
/// Limits of diffusers: the shorter edge, and the aspect ratio.
const SMALLEST_EDGE: u32 = 64;
const LARGEST_RATIO: u32 = 8;

/// Refuses an image that diffusers refuses.
fn prepared(image: &RgbPixels) -> Result<RgbPixels, EngineError> {
    let (width, height) = (image.width, image.height);
    let (least, most) = (width.min(height), width.max(height));
    if least < SMALLEST_EDGE || most > LARGEST_RATIO * least {
        return Err(EngineError::request(format!(
            "a reference image has {width} × {height} pixels, and this model sees images from {SMALLEST_EDGE} × {SMALLEST_EDGE} pixels on whose one edge is at most {LARGEST_RATIO} times the other"
        )));
    }
    within_megapixel(image)
}

/// Downscales to at most a megapixel and crops to the middle that whole tokens cover.
pub(super) fn within_megapixel(image: &RgbPixels) -> Result<RgbPixels, EngineError> {
    let (width, height) = (image.width, image.height);
    let pixels = f64::from(width) * f64::from(height);
    let smaller = (pixels > SEEN_PIXELS).then(|| {
        let scale = (SEEN_PIXELS / pixels).sqrt();
        let scaled = |edge: u32| (f64::from(edge) * scale) as u32;
        media::resize_lanczos(image, scaled(width), scaled(height))
    });
    let image = smaller.transpose()?.unwrap_or_else(|| image.clone());
    let cut = |edge: u32| edge / TOKEN_PIXELS * TOKEN_PIXELS;
    Ok(media::crop_centre(
        &image,
        cut(image.width),
        cut(image.height),
    )?)
}

#[cfg(test)]
pub(crate) mod tests;
