//! A transformer for images as the generic loop calls it, and everything that conditions it besides the noise.

use std::path::Path;
use std::rc::Rc;

use safelight_core::families::{ModelFamily, lora_target};
use safelight_core::job::{JobFolder, LoraChoice, StepCache as StepCacheChoice};
use safelight_core::lora::{Expert, LoraTarget};
use safelight_core::networks::dialects::TensorKeys;
use safelight_core::networks::{DenoiserConfig, NetworkConfig as _};
use tch::{Device, Kind, Tensor};

use super::controlnet::{ActiveControlNets, ControlNet, StreamControlNet};
use super::encode::{ReferenceEncoding, StartImageMode};
use super::latents::{ImageLatentShape, InpaintBlend, corner_mask};
use super::state::EncodedImages;
use crate::guidance::GuidanceScales;
use crate::sampling::FlowSchedule;
use crate::step_cache::{CacheCalibration, SkipOptions};
use crate::streams::ControlNetResiduals;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::{EngineError, Hooks, StageCapture, StageWork, Weights, WeightsError};

/// Denoising strength of image to image, as in most pipelines of diffusers.
const BASE_STRENGTH: f64 = 0.6;

/// A file's weights by the names that a network asks for, in any dialect that its family reads.
pub struct WeightsDialect {
    pub weights: Weights,
    /// Prefix of the network's tensors in the file.
    pub prefix: &'static str,
    /// Layers that LoRAs can change.
    pub lora: LoraTarget,
}

impl WeightsDialect {
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
    /// Set if the start image is a reference, too: both are posterior means, and noise is drawn with two by two latents as
    /// channels.
    const SEES_START_IMAGE: bool = false;
    /// Set if latents of control images are sampled, as in most pipelines of diffusers; else they are posterior means.
    const SAMPLES_CONTROLS: bool = true;
    /// Set if latents are packed two by two into tokens, `(B, tokens, 4 C)`; else they are `(B, C, h, w)`.
    const PACKS: bool = true;
    const MODULATES_BY_TEXT: bool = false;
    /// The reference's name of the text's embeddings.
    const TEXT_INPUT: &'static str = "encoder_hidden_states";
    /// Set if the reference's position ids have an axis for the batch.
    const BATCHED_IDS: bool = false;
    /// Set if guided predictions keep the norm of the conditional ones, token by token.
    const RESCALES_TO_COND: bool = false;

    fn encode_text(
        folder: &JobFolder,
        work: &mut StageWork<'_>,
    ) -> Result<PromptEmbeds, EngineError>;

    /// Encodes image prompts to tokens that follow the prompt's: `(1, L, C)` in f32 on the CPU
    fn encode_image_prompts(_: &JobFolder, _: &mut StageWork<'_>) -> Result<Tensor, EngineError> {
        Err(EngineError::internal("this model reads no image prompts"))
    }

    fn read_config(home: &Path, _loras: &[LoraChoice]) -> Result<Self::Config, EngineError> {
        Ok(Self::Config::read(home)?)
    }

    /// Returns whether ControlNets steer the model, in families that have some.
    fn takes_control_nets(_config: &Self::Config) -> bool {
        true
    }

    /// Schedule of files without a scheduler; the others have their own config in it.
    fn schedule(config: &Self::Config) -> FlowSchedule;

    /// A mask of pixels, `(1, 1, H, W)`, at latent resolution: `(1, 1, h, w)`
    fn latent_mask(mask: &Tensor, _shape: ImageLatentShape) -> Tensor {
        corner_mask(mask)
    }

    /// Checks results of earlier stages before anything is loaded -> channels that the model reads besides the noise in each
    /// token: `(B, tokens, c)`
    fn condition(
        _config: &Self::Config,
        _images: &EncodedImages,
        _mode: StartImageMode,
        _shape: ImageLatentShape,
    ) -> Result<Option<Tensor>, EngineError> {
        Ok(None)
    }

    /// The weights of a file by the names that [`new`](Self::new) asks for.
    fn dialect(w: &Weights) -> WeightsDialect {
        let keys = TensorKeys::<Self::Config>::of(|key| w.has(key));
        WeightsDialect {
            prefix: keys.prefix,
            lora: lora_target(Self::FAMILY, keys.is_diffusers),
            weights: w.translated(move |name| keys.file_key(name)),
        }
    }

    /// `w`: the file's own names, in any dialect.
    fn new(config: &Self::Config, w: &Weights) -> Result<Self, WeightsError>;

