//! The video autoencoder, 32 × 32 × 8 pixels to one latent, with a convolutional decoder.
//!
//! Either half is a flat list in the authors' names: groups of residual blocks, and between them steps that exchange pixels
//! and channels. The names and shapes of a header show all of it.

use crate::networks::prelude::*;
use crate::networks::{AutoencoderConfig, VaeHalf};

/// By which a file is known.
const MARKS: [&str; 2] = [
    "decoder.up_blocks.0.res_blocks.0.conv1.conv.weight",
    "encoder.down_blocks.0.res_blocks.0.conv1.conv.weight",
];
const LEVELS: usize = 4;
/// Pixels along an edge that become channels before the first convolution.
const PATCH: i64 = 4;

network_config! {
    /// `vae/config.json`, with the numbers of the published model where a key is left out. Lists of the decoder begin at
    /// the pixels, but for `upsample_type`.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Ltx2VaeConfig {
        pub latent_channels: i64 = 128 => size(),
        pub patch_size: i64 = PATCH => only(),
        pub block_out_channels: Vec<i64> = vec![256, 512, 1024, 1024],
        pub layers_per_block: Vec<i64> = vec![4, 6, 4, 2, 2],
        pub downsample_type: Vec<Ltx2VaeStep> = vec![
            Ltx2VaeStep::Spatial, Ltx2VaeStep::Temporal, Ltx2VaeStep::Spatiotemporal, Ltx2VaeStep::Spatiotemporal,
        ],
        pub decoder_block_out_channels: Vec<i64> = vec![256, 512, 512, 1024],
        pub decoder_layers_per_block: Vec<i64> = vec![4, 6, 4, 2, 2],
        pub upsample_type: Vec<Ltx2VaeStep> = vec![
            Ltx2VaeStep::Spatiotemporal, Ltx2VaeStep::Spatiotemporal, Ltx2VaeStep::Temporal, Ltx2VaeStep::Spatial,
        ],
        /// Divisors of the width in the steps of the decoder.
        pub upsample_factor: Vec<i64> = vec![2, 2, 1, 2],
        /// True in LTX-2, whose frames are also padded by reflection.
        pub upsample_residual: Vec<bool> = vec![false; LEVELS],
        pub decoder_spatial_padding_mode: String = "zeros".to_owned() => only(),
        pub encoder_spatial_padding_mode: String = "zeros".to_owned() => only(),
        pub encoder_causal: bool = true => only(),
        pub decoder_causal: bool = false => only(),
        pub timestep_conditioning: bool = false => only(),
    }
}

/// Step between two levels, which halves edges, frames or both, or doubles them in the decoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ltx2VaeStep {
    Spatial,
    Temporal,
    Spatiotemporal,
}

impl Ltx2VaeStep {
    const ALL: [Self; 3] = [Self::Spatial, Self::Temporal, Self::Spatiotemporal];

    /// Factors of frames and of edges.
    pub fn factors(self) -> [i64; 2] {
        match self {
            Self::Spatial => [1, 2],
            Self::Temporal => [2, 1],
            Self::Spatiotemporal => [2, 2],
        }
    }

    /// Pixels that become channels, or that are made of channels.
    pub fn folded(self) -> i64 {
        let [time, edges] = self.factors();
        time * edges * edges
    }
}

/// Residual blocks of one width, and the step after them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ltx2VaeLevel {
    /// Name of the residual blocks' group.
    pub name: String,
    pub num_blocks: i64,
    pub width: i64,
    /// Name, step, and width after it; the last level has none.
    pub step: Option<(String, Ltx2VaeStep, i64)>,
}

