//! Z-Image's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::families::{Done, EngineFamily, z_image};
use crate::stages::StageContext;
use crate::stages::stills::{self, GivenImages};
use crate::text::PromptEmbeds;

pub(crate) struct ZImage;

impl EngineFamily for ZImage {
    fn id(&self) -> &'static str {
        families::z_image::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Done {
        context.texts(z_image::encode_text)
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Done {
        if !context.request().controls.is_empty() {
            return stills::encode_controlled_stage(context, self.draws_controls());
        }
        // It sees no picture beside its own.
        stills::encode_image_stage(context)
    }

    fn draws_controls(&self) -> bool {
        false
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Done {
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let given = context.earlier(Stage::EncodeImage, GivenImages::load)?;
        let resume = context.checkpoint();
        context.tensor("latents", |work| {
            z_image::denoise(&embeds, given.as_ref(), resume, work)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        stills::decode_stage(context)
    }

    fn cases(&self) -> &'static [Case] {
        z_image::CASES
    }
}
