//! The steps from noise to latents of single pictures: a model's answers, guidance by a negative prompt, what a mask
//! keeps.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's, the loop every family's. Opens no
//! files.

use safelight_core::job::{BlockSet, StepCache as Choice};
use tch::{Device, Kind, Tensor};

use super::begin::{Beginning, Kept};
use super::latents::{Draws, LatentShape};
use crate::capture::Capture;
use crate::denoise::{Call, DenoiseState, Denoiser, Told, begin, fits, walk};
use crate::error::EngineError;
use crate::guidance::{Guidance, Guiding};
use crate::hooks::Hooks;
use crate::place::Placement;
use crate::sampling::Solver;
use crate::step_cache::{Caches, Measured, Shortcut, StepCache};
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::work::Work;

/// A family's transformer with what a job gives it beside latents and texts. Latents are packed, `(B, tokens, 4 C)`, where
/// it does not say otherwise.
pub trait StillModel {
    /// A text as it reads it beside so many pictures.
    type Context;
    /// What it is told of one timestep.
    type Told;

    /// Whether a guided answer is as long as that to the prompt, token by token.
    const KEEPS_LENGTH: bool = false;

    /// Where it computes, and in what.
    fn place(&self) -> (Device, Kind);

    /// Of the pictures that are made.
    fn shape(&self) -> LatentShape;

    /// Of the latents in its form; a negative number is any number.
    fn size(&self) -> Vec<i64> {
        let shape = self.shape();
        vec![-1, shape.tokens(), shape.folded().channels]
    }

    /// How many blocks its transformer has.
    fn num_blocks(&self) -> usize;

    /// Whether a text is what it reads.
    fn reads(&self, text: &TextEmbeds) -> bool;

    /// What is wrong with what it was given beside the texts of so many pictures.
    fn fault(&self, _pictures: i64) -> Option<String> {
        None
    }

    /// How many of so many pictures it is asked for at once.
    fn at_once(&self, pictures: i64) -> i64 {
        // How a product of matrices rounds depends on how many rows it has, and a CPU gains nothing from more.
        match self.place().0 {
            Device::Cpu => 1,
            _ => pictures,
        }
    }

    /// `text`: one that it [reads](Self::reads), `pictures`: that it is asked for at once.
    fn context(
        &self,
        text: &TextEmbeds,
        pictures: i64,
        hooks: &dyn Hooks,
    ) -> Result<Self::Context, EngineError>;

    /// What it is told of each of `timesteps`, as a scheduler has them: 1000 for noise alone.
    fn told(&self, timesteps: &[f32], context: &Self::Context) -> Vec<Self::Told>;

    /// Where that is kept for each text by itself, as it goes with the text, too.
    fn told_with<'a>(&self, _context: &'a Self::Context) -> Option<&'a Told<Self::Told>> {
        None
    }

    /// `latents`: as [`size`](Self::size) says, with what it is shown beside them -> what it is asked with
    fn input(&self, latents: &Tensor) -> Tensor {
        latents.shallow_clone()
    }

    /// Said before each answer: for which call it is, and for which pictures, `first` being the first of them.
    fn begins(&self, _call: &Call, _first: i64) {}

    /// `input`: of as many pictures as it is asked for at once, `shortcut`: its cache of one picture, where there is one
    /// -> its answer in f32; `None` when cancelled
    fn answer(
        &self,
        input: &Tensor,
        told: &Self::Told,
        context: &Self::Context,
        shortcut: Shortcut<'_>,
        hooks: &dyn Hooks,
    ) -> Option<Tensor>;

    /// What was measured of it for step caches, for walks of so many calls.
    fn measured(&self, _num_calls: usize) -> Measured {
        Measured::default()
    }

    /// The velocity from picture to noise in an answer, as large as the latents.
    fn velocity(&self, answer: &Tensor) -> Tensor {
        answer.shallow_clone()
    }

    /// A timestep as the reference records it.
    fn time(&self, timestep: f32) -> f32 {
        timestep / 1000.0
    }

    /// Noise, `(B, C, h, w)`, as the reference draws it.
    fn drawn(&self, noise: &Tensor) -> Tensor {
        noise.shallow_clone()
    }

    /// Records what it was given, under the reference's names; `kept`: in the form of the latents.
    fn record(&self, kept: Option<&Kept>, capture: &mut Capture) {
        record_mask(kept, capture);
    }

    /// The same of a text; `branch`: `cond` for the prompt, `uncond` for the negative one.
    fn record_text(&self, text: &TextEmbeds, branch: &str, capture: &mut Capture) {
        let name = format!("transformer.in.{branch}.encoder_hidden_states");
        capture.put(name, &text.prompt);
    }

    /// `(B, C, h, w)`, of which `C` may be 1 for all -> latents in its form
    fn packed(&self, latents: &Tensor) -> Tensor {
        let shape = self.shape();
        shape.pack(&latents.expand([-1, shape.channels, -1, -1], false))
    }

    /// The other way round.
    fn unpacked(&self, latents: &Tensor) -> Tensor {
        self.shape().unpack(latents)
    }
}

