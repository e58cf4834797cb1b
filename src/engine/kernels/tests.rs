//! The twins against formulas written out in f64, on the CPU. The kernels are compared with the twins on each GPU.

use tch::{Device, Kind, Tensor};

use super::check::wave;
use super::*;

const TOKENS: i64 = 5;
const CHANNELS: i64 = 24;
const EPS: f64 = 1e-6;
/// Heads of eight numbers.
const HALF: usize = 4;

fn tensor(size: &[i64], pace: f64) -> Tensor {
    wave(size, pace, Device::Cpu)
}

fn numbers(xs: &Tensor) -> Vec<f64> {
    Vec::try_from(xs.to_kind(Kind::Double).flatten(0, -1)).unwrap()
}

/// The formula's result for each row of `(.., CHANNELS)`, given the row's number and numbers.
fn by_row(xs: &Tensor, formula: impl Fn(usize, &[f64]) -> Vec<f64>) -> Vec<f64> {
    let numbers = numbers(xs);
    let rows = numbers.chunks(CHANNELS as usize).enumerate();
    rows.flat_map(|(i, row)| formula(i, row)).collect()
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &[f64]) {
    assert_within(found, expected, 1.0);
}

#[track_caller]
fn assert_within(found: &Tensor, expected: &[f64], roundings: f64) {
    // A rounding in half precision; in f32 what sums in another order do.
    let is_half = found.kind() == Kind::BFloat16;
    let limit = if is_half { 1.0 / 256.0 } else { 4e-6 };
    let found = numbers(found);
    assert_eq!(found.len(), expected.len());
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let off = (found - expected).abs();
        let limit = roundings * limit * (expected.abs() + 0.1);
        assert!(off <= limit, "{i}: {found} for {expected}");
    }
}

/// The row divided by its root mean square and scaled.
fn rms_normed(row: &[f64], weights: &[f64]) -> Vec<f64> {
    let square = row.iter().map(|x| x * x).sum::<f64>() / row.len() as f64;
    let row = row.iter().zip(weights);
    row.map(|(x, weight)| x / (square + EPS).sqrt() * weight)
        .collect()
}

/// A turn and its angle for each token and pair of numbers.
fn turns() -> (Tensor, Vec<f64>) {
    let angles = tensor(&[TOKENS, 1, HALF as i64], 0.83) * 3.0;
    let turns = Tensor::complex(&angles.cos(), &angles.sin());
    (turns, numbers(&angles))
}

fn turned([x, y]: [f64; 2], angle: f64) -> [f64; 2] {
    let (sin, cos) = angle.sin_cos();
    [x * cos - y * sin, x * sin + y * cos]
}

fn silu_of(x: f64) -> f64 {
    x / (1.0 + (-x).exp())
}

fn normed(row: &[f64]) -> Vec<f64> {
    let mean = row.iter().sum::<f64>() / row.len() as f64;
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / row.len() as f64;
    let normed = |x: &f64| (x - mean) / (variance + EPS).sqrt();
    row.iter().map(normed).collect()
}

/// Each kind that a network computes in; both twins and fused functions give what `expected` says.
fn in_both_kinds(test: impl Fn(Kind)) {
    for kind in [Kind::Float, Kind::BFloat16] {
        test(kind);
    }
}

const RANGES: [(i64, i64); 2] = [(0, 2), (2, 3)];

/// Vector `n` for a token, of `(2, 6, CHANNELS)`.
fn vector(values: &[f64], token: usize, n: usize) -> &[f64] {
    let channels = CHANNELS as usize;
    let range = usize::from(token as i64 >= RANGES[1].0);
    &values[(range * 6 + n) * channels..][..channels]
}

fn rows_of(values: &Tensor) -> TokenRows<'_> {
    TokenRows {
        values,
        ranges: &RANGES,
    }
}

#[test]
fn a_layer_norm_is_scaled_and_shifted_by_the_vectors_of_its_token() {
    in_both_kinds(|kind| {
        let xs = tensor(&[1, TOKENS, CHANNELS], 0.37).to_kind(kind);
        let values = tensor(&[2, 6, CHANNELS], 0.53);
        let rows = rows_of(&values);
        let norm = FusedNorm::Modulated {
            rows,
            shift: 3,
            scale: 4,
        };
        let numbers = numbers(&values);
        let expected = by_row(&xs, |token, row| {
            let (shift, scale) = (vector(&numbers, token, 3), vector(&numbers, token, 4));
            let row = normed(row).into_iter().zip(shift).zip(scale);
            row.map(|((x, shift), scale)| x * (1.0 + scale) + shift)
                .collect()
        });
        let found = layer_norm(&xs, &norm, EPS);
        assert_eq!(found.kind(), kind);
        assert_close(&found, &expected);
    });
}

