//! Autoencoders: what the levels make of a few frames at a time, what convolutions remember between them, tiles and
//! bands.
//!
//! Numbers are counted level by level as the engine's `vae/wan` and `vae/kl` go: the worst moment is nearly always in
//! the level at the pixels.

use super::{Job, Need};
use crate::memory::PartName;
use crate::networks::{KlVaeConfig, VaeHalf, WanVaeConfig};

/// A clip or picture in pixels.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clip {
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) frames: f64,
    pub(crate) tile: Option<f64>,
}

impl Clip {
    /// So many frames of the size that a job makes.
    pub(crate) fn of(job: &Job<'_>, frames: u32) -> Self {
        let request = job.request;
        Self {
            width: f64::from(request.width),
            height: f64::from(request.height),
            frames: f64::from(frames),
            tile: request.vae_tile.map(f64::from),
        }
    }
}

/// Frames that a convolution over time remembers.
const REMEMBERED: f64 = 2.0;
/// Frames that the encoder takes at a time.
const ENCODER_FRAMES: f64 = 4.0;
/// Convolutions from these widths on are computed as volumes, others as pictures that carry their predecessors.
const VOLUMES: std::ops::RangeInclusive<f64> = 129.0..=255.0;

/// The numbers of Wan's autoencoder.
struct Levels {
    /// Widths from the pixels to the latents.
    widths: Vec<f64>,
    /// Whether the step to the next level also halves time.
    halves_time: Vec<bool>,
    blocks: f64,
    patch: f64,
    is_residual: bool,
    latent_channels: f64,
}

impl Levels {
    fn of(config: &WanVaeConfig, base: i64) -> Self {
        let width = |factor: &i64| (factor * base) as f64;
        Self {
            widths: config.dim_mult.iter().map(width).collect(),
            halves_time: config.temperal_downsample.clone(),
            blocks: config.num_res_blocks as f64,
            patch: config.patch() as f64,
            is_residual: config.is_residual,
            latent_channels: config.z_dim as f64,
        }
    }
}

/// Frames at a time and pixels of one level.
#[derive(Clone, Copy)]
struct Grid {
    frames: f64,
    area: f64,
    /// A single frame: convolutions take one tap, and remember what they were given without a copy.
    is_picture: bool,
}

impl Grid {
    /// Frames that each convolution over time remembers.
    fn remembered(self) -> f64 {
        if self.is_picture { 1.0 } else { REMEMBERED }
    }
}

/// A convolution of three taps behind a norm: its rows, what it remembers anew, and what comes out.
fn convolution(inputs: f64, outputs: f64, grid: Grid) -> f64 {
    let Grid { frames, area, .. } = grid;
    if grid.is_picture {
        // What goes in is counted as what is remembered.
        return outputs * area;
    }
    if frames <= 1.0 {
        return (3.0 * inputs + REMEMBERED * inputs + outputs) * area;
    }
    if VOLUMES.contains(&inputs) {
        return ((REMEMBERED + frames) * inputs + REMEMBERED * inputs + frames * outputs) * area;
    }
    (3.0 * frames * inputs + REMEMBERED * inputs + frames * outputs) * area
}

/// A residual block: what goes in, its shortcut where widths differ, what is between the convolutions.
fn residual(inputs: f64, outputs: f64, grid: Grid) -> f64 {
    let frame = grid.frames * grid.area;
    let shortcut = if inputs == outputs {
        0.0
    } else {
        outputs * frame
    };
    let first = convolution(inputs, outputs, grid);
    let second = outputs * frame + convolution(outputs, outputs, grid);
    inputs * frame + shortcut + first.max(second)
}

/// What the convolutions of a level remember.
fn memory(inputs: f64, outputs: f64, blocks: f64, grid: Grid) -> f64 {
    grid.remembered() * grid.area * (inputs + outputs * (2.0 * blocks - 1.0))
}

/// Bytes alive at the worst moment of decoding, without weights.
pub(crate) fn wan_decode(config: &WanVaeConfig, clip: &Clip, size: f64) -> f64 {
    let levels = Levels::of(config, config.decoder_dim());
    let space = config.spatial_factor() as f64;
    let [height, width] = [clip.height, clip.width].map(|edge| edge / space);
    let is_clip = clip.frames > 1.0;
    let latents = clip.frames.max(1.0) / 4.0 * levels.latent_channels * height * width * 4.0 * 2.0;
    // Tiles are counted in the autoencoder's own patches.
    let tile = clip.tile.map(|tile| (tile / space).floor().max(1.0));
    let tile = tile.filter(|tile| height > *tile || width > *tile);
    let uncut = decoder_moments(&levels, height * width, is_clip);
    let numbers = match tile {
        None => most_of(&uncut, is_clip),
        Some(tile) => {
            // The level of the latents takes whole frames, the others a tile.
            let cut = decoder_moments(&levels, height.min(tile) * width.min(tile), is_clip);
            let whole = most_of(&uncut[..uncut.len().min(2)], is_clip);
            whole.max(most_of(&cut[cut.len().min(2)..], is_clip))
        }
    };
    let pixels = 4.0 * 3.0 * clip.width * clip.height;
    numbers * size + latents + pixels * (size + 1.0)
}

