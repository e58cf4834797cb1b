//! The numbers of Wan's autoencoders that names and shapes show, in the authors' names or diffusers'.
//!
//! The statistics of the latents are in no file: those of the two published autoencoders are here, and a file with
//! another number of channels needs its `config.json`.

use super::{CLASS, MAX_LEVELS, RGBA_CLASS, WanVaeConfig, WanVaeKeys};
use crate::formats::weights::WeightSet;
use crate::networks::config::ensure;
use crate::networks::header::{not_a, sizes_of};

/// Of Wan 2.1, as in diffusers' `AutoencoderKLWan`.
pub(super) const MEAN_16: [f64; 16] = [
    -0.7571, -0.7089, -0.9113, 0.1075, -0.1745, 0.9653, -0.1517, 1.5508, 0.4134, -0.0715, 0.5517,
    -0.3632, -0.1922, -0.9497, 0.2503, -0.2921,
];
pub(super) const STD_16: [f64; 16] = [
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

/// Of Qwen-Image 2.1, as in diffusers' `AutoencoderKLQwenImage21`.
#[expect(
    clippy::approx_constant,
    reason = "one value is near a sixth of pi by chance"
)]
const MEAN_64: [f64; 64] = [
    0.5126, 0.7721, -0.0631, 1.3506, -0.7855, -2.1025, -0.3458, 1.3722, 1.8873, -1.7177, -0.651,
    0.2732, 0.7562, -0.6163, -1.0277, 3.8363, 2.021, 0.0472, 0.932, 2.0087, 2.4954, -0.1391,
    -1.4249, 1.8464, -0.5236, 1.2826, 3.7046, -1.3035, 2.7286, -1.4518, -1.9036, -1.9955, -0.0342,
    -1.0265, -0.7636, 3.0555, 0.0746, -3.0751, -0.1076, 1.7376, -1.0914, -1.9435, -0.2784, -1.368,
    0.4809, -0.4433, 0.3764, 0.5729, -2.0595, 1.096, -1.326, -2.0211, -5.0179, 0.5275, 4.0162,
    1.8505, 0.3026, 1.9373, 1.4937, 0.2632, 0.5547, -1.7121, -0.1562, 0.0304,
];
const STD_64: [f64; 64] = [
    3.2001, 3.2936, 3.4321, 3.0091, 3.1061, 4.0379, 4.0705, 3.791, 3.0785, 3.65, 3.9308, 3.0904,
    2.8778, 3.7675, 3.732, 5.0756, 3.2864, 4.0397, 3.1317, 4.0443, 2.9249, 3.9454, 3.0988, 4.2489,
    3.4896, 3.8513, 3.9323, 3.4719, 3.7498, 4.283, 3.5694, 4.2467, 3.9037, 3.2947, 5.077, 3.5075,
    3.27, 3.4767, 2.8063, 5.1125, 3.5327, 4.7833, 3.1286, 4.1819, 3.8527, 3.8312, 3.5605, 4.3875,
    3.9624, 4.0168, 3.5643, 4.055, 5.5614, 4.2963, 4.408, 3.4959, 3.8747, 3.7608, 3.5735, 3.149,
    3.7662, 3.6746, 3.4563, 3.8161,
];

/// More than any autoencoder has, so that a hostile header cannot keep a search busy.
const MAX_BLOCKS: i64 = 16;

struct EncoderLevel {
    width: i64,
    num_blocks: i64,
    /// The step to the next level, and true if it halves time too; the last level has no step.
    step: Option<bool>,
}

