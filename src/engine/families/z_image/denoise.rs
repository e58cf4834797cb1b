//! Stage 3, from noise to latents: what of the job's files the walk is given.
//!
//! What it begins with and the steps themselves are every picture's.

use std::cell::RefCell;

use safelight_core::job::{ControlSettings, GenerateRequest};
use safelight_core::networks::{NetworkConfig as _, SchedulerConfig, ZImageTransformerConfig};
use tch::{Device, Kind, Tensor};

use super::control::{Acting, ControlModulations, ZImageControl};
use super::transformer::{Context, Modulations, TIMESTEPS, ZImageTransformer};
use crate::capture::Capture;
use crate::controls::{self, ControlNetworks};
use crate::denoise::{Call, DenoiseState, fits};
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::sampling::FlowSchedule;
use crate::stages::stills::{
    BASE_STRENGTH, Beginning, GivenImages, LatentShape, StillModel, corner_mask,
};
use crate::step_cache::Shortcut;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::Work;

/// The published shift of Turbo, for files that come without a scheduler and requests that say none.
const SHIFT: f64 = 3.0;

/// Its latents are not packed: `(B, C, h, w)`.
pub(super) struct Asked<'a> {
    pub(super) transformer: &'a ZImageTransformer,
    pub(super) shape: LatentShape,
    pub(super) controls: Vec<Controlled<'a>>,
    /// Which of them act in the call that is made.
    pub(super) acting: RefCell<Vec<bool>>,
}

pub(super) struct Controlled<'a> {
    network: &'a ZImageControl,
    /// Of [`ZImageControl::embedded`].
    picture: Tensor,
    settings: &'a ControlSettings,
}

impl StillModel for Asked<'_> {
    type Context = Context;
    type Told = (Modulations, Vec<ControlModulations>);

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

    fn num_blocks(&self) -> usize {
        self.transformer.num_blocks()
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

    fn told(&self, timesteps: &[f32], _context: &Context) -> Vec<Self::Told> {
        let times = self.transformer.told(timesteps);
        let own = self.transformer.modulations(&times).into_iter();
        let mut told: Vec<Self::Told> = own.map(|own| (own, Vec::new())).collect();
        for control in &self.controls {
            let own = control.network.modulations(&times);
            for ((_, all), own) in told.iter_mut().zip(own) {
                all.push(own);
            }
        }
        told
    }

    fn begins(&self, call: &Call, _first: i64) {
        let acts = |it: &Controlled<'_>| it.settings.acts_in(call.step, call.num_steps);
        self.acting
            .replace(self.controls.iter().map(acts).collect());
    }

    fn answer(
        &self,
        input: &Tensor,
        (told, of_controls): &Self::Told,
        context: &Context,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let acting = self.acting.borrow();
        let controls = self.controls.iter().zip(of_controls).zip(&*acting);
        let controls = controls.filter(|(_, acts)| **acts);
        let controls: Vec<Acting<'_>> = controls
            .map(|((control, told), _)| Acting {
                network: control.network,
                picture: &control.picture,
                strength: control.settings.strength,
                told,
            })
            .collect();
        self.transformer
            .forward_controlled(input, told, context, (shortcut, &controls), hooks)
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
    let networks =
        work.control_networks(home, ZImageControl::new, ZImageControl::unexpected_keys)?;
    let weights = super::with_loras(&work.place.open(home)?, &request.loras)?;
    let config = ZImageTransformerConfig::read(home)?;
    let shape = LatentShape::new(config.in_channels, request.width, request.height)?;
    let job = Beginning {
        request,
        image: given.and_then(|given| given.image.as_ref()),
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
    let latents = given.map_or(&[][..], |given| &given.controls);
    let model = Asked {
        controls: controlled(request, &networks, latents, &transformer)?,
        acting: RefCell::default(),
        transformer: &transformer,
        shape,
    };
    job.walk(&model, embeds, solver, (&draws, kept), resume, work)
}

/// `latents`: of each control picture, `(1, C, h, w)`
fn controlled<'a>(
    request: &'a GenerateRequest,
    networks: &'a ControlNetworks<ZImageControl>,
    latents: &[Tensor],
    transformer: &ZImageTransformer,
) -> Result<Vec<Controlled<'a>>, EngineError> {
    if latents.len() != request.controls.len() {
        let reason = "the control pictures of the job are not all there";
        return Err(EngineError::internal(reason));
    }
    let each = request.controls.iter().zip(networks.each()).zip(latents);
    let each = each.map(|((control, network), latents)| {
        if let Some(problem) = network.problem(transformer.config()) {
            return Err(controls::unfit(&problem, control));
        }
        Ok(Controlled {
            picture: network.embedded(transformer, latents),
            network,
            settings: &control.settings,
        })
    });
    each.collect()
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