/// What one part of a network makes, and what it remembers from chunk to chunk.
#[derive(Clone, Copy, Debug)]
struct Moment {
    moment: f64,
    memory: f64,
}

/// The worst moment, with what is remembered then: of all levels from the second chunk on, of a picture only of those
/// that it has passed.
fn most_of(moments: &[Moment], is_clip: bool) -> f64 {
    let all: f64 = moments.iter().map(|level| level.memory).sum();
    let mut passed = 0.0;
    let totals = moments.iter().map(|level| {
        passed += level.memory;
        level.moment + if is_clip { all } else { passed }
    });
    totals.fold(0.0, f64::max)
}

/// The middle, each level with its step to the next, and the head; `area`: of the latents.
fn decoder_moments(levels: &Levels, area: f64, is_clip: bool) -> Vec<Moment> {
    let widths: Vec<f64> = levels.widths.iter().rev().copied().collect();
    let top = widths.first().copied().unwrap_or(0.0);
    let mut grid = Grid {
        frames: 1.0,
        area,
        is_picture: !is_clip,
    };
    let steps = widths.len().saturating_sub(1);
    let mut moments = vec![Moment {
        // Attention among the pixels of a frame: queries, keys and values, and what comes of them.
        moment: residual(top, top, grid).max(6.0 * top * area),
        memory: memory(top, top, 2.0, grid) + grid.remembered() * levels.latent_channels * area,
    }];
    let mut input = top;
    for (index, &output) in widths.iter().enumerate() {
        let blocks = levels.blocks + 1.0;
        // The level's input stays for its shortcut.
        let first = residual(input, output, grid);
        let later = input * grid.frames * grid.area + residual(output, output, grid);
        let mut moment = if blocks > 1.0 {
            first.max(later)
        } else {
            first
        };
        let mut remembered = memory(input, output, blocks, grid);
        if index < steps {
            let halves = levels
                .halves_time
                .get(steps - 1 - index)
                .copied()
                .unwrap_or(false);
            let next = if levels.is_residual {
                output
            } else {
                output / 2.0
            };
            let doubles_time = halves && is_clip;
            let before = grid;
            if doubles_time {
                remembered += grid.remembered() * output * grid.area;
                grid.frames *= 2.0;
            }
            grid.area *= 4.0;
            let made = next * grid.frames * grid.area;
            let shortcut = if levels.is_residual { 2.0 * made } else { 0.0 };
            let read = (input + output) * before.frames * before.area
                + if doubles_time {
                    2.0 * output * before.frames * before.area
                } else {
                    0.0
                };
            moment = moment.max(read + 2.0 * made + shortcut);
            input = next;
        } else {
            // The head: its rows, and the pixels.
            remembered += grid.remembered() * output * grid.area;
            let head = output * grid.frames * grid.area
                + convolution(output, 3.0 * levels.patch * levels.patch, grid);
            moment = moment.max(head);
        }
        moments.push(Moment {
            moment,
            memory: remembered,
        });
    }
    moments
}

/// Bytes alive at the worst moment of encoding, without weights.
pub(crate) fn wan_encode(config: &WanVaeConfig, clip: &Clip, size: f64) -> f64 {
    let levels = Levels::of(config, config.base_dim);
    let space = config.spatial_factor() as f64;
    let [height, width] = [clip.height, clip.width].map(|edge| edge / space);
    let tile = clip.tile.map(|tile| (tile / space).floor().max(1.0));
    let [rows, columns] = [height, width].map(|edge| tile.map_or(edge, |tile| edge.min(tile)));
    let mut grid = Grid {
        frames: if clip.frames > 1.0 {
            ENCODER_FRAMES
        } else {
            1.0
        },
        area: rows * columns * (space / levels.patch).powi(2),
        is_picture: clip.frames <= 1.0,
    };
    let mut input = levels.widths.first().copied().unwrap_or(0.0);
    let colours = 3.0 * levels.patch * levels.patch;
    let mut most = convolution(colours, input, grid) + colours * grid.frames * grid.area;
    let mut remembered = grid.remembered() * colours * grid.area;
    // Of a picture nothing is remembered yet of the levels to come.
    let mut most_of_picture = most + remembered;
    for (index, &output) in levels.widths.iter().enumerate() {
        let shortcut = if levels.is_residual {
            output * grid.frames * grid.area / 4.0
        } else {
            0.0
        };
        let below = input * grid.frames * grid.area;
        let later = below + residual(output, output, grid);
        let moment = shortcut + residual(input, output, grid).max(later);
        most = most.max(moment);
        remembered += memory(input, output, levels.blocks, grid);
        most_of_picture = most_of_picture.max(moment + remembered);
        if index + 1 < levels.widths.len() {
            grid.area /= 4.0;
            if levels.halves_time.get(index).copied().unwrap_or(false) {
                remembered += output * grid.area;
                grid.frames = (grid.frames / 2.0).max(1.0);
            }
        }
        input = output;
    }
    let numbers = if grid.is_picture {
        most_of_picture
    } else {
        most + remembered
    };
    numbers * size
}

