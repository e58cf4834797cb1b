//! Peak activations of autoencoders: levels, tiles and bands.

use super::{PlannedJob, StageFootprint};
use crate::footprint::PlannedNetwork;
use crate::networks::{KlVaeConfig, VaeHalf, WanVaeConfig};

/// A video or image in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PixelVolume {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) frames: f64,
    pub(crate) tile: Option<f64>,
}

impl PixelVolume {
    /// So many frames of the size that a job makes.
    pub(crate) fn of(job: &PlannedJob<'_>, frames: u32) -> Self {
        let request = job.request;
        Self {
            width: f64::from(request.width),
            height: f64::from(request.height),
            frames: f64::from(frames),
            tile: request.options.vae_tile.map(f64::from),
        }
    }

    /// Pixels of a frame or tile.
    fn tile_pixels(&self) -> f64 {
        let edge = |edge: f64| self.tile.map_or(edge, |tile| edge.min(tile));
        edge(self.width) * edge(self.height)
    }
}

/// Elements of Wan's autoencoder at its peak, for each pixel and channel of the level at the pixels: of decoding, of the
/// decoder's first levels, which take whole frames if the others take tiles, and of encoding.
///
/// Counted in the forward pass, with the caches of convolutions over time, and measured on an H200 for Wan 2.1
/// (96 channels) and 2.2 (residual, 256 and 160 channels).
fn wan_peak(config: &WanVaeConfig, is_video: bool) -> [f64; 3] {
    match (config.is_residual, is_video) {
        (false, false) => [16.0, 1.0, 8.4],
        (false, true) => [54.6, 2.1, 44.5],
        (true, false) => [18.6, 1.8, 8.4],
        (true, true) => [72.0, 3.6, 40.0],
    }
}

/// Channels of the level at the pixels for each pixel, where a patch of pixels is one place.
fn channels_of_pixel(config: &WanVaeConfig, base: i64) -> f64 {
    let factor = config.dim_mult.first().copied().unwrap_or(1);
    (factor * base) as f64 / (config.patch() as f64).powi(2)
}

/// Peak bytes of decoding, without weights. It takes one latent frame at a time, whatever the length.
pub(crate) fn wan_decode(config: &WanVaeConfig, video: &PixelVolume, size: f64) -> f64 {
    let [peak, of_whole, _] = wan_peak(config, video.frames > 1.0);
    let pixels = video.width * video.height;
    let places = if video.tile_pixels() < pixels {
        (peak * video.tile_pixels()).max(of_whole * pixels)
    } else {
        peak * pixels
    };
    let space = config.spatial_factor() as f64;
    let latents = video.frames.max(1.0) / 4.0 * config.z_dim as f64 * pixels / space.powi(2);
    let elements = places * channels_of_pixel(config, config.decoder_dim());
    elements * size + latents * 4.0 * 2.0 + 4.0 * 3.0 * pixels * (size + 1.0)
}

/// Peak bytes of encoding, without weights. It takes four frames at a time.
pub(crate) fn wan_encode(config: &WanVaeConfig, video: &PixelVolume, size: f64) -> f64 {
    let [.., peak] = wan_peak(config, video.frames > 1.0);
    peak * video.tile_pixels() * channels_of_pixel(config, config.base_dim) * size
}

/// Attention scores in memory at a time, and bytes of each in f32 and half precision.
const SCORES: f64 = 67108864.0;
const SCORE_BYTES: f64 = 6.0;
/// Edge of the bands of image autoencoders without tiles, in pixels.
const BAND: f64 = 512.0;
/// Pixels that a CPU takes at once.
const LARGEST_WHOLE: f64 = 1048576.0;

/// Bands that are there at a time while one is doubled and convolved.
const DOUBLED_ANEW: f64 = 5.6;

/// Elements of a layer's input or output at a time; `None` if it takes the whole image.
fn band(video: &PixelVolume, width: f64, job: &PlannedJob<'_>) -> Option<f64> {
    let is_small = !job.is_on_gpu() && video.width * video.height <= LARGEST_WHOLE;
    let edge = video.tile.or_else(|| (!is_small).then_some(BAND))?;
    Some(edge * edge * 2.0 * width)
}

/// Pixels along the edges of a reference.
const SEEN_EDGE: f64 = 1024.0;

