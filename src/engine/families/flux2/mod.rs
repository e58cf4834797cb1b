//! FLUX.2 klein, distilled and base: text to image, reference images, image to image, inside a mask.
//!
//! The reference is `Flux2KleinPipeline` and `Flux2KleinInpaintPipeline` of diffusers 0.42.1, except for three things: the
//! negative prompt may be another than the empty one, a distilled model obeys a guidance above 1, and pixels outside a mask
//! are the image's own. An image without a mask is treated as one with a white mask.
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
