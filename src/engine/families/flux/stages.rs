//! Flux's stages: which function makes which result, of which files.

use std::path::Path;

use safelight_core::families;
use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::families::flux;
use crate::families::{Done, EngineFamily};
use crate::stages::stills::{self, GivenImages};
use crate::stages::{StageContext, pictures};
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
        let request = context.request();
        if !request.controls.is_empty() {
            return stills::encode_controlled_stage(context, self.draws_controls());
        }
        if request.references.is_empty() {
            return stills::encode_image_stage(context);
        }
        stills::encode_images_stage(context, flux::SEEING)
    }

    fn encode_vision(&self, context: &StageContext<'_>) -> Done {
        context.tensor("image_embeds", |work| {
            let (folder, request) = (context.folder(), work.request);
            let pictures = pictures::prompt_pictures_of_job(&folder, request, work.capture)?;
            flux::encode_pictures(&pictures, work)
        })
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Done {
        let mut embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let seen = |path: &Path| store::read_one(path, "image_embeds");
        if let Some(tokens) = context.earlier(Stage::EncodeVision, seen)? {
            embeds = flux::with_pictures(embeds, &tokens);
        }
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
