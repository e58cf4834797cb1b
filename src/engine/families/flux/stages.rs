//! Flux's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::families::flux;
use crate::families::{Done, EngineFamily};
use crate::stages::StageContext;
use crate::stages::stills::{self, GivenImages};
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
        let request = context.request();
        if !request.controls.is_empty() {
            return stills::encode_controlled_stage(context, self.draws_controls());
        }
        if request.references.is_empty() {
            return stills::encode_image_stage(context);
        }
        stills::encode_images_stage(context, flux::SEEING)
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Done {
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let given = context.earlier(Stage::EncodeImage, GivenImages::load)?;
        let resume = context.checkpoint();
        context.tensor("latents", |work| {
            flux::denoise(&embeds, given.as_ref(), resume, work)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        stills::decode_stage(context)
    }

    fn cases(&self) -> &'static [Case] {
        flux::CASES
    }
}
