//! The numbers of the autoencoders of images and of HunyuanVideo, from diffusers' config or from a header.
//!
//! The differences of the two kinds are in `kl_vae` and `hunyuan_vae`.

use std::fmt;
use std::marker::PhantomData;

use super::keys::KlVaeKeys;
use super::levels::{self, MAX_LEVELS};
use crate::networks::config::{AutoencoderConfig, class_name};
use crate::networks::prelude::*;
use crate::networks::vae::{VaeHalf, check_scale};

/// Normed latents along an edge with separate statistics.
pub const NORMED_EDGE: i64 = 2;
/// diffusers' default.
const BATCH_NORM_EPS: f64 = 1e-4;
/// Mean values and variances of normed latents, `(channel, row, column)` in one row.
pub const NORM_MEAN: &str = "bn.running_mean";
pub const NORM_VARIANCE: &str = "bn.running_var";

/// Differences between the kinds of autoencoders.
pub trait KlKind: Clone + fmt::Debug + PartialEq {
    const CLASS: &'static str;
    /// The class of those whose latents are normed by statistics in the file, two by two of them at once.
    const NORMED_CLASS: Option<&'static str> = None;
    /// The network in sentences.
    const NAME: &'static str;
    /// It takes videos: convolutions run over time, and each has a `conv` within its name.
    const IS_VIDEO: bool;
    /// The only type of the encoder's levels, and of the decoder's.
    const BLOCK_TYPES: [&'static str; 2];
    /// Latent channels, `scaling_factor` and `shift_factor` of published ones, for files without a config.
    const SCALES_WITHOUT_CONFIG: &'static [(i64, f64, Option<f64>)];

    /// diffusers' defaults: widths of the levels, residual blocks of one, channels and scale of latents.
    const DEFAULTS: (&'static [i64], i64, i64, f64);
    /// diffusers' defaults of edges and frames of one latent, where configs have them.
    const RATIOS: [Option<i64>; 2] = [None; 2];

    /// Checks specific to this kind.
    fn check(config: &KlConfig<Self>) -> Result<(), String>;
}

network_config! {
    /// `vae/config.json`, with diffusers' defaults where a key is left out.
    #[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
    #[serde(default, bound = "")]
    pub struct KlConfig<K: KlKind> {
        #[serde(rename = "_class_name")]
        pub class: String = K::CLASS.to_owned(),
        pub in_channels: i64 = 3 => only(),
        pub out_channels: i64 = 3 => only(),
        pub down_block_types: Option<Vec<String>> = None,
        pub up_block_types: Option<Vec<String>> = None,
        /// Width of each level, from pixels to latents.
        pub block_out_channels: Vec<i64> = K::DEFAULTS.0.to_vec(),
        /// Widths of the decoder, where it has others.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub decoder_block_out_channels: Option<Vec<i64>> = None,
        /// Residual blocks of a level of the encoder; the decoder has one more.
        pub layers_per_block: i64 = K::DEFAULTS.1 => layers(),
        pub act_fn: String = "silu".to_owned(),
        pub latent_channels: i64 = K::DEFAULTS.2 => size(),
        pub norm_num_groups: i64 = 32 => size(),
        pub scaling_factor: f64 = K::DEFAULTS.3,
        /// Image VAEs only.
        pub shift_factor: Option<f64> = None,
        /// Image VAEs only, as is the next: video VAEs always have both.
        pub use_quant_conv: bool = true,
        pub use_post_quant_conv: bool = true,
        pub mid_block_add_attention: bool = true,
        /// Video VAEs only, as is the next.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub spatial_compression_ratio: Option<i64> = K::RATIOS[0],
        #[serde(skip_serializing_if = "Option::is_none")]
        pub temporal_compression_ratio: Option<i64> = K::RATIOS[1],
        /// Epsilon of the normalisation of latents.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub batch_norm_eps: Option<f64> = None,
        /// Latents of one patch along each edge, for normalised latents.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub patch_size: Option<[i64; 2]> = None,
        #[serde(skip)]
        pub kind: PhantomData<K> = PhantomData,
    }
}

impl<K: KlKind> NetworkConfig for KlConfig<K> {
    fn is_described_by(config: &Value) -> bool {
        let class = class_name(config);
        class == Some(K::CLASS) || class.is_some() && class == K::NORMED_CLASS
    }

    /// Numbers that the published autoencoder, or one with other widths, shows. Either half is enough.
    fn of_header(weights: &WeightSet, _authors: Option<&Value>) -> Result<Self, String> {
        let keys = Self::keys(weights).ok_or_else(|| not_a(K::NAME, weights))?;
        let (inner, rank) = if K::IS_VIDEO { (".conv", 5) } else { ("", 4) };
        let has = |name: &str| weights.has(&keys.file_key(name));
        let conv = |name: &str| keys.file_key(&format!("{name}{inner}.weight"));
        let shape = |name: &str| sizes_of(weights, &conv(name), rank);
        let has_encoder = weights.has(&conv("encoder.conv_in"));
        let list = if has_encoder {
            "encoder.down"
        } else {
            "decoder.up"
        };
        let widths = |list: &str| {
            // One more than is sound, so that it is refused.
            (0..keys.levels.min(MAX_LEVELS + 1))
                .map(|level| Ok(shape(&format!("{list}.{level}.block.0.conv1"))?[0]))
                .collect::<Result<Vec<i64>, String>>()
        };
        let own = widths(list)?;
        let latents = if has_encoder {
            shape("encoder.conv_out")?[0] / 2
        } else {
            shape("decoder.conv_in")?[1]
        };
        let is_normed = K::NORMED_CLASS.is_some() && has(NORM_MEAN);
        let decoders = if is_normed && has_encoder {
            widths("decoder.up").ok().filter(|found| *found != own)
        } else {
            None
        };
        let published = K::SCALES_WITHOUT_CONFIG;
        let scales = published.iter().find(|(channels, ..)| *channels == latents);
        ensure!(
            scales.is_some() || is_normed,
            "expected latents of {} channels, as no config.json says how others are scaled, found {latents}",
            published[0].0
        );
        let blocks = count(weights, |n| conv(&format!("{list}.0.block.{n}.conv1")));
        let (_, scaling_factor, shift_factor) = *scales.unwrap_or(&published[0]);
        Ok(Self {
            class: match K::NORMED_CLASS {
                Some(class) if is_normed => class.to_owned(),
                _ => K::CLASS.to_owned(),
            },
            block_out_channels: own,
            decoder_block_out_channels: decoders,
            layers_per_block: if has_encoder { blocks } else { blocks - 1 },
            latent_channels: latents,
            scaling_factor,
            shift_factor,
            use_quant_conv: K::IS_VIDEO || has("quant_conv.weight"),
            use_post_quant_conv: K::IS_VIDEO || has("post_quant_conv.weight"),
            mid_block_add_attention: VaeHalf::BOTH
                .iter()
                .any(|half| has(&format!("{}.mid.attn_1.q.weight", half.name()))),
            ..Self::default()
        })
    }

    fn check(&self) -> Result<(), String> {
        if !self.is_normed() {
            check_only("class", &self.class, &K::CLASS.to_owned())?;
        }
        let patch = [NORMED_EDGE; 2];
        check_only("patch_size", &self.patch_size.unwrap_or(patch), &patch)?;
        check_epsilon("batch_norm_eps", self.batch_norm_eps())?;
        let levels = self.block_out_channels.len();
        ensure!(
            (1..=MAX_LEVELS).contains(&levels),
            "expected 1 to {MAX_LEVELS} levels in block_out_channels, found {levels}"
        );
        self.check_declared()?;
        let [down, up] = K::BLOCK_TYPES;
        for (name, types, usual) in [
            ("down_block_types", &self.down_block_types, down),
            ("up_block_types", &self.up_block_types, up),
        ] {
            if let Some(types) = types {
                check_only(name, types, &vec![usual.to_owned(); levels])?;
            }
        }
        if self.act_fn != "swish" {
            check_only("act_fn", &self.act_fn, &"silu".to_owned())?;
        }
        let groups = self.norm_num_groups;
        let decoders = self.decoder_block_out_channels.as_ref();
        let found = decoders.map_or(levels, Vec::len);
        check_only("number of decoder_block_out_channels", &found, &levels)?;
        let decoders = decoders.into_iter().flatten();
        for &width in self.block_out_channels.iter().chain(decoders) {
            check_sizes(&[("block_out_channels", width)])?;
            ensure!(
                width % groups == 0,
                "expected widths that norm_num_groups ({groups}) divides, found {width}"
            );
        }
        check_scale("scaling_factor", self.scaling_factor)?;
        K::check(self)
    }

    fn tensors(&self, weights: &WeightSet) -> Vec<TensorSpec> {
        self.halves(weights)
    }

    fn check_weights(&self, weights: &WeightSet) -> Result<(), CatalogError> {
        let Some(keys) = Self::keys(weights) else {
            let first = if K::IS_VIDEO {
                "conv_in.conv"
            } else {
                "conv_in"
            };
            return weights.expect(&format!("decoder.{first}.weight"), &[]);
        };
        let levels = self.block_out_channels.len();
        levels::check_tensors(weights, &keys, levels, &self.halves(weights))
    }
}

impl<K: KlKind> AutoencoderConfig for KlConfig<K> {
    fn half(&self, half: VaeHalf, weights: &WeightSet) -> Vec<TensorSpec> {
        Self::keys(weights).map_or_else(Vec::new, |keys| self.schema(half, &keys))
    }
}

impl<K: KlKind> KlConfig<K> {
    /// The config with the widths of one half.
    pub fn of_half(&self, half: VaeHalf) -> Self {
        let own = match half {
            VaeHalf::Encoder => None,
            VaeHalf::Decoder => self.decoder_block_out_channels.clone(),
        };
        Self {
            block_out_channels: own.unwrap_or_else(|| self.block_out_channels.clone()),
            decoder_block_out_channels: None,
            ..self.clone()
        }
    }

    /// Returns true if latents are normed by statistics in the file, and not scaled.
    pub fn is_normed(&self) -> bool {
        K::NORMED_CLASS == Some(&self.class)
    }

    /// Number of means and variances of normed latents: for each channel those of two by two.
    pub fn num_statistics(&self) -> i64 {
        NORMED_EDGE * NORMED_EDGE * self.latent_channels
    }

    pub fn batch_norm_eps(&self) -> f64 {
        self.batch_norm_eps.unwrap_or(BATCH_NORM_EPS)
    }

    /// Offset subtracted from latents before they are scaled.
    pub fn shift(&self) -> f64 {
        self.shift_factor.unwrap_or(0.0)
    }

    /// Pixels along an edge of one latent.
    pub fn spatial_factor(&self) -> i64 {
        1 << (self.block_out_channels.len() - 1)
    }

    /// The width at the pixels.
    pub fn narrowest(&self) -> i64 {
        self.block_out_channels[0]
    }

    /// The width at the latents.
    pub fn widest(&self) -> i64 {
        self.block_out_channels[self.block_out_channels.len() - 1]
    }

    /// Names of such an autoencoder in a file; `None` where it has none.
    pub(in crate::networks) fn keys(weights: &WeightSet) -> Option<KlVaeKeys> {
        if K::IS_VIDEO {
            KlVaeKeys::detect_video(weights.names())
        } else {
            KlVaeKeys::detect(weights.names())
        }
    }

    pub(crate) fn is_in(weights: &WeightSet) -> bool {
        Self::keys(weights).is_some_and(|keys| keys.has_norms(weights))
    }
}
