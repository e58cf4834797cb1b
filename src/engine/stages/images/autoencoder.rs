//! The autoencoders that images go through: `AutoencoderKL`, and the video autoencoder of Wan 2.1, to which an image
//! is a video of one frame.
//!
//! The file's tensors distinguish them. Decides nothing about the latents between encoder and decoder.

use std::path::Path;

use safelight_core::formats::weights::WeightSet;
use safelight_core::networks::{KlVaeConfig, NORMED_EDGE, NetworkConfig as _, WanVaeConfig};
use tch::{Device, Tensor};

use super::latents::ImageLatentShape;
use crate::fault::FaultSite;
use crate::vae::{
    KlVaeDecoder, KlVaeEncoder, KlWay, Posterior, RowBands, Tiling, WanVaeDecoder, WanVaeEncoder,
    kl, kl::LatentStatistics, wan,
};
use crate::{EngineError, StageWork};

/// Pixels that a CPU takes at once: bands cost it time.
const LARGEST_WHOLE: i64 = 1 << 20;

/// An autoencoder by its numbers. Its own shape is `(B, C, h, w)`, or of Wan's `(B, C, 1, h, w)`.
#[derive(Debug)]
pub(super) enum ImageAutoencoder {
    /// With statistics where its latents are normed.
    Kl(KlVaeConfig, Option<LatentStatistics>),
    Wan(WanVaeConfig),
}

/// `(1, 3, H, W)` in -1..1 to a posterior of latents, both in the autoencoder's own shape; `None` when cancelled.
pub(super) type ImageEncoder<'a> = Box<dyn Fn(&Tensor) -> Option<Posterior> + 'a>;

/// Latents of one image, not normalised, to `(1, 3, H, W)`, nominally in -1..1, both in the autoencoder's own shape; `None`
/// when cancelled.
pub(super) type ImageDecoder<'a> = Box<dyn Fn(&Tensor) -> Option<Tensor> + 'a>;

impl ImageAutoencoder {
    pub(super) fn read(home: &Path) -> Result<Self, EngineError> {
        Ok(if WanVaeConfig::is_in(&WeightSet::open(home)?) {
            Self::Wan(WanVaeConfig::read(home)?)
        } else {
            let config = KlVaeConfig::read(home)?;
            let statistics = LatentStatistics::open(&config, home)?;
            Self::Kl(config, statistics)
        })
    }

    pub(super) fn latent_channels(&self) -> i64 {
        match self {
            Self::Kl(config, _) => config.latent_channels,
            Self::Wan(config) => config.z_dim,
        }
    }

    /// Latents of an image whose size is in pixels.
    pub(super) fn shape(&self, width: u32, height: u32) -> Result<ImageLatentShape, EngineError> {
        let (channels, factor) = match self {
            Self::Kl(config, _) => (config.latent_channels, config.spatial_factor()),
            Self::Wan(config) => (config.z_dim, config.spatial_factor()),
        };
        // Sixteen pixels are a token.
        ImageLatentShape::with_patch(16 / factor, channels, width, height)
    }

    /// `(B, C, h, w)` in its own shape.
    pub(super) fn own_shape(&self, images: &Tensor) -> Tensor {
        match self {
            Self::Kl(..) => images.shallow_clone(),
            Self::Wan(_) => images.unsqueeze(2),
        }
    }

    /// Latents of a reference image, `(1, C, h, w)`, as diffusers' pipelines have them:
    /// normed ones with two by two below each other, the others in its own shape.
    pub(super) fn seen_shape(&self, latents: &Tensor) -> Tensor {
        match self {
            Self::Kl(_, Some(_)) => latents.pixel_unshuffle(NORMED_EDGE),
            _ => self.own_shape(latents),
        }
    }

    /// Its own shape as `(B, C, h, w)`.
    pub(super) fn images(&self, own: &Tensor) -> Tensor {
        match self {
            Self::Kl(..) => own.shallow_clone(),
            Self::Wan(_) => own.squeeze_dim(2),
        }
    }

