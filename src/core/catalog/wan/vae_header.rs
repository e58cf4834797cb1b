//! The config of Wan's autoencoders from the names and shapes in a file, in the authors' names or diffusers'.
//!
//! The statistics of the latents are in no file: those of the two published autoencoders are here, and
//! a file with another number of channels needs its `config.json`.

use serde_json::{Value, json};

use super::vae_tensors::{Half, PartKind};
use crate::catalog::shapes::{not_a, shape_of};
use crate::catalog::weights::WeightSet;

/// Of Wan 2.1, as in diffusers' `AutoencoderKLWan`.
const MEAN_16: [f64; 16] = [
    -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517,
    -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
];
const STD_16: [f64; 16] = [
    2.8184, 1.4541, 2.3275, 2.6558, 1.2196, 1.7708, 2.6052, 2.0743, 3.2687, 2.1526, 2.8652, 1.5579,
    1.6382, 1.1253, 2.8251, 1.9160,
];
/// Of Wan 2.2, as in Wan-Video/Wan2.2: wan/modules/vae2_2.py.
const MEAN_48: [f64; 48] = [
    -0.2289, -0.0052, -0.1323, -0.2339, -0.2799, 0.0174, 0.1838, 0.1557, -0.1382, 0.0542, 0.2813,
    0.0891, 0.1570, -0.0098, 0.0375, -0.1825, -0.2246, -0.1207, -0.0698, 0.5109, 0.2665, -0.2108,
    -0.2158, 0.2502, -0.2055, -0.0322, 0.1109, 0.1567, -0.0729, 0.0899, -0.2799, -0.1230, -0.0313,
    -0.1649, 0.0117, 0.0723, -0.2839, -0.2083, -0.0520, 0.3748, 0.0152, 0.1957, 0.1433, -0.2944,
    0.3573, -0.0548, -0.1681, -0.0667,
];
const STD_48: [f64; 48] = [
    0.4765, 1.0364, 0.4514, 1.1677, 0.5313, 0.4990, 0.4818, 0.5013, 0.8158, 1.0344, 0.5894, 1.0901,
    0.6885, 0.6165, 0.8454, 0.4978, 0.5759, 0.3523, 0.7135, 0.6804, 0.5833, 1.4146, 0.8986, 0.5659,
    0.7069, 0.5338, 0.4889, 0.4917, 0.4069, 0.4999, 0.6866, 0.4093, 0.5709, 0.6065, 0.6415, 0.4944,
    0.5726, 1.2042, 0.5458, 1.6887, 0.3971, 1.0600, 0.3943, 0.5537, 0.5444, 0.4089, 0.7468, 0.7744,
];

/// More than any autoencoder has, so that a hostile header cannot keep a search busy.
const MAX_LEVELS: usize = 8;
const MAX_BLOCKS: usize = 16;

/// How one file names the tensors of an autoencoder, and what stands before every name: `vae.`,
/// `first_stage_model.` or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VaeKeys<'a> {
    prefix: &'a str,
    is_original: bool,
}

impl<'a> VaeKeys<'a> {
    pub(super) const DIFFUSERS: Self = Self {
        prefix: "",
        is_original: false,
    };

    /// `None` for what is no Wan autoencoder: every video autoencoder has some of these names.
    pub(super) fn detect(weights: &'a WeightSet) -> Option<Self> {
        let keys = Self::likely(weights)?;
        [
            "post_quant_conv.weight",
            "decoder.conv_out.weight",
            "decoder.norm_out.gamma",
        ]
        .iter()
        .all(|name| weights.has(&keys.file_key(name)))
        .then_some(keys)
    }

