//! Rotary positions of tokens in seconds and pixels, each as a share of the longest and largest video.
//!
//! Frequencies are computed in f64, angles in f32, as in diffusers: far frequencies show the difference.

use std::f64::consts::FRAC_PI_2;

use safelight_core::networks::ltx2::Ltx2TransformerConfig;
use tch::{Device, Kind, Tensor};

use crate::nn::Rope;
use crate::parallel::TokenShards;

/// Latents of the sound in a second.
const AUDIO_RATE: f64 = 25.0;
/// Frames of the mel spectrogram of one latent, and in a second.
const MEL_FACTOR: f32 = 4.0;
const MEL_SAMPLES: f32 = 160.0;
const SAMPLE_RATE: f32 = 16_000.0;
/// Frames and pixels of one latent of a video.
const TIME_FACTOR: f32 = 8.0;
const EDGE_FACTOR: f32 = 32.0;

/// Tokens of the sound of a video.
pub fn audio_tokens(frames: i64, fps: f64) -> i64 {
    (frames as f64 / fps * AUDIO_RATE).round_ties_even() as i64
}

/// Turns of the tokens of both streams: within a stream, and between the streams, where time alone counts.
pub struct Ltx2Positions {
    pub(super) own: [Rope; 2],
    pub(super) cross: [Rope; 2],
    /// Heads of the attentions within the streams, and between them.
    heads: [[i64; 2]; 2],
}

impl Ltx2Positions {
    /// `latents`: frames, rows and columns of the video's latents; `audio`: tokens of the sound
    pub fn new(
        config: &Ltx2TransformerConfig,
        latents: [i64; 3],
        fps: f64,
        audio: i64,
        device: Device,
    ) -> Self {
        let [frames, height, width] = latents;
        let seconds = config.pos_embed_max_pos as f32;
        let audio_seconds = config.audio_pos_embed_max_pos as f32;
        let longest = seconds.max(audio_seconds);
        // The first frame alone makes one latent.
        let begin = |token: f32, factor: f32| (token * factor + 1.0 - factor).max(0.0);
        let times = centers(frames, |i| begin(i, TIME_FACTOR) / fps as f32);
        let rows = centers(height, |i| i * EDGE_FACTOR);
        let columns = centers(width, |i| i * EDGE_FACTOR);
        let sounds = centers(audio, |i| begin(i, MEL_FACTOR) * MEL_SAMPLES / SAMPLE_RATE);
        let grid = Tensor::cartesian_prod(&[
            &times / f64::from(seconds),
            rows / config.base_height as f64,
            columns / config.base_width as f64,
        ]);
        let moments = times
            .view([-1, 1, 1])
            .expand([frames, height, width], false);
        let moments = moments.reshape([-1, 1]) / f64::from(longest);
        let [video, sound] = config.streams();
        let shared = sound.heads * sound.head_dim;
        let rope =
            |shares: &Tensor, dim, heads| turns(shares, dim, heads, config.rope_theta, device);
        let sounds = sounds.unsqueeze(1);
        Self {
            own: [
                rope(&grid, video.dim, video.heads),
                rope(
                    &(&sounds / f64::from(audio_seconds)),
                    sound.dim,
                    sound.heads,
                ),
            ],
            cross: [
                rope(&moments, shared, sound.heads),
                rope(&(&sounds / f64::from(longest)), shared, sound.heads),
            ],
            heads: [[video.heads, sound.heads], [sound.heads; 2]],
        }
    }

    /// Turns of this rank's tokens of both streams.
    pub(super) fn spread(&self, shards: [&TokenShards; 2]) -> Self {
        let of = |ropes: &[Rope; 2], heads: [i64; 2]| {
            [0, 1].map(|which| ropes[which].spread_rows(shards[which], heads[which]))
        };
        let [own, cross] = self.heads;
        Self {
            own: of(&self.own, own),
            cross: of(&self.cross, cross),
            heads: self.heads,
        }
    }
}

/// Middles of the spans of tokens, `(count)` in f32; `begin`: start of a token
fn centers(count: i64, begin: impl Fn(f32) -> f32) -> Tensor {
    let middles = (0..count).map(|i| f32::midpoint(begin(i as f32), begin((i + 1) as f32)));
    Tensor::from_slice(&middles.collect::<Vec<_>>())
}

/// Turns that differ from head to head: a row for each head of each token.
///
/// `shares`: `(N, axes)` in f32, places between 0 and 1; `dim`: width of all heads. Frequencies of the axes alternate, and
/// numbers at the front that are left over are not turned.
pub(super) fn turns(shares: &Tensor, dim: i64, heads: i64, theta: f64, device: Device) -> Rope {
    let (tokens, axes) = shares.size2().expect("places are rows of axes");
    let count = dim / (2 * axes);
    let exponents = Tensor::linspace(0.0, 1.0, count, (Kind::Double, Device::Cpu));
    let frequencies = Tensor::pow_scalar(theta, &exponents) * FRAC_PI_2;
    let frequencies = frequencies.to_kind(Kind::Float);
    // n axes -> n count axes -> n (count axes)
    let angles = (shares * 2.0 - 1.0).unsqueeze(1) * frequencies.unsqueeze(1);
    let angles = angles.reshape([tokens, count * axes]);
    let angles = angles.constant_pad_nd([dim / 2 - count * axes, 0]);
    let angles = angles.view([tokens * heads, -1]);
    Rope::of_turns(&angles.cos(), &angles.sin(), device)
}
