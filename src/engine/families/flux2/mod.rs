//! FLUX.2 klein, distilled and base: text to image, reference images, image to image, inpainting.
//!
//! The reference is `Flux2KleinPipeline` and `Flux2KleinInpaintPipeline` of diffusers 0.42.1, with three differences:
//! the negative prompt need not be empty, a distilled model obeys a guidance above 1, and unmasked pixels stay exactly.
//! An image without a mask is treated as one with a white mask.
//!
//! Shapes: `B` images of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod cases;
mod references;
mod transformer;

pub use transformer::Flux2Transformer;

use safelight_core::families;

use super::ImageFamily;

pub(crate) static FAMILY: ImageFamily<Flux2Transformer> =
    ImageFamily::new(families::flux2::FAMILY, cases::CASES);

#[cfg(test)]
pub(crate) mod tests;
