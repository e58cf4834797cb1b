//! Stage 3, from noise to latents: what of the job's files the walk is given.
//!
//! What it begins with and the steps themselves are every picture's.

use safelight_core::networks::{ChromaTransformerConfig, NetworkConfig as _, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::transformer::{ChromaTransformer, Context};
use crate::capture::Capture;
use crate::denoise::{DenoiseState, fits};
use crate::error::EngineError;
use crate::families::flux::{image_ids, text_ids};
use crate::hooks::Hooks;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{
    BASE_STRENGTH, Beginning, GivenImage, Kept, LatentShape, StillModel, corner_mask, record_mask,
    record_places,
};
use crate::step_cache::Shortcut;
use crate::streams::Modulations;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::Work;

/// The shift of files that come without a scheduler: none.
const SHIFT: f64 = 1.0;

pub(super) struct Asked<'a> {
    pub(super) transformer: &'a ChromaTransformer,
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
        let width = self.transformer.config().joint_attention_dim;
        let length = text.prompt.size().get(1).copied().unwrap_or(0);
        let has_mask = text.mask.as_ref().is_some_and(|it| fits(it, &[1, length]));
        has_mask && fits(&text.prompt, &[1, length, width])
    }

    fn context(
        &self,
        text: &TextEmbeds,
        pictures: i64,
        _hooks: &dyn Hooks,
    ) -> Result<Context, EngineError> {
        let mask = text.mask.as_ref();
        let mask =
            mask.ok_or_else(|| EngineError::internal("the embeddings of a text have no mask"))?;
        let (transformer, shape) = (self.transformer, self.shape);
        Ok(transformer.context(&text.prompt, mask, shape, pictures))
    }

    fn told(&self, timesteps: &[f32], _context: &Context) -> Vec<Modulations> {
        self.transformer.modulations(timesteps)
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

    fn record(&self, kept: Option<&Kept>, capture: &mut Capture) {
        record_mask(kept, capture);
        capture.put("latent_image_ids", &image_ids(self.shape));
    }

    fn record_text(&self, text: &TextEmbeds, branch: &str, capture: &mut Capture) {
        let txt_ids = text_ids(text.prompt.size()[1]);
        record_places(branch, &txt_ids, &image_ids(self.shape), capture);
        let name = |part: &str| format!("transformer.in.{branch}.{part}");
        capture.put(name("encoder_hidden_states"), &text.prompt);
        if let Some(mask) = &text.mask {
            let picture = Tensor::ones([1, self.shape.tokens()], (mask.kind(), mask.device()));
            capture.put(name("attention_mask"), &Tensor::cat(&[mask, &picture], 1));
        }
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
    let config = ChromaTransformerConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels(), request.width, request.height)?;
    let job = Beginning {
        request,
        image,
        shape,
        strength: BASE_STRENGTH,
        drawn_controls: 0,
    };
    let schedule = FlowSchedule::of(match request.files.scheduler.as_deref() {
        Some(folder) => SchedulerConfig::read_flow_match_euler(folder)?,
        None => SchedulerConfig::of_shift(SHIFT),
    });
    let mut solver = schedule.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = job.draws()?;
    let kept = job.kept(&draws, corner_mask);
    let new = |w: &_| ChromaTransformer::new(&config, w);
    let unexpected = ChromaTransformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let model = Asked {
        transformer: &transformer,
        shape,
    };
    job.walk(&model, embeds, solver, (&draws, kept), resume, work)
}
