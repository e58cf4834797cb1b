//! Flux's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use super::condition::Role;
use crate::families::flux::{self, GivenImage};
use crate::families::{Done, EngineFamily};
use crate::stages::StageContext;
use crate::stages::pictures::{self, KeptPixels};
use crate::store;
use crate::text::PromptEmbeds;

pub(crate) struct Flux;

impl EngineFamily for Flux {
    fn id(&self) -> &'static str {
        families::flux::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Done {
        context.texts(flux::encode_text)
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Done {
        encode_image_stage(context)
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Done {
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let image = context.earlier(Stage::EncodeImage, GivenImage::load)?;
        let resume = context.checkpoint();
        context.tensor("latents", |work| {
            flux::denoise(embeds, image.as_ref(), resume, work)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        decode_stage(context)
    }
}

/// The job's picture and mask to [`GivenImage`], in every family with this autoencoder.
pub(crate) fn encode_image_stage(context: &StageContext<'_>) -> Done {
    let request = context.request();
    let (picture, _) = pictures::of_job(&context.folder(), request)?;
    let mask = pictures::mask_of_job(&context.folder(), request)?;
    let image = context.part(|work| {
        picture.record("image", work.capture);
        if let Some(mask) = &mask {
            mask.record("mask", work.capture);
        }
        let mask = mask.as_ref().map(|mask| &mask.fitted);
        flux::encode_image(&picture.fitted, mask, work)
    })?;
    image.save(&context.own_result())
}

/// Latents to pictures, in every family with this autoencoder. What a mask keeps is the given picture's own, to the
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
    context.part(|work| work.decoded(|work| flux::decode(&latents, kept.as_ref(), work)))
}
