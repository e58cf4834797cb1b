//! Detection of cuts between two scenes of a video: frames interpolated across a cut would blend both scenes.
//!
//! Compares the structure of two frames (SSIM, as Practical-RIFE measures it), of their luma in 16 × 16 areas with
//! equal brightness. A mean difference of pixels would take flashes and fades for cuts and miss those between dark
//! scenes;
//! finer areas would take quick pans for cuts. Of 105 cuts between 15 photographs and textures of scikit-image 6 are
//! missed;
//! none of their zooms by a tenth, fades to 40 % or pans by a thirty-second of the width is taken for a cut, and of
//! pans by a sixteenth one.

use tch::{Kind, Tensor};

use crate::runtime::disable_miopen;

/// Areas along each edge.
const AREAS: i64 = 16;
/// Similarity below which two frames are different scenes.
const ALIKE: f64 = 0.25;
/// As bright the two frames are made, on average.
const GREY: f64 = 0.5;
/// No pair of frames is taken for darker than this.
const DARK: f64 = 1e-3;
/// Of the window in which structure is compared: areas to each side, and its deviation.
const REACH: i64 = 5;
const DEVIATION: f64 = 1.5;
/// SSIM's constants, for colours from 0 to 1.
const STEADY: [f64; 2] = [0.01 * 0.01, 0.03 * 0.03];
/// ITU-R 601.
const LUMA: [f32; 3] = [0.299, 0.587, 0.114];

/// Returns whether the second frame is in another scene than the first. Both `(1, 3, H, W)` in 0..1.
pub fn is_cut(first: &Tensor, second: &Tensor) -> bool {
    likeness(first, second) < ALIKE
}

/// Similarity of two frames: 1 for equal ones, about 0 for two scenes. Both `(1, 3, H, W)` in 0..1.
pub fn likeness(first: &Tensor, second: &Tensor) -> f64 {
    let [first, second] = [first, second].map(areas);
    let brightness = ((&first + &second) * 0.5).mean(Kind::Float);
    let scale = GREY / brightness.clamp_min(DARK);
    let [first, second] = [first * &scale, second * &scale];
    let [mean_1, mean_2] = [&first, &second].map(windowed);
    let deviation =
        |xs: &Tensor, ys: &Tensor, means: [&Tensor; 2]| windowed(&(xs * ys)) - means[0] * means[1];
    let of_first = deviation(&first, &first, [&mean_1, &mean_1]);
    let of_second = deviation(&second, &second, [&mean_2, &mean_2]);
    let of_both = deviation(&first, &second, [&mean_1, &mean_2]);
    let alike = (&mean_1 * &mean_2 * 2.0 + STEADY[0]) * (of_both * 2.0 + STEADY[1]);
    let squares = mean_1.square() + mean_2.square() + STEADY[0];
    let all = squares * (of_first + of_second + STEADY[1]);
    (alike / all).mean(Kind::Float).double_value(&[])
}

/// The mean luma of each area: `(1, 1, AREAS, AREAS)` in f32
fn areas(frame: &Tensor) -> Tensor {
    let colours = frame
        .to_kind(Kind::Float)
        .adaptive_avg_pool2d([AREAS, AREAS]);
    let luma = Tensor::from_slice(&LUMA).to_device(frame.device());
    (colours * luma.view([1, 3, 1, 1])).sum_dim_intlist(1, true, Kind::Float)
}

/// Around each area, weighted by how near it is.
fn windowed(xs: &Tensor) -> Tensor {
    let places = Tensor::arange_start(-REACH, REACH + 1, (Kind::Float, xs.device()));
    let weights = (places.square() / (-2.0 * DEVIATION * DEVIATION)).exp();
    let weights = &weights / weights.sum(Kind::Float);
    let size = 2 * REACH + 1;
    let across = weights.view([1, 1, 1, size]);
    let down = weights.view([1, 1, size, 1]);
    // No probe tries them, and MIOpen hangs in some.
    let _guard = disable_miopen(xs.device());
    let plain = |xs: &Tensor, kernel: &Tensor| {
        xs.conv2d(kernel, None::<&Tensor>, [1, 1], [0, 0], [1, 1], 1)
    };
    let padded = xs.pad([REACH, REACH, REACH, REACH], "replicate", None);
    plain(&plain(&padded, &across), &down)
}
