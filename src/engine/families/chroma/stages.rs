//! Chroma's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::families::{Done, EngineFamily, chroma};
use crate::stages::StageContext;
use crate::stages::stills::{self, GivenImage};
use crate::text::PromptEmbeds;

pub(crate) struct Chroma;

impl EngineFamily for Chroma {
    fn id(&self) -> &'static str {
        families::chroma::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Done {
        context.texts(chroma::encode_text)
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
            chroma::denoise(&embeds, image.as_ref(), resume, work)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        stills::decode_stage(context)
    }

    fn cases(&self) -> &'static [Case] {
        chroma::CASES
    }
}
