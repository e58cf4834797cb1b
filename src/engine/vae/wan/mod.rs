//! The video autoencoders of Wan, causal over time: Wan 2.1's, 8 × 8 × 4 pixels to one latent, which Wan 2.2's large
//! models use too, and that of Wan 2.2 TI2V-5B, 16 × 16 × 4.
//!
//! After diffusers' `AutoencoderKLWan`:
//! <https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/autoencoders/autoencoder_kl_wan.py>.
//! One implementation: what sets the two apart is configuration, and shows in core's `WanVaeLevel`. Frames go through a few
//! at a time, each convolution keeping the last two frames it saw, so that memory does not grow with the clip.
//!
//! Shapes: one clip at a time. Inside, frames are `(T, H, W, C)`, contiguous: channels innermost is what oneDNN and
//! cuDNN want, and each frame is one picture of a batch. At the border, tensors are `(1, C, F, H, W)` as in diffusers.

mod blocks;
mod decoder;
mod encoder;
mod resample;
mod statistics;
#[cfg(test)]
mod tests;

pub use self::decoder::WanVaeDecoder;
pub use self::encoder::WanVaeEncoder;
pub use self::statistics::{denormalize, normalize};