#[test]
fn a_layer_norm_may_have_weights_or_none() {
    in_both_kinds(|kind| {
        let xs = tensor(&[2, TOKENS, CHANNELS], 0.37).to_kind(kind);
        let [weight, bias] = [0.29, 0.41].map(|pace| tensor(&[CHANNELS], pace).to_kind(kind));
        let affine = FusedNorm::Affine {
            weight: &weight,
            bias: &bias,
        };
        let (weights, biases) = (numbers(&weight), numbers(&bias));
        let expected = by_row(&xs, |_, row| {
            let row = normed(row).into_iter().zip(&weights).zip(&biases);
            row.map(|((x, weight), bias)| x * weight + bias).collect()
        });
        assert_close(&layer_norm(&xs, &affine, EPS), &expected);
        let expected = by_row(&xs, |_, row| normed(row));
        assert_close(&layer_norm(&xs, &FusedNorm::Plain, EPS), &expected);
    });
}

#[test]
fn gated_add_uses_the_gate_of_each_token_and_norms_the_rounded_sum() {
    in_both_kinds(|kind| {
        let xs = tensor(&[1, TOKENS, CHANNELS], 0.37).to_kind(kind);
        let ys = tensor(&[1, TOKENS, CHANNELS], 0.71).to_kind(kind);
        let values = tensor(&[2, 6, CHANNELS], 0.53);
        let rows = rows_of(&values);
        let (added, values) = (numbers(&ys), numbers(&values));
        for gate in [None, Some(GateArgs { rows, index: 2 })] {
            let expected = by_row(&xs, |token, row| {
                let added = &added[token * row.len()..][..row.len()];
                let gates = vector(&values, token, 2);
                let row = row.iter().zip(added).zip(gates);
                row.map(|((x, y), g)| x + y * gate.map_or(1.0, |_| *g))
                    .collect()
            });
            let mut sum = xs.copy();
            gated_add(&mut sum, &ys, gate);
            assert_eq!(sum.kind(), kind);
            assert_close(&sum, &expected);

            let mut same = xs.copy();
            let found = gated_add_norm(&mut same, &ys, gate, &FusedNorm::Plain, EPS);
            assert_eq!(same, sum);
            assert_close(&found, &by_row(&sum, |_, row| normed(row)));
        }
    });
}

#[test]
fn heads_are_normed_together_and_their_pairs_turned_by_their_token() {
    in_both_kinds(|kind| {
        let (turns, angles) = turns();
        for weight_kind in [Kind::Float, kind] {
            let weight = (tensor(&[CHANNELS], 0.29) + 1.5).to_kind(weight_kind);
            let weights = numbers(&weight);
            let xs = tensor(&[2, TOKENS, CHANNELS], 0.37).to_kind(kind);
            let plain = by_row(&xs, |_, row| rms_normed(row, &weights));
            let turned = by_row(&xs, |i, row| {
                let row = rms_normed(row, &weights);
                let pairs = row.chunks(2).enumerate().flat_map(|(pair, xy)| {
                    let angle = angles[i % TOKENS as usize * HALF + pair % HALF];
                    turned([xy[0], xy[1]], angle)
                });
                pairs.collect()
            });
            // Without turns libtorch rounds in half precision before it scales, and the weight if it is wider.
            for (turns, expected, roundings) in [(None, plain, 3.0), (Some(&turns), turned, 1.0)] {
                let found = rms_norm_rope(xs.copy(), &weight, EPS, turns);
                assert_eq!((found.kind(), found.size()), (kind, xs.size()));
                assert_within(&found, &expected, roundings);
            }
        }
    });
}

#[test]
fn head_norm_rope_applies_per_head_and_leaves_the_values_unchanged() {
    let (heads, head_dim) = (6, 2 * HALF);
    in_both_kinds(|kind| {
        let (turns, angles) = turns();
        let weight = (tensor(&[2, head_dim as i64], 0.29) + 1.5).to_kind(kind);
        let weights = numbers(&weight);
        // Queries, keys and values of three heads in one product.
        let product = tensor(&[2, TOKENS, 9, head_dim as i64], 0.37).to_kind(kind);
        let found = product.copy();
        head_norm_rope(&mut found.narrow(2, 0, heads), &weight, EPS, &turns);
        let rows = numbers(&product.narrow(2, 0, heads));
        let expected: Vec<f64> = rows
            .chunks(head_dim)
            .enumerate()
            .flat_map(|(i, row)| {
                let (token, head) = (i / heads as usize % TOKENS as usize, i % heads as usize);
                let row = rms_normed(row, &weights[head / 3 * head_dim..][..head_dim]);
                let pairs = row.chunks(2).zip(&angles[token * HALF..]);
                let turned = pairs.flat_map(|(xy, angle)| turned([xy[0], xy[1]], *angle));
                turned.collect::<Vec<_>>()
            })
            .collect();
        assert_close(&found.narrow(2, 0, heads), &expected);
        assert_eq!(found.narrow(2, heads, 3), product.narrow(2, heads, 3));
    });
}

