//! FLUX.2's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::families::{Done, EngineFamily, flux2};
use crate::stages::StageContext;
use crate::stages::stills::{self, GivenImages, Seeing};
use crate::text::PromptEmbeds;

pub(crate) struct Flux2;

impl EngineFamily for Flux2 {
    fn id(&self) -> &'static str {
        families::flux2::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Done {
        context.texts(flux2::encode_text)
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Done {
        stills::encode_images_stage(
            context,
            Seeing::of(|picture, _| flux2::seen_picture(picture)),
        )
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Done {
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let images = context.earlier(Stage::EncodeImage, GivenImages::load)?;
        let resume = context.checkpoint();
        context.tensor("latents", |work| {
            flux2::denoise(&embeds, images.as_ref(), resume, work)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        stills::decode_stage(context)
    }

    fn cases(&self) -> &'static [Case] {
        flux2::CASES
    }
}