impl NetworkConfig for Ltx2VaeConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("AutoencoderKLLTX2Video")
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = prefix_before(weights.names(), &MARKS)
            .ok_or_else(|| not_a("LTX-2.3 video VAE", weights))?;
        let key = |name: &str| format!("{prefix}{name}");
        let header = NamedShapes::new(weights, &key);
        let down = found_levels(&header, "encoder.down_blocks")?;
        let up = found_levels(&header, "decoder.up_blocks")?;
        let latents = header.sizes::<5>("decoder.conv_in.conv.weight")?[1];
        let published = Self::default();
        let mut config = Self {
            latent_channels: latents,
            upsample_residual: vec![false; up.len() - 1],
            layers_per_block: down.iter().map(|level| level.num_blocks).collect(),
            decoder_layers_per_block: up.iter().rev().map(|level| level.num_blocks).collect(),
            block_out_channels: Vec::new(),
            downsample_type: Vec::new(),
            decoder_block_out_channels: Vec::new(),
            upsample_type: Vec::new(),
            upsample_factor: Vec::new(),
            ..published
        };
        for level in &down {
            if let Some((_, step, output)) = &level.step {
                config.block_out_channels.push(*output);
                config.downsample_type.push(*step);
            }
        }
        for level in &up {
            if let Some((_, step, output)) = &level.step {
                config.upsample_type.push(*step);
                config.decoder_block_out_channels.insert(0, level.width);
                config.upsample_factor.insert(0, level.width / output);
            }
        }
        Ok(config)
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        for (name, found, expected) in [
            ("block_out_channels", self.block_out_channels.len(), LEVELS),
            ("layers_per_block", self.layers_per_block.len(), LEVELS + 1),
            ("downsample_type", self.downsample_type.len(), LEVELS),
            (
                "decoder_block_out_channels",
                self.decoder_block_out_channels.len(),
                LEVELS,
            ),
            (
                "decoder_layers_per_block",
                self.decoder_layers_per_block.len(),
                LEVELS + 1,
            ),
            ("upsample_type", self.upsample_type.len(), LEVELS),
            ("upsample_factor", self.upsample_factor.len(), LEVELS),
        ] {
            check_only(&format!("number of {name}"), &found, &expected)?;
        }
        check_only(
            "upsample_residual",
            &self.upsample_residual,
            &vec![false; LEVELS],
        )?;
        for list in [
            &self.block_out_channels,
            &self.decoder_block_out_channels,
            &self.upsample_factor,
        ] {
            list.iter()
                .try_for_each(|&size| check_sizes(&[("width of a level", size)]))?;
        }
        for list in [&self.layers_per_block, &self.decoder_layers_per_block] {
            list.iter()
                .try_for_each(|&count| check_layers(&[("layers_per_block", count)]))?;
        }
        for (steps, name) in [
            (&self.downsample_type, "downsample_type"),
            (&self.upsample_type, "upsample_type"),
        ] {
            let factors = steps.iter().map(|step| step.factors());
            let [time, edges] =
                factors.fold([1, PATCH], |[time, edges], [t, e]| [time * t, edges * e]);
            ensure!(
                [time, edges] == [Self::TEMPORAL_FACTOR, Self::SPATIAL_FACTOR],
                "expected a {name} of 8 frames and 32 pixels to a latent, found {time} and {edges}"
            );
        }
        self.check_widths()
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.halves(weights)
    }
}

impl AutoencoderConfig for Ltx2VaeConfig {
    fn half(&self, half: VaeHalf, weights: &WeightSet) -> Vec<TensorSpec> {
        let prefix = Self::prefix(weights.names());
        let mut schema = Schema::default();
        let conv = |schema: &mut Schema, name: String, [inputs, outputs]: [i64; 2]| {
            schema.conv(&format!("{name}.conv"), &[outputs, inputs, 3, 3, 3]);
        };
        let levels = self.levels(half);
        let widths = |level: Option<&Ltx2VaeLevel>| level.map_or(1, |level| level.width);
        let [first, last] = [widths(levels.first()), widths(levels.last())];
        let [inputs, outputs] = self.border_channels(half);
        let name = half.name();
        conv(&mut schema, format!("{name}.conv_in"), [inputs, first]);
        for level in &levels {
            schema.blocks(
                &format!("{}.res_blocks", level.name),
                level.num_blocks,
                |schema| {
                    for part in ["conv1", "conv2"] {
                        conv(schema, part.to_owned(), [level.width; 2]);
                    }
                },
            );
            if let Some((name, step, output)) = &level.step {
                let outputs = Self::step_channels(half, *step, *output);
                conv(&mut schema, format!("{name}.conv"), [level.width, outputs]);
            }
        }
        conv(&mut schema, format!("{name}.conv_out"), [last, outputs]);
        for statistic in Self::STATISTICS {
            schema.vector(statistic, self.latent_channels);
        }
        schema.renamed(|name| format!("{prefix}{name}"))
    }
}

impl Ltx2VaeConfig {
    /// Frames of one latent frame after the first.
    pub const TEMPORAL_FACTOR: i64 = 8;
    /// Pixels along an edge of one latent.
    pub const SPATIAL_FACTOR: i64 = 32;
    /// Mean and deviation of the latents' channels.
    pub const STATISTICS: [&'static str; 2] = [
        "per_channel_statistics.mean-of-means",
        "per_channel_statistics.std-of-means",
    ];

