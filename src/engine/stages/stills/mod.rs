//! What families of single pictures have in common: sizes and noise of their latents, a given picture and a mask of it
//! before denoising, and latents to pictures behind it, all with an autoencoder of pictures.
//!
//! Knows no transformer and no family.

mod autoencoder;
mod begin;
mod decode;
mod given;
mod latents;
mod state;
mod walk;

use safelight_core::job::Stage;

use super::StageContext;
use super::pictures::{self, KeptPixels};
use crate::families::Done;
use crate::store;

pub use begin::{Beginning, Kept};
use decode::decode;
pub use given::{Role, encode_image};
pub use latents::{Draws, LatentShape, corner_mask, folded_mask, latent_mask, noised, seeds};
pub use state::{GivenImage, GivenImages};
pub use walk::{TokenConditions, TokenModel, walk_tokens};

/// The job's picture and mask to [`GivenImage`]; `seen_size` as in [`encode_image`].
pub(crate) fn encode_image_stage(
    context: &StageContext<'_>,
    seen_size: fn(u32, u32) -> (u32, u32),
) -> Done {
    let request = context.request();
    let (picture, _) = pictures::of_job(&context.folder(), request)?;
    let mask = pictures::mask_of_job(&context.folder(), request)?;
    let image = context.part(|work| {
        picture.record("image", work.capture);
        if let Some(mask) = &mask {
            mask.record("mask", work.capture);
        }
        let mask = mask.as_ref().map(|mask| &mask.fitted);
        encode_image(&picture.fitted, mask, seen_size, work)
    })?;
    image.save(&context.own_result())
}

/// Latents to pictures. What a mask keeps is the given picture's own, to the
/// byte, but in models that fill, which were trained to answer for all of it.
pub(crate) fn decode_stage(context: &StageContext<'_>) -> Done {
    let request = context.request();
    let latents = store::read_one(&context.result(Stage::Denoise), "latents")?;
    let mask = match context.earlier(Stage::EncodeImage, GivenImage::load)? {
        Some(image) if Role::of(request) == Role::Base => image.mask,
        _ => None,
    };
    let kept = mask.map(|mask| {
        let (picture, _) = pictures::of_job(&context.folder(), request)?;
        KeptPixels::of(&picture.resized(request)?, &mask)
    });
    let kept = kept.transpose()?;
    context.part(|work| work.decoded(|work| decode(&latents, kept.as_ref(), work)))
}
