//! The decoder of the sound's latents to a mel spectrogram, and the vocoder that makes it a waveform of 48 kHz.
//!
//! The vocoder is two networks of one kind: one to 16 kHz, one that adds what is above 8 kHz to its resampled sound. Steps of
//! their upsampling layers are half their kernels, rounded down, in every published file.

use crate::networks::prelude::*;

const CONV_IN: &str = "decoder.conv_in.conv.weight";
const VOCODER_IN: &str = "vocoder.conv_pre.weight";
/// Dilations of the convolutions of each residual block.
const DILATIONS: [i64; 3] = [1, 3, 5];

network_config! {
    /// `audio_vae/config.json`, with the numbers of the published model where a key is left out; its decoder alone is read.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Ltx2AudioVaeConfig {
        pub base_channels: i64 = 128 => size(),
        /// Channels of the sound: left and right.
        pub output_channels: i64 = 2 => size(),
        /// Width of each level, in multiples of the base, from the spectrogram on.
        pub ch_mult: Vec<i64> = vec![1, 2, 4],
        /// Residual blocks of a level of the encoder; the decoder has one more.
        pub num_res_blocks: i64 = 2 => layers(),
        pub latent_channels: i64 = 8 => size(),
        pub mel_bins: i64 = 64 => size(),
        pub norm_type: String = "pixel".to_owned() => only(),
        pub causality_axis: String = "height".to_owned() => only(),
        pub mid_block_add_attention: bool = false => only(),
    }
}

impl NetworkConfig for Ltx2AudioVaeConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("AutoencoderKLLTX2Audio")
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix = Self::found_prefix(weights.names())
            .ok_or_else(|| not_a("LTX-2.3 audio VAE", weights))?;
        let key = |name: &str| format!("{prefix}{name}");
        let header = NamedShapes::new(weights, &key);
        let [_, latent_channels, ..] = header.sizes::<4>(CONV_IN)?;
        let [output_channels, base_channels, ..] =
            header.sizes::<4>("decoder.conv_out.conv.weight")?;
        let levels = header.count("decoder.up.{}.block.0.conv1.conv.weight");
        let numbers = header.width(Self::STATISTICS[0])?;
        let widths = (0..levels).map(|level| {
            let first = format!("decoder.up.{level}.block.0.conv1.conv.weight");
            Ok::<_, String>(header.sizes::<4>(&first)?[0] / base_channels)
        });
        Ok(Self {
            base_channels,
            output_channels,
            ch_mult: widths.collect::<Result<_, _>>()?,
            num_res_blocks: header.count("decoder.up.0.block.{}.conv1.conv.weight") - 1,
            latent_channels,
            mel_bins: numbers / latent_channels * Self::FACTOR,
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        check_only("number of ch_mult", &self.ch_mult.len(), &3)?;
        self.ch_mult
            .iter()
            .try_for_each(|&factor| check_sizes(&[("ch_mult", factor)]))
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        let prefix = Self::found_prefix(weights.names()).unwrap_or_default();
        let conv = |schema: &mut Schema, name: &str, [inputs, outputs]: [i64; 2], edge: i64| {
            schema.conv(&format!("{name}.conv"), &[outputs, inputs, edge, edge]);
        };
        let block = |schema: &mut Schema, name: &str, [inputs, outputs]: [i64; 2]| {
            conv(schema, &format!("{name}.conv1"), [inputs, outputs], 3);
            conv(schema, &format!("{name}.conv2"), [outputs; 2], 3);
            if inputs != outputs {
                conv(
                    schema,
                    &format!("{name}.nin_shortcut"),
                    [inputs, outputs],
                    1,
                );
            }
        };
        let mut schema = Schema::default();
        let widest = self.widest();
        conv(
            &mut schema,
            "decoder.conv_in",
            [self.latent_channels, widest],
            3,
        );
        for number in [1, 2] {
            block(
                &mut schema,
                &format!("decoder.mid.block_{number}"),
                [widest; 2],
            );
        }
        for (level, [input, output]) in self.levels() {
            for number in 0..=self.num_res_blocks {
                let input = if number == 0 { input } else { output };
                let name = format!("decoder.up.{level}.block.{number}");
                block(&mut schema, &name, [input, output]);
            }
            if level > 0 {
                let name = format!("decoder.up.{level}.upsample.conv");
                conv(&mut schema, &name, [output; 2], 3);
            }
        }
        let last = [
            self.base_channels * self.ch_mult.first().copied().unwrap_or(1),
            self.output_channels,
        ];
        conv(&mut schema, "decoder.conv_out", last, 3);
        for statistic in Self::STATISTICS {
            schema.vector(statistic, self.token_numbers());
        }
        schema.renamed(|name| format!("{prefix}{name}"))
    }
}