    fn config(&self) -> &Self::Config;

    fn accepts(&self, text: &TextEmbeds) -> bool;

    /// Returns the reason why `conditioning` does not fit a batch of `num_images`.
    fn input_error(&self, _: &ImageConditioning<'_, Self>, _num_images: i64) -> Option<String> {
        None
    }

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

    /// Velocity from image to noise in a prediction, as large as the latents.
    fn velocity(&self, prediction: &Tensor, conditioning: &ImageConditioning<'_, Self>) -> Tensor {
        prediction.narrow(1, 0, conditioning.shape.tokens())
    }

    fn calibration(&self, _: &ImageConditioning<'_, Self>, _num_calls: usize) -> CacheCalibration {
        CacheCalibration::default()
    }

    /// Timestep as the reference records it.
    fn timestep_for_capture(timestep: f32) -> f32 {
        timestep / 1000.0
    }

    /// Noise, `(B, C, h, w)`, as the reference draws it.
    fn noise_for_capture(noise: &Tensor) -> Tensor {
        noise.shallow_clone()
    }

    /// Records inputs under the reference's names.
    fn record(&self, conditioning: &ImageConditioning<'_, Self>, capture: &mut StageCapture) {
        conditioning.record_mask(capture);
    }

    /// Position ids of text tokens and of all image tokens, in models that get them: `(tokens, axes)` each
    fn position_ids(_num_text: i64, _: &ImageConditioning<'_, Self>) -> Option<[Tensor; 2]> {
        None
    }

    /// Distilled guidance as the reference has it, in models with that input.
    fn guidance_input(&self, _distilled: f64) -> Option<f32> {
        None
    }
}

/// Size of latents in the model's form; -1 is any number of images.
pub fn packed_size<M: ImageModel>(shape: ImageLatentShape) -> Vec<i64> {
    if M::PACKS {
        return vec![-1, shape.tokens(), shape.folded().channels];
    }
    vec![-1, shape.channels, shape.height, shape.width]
}

/// `(B, C, h, w)`, where `C` may be 1 for all -> latents in the model's form
pub(super) fn packed<M: ImageModel>(latents: &Tensor, shape: ImageLatentShape) -> Tensor {
    if M::PACKS {
        return shape.pack(&latents.expand([-1, shape.channels, -1, -1], false));
    }
    latents.shallow_clone()
}

/// Latents in the model's form -> `(B, C, h, w)`
pub(super) fn unpacked<M: ImageModel>(latents: &Tensor, shape: ImageLatentShape) -> Tensor {
    if M::PACKS {
        return shape.unpack(latents);
    }
    latents.shallow_clone()
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
    /// `latents`: of each image, `(1, C, h', w')`
    pub fn new<'a>(
        latents: impl Iterator<Item = &'a Tensor>,
        device: Device,
    ) -> Result<Self, EngineError> {
        let (mut shapes, mut tokens) = (Vec::new(), Vec::new());
        for latents in latents {
            let shape = ImageLatentShape::of(latents)?;
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

    /// Latent tokens with channels or tokens besides them.
    pub fn joined_with(&self, latents: &Tensor) -> Tensor {
        match (&self.condition, &self.references.tokens) {
            (Some(channels), _) => Tensor::cat(&[latents, channels], 2),
            (None, Some(tokens)) => {
                let tokens = tokens.expand([latents.size()[0], -1, -1], false);
                Tensor::cat(&[latents, &tokens], 1)
            }
            (None, None) => latents.shallow_clone(),
        }
    }

    pub fn record_mask(&self, capture: &mut StageCapture) {
        if let Some(inpaint) = &self.inpaint {
            capture.put("mask", &inpaint.mask);
        }
    }

    /// Returns the reason why a batch of `num_images` of `model` cannot have this.
    pub(super) fn error(&self, model: &M, size: &[i64]) -> Option<String> {
        let mut texts = std::iter::once(self.prompt).chain(self.negative);
        let channels = self.shape.folded().channels;
        let tokens = self.references.tokens.as_ref();
        if !texts.all(|text| model.accepts(text)) {
            Some("the embeddings of the texts are not what this model reads".to_owned())
        } else if self.inpaint.as_ref().is_some_and(|it| !it.fits(size)) {
            Some("the image's latents are not of this job".to_owned())
        } else if tokens.is_some_and(|tokens| tokens.size()[2] != channels) {
            Some("the latents of the reference images are not this model's".to_owned())
        } else {
            model.input_error(self, size[0])
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
