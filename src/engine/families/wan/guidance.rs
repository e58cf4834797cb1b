//! Classifier-free guidance: what the model answers to the prompt, pushed away from its answer to the negative one.
//!
//! Both passes go together where the device has room for them and gains by it, one after the other elsewhere.

use tch::{Device, Tensor};

use super::denoise::Conditions;
use super::transformer::{Context, WanTransformer};
use crate::error::EngineError;
use crate::runtime::free_bytes;

/// What one pass may need at most to be worth joining with the other: beyond, it fills a GPU by itself.
const LARGEST_JOINED_PASS: u64 = 1 << 30;

/// The texts of the passes of one step.
pub(super) struct Guidance {
    passes: Passes,
    scale: f64,
}

enum Passes {
    /// Not guided: the prompt alone.
    Single(Context),
    /// Prompt and negative prompt in one batch.
    Joined(Context),
    Separate {
        prompt: Context,
        negative: Context,
    },
}

/// What the model said, `(1, C, f, h, w)` each.
pub(super) struct Answer {
    pub(super) cond: Tensor,
    pub(super) uncond: Option<Tensor>,
}

impl Guidance {
    /// A `scale` of 1 or less is no guidance. `pass_bytes`: what one pass needs beside the weights.
    pub(super) fn new(
        transformer: &WanTransformer,
        conditions: &Conditions<'_>,
        scale: f64,
        pass_bytes: u64,
        device: Device,
    ) -> Result<Self, EngineError> {
        let context = |embeds: &Tensor| transformer.context(embeds, conditions.image_embeds);
        let embeds = conditions.embeds;
        let negative = embeds.negative.as_ref().filter(|_| scale > 1.0);
        let passes = match negative {
            None if scale > 1.0 => {
                return Err(EngineError::Internal {
                    reason: "the negative prompt has not been read".to_owned(),
                });
            }
            None => Passes::Single(context(&embeds.prompt)),
            Some(negative) if joins(device, pass_bytes) => {
                Passes::Joined(context(&Tensor::cat(&[&embeds.prompt, negative], 0)))
            }
            Some(negative) => Passes::Separate {
                prompt: context(&embeds.prompt),
                negative: context(negative),
            },
        };
        Ok(Self { passes, scale })
    }

    /// Asks the model with each context that there is; `None` when cancelled.
    pub(super) fn ask(&self, model: impl Fn(&Context) -> Option<Tensor>) -> Option<Answer> {
        Some(match &self.passes {
            Passes::Single(prompt) => Answer {
                cond: model(prompt)?,
                uncond: None,
            },
            Passes::Joined(both) => {
                let both = model(both)?;
                Answer {
                    cond: both.narrow(0, 0, 1),
                    uncond: Some(both.narrow(0, 1, 1)),
                }
            }
            Passes::Separate { prompt, negative } => Answer {
                cond: model(prompt)?,
                uncond: Some(model(negative)?),
            },
        })
    }

    pub(super) fn guided(&self, answer: Answer) -> Tensor {
        match answer.uncond {
            Some(uncond) => &uncond + (answer.cond - &uncond) * self.scale,
            None => answer.cond,
        }
    }
}

/// A CPU gains nothing by larger products, and a GPU nothing where one pass fills it already.
fn joins(device: Device, pass_bytes: u64) -> bool {
    let Device::Cuda(_) = device else {
        return false;
    };
    let free = free_bytes(device);
    // Twice the room, as the estimate is one.
    pass_bytes <= LARGEST_JOINED_PASS && free / 4 >= pass_bytes
}