impl Ltx2AudioVaeConfig {
    /// Mean and deviation of the numbers of a token.
    pub const STATISTICS: [&'static str; 2] = super::Ltx2VaeConfig::STATISTICS;
    /// Frames of the spectrogram of one latent, and bins of its frequencies.
    pub const FACTOR: i64 = 4;

    /// Prefix of the names in a file with these keys.
    pub fn prefix<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> &'a str {
        Self::found_prefix(keys).unwrap_or_default()
    }

    /// The name is one of a video autoencoder too, whose convolutions have another rank: with both in a file this one has a
    /// another prefix.
    fn found_prefix<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
        prefix_before(keys, &["decoder.up.0.block.0.conv1.conv.weight"])
    }

    pub fn widest(&self) -> i64 {
        self.base_channels * self.ch_mult.last().copied().unwrap_or(1)
    }

    /// Numbers of a token: latent channels times their frequencies.
    pub fn token_numbers(&self) -> i64 {
        self.latent_channels * (self.mel_bins / Self::FACTOR)
    }

    /// Number of each level and the widths before and in it, from the latents on.
    pub fn levels(&self) -> Vec<(usize, [i64; 2])> {
        let mut input = self.widest();
        let levels = self.ch_mult.iter().enumerate().rev();
        let levels = levels.map(|(level, factor)| {
            let output = factor * self.base_channels;
            let widths = [input, output];
            input = output;
            (level, widths)
        });
        levels.collect()
    }
}

network_config! {
    /// `vocoder/config.json`, with the numbers of the published model where a key is left out.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(default)]
    pub struct Ltx2VocoderConfig {
        pub in_channels: i64 = 128 => size(),
        pub hidden_channels: i64 = 1536 => size(),
        pub upsample_kernel_sizes: Vec<i64> = vec![11, 4, 4, 4, 4, 4],
        pub bwe_in_channels: i64 = 128 => size(),
        pub bwe_hidden_channels: i64 = 512 => size(),
        pub bwe_upsample_kernel_sizes: Vec<i64> = vec![12, 11, 4, 4, 4],
        pub resnet_kernel_sizes: Vec<i64> = vec![3, 7, 11] => only(),
        pub resnet_dilations: Vec<[i64; 3]> = vec![DILATIONS; 3] => only(),
        pub out_channels: i64 = 2 => only(),
        pub act_fn: String = "snakebeta".to_owned() => only(),
        pub antialias_kernel_size: i64 = 12 => only(),
        /// Samples of a short-time spectrum.
        pub filter_length: i64 = 512 => size(),
        /// Samples from one spectrum to the next.
        pub hop_length: i64 = 80 => size(),
        pub num_mel_channels: i64 = 64 => size(),
        pub input_sampling_rate: i64 = 16_000 => only(),
        pub output_sampling_rate: i64 = 48_000 => only(),
    }
}

/// One of the vocoder's two networks.
#[derive(Clone, Debug)]
pub struct VocoderShape {
    pub name: &'static str,
    pub in_channels: i64,
    pub hidden_channels: i64,
    /// Of the upsampling layers, each of which halves the width.
    pub kernels: Vec<i64>,
}

impl VocoderShape {
    /// Kernels and dilations of the residual blocks after an upsampling layer, whose mean is taken.
    pub const RESIDUALS: [i64; 3] = [3, 7, 11];
    pub const DILATIONS: [i64; 3] = DILATIONS;
    /// Taps of the filters around an activation.
    pub const FILTER: i64 = 12;

    fn add_tensors(&self, schema: &mut Schema) {
        let name = self.name;
        let conv = |schema: &mut Schema, name: &str, [inputs, outputs]: [i64; 2], kernel: i64| {
            schema.conv(name, &[outputs, inputs, kernel]);
        };
        let activation = |schema: &mut Schema, name: &str, width: i64| {
            schema.vector(&format!("{name}.act.alpha"), width);
            schema.vector(&format!("{name}.act.beta"), width);
            for filter in ["upsample.filter", "downsample.lowpass.filter"] {
                schema.add(
                    format!("{name}.{filter}"),
                    &[1, 1, Self::FILTER],
                    TensorRole::Fixed,
                );
            }
        };
        conv(
            schema,
            &format!("{name}.conv_pre"),
            [self.in_channels, self.hidden_channels],
            7,
        );
        let mut width = self.hidden_channels;
        for (level, &kernel) in self.kernels.iter().enumerate() {
            let up = format!("{name}.ups.{level}");
            schema.add(
                format!("{up}.weight"),
                &[width, width / 2, kernel],
                TensorRole::Fixed,
            );
            width /= 2;
            schema.vector(&format!("{up}.bias"), width);
            for (number, kernel) in Self::RESIDUALS.into_iter().enumerate() {
                let block = format!(
                    "{name}.resblocks.{}",
                    level * Self::RESIDUALS.len() + number
                );
                for part in 0..DILATIONS.len() {
                    for half in [1, 2] {
                        conv(
                            schema,
                            &format!("{block}.convs{half}.{part}"),
                            [width; 2],
                            kernel,
                        );
                        activation(schema, &format!("{block}.acts{half}.{part}"), width);
                    }
                }
            }
        }
        activation(schema, &format!("{name}.act_post"), width);
        schema.add(
            format!("{name}.conv_post.weight"),
            &[2, width, 7],
            TensorRole::Fixed,
        );
    }
}

