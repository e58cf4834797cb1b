//! How the model is asked with prompt and negative prompt: together where the device has room for both passes and gains
//! by it, one after the other elsewhere.

use tch::{Device, Tensor};

use super::denoise::Conditions;
use super::transformer::{Context, WanTransformer};
use crate::error::EngineError;
use crate::guidance::{Guidance, Guiding};
use crate::runtime::free_bytes;

/// What one pass may need at most to be worth joining with the other: beyond, it fills a GPU by itself.
const LARGEST_JOINED_PASS: u64 = 1 << 30;

/// What the texts of `conditions` are to the model. `pass_bytes`: what one pass needs beside the weights.
pub(super) fn guidance(
    transformer: &WanTransformer,
    conditions: &Conditions<'_>,
    guiding: Guiding,
    pass_bytes: u64,
    device: Device,
) -> Result<Guidance<Context>, EngineError> {
    let context = |embeds: &Tensor| transformer.context(embeds, conditions.image_embeds);
    let (prompt, negative) = (&conditions.embeds.prompt, &conditions.embeds.negative);
    match negative {
        None if guiding.scale > 1.0 => Err(EngineError::internal(
            "the negative prompt has not been read",
        )),
        Some(negative) if guiding.scale > 1.0 && joins(device, pass_bytes) => {
            let both = Tensor::cat(&[&prompt.prompt, &negative.prompt], 0);
            let alone = context(&prompt.prompt);
            Ok(Guidance::joined(context(&both), alone, guiding))
        }
        _ => Guidance::new(prompt, negative.as_ref(), guiding, |text| {
            Ok(context(&text.prompt))
        }),
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
