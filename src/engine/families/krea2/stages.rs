//! Krea 2's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::families::{Done, EngineFamily, krea2};
use crate::stages::StageContext;
use crate::stages::stills::{self, GivenImage};
use crate::text::PromptEmbeds;

pub(crate) struct Krea2;

impl EngineFamily for Krea2 {
    fn id(&self) -> &'static str {
        families::krea2::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Done {
        context.texts(krea2::encode_text)
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Done {
        // It sees no picture beside its own.
        stills::encode_image_stage(context)
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Done {
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let image = context.earlier(Stage::EncodeImage, GivenImage::load)?;
        let resume = context.checkpoint();
        context.tensor("latents", |work| {
            krea2::denoise(&embeds, image.as_ref(), resume, work)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        stills::decode_stage(context)
    }

    fn cases(&self) -> &'static [Case] {
        krea2::CASES
    }
}
