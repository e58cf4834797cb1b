//! The video autoencoder of HunyuanVideo, which FramePack uses: causal over time, 8 × 8 × 4 pixels to one latent of 16
//! channels.
//!
//! After diffusers' `AutoencoderKLHunyuanVideo`:
//! <https://github.com/huggingface/diffusers/blob/v0.42.1/src/diffusers/models/autoencoders/autoencoder_kl_hunyuan_video.py>.
//! Its norms take their statistics from all frames that go through together, so that a clip cannot go through a few
//! frames at a time with the borders remembered: it is cut into tiles of time, which overlap and are blended, always
//! and as diffusers does it. Within a tile each layer goes over a few frames at a time.
//!
//! Shapes: one clip at a time. Inside, frames are `(T, H, W, C)`, contiguous: channels innermost is what oneDNN and
//! cuDNN want, and each frame is one picture of a batch. At the border, tensors are `(1, C, F, H, W)` as in diffusers.

mod blocks;
mod config;
mod conv;
mod decoder;
mod encoder;
mod keys;
#[cfg(test)]
mod tests;
mod time_tiles;

pub use self::config::HunyuanVaeConfig;
pub use self::decoder::HunyuanVaeDecoder;
pub use self::encoder::HunyuanVaeEncoder;
