//! Video autoencoders of Wan, `AutoencoderKLWan`: the flat one of Wan 2.1 and the residual one of Wan 2.2.
//!
//! Wan 2.1's is also an autoencoder of images, each a video of one frame: diffusers' `AutoencoderKLQwenImage`, with
//! equal tensors and another config. That of Qwen-Image 2.1 has the residual form for images with alpha alone:
//! its convolutions see one frame.
//!
//! Config from diffusers' file or a header, and its checks.

mod header;
mod keys;
mod levels;

use header::{MEAN_16, STD_16};

use super::AutoencoderConfig;
use super::vae::{VaeHalf, check_scale, check_shift};
use crate::networks::prelude::*;

pub use keys::WanVaeKeys;
pub use levels::WanVaeLevel;

const CLASS: &str = "AutoencoderKLWan";
/// Class of the VAE without time, for images.
const IMAGE_CLASS: &str = "AutoencoderKLQwenImage";
/// Class of the VAE of RGBA images.
const RGBA_CLASS: &str = "AutoencoderKLQwenImage21";
/// More than any autoencoder has.
const MAX_LEVELS: usize = 8;
const MAX_PATCH: i64 = 64;

network_config! {
    /// `vae/config.json`, with diffusers' defaults, those of Wan 2.1, where a key is left out.
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
    #[serde(default)]
    pub struct WanVaeConfig {
        #[serde(rename = "_class_name")]
        pub class: String = CLASS.to_owned(),
        pub base_dim: i64 = 96 => size(),
        pub decoder_base_dim: Option<i64> = None => size(),
        /// Channels of the latents.
        pub z_dim: i64 = 16 => size(),
        /// Width of each level, in multiples of the base.
        pub dim_mult: Vec<i64> = vec![1, 2, 4, 4],
        /// Residual blocks of a level of the encoder; the decoder has one more.
        pub num_res_blocks: i64 = 2 => layers(),
        /// The scales, 1 for whole frames, at which the encoder of a Wan 2.1 has attention after its residual blocks.
        pub attn_scales: Vec<f64> = Vec::new(),
        /// Steps between the encoder's levels that also halve time; the decoder has them in reverse order.
        pub temperal_downsample: Vec<bool> = vec![false, true, true],
        pub latents_mean: Option<Vec<f64>> = None,
        pub latents_std: Option<Vec<f64>> = None,
        /// Wan 2.2: levels with a shortcut around them, all of one width. In Wan 2.1 the step to the next level halves
        /// the width on the way up, and there are no shortcuts.
        pub is_residual: bool = false,
        #[serde(alias = "input_channels")]
        pub in_channels: i64 = 3 => size(),
        pub out_channels: i64 = 3 => size(),
        /// Pixels of a square that become channels before the first convolution.
        pub patch_size: Option<i64> = None,
        pub scale_factor_temporal: Option<i64> = None,
        pub scale_factor_spatial: Option<i64> = None,
    }
}

impl NetworkConfig for WanVaeConfig {
    fn is_described_by(config: &Value) -> bool {
        matches!(class_name(config), Some(CLASS | IMAGE_CLASS | RGBA_CLASS))
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        header::config(weights)
    }

    fn check(&self) -> Result<(), String> {
        if self.class != IMAGE_CLASS && !self.is_rgba() {
            check_only("class", &self.class, &CLASS.to_owned())?;
        }
        self.check_declared()?;
        self.check_levels()?;
        self.check_pixels()?;
        self.check_statistics()?;
        self.check_widths()
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.halves(weights)
    }
}

impl AutoencoderConfig for WanVaeConfig {
    fn half(&self, half: VaeHalf, weights: &WeightSet) -> Vec<TensorSpec> {
        self.schema(half, &WanVaeKeys::of(weights))
    }
}

impl WanVaeConfig {
    /// The published autoencoder for latents of a number of channels: that of Wan 2.2 for 48, that of
    /// Qwen-Image 2.1 for 64, else that of Wan 2.1.
    pub fn published(channels: i64) -> Self {
        if channels == 64 {
            return Self {
                class: RGBA_CLASS.to_owned(),
                decoder_base_dim: Some(144),
                z_dim: 64,
                dim_mult: vec![1, 2, 4, 8, 8],
                temperal_downsample: vec![false, true, true, true],
                is_residual: true,
                in_channels: 4,
                out_channels: 4,
                ..Self::default()
            };
        }
        if channels != 48 {
            return Self::default();
        }
        Self {
            base_dim: 160,
            decoder_base_dim: Some(256),
            z_dim: 48,
            is_residual: true,
            in_channels: 12,
            out_channels: 12,
            patch_size: Some(2),
            ..Self::default()
        }
    }

    /// Returns true if its layers are as wide as another's.
    pub(crate) fn is_as_wide_as(&self, other: &Self) -> bool {
        (self.base_dim, self.decoder_dim(), &self.dim_mult)
            == (other.base_dim, other.decoder_dim(), &other.dim_mult)
    }

    /// Frames that the encoder takes at a time after the first one, whatever the temporal factor is.
    pub const ENCODER_FRAMES: i64 = 4;

