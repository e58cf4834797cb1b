//! The spatial latent upscaler, ×2: it doubles the edges of a video's latents between two stages of sampling.
//!
//! LTX-2's, which resamples by a blur, is not read.

use crate::networks::prelude::*;

network_config! {
    /// `latent_upsampler/config.json`, with the numbers of the published model where a key is left out.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct LatentUpscalerConfig {
        pub in_channels: i64 = 128 => size(),
        pub mid_channels: i64 = 1024 => size(),
        /// Blocks before the doubling, and as many after it.
        pub num_blocks_per_stage: i64 = 4 => count("res_blocks.{}.conv1.weight"),
        pub dims: i64 = 3 => only(),
        pub spatial_upsample: bool = true => only(),
        pub temporal_upsample: bool = false => only(),
        pub use_rational_resampler: bool = false => only(),
    }
}

impl NetworkConfig for LatentUpscalerConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("LTX2LatentUpsamplerModel")
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        ensure!(
            weights.has("upsampler.0.weight")
                && weights.has("post_upsample_res_blocks.0.conv1.weight"),
            "{}",
            not_a("LTX-2.3 spatial latent upscaler ×2", weights)
        );
        let key = |name: &str| name.to_owned();
        let header = NamedShapes::new(weights, &key);
        let [mid_channels, in_channels, ..] = header.sizes::<5>("initial_conv.weight")?;
        // One that doubles the frames has a convolution over time here.
        header.sizes::<4>("upsampler.0.weight")?;
        Ok(Self {
            in_channels,
            mid_channels,
            ..Self::of_declared(&header)?
        })
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        let groups = Self::GROUPS;
        ensure!(
            self.mid_channels % groups == 0,
            "expected mid_channels that are a multiple of {groups}, found {}",
            self.mid_channels
        );
        Ok(())
    }

    fn tensors(&self, _weights: &WeightSet) -> Vec<TensorSpec> {
        let (own, mid) = (self.in_channels, self.mid_channels);
        let volume = |outputs, inputs| [outputs, inputs, 3, 3, 3];
        let mut schema = Schema::default();
        schema.conv("initial_conv", &volume(mid, own));
        schema.norm("initial_norm", mid);
        for list in ["res_blocks", "post_upsample_res_blocks"] {
            schema.blocks(list, self.num_blocks_per_stage, |schema| {
                for number in [1, 2] {
                    schema.conv(&format!("conv{number}"), &volume(mid, mid));
                    schema.norm(&format!("norm{number}"), mid);
                }
            });
        }
        schema.conv("upsampler.0", &[4 * mid, mid, 3, 3]);
        schema.conv("final_conv", &volume(own, mid));
        schema.into_tensors()
    }
}

impl LatentUpscalerConfig {
    /// Groups of its norms, whatever their width.
    pub const GROUPS: i64 = 32;
}
