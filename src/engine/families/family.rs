//! Stages of a family, and those that image families share: which results of a job each one reads and writes.

use std::marker::PhantomData;
use std::path::Path;

use safelight_core::job::Stage;

use crate::EngineError;
use crate::stages::StageContext;
use crate::stages::images::{self, EncodedImages, ImageModel};
use crate::tensor_files;
use crate::text::PromptEmbeds;

/// The stages of one family's recipes. Each reads results of earlier stages from the job's folder and writes its own there.
pub(crate) trait EngineFamily: Sync {
    /// Id of the family in `safelight_core::families`.
    fn id(&self) -> &'static str;

    fn encode_text(&self, context: &StageContext<'_>) -> Result<(), EngineError>;

    fn encode_image(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        Err(context.no_such_stage())
    }

    fn encode_vision(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        Err(context.no_such_stage())
    }

    /// Upscales the first pass's image for the second pass.
    fn enlarge(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        Err(context.no_such_stage())
    }

    /// Noise to latents; `stage` names the transformer.
    fn denoise(&self, context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError>;

    fn decode(&self, context: &StageContext<'_>) -> Result<(), EngineError>;
}

pub(crate) struct ImageFamily<M>(PhantomData<fn() -> M>);

impl<M> ImageFamily<M> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<M: ImageModel> EngineFamily for ImageFamily<M> {
    fn id(&self) -> &'static str {
        M::FAMILY.id
    }

    fn encode_text(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        context.texts(|work| M::encode_text(&context.folder(), work))
    }

    fn encode_image(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        images::encode_stage::<M>(context)
    }

    fn encode_vision(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        context.tensor("image_embeds", |work| {
            M::encode_image_prompts(&context.folder(), work)
        })
    }

    fn enlarge(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        images::enlarge_stage::<M>(context)
    }

    fn denoise(&self, context: &StageContext<'_>, _: Stage) -> Result<(), EngineError> {
        let mut embeds = PromptEmbeds::load(&context.result(Stage::EncodeText))?;
        let image_embeds = |path: &Path| tensor_files::read_one(path, "image_embeds");
        if let Some(tokens) = context.earlier(Stage::EncodeVision, image_embeds)? {
            embeds.append_image_tokens(&tokens);
        }
        let images = context.earlier(Stage::EncodeImage, EncodedImages::load)?;
        let images = images.unwrap_or_default();
        let resume = context.checkpoint();
        context.tensor("latents", |work| {
            images::denoise::<M>(&embeds, &images, resume, work)
        })
    }

    fn decode(&self, context: &StageContext<'_>) -> Result<(), EngineError> {
        images::decode_stage(context)
    }
}
