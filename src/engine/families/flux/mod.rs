//! FLUX.1 dev, schnell, Fill and Kontext: text to image, image to image, filling, editing, image prompts.
//!
//! The reference is `FluxPipeline`, `FluxImg2ImgPipeline`, `FluxInpaintPipeline`, `FluxFillPipeline` and
//! `FluxKontextPipeline` of diffusers 0.42.1, with ControlNets `FluxControlNetPipeline` and its relatives.
//!
//! Shapes: `B` images of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod cases;
mod control;
mod measured;
mod redux;
mod references;
mod text;
mod transformer;

pub use control::FluxControl;
pub use transformer::{FluxContext, FluxTransformer, ROPE_THETA, text_ids};

use safelight_core::families;

use super::ImageFamily;

pub(crate) static FAMILY: ImageFamily<FluxTransformer> =
    ImageFamily::new(families::flux::FAMILY, cases::CASES);

#[cfg(test)]
pub(in crate::families) mod tests;