impl NetworkConfig for Ltx2VocoderConfig {
    fn is_described_by(config: &Value) -> bool {
        class_name(config) == Some("LTX2VocoderWithBWE")
    }

    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let prefix =
            Self::found_prefix(weights.names()).ok_or_else(|| not_a("LTX-2.3 vocoder", weights))?;
        let key = |name: &str| format!("{prefix}{name}");
        let header = NamedShapes::new(weights, &key);
        let shape = |name: &str| {
            let [hidden, inputs, _] = header.sizes(&format!("{name}.conv_pre.weight"))?;
            let levels = 0..header.count(&format!("{name}.ups.{{}}.weight"));
            let kernels = levels.map(|level| {
                let [_, _, kernel] = header.sizes(&format!("{name}.ups.{level}.weight"))?;
                Ok::<_, String>(kernel)
            });
            Ok::<_, String>((inputs, hidden, kernels.collect::<Result<Vec<_>, _>>()?))
        };
        let (in_channels, hidden_channels, upsample_kernel_sizes) = shape("vocoder")?;
        let (bwe_in_channels, bwe_hidden_channels, bwe_upsample_kernel_sizes) =
            shape("bwe_generator")?;
        let [_, _, filter_length] = header.sizes("mel_stft.stft_fn.forward_basis")?;
        Ok(Self {
            in_channels,
            hidden_channels,
            upsample_kernel_sizes,
            bwe_in_channels,
            bwe_hidden_channels,
            bwe_upsample_kernel_sizes,
            filter_length,
            num_mel_channels: header.dim("mel_stft.mel_basis", 0)?,
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        self.check_declared()?;
        for shape in self.shapes() {
            let levels = shape.kernels.len() as u32;
            ensure!(
                levels > 0
                    && levels < 20
                    && shape.kernels.iter().all(|kernel| (2..=64).contains(kernel))
                    && shape.hidden_channels % (1 << levels) == 0,
                "expected upsample_kernel_sizes of 2 to 64 that can halve the width {} each, found {:?}",
                shape.hidden_channels,
                shape.kernels
            );
        }
        ensure!(
            self.filter_length >= self.hop_length && self.filter_length % 2 == 0,
            "expected an even filter_length of at least {}, found {}",
            self.hop_length,
            self.filter_length
        );
        Ok(())
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        let prefix = Self::found_prefix(weights.names()).unwrap_or_default();
        let mut schema = Schema::default();
        // Half precision is audible.
        schema.in_f32(|schema| {
            for shape in self.shapes() {
                shape.add_tensors(schema);
            }
            let spectrum = self.filter_length / 2 + 1;
            schema.add(
                "mel_stft.stft_fn.forward_basis",
                &[2 * spectrum, 1, self.filter_length],
                TensorRole::Fixed,
            );
            schema.add(
                "mel_stft.mel_basis",
                &[self.num_mel_channels, spectrum],
                TensorRole::Fixed,
            );
        });
        schema.renamed(|name| format!("{prefix}{name}"))
    }
}

impl Ltx2VocoderConfig {
    /// Prefix of the names in a file with these keys.
    pub fn prefix<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> &'a str {
        Self::found_prefix(keys).unwrap_or_default()
    }

    fn found_prefix<'a>(keys: impl Iterator<Item = &'a str> + Clone) -> Option<&'a str> {
        prefix_before(keys, &[VOCODER_IN])
    }

    /// The network to 16 kHz, then that to 48 kHz.
    pub fn shapes(&self) -> [VocoderShape; 2] {
        [
            VocoderShape {
                name: "vocoder",
                in_channels: self.in_channels,
                hidden_channels: self.hidden_channels,
                kernels: self.upsample_kernel_sizes.clone(),
            },
            VocoderShape {
                name: "bwe_generator",
                in_channels: self.bwe_in_channels,
                hidden_channels: self.bwe_hidden_channels,
                kernels: self.bwe_upsample_kernel_sizes.clone(),
            },
        ]
    }
}
