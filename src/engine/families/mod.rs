//! Model families: one folder each, and their registry.
//!
//! A stage is one function, as each may run in a separate process: it loads what it needs and has dropped it when it
//! returns. The caller handles files, unloading and messages between stages.
//!
//! A family implements `EngineFamily` over shared networks, samplers and stores; image families are an `ImageFamily` over an
//! `ImageModel`. Nothing outside of this folder names a family; `safelight_core::families` recognises and plans them.

pub mod chroma;
pub mod flux;
pub mod flux2;
pub mod framepack;
mod image_cases;
mod image_family;
pub mod krea2;
pub mod qwen_image;
// See safelight_core::families.
#[cfg(debug_assertions)]
#[path = "../../../tests/toy_family/engine.rs"]
mod toy;
pub mod wan;
pub mod z_image;

use safelight_core::job::Stage;

use crate::bench::cases::BenchCase;
use crate::error::EngineError;
use crate::stages::StageContext;
pub(crate) use image_family::ImageFamily;

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

/// Ids of families, and their benchmark cases with random weights.
pub(crate) const MEASURED: [(&str, &[BenchCase]); 8] = [
    ("framepack", framepack::CASES),
    ("wan", wan::CASES),
    ("z_image", image_cases::Z_IMAGE),
    ("flux2", image_cases::FLUX2),
    ("krea2", image_cases::KREA2),
    ("chroma", image_cases::CHROMA),
    ("qwen_image", image_cases::QWEN_IMAGE),
    ("flux", image_cases::FLUX),
];

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

#[cfg(test)]
pub(crate) mod tests;
