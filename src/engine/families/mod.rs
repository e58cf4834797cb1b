//! Model families: one folder each, and their registry.
//!
//! A stage is one function, as each may run in a separate process: it loads what it needs and has dropped it when it
//! returns. The caller handles files, unloading and messages between stages.
//!
//! A family implements `EngineFamily` over shared networks, samplers and stores; image families are an `ImageFamily` over an
//! `ImageModel`. Nothing outside of this folder names a family; `safelight_core::families` recognises and plans them.

pub(crate) mod bench_cases;
mod bench_table;
pub mod chroma;
pub mod flux;
pub mod flux2;
mod flux_backbone;
pub mod framepack;
pub mod krea2;
pub mod qwen_image;
// See safelight_core::families.
#[cfg(debug_assertions)]
#[path = "../../../tests/toy_family/engine.rs"]
mod toy;
pub mod wan;
pub mod z_image;

use std::marker::PhantomData;
use std::path::Path;

use safelight_core::job::Stage;
use safelight_core::model::ModelFamily;

use crate::EngineError;
use crate::stages::StageContext;
use crate::stages::images::{self, EncodedImages, ImageModel};
use crate::tensor_files;
use crate::text::PromptEmbeds;
use bench_cases::BenchCase;
pub(crate) use bench_table::MEASURED;

static FAMILIES: &[&dyn EngineFamily] = &[
    #[cfg(debug_assertions)]
    &toy::Toy,
    &framepack::FramePackFamily,
    &wan::WanFamily,
    &z_image::FAMILY,
    &flux2::FAMILY,
    &krea2::FAMILY,
    &chroma::FAMILY,
    &qwen_image::FAMILY,
    &flux::FAMILY,
];

/// Every benchmark case, with the id of its family.
pub(crate) fn measured() -> impl Iterator<Item = (&'static str, &'static BenchCase)> {
    let cases = |(family, cases): (_, &'static [_])| cases.iter().map(move |case| (family, case));
    MEASURED.into_iter().flat_map(cases)
}

/// Runs a stage that has work for a family.
pub(crate) fn run(context: &StageContext<'_>, stage: Stage) -> Result<(), EngineError> {
    let id = context.request().family.id;
    let Some(family) = FAMILIES.iter().find(|family| family.id() == id) else {
        return Err(context.no_such_stage());
    };
    match stage {
        Stage::EncodeText => family.encode_text(context),
        Stage::EncodeImage if context.is_of_second_pass() => family.enlarge(context),
        Stage::EncodeImage => family.encode_image(context),
        Stage::EncodeVision => family.encode_vision(context),
        Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow => family.denoise(context, stage),
        Stage::Decode => family.decode(context),
        Stage::Unload | Stage::Upscale | Stage::Interpolate | Stage::Save => {
            Err(context.no_such_stage())
        }
    }
}

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

pub(crate) struct ImageFamily<M>(ModelFamily, PhantomData<fn() -> M>);

impl<M> ImageFamily<M> {
    pub(crate) const fn new(family: ModelFamily) -> Self {
        Self(family, PhantomData)
    }
}

impl<M: ImageModel> EngineFamily for ImageFamily<M> {
    fn id(&self) -> &'static str {
        self.0.id
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

#[cfg(test)]
pub(crate) mod tests;
