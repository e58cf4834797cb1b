//! Stage 3, from noise to latents: what of the job's files the walk is given.
//!
//! What it begins with and the steps themselves are those of every picture whose latents are packed.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{Krea2TransformerConfig, NetworkConfig as _, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::transformer::{Context, Krea2Transformer, Modulations};
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{
    Beginning, GivenImage, LatentShape, TokenConditions, TokenModel, walk_tokens,
};
use crate::text::PromptEmbeds;
use crate::work::Work;

/// Sizes, in tokens, between which the published shift goes from one end to the other.
const TOKENS: [i64; 2] = [256, 6400];
/// What timesteps are counted in.
const TIMESTEPS: f32 = 1000.0;

impl TokenModel for Krea2Transformer {
    type Context = Context;
    type Told = Modulations;

    fn place(&self) -> (Device, Kind) {
        (self.device(), self.kind())
    }

    fn widths(&self) -> [i64; 2] {
        let config = self.config();
        let text = config.num_text_layers * config.text_hidden_dim;
        [config.in_channels, text]
    }

    fn context(&self, text: &Tensor, grid: [i64; 2], hooks: &dyn Hooks) -> Option<Context> {
        Self::context(self, text, grid, hooks)
    }

    fn told(&self, timesteps: &[f32]) -> Vec<Modulations> {
        let times: Vec<f32> = timesteps.iter().map(|t| t / TIMESTEPS).collect();
        self.modulations(&times)
    }

    fn answer(
        &self,
        tokens: &Tensor,
        told: &Modulations,
        context: &Context,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        self.forward(tokens, told, context, hooks)
    }
}

/// `image`: what the stage of a given picture gave; `resume`: where an earlier run got to -> the latents,
/// `(B, C, h, w)` on the CPU.
pub fn denoise(
    embeds: PromptEmbeds,
    image: Option<&GivenImage>,
    resume: Option<DenoiseState>,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let (request, place, hooks) = (work.request, work.place, work.hooks);
    let home = &request.files.transformer;
    let weights = super::with_loras(&place.open(home)?, &request.loras)?;
    let config = Krea2TransformerConfig::read(home)?;
    let channels = config.latent_channels();
    let shape = LatentShape::new(channels, request.width, request.height)?;
    let job = Beginning {
        request,
        image,
        shape,
    };
    let mut solver = schedule(request)?.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = job.draws()?;
    let pack = |xs: &Tensor| shape.pack(&xs.expand([-1, channels, -1, -1], false));
    let conditions = TokenConditions {
        prompt: embeds.prompt,
        negative: embeds.negative,
        guidance_scale: request.sampling.guidance_scale,
        kept: job.kept(&draws).map(|kept| kept.map(pack)),
    };
    let pictures = i64::from(request.batch_size);
    let size = [pictures, shape.tokens(), config.in_channels];
    let resumed = resume.and_then(|state| state.resumed(&size, &mut solver, place.device, hooks));
    let state = match resumed {
        Some(state) => state,
        None => DenoiseState::first(&solver, pack(&job.latents(&draws, &solver))),
    };
    draws.record(conditions.kept.as_ref(), work.capture);

    let new = |w: &_| Krea2Transformer::new(&config, w);
    let unexpected = Krea2Transformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let behind = walk_tokens(
        &*transformer,
        shape,
        &conditions,
        &mut solver,
        &state,
        work.capture,
        hooks,
    )?;
    Ok(shape.unpack(&behind.latents))
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
