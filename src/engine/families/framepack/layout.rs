//! Tokens of a section's latents and of its history, with their positions in time and space.
//!
//! Distant history is packed more: one of its tokens covers 1, 2 or 4 frames and as many times two latents along each
//! edge.
//! Contains no weights.

use safelight_core::networks::FramePackTransformerConfig;
use safelight_core::networks::framepack_transformer::PATCH;
use tch::{Kind, Tensor};

/// Frames, rows and columns of latents that make one token of packed history.
pub(super) const PACKED_2X: [i64; 3] = [2, 4, 4];
pub(super) const PACKED_4X: [i64; 3] = [4, 8, 8];

/// Positions in time of a section's latents and of its history, in latent frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionLayout {
    pub latents: Vec<i64>,
    pub clean: Vec<i64>,
    pub history_2x: Vec<i64>,
    pub history_4x: Vec<i64>,
}

/// History of a section: each `(1, 16, frames, h, w)`, with as many frames as the [`SectionLayout`] has positions.
#[derive(Debug)]
pub struct SectionHistory {
    /// The start and the nearest of the frames made so far.
    pub clean: Tensor,
    pub history_2x: Tensor,
    pub history_4x: Tensor,
}

/// Cosines and sines of tokens at `frames` times all positions of `rows` and `columns`, each `(tokens, D / 2)` in f32.
/// `packed`: tokens along each axis that are merged into one, whose rotation is the mean of theirs.
pub(super) fn turns_of(
    frames: &[i64],
    [rows, columns]: [i64; 2],
    packed: i64,
    config: &FramePackTransformerConfig,
) -> [Tensor; 2] {
    let numbers = |len: i64| (0..len).map(|n| n as f32).collect::<Vec<_>>();
    let frames: Vec<f32> = frames.iter().map(|&n| n as f32).collect();
    let places = [frames, numbers(rows), numbers(columns)];
    let [t, h, w] = places.each_ref().map(|places| places.len() as i64);
    [Tensor::cos, Tensor::sin].map(|turn: fn(&Tensor) -> Tensor| {
        let axes = places.iter().enumerate().map(|(axis, places)| {
            let angles = angles(places, config.rope_axes_dim[axis], config.rope_theta);
            let mut shape = [1, 1, 1, angles.size()[1]];
            shape[axis] = places.len() as i64;
            turn(&angles).view(shape).expand([t, h, w, -1], false)
        });
        let table = Tensor::cat(&axes.collect::<Vec<_>>(), 3); // t h w d
        if packed == 1 {
            return table.flatten(0, 2);
        }
        // t h w d -> 1 d t h w and back
        let table = table.permute([3, 0, 1, 2]).unsqueeze(0);
        let kernel = [packed; 3];
        let table = padded(&table, kernel);
        let means = table.avg_pool3d(kernel, kernel, [0, 0, 0], false, true, None::<i64>);
        means.flatten(2, 4).squeeze_dim(0).tr()
    })
}

/// `(places, dim / 2)`, in f32 as the models' authors and diffusers have them.
fn angles(places: &[f32], dim: i64, theta: f64) -> Tensor {
    let exponents = Tensor::arange_start_step(0, dim, 2, (Kind::Float, tch::Device::Cpu)) / dim;
    let freqs = Tensor::from(theta).pow(&exponents).reciprocal();
    Tensor::from_slice(places).outer(&freqs)
}

/// `(1, C, t, h, w)`, its last frames, rows and columns repeated until each axis is a multiple of `kernel`.
fn padded(xs: &Tensor, kernel: [i64; 3]) -> Tensor {
    let size = xs.size();
    let missing = [2, 3, 4].map(|dim: usize| {
        let step = kernel[dim - 2];
        (step - size[dim] % step) % step
    });
    if missing == [0, 0, 0] {
        return xs.shallow_clone();
    }
    let [frames, rows, columns] = missing;
    xs.replication_pad3d([0, columns, 0, rows, 0, frames])
}

/// Latents as tokens of `kernel` latents each, the last ones repeated where they do not fill a token:
/// `(1, C, t, h, w)` -> `(1, tokens, C * kernel)`
pub(super) fn patches(latents: &Tensor, kernel: [i64; 3]) -> Tensor {
    let latents = padded(latents, kernel);
    let size = latents.size();
    let [frames, rows, columns] = [0, 1, 2].map(|axis| size[axis + 2] / kernel[axis]);
    let [kt, kh, kw] = kernel;
    // (c) (t kt) (h kh) (w kw) -> (t h w) (c kt kh kw)
    latents
        .reshape([size[1], frames, kt, rows, kh, columns, kw].as_slice())
        .permute([1, 3, 5, 0, 2, 4, 6])
        .reshape([1, frames * rows * columns, -1])
}

/// Tokens of a model's answer as latents of `size`, frames, rows and columns:
/// `(1, tokens, 4 C)` -> `(1, C, t, h, w)`
pub(super) fn unpatched(tokens: &Tensor, [frames, height, width]: [i64; 3]) -> Tensor {
    let (rows, columns) = (height / PATCH, width / PATCH);
    // (t h w) (c p q) -> 1 c t (h p) (w q)
    tokens
        .reshape([frames, rows, columns, -1, PATCH, PATCH])
        .permute([3, 0, 1, 4, 2, 5])
        .reshape([1, -1, frames, height, width])
}