/// Numbers of attention's scores that lie in memory at a time, and bytes of each in f32 and again in halves.
const SCORES: f64 = 67108864.0;
const SCORE_BYTES: f64 = 6.0;
/// The bands in which the autoencoder of pictures works where nothing else is asked for.
const BAND: f64 = 512.0;
/// Pixels that a CPU takes at once.
const LARGEST_WHOLE: f64 = 1048576.0;

/// Bands that are there at a time while one is doubled and convolved.
const DOUBLED_ANEW: f64 = 5.6;

/// Numbers that a layer takes or gives at a time; `None` where it takes a picture at once.
fn band(clip: &Clip, width: f64, job: &Job<'_>) -> Option<f64> {
    let is_small = !job.is_on_gpu() && clip.width * clip.height <= LARGEST_WHOLE;
    let edge = clip.tile.or_else(|| (!is_small).then_some(BAND))?;
    Some(edge * edge * 2.0 * width)
}

/// Pixels along the edges of a reference.
const SEEN_EDGE: f64 = 1024.0;

/// One half of a picture's autoencoder with one picture: batches go through it one after the other.
pub(crate) fn picture(job: &Job<'_>, part: PartName) -> Option<Need> {
    let mut clip = Clip::of(job, 1);
    if part == PartName::VaeEncoder && !job.request.references.is_empty() {
        // A reference is seen at about a megapixel, whatever is made.
        (clip.width, clip.height) = (clip.width.max(SEEN_EDGE), clip.height.max(SEEN_EDGE));
    }
    if let Some((_, config)) = job.configured::<WanVaeConfig>(part) {
        let of_half = match part {
            PartName::VaeEncoder => wan_encode,
            _ => wan_decode,
        };
        let bytes = of_half(config, &clip, job.number_bytes() as f64);
        return Some(job.vae_need(part, bytes));
    }
    let (_, config) = job.configured::<KlVaeConfig>(part)?;
    let config = config.of_half(match part {
        PartName::VaeEncoder => VaeHalf::Encoder,
        _ => VaeHalf::Decoder,
    });
    let bytes = kl(&config.block_out_channels, &clip, job);
    Some(job.vae_need(part, bytes))
}

/// Decoding or encoding by `AutoencoderKL` with levels of these widths, from the pixels to the latents: each level
/// twice, what a block reads and what it makes, and the bands' own; the attention among the latents.
pub(crate) fn kl(widths: &[i64], clip: &Clip, job: &Job<'_>) -> f64 {
    let size = job.number_bytes() as f64;
    let widths: Vec<f64> = widths.iter().map(|&width| width as f64).collect();
    let pixels = clip.width * clip.height;
    let width = widths.first().copied().unwrap_or(128.0);
    let band = band(clip, width, job);
    // With tiles the rest waits off the device where it has no room.
    let waiting = 3.0 * pixels * width * size;
    let is_off = clip.tile.is_some() && waiting > job.available_bytes as f64;
    let mut most: f64 = 0.0;
    for (index, &output) in widths.iter().enumerate() {
        let area = pixels / 4.0_f64.powi(i32::try_from(index).unwrap_or(16));
        let whole = area * output;
        let kept = if is_off { 0.0 } else { 2.0 * whole };
        let at_a_time = band.map_or(whole, |band| band.min(whole));
        most = most.max((kept + 3.0 * at_a_time) * size);
        // What comes from the level below is doubled anew in every band where it is too large to lie there.
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
/// Numbers that frames with their predecessors may be at a time, and what is made of them beside.
const GATHERED: f64 = 268435456.0;

/// Bytes alive at the worst moment of encoding `frames` latent frames by `AutoencoderKLHunyuanVideo` with levels of
/// these widths. The clip's stretch lies there whole: what a block reads, what is between its convolutions and what its shortcut
/// makes, and the frames that are gathered for one convolution.
pub(crate) fn video_encode(widths: &[i64], clip: &Clip, frames: f64, job: &Job<'_>) -> f64 {
    let size = job.number_bytes() as f64;
    let edge = |edge: f64| clip.tile.map_or(edge, |tile| edge.min(tile));
    let pixels = edge(clip.width) * edge(clip.height);
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
    most * size + frames * clip.width * clip.height * 3.0 * (size + 1.0)
}

/// Bytes alive at the worst moment of decoding `latents` latent frames.
pub(crate) fn video_decode(widths: &[i64], clip: &Clip, latents: f64, job: &Job<'_>) -> f64 {
    let frames = (latents.min(STRETCH_LATENTS) - 1.0).max(0.0) * 4.0 + 1.0;
    video_encode(widths, clip, frames.min(STRETCH_FRAMES), job)
}
