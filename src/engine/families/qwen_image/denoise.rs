//! Stage 3, from noise to latents: what of the job's files the walk is given.
//!
//! What it begins with and the steps themselves are every picture's.

use safelight_core::job::GenerateRequest;
use safelight_core::networks::{NetworkConfig as _, QwenImageTransformerConfig, SchedulerConfig};
use tch::{Device, Kind, Tensor};

use super::control::QwenImageControl;
use super::measured::measured;
use super::transformer::{Context, Modulations, QwenImageTransformer, Reference};
use crate::capture::Capture;
use crate::controls::acting::{Controls, ToldControls};
use crate::denoise::{Call, DenoiseState, fits};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{
    BASE_STRENGTH, Beginning, GivenImages, Kept, LatentShape, StillModel, corner_mask, record_mask,
};
use crate::step_cache::{Measured, Shortcut};
use crate::streams::MakeResiduals;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::Work;

pub(super) struct Asked<'a> {
    pub(super) transformer: &'a QwenImageTransformer,
    pub(super) shape: LatentShape,
    /// Pictures that are seen beside the one that is made.
    pub(super) references: Vec<Reference>,
    pub(super) controls: Controls<'a, QwenImageControl>,
}

impl StillModel for Asked<'_> {
    type Context = Context;
    type Told = (Modulations, ToldControls);

    const KEEPS_LENGTH: bool = true;

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
        fits(&text.prompt, &[1, -1, width])
    }

    fn fault(&self, _pictures: i64) -> Option<String> {
        let width = self.transformer.config().in_channels;
        let mut seen = self.references.iter();
        let are_fit = seen.all(|seen| {
            let tokens = seen.grid.iter().product();
            fits(&seen.tokens, &[1, tokens, width])
        });
        (!are_fit).then(|| "the latents of the reference pictures are not this model's".to_owned())
    }

    fn at_once(&self, pictures: i64) -> i64 {
        let has_references = !self.references.is_empty();
        self.transformer.at_once(pictures, has_references)
    }

    fn context(
        &self,
        text: &TextEmbeds,
        pictures: i64,
        _hooks: &dyn Hooks,
    ) -> Result<Context, EngineError> {
        let (text, grid) = (&text.prompt, self.shape.grid());
        let references = &self.references;
        self.controls.read(|network, _| {
            let rope = self.transformer.rope(text.size()[1], &[grid], pictures);
            Ok(network.text(text, rope))
        })?;
        Ok(self.transformer.context(text, grid, references, pictures))
    }

    fn told(&self, timesteps: &[f32], _context: &Context) -> Vec<Self::Told> {
        let own = self.transformer.modulations(timesteps).into_iter();
        own.zip(self.controls.told(timesteps)).collect()
    }

    fn begins(&self, call: &Call, first: i64) {
        self.controls.begins(call, first);
    }

    fn answer(
        &self,
        input: &Tensor,
        (told, of_controls): &Self::Told,
        context: &Context,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let make = || self.controls.residuals(input, of_controls, hooks);
        let make: MakeResiduals<'_> = if self.controls.act() {
            Some(&make)
        } else {
            None
        };
        self.transformer
            .forward_controlled(input, told, context, (shortcut, make), hooks)
    }

    fn measured(&self, num_calls: usize) -> Measured {
        measured(!self.references.is_empty(), num_calls)
    }

    fn drawn(&self, noise: &Tensor) -> Tensor {
        // b c h w -> b 1 c h w
        noise.unsqueeze(1)
    }

    fn record(&self, kept: Option<&Kept>, capture: &mut Capture) {
        record_mask(kept, capture);
        if !self.references.is_empty() {
            let seen: Vec<&Tensor> = self.references.iter().map(|seen| &seen.tokens).collect();
            capture.put("image_latents", &Tensor::cat(&seen, 1));
        }
    }
}

/// `given`: what the stage of given pictures gave; `resume`: where an earlier run got to -> the latents,
/// `(B, C, h, w)` on the CPU.
pub fn denoise(
    embeds: &PromptEmbeds,
    given: Option<&GivenImages>,
    resume: Option<DenoiseState>,
    work: &mut Work<'_>,
) -> Result<Tensor, EngineError> {
    let request = work.request;
    let home = &request.files.transformer;
    let networks = work.control_networks(
        home,
        QwenImageControl::new,
        QwenImageControl::unexpected_keys,
    )?;
    let weights = super::with_loras(&work.place.open(home)?, &request.loras)?;
    let config = QwenImageTransformerConfig::read(home)?;
    let shape = LatentShape::new(config.latent_channels(), request.width, request.height)?;
    let job = Beginning {
        request,
        image: given.and_then(|given| given.image.as_ref()),
        shape,
        strength: BASE_STRENGTH,
        drawn_controls: request.controls.len(),
    };
    let mut solver = schedule(request)?.solver(request, shape.tokens(), job.steps()?)?;
    solver.set_draws_before(job.draws_per_seed());
    let draws = job.draws()?;
    let kept = job.kept(&draws, corner_mask);
    let references = references(given)?;
    let new = |w: &_| QwenImageTransformer::new(&config, w);
    let unexpected = QwenImageTransformer::unexpected_keys;
    let transformer = work.transformer("transformer", home, || Ok(weights), new, unexpected)?;
    let latents = given.map_or(&[][..], |given| &given.controls);
    let model = Asked {
        controls: Controls::new(&request.controls, &networks, latents, (config.dim(), shape))?,
        transformer: &transformer,
        shape,
        references,
    };
    job.walk(&model, embeds, solver, (&draws, kept), resume, work)
}

/// The pictures that are seen, as tokens.
fn references(given: Option<&GivenImages>) -> Result<Vec<Reference>, EngineError> {
    let latents = given.into_iter().flat_map(|given| &given.references);
    let references = latents.map(|latents| {
        let own = LatentShape::of(latents)?;
        Ok(Reference {
            tokens: own.pack(latents),
            grid: own.grid(),
        })
    });
    references.collect()
}

/// The model's own flow-match Euler, whose shift goes with the size.
pub(super) fn schedule(request: &GenerateRequest) -> Result<FlowSchedule, EngineError> {
    let config = match request.files.scheduler.as_deref() {
        Some(folder) => SchedulerConfig::read_flow_match_euler(folder)?,
        None => SchedulerConfig::of_qwen_image(),
    };
    Ok(FlowSchedule::of(config))
}
