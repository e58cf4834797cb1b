//! Stages of a family, and those that image families share: which results of a job each one reads and writes.

use std::marker::PhantomData;
use std::path::Path;

use safelight_core::job::Stage;

use crate::EngineError;
use crate::stages::StageContext;
use crate::stages::images::{self, EncodedImages, ImageModel};
use crate::stages::siglip::encode_image_prompts;
use crate::tensor_files;
use crate::text::PromptEmbeds;

/// The stages of one family's recipes. Each reads results of earlier stages from the job's folder and writes its own there.
pub(crate) trait EngineFamily: Sync {
    /// Id of the family in `safelight_core::families`.
    fn id(&self) -> &'static str;

    /// Runs a stage, or fails with [`StageContext::no_such_stage`].
    fn run(&self, context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError>;
}

pub(crate) struct ImageFamily<M>(PhantomData<fn() -> M>);

impl<M> ImageFamily<M> {
    pub(crate) const NEW: Self = Self(PhantomData);
}

impl<M: ImageModel> EngineFamily for ImageFamily<M> {
    fn id(&self) -> &'static str {
        M::FAMILY.id
    }

    fn run(&self, context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError> {
        let folder = context.folder();
        match stage {
            Stage::EncodeText => context.texts(|work| M::encode_text(&folder, work)),
            Stage::EncodeImage if context.is_of_second_pass() => {
                images::enlarge_stage::<M>(context)
            }
            Stage::EncodeImage => images::encode_stage::<M>(context),
            Stage::EncodeVision => {
                context.tensor("image_embeds", |work| encode_image_prompts(&folder, work))
            }
            Stage::Denoise => denoise::<M>(context),
            Stage::Decode => images::decode_stage(context),
            _ => Err(context.no_such_stage()),
        }
    }
}

fn denoise<M: ImageModel>(context: &StageContext<'_>) -> Result<(), EngineError> {
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
