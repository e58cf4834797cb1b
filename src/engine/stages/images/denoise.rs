//! The denoising loop of single images: from the files of a job to latents.
//!
//! Samplers compute steps, transformers predict velocities, `crate::denoise` runs the loop.

use safelight_core::job::BlockSet;
use safelight_core::networks::DenoiserConfig as _;
use tch::{Device, Kind, Tensor};

use super::controlnet::{ActiveControlNets, ControlNet as _};
use super::encode::StartImageMode;
use super::latents::{InpaintBlend, NoiseDraws, seeds};
use super::model::{
    CANVAS_STRENGTH, CapturedInputs, ContextInput, ControlModulation, ForwardPass,
    ImageConditioning, ImageModel, LatentForm, ReferenceTokens, WeightsDialect, captured_timestep,
    is_mean, latent_mask, num_sampled_controls, packed, packed_size, unpacked, velocity,
};
use super::state::EncodedImages;
use crate::controls::LoadedControls;
use crate::denoise::{Denoiser, ModelCall, ModulationCache, begin, fits, walk};
use crate::guidance::{GuidanceScales, GuidedPasses};
use crate::hooks::DenoiseState;
use crate::placement::ComputePlacement;
use crate::sampling::{NoiseSpace, Solver, steps_from_image, wanted_steps};
use crate::step_cache::ContextCaches;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::{EngineError, Hooks, StageCapture, StageWork, Weights};

/// Runs the denoising loop of a job, or the rest of it from where an earlier run stopped -> latents, `(B, C, h, w)` on the
/// CPU
pub fn denoise<M: ImageModel>(
    embeds: &PromptEmbeds,
    images: &EncodedImages,
    resume: Option<DenoiseState>,
    work: &mut StageWork<'_>,
) -> Result<Tensor, EngineError> {
    let (request, mode) = (work.request, StartImageMode::of(work.request));
    let home = &request.files.transformer;
    let config = M::read_config(home, &request.loras)?;
    let channels = config.latent_channels();
    let shape = M::LATENTS.shape(channels, request.width, request.height)?;
    let condition = M::condition(&config, images, mode, shape)?;
    let networks = if condition.is_none() {
        M::Control::load(home, work)?
    } else {
        LoadedControls::default()
    };
    let weights = work.place.open(home)?;
    let weights = WeightsDialect::of::<M>(&weights).with_loras(&weights, &request.loras)?;

    let image = images.image.as_ref();
    let steps = match (image, mode) {
        (None, _) => wanted_steps(request),
        (Some(_), mode) => {
            let default = match mode {
                StartImageMode::Canvas => CANVAS_STRENGTH,
                StartImageMode::Base => M::STRENGTH,
            };
            let strength = request.sampling.strength.unwrap_or(default);
            steps_from_image(request, strength)?
        }
    };
    let mut solver = M::solver(&config, request, shape.tokens(), steps)?;

    let draws = if M::LATENTS == LatentForm::FoldedTokens {
        let draws = NoiseDraws::new(shape.folded(), 1, seeds(request))?;
        NoiseDraws {
            noise: shape.unfolded(&draws.noise),
            ..draws
        }
    } else {
        let num_controls = num_sampled_controls::<M>(images.controls.len());
        let is_mean = is_mean::<M>(request);
        let of_image = image.map_or(0, |image| 1 + usize::from(image.mask.is_some()));
        solver.set_draws_before(num_controls + 1 + of_image - usize::from(is_mean));
        let of_image = if is_mean { 0 } else { of_image };
        NoiseDraws::after_controls(num_controls, shape, 1 + of_image, seeds(request))?
    };
    let noise = draws.noise.shallow_clone();
    let latents = match image {
        // Nothing of the image would be kept.
        Some(image) if solver.all_calls().start == 0 && image.mask.is_some() => {
            solver.initial(noise)
        }
        Some(image) => {
            let image = image.latents.to_device(Device::Cpu);
            let first = solver.all_calls().start;
            solver
                .space()
                .noised(&image, &noise, solver.sigmas()[first])
        }
        None => solver.initial(noise),
    };
    let inpaint = image.filter(|_| mode == StartImageMode::Base);
    let inpaint = inpaint.and_then(|image| {
        let inpaint = InpaintBlend {
            image: image.latents.to_kind(Kind::Float).expand_as(&draws.noise),
            noise: draws.noise.shallow_clone(),
            mask: latent_mask::<M>(image.mask.as_ref()?, shape),
        };
        Some(inpaint.map(|xs| packed::<M>(xs, shape)))
    });

    let new = |w: &_| M::new(&config, w);
    let unexpected = |w: &Weights| WeightsDialect::of::<M>(w).unexpected_keys(w);
    let model = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let controls = if networks.is_empty() && images.controls.len() == request.controls.len() {
        ActiveControlNets::default()
    } else {
        let (controls, networks) = (&request.controls, networks.each());
        ActiveControlNets::new(controls, networks, &images.controls, &model, shape)?
    };
    let device = work.place.device;
    let conditioning = ImageConditioning {
        shape,
        prompt: &embeds.prompt,
        negative: embeds.negative.as_ref(),
        guidance: GuidanceScales::from_request(request),
        step_cache: request.options.step_cache,
        inpaint,
        condition: condition.map(|xs| xs.to_device(device).to_kind(Kind::Float)),
        references: ReferenceTokens::new(images.seen(M::SEES_START_IMAGE), shape, device)?,
        controls,
    };

    let latents = packed::<M>(&latents, shape);
    let state = DenoiseState::new(resume, latents, &mut solver, device, work.hooks);
    let number = draws.controls.len() + usize::from(draws.posterior.is_some());
    let noise = M::noise_for_capture(&draws.noise);
    work.capture.put(format!("noise.{number}"), &noise);
    let (place, capture, hooks) = (work.place, &mut *work.capture, work.hooks);
    let end = denoise_latents(
        &*model,
        conditioning,
        &mut solver,
        &state,
        place,
        capture,
        hooks,
    )?;
    Ok(unpacked::<M>(&end.latents, shape))
}