pub fn record_mask(kept: Option<&Kept>, capture: &mut Capture) {
    if let Some(kept) = kept {
        capture.put("mask", &kept.mask);
    }
}

/// Records where the tokens of a text and of its pictures stand, in models that are told so.
pub fn record_places(branch: &str, txt_ids: &Tensor, img_ids: &Tensor, capture: &mut Capture) {
    let prefix = if branch == "uncond" { "negative_" } else { "" };
    capture.put(format!("{prefix}text_ids"), txt_ids);
    capture.put(format!("transformer.in.{branch}.txt_ids"), txt_ids);
    capture.put(format!("transformer.in.{branch}.img_ids"), img_ids);
}

/// What every model is given beside the noise.
pub struct Conditions<'a> {
    pub prompt: &'a TextEmbeds,
    /// Only where the job has guidance.
    pub negative: Option<&'a TextEmbeds>,
    pub guiding: Guiding,
    pub step_cache: Option<Choice>,
    /// What stays as it is, where a mask says so: in the form of the latents.
    pub kept: Option<&'a Kept>,
}

impl Beginning<'_> {
    /// The walk of `model` with what `solver` and `draws` begin it with, or from where an earlier run got to -> the
    /// latents, `(B, C, h, w)` on the CPU. `kept`: what a mask keeps, `(B, C, h, w)`, the mask `(1, 1, h, w)`
    pub fn walk<M: StillModel>(
        &self,
        model: &M,
        embeds: &PromptEmbeds,
        mut solver: Solver,
        (draws, kept): (&Draws, Option<Kept>),
        resume: Option<DenoiseState>,
        work: &mut Work<'_>,
    ) -> Result<Tensor, EngineError> {
        let first = model.packed(&self.latents(draws, &solver));
        let state = DenoiseState::of(resume, first, &mut solver, work.place.device, work.hooks);
        let kept = kept.map(|kept| kept.map(|xs| model.packed(xs)));
        let number = draws.controls.len() + usize::from(draws.posterior.is_some());
        let noise = model.drawn(&draws.noise);
        work.capture.put(format!("noise.{number}"), &noise);
        let conditions = Conditions {
            prompt: &embeds.prompt,
            negative: embeds.negative.as_ref(),
            guiding: Guiding::of(self.request),
            step_cache: self.request.step_cache,
            kept: kept.as_ref(),
        };
        let capture = &mut *work.capture;
        let behind = walk_still(model, &conditions, &mut solver, &state, capture, work.hooks)?;
        Ok(model.unpacked(&behind.latents))
    }
}

/// A text, with what is kept of answers to it.
struct Asked<C> {
    context: C,
    /// Of each part of the pictures that is asked for at once.
    caches: Vec<Caches>,
}

struct Loop<'a, M: StillModel> {
    model: &'a M,
    guidance: Guidance<Asked<M::Context>>,
    told: Told<M::Told>,
    kept: Option<Kept>,
    pictures_at_once: i64,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    hooks: &'a dyn Hooks,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the latents in the
/// model's form, in f32, and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU.
pub fn walk_still<M: StillModel>(
    model: &M,
    conditions: &Conditions<'_>,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    tch::no_grad(|| {
        check(model, conditions, state)?;
        conditions.guiding.check_blocks(model.num_blocks())?;
        let (device, kind) = model.place();
        begin(state, solver, device, capture)?;
        let run = Loop::new(model, conditions, solver, state, hooks)?;
        run.record(conditions, capture);
        let end = solver.all_calls().end;
        let place = Placement::new(device, kind);
        let behind = walk(&run, state, end, solver, place, capture, hooks)?;
        let caches = run.guidance.first().caches.first();
        if let Some(num_skipped) = caches.and_then(Caches::num_skipped) {
            hooks.skipped(num_skipped, solver.all_calls().len());
        }
        Ok(behind.last())
    })
}

