//! The steps from noise to latents by a transformer of packed latents beside a text: its answers, guidance by a negative
//! prompt, what a mask keeps.
//!
//! The arithmetic of a step is the sampler's, that of the network the transformer's, the loop every family's. Opens no
//! files.

use tch::{Device, Kind, Tensor};

use super::begin::Kept;
use super::latents::LatentShape;
use crate::capture::Capture;
use crate::denoise::{Call, DenoiseState, Denoiser, Told, begin, fits, walk};
use crate::error::EngineError;
use crate::guidance::Guidance;
use crate::hooks::Hooks;
use crate::place::Placement;
use crate::sampling::Solver;
use crate::text::TextEmbeds;

/// A transformer that is given packed latents, a text and what it is told of a timestep.
pub trait TokenModel {
    /// A text as it reads it beside pictures of one size.
    type Context;
    /// What it is told of one timestep.
    type Told;

    /// Where it computes, and in what.
    fn place(&self) -> (Device, Kind);

    /// Numbers of a latent token, and of a text's.
    fn widths(&self) -> [i64; 2];

    /// `text`: `(1, T, widths[1])`, `grid`: rows and columns of a picture's tokens; `None` when cancelled
    fn context(&self, text: &Tensor, grid: [i64; 2], hooks: &dyn Hooks) -> Option<Self::Context>;

    /// What it is told of each of `timesteps`, as a scheduler has them: 1000 for noise alone.
    fn told(&self, timesteps: &[f32]) -> Vec<Self::Told>;

    /// `tokens`: `(B, tokens, widths[0])` -> the velocity from picture to noise, as large and in f32; `None` when cancelled
    fn answer(
        &self,
        tokens: &Tensor,
        told: &Self::Told,
        context: &Self::Context,
        hooks: &dyn Hooks,
    ) -> Option<Tensor>;
}

/// What the model is given beside the noise.
pub struct TokenConditions {
    pub prompt: TextEmbeds,
    /// Only where the job has guidance.
    pub negative: Option<TextEmbeds>,
    /// How far answers to the prompt are pushed from those to the negative prompt; up to 1 not at all.
    pub guidance_scale: f64,
    /// What stays as it is, where a mask says so: `(B, tokens, 4 C)`, or the mask `(1, …)`
    pub kept: Option<Kept>,
}

struct Loop<'a, M: TokenModel> {
    model: &'a M,
    guidance: Guidance<M::Context>,
    told: Told<M::Told>,
    kept: Option<Kept>,
    pictures_at_once: i64,
    /// Of every call of the whole schedule.
    timesteps: Vec<f32>,
    shape: LatentShape,
    hooks: &'a dyn Hooks,
}

/// Makes the solver's steps from `state` on. At the beginning that is the solver's first call with the packed latents
/// `(B, tokens, 4 C)` in f32 and no history; otherwise a checkpoint's -> the state behind the last step, on the CPU.
pub fn walk_tokens<M: TokenModel>(
    model: &M,
    shape: LatentShape,
    conditions: &TokenConditions,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    tch::no_grad(|| {
        check(model, shape, conditions, state)?;
        let (device, kind) = model.place();
        begin(state, solver, device, capture)?;
        let run = Loop::new(model, shape, conditions, solver, state, hooks)?;
        run.record(conditions, capture);
        let end = solver.all_calls().end;
        let place = Placement::new(device, kind);
        walk(&run, state, end, solver, place, capture, hooks).map(DenoiseState::last)
    })
}

/// Whether what earlier stages gave is this model's.
fn check<M: TokenModel>(
    model: &M,
    shape: LatentShape,
    conditions: &TokenConditions,
    state: &DenoiseState,
) -> Result<(), EngineError> {
    let [own, text] = model.widths();
    let latents = state.latents.size();
    let texts = [Some(&conditions.prompt), conditions.negative.as_ref()];
    let mut texts = texts.into_iter().flatten();
    let one = [-1, shape.tokens(), own];
    let reason = if !fits(&state.latents, &one) {
        format!("these are no latents of this model: {latents:?}")
    } else if !texts.all(|read| fits(&read.prompt, &[1, -1, text])) {
        "the embeddings of the texts are not what this model reads".to_owned()
    } else if conditions
        .kept
        .as_ref()
        .is_some_and(|kept| !kept.fits(&latents))
    {
        "the picture's latents are not of this job".to_owned()
    } else {
        return Ok(());
    };
    Err(EngineError::internal(reason))
}

impl<'a, M: TokenModel> Loop<'a, M> {
    fn new(
        model: &'a M,
        shape: LatentShape,
        conditions: &TokenConditions,
        solver: &Solver,
        state: &DenoiseState,
        hooks: &'a dyn Hooks,
    ) -> Result<Self, EngineError> {
        let (device, _) = model.place();
        let read = |text: &TextEmbeds| {
            let context = model.context(&text.prompt, shape.grid(), hooks);
            context.ok_or(EngineError::Cancelled)
        };
        let (prompt, negative) = (&conditions.prompt, conditions.negative.as_ref());
        let kept = conditions.kept.as_ref();
        Ok(Self {
            guidance: Guidance::new(prompt, negative, conditions.guidance_scale, read)?,
            told: Told::default(),
            kept: kept.map(|kept| kept.to_device(device)),
            // How a product of matrices rounds depends on how many rows it has, and a CPU gains nothing from more.
            pictures_at_once: match device {
                Device::Cpu => 1,
                _ => state.latents.size()[0],
            },
            timesteps: solver.all_timesteps(),
            model,
            shape,
            hooks,
        })
    }

    fn ask(&self, context: &M::Context, latents: &Tensor, call: usize) -> Option<Tensor> {
        let make = |timesteps: &[f32]| self.model.told(timesteps);
        let told = self.told.at(call, &self.timesteps, make);
        let pictures = latents.split(self.pictures_at_once, 0).into_iter();
        let ask = |one: Tensor| self.model.answer(&one, &told, context, self.hooks);
        let answers = pictures.map(ask).collect::<Option<Vec<_>>>()?;
        Some(Tensor::cat(&answers, 0))
    }

    fn record(&self, conditions: &TokenConditions, capture: &mut Capture) {
        let negative = conditions.negative.as_ref();
        let negative = negative.filter(|_| self.guidance.is_guided());
        let texts = [("cond", Some(&conditions.prompt)), ("uncond", negative)];
        for (branch, text) in texts {
            if let Some(text) = text {
                let name = format!("transformer.in.{branch}.encoder_hidden_states");
                capture.put(name, &text.prompt);
            }
        }
    }
}

impl<M: TokenModel> Denoiser for Loop<'_, M> {
    fn velocity(&self, latents: &Tensor, call: &Call, capture: &mut Capture) -> Option<Tensor> {
        let mut put = |part: &str, xs: &Tensor| {
            capture.put(call.name(&format!("transformer.{part}")), xs);
        };
        put("in.hidden_states", latents);
        put(
            "in.timestep",
            &Tensor::from_slice(&[call.timestep / 1000.0]),
        );
        let ask = |context: &M::Context| self.ask(context, latents, call.index);
        self.guidance
            .velocity(call, capture, Tensor::shallow_clone, ask)
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
        self.shape.unpack(x0).transpose(0, 1).unsqueeze(0)
    }
}
