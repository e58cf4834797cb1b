//! Model families: one folder each, and their registry.
//!
//! A stage is one function, as each may run in a separate process: it loads what it needs and has dropped it when it
//! returns. The caller handles files, unloading and messages between stages.
//!
//! A family implements `EngineFamily` over shared networks, samplers and stores; image families are an `ImageFamily` over an
//! `ImageModel`. Nothing outside of this folder names a family; `safelight_core::families` recognises and plans them.

pub mod anima;
pub(crate) mod bench_cases;
mod bench_table;
pub mod chroma;
pub(crate) mod family;
pub mod flux;
pub mod flux2;
pub mod flux3;
mod flux_backbone;
pub mod framepack;
pub mod krea2;
pub mod ltx2;
pub mod qwen_image;
pub mod qwen_image_21;
pub mod sdxl;
// See safelight_core::families.
#[cfg(debug_assertions)]
#[path = "../../../tests/toy_family/engine.rs"]
mod toy;
pub mod wan;
pub mod z_image;

use safelight_core::job::Stage;

use crate::EngineError;
use crate::stages::StageContext;
use bench_cases::BenchCase;
pub(crate) use bench_table::MEASURED;
use family::EngineFamily;

static FAMILIES: &[&dyn EngineFamily] = &[
    #[cfg(debug_assertions)]
    &toy::Toy,
    &ltx2::Ltx2Family,
    &framepack::FramePackFamily,
    &anima::FAMILY,
    &wan::WanFamily,
    &z_image::FAMILY,
    &flux3::FAMILY,
    &flux2::DEV,
    &flux2::KLEIN,
    &krea2::FAMILY,
    &chroma::FAMILY,
    &qwen_image_21::FAMILY,
    &sdxl::FAMILY,
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
    match FAMILIES.iter().find(|family| family.id() == id) {
        Some(family) => family.run(context, stage),
        None => Err(context.no_such_stage()),
    }
}

#[cfg(test)]
pub(crate) mod tests;
