//! Qwen-Image: text to image, image to image, inpainting; Qwen-Image-Edit: edits of reference images by text.
//!
//! The reference is `QwenImagePipeline`, `QwenImageImg2ImgPipeline`, `QwenImageInpaintPipeline` and
//! `QwenImageEditPlusPipeline` of diffusers 0.42.1, except that unmasked pixels stay exactly, and that image tokens in
//! a text have the position ids that the text encoder was trained with.
//!
//! Shapes: `B` images of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod backbone;
mod cases;
mod control;
mod measured;
mod text;
mod transformer;

pub use control::QwenImageControl;
pub use transformer::{QwenImageContext, QwenImageModulation, QwenImageTransformer};

use safelight_core::families;

use super::ImageFamily;

pub(crate) static FAMILY: ImageFamily<QwenImageTransformer> =
    ImageFamily::new(families::qwen_image::FAMILY, cases::CASES);

#[cfg(test)]
pub(crate) mod tests;
