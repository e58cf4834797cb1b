//! Latents to pixels, each chunk of frames handed out as soon as it exists, and pixels to latents.

use safelight_core::networks::VaeHalf;
use safelight_core::networks::ltx2::Ltx2VaeConfig;
use tch::{Device, Kind, Tensor};

use super::LatentScaling;
use super::network::StreamNetwork;
use crate::encoder_prefix::behind;
use crate::runtime::chunk_frames;
use crate::vae::pixel_patches::{patchify, unpatchify};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct Ltx2VaeDecoder {
    pub statistics: LatentScaling,
    network: StreamNetwork,
    patch_size: i64,
    /// Latent frames at a time.
    chunk: i64,
    kind: Kind,
    device: Device,
}

#[derive(Debug)]
pub struct Ltx2VaeEncoder {
    pub statistics: LatentScaling,
    network: StreamNetwork,
    patch_size: i64,
    latent_channels: i64,
    kind: Kind,
    device: Device,
}

impl Ltx2VaeDecoder {
    /// Takes the decoder's half of an autoencoder's weights.
    pub fn new(config: &Ltx2VaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let w = behind(Ltx2VaeConfig::prefix(weights.keys()), weights);
        let chunk = chunk_frames();
        Ok(Self {
            statistics: LatentScaling::new(config, &w)?,
            network: StreamNetwork::new(config, VaeHalf::Decoder, chunk, &w)?,
            patch_size: config.patch_size,
            chunk,
            kind: weights.kind(),
            device: weights.device(),
        })
    }

    /// `latents`: `(1, C, f, h, w)`, not normalised. Gives `frames` the video in chunks, `(1, 3, n, H, W)` in -1..1, in the
    /// kind of the weights; the first come once the frames that they see ahead are known. `None` when cancelled.
    pub fn decode(
        &self,
        latents: &Tensor,
        cancelled: &dyn Fn() -> bool,
        frames: &mut dyn FnMut(Tensor),
    ) -> Option<()> {
        let count = latents.size()[2];
        let mut pass = self.network.begin(cancelled);
        tch::no_grad(|| {
            for start in (0..count).step_by(self.chunk as usize) {
                let taken = self.chunk.min(count - start);
                let part = latents.narrow(2, start, taken).to_device(self.device);
                // 1 c f h w -> f h w c
                let xs = part.to_kind(self.kind).squeeze_dim(0);
                let xs = xs.permute([1, 2, 3, 0]).contiguous();
                pass.push(xs, start + taken == count, &mut |xs| {
                    frames(unpatchify(&xs, self.patch_size).clamp_(-1.0, 1.0));
                })?;
            }
            Some(())
        })
    }
}

impl Ltx2VaeEncoder {
    /// Takes the encoder's half of an autoencoder's weights.
    pub fn new(config: &Ltx2VaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let w = behind(Ltx2VaeConfig::prefix(weights.keys()), weights);
        let frames = Ltx2VaeConfig::TEMPORAL_FACTOR;
        Ok(Self {
            statistics: LatentScaling::new(config, &w)?,
            network: StreamNetwork::new(config, VaeHalf::Encoder, frames, &w)?,
            patch_size: config.patch_size,
            latent_channels: config.latent_channels,
            kind: weights.kind(),
            device: weights.device(),
        })
    }

    /// `pixels`: `(1, 3, 8n + 1, H, W)` in -1..1 → the mean of the latents, `(1, C, n + 1, H/32, W/32)` in f32, not
    /// normalised; `None` when cancelled
    pub fn encode(&self, pixels: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
        let count = pixels.size()[2];
        let step = Ltx2VaeConfig::TEMPORAL_FACTOR;
        // The first frame alone makes one latent.
        let later = (1..count).step_by(step as usize).map(|start| (start, step));
        let mut pass = self.network.begin(cancelled);
        let mut latents = Vec::new();
        tch::no_grad(|| {
            for (start, taken) in [(0, 1)].into_iter().chain(later) {
                let part = pixels.narrow(2, start, taken).to_device(self.device);
                let xs = patchify(&part.to_kind(self.kind), self.patch_size);
                pass.push(xs, start + taken == count, &mut |xs| {
                    latents.push(xs.narrow(3, 0, self.latent_channels));
                })?;
            }
            // f h w c -> 1 c f h w
            let latents = Tensor::cat(&latents, 0).permute([3, 0, 1, 2]);
            Some(latents.unsqueeze(0).to_kind(Kind::Float).contiguous())
        })
    }
}