/// Whether what earlier stages gave is this model's.
fn check<M: StillModel>(
    model: &M,
    conditions: &Conditions<'_>,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let latents = state.latents.size();
    let mut texts = [Some(conditions.prompt), conditions.negative]
        .into_iter()
        .flatten();
    let reason = if !fits(&state.latents, &model.size()) {
        format!("these are no latents of this model: {latents:?}")
    } else if !texts.all(|text| model.reads(text)) {
        "the embeddings of the texts are not what this model reads".to_owned()
    } else if conditions.kept.is_some_and(|kept| !kept.fits(&latents)) {
        "the picture's latents are not of this job".to_owned()
    } else if let Some(fault) = model.fault(latents[0]) {
        fault
    } else {
        return Ok(());
    };
    Err(EngineError::internal(reason))
}

impl<'a, M: StillModel> Loop<'a, M> {
    fn new(
        model: &'a M,
        conditions: &Conditions<'_>,
        solver: &Solver,
        state: &DenoiseState,
        hooks: &'a dyn Hooks,
    ) -> Result<Self, EngineError> {
        let (device, _) = model.place();
        let pictures = state.latents.size()[0];
        // Each picture is the one that its seed alone makes, so each has what its own steps leave.
        let pictures_at_once = match conditions.step_cache {
            Some(_) => 1,
            None => model.at_once(pictures),
        };
        let num_calls = solver.all_timesteps().len();
        let read = |text: &TextEmbeds| {
            let cache = || {
                let choice = conditions.step_cache?;
                StepCache::new(choice, num_calls, model.measured(num_calls))
            };
            Ok(Asked {
                context: model.context(text, pictures_at_once, hooks)?,
                caches: (0..pictures).map(|_| Caches::new(cache)).collect(),
            })
        };
        let (prompt, negative) = (conditions.prompt, conditions.negative);
        let guidance = Guidance::new(prompt, negative, conditions.guiding, read)?;
        Ok(Self {
            guidance: if M::KEEPS_LENGTH {
                guidance.keeping_length()
            } else {
                guidance
            },
            told: Told::default(),
            kept: conditions.kept.map(|kept| kept.to_device(device)),
            pictures_at_once,
            timesteps: solver.all_timesteps(),
            model,
            hooks,
        })
    }

    fn ask(
        &self,
        asked: &Asked<M::Context>,
        input: &Tensor,
        call: &Call,
        without: BlockSet,
    ) -> Option<Tensor> {
        let Asked { context, caches } = asked;
        let number = call.index;
        let make = |timesteps: &[f32]| self.model.told(timesteps, context);
        let kept = self.model.told_with(context).unwrap_or(&self.told);
        let told = kept.at(number, &self.timesteps, make);
        let pictures = input.split(self.pictures_at_once, 0).into_iter();
        let answers = pictures
            .zip(caches)
            .enumerate()
            .map(|(index, (some, caches))| {
                caches.answer(number, without, |shortcut| {
                    let (model, hooks) = (self.model, self.hooks);
                    model.begins(call, index as i64 * self.pictures_at_once);
                    model.answer(&some, &told, context, shortcut, hooks)
                })
            });
        let answers = answers.collect::<Option<Vec<_>>>()?;
        Some(Tensor::cat(&answers, 0))
    }

    fn record(&self, conditions: &Conditions<'_>, capture: &mut Capture) {
        if !capture.is_on() {
            return;
        }
        self.model.record(conditions.kept, capture);
        self.model.record_text(conditions.prompt, "cond", capture);
        if let Some(negative) = conditions.negative.filter(|_| self.guidance.is_guided()) {
            self.model.record_text(negative, "uncond", capture);
        }
    }
}

impl<M: StillModel> Denoiser for Loop<'_, M> {
    fn velocity(&self, latents: &Tensor, call: &Call, capture: &mut Capture) -> Option<Tensor> {
        let input = self.model.input(latents);
        let time = self.model.time(call.timestep);
        for (part, xs) in [
            ("hidden_states", &input),
            ("timestep", &Tensor::from_slice(&[time])),
        ] {
            capture.put(call.name(&format!("transformer.in.{part}")), xs);
        }
        let own = |answer: &Tensor| self.model.velocity(answer);
        let ask = |asked: &Asked<M::Context>, without| self.ask(asked, &input, call, without);
        self.guidance.velocity(call, latents, capture, own, ask)
    }

    fn settled(&self, latents: Tensor, sigma: f32) -> Tensor {
        match &self.kept {
            Some(kept) => kept.settled(&latents, sigma),
            None => latents,
        }
    }

    fn first_recorded(&self, first: usize) -> usize {
        first
    }

    fn shown(&self, x0: &Tensor) -> Tensor {
        // b c h w -> 1 c b h w
        self.model.unpacked(x0).transpose(0, 1).unsqueeze(0)
    }
}
