//! Latents that are normed by the mean and the variance that training counted of them, two by two at once.
//!
//! The numbers are in the autoencoder's file; neither half computes with them.

use std::path::Path;

use safelight_core::networks::{KlVaeConfig, NORM_MEAN, NORM_VARIANCE, NORMED_EDGE};
use tch::{Device, Kind, Tensor};

use crate::vae::keys;
use crate::weights::{Weights, WeightsError};

const COUNT: &str = "bn.num_batches_tracked";

/// Of each channel at each place in a square of latents: `(1, C, 1, 2, 1, 2)` in f32
#[derive(Debug)]
pub struct LatentStatistics {
    mean: Tensor,
    deviation: Tensor,
}

/// Marks the keys next to the two halves as requested.
pub(super) fn ignore(root: &Weights) {
    for name in [NORM_MEAN, NORM_VARIANCE, COUNT] {
        root.ignore(name);
    }
}

impl LatentStatistics {
    /// Of the file or folder of an autoencoder; `None` where its latents are scaled.
    pub fn open(cfg: &KlVaeConfig, home: &Path) -> Result<Option<Self>, WeightsError> {
        if !cfg.is_normed() {
            return Ok(None);
        }
        let weights = Weights::open(home, Kind::Float, Device::Cpu)?;
        Self::load(cfg, &weights).map(Some)
    }

    fn load(cfg: &KlVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let root = keys::kl(weights, cfg.block_out_channels.len());
        let size = [1, cfg.latent_channels, 1, NORMED_EDGE, 1, NORMED_EDGE];
        let read = |name| root.tensor(name, &[cfg.num_statistics()]);
        let variance = read(NORM_VARIANCE)?.view(size);
        Ok(Self {
            mean: read(NORM_MEAN)?.view(size),
            deviation: (variance + cfg.batch_norm_eps()).sqrt(),
        })
    }

    /// `(B, C, h, w)` in f32 from the encoder -> those that a diffusion model takes
    pub fn normalize(&self, latents: &Tensor) -> Tensor {
        self.in_squares(latents, |xs, mean, deviation| (xs - mean) / deviation)
    }

    /// The way back.
    pub fn denormalize(&self, latents: &Tensor) -> Tensor {
        self.in_squares(latents, |xs, mean, deviation| xs * deviation + mean)
    }

    fn in_squares(
        &self,
        latents: &Tensor,
        change: impl Fn(&Tensor, &Tensor, &Tensor) -> Tensor,
    ) -> Tensor {
        let size = latents.size();
        let (rows, columns) = (size[2] / NORMED_EDGE, size[3] / NORMED_EDGE);
        // b c (h p) (w q) -> b c h p w q
        let squares = latents.reshape([size[0], size[1], rows, NORMED_EDGE, columns, NORMED_EDGE]);
        let here = |xs: &Tensor| xs.to_device(latents.device());
        change(&squares, &here(&self.mean), &here(&self.deviation)).reshape(&size)
    }
}
