//! Krea 2 Turbo and Raw: text to image, image to image, inside a mask.
//!
//! The reference is `Krea2Pipeline` of diffusers 0.42.1, except for three things: a guidance of 5.5 here is 4.5 there, as
//! in other models; texts have no padding, which nothing there attends to; and that pipeline has text to image alone: start
//! images and masks work as in the other image models.
//!
//! Shapes: `B` images of one prompt; `h`, `w` latents, an eighth of the pixels; tokens are two by two of them.

mod cases;
mod transformer;

pub use transformer::{Krea2Context, Krea2Modulation, Krea2Transformer};

use safelight_core::families;

use super::ImageFamily;

pub(crate) static FAMILY: ImageFamily<Krea2Transformer> =
    ImageFamily::new(families::krea2::FAMILY, cases::CASES);

#[cfg(test)]
pub(crate) mod tests;
