//! Flux's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use crate::families::flux::{self, GivenImage};
use crate::families::{Done, EngineFamily};
use crate::stages::{StageContext, pictures};
use crate::store;
use crate::text::PromptEmbeds;

pub(crate) struct Flux;

impl EngineFamily for Flux {
    fn id(&self) -> &'static str {
        families::flux::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Done {
        let (request, place) = (context.request(), context.placement());
        context.texts(|capture, hooks| flux::encode_text(request, place, capture, hooks))
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Done {
        let (request, place) = (context.request(), context.placement());
        let (picture, _) = pictures::of_job(&context.folder(), request)?;
        let mask = pictures::mask_of_job(&context.folder(), request)?;
        let image = context.part(|capture, hooks| {
            picture.record("image", capture);
            if let Some(mask) = &mask {
                mask.record("mask", capture);
            }
            let mask = mask.as_ref().map(|mask| &mask.fitted);
            flux::encode_image(request, &picture.fitted, mask, place, capture, hooks)
        })?;
        image
            .map(|image| image.save(&context.own_result()))
            .transpose()
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Done {
        let (request, place) = (context.request(), context.placement());
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let image = context.earlier(Stage::EncodeImage, GivenImage::load)?;
        let resume = context.checkpoint();
        context.tensor("latents", |capture, hooks| {
            let image = image.as_ref();
            flux::denoise(request, embeds, image, resume, place, capture, hooks)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        let latents = store::read_one(&context.result(Stage::Denoise), "latents")?;
        let (request, place) = (context.request(), context.placement());
        context.part(|capture, hooks| flux::decode(request, &latents, place, capture, hooks))
    }
}