/// One half of an image's autoencoder with one image: batches go through it one after the other.
pub(crate) fn image(job: &PlannedJob<'_>, part: PlannedNetwork) -> Option<StageFootprint> {
    let mut video = PixelVolume::of(job, 1);
    if part == PlannedNetwork::VaeEncoder && !job.request.references.is_empty() {
        // A reference is seen at about a megapixel, whatever is made.
        (video.width, video.height) = (video.width.max(SEEN_EDGE), video.height.max(SEEN_EDGE));
    }
    if let Some((_, config)) = job.configured::<WanVaeConfig>(part) {
        let of_half = match part {
            PlannedNetwork::VaeEncoder => wan_encode,
            _ => wan_decode,
        };
        let bytes = of_half(config, &video, job.number_bytes() as f64);
        return Some(job.vae_need(part, bytes));
    }
    let (_, config) = job.configured::<KlVaeConfig>(part)?;
    let config = config.of_half(match part {
        PlannedNetwork::VaeEncoder => VaeHalf::Encoder,
        _ => VaeHalf::Decoder,
    });
    let bytes = kl(&config.block_out_channels, &video, job);
    Some(job.vae_need(part, bytes))
}

/// Decoding or encoding by `AutoencoderKL` with levels of these widths, from the pixels to the latents: each level
/// twice, what a block reads and what it makes, and the bands' own; the attention among the latents.
pub(crate) fn kl(widths: &[i64], video: &PixelVolume, job: &PlannedJob<'_>) -> f64 {
    let size = job.number_bytes() as f64;
    let widths: Vec<f64> = widths.iter().map(|&width| width as f64).collect();
    let pixels = video.width * video.height;
    let width = widths.first().copied().unwrap_or(128.0);
    let band = band(video, width, job);
    // With tiles the rest waits off the device where it has no room.
    let waiting = 3.0 * pixels * width * size;
    let is_off = video.tile.is_some() && waiting > job.available_bytes as f64;
    let mut most: f64 = 0.0;
    for (index, &output) in widths.iter().enumerate() {
        let area = pixels / 4.0_f64.powi(i32::try_from(index).unwrap_or(16));
        let whole = area * output;
        let kept = if is_off { 0.0 } else { 2.0 * whole };
        let at_a_time = band.map_or(whole, |band| band.min(whole));
        most = most.max((kept + 3.0 * at_a_time) * size);
        // A large input from the level below is upsampled again for every band.
        let below = area * widths.get(index + 1).copied().unwrap_or(output);
        let anew = band.filter(|band| below > *band).unwrap_or(0.0);
        if anew > 0.0 {
            let kept = if is_off { 0.0 } else { below / 4.0 + whole };
            most = most.max((kept + DOUBLED_ANEW * anew) * size);
        }
    }
    let steps = i32::try_from(widths.len().saturating_sub(1)).unwrap_or(0);
    let tokens = pixels / 4.0_f64.powi(steps);
    let wide = widths.last().copied().unwrap_or(512.0);
    let scores = if job.is_on_gpu() {
        SCORES.min(tokens * tokens) * SCORE_BYTES
    } else {
        0.0
    };
    let attention = scores + 7.0 * tokens * wide * size;
    most.max(attention) + 3.0 * pixels * (2.0 * size + 1.0)
}

/// Latents of a stretch of time that `AutoencoderKLHunyuanVideo` takes at once, and frames of one.
const STRETCH_LATENTS: f64 = 5.0;
const STRETCH_FRAMES: f64 = 17.0;
/// Most elements of frames with their predecessors at a time.
const GATHERED: f64 = 268435456.0;

/// Peak bytes of encoding `frames` latent frames by `AutoencoderKLHunyuanVideo` with levels of these widths. The
/// stretch is in memory as a whole: a block's input, the values between its convolutions and the output of its
/// shortcut, and the frames that are gathered for one convolution.
pub(crate) fn video_encode(
    widths: &[i64],
    video: &PixelVolume,
    frames: f64,
    job: &PlannedJob<'_>,
) -> f64 {
    let size = job.number_bytes() as f64;
    let pixels = video.tile_pixels();
    let mut most: f64 = 0.0;
    for (index, &output) in widths.iter().enumerate() {
        let input = widths.get(index + 1).copied().unwrap_or(output) as f64;
        let output = output as f64;
        let halved = i32::try_from(index).unwrap_or(16);
        // Time is halved twice, from the pixels on.
        let at_level = (frames / 2.0_f64.powi(halved.min(2))).ceil();
        let numbers = at_level * pixels / 4.0_f64.powi(halved);
        let gathered = (numbers * 3.0 * input).min(GATHERED);
        most = most.max(numbers * (input + 2.0 * output) + 1.7 * gathered);
    }
    most * size + frames * video.width * video.height * 3.0 * (size + 1.0)
}

/// Bytes alive at the worst moment of decoding `latents` latent frames.
pub(crate) fn video_decode(
    widths: &[i64],
    video: &PixelVolume,
    latents: f64,
    job: &PlannedJob<'_>,
) -> f64 {
    let frames = (latents.min(STRETCH_LATENTS) - 1.0).max(0.0) * 4.0 + 1.0;
    video_encode(widths, video, frames.min(STRETCH_FRAMES), job)
}