    /// Prefix of the names in a file with these keys.
    pub fn prefix<'a>(keys: impl Iterator<Item = &'a str>) -> &'a str {
        prefix_before(keys, &MARKS).unwrap_or_default()
    }

    /// Channels that come into a half and that leave it: those of latents or of a patch of pixels. The encoder's last
    /// channel is a common logarithm of the variance.
    pub fn border_channels(&self, half: VaeHalf) -> [i64; 2] {
        let pixels = 3 * PATCH * PATCH;
        match half {
            VaeHalf::Encoder => [pixels, self.latent_channels + 1],
            VaeHalf::Decoder => [self.latent_channels, pixels],
        }
    }

    /// Channels of a step's convolution to a width of `output` after the step.
    pub fn step_channels(half: VaeHalf, step: Ltx2VaeStep, output: i64) -> i64 {
        match half {
            VaeHalf::Encoder => output / step.folded(),
            VaeHalf::Decoder => output * step.folded(),
        }
    }

    /// The levels of a half in the order in which they are run.
    pub fn levels(&self, half: VaeHalf) -> Vec<Ltx2VaeLevel> {
        let (list, mut width, layers, steps): (_, _, Vec<_>, Vec<_>) = match half {
            VaeHalf::Encoder => (
                "encoder.down_blocks",
                self.latent_channels,
                self.layers_per_block.clone(),
                self.downsample_type
                    .iter()
                    .copied()
                    .zip(self.block_out_channels.iter().copied())
                    .collect(),
            ),
            VaeHalf::Decoder => {
                let widths = self.decoder_block_out_channels.iter().rev();
                let outputs = widths.zip(self.upsample_factor.iter().rev());
                let outputs = outputs.map(|(width, factor)| width / factor);
                (
                    "decoder.up_blocks",
                    self.decoder_block_out_channels.last().copied().unwrap_or(1),
                    self.decoder_layers_per_block
                        .iter()
                        .rev()
                        .copied()
                        .collect(),
                    self.upsample_type.iter().copied().zip(outputs).collect(),
                )
            }
        };
        let mut steps = steps.into_iter();
        let levels = layers.into_iter().enumerate().map(|(index, num_blocks)| {
            let step = steps.next();
            let level = Ltx2VaeLevel {
                name: format!("{list}.{}", 2 * index),
                num_blocks,
                width,
                step: step
                    .map(|(step, output)| (format!("{list}.{}", 2 * index + 1), step, output)),
            };
            width = step.map_or(width, |(_, output)| output);
            level
        });
        levels.collect()
    }

    /// Steps whose widths divide, and no residual block that changes the width.
    fn check_widths(&self) -> Result<(), String> {
        for level in self.levels(VaeHalf::Encoder) {
            let Some((name, step, output)) = level.step else {
                continue;
            };
            let folded = step.folded();
            ensure!(
                output % folded == 0 && level.width * folded % output == 0,
                "expected widths that divide each other at {name}, found {} and {output}",
                level.width
            );
        }
        let widths = self.decoder_block_out_channels.iter().rev();
        for (level, width) in self.levels(VaeHalf::Decoder).iter().zip(widths) {
            ensure!(
                level.width == *width && level.step.iter().all(|(_, _, output)| *output > 0),
                "expected a width of {width} at {}, found {}",
                level.name,
                level.width
            );
        }
        Ok(())
    }
}

/// The levels that names and shapes show.
fn found_levels(header: &NamedShapes<'_>, list: &str) -> Result<Vec<Ltx2VaeLevel>, String> {
    let group = |index: usize| format!("{list}.{}", 2 * index);
    let width = |index: usize| {
        let first = format!("{}.res_blocks.0.conv1.conv.weight", group(index));
        Ok::<_, String>(header.sizes::<5>(&first)?[1])
    };
    let mut levels = Vec::new();
    for index in 0..=LEVELS {
        let name = group(index);
        let step = if index < LEVELS {
            let name = format!("{list}.{}", 2 * index + 1);
            let [channels, ..] = header.sizes::<5>(&format!("{name}.conv.conv.weight"))?;
            let output = width(index + 1)?;
            let folded = (channels / output).max(output / channels);
            let step = Ltx2VaeStep::ALL
                .into_iter()
                .find(|step| step.folded() == folded);
            let step = step.ok_or_else(|| {
                format!("expected a step of 2, 4 or 8 pixels at {name}, found {folded}")
            })?;
            Some((name, step, output))
        } else {
            None
        };
        levels.push(Ltx2VaeLevel {
            num_blocks: header.count(&format!("{name}.res_blocks.{{}}.conv1.conv.weight")),
            width: width(index)?,
            name,
            step,
        });
    }
    Ok(levels)
}