#[test]
fn heads_are_turned_in_either_order_of_pairs_and_normed_where_there_are_weights() {
    let head_dim = 2 * HALF;
    in_both_kinds(|kind| {
        let (turns, angles) = turns();
        let weight = (tensor(&[head_dim as i64], 0.29) + 1.5).to_kind(kind);
        let weights = numbers(&weight);
        // Three heads of nine in one product.
        let product = tensor(&[2, TOKENS, 9, head_dim as i64], 0.37).to_kind(kind);
        let xs = product.narrow(2, 3, 3);
        for (norm, pairs) in [
            (None, RopePairing::Halves),
            (None, RopePairing::Neighbours),
            (Some((&weight, EPS)), RopePairing::Halves),
            (Some((&weight, EPS)), RopePairing::Neighbours),
        ] {
            let rows = numbers(&xs);
            let expected = rows.chunks(head_dim).enumerate().flat_map(|(i, row)| {
                let token = i / 3 % TOKENS as usize;
                let mut row = match norm {
                    Some(_) => rms_normed(row, &weights),
                    None => row.to_vec(),
                };
                for pair in 0..HALF {
                    let (first, second) = match pairs {
                        RopePairing::Halves => (pair, pair + HALF),
                        RopePairing::Neighbours => (2 * pair, 2 * pair + 1),
                    };
                    let angle = angles[token * HALF + pair];
                    [row[first], row[second]] = turned([row[first], row[second]], angle);
                }
                row
            });
            let found = turned_heads(&xs, norm, &turns, pairs);
            assert_eq!((found.kind(), found.size()), (kind, xs.size()));
            // What is normed is rounded before it is scaled.
            assert_within(&found, &expected.collect::<Vec<_>>(), 12.0);
        }
    });
}

#[test]
fn a_root_mean_square_may_be_followed_by_a_shift() {
    in_both_kinds(|kind| {
        let xs = tensor(&[2, TOKENS, CHANNELS], 0.37).to_kind(kind);
        let weight = tensor(&[CHANNELS], 0.29) + 1.5;
        let shift = tensor(&[CHANNELS], 0.53);
        let (weights, shifts) = (numbers(&weight), numbers(&shift));
        let expected = by_row(&xs, |_, row| {
            let row = rms_normed(row, &weights).into_iter().zip(&shifts);
            row.map(|(x, shift)| x + shift).collect()
        });
        let found = rms_norm_shifted(&xs, &weight, &shift, EPS);
        assert_eq!(found.kind(), kind);
        assert_within(&found, &expected, 12.0);
    });
}

#[test]
fn one_number_may_gate_the_one_next_to_it() {
    in_both_kinds(|kind| {
        let product = (tensor(&[1, TOKENS, 3 * CHANNELS], 0.37) * 9.0).to_kind(kind);
        let part = |xs: &Tensor, i: i64| xs.narrow(-1, i * CHANNELS, CHANNELS);
        let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
        let (first, second) = (numbers(&part(&product, 0)), numbers(&part(&product, 1)));
        let both = || first.iter().zip(&second);
        let times: Vec<f64> = both().map(|(x, y)| silu_of(*x) * y).collect();
        let gated: Vec<f64> = both().map(|(x, y)| x * sigmoid(*y)).collect();
        let erf = |x: f64| Tensor::from(x).erf().double_value(&[]);
        let gelu = |x: f64| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()));
        let active: Vec<f64> = both().map(|(x, y)| gelu(*x) * y).collect();
        type Pass = fn(Tensor, &Tensor) -> Tensor;
        for (pass, expected) in [
            (silu_times as Pass, times),
            (times_sigmoid, gated),
            (gelu_times, active),
        ] {
            let found = product.copy();
            drop(pass(part(&found, 0), &part(&found, 1)));
            assert_within(&part(&found, 0), &expected, 4.0);
            for beside in [1, 2] {
                assert_eq!(part(&found, beside), part(&product, beside));
            }
        }
    });
}

#[test]
fn an_activation_may_have_rows_that_are_apart() {
    in_both_kinds(|kind| {
        let product = (tensor(&[1, TOKENS, 3 * CHANNELS], 0.37) * 9.0).to_kind(kind);
        let part = |xs: &Tensor, i: i64| xs.narrow(-1, i * CHANNELS, CHANNELS);
        let found = product.copy();
        drop(gelu_tanh(part(&found, 1)));
        let whole = gelu_tanh(part(&product, 1).contiguous());
        assert!(part(&found, 1).allclose(&whole, 1e-6, 1e-7, false));
        for beside in [0, 2] {
            assert_eq!(part(&found, beside), part(&product, beside));
        }
    });
}

