//! The autoencoder of HunyuanVideo and FramePack, `AutoencoderKLHunyuanVideo`: the levels of the autoencoders of
//! images, with convolutions over time too.
//!
//! The authors' own file has diffusers' names; ComfyUI's has those of the image autoencoders' authors.

use super::config::check_only;
use super::kl_vae::{KlConfig, KlKind};

/// Levels whose step halves the edges: three, for 8 × 8 pixels to a latent.
const SPATIAL_STEPS: usize = 3;
/// Levels whose step halves the frames as well: two, for 4 frames to a latent.
const TIME_STEPS: usize = 2;
const LEVELS: usize = SPATIAL_STEPS + 1;
const SPATIAL_FACTOR: i64 = 1 << SPATIAL_STEPS;
const TEMPORAL_FACTOR: i64 = 1 << TIME_STEPS;
const SCALING_FACTOR: f64 = 0.476_986;

pub type HunyuanVaeConfig = KlConfig<HunyuanVae>;

/// The kind of [`HunyuanVaeConfig`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HunyuanVae {}

impl KlKind for HunyuanVae {
    const CLASS: &'static str = "AutoencoderKLHunyuanVideo";
    const NAME: &'static str = "HunyuanVideo VAE";
    const IS_VIDEO: bool = true;
    const BLOCK_TYPES: [&'static str; 2] = ["HunyuanVideoDownBlock3D", "HunyuanVideoUpBlock3D"];
    const SCALES_WITHOUT_CONFIG: &'static [(i64, f64, Option<f64>)] = &[(16, SCALING_FACTOR, None)];

    const DEFAULTS: (&'static [i64], i64, i64, f64) =
        (&[128, 256, 512, 512], 2, 16, SCALING_FACTOR);
    const RATIOS: [Option<i64>; 2] = [Some(SPATIAL_FACTOR), Some(TEMPORAL_FACTOR)];

    fn check(config: &HunyuanVaeConfig) -> Result<(), String> {
        let levels = config.block_out_channels.len();
        check_only("number of block_out_channels", &levels, &LEVELS)?;
        let spatial = config.spatial_compression_ratio.unwrap_or(SPATIAL_FACTOR);
        check_only("spatial_compression_ratio", &spatial, &SPATIAL_FACTOR)?;
        let temporal = config.temporal_factor();
        check_only("temporal_compression_ratio", &temporal, &TEMPORAL_FACTOR)
    }
}

impl HunyuanVaeConfig {
    /// Frames of one latent frame after the first.
    pub fn temporal_factor(&self) -> i64 {
        self.temporal_compression_ratio.unwrap_or(TEMPORAL_FACTOR)
    }

    /// Factors of frames and edges in the step after a level. `index`: counted from the start of the half, for the
    /// encoder from the pixels and for the decoder from the latents.
    pub fn step_behind(index: usize) -> [i64; 2] {
        let changes_time = (LEVELS - 1 - TIME_STEPS..LEVELS - 1).contains(&index);
        let changes_edges = index < SPATIAL_STEPS;
        [changes_time, changes_edges].map(|changes| 1 + i64::from(changes))
    }
}
