//! A transformer for images as the generic loop calls it, and everything that conditions it besides the noise.

use std::ops::Range;
use std::path::Path;
use std::rc::Rc;

use safelight_core::families::{ModelFamily, lora_target};
use safelight_core::job::{GenerateRequest, JobFolder, LoraChoice, StepCache as StepCacheChoice};
use safelight_core::lora::{Expert, LoraTarget};
use safelight_core::networks::dialects::TensorKeys;
use safelight_core::networks::{DenoiserConfig, NetworkConfig as _, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::controlnet::{ActiveControlNets, ControlEncoding, ControlNet, StreamControlNet};
use super::encode::{ReferenceEncoding, StartImageMode};
use super::latents::{ImageLatentShape, InpaintBlend, corner_mask};
use super::state::EncodedImages;
use crate::denoise::fits;
use crate::guidance::GuidanceScales;
use crate::nn::NUM_TIMESTEPS;
use crate::sampling::{FlowSchedule, Solver};
use crate::step_cache::{CacheCalibration, SkipOptions};
use crate::streams::ControlNetResiduals;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::{EngineError, Hooks, StageCapture, StageWork, Weights, WeightsError};

/// Denoising strength of image to image, as in most pipelines of diffusers.
const BASE_STRENGTH: f64 = 0.6;
/// Denoising strength of models that fill an image, if the request has none.
pub(super) const CANVAS_STRENGTH: f64 = 1.0;

/// A file's weights by the names that a network asks for, in any dialect that its family reads.
pub struct WeightsDialect {
    pub weights: Weights,
    /// Prefix of the network's tensors in the file.
    pub prefix: &'static str,
    /// Layers that LoRAs can change.
    pub lora: LoraTarget,
}

impl WeightsDialect {
    pub fn of<M: ImageModel>(w: &Weights) -> Self {
        let keys = TensorKeys::<M::Config>::of(|key| w.has(key));
        Self {
            prefix: keys.prefix,
            lora: lora_target(M::FAMILY, keys.is_diffusers),
            weights: w.translated(move |name| keys.file_key(name)),
        }
    }

    /// The file's `weights` with LoRAs applied, for [`ImageModel::new`].
    pub fn with_loras(
        &self,
        weights: &Weights,
        loras: &[LoraChoice],
    ) -> Result<Weights, WeightsError> {
        weights.with_loras(loras, Expert::Only, self.lora, &self.weights)
    }

    /// Tensors of the transformer that nothing read; other components in the file do not count.
    pub fn unexpected_keys(&self, weights: &Weights) -> Vec<String> {
        weights.finish_behind(self.prefix)
    }
}

/// A transformer for images: its file, the start of its jobs, and its forward pass.
pub trait ImageModel: Sized + 'static {
    type Config: DenoiserConfig;
    type Control: ControlNet<Model = Self>;
    /// A text embedded once for all steps, for one image size and batch.
    type Context;
    /// Modulation of all blocks for one timestep.
    type Modulation;

    const FAMILY: ModelFamily;
    /// Denoising strength if the request has none.
    const STRENGTH: f64 = BASE_STRENGTH;
    /// Encoding of reference images, in models that see some.
    const REFERENCES: Option<ReferenceEncoding> = None;
    /// Set if the start image is a reference, too: both are posterior means.
    const SEES_START_IMAGE: bool = false;
    const CONTROLS: ControlEncoding = ControlEncoding::Samples;
    /// Set if latents of start images are sampled, as in most pipelines of diffusers; else they are posterior means.
    const SAMPLES_START_IMAGE: bool = true;
    /// Set if latents of a canvas are sampled even if nothing of them is kept, as in the pipelines of flow models.
    const SAMPLES_CANVAS: bool = true;
    const LATENTS: LatentForm = LatentForm::Tokens;
    /// Set if predictions are velocities from noise to image, whose reference counts time from noise.
    const PREDICTS_TO_IMAGE: bool = false;
    /// Set if guided predictions keep the norm of the conditional ones, token by token.
    const RESCALES_TO_COND: bool = false;

    fn encode_text(
        folder: &JobFolder,
        work: &mut StageWork<'_>,
    ) -> Result<PromptEmbeds, EngineError>;

    fn read_config(home: &Path, _loras: &[LoraChoice]) -> Result<Self::Config, EngineError> {
        Ok(Self::Config::read(home)?)
    }

    /// Schedule of files without a scheduler; the others have their own config in it. Models of other noise levels have a
    /// [`Self::solver`] instead.
    fn schedule(_: &Self::Config) -> FlowSchedule {
        SchedulerConfig::of_shift(1.0).into()
    }

    /// Sampler of a request for an image of `tokens` tokens and some of the steps.
    fn solver(
        config: &Self::Config,
        request: &GenerateRequest,
        tokens: i64,
        steps: Range<usize>,
    ) -> Result<Solver, EngineError> {
        let schedule = FlowSchedule {
            sample_sigmas: request.files.sample_sigmas.clone(),
            ..Self::schedule(config).read(request.files.scheduler.as_deref())?
        };
        schedule.solver(request, tokens, steps)
    }

    /// Checks results of earlier stages before anything is loaded -> channels that the model reads besides the noise, in the
    /// form of the latents. ControlNets steer models that read none.
    fn condition(
        _config: &Self::Config,
        _images: &EncodedImages,
        _mode: StartImageMode,
        _shape: ImageLatentShape,
    ) -> Result<Option<Tensor>, EngineError> {
        Ok(None)
    }

    /// `w`: the file's own names, in any dialect.
    fn new(config: &Self::Config, w: &Weights) -> Result<Self, WeightsError>;

    fn config(&self) -> &Self::Config;

    fn accepts(&self, text: &TextEmbeds) -> bool;

    /// Returns whether several images may be computed together.
    fn takes_batches(&self, _: &ImageConditioning<'_, Self>) -> bool {
        true
    }

    /// Fails when cancelled.
    fn context(&self, input: &ContextInput<'_, Self>) -> Result<Self::Context, EngineError>;

    /// Modulation for each timestep of the scheduler; 1000 is pure noise.
    fn modulations(&self, timesteps: &[f32], context: &Self::Context) -> Vec<Self::Modulation>;

    fn model_input(&self, latents: &Tensor, conditioning: &ImageConditioning<'_, Self>) -> Tensor {
        conditioning.joined_with(latents)
    }

    /// `input`: see [`model_input`](Self::model_input), of one batch -> prediction in f32; `None` when cancelled
    fn predict(&self, input: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor>;

    fn calibration(&self, _: &ImageConditioning<'_, Self>, _num_calls: usize) -> CacheCalibration {
        CacheCalibration::default()
    }

    /// Noise, `(B, C, h, w)`, as the reference draws it.
    fn noise_for_capture(noise: &Tensor) -> Tensor {
        noise.shallow_clone()
    }

    /// Records inputs besides latents and timestep under the reference's names.
    fn record(&self, inputs: &CapturedInputs<'_, Self>, capture: &mut StageCapture) {
        inputs.record("encoder_hidden_states", capture);
    }
}

/// Conditions of a job's predictions, for its capture.
pub struct CapturedInputs<'a, M: ImageModel> {
    pub conditioning: &'a ImageConditioning<'a, M>,
    /// By the names of the predictions that they condition.
    pub texts: Vec<(&'static str, &'a TextEmbeds)>,
}

impl<M: ImageModel> CapturedInputs<'_, M> {
    /// Records what most models read; `name`: the reference's of the texts' embeddings.
    pub fn record(&self, name: &str, capture: &mut StageCapture) {
        if let Some(inpaint) = &self.conditioning.inpaint {
            capture.put("mask", &inpaint.mask);
        }
        for (branch, text) in &self.texts {
            // Image tokens are never masked.
            let mask = text.mask.as_ref().map(|mask| {
                let image = [1, self.conditioning.shape.tokens()];
                Tensor::cat(
                    &[mask, &Tensor::ones(image, (mask.kind(), mask.device()))],
                    1,
                )
            });
            for (name, xs) in [
                (name, Some(&text.prompt)),
                ("pooled_projections", text.pooled.as_ref()),
                ("attention_mask", mask.as_ref()),
            ] {
                capture.put_some(format!("transformer.in.{branch}.{name}"), xs);
            }
        }
    }
}

