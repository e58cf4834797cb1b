//! The definition of every pass in libtorch's own operations: what runs where the kernels do not, and what
//! they are checked against. The functions of the same names in [`kernels`](super) say what each does.
//!
//! In half precision sums and products are in f32 and rounded once, as in diffusers; passes over memory are few,
//! but not one.

use tch::{Device, Kind, Tensor};

pub use super::block_reference::{expand_blocks, expand_quant, rotation};
use super::pass_params::{ElementActivation, FusedNorm, GateArgs, RopePairing, TokenRows};

pub fn layer_norm(xs: &Tensor, norm: &FusedNorm<'_>, eps: f64) -> Tensor {
    match *norm {
        FusedNorm::Plain => normed(xs, None, None, eps),
        FusedNorm::Affine { weight, bias } => {
            let [weight, bias] = [weight, bias].map(|vector| vector.to_kind(Kind::Float));
            normed(xs, Some(&weight), Some(&bias), eps)
        }
        FusedNorm::Modulated { rows, shift, scale } => {
            let parts: Vec<Tensor> = parts(&rows)
                .map(|(u, start, len)| {
                    let weight = rows.row(u, scale) + 1.0;
                    let part = xs.narrow(1, start, len);
                    normed(&part, Some(&weight), Some(&rows.row(u, shift)), eps)
                })
                .collect();
            match &parts[..] {
                [only] => only.shallow_clone(),
                parts => Tensor::cat(parts, 1),
            }
        }
    }
}

fn normed(xs: &Tensor, weight: Option<&Tensor>, bias: Option<&Tensor>, eps: f64) -> Tensor {
    let channels = xs.size().last().copied().unwrap_or(1);
    xs.to_kind(Kind::Float)
        .layer_norm([channels], weight, bias, eps, true)
        .to_kind(xs.kind())
}

fn parts(rows: &TokenRows<'_>) -> impl Iterator<Item = (usize, i64, i64)> {
    let ranges = rows.ranges.iter().enumerate();
    ranges.map(|(u, &(start, len))| (u, start, len))
}

pub fn gated_add(xs: &mut Tensor, ys: &Tensor, gate: Option<GateArgs<'_>>) {
    let Some(GateArgs { rows, index }) = gate else {
        drop(xs.g_add_(ys));
        return;
    };
    for (u, start, len) in parts(&rows) {
        let mut part = xs.narrow(1, start, len);
        drop(part.addcmul_(&ys.narrow(1, start, len), &rows.row(u, index)));
    }
}

pub fn rms_norm_rope(xs: &Tensor, weight: &Tensor, eps: f64, turns: Option<&Tensor>) -> Tensor {
    let kind = xs.kind();
    let channels = weight.size();
    let Some(turns) = turns else {
        let weight = weight.to_kind(kind);
        return xs.rms_norm(&channels, Some(&weight), eps);
    };
    let weight = weight.to_kind(Kind::Float);
    let ys = xs
        .to_kind(Kind::Float)
        .rms_norm(&channels, Some(&weight), eps);
    turned(&ys, turns).to_kind(kind)
}

/// `xs`: `(B, L, .., C)`, `turns`: `(L, 1, D / 2)` complex, `D` dividing `C` -> the same as `xs`
fn turned(xs: &Tensor, turns: &Tensor) -> Tensor {
    let size = xs.size();
    let half = turns.size().last().copied().unwrap_or(1);
    // b l (h d) -> b l h (d 2)
    let heads = size[2..].iter().product::<i64>() / (2 * half);
    let pairs = xs
        .reshape([size[0], size[1], heads, half, 2])
        .view_as_complex();
    (pairs * turns).view_as_real().reshape(size)
}

pub fn head_norm_rope(xs: &mut Tensor, weights: &Tensor, eps: f64, turns: &Tensor) {
    let (heads, head_dim) = (xs.size()[2], xs.size()[3]);
    let share = heads / weights.size()[0];
    for (i, weight) in weights.to_kind(Kind::Float).unbind(0).iter().enumerate() {
        let mut part = xs.narrow(2, i as i64 * share, share);
        let ys = part
            .to_kind(Kind::Float)
            .rms_norm([head_dim], Some(weight), eps);
        part.copy_(&turned(&ys, turns));
    }
}

pub fn rms_norm_shifted(xs: &Tensor, weight: &Tensor, shift: &Tensor, eps: f64) -> Tensor {
    let mut ys = rms_norm_rope(xs, weight, eps, None);
    drop(ys.g_add_(&shift.to_kind(xs.kind())));
    ys
}