    /// The latents that a transformer takes, from those that the encoder gives, in its own shape.
    pub(super) fn normalize(&self, latents: &Tensor) -> Tensor {
        match self {
            Self::Kl(_, Some(statistics)) => statistics.normalize(latents),
            Self::Kl(config, None) => kl::normalize(config, latents),
            Self::Wan(config) => wan::normalize(config, latents),
        }
    }

    /// The way back.
    pub(super) fn denormalize(&self, latents: &Tensor) -> Tensor {
        match self {
            Self::Kl(_, Some(statistics)) => statistics.denormalize(latents),
            Self::Kl(config, None) => kl::denormalize(config, latents),
            Self::Wan(config) => wan::denormalize(config, latents),
        }
    }

    pub(super) fn encoder<'a>(
        &self,
        work: &StageWork<'a>,
    ) -> Result<ImageEncoder<'a>, EngineError> {
        let (home, tiling, device) = (&work.request.files.vae, work.tiling(), work.place.device);
        let cancelled = work.cancelled(FaultSite::VaeEncode);
        Ok(match self {
            Self::Kl(config, _) => {
                let new = |w: &_| KlVaeEncoder::new(config, w);
                let unexpected = KlVaeEncoder::unexpected_keys;
                let encoder = work.load("autoencoder", home, new, unexpected)?;
                Box::new(move |pixels| {
                    encoder.encode(pixels, way(pixels, 1, tiling, device), &cancelled)
                })
            }
            Self::Wan(config) => {
                let new = |w: &_| WanVaeEncoder::new(config, w);
                let unexpected = WanVaeEncoder::unexpected_keys;
                let encoder = work.load("autoencoder", home, new, unexpected)?;
                let is_rgba = config.is_rgba();
                Box::new(move |pixels| {
                    if is_rgba && pixels.size()[1] == 3 {
                        // Opaque.
                        let alpha = pixels.narrow(1, 0, 1).ones_like();
                        let pixels = Tensor::cat(&[pixels, &alpha], 1);
                        return encoder.encode(&pixels, tiling, &cancelled);
                    }
                    encoder.encode(pixels, tiling, &cancelled)
                })
            }
        })
    }

    pub(super) fn decoder<'a>(
        &self,
        work: &StageWork<'a>,
    ) -> Result<ImageDecoder<'a>, EngineError> {
        let (home, tiling, device) = (&work.request.files.vae, work.tiling(), work.place.device);
        let cancelled = work.cancelled(FaultSite::VaeDecode);
        Ok(match self {
            Self::Kl(config, _) => {
                let new = |w: &_| KlVaeDecoder::new(config, w);
                let decoder = work.decoder(home, new, KlVaeDecoder::unexpected_keys)?;
                let factor = config.spatial_factor();
                Box::new(move |latents| {
                    decoder.decode(latents, way(latents, factor, tiling, device), &cancelled)
                })
            }
            Self::Wan(config) => {
                let new = |w: &_| WanVaeDecoder::new(config, w);
                let decoder = work.decoder(home, new, WanVaeDecoder::unexpected_keys)?;
                Box::new(move |latents| {
                    let mut made = None;
                    let mut keep = |frame| made = Some(frame);
                    let done = decoder.decode(latents, tiling, &cancelled, &mut keep);
                    done.and(made)
                })
            }
        })
    }
}

/// Strategy of `AutoencoderKL` for an image, `(1, C, H, W)` with `factor` pixels per value along an edge.
fn way(image: &Tensor, factor: i64, tiling: Option<Tiling>, device: Device) -> KlWay {
    let size = image.size();
    let pixels = size[2] * size[3] * factor * factor;
    match tiling {
        Some(tiling) => KlWay::Tiles(tiling),
        None if device == Device::Cpu && pixels <= LARGEST_WHOLE => KlWay::Whole,
        None => KlWay::Bands(RowBands::default()),
    }
}