#[test]
fn activations_are_those_of_their_formulas() {
    in_both_kinds(|kind| {
        let xs = (tensor(&[3, CHANNELS], 0.37) * 9.0).to_kind(kind);
        let gelu = by_row(&xs, |_, row| {
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let inner = |x: f64| root * (x + 0.044715 * x.powi(3));
            let gelu = |&x: &f64| 0.5 * x * (1.0 + inner(x).tanh());
            row.iter().map(gelu).collect()
        });
        assert_close(&gelu_tanh(xs.copy()), &gelu);
        let expected = by_row(&xs, |_, row| row.iter().map(|&x| silu_of(x)).collect());
        assert_close(&silu(xs.copy()), &expected);
    });
}

#[test]
fn a_pixel_is_divided_by_its_length_and_a_dark_one_stays_dark() {
    in_both_kinds(|kind| {
        let xs = tensor(&[2, 3, 2, CHANNELS], 0.37).to_kind(kind);
        drop(xs.select(0, 1).zero_());
        let factor = tensor(&[CHANNELS], 0.29) + 1.5;
        let factors = numbers(&factor);
        let expected = by_row(&xs, |_, row| {
            let length = row.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-12);
            let row = row.iter().zip(&factors);
            row.map(|(x, factor)| silu_of(x / length * factor))
                .collect()
        });
        assert_close(&reference::pixel_norm_silu(&xs, &factor), &expected);
    });
}

#[test]
fn moments_are_those_of_each_channel() {
    in_both_kinds(|kind| {
        let xs = (tensor(&[1, 3, 7, CHANNELS], 0.37) + 7.0).to_kind(kind);
        let rows = numbers(&xs);
        let channels = CHANNELS as usize;
        let of = |formula: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            let channel = |c: usize| rows.iter().skip(c).step_by(channels).copied();
            let of = |c| formula(&channel(c).collect::<Vec<_>>());
            (0..channels).map(of).collect()
        };
        let mean = |xs: &[f64]| xs.iter().sum::<f64>() / xs.len() as f64;
        let (found_mean, found_variance) = channel_moments(&xs);
        assert_close(&found_mean, &of(&mean));
        let variance = |xs: &[f64]| {
            let middle = mean(xs);
            xs.iter().map(|x| (x - middle).powi(2)).sum::<f64>() / xs.len() as f64
        };
        assert_close(&found_variance, &of(&variance));
    });
}

#[test]
fn channels_are_scaled_shifted_and_added_to() {
    in_both_kinds(|kind| {
        let xs = tensor(&[1, 2, 5, CHANNELS], 0.37).to_kind(kind);
        let ys = tensor(&[1, 2, 5, CHANNELS], 0.71).to_kind(kind);
        let scale = tensor(&[CHANNELS], 0.53);
        let shift = tensor(&[CHANNELS], 0.29);
        let (scales, shifts, others) = (numbers(&scale), numbers(&shift), numbers(&ys));
        for with_silu in [false, true] {
            let expected = by_row(&xs, |_, row| {
                let scaled = row.iter().zip(scales.iter().zip(&shifts));
                let scaled = scaled.map(|(x, (scale, shift))| x * scale + shift);
                let active = |x| if with_silu { silu_of(x) } else { x };
                scaled.map(active).collect()
            });
            let found = scaled_channels(&xs, &scale, &shift, with_silu);
            assert_within(&found, &expected, 2.0);
        }
        for (with_ys, with_bias) in [(true, true), (true, false), (false, true)] {
            let expected = by_row(&xs, |i, row| {
                let others = &others[i * CHANNELS as usize..];
                let sums = row.iter().zip(others.iter().zip(&shifts));
                let sums = sums
                    .map(|(x, (y, bias))| x + f64::from(with_ys) * y + f64::from(with_bias) * bias);
                sums.collect()
            });
            let mut found = xs.copy();
            let ys = with_ys.then_some(&ys);
            add_to_pixels(&mut found, ys, with_bias.then_some(&shift));
            assert_within(&found, &expected, 8.0);
        }
    });
}

#[test]
fn scores_become_shares_of_one() {
    in_both_kinds(|kind| {
        let scores = tensor(&[3, CHANNELS], 0.37) * 20.0;
        let expected = by_row(&scores, |_, row| {
            let powers: Vec<f64> = row.iter().map(|x| (x * 0.3).exp()).collect();
            let sum: f64 = powers.iter().sum();
            powers.iter().map(|x| x / sum).collect()
        });
        let found = softmax_to(&scores, 0.3, kind);
        assert_eq!(found.kind(), kind);
        assert_within(&found, &expected, 2.0);
    });
}
