//! Guidance: classifier-free guidance with a negative prompt and its refinements, and skip-layer guidance.
//!
//! The arithmetic is that of diffusers 0.42.1 (`guiders`).

use std::cell::RefCell;

use safelight_core::job::{BlockSet, GenerateRequest, GuidanceRange, Guider};
use tch::{Kind, Tensor};

use crate::capture::StageCapture;
use crate::denoise::ModelCall;
use crate::error::EngineError;
use crate::parallel::both;
use crate::text::TextEmbeds;

/// Scale, guider and step range of guidance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuidanceParams {
    /// CFG scale. Up to 1 only the prompt is used.
    pub scale: f64,
    pub guider: Guider,
    pub range: GuidanceRange,
}

impl GuidanceParams {
    pub fn of(request: &GenerateRequest) -> Self {
        let sampling = &request.sampling;
        let scale = if request.family.guidance_is_cfg {
            sampling.guidance_scale
        } else {
            sampling.true_cfg_scale.unwrap_or(1.0)
        };
        Self {
            scale,
            guider: sampling.guider,
            range: sampling.guidance_range,
        }
    }

    pub fn check_blocks(&self, num_blocks: usize) -> Result<(), EngineError> {
        let Guider::SkipLayers { blocks, .. } = self.guider else {
            return Ok(());
        };
        match blocks.last() {
            Some(block) if block >= num_blocks => Err(EngineError::request(format!(
                "skip-layer guidance cannot skip block {block}: this model has {num_blocks} blocks, numbered from 0"
            ))),
            _ => Ok(()),
        }
    }
}

/// Plain CFG in all steps.
impl From<f64> for GuidanceParams {
    fn from(scale: f64) -> Self {
        Self {
            scale,
            guider: Guider::default(),
            range: GuidanceRange::default(),
        }
    }
}

/// Distilled guidance, an input of some models, and CFG.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuidanceScales {
    /// Input of models that were trained with it.
    pub distilled: f64,
    pub real: GuidanceParams,
}

impl GuidanceScales {
    pub fn from_request(request: &GenerateRequest) -> Self {
        Self {
            distilled: request.sampling.guidance_scale,
            real: GuidanceParams::of(request),
        }
    }
}

/// Contexts of the passes of one step.
pub struct GuidedPasses<C> {
    passes: CfgPasses<C>,
    guiding: GuidanceParams,
    /// Set if guided predictions keep the norm of the conditional ones, token by token.
    rescales: bool,
    momentum: GuidanceMomentum,
}

enum CfgPasses<C> {
    Single(C),
    Joined { both: C, prompt: C },
    Separate { prompt: C, negative: C },
}

/// Sum of the differences of all guided calls, earlier ones decayed.
#[derive(Default)]
struct GuidanceMomentum(RefCell<Option<MomentumSum>>);

struct MomentumSum {
    /// Last call added.
    call: usize,
    before: Option<Tensor>,
    with: Tensor,
}

impl GuidanceMomentum {
    /// Adds a call's `difference`; a repeated call replaces its own.
    fn accumulate(&self, call: usize, difference: &Tensor, factor: f64) -> Tensor {
        let before = self.0.take().and_then(|sum| {
            if sum.call == call {
                sum.before
            } else {
                Some(sum.with)
            }
        });
        let with = match &before {
            Some(before) => difference + before * factor,
            None => difference.shallow_clone(),
        };
        self.0.replace(Some(MomentumSum {
            call,
            before,
            with: with.shallow_clone(),
        }));
        with
    }
}

impl<C> GuidedPasses<C> {
    /// Both texts one after the other, each as `read` gives it. A scale of 1 or less is no guidance.
    pub fn new(
        prompt: &TextEmbeds,
        negative: Option<&TextEmbeds>,
        guiding: GuidanceParams,
        read: impl Fn(&TextEmbeds) -> Result<C, EngineError>,
    ) -> Result<Self, EngineError> {
        let passes = match negative.filter(|_| guiding.scale > 1.0) {
            None => CfgPasses::Single(read(prompt)?),
            Some(negative) => CfgPasses::Separate {
                prompt: read(prompt)?,
                negative: read(negative)?,
            },
        };
        Ok(Self::of(passes, guiding))
    }

    fn of(passes: CfgPasses<C>, guiding: GuidanceParams) -> Self {
        Self {
            passes,
            guiding,
            rescales: false,
            momentum: GuidanceMomentum::default(),
        }
    }

    /// Keeps the norm of conditional predictions, token by token, so that high scales do not oversaturate.
    pub fn rescaled_to_cond(self) -> Self {
        Self {
            rescales: true,
            ..self
        }
    }

    /// Both texts in one batch, the prompt first; `prompt`: the prompt alone.
    pub fn joined(both: C, prompt: C, guiding: GuidanceParams) -> Self {
        Self::of(CfgPasses::Joined { both, prompt }, guiding)
    }

    pub fn is_guided(&self) -> bool {
        !matches!(self.passes, CfgPasses::Single(_))
    }

    /// The prompt's, or that of both texts.
    pub fn first(&self) -> &C {
        match &self.passes {
            CfgPasses::Single(first) | CfgPasses::Joined { both: first, .. } => first,
            CfgPasses::Separate { prompt, .. } => prompt,
        }
    }

    /// The prompt's alone.
    fn prompt(&self) -> &C {
        match &self.passes {
            CfgPasses::Single(prompt)
            | CfgPasses::Joined { prompt, .. }
            | CfgPasses::Separate { prompt, .. } => prompt,
        }
    }