/// The normalised value is rounded to the kind of the weight before it is scaled, as in language models.
pub fn turned_heads(
    xs: &Tensor,
    norm: Option<(&Tensor, f64)>,
    turns: &Tensor,
    pairs: RopePairing,
) -> Tensor {
    let normed = norm.map(|(weight, eps)| {
        let size = weight.size();
        xs.rms_norm(&size, None::<&Tensor>, eps)
            .to_kind(weight.kind())
            * weight
    });
    let wide = normed.as_ref().unwrap_or(xs).to_kind(Kind::Float);
    let (a, b) = match pairs {
        RopePairing::Halves => {
            let half = wide.size()[3] / 2;
            (wide.narrow(3, 0, half), wide.narrow(3, half, half))
        }
        RopePairing::Neighbours => (wide.slice(3, 0, None, 2), wide.slice(3, 1, None, 2)),
    };
    let (cos, sin) = (turns.real(), turns.imag());
    let turned = [&a * &cos - &b * &sin, &b * &cos + &a * &sin];
    let turned = match pairs {
        RopePairing::Halves => Tensor::cat(&turned, 3),
        RopePairing::Neighbours => Tensor::stack(&turned, 4).flatten(3, 4),
    };
    turned.to_kind(xs.kind())
}

pub(super) fn activate(xs: &mut Tensor, what: ElementActivation<'_>) {
    match what {
        ElementActivation::GeluTanh => drop(xs.gelu_("tanh")),
        ElementActivation::Silu => drop(xs.silu_()),
        ElementActivation::SiluTimes(ys) => drop(xs.silu_().g_mul_(ys)),
        ElementActivation::TimesSigmoid(ys) => drop(xs.g_mul_(&ys.sigmoid())),
        ElementActivation::GeluTimes(ys) => drop(xs.gelu_("none").g_mul_(ys)),
    }
}

pub fn pixel_norm_silu(xs: &Tensor, factor: &Tensor) -> Tensor {
    let wide = xs.to_kind(Kind::Float);
    let length = wide
        .norm_scalaropt_dim(2, [-1], true)
        .clamp_min(SHORTEST_PIXEL);
    let mut ys = wide / length * factor.to_kind(Kind::Float);
    ys.silu_().to_kind(xs.kind())
}

/// Pixels that are shorter are not made longer than their share of this.
pub(super) const SHORTEST_PIXEL: f64 = 1e-12;

/// Only keeps the root from being divided by zero, and is taken off again.
const TINY: f64 = 1e-12;

pub fn channel_moments(xs: &Tensor) -> (Tensor, Tensor) {
    if let Device::Cuda(_) = xs.device() {
        // One pass, in f32 whatever comes in; there is none on the CPU.
        let (mean, inverse) = channels_second(xs).batch_norm_stats(TINY);
        let variance = (inverse.square().reciprocal() - TINY).clamp_min(0.0);
        return (mean, variance);
    }
    let rows = xs.flatten(0, -2).to_kind(Kind::Float);
    let (variance, mean) = rows.var_mean_correction([0_i64].as_slice(), 0, false);
    (mean, variance)
}

/// `(.., C)` -> a view, `(1, C, pixels, 1)`
fn channels_second(xs: &Tensor) -> Tensor {
    let channels = xs.size().last().copied().unwrap_or(1);
    // 1 p 1 c -> 1 c p 1: strides only
    xs.view([1, -1, 1, channels]).permute([0, 3, 1, 2])
}

pub fn scaled_channels(xs: &Tensor, scale: &Tensor, shift: &Tensor, with_silu: bool) -> Tensor {
    // A batch norm that no longer learns: one pass, in f32 and rounded once whatever the kind of `xs` is.
    let (mean, variance) = (shift.zeros_like(), scale.ones_like());
    let (weight, bias) = (Some(scale), Some(shift));
    let ys = channels_second(xs).batch_norm(
        weight,
        bias,
        Some(&mean),
        Some(&variance),
        false,
        0.0,
        0.0,
        false,
    );
    let mut ys = ys.permute([0, 2, 3, 1]).contiguous().view_as(xs);
    if with_silu {
        drop(ys.silu_());
    }
    ys
}

pub fn add_to_pixels(xs: &mut Tensor, ys: Option<&Tensor>, bias: Option<&Tensor>) {
    if let Some(ys) = ys {
        drop(xs.g_add_(ys));
    }
    if let Some(bias) = bias {
        drop(xs.g_add_(&bias.to_kind(xs.kind())));
    }
}

pub fn placed_corners(corners: &Tensor, bias: Option<&Tensor>) -> Tensor {
    let size = corners.size();
    let (height, width, outputs) = (size[1] - 1, size[2] - 1, size[3] / 4);
    let [frame, row, column] = [0, 1, 2].map(|dim| corners.stride()[dim]);
    // A corner below is in the next row, two corners further in its channels; one to the right is one further.
    let placed = corners.as_strided(
        [size[0], height, 2, width, 2, outputs].as_slice(),
        [frame, row, row + 2 * outputs, column, column + outputs, 1].as_slice(),
        None::<i64>,
    );
    let placed = placed.contiguous();
    let mut placed = placed.view([size[0], 2 * height, 2 * width, outputs]);
    add_to_pixels(&mut placed, None, bias);
    placed
}

pub fn softmax_to(scores: &Tensor, scale: f64, kind: Kind) -> Tensor {
    (scores * scale).softmax(-1, Kind::Float).to_kind(kind)
}

pub fn expand_fp8(numbers: &Tensor, scale: f32, kind: Kind) -> Tensor {
    let mut expanded = numbers.to_kind(kind);
    if scale.to_bits() != 1_f32.to_bits() {
        drop(expanded.g_mul_scalar_(f64::from(scale)));
    }
    expanded
}