/// Runs the solver's steps from `state` on, whose latents are in f32 in the model's form -> state after the last step, on
/// the CPU
pub fn denoise_latents<M: ImageModel>(
    model: &M,
    conditioning: ImageConditioning<'_, M>,
    solver: &mut Solver,
    state: &DenoiseState,
    place: ComputePlacement,
    capture: &mut StageCapture,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    tch::no_grad(|| {
        let size = state.latents.size();
        if !fits(&state.latents, &packed_size::<M>(conditioning.shape)) {
            let reason = format!("these are no latents of this model: {size:?}");
            return Err(EngineError::internal(reason));
        }
        if let Some(reason) = conditioning.error(model, &size) {
            return Err(EngineError::internal(reason));
        }
        conditioning
            .guidance
            .real
            .check_blocks(model.config().shape().layers as usize)?;
        begin(state, solver, place.device, capture)?;
        let run = ImageDenoiser::new(model, conditioning, solver, size[0], place.device, hooks)?;
        run.record(capture);
        let end = solver.all_calls().end;
        let last = walk(&run, state, end, solver, place, capture, hooks)?;
        let caches = run.passes.first().caches.first();
        if let Some(num_skipped) = caches.and_then(ContextCaches::num_skipped) {
            hooks.report_skipped_calls(num_skipped, solver.all_calls().len());
        }
        Ok(last.last())
    })
}

/// Modulation of the transformer and of its ControlNets for one timestep.
type AllModulations<M> = (<M as ImageModel>::Modulation, Vec<ControlModulation<M>>);

struct CachedContext<M: ImageModel> {
    context: M::Context,
    /// Per batch of images.
    caches: Vec<ContextCaches>,
    /// In models whose modulations depend on the pooled text.
    modulations: ModulationCache<AllModulations<M>>,
}

struct ImageDenoiser<'a, M: ImageModel> {
    model: &'a M,
    conditioning: ImageConditioning<'a, M>,
    passes: GuidedPasses<CachedContext<M>>,
    modulations: ModulationCache<AllModulations<M>>,
    /// On the model's device.
    inpaint: Option<InpaintBlend>,
    /// Images per call.
    batch: i64,
    /// Timestep of every call of the whole schedule.
    timesteps: Vec<f32>,
    space: NoiseSpace,
    hooks: &'a dyn Hooks,
}