/// Control images of a request whose latents are samples.
pub(super) fn num_sampled_controls<M: ImageModel>(num_controls: usize) -> usize {
    num_controls * usize::from(M::CONTROLS == ControlEncoding::Samples)
}

/// Returns whether the job's start image takes no draw of the seed: a posterior mean, or a canvas of which nothing is kept.
pub(super) fn is_mean<M: ImageModel>(request: &GenerateRequest) -> bool {
    let is_blank = StartImageMode::of(request) == StartImageMode::Canvas
        && request.sampling.strength.unwrap_or(CANVAS_STRENGTH) >= 1.0;
    !M::SAMPLES_START_IMAGE || (!M::SAMPLES_CANVAS && is_blank)
}

/// Form of latents in a model and in its sampler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum LatentForm {
    /// Two by two latents in one token: `(B, tokens, 4 C)`.
    Tokens,
    /// `(B, tokens, 4 C)` of an autoencoder with two by two latents as channels: noise has its shape, and a mask one value a
    /// token.
    FoldedTokens,
    /// One latent in one token: `(B, tokens, C)`.
    SingleTokens,
    /// `(B, C, h, w)`
    Grid,
}

impl LatentForm {
    fn channel_axis(self) -> usize {
        if self == Self::Grid { 1 } else { 2 }
    }

