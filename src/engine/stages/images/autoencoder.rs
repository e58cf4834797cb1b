//! The autoencoders that pictures go through: `AutoencoderKL`, and the video autoencoder of Wan 2.1, to which a picture
//! is a clip of one frame.
//!
//! The file's tensors distinguish them. Decides nothing about the latents between encoder and decoder.

use std::path::Path;

use safelight_core::formats::weights::WeightSet;
use safelight_core::networks::{KlVaeConfig, NORMED_EDGE, NetworkConfig as _, WanVaeConfig};
use tch::{Device, Tensor};

use crate::error::EngineError;
use crate::fault::FaultSite;
use crate::memory::CachedNetwork;
use crate::vae::{
    KlVaeDecoder, KlVaeEncoder, KlWay, Posterior, RowBands, WanVaeDecoder, WanVaeEncoder, kl,
    kl::LatentStatistics, wan,
};
use crate::work::StageWork;

/// Pixels that a CPU takes at once: bands cost it time.
const LARGEST_WHOLE: i64 = 1 << 20;

/// An autoencoder by its numbers. Its own shape is `(B, C, h, w)`, or of Wan's `(B, C, 1, h, w)`.
#[derive(Debug)]
pub(super) enum ImageAutoencoder {
    /// With statistics where its latents are normed.
    Kl(KlVaeConfig, Option<LatentStatistics>),
    Wan(WanVaeConfig),
}

pub(super) enum ImageEncoder {
    Kl(Box<KlVaeEncoder>),
    Wan(Box<WanVaeEncoder>),
}

pub(super) enum ImageDecoder {
    Kl(Box<CachedNetwork<KlVaeDecoder>>),
    Wan(Box<CachedNetwork<WanVaeDecoder>>),
}

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

    /// `(B, C, h, w)` in its own shape.
    pub(super) fn own_shape(&self, pictures: &Tensor) -> Tensor {
        match self {
            Self::Kl(..) => pictures.shallow_clone(),
            Self::Wan(_) => pictures.unsqueeze(2),
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
    pub(super) fn pictures(&self, own: &Tensor) -> Tensor {
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

    pub(super) fn encoder(&self, work: &StageWork<'_>) -> Result<ImageEncoder, EngineError> {
        let home = &work.request.files.vae;
        Ok(match self {
            Self::Kl(config, _) => ImageEncoder::Kl(Box::new(work.load(
                "autoencoder",
                home,
                |w: &_| KlVaeEncoder::new(config, w),
                KlVaeEncoder::unexpected_keys,
            )?)),
            Self::Wan(config) => ImageEncoder::Wan(Box::new(work.load(
                "autoencoder",
                home,
                |w: &_| WanVaeEncoder::new(config, w),
                WanVaeEncoder::unexpected_keys,
            )?)),
        })
    }

    pub(super) fn decoder(&self, work: &StageWork<'_>) -> Result<ImageDecoder, EngineError> {
        let home = &work.request.files.vae;
        Ok(match self {
            Self::Kl(config, _) => ImageDecoder::Kl(Box::new(work.decoder(
                home,
                |w: &_| KlVaeDecoder::new(config, w),
                KlVaeDecoder::unexpected_keys,
            )?)),
            Self::Wan(config) => ImageDecoder::Wan(Box::new(work.decoder(
                home,
                |w: &_| WanVaeDecoder::new(config, w),
                WanVaeDecoder::unexpected_keys,
            )?)),
        })
    }

    /// Pixels along an edge of one latent.
    pub(super) fn spatial_factor(&self) -> i64 {
        match self {
            Self::Kl(config, _) => config.spatial_factor(),
            Self::Wan(config) => config.spatial_factor(),
        }
    }
}

impl ImageEncoder {
    /// `pixels`: `(1, 3, H, W)` in its autoencoder's own shape, in -1..1 -> of latents in that shape
    pub(super) fn encode(
        &self,
        pixels: &Tensor,
        work: &StageWork<'_>,
    ) -> Result<Posterior, EngineError> {
        let cancelled = work.cancelled(FaultSite::VaeEncode);
        let found = match self {
            Self::Kl(encoder) => encoder.encode(pixels, way(pixels, 1, work), &cancelled),
            Self::Wan(encoder) => encoder.encode(pixels, work.tiling(), &cancelled),
        };
        found.ok_or(EngineError::Cancelled)
    }
}

impl ImageDecoder {
    /// `latents`: of one picture, in its autoencoder's own shape, not normalised; `factor`: pixels along an edge of one
    /// of them -> `(1, 3, H, W)`, nominally in -1..1, in the autoencoder's own shape
    pub(super) fn decode(
        &self,
        latents: &Tensor,
        factor: i64,
        work: &StageWork<'_>,
    ) -> Result<Tensor, EngineError> {
        let cancelled = work.cancelled(FaultSite::VaeDecode);
        let made = match self {
            Self::Kl(decoder) => decoder.decode(latents, way(latents, factor, work), &cancelled),
            Self::Wan(decoder) => {
                let mut made = None;
                decoder
                    .decode(latents, work.tiling(), &cancelled, &mut |frame| {
                        made = Some(frame);
                    })
                    .and(made)
            }
        };
        made.ok_or(EngineError::Cancelled)
    }
}

/// Strategy of `AutoencoderKL` for an image, `(1, C, H, W)` with `factor` pixels per value along an edge.
fn way(picture: &Tensor, factor: i64, work: &StageWork<'_>) -> KlWay {
    let size = picture.size();
    let pixels = size[2] * size[3] * factor * factor;
    match work.tiling() {
        Some(tiling) => KlWay::Tiles(tiling),
        None if work.place.device == Device::Cpu && pixels <= LARGEST_WHOLE => KlWay::Whole,
        None => KlWay::Bands(RowBands::default()),
    }
}