    pub fn patch(&self) -> i64 {
        self.patch_size.unwrap_or(1)
    }

    pub fn decoder_dim(&self) -> i64 {
        self.decoder_base_dim.unwrap_or(self.base_dim)
    }

    /// The mean of each latent channel; diffusers' default is that of Wan 2.1.
    pub fn mean(&self) -> &[f64] {
        self.latents_mean.as_deref().unwrap_or(&MEAN_16)
    }

    /// The standard deviation of each latent channel, with the same default.
    pub fn std(&self) -> &[f64] {
        self.latents_std.as_deref().unwrap_or(&STD_16)
    }

    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> i64 {
        self.patch() << (self.dim_mult.len() - 1)
    }

    /// Frames of one latent frame after the first, which is one frame alone.
    pub fn temporal_factor(&self) -> i64 {
        1 << self.time_steps()
    }

    /// Returns true for images with alpha, whose convolutions see one frame.
    pub fn is_rgba(&self) -> bool {
        self.class == RGBA_CLASS
    }

    /// Colours of a pixel, with alpha.
    pub fn colours(&self) -> i64 {
        if self.is_rgba() { 4 } else { 3 }
    }

    /// Frames that a convolution sees at once.
    pub fn taps(&self) -> i64 {
        if self.is_rgba() { 1 } else { 3 }
    }

    /// Colours of the pixels of a patch.
    pub fn pixel_channels(&self) -> i64 {
        self.colours() * self.patch() * self.patch()
    }

    /// Returns true if a file has such an autoencoder.
    pub fn is_in(weights: &WeightSet) -> bool {
        WanVaeKeys::of(weights).has_marks(weights)
    }

    /// Number of steps between levels that halve time.
    fn time_steps(&self) -> usize {
        self.temperal_downsample
            .iter()
            .filter(|&&halves| halves)
            .count()
    }

    fn check_levels(&self) -> Result<(), String> {
        let (levels, steps) = (self.dim_mult.len(), self.temperal_downsample.len());
        ensure!(
            (2..=MAX_LEVELS).contains(&levels) && steps + 1 == levels,
            "expected 2 to {MAX_LEVELS} levels in dim_mult and one less in temperal_downsample, found {levels} and {steps}"
        );
        for &factor in &self.dim_mult {
            check_sizes(&[("dim_mult", factor)])?;
        }
        ensure!(
            self.is_rgba() || self.temporal_factor() <= Self::ENCODER_FRAMES,
            "expected a temperal_downsample that halves time at most twice, found {} times",
            self.time_steps()
        );
        Ok(())
    }

    fn check_pixels(&self) -> Result<(), String> {
        let patch = self.patch();
        ensure!(
            (1..=MAX_PATCH).contains(&patch),
            "expected a patch_size between 1 and {MAX_PATCH}, found {patch}"
        );
        let (pixels, channels) = (self.pixel_channels(), [self.in_channels, self.out_channels]);
        ensure!(
            channels == [pixels; 2],
            "expected {pixels} in_channels and out_channels ({} times patch_size squared), found {} and {}",
            self.colours(),
            channels[0],
            channels[1]
        );
        // Product of the levels and the patch.
        let (space, time) = (self.spatial_factor(), self.temporal_factor());
        let stated = self.scale_factor_spatial.unwrap_or(space);
        check_only("scale_factor_spatial", &stated, &space)?;
        let stated = self.scale_factor_temporal.unwrap_or(time);
        check_only("scale_factor_temporal", &stated, &time)
    }

    fn check_statistics(&self) -> Result<(), String> {
        for (name, stated, values) in [
            ("latents_mean", &self.latents_mean, self.mean()),
            ("latents_std", &self.latents_std, self.std()),
        ] {
            if usize::try_from(self.z_dim) != Ok(values.len()) {
                let found = stated.as_ref().map(Vec::len);
                let found = found.map_or_else(|| "none".to_owned(), |len| len.to_string());
                return Err(format!(
                    "expected {} {name}, as many as z_dim, found {found}",
                    self.z_dim
                ));
            }
        }
        for &mean in self.mean() {
            check_shift("latents_mean", mean)?;
        }
        for &std in self.std() {
            check_scale("latents_std", std)?;
        }
        Ok(())
    }

    /// Shortcuts fold pixels into channels, so widths must divide each other times the folded pixels.
    fn check_widths(&self) -> Result<(), String> {
        let down = self.encoder_levels().into_iter();
        let down = down.map(|it| (it.input * it.folded(), it.output, it));
        let up = self.decoder_levels().into_iter();
        let up = up.map(|it| (it.output * it.folded(), it.input, it));
        for (many, few, level) in down.chain(up) {
            ensure!(
                level.next >= 1,
                "expected levels by dim_mult whose widths can be halved, found one of {}",
                level.output
            );
            ensure!(
                !level.has_shortcut || many % few == 0,
                "expected levels by dim_mult whose widths divide each other, found one from {} to {}",
                level.input,
                level.output
            );
        }
        Ok(())
    }
}
