//! Stage 3, from noise to latents: what of the job's files the walk is given.
//!
//! What it begins with and the steps themselves are every picture's.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{Krea2TransformerConfig, NetworkConfig as _, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::transformer::{Context, Krea2Transformer, Modulations};
use crate::denoise::{DenoiseState, fits};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{
    BASE_STRENGTH, Beginning, GivenImage, LatentShape, StillModel, corner_mask,
};
use crate::step_cache::Shortcut;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::Work;

/// Sizes, in tokens, between which the published shift goes from one end to the other.
const TOKENS: [i64; 2] = [256, 6400];
/// What timesteps are counted in.
const TIMESTEPS: f32 = 1000.0;

pub(super) struct Asked<'a> {
    pub(super) transformer: &'a Krea2Transformer,
    pub(super) shape: LatentShape,
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

    fn num_blocks(&self) -> usize {
        self.transformer.num_blocks()
    }

    fn reads(&self, text: &TextEmbeds) -> bool {
        let config = self.transformer.config();
        let width = config.num_text_layers * config.text_hidden_dim;
        fits(&text.prompt, &[1, -1, width])
    }

    fn context(
        &self,
        text: &TextEmbeds,
        _pictures: i64,
        hooks: &dyn Hooks,
    ) -> Result<Context, EngineError> {
        let grid = self.shape.grid();
        let context = self.transformer.context(&text.prompt, grid, hooks);
        context.ok_or(EngineError::Cancelled)
    }

    fn told(&self, timesteps: &[f32], _context: &Context) -> Vec<Modulations> {
        let times: Vec<f32> = timesteps.iter().map(|t| t / TIMESTEPS).collect();
        self.transformer.modulations(&times)
    }

    fn answer(
        &self,
        input: &Tensor,
        told: &Modulations,
        context: &Context,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.transformer
            .forward_cached(input, told, context, shortcut, hooks)
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
    let config = Krea2TransformerConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels(), request.width, request.height)?;
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
    let new = |w: &_| Krea2Transformer::new(&config, w);
    let unexpected = Krea2Transformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let model = Asked {
        transformer: &transformer,
        shape,
    };
    job.walk(&model, embeds, solver, (&draws, kept), resume, work)
}
/// The model's own flow-match Euler, whose shift goes with the size; Turbo's requests say theirs.
pub(super) fn schedule(request: &GenerateRequest) -> Result<FlowSchedule, EngineError> {
    let config = match request.files.scheduler.as_deref() {
        Some(folder) => SchedulerConfig::read_flow_match_euler(folder)?,
        None => SchedulerConfig::of_tokens(TOKENS),
    };
    let mut schedule = FlowSchedule::of(config);
    schedule.is_exponential = true;
    Ok(schedule)
}