pub(super) fn config(weights: &WeightSet) -> Result<WanVaeConfig, String> {
    let keys = WanVaeKeys::of(weights);
    if !keys.has_marks(weights) {
        return Err(not_a("Wan VAE", weights));
    }
    let shape = |name: &str| sizes(weights, &keys.file_key(&format!("{name}.weight")));
    let first = shape("encoder.conv1")?;
    let (base_dim, in_channels) = (first[0], first[1]);
    let decoder_in = shape("decoder.conv1")?;
    let decoder_out = shape("decoder.head.2")?;
    let z_dim = decoder_in[1];
    let nested = keys.file_key("encoder.downsamples.0.downsamples.0.residual.6.weight");
    let is_residual = weights.has(&nested);
    let levels = levels(weights, &keys, is_residual)?;
    let dim_mult = multiples(levels.iter().map(|level| level.width), base_dim)?;
    let (first_mult, last_mult) = (dim_mult[0], dim_mult[dim_mult.len() - 1]);
    let decoder_base_dim = multiples([decoder_out[1]].into_iter(), first_mult)?[0];
    ensure!(
        decoder_base_dim.saturating_mul(last_mult) == decoder_in[0],
        "expected a decoder that begins with {last_mult} times its base of {decoder_base_dim}, found {}",
        decoder_in[0]
    );
    let class = if first[2..] == [1, 3, 3] || first.len() == 4 {
        RGBA_CLASS
    } else {
        CLASS
    };
    let mut config = WanVaeConfig {
        class: class.to_owned(),
        ..WanVaeConfig::default()
    };
    let colours = config.colours();
    let patch_size = (in_channels / colours).isqrt();
    ensure!(
        in_channels == colours * patch_size * patch_size && patch_size != 0,
        "expected colours of square patches, found {in_channels} channels"
    );
    let (mean, std) = statistics(z_dim)?;
    config = WanVaeConfig {
        base_dim,
        decoder_base_dim: Some(decoder_base_dim),
        z_dim,
        num_res_blocks: levels[0].num_blocks,
        temperal_downsample: levels.iter().filter_map(|level| level.step).collect(),
        latents_mean: Some(mean.to_vec()),
        latents_std: Some(std.to_vec()),
        is_residual,
        in_channels,
        out_channels: decoder_out[0],
        patch_size: (patch_size > 1).then_some(patch_size),
        dim_mult,
        ..config
    };
    config.scale_factor_spatial = Some(config.spatial_factor());
    config.scale_factor_temporal = Some(config.temporal_factor());
    Ok(config)
}

/// Shape of a convolution: of volumes, or in diffusers' files of images alone.
fn sizes(weights: &WeightSet, key: &str) -> Result<Vec<i64>, String> {
    let volume = sizes_of(weights, key, 5);
    match sizes_of(weights, key, 4) {
        Ok(flat) if volume.is_err() => Ok(flat),
        _ => volume,
    }
}

/// Means and deviations of latents with a number of channels.
fn statistics(z_dim: i64) -> Result<(&'static [f64], &'static [f64]), String> {
    match z_dim {
        16 => Ok((&MEAN_16, &STD_16)),
        48 => Ok((&MEAN_48, &STD_48)),
        64 => Ok((&MEAN_64, &STD_64)),
        other => Err(format!(
            "expected the 16 channels of a Wan 2.1 VAE, the 48 of a Wan 2.2 VAE or the 64 of a Qwen-Image 2.1 VAE, as no config.json says how others are normalised, found {other}"
        )),
    }
}

fn levels(
    weights: &WeightSet,
    keys: &WanVaeKeys,
    is_residual: bool,
) -> Result<Vec<EncoderLevel>, String> {
    let mut levels = Vec::new();
    // In a flat list, where the level begins.
    let mut start = 0;
    while levels.len() <= MAX_LEVELS {
        let part = |number: i64, end: &str| {
            let place = if is_residual {
                format!("{}.downsamples.{number}", levels.len())
            } else {
                (start + number).to_string()
            };
            keys.file_key(&format!("encoder.downsamples.{place}.{end}.weight"))
        };
        let widths: Vec<i64> = (0..=MAX_BLOCKS)
            .map_while(|number| sizes(weights, &part(number, "residual.6")).ok())
            .map(|shape| shape[0])
            .collect();
        let Some(&width) = widths.last() else {
            break;
        };
        let num_blocks = widths.len() as i64;
        let has_step = weights.has(&part(num_blocks, "resample.1"));
        let step = has_step.then(|| weights.has(&part(num_blocks, "time_conv")));
        levels.push(EncoderLevel {
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
    ensure!(
        is_sound,
        "expected an encoder of 2 to {MAX_LEVELS} even levels, found {}",
        levels.len()
    );
    Ok(levels)
}

fn multiples(widths: impl Iterator<Item = i64>, base: i64) -> Result<Vec<i64>, String> {
    let multiple = |width: i64| {
        ensure!(
            width % base == 0,
            "expected a multiple of {base}, found a width of {width}"
        );
        Ok(width / base)
    };
    widths.map(multiple).collect()
}
