//! Z-Image Turbo and Base: text to image, image to image, inpainting.
//!
//! The reference is `ZImagePipeline`, `ZImageImg2ImgPipeline` and `ZImageInpaintPipeline` of diffusers 0.42.1, with two
//! differences: a guidance of 5 here is 4 there, as in other models, and unmasked pixels stay exactly.
//!
//! Shapes: `B` images of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod block;
mod cases;
mod control;
mod transformer;

pub use control::{ZImageControl, ZImageControlModulation};
pub use transformer::{ZImageContext, ZImageModulation, ZImageTransformer};

use safelight_core::families;

use super::ImageFamily;

pub(crate) static FAMILY: ImageFamily<ZImageTransformer> =
    ImageFamily::new(families::z_image::FAMILY, cases::CASES);

#[cfg(test)]
pub(crate) mod tests;