    /// Latents of a model's image, whose size is in pixels.
    pub fn shape(
        self,
        channels: i64,
        width: u32,
        height: u32,
    ) -> Result<ImageLatentShape, EngineError> {
        let patch = if self == Self::SingleTokens { 1 } else { 2 };
        ImageLatentShape::with_patch(patch, channels, width, height)
    }
}

/// A mask of pixels, `(1, 1, H, W)`, at latent resolution: `(1, 1, h, w)`
pub(super) fn latent_mask<M: ImageModel>(mask: &Tensor, shape: ImageLatentShape) -> Tensor {
    if M::LATENTS != LatentForm::FoldedTokens {
        return corner_mask(mask, shape.height);
    }
    // The mean of the four pixels around the middle of a token.
    let mask = mask.upsample_bilinear2d(shape.grid(), false, None, None);
    mask.upsample_nearest2d([shape.height, shape.width], None, None)
}

/// Timestep as the reference records it.
pub(super) fn captured_timestep<M: ImageModel>(timestep: f32) -> f32 {
    if M::PREDICTS_TO_IMAGE {
        return (NUM_TIMESTEPS - timestep) / NUM_TIMESTEPS;
    }
    timestep / NUM_TIMESTEPS
}

/// Velocity from image to noise in a prediction, as large as the latents.
pub(super) fn velocity<M: ImageModel>(prediction: &Tensor, shape: ImageLatentShape) -> Tensor {
    let own = match M::LATENTS {
        LatentForm::Grid => prediction.shallow_clone(),
        LatentForm::Tokens | LatentForm::SingleTokens | LatentForm::FoldedTokens => {
            prediction.narrow(1, 0, shape.tokens())
        }
    };
    if M::PREDICTS_TO_IMAGE { own.neg() } else { own }
}

/// Size of latents in the model's form; -1 is any number of images.
pub fn packed_size<M: ImageModel>(shape: ImageLatentShape) -> Vec<i64> {
    if M::LATENTS == LatentForm::Grid {
        return vec![-1, shape.channels, shape.height, shape.width];
    }
    vec![-1, shape.tokens(), shape.folded().channels]
}

/// `(B, C, h, w)`, where `C` may be 1 for all -> latents in the model's form
pub(super) fn packed<M: ImageModel>(latents: &Tensor, shape: ImageLatentShape) -> Tensor {
    if M::LATENTS == LatentForm::Grid {
        return latents.shallow_clone();
    }
    shape.pack(&latents.expand([-1, shape.channels, -1, -1], false))
}

/// Latents in the model's form -> `(B, C, h, w)`
pub(super) fn unpacked<M: ImageModel>(latents: &Tensor, shape: ImageLatentShape) -> Tensor {
    if M::LATENTS == LatentForm::Grid {
        return latents.shallow_clone();
    }
    shape.unpack(latents)
}

/// Everything that conditions the prediction besides the noise.
pub struct ImageConditioning<'a, M: ImageModel> {
    pub shape: ImageLatentShape,
    pub prompt: &'a TextEmbeds,
    /// Only in jobs with guidance.
    pub negative: Option<&'a TextEmbeds>,
    pub guidance: GuidanceScales,
    pub step_cache: Option<StepCacheChoice>,
    /// In the form of the latents.
    pub inpaint: Option<InpaintBlend>,
    /// See [`ImageModel::condition`].
    pub condition: Option<Tensor>,
    pub references: ReferenceTokens,
    pub controls: ActiveControlNets<'a, M::Control>,
}

/// Latents of reference images as tokens, one image after the other.
#[derive(Debug, Default)]
pub struct ReferenceTokens {
    pub shapes: Vec<ImageLatentShape>,
    /// `(1, R, 4 C)` in f32, on the transformer's device
    pub tokens: Option<Tensor>,
}

