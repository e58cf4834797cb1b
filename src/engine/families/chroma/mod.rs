//! Chroma: text to image, image to image, inpainting.
//!
//! The reference is `ChromaPipeline`, `ChromaImg2ImgPipeline` and `ChromaInpaintPipeline` of diffusers 0.42.1, except
//! that unmasked pixels stay exactly. Blocks, tokens and their position ids are those of FLUX.1.
//!
//! Shapes: `B` images of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod approximator;
mod cases;
mod transformer;

pub use transformer::ChromaTransformer;

use safelight_core::families;

use super::ImageFamily;

pub(crate) static FAMILY: ImageFamily<ChromaTransformer> =
    ImageFamily::new(families::chroma::FAMILY, cases::CASES);

#[cfg(test)]
pub(crate) mod tests;