    /// Guided velocity from predictions of `model` with each context and a set of blocks to skip, in f32 and as large as
    /// `latents`; `None` when cancelled. `own`: velocity of a prediction. Records the predictions.
    pub fn velocity(
        &self,
        call: &ModelCall,
        latents: &Tensor,
        capture: &mut StageCapture,
        own: impl Fn(&Tensor) -> Tensor,
        model: impl Fn(&C, BlockSet) -> Option<Tensor>,
    ) -> Option<Tensor> {
        let GuidanceParams { guider, range, .. } = self.guiding;
        if let Guider::CfgZero { zero_steps } = guider
            && self.is_guided()
            && call.step < zero_steps as usize
        {
            return Some(latents.zeros_like());
        }
        let is_guided = range.holds(call.step, call.num_steps);
        let whole = |text| model(text, BlockSet::default());
        let (cond, uncond) = match &self.passes {
            CfgPasses::Single(prompt) => (whole(prompt)?, None),
            CfgPasses::Joined { prompt, .. } | CfgPasses::Separate { prompt, .. } if !is_guided => {
                (whole(prompt)?, None)
            }
            CfgPasses::Joined { both, .. } => {
                let both = whole(both)?;
                (both.narrow(0, 0, 1), Some(both.narrow(0, 1, 1)))
            }
            CfgPasses::Separate { prompt, negative } => {
                let (cond, uncond) = both(|| whole(prompt), || whole(negative))?;
                (cond, Some(uncond))
            }
        };
        capture.put(call.name("transformer.cond"), &cond);
        let mut recorded = |name: &str, answer: Tensor| {
            capture.put(call.name(name), &answer);
            own(&answer)
        };
        let uncond = uncond.map(|answer| recorded("transformer.uncond", answer));
        let skipped = match guider.skipped_blocks(call.step, call.num_steps) {
            Some(blocks) => Some(model(self.prompt(), blocks)?),
            None => None,
        };
        let skipped = skipped.map(|answer| recorded("transformer.skipped", answer));
        let cond = own(&cond);
        let guided = match (&uncond, &skipped) {
            (None, None) => return Some(cond),
            (Some(uncond), None) => self.guided(call.index, &cond, uncond),
            (None, Some(skipped)) => skipped + self.skip_layer_guidance(&cond, skipped),
            (Some(uncond), Some(skipped)) => {
                self.guided(call.index, &cond, uncond) + self.skip_layer_guidance(&cond, skipped)
            }
        };
        if !self.rescales {
            return Some(guided);
        }
        let length = |xs: &Tensor| xs.norm_scalaropt_dim(2, [-1], true);
        Some(&guided * (length(&cond) / length(&guided)))
    }

    fn skip_layer_guidance(&self, cond: &Tensor, skipped: &Tensor) -> Tensor {
        let scale = match self.guiding.guider {
            Guider::SkipLayers { scale, .. } => scale,
            _ => 0.0,
        };
        (cond - skipped) * scale
    }

    /// CFG of each image or video: `(B, …)`
    fn guided(&self, call: usize, cond: &Tensor, uncond: &Tensor) -> Tensor {
        let scale = self.guiding.scale;
        match self.guiding.guider {
            Guider::Cfg | Guider::SkipLayers { .. } => uncond + (cond - uncond) * scale,
            Guider::CfgZero { .. } => {
                let uncond = uncond * fitting(cond, uncond);
                &uncond + (cond - &uncond) * scale
            }
            Guider::Apg {
                eta,
                longest,
                momentum,
            } => {
                let mut difference = cond - uncond;
                if momentum != 0.0 {
                    difference = self.momentum.accumulate(call, &difference, momentum);
                }
                let difference = at_most(difference, longest);
                uncond + projected(&difference, cond, eta) * scale
            }
            Guider::Rescale { share } => {
                let guided = uncond + (cond - uncond) * scale;
                let deviation = |xs: &Tensor| xs.std_dim(own_axes(xs), true, true);
                let factor = deviation(cond) / deviation(&guided);
                guided * (factor * share + (1.0 - share))
            }
        }
    }
}

/// All axes but the first, the last one first.
fn own_axes(xs: &Tensor) -> Vec<i64> {
    (1..xs.dim() as i64).map(|axis| -axis).collect()
}

/// Scale that brings `uncond` nearest to `cond`: `(B, 1, …)`. After CFG-Zero*, <https://arxiv.org/abs/2503.18886>.
fn fitting(cond: &Tensor, uncond: &Tensor) -> Tensor {
    let [cond_row, uncond_row] = [cond, uncond].map(|xs| xs.flatten(1, -1));
    let sum = |xs: Tensor| xs.sum_dim_intlist([1].as_slice(), true, Kind::Float);
    let scale = sum(&cond_row * &uncond_row) / (sum(uncond_row.square()) + 1e-8);
    let mut size = vec![1; cond.dim()];
    size[0] = -1;
    scale.view(&size[..])
}

fn at_most(difference: Tensor, longest: f64) -> Tensor {
    if longest <= 0.0 {
        return difference;
    }
    let length = difference.norm_scalaropt_dim(2, own_axes(&difference), true);
    let factor = (length.reciprocal() * longest).clamp_max(1.0);
    difference * factor
}

/// `difference` with the part along `cond` times `eta`. After adaptive projected guidance,
/// <https://arxiv.org/abs/2410.02416>.
fn projected(difference: &Tensor, cond: &Tensor, eta: f64) -> Tensor {
    let axes = own_axes(cond);
    let (change, along) = (difference.to_kind(Kind::Double), cond.to_kind(Kind::Double));
    let length = along.norm_scalaropt_dim(2, &axes[..], true);
    let along = &along / length.clamp_min(1e-12);
    let parallel = (&change * &along).sum_dim_intlist(&axes[..], true, Kind::Double) * along;
    let orthogonal = (change - &parallel).to_kind(difference.kind());
    orthogonal + parallel.to_kind(difference.kind()) * eta
}

#[cfg(test)]
mod tests;
