//! Guidance: what a model answers to the prompt, pushed away from its answer to the negative prompt.
//!
//! What a model reads of a text is the family's.

use safelight_core::job::GenerateRequest;
use tch::Tensor;

use crate::capture::Capture;
use crate::denoise::Call;
use crate::error::EngineError;
use crate::text::TextEmbeds;

/// Two controls that have nothing to do with each other, of models that may be trained with the first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GuidanceScales {
    /// What the model is told, where it was trained to be.
    pub distilled: f64,
    /// How far answers to the prompt are pushed from those to the negative prompt. Up to 1 there is only one answer.
    pub scale: f64,
}

impl GuidanceScales {
    /// What a request for such a model asks for.
    pub fn of(request: &GenerateRequest) -> Self {
        Self {
            distilled: request.sampling.guidance_scale,
            scale: request.sampling.true_cfg_scale.unwrap_or(1.0),
        }
    }
}

/// The texts of the calls of one step, as the model reads them.
pub struct Guidance<C> {
    passes: Passes<C>,
    scale: f64,
    /// Whether a guided answer is as long as that to the prompt, token by token.
    keeps_length: bool,
}

enum Passes<C> {
    Single(C),
    Joined(C),
    Separate { prompt: C, negative: C },
}

impl<C> Guidance<C> {
    /// Both texts one after the other, each as `read` gives it. A `scale` of 1 or less is no guidance.
    pub fn new(
        prompt: &TextEmbeds,
        negative: Option<&TextEmbeds>,
        scale: f64,
        read: impl Fn(&TextEmbeds) -> Result<C, EngineError>,
    ) -> Result<Self, EngineError> {
        let passes = match negative.filter(|_| scale > 1.0) {
            None => Passes::Single(read(prompt)?),
            Some(negative) => Passes::Separate {
                prompt: read(prompt)?,
                negative: read(negative)?,
            },
        };
        Ok(Self {
            passes,
            scale,
            keeps_length: false,
        })
    }

    /// The same whose guided answers are as long as those to the prompt alone, token by token, so that no scale makes
    /// glaring pictures.
    pub fn keeping_length(self) -> Self {
        Self {
            keeps_length: true,
            ..self
        }
    }

    /// Both texts in one batch, the prompt first.
    pub fn joined(both: C, scale: f64) -> Self {
        let passes = Passes::Joined(both);
        Self {
            passes,
            scale,
            keeps_length: false,
        }
    }

    pub fn is_guided(&self) -> bool {
        !matches!(self.passes, Passes::Single(_))
    }

    /// The prompt's, or that of both texts.
    pub fn first(&self) -> &C {
        match &self.passes {
            Passes::Single(first) | Passes::Joined(first) => first,
            Passes::Separate { prompt, .. } => prompt,
        }
    }

    /// The guided answer of `model`, which gives one for each text and is asked with each; `None` when cancelled.
    /// `own`: the part of an answer that is of the latents. Records the answers.
    pub fn velocity(
        &self,
        call: &Call,
        capture: &mut Capture,
        own: impl Fn(&Tensor) -> Tensor,
        model: impl Fn(&C) -> Option<Tensor>,
    ) -> Option<Tensor> {
        let (cond, uncond) = match &self.passes {
            Passes::Single(prompt) => (model(prompt)?, None),
            Passes::Joined(both) => {
                let both = model(both)?;
                (both.narrow(0, 0, 1), Some(both.narrow(0, 1, 1)))
            }
            Passes::Separate { prompt, negative } => (model(prompt)?, Some(model(negative)?)),
        };
        capture.put(call.name("transformer.cond"), &cond);
        let Some(uncond) = uncond else {
            return Some(own(&cond));
        };
        capture.put(call.name("transformer.uncond"), &uncond);
        let (cond, uncond) = (own(&cond), own(&uncond));
        let guided = &uncond + (&cond - &uncond) * self.scale;
        if !self.keeps_length {
            return Some(guided);
        }
        let length = |xs: &Tensor| xs.norm_scalaropt_dim(2, [-1], true);
        Some(&guided * (length(&cond) / length(&guided)))
    }
}
