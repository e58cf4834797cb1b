//! The autoencoder of images, `AutoencoderKL`, as FLUX.1 and other latent diffusion models have it, and that of FLUX.2,
//! whose latents are normed and not scaled.
//!
//! HunyuanVideo's is of the same kind: what the two share is in `config` (numbers), `levels` (tensors) and `keys`
//! (names).

mod config;
mod keys;
mod levels;

use super::vae::check_shift;
use crate::model::{DetectionRule, detection_rules};

/// By which its files are known where no family knows them better.
pub(super) const KINDS: &[DetectionRule] = detection_rules! {
    "" "vae" "an image VAE" as KlVae: "decoder.mid_block.resnets.0.conv1.weight";
};

pub use config::{KlConfig, KlKind, NORM_MEAN, NORM_VARIANCE, NORMED_EDGE};
pub use keys::KlVaeKeys;

pub type KlVaeConfig = KlConfig<ImageVae>;

/// The kind of [`KlVaeConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageVae {}

impl KlKind for ImageVae {
    const CLASS: &'static str = "AutoencoderKL";
    const NORMED_CLASS: Option<&'static str> = Some("AutoencoderKLFlux2");
    const NAME: &'static str = "image VAE";
    const IS_VIDEO: bool = false;
    const BLOCK_TYPES: [&'static str; 2] = ["DownEncoderBlock2D", "UpDecoderBlock2D"];
    const SCALES_WITHOUT_CONFIG: &'static [(i64, f64, Option<f64>)] =
        &[(16, 0.3611, Some(0.1159)), (4, SDXL_SCALE, None)];

    const DEFAULTS: (&'static [i64], i64, i64, f64) = (&[64], 1, 4, 0.18215);

    fn check(config: &KlVaeConfig) -> Result<(), String> {
        check_shift("shift_factor", config.shift())
    }
}

/// Scale of SDXL's latents.
const SDXL_SCALE: f64 = 0.13025;

impl KlVaeConfig {
    /// SDXL's published autoencoder.
    pub(crate) fn of_four_channels() -> Self {
        Self {
            latent_channels: 4,
            scaling_factor: SDXL_SCALE,
            use_quant_conv: true,
            use_post_quant_conv: true,
            shift_factor: None,
            ..Self::of_sixteen_channels()
        }
    }

    /// The autoencoder that was published with FLUX.1, which later models took over.
    pub(crate) fn of_sixteen_channels() -> Self {
        Self {
            block_out_channels: vec![128, 256, 512, 512],
            layers_per_block: 2,
            latent_channels: 16,
            scaling_factor: 0.3611,
            use_quant_conv: false,
            use_post_quant_conv: false,
            ..Self::default()
        }
    }

    /// The published one with normed latents.
    pub(crate) fn of_thirty_two_channels() -> Self {
        Self {
            class: ImageVae::NORMED_CLASS.unwrap_or_default().to_owned(),
            latent_channels: 32,
            scaling_factor: 1.0,
            use_quant_conv: true,
            use_post_quant_conv: true,
            ..Self::of_sixteen_channels()
        }
    }
}
