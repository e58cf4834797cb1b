//! What the engine does for each family of models: one folder a family, and the registry of them.
//!
//! A stage is a function of its own, because each may run in a process of its own: it loads what it needs and has dropped
//! it when it returns. What comes between stages (files, unloading, messages) is the caller's.
//!
//! A family implements `EngineFamily` over shared networks, samplers and stores. Nothing outside of this folder names
//! a family; how its files are recognised and planned stands in `safelight_core::families`.

pub mod chroma;
pub mod flux;
pub mod flux2;
pub mod framepack;
pub mod krea2;
pub mod qwen_image;
// See safelight_core::families.
#[cfg(debug_assertions)]
#[path = "../../../tests/toy_family/engine.rs"]
mod toy;
pub mod wan;
pub mod z_image;

use safelight_core::job::Stage;

use crate::bench::cases::Case;
use crate::error::EngineError;
use crate::stages::{StageContext, stills};

pub(crate) type Done = Result<(), EngineError>;

/// The stages of one family's recipes. Each reads what earlier ones left in the job's folder and leaves its own result
/// there.
pub(crate) trait EngineFamily: Sync {
    /// The id of the family in `safelight_core::families`.
    fn id(&self) -> &'static str;

    fn encode_text(&self, context: &StageContext<'_>) -> Done;

    fn encode_image(&self, context: &StageContext<'_>) -> Done {
        Err(context.no_such_stage())
    }

    fn encode_vision(&self, context: &StageContext<'_>) -> Done {
        Err(context.no_such_stage())
    }

    /// Whether the latents of control pictures are drawn around their means, as most pipelines of diffusers do.
    fn draws_controls(&self) -> bool {
        true
    }

    /// What the first pass made to what the second one begins from.
    fn enlarge(&self, context: &StageContext<'_>) -> Done {
        stills::enlarge_stage(context, self.draws_controls())
    }

    /// Noise to latents; `stage` says through which transformer.
    fn denoise(&self, context: &StageContext<'_>, stage: Stage) -> Done;

    fn decode(&self, context: &StageContext<'_>) -> Done;

    /// What is measured of it with random weights, in the order in which it is measured.
    fn cases(&self) -> &'static [Case] {
        &[]
    }
}

static FAMILIES: &[&dyn EngineFamily] = &[
    #[cfg(debug_assertions)]
    &toy::Toy,
    &framepack::FramePack,
    &wan::Wan,
    &z_image::ZImage,
    &flux2::Flux2,
    &krea2::Krea2,
    &chroma::Chroma,
    &qwen_image::QwenImage,
    &flux::Flux,
];

/// The id of each family of which something is measured, with what that is.
pub(crate) fn measured() -> impl Iterator<Item = (&'static str, &'static [Case])> {
    let all = FAMILIES.iter().map(|family| (family.id(), family.cases()));
    all.filter(|(_, cases)| !cases.is_empty())
}

/// Runs a stage that has work for a family.
pub(crate) fn run(context: &StageContext<'_>, stage: Stage) -> Done {
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