impl ReferenceTokens {
    /// `latents`: of each image, `(1, C, h', w')`; `result`: shape of the job's image
    pub fn new<'a>(
        latents: impl Iterator<Item = &'a Tensor>,
        result: ImageLatentShape,
        device: Device,
    ) -> Result<Self, EngineError> {
        let (mut shapes, mut tokens) = (Vec::new(), Vec::new());
        for latents in latents {
            let shape = result.like(latents)?;
            tokens.push(shape.pack(&latents.to_kind(Kind::Float)).to_device(device));
            shapes.push(shape);
        }
        Ok(Self {
            tokens: (!tokens.is_empty()).then(|| Tensor::cat(&tokens, 1)),
            shapes,
        })
    }
}

impl<'a, M: ImageModel> ImageConditioning<'a, M> {
    /// A prompt alone, without CFG.
    pub fn of_prompt(shape: ImageLatentShape, prompt: &'a TextEmbeds) -> Self {
        Self {
            shape,
            prompt,
            negative: None,
            guidance: GuidanceScales {
                distilled: 3.5,
                real: 1.0.into(),
            },
            step_cache: None,
            inpaint: None,
            condition: None,
            references: ReferenceTokens::default(),
            controls: ActiveControlNets::default(),
        }
    }

    /// Latents with channels or tokens besides them.
    pub fn joined_with(&self, latents: &Tensor) -> Tensor {
        match (&self.condition, &self.references.tokens) {
            (Some(channels), _) => {
                Tensor::cat(&[latents, channels], M::LATENTS.channel_axis() as i64)
            }
            (None, Some(tokens)) => {
                let tokens = tokens.expand([latents.size()[0], -1, -1], false);
                Tensor::cat(&[latents, &tokens], 1)
            }
            (None, None) => latents.shallow_clone(),
        }
    }

    /// Returns the reason why a batch of `num_images` of `model` cannot have this.
    pub(super) fn error(&self, model: &M, size: &[i64]) -> Option<String> {
        let mut texts = std::iter::once(self.prompt).chain(self.negative);
        let channels = self.shape.folded().channels;
        let tokens = self.references.tokens.as_ref();
        let is_of_job = |xs: &Tensor| {
            let mut wanted = size.to_vec();
            wanted[M::LATENTS.channel_axis()] = -1;
            fits(xs, &wanted)
        };
        if !texts.all(|text| model.accepts(text)) {
            Some("the embeddings of the texts are not what this model reads".to_owned())
        } else if self.inpaint.as_ref().is_some_and(|it| !it.fits(size)) {
            Some("the image's latents are not of this job".to_owned())
        } else if tokens.is_some_and(|tokens| tokens.size()[2] != channels) {
            Some("the latents of the reference images are not this model's".to_owned())
        } else if !self.condition.as_ref().is_none_or(is_of_job) {
            Some("what the model reads with the noise is not of this job".to_owned())
        } else {
            None
        }
    }
}

/// A text to embed for all steps of a batch of images.
pub struct ContextInput<'a, M: ImageModel> {
    /// [Accepted](ImageModel::accepts) embeddings.
    pub text: &'a TextEmbeds,
    pub conditioning: &'a ImageConditioning<'a, M>,
    /// Images of a call.
    pub num_images: i64,
    /// Of all calls of the schedule.
    pub timesteps: &'a [f32],
    pub hooks: &'a dyn Hooks,
}

/// Text, timestep and ControlNets of one call.
pub struct ForwardPass<'a, M: ImageModel> {
    pub context: &'a M::Context,
    pub modulation: &'a M::Modulation,
    pub skip: SkipOptions<'a>,
    pub controls: Option<ControlPass<'a, M>>,
    pub hooks: &'a dyn Hooks,
}

/// ControlNets of a job, and their modulation for the timestep.
type ControlPass<'a, M> = (
    &'a ActiveControlNets<'a, <M as ImageModel>::Control>,
    &'a [ControlModulation<M>],
);

/// Modulation of a ControlNet of `M` for one timestep.
pub type ControlModulation<M> = <<M as ImageModel>::Control as ControlNet>::Modulation;

impl<M: ImageModel<Control: StreamControlNet>> ForwardPass<'_, M> {
    /// Residuals of the ControlNets that act; `None` when cancelled.
    pub fn residuals(&self, input: &Tensor) -> Option<Rc<ControlNetResiduals>> {
        match self.controls {
            Some((controls, modulations)) => controls.residuals(input, modulations, self.hooks),
            None => Some(Rc::default()),
        }
    }
}
