//! Qwen-Image's stages: which function makes which result, of which files.

use safelight_core::families;
use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::capture::Capture;
use crate::families::{Done, EngineFamily, qwen_image};
use crate::stages::stills::{self, GivenImages, Seeing};
use crate::stages::{StageContext, pictures};
use crate::text::PromptEmbeds;
use crate::vision::resized_to_area;

/// About how many pixels the autoencoder gets of a picture that is seen.
const SEEN_PIXELS: f64 = 1048576.0;
const SEEING: Seeing = Seeing::of(|picture, _| resized_to_area(picture, SEEN_PIXELS));

pub(crate) struct QwenImage;

impl EngineFamily for QwenImage {
    fn id(&self) -> &'static str {
        families::qwen_image::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Done {
        // They are recorded where the autoencoder gets them.
        let (folder, request) = (context.folder(), context.request());
        let mut capture = Capture::off();
        let seen = pictures::references_of_job(&folder, request, SEEING.picture, &mut capture)?;
        context.texts(|work| qwen_image::encode_text(&seen, work))
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Done {
        if !context.request().controls.is_empty() {
            return stills::encode_controlled_stage(context, self.draws_controls());
        }
        if context.request().references.is_empty() {
            return stills::encode_image_stage(context);
        }
        stills::encode_images_stage(context, SEEING)
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Done {
        let embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let given = context.earlier(Stage::EncodeImage, GivenImages::load)?;
        let resume = context.checkpoint();
        context.tensor("latents", |work| {
            qwen_image::denoise(&embeds, given.as_ref(), resume, work)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Done {
        stills::decode_stage(context)
    }

    fn cases(&self) -> &'static [Case] {
        qwen_image::CASES
    }
}
