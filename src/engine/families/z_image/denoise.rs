//! Stage 3, from noise to latents: what of the job's files the walk is given.
//!
//! What it begins with and the steps themselves are every picture's.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{NetworkConfig as _, SchedulerConfig, ZImageTransformerConfig};
use tch::{Device, Kind, Tensor};

use super::transformer::{Context, Modulations, TIMESTEPS, ZImageTransformer};
use crate::capture::Capture;
use crate::denoise::{DenoiseState, fits};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{
    BASE_STRENGTH, Beginning, GivenImage, LatentShape, StillModel, corner_mask,
};
use crate::step_cache::CallCache;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::Work;

/// The published shift of Turbo, for files that come without a scheduler and requests that say none.
const SHIFT: f64 = 3.0;

/// Its latents are not packed: `(B, C, h, w)`.
struct Asked<'a> {
    transformer: &'a ZImageTransformer,
    shape: LatentShape,
}

impl StillModel for Asked<'_> {
    type Context = Context;
    type Told = Modulations;

    fn place(&self) -> (Device, Kind) {
        (self.transformer.device(), self.transformer.kind())
    }

    fn shape(&self) -> LatentShape {
        self.shape
    }

    fn size(&self) -> Vec<i64> {
        let [_, channels, height, width] = self.shape.size();
        vec![-1, channels, height, width]
    }

    fn reads(&self, text: &TextEmbeds) -> bool {
        fits(
            &text.prompt,
            &[1, -1, self.transformer.config().cap_feat_dim],
        )
    }

    fn context(
        &self,
        text: &TextEmbeds,
        _pictures: i64,
        hooks: &dyn Hooks,
    ) -> Result<Context, EngineError> {
        let size = [self.shape.height, self.shape.width];
        let context = self.transformer.context(&text.prompt, size, hooks);
        context.ok_or(EngineError::Cancelled)
    }

    fn told(&self, timesteps: &[f32], _context: &Context) -> Vec<Modulations> {
        self.transformer.modulations(timesteps)
    }

    fn answer(
        &self,
        input: &Tensor,
        told: &Modulations,
        context: &Context,
        cache: CallCache<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.transformer
            .forward_cached(input, told, context, cache, hooks)
    }

    /// An answer points from noise to picture, and the sampler wants the other way.
    fn velocity(&self, answer: &Tensor) -> Tensor {
        answer.neg()
    }

    fn time(&self, timestep: f32) -> f32 {
        (TIMESTEPS - timestep) / TIMESTEPS
    }

    fn record_text(&self, text: &TextEmbeds, branch: &str, capture: &mut Capture) {
        capture.put(format!("transformer.in.{branch}.cap_feats"), &text.prompt);
    }

    fn packed(&self, latents: &Tensor) -> Tensor {
        latents.shallow_clone()
    }

    fn unpacked(&self, latents: &Tensor) -> Tensor {
        latents.shallow_clone()
    }
}

/// `image`: what the stage of a given picture gave; `resume`: where an earlier run got to -> the latents,
/// `(B, C, h, w)` on the CPU.
pub fn denoise(
    embeds: &PromptEmbeds,
    image: Option<&GivenImage>,
    resume: Option<DenoiseState>,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let request = work.request;
    let home = &request.files.transformer;
    let weights = super::with_loras(&work.place.open(home)?, &request.loras)?;
    let config = ZImageTransformerConfig::read(home)?;
    let shape = LatentShape::new(config.in_channels, request.width, request.height)?;
    let job = Beginning {
        request,
        image,
        shape,
        strength: BASE_STRENGTH,
        drawn_controls: 0,
    };
    let mut solver = schedule(request)?.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = job.draws()?;
    let kept = job.kept(&draws, corner_mask);
    let new = |w: &_| ZImageTransformer::new(&config, w);
    let unexpected = ZImageTransformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let model = Asked {
        transformer: &transformer,
        shape,
    };
    job.walk(&model, embeds, solver, (&draws, kept), resume, work)
}

/// The model's own flow-match Euler.
pub(super) fn schedule(request: &GenerateRequest) -> Result<FlowSchedule, EngineError> {
    let config = match request.files.scheduler.as_deref() {
        Some(folder) => SchedulerConfig::read_flow_match_euler(folder)?,
        None => SchedulerConfig::of_shift(SHIFT),
    };
    let mut schedule = FlowSchedule::of(config);
    schedule.is_in_single = true;
    Ok(schedule)
}