impl<'a, M: ImageModel> ImageDenoiser<'a, M> {
    fn new(
        model: &'a M,
        conditioning: ImageConditioning<'a, M>,
        solver: &Solver,
        num_images: i64,
        device: Device,
        hooks: &'a dyn Hooks,
    ) -> Result<Self, EngineError> {
        // A step cache decides for each image alone, so that each is the one that its seed makes. On the CPU, matrix
        // products of other row counts round differently and batching gains nothing.
        let is_alone = conditioning.step_cache.is_some() || device == Device::Cpu;
        let batch = if is_alone || !model.takes_batches(&conditioning) {
            1
        } else {
            num_images
        };
        let timesteps = solver.all_timesteps();
        let num_calls = timesteps.len();
        let read = |text: &TextEmbeds| {
            let calibration = || model.calibration(&conditioning, num_calls);
            let caches = || ContextCaches::new(conditioning.step_cache, num_calls, calibration);
            Ok(CachedContext {
                context: model.context(&ContextInput {
                    text,
                    conditioning: &conditioning,
                    num_images: batch,
                    timesteps: &timesteps,
                    hooks,
                })?,
                caches: (0..num_images).map(|_| caches()).collect(),
                modulations: ModulationCache::default(),
            })
        };
        let (prompt, negative) = (conditioning.prompt, conditioning.negative);
        let mut passes = GuidedPasses::new(prompt, negative, conditioning.guidance.real, read)?;
        if M::RESCALES_TO_COND {
            passes = passes.rescaled_to_cond();
        }
        let inpaint = conditioning.inpaint.as_ref();
        Ok(Self {
            passes,
            modulations: ModulationCache::default(),
            inpaint: inpaint.map(|inpaint| inpaint.to_device(device)),
            batch,
            timesteps,
            space: solver.space(),
            model,
            conditioning,
            hooks,
        })
    }

    /// Predictions for all images, batch by batch; `without`: blocks to skip.
    fn predict(
        &self,
        cached: &CachedContext<M>,
        input: &Tensor,
        call: &ModelCall,
        without: BlockSet,
    ) -> Option<Tensor> {
        let (model, controls) = (self.model, &self.conditioning.controls);
        let context = &cached.context;
        let modulations = if self.conditioning.prompt.pooled.is_some() {
            &cached.modulations
        } else {
            &self.modulations
        };
        let make = |timesteps: &[f32]| {
            let own = model.modulations(timesteps, context).into_iter();
            own.zip(controls.modulations(model, timesteps)).collect()
        };
        let modulation = modulations.at(call.index, &self.timesteps, make);
        let (own, of_controls) = &*modulation;
        let batches = input.split(self.batch, 0).into_iter().zip(&cached.caches);
        let predictions = batches.enumerate().map(|(index, (images, caches))| {
            caches.answer(call.index, without, |skip| {
                controls.on_call(call, index as i64 * self.batch);
                let pass = ForwardPass {
                    context,
                    modulation: own,
                    skip,
                    controls: Some((controls, of_controls)),
                    hooks: self.hooks,
                };
                model.predict(&images, &pass)
            })
        });
        let predictions = predictions.collect::<Option<Vec<_>>>()?;
        Some(Tensor::cat(&predictions, 0))
    }

    fn record(&self, capture: &mut StageCapture) {
        if !capture.is_on() {
            return;
        }
        let conditioning = &self.conditioning;
        let negative = conditioning.negative.filter(|_| self.passes.is_guided());
        let texts = [("cond", Some(conditioning.prompt)), ("uncond", negative)];
        let texts = texts
            .into_iter()
            .filter_map(|(branch, text)| Some((branch, text?)));
        let texts = texts.collect();
        let inputs = CapturedInputs {
            conditioning,
            texts,
        };
        self.model.record(&inputs, capture);
    }
}

impl<M: ImageModel> Denoiser for ImageDenoiser<'_, M> {
    fn velocity(
        &self,
        latents: &Tensor,
        call: &ModelCall,
        capture: &mut StageCapture,
    ) -> Option<Tensor> {
        let own_latents = self.space.model_latents(latents, call.sigma);
        let input = self.model.model_input(&own_latents, &self.conditioning);
        let timestep = captured_timestep::<M>(call.timestep);
        for (part, xs) in [
            ("hidden_states", &input),
            ("timestep", &Tensor::from_slice(&[timestep])),
        ] {
            capture.put(call.name(&format!("transformer.in.{part}")), xs);
        }
        let own = |prediction: &Tensor| velocity::<M>(prediction, self.conditioning.shape);
        let predict =
            |cached: &CachedContext<M>, without| self.predict(cached, &input, call, without);
        let guided = self.passes.velocity(call, latents, capture, own, predict)?;
        Some(self.space.velocity(guided, latents, call.sigma))
    }

    fn after_step(&self, latents: Tensor, sigma: f32) -> Tensor {
        match &self.inpaint {
            Some(inpaint) => inpaint.blend(&latents, sigma, self.space),
            None => latents,
        }
    }

    fn first_captured_call(&self, first: usize) -> usize {
        first
    }

    fn preview_latents(&self, x0: &Tensor) -> Tensor {
        // b c h w -> 1 c b h w
        unpacked::<M>(x0, self.conditioning.shape)
            .transpose(0, 1)
            .unsqueeze(0)
    }
}