    /// The names of what may be an autoencoder without some of its tensors, as the engine finds them: by the
    /// first convolution of either half, behind the shortest prefix where there are several.
    pub(super) fn likely(weights: &'a WeightSet) -> Option<Self> {
        let of_key = |key: &'a str| {
            let (half, is_original) = match key.strip_suffix("conv1.weight") {
                Some(half) => (half, true),
                None => (key.strip_suffix("conv_in.weight")?, false),
            };
            let prefix = half
                .strip_suffix("decoder.")
                .or_else(|| half.strip_suffix("encoder."))?;
            let is_path = prefix.is_empty() || prefix.ends_with('.');
            is_path.then_some(Self {
                prefix,
                is_original,
            })
        };
        let keys = weights.tensors.keys();
        keys.filter_map(|key| of_key(key))
            .min_by_key(|keys| keys.prefix.len())
    }

    /// The file's name of a tensor outside the levels that diffusers calls `name`.
    pub(super) fn file_key(self, name: &str) -> String {
        let prefix = self.prefix;
        if !self.is_original {
            return format!("{prefix}{name}");
        }
        for (theirs, ours) in [
            ("quant_conv.", "conv1."),
            ("post_quant_conv.", "conv2."),
            ("encoder.conv_in.", "encoder.conv1."),
            ("encoder.norm_out.", "encoder.head.0."),
            ("encoder.conv_out.", "encoder.head.2."),
            ("decoder.conv_in.", "decoder.conv1."),
            ("decoder.norm_out.", "decoder.head.0."),
            ("decoder.conv_out.", "decoder.head.2."),
        ] {
            if let Some(rest) = name.strip_prefix(theirs) {
                return format!("{prefix}{ours}{rest}");
            }
        }
        format!("{prefix}{name}")
    }

    /// A residual block, an attention or a step of a level, without the last names: part `index` of its
    /// level and `flat` of all levels.
    pub(super) fn level_part(
        self,
        half: Half,
        level: usize,
        (flat, index): (u64, u64),
        kind: PartKind,
        is_residual: bool,
    ) -> String {
        let prefix = self.prefix;
        let (half, way) = match half {
            Half::Encoder => ("encoder", "down"),
            Half::Decoder => ("decoder", "up"),
        };
        let is_step = kind == PartKind::Step;
        let is_list = half == "encoder" && !is_residual;
        match (self.is_original, is_step) {
            (true, _) if is_residual => {
                format!("{prefix}{half}.{way}samples.{level}.{way}samples.{index}")
            }
            (true, _) => format!("{prefix}{half}.{way}samples.{flat}"),
            (false, _) if is_list => format!("{prefix}{half}.{way}_blocks.{flat}"),
            (false, false) => format!("{prefix}{half}.{way}_blocks.{level}.resnets.{index}"),
            (false, true) if is_residual => {
                format!("{prefix}{half}.{way}_blocks.{level}.{way}sampler")
            }
            (false, true) => format!("{prefix}{half}.{way}_blocks.{level}.{way}samplers.0"),
        }
    }

    /// The residual block, the attention and the residual block between the levels and the latents.
    pub(super) fn middle(self, half: Half) -> [String; 3] {
        let prefix = self.prefix;
        let half = match half {
            Half::Encoder => "encoder",
            Half::Decoder => "decoder",
        };
        let (list, names) = if self.is_original {
            ("middle", ["0", "1", "2"])
        } else {
            ("mid_block", ["resnets.0", "attentions.0", "resnets.1"])
        };
        names.map(|name| format!("{prefix}{half}.{list}.{name}"))
    }

    /// Two norms, each before its convolution, and the convolution around them all.
    pub(super) fn residual_parts(self) -> [&'static str; 5] {
        if self.is_original {
            [
                "residual.0",
                "residual.2",
                "residual.3",
                "residual.6",
                "shortcut",
            ]
        } else {
            ["norm1", "conv1", "norm2", "conv2", "conv_shortcut"]
        }
    }

    /// The last convolution of the encoder's first block; the levels are lists within a list in Wan 2.2.
    fn first_block(self, is_nested: bool) -> String {
        self.block(if is_nested {
            Place::Nested(0, 0)
        } else {
            Place::Flat(0)
        })
    }

    /// The last convolution of a residual block; the levels of Wan 2.1 are one flat list.
    fn block(self, place: Place) -> String {
        let prefix = self.prefix;
        match (self.is_original, place) {
            (true, Place::Flat(n)) => format!("{prefix}encoder.downsamples.{n}.residual.6.weight"),
            (false, Place::Flat(n)) => format!("{prefix}encoder.down_blocks.{n}.conv2.weight"),
            (true, Place::Nested(level, n)) => {
                format!("{prefix}encoder.downsamples.{level}.downsamples.{n}.residual.6.weight")
            }
            (false, Place::Nested(level, n)) => {
                format!("{prefix}encoder.down_blocks.{level}.resnets.{n}.conv2.weight")
            }
        }
    }

    /// What halves a level's edges and perhaps its frames, without its last name.
    fn resampler(self, place: Place) -> String {
        let prefix = self.prefix;
        match (self.is_original, place) {
            (true, Place::Flat(n)) => format!("{prefix}encoder.downsamples.{n}"),
            (false, Place::Flat(n)) => format!("{prefix}encoder.down_blocks.{n}"),
            (true, Place::Nested(level, n)) => {
                format!("{prefix}encoder.downsamples.{level}.downsamples.{n}")
            }
            (false, Place::Nested(level, _)) => {
                format!("{prefix}encoder.down_blocks.{level}.downsampler")
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Place {
    Flat(usize),
    /// Of a level, the entry.
    Nested(usize, usize),
}

/// One level of the encoder.
struct Level {
    width: u64,
    num_blocks: usize,
    /// Whether the step to the next level halves time too; the last level has no step.
    step: Option<bool>,
}

/// `vae/config.json`.
pub(super) fn vae_config(weights: &WeightSet) -> Result<Value, String> {
    let keys = VaeKeys::detect(weights).ok_or_else(|| not_a("Wan VAE", weights))?;
    let shape = |name: &str| shape_of(weights, &keys.file_key(name), 5);
    let first = shape("encoder.conv_in.weight")?;
    let (base_dim, in_channels) = (first[0], first[1]);
    let decoder_in = shape("decoder.conv_in.weight")?;
    let decoder_out = shape("decoder.conv_out.weight")?;
    let z_dim = decoder_in[1];
    let is_residual = weights.has(&keys.first_block(true));
    let levels = levels(weights, keys, is_residual)?;
    let dim_mult = multiples(levels.iter().map(|level| level.width), base_dim)?;
    let (first_mult, last_mult) = (dim_mult[0], dim_mult[dim_mult.len() - 1]);
    let decoder_base_dim = multiples([decoder_out[1]].into_iter(), first_mult)?[0];
    if decoder_base_dim.saturating_mul(last_mult) != decoder_in[0] {
        return Err(format!(
            "expected a decoder that begins with {last_mult} times its base of {decoder_base_dim}, found {}",
            decoder_in[0]
        ));
    }
    let patch_size = (in_channels / 3).isqrt();
    let steps: Vec<bool> = levels.iter().filter_map(|level| level.step).collect();
    if in_channels != 3 * patch_size * patch_size || patch_size == 0 {
        return Err(format!(
            "expected colours of square patches, found {in_channels} channels"
        ));
    }
    let (mean, std) = statistics(z_dim)?;
    let frames = steps.iter().filter(|&&halves| halves).count();
    Ok(json!({
        "_class_name": "AutoencoderKLWan",
        "base_dim": base_dim,
        "decoder_base_dim": decoder_base_dim,
        "z_dim": z_dim,
        "dim_mult": dim_mult,
        "num_res_blocks": levels[0].num_blocks,
        "attn_scales": [],
        "temperal_downsample": steps,
        "dropout": 0.0,
        "latents_mean": mean,
        "latents_std": std,
        "is_residual": is_residual,
        "in_channels": in_channels,
        "out_channels": decoder_out[0],
        "patch_size": (patch_size > 1).then_some(patch_size),
        "scale_factor_temporal": 1_u64 << frames,
        "scale_factor_spatial": patch_size << (levels.len() - 1),
    }))
}

/// What normalises latents of so many channels.
fn statistics(z_dim: u64) -> Result<(&'static [f64], &'static [f64]), String> {
    match z_dim {
        16 => Ok((&MEAN_16, &STD_16)),
        48 => Ok((&MEAN_48, &STD_48)),
        other => Err(format!(
            "expected the 16 channels of a Wan 2.1 VAE or the 48 of a Wan 2.2 VAE, as no config.json says how others are normalised, found {other}"
        )),
    }
}

fn levels(weights: &WeightSet, keys: VaeKeys<'_>, is_nested: bool) -> Result<Vec<Level>, String> {
    let mut levels = Vec::new();
    // In a flat list, where the level begins.
    let mut start = 0;
    while levels.len() <= MAX_LEVELS {
        let place = |n: usize| {
            if is_nested {
                Place::Nested(levels.len(), n)
            } else {
                Place::Flat(start + n)
            }
        };
        let widths: Vec<u64> = (0..=MAX_BLOCKS)
            .map_while(|n| shape_of(weights, &keys.block(place(n)), 5).ok())
            .map(|shape| shape[0])
            .collect();
        let Some(&width) = widths.last() else {
            break;
        };
        let num_blocks = widths.len();
        let resampler = keys.resampler(place(num_blocks));
        let has_step = weights.has(&format!("{resampler}.resample.1.weight"));
        let step = has_step.then(|| weights.has(&format!("{resampler}.time_conv.weight")));
        levels.push(Level {
            width,
            num_blocks,
            step,
        });
        if step.is_none() {
            break;
        }
        start += num_blocks + 1;
    }
    let is_sound = (2..=MAX_LEVELS).contains(&levels.len())
        && levels.last().is_some_and(|level| level.step.is_none())
        && levels
            .iter()
            .all(|level| level.num_blocks == levels[0].num_blocks);
    if is_sound {
        Ok(levels)
    } else {
        Err(format!(
            "expected an encoder of 2 to {MAX_LEVELS} even levels, found {}",
            levels.len()
        ))
    }
}

fn multiples(widths: impl Iterator<Item = u64>, base: u64) -> Result<Vec<u64>, String> {
    widths
        .map(|width| {
            if width % base == 0 {
                Ok(width / base)
            } else {
                Err(format!(
                    "expected a multiple of {base}, found a width of {width}"
                ))
            }
        })
        .collect()
}
