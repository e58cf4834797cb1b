//! The numbers of Wan's autoencoders that names and shapes show, in the authors' names or diffusers'.
//!
//! The statistics of the latents are in no file: those of the two published autoencoders are here, and a file with
//! another number of channels needs its `config.json`.

use super::{MAX_LEVELS, WanVaeConfig, WanVaeKeys};
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
    let shape = |name: &str| sizes_of(weights, &keys.file_key(&format!("{name}.weight")), 5);
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
    let patch_size = (in_channels / 3).isqrt();
    ensure!(
        in_channels == 3 * patch_size * patch_size && patch_size != 0,
        "expected colours of square patches, found {in_channels} channels"
    );
    let (mean, std) = statistics(z_dim)?;
    let mut config = WanVaeConfig {
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
        ..WanVaeConfig::default()
    };
    config.scale_factor_spatial = Some(config.spatial_factor());
    config.scale_factor_temporal = Some(config.temporal_factor());
    Ok(config)
}

/// Means and deviations of latents with a number of channels.
fn statistics(z_dim: i64) -> Result<(&'static [f64], &'static [f64]), String> {
    match z_dim {
        16 => Ok((&MEAN_16, &STD_16)),
        48 => Ok((&MEAN_48, &STD_48)),
        other => Err(format!(
            "expected the 16 channels of a Wan 2.1 VAE or the 48 of a Wan 2.2 VAE, as no config.json says how others are normalised, found {other}"
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
            .map_while(|number| sizes_of(weights, &part(number, "residual.6"), 5).ok())
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
