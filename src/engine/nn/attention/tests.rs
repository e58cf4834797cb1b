//! Slices against libtorch's own attention, and when which of them runs.

use safelight_core::compute::conv_backends::ConvBackend;
use safelight_core::compute::{AttentionChoice, ComputeOptions};
use tch::{Device, Kind, Tensor};

use super::choice::{FORCED, SdpBackend, forget, is_whole, libtorchs_own, never_whole};
use super::sliced::{AttentionSlab, BUDGET, ScoreProducts, sliced, sliced_by};
use super::{AttentionCall, attention, pixel_attention, pixels_are_sliced, shared_attention};
use crate::closeness::distance;
use crate::drawn::drawn;
use crate::runtime::{memory_counts, memory_peaks, reset_peaks, use_compute_options};

fn random(size: &[i64], kind: Kind) -> Tensor {
    drawn(size).to_kind(kind)
}

/// `(B, H, L, D)` as projections leave it: the heads of a token side by side.
fn heads([b, h, l, d]: [i64; 4], kind: Kind) -> Tensor {
    random(&[b, l, h, d], kind).transpose(1, 2)
}

/// A call without bias and in the usual scale.
fn plain<'a>(q: &'a Tensor, k: &'a Tensor, v: &'a Tensor) -> AttentionCall<'a> {
    let (bias, scale) = (None, None);
    AttentionCall {
        q,
        k,
        v,
        bias,
        scale,
    }
}

fn libtorchs(call: &AttentionCall<'_>) -> Tensor {
    Tensor::scaled_dot_product_attention(
        call.q, call.k, call.v, call.bias, 0.0, false, call.scale, false,
    )
}

/// All scores at once, in double precision.
fn by_definition(call: &AttentionCall<'_>) -> Tensor {
    let [q, k, v] = [call.q, call.k, call.v].map(|xs| xs.to_kind(Kind::Double));
    let mut scores = q.matmul(&k.transpose(2, 3)) * call.factor();
    if let Some(bias) = call.bias {
        scores += bias;
    }
    scores.softmax(-1, Kind::Double).matmul(&v)
}

#[test]
fn sliced_attention_matches_libtorch_for_any_size_scale_and_bias() {
    for (b, h, l, s, d) in [
        (1, 3, 17, 17, 64),
        (2, 5, 31, 7, 96),
        (1, 2, 1, 129, 128),
        (3, 1, 40, 33, 384),
        (2, 7, 13, 77, 65),
    ] {
        let q = heads([b, h, l, d], Kind::Float);
        let [k, v] = [0, 1].map(|_| heads([b, h, s, d], Kind::Float));
        let full = random(&[b, h, l, s], Kind::Float);
        let shared = random(&[1, h, l, s], Kind::Float);
        let by_key = random(&[b, 1, 1, s], Kind::Float);
        for bias in [None, Some(&full), Some(&shared), Some(&by_key)] {
            for scale in [None, Some(0.2), Some(0.03)] {
                let call = AttentionCall {
                    bias,
                    scale,
                    ..plain(&q, &k, &v)
                };
                let expected = by_definition(&call);
                // Everything at once, some heads, some rows, and one row at a time.
                for budget in [BUDGET, 8 * s as usize * l as usize, 20 * s as usize, 1] {
                    let found = sliced(&call, budget);
                    assert_eq!(found.size(), [b, h, l, d]);
                    for expected in [&expected, &libtorchs(&call)] {
                        let off = distance(&found, expected);
                        // In 200 other draws f32 was 2.3e-6 off at most, libtorch's own as well.
                        assert!(off < 4e-6, "{h}, {scale:?}, {budget}: off by {off}");
                    }
                }
            }
        }
    }
}

#[test]
fn grouped_query_attention_matches_separate_heads() {
    let q = heads([2, 6, 9, 16], Kind::Float);
    let [k, v] = [0, 1].map(|_| heads([2, 2, 7, 16], Kind::Float));
    let bias = random(&[1, 1, 9, 7], Kind::Float);
    for bias in [None, Some(&bias)] {
        let found = shared_attention(&q, &k, &v, bias);
        for head in 0..6 {
            let [q, found] = [&q, &found].map(|xs| xs.narrow(1, head, 1));
            let [k, v] = [&k, &v].map(|xs| xs.narrow(1, head / 3, 1));
            let call = AttentionCall {
                bias,
                ..plain(&q, &k, &v)
            };
            let off = distance(&found, &by_definition(&call));
            assert!(off < 2e-6, "{head}: off by {off}");
        }
    }
}

#[test]
fn slices_of_halves_are_as_close_as_libtorchs_own() {
    for kind in [Kind::BFloat16, Kind::Half] {
        let [q, k, v] = [21, 50, 50].map(|len| heads([1, 4, len, 72], kind));
        let call = plain(&q, &k, &v);
        let expected = by_definition(&call);
        let found = sliced(&call, 3000);
        assert_eq!(found.kind(), kind);
        let own = distance(&found, &expected);
        let libtorch = distance(&libtorchs(&call), &expected);
        assert!(own <= libtorch * 1.05, "{kind:?}: {own} against {libtorch}");
    }
}

#[test]
fn amds_gpus_multiply_halves_where_libtorch_gives_no_f32_for_them_and_others_do_as_before() {
    for (kind, widens, is_rocm, expected) in [
        (Kind::Half, false, true, ScoreProducts::Rounded),
        (Kind::BFloat16, false, true, ScoreProducts::Rounded),
        (Kind::Half, true, true, ScoreProducts::HalvesFused),
        (Kind::Float, false, true, ScoreProducts::Floats),
        (Kind::Half, false, false, ScoreProducts::Floats),
        (Kind::Half, true, false, ScoreProducts::HalvesFused),
    ] {
        let xs = heads([1, 2, 3, 8], kind);
        let call = plain(&xs, &xs, &xs);
        let found = ScoreProducts::on_gpu(&call, || widens, is_rocm);
        assert_eq!(found, expected, "{kind:?}, {widens}, {is_rocm}");
    }
}

#[test]
fn products_in_halves_are_nearly_as_close_as_libtorchs_own_with_and_without_bias() {
    for kind in [Kind::BFloat16, Kind::Half] {
        let [q, k, v] = [21, 50, 50].map(|len| heads([2, 4, len, 72], kind));
        let bias = random(&[2, 1, 21, 50], kind);
        for bias in [None, Some(&bias)] {
            let call = AttentionCall {
                bias,
                ..plain(&q, &k, &v)
            };
            let expected = by_definition(&call);
            let found = sliced_by(&call, 3000, |_| ScoreProducts::Rounded);
            assert_eq!(found.kind(), kind);
            let own = distance(&found, &expected);
            let libtorch = distance(&libtorchs(&call), &expected);
            assert!(own <= libtorch * 3.0, "{kind:?}: {own} against {libtorch}");
            // In other numbers than those of products in f32.
            assert!(!found.equal(&sliced(&call, 3000)));
        }
    }
}

#[test]
fn scores_and_sums_that_no_half_can_hold_are_no_trouble_in_halves() {
    // A score of 60 × 60 × 128 before it is divided, and 300 values of 600 in a row.
    let [q, k] =
        [8, 300].map(|len| Tensor::full([1, 1, len, 128], 60.0, (Kind::Half, Device::Cpu)));
    let v = Tensor::full([1, 1, 300, 128], 600.0, (Kind::Half, Device::Cpu));
    let bias = Tensor::zeros([1, 1, 8, 300], (Kind::Half, Device::Cpu));
    for bias in [None, Some(&bias)] {
        let call = AttentionCall {
            bias,
            ..plain(&q, &k, &v)
        };
        let found = sliced_by(&call, BUDGET, |_| ScoreProducts::Rounded);
        assert!(distance(&found, &by_definition(&call)) < 2e-3);
    }
}

#[test]
fn fully_masked_row_gives_zeros_and_other_rows_are_unaffected() {
    let [q, k, v] = [5, 9, 9].map(|len| heads([1, 2, len, 64], Kind::Float));
    let bias = random(&[1, 1, 5, 9], Kind::Float);
    drop(bias.narrow(2, 3, 1).fill_(f64::NEG_INFINITY));
    drop(bias.narrow(3, 8, 1).fill_(f64::NEG_INFINITY));
    let call = AttentionCall {
        bias: Some(&bias),
        ..plain(&q, &k, &v)
    };
    let found = sliced(&call, 100);
    assert_eq!(found.narrow(2, 3, 1).abs().max().double_value(&[]), 0.0);
    let first = |xs: &Tensor| xs.narrow(2, 0, 3);
    assert!(distance(&first(&found), &first(&by_definition(&call))) < 1e-6);
    let mask = bias.isfinite();
    let masked = AttentionCall {
        bias: Some(&mask),
        ..call
    };
    let unbiased = sliced(&masked, 100);
    let zeros = Tensor::zeros_like(&bias).masked_fill(&mask.logical_not(), f64::NEG_INFINITY);
    let expected = by_definition(&AttentionCall {
        bias: Some(&zeros),
        ..call
    });
    assert!(distance(&first(&unbiased), &first(&expected)) < 1e-6);
}

#[test]
fn nothing_to_look_at_or_to_ask_gives_zeros_or_nothing() {
    let [q, none] = [4, 0].map(|len| heads([1, 2, len, 8], Kind::Float));
    let found = sliced(&plain(&q, &none, &none), 1).abs();
    assert_eq!(found.sum(Kind::Float).double_value(&[]), 0.0);
    assert_eq!(sliced(&plain(&none, &q, &q), 1).size(), [1, 2, 0, 8]);
}

#[test]
fn the_scores_of_a_slice_stay_within_the_budget() {
    // Wan at 480p in bf16: a row is 32,760 scores.
    let slab = |budget, heads, rows, row_bytes| {
        let slab = AttentionSlab::within(budget, heads, rows, row_bytes);
        (slab.heads, slab.rows)
    };
    let wan = slab(BUDGET, 40, 32_760, 32_760 * 14);
    assert_eq!(wan, (1, 585));
    assert!(wan.1 as usize * 32_760 * 14 <= BUDGET);
    for (budget, expected) in [(100, (2, 5)), (1, (1, 1)), (1 << 30, (8, 5))] {
        assert_eq!(slab(budget, 8, 5, 10), expected, "{budget}");
    }
}

#[test]
fn the_memory_of_long_sequences_is_bounded() {
    let len = 8192;
    let [q, k, v] = [0, 1, 2].map(|_| heads([1, 2, len, 8], Kind::Float));
    let call = plain(&q, &k, &v);
    let before = memory_counts(Device::Cpu).allocated;
    reset_peaks(Device::Cpu);
    let found = sliced(&call, 16 << 20);
    let more = memory_peaks(Device::Cpu).allocated.saturating_sub(before);
    // All scores would be 512 MiB. What is beyond the budget is of tests that run beside this one.
    assert!(more < 200 << 20, "{more} bytes");
    let off = distance(&found, &libtorchs(&call));
    // Sums of 8192 terms in two orders; by MKL's products without vectors they are 4e-7 apart, with AVX2 1.2e-6.
    assert!(off < 4e-6, "{off}");
}

#[test]
fn math_is_left_to_libtorch_on_the_cpu_only_and_only_where_the_scores_are_few() {
    let few = heads([1, 2, 10, 16], Kind::Float);
    // Views of one number: 4 heads of 8192 × 8192 scores are 1 GiB.
    let one = few.narrow(2, 0, 1).narrow(1, 0, 1);
    let many = one.expand([1, 4, 8192, 16], false);
    let call = |xs| plain(xs, xs, xs);
    for (backend, xs, expected) in [
        (SdpBackend::Math, &few, true),
        (SdpBackend::Math, &many, false),
        (SdpBackend::Flash, &many, true),
        (SdpBackend::Efficient, &many, true),
        (SdpBackend::CuDnn, &many, true),
    ] {
        forget();
        FORCED.set(Some(backend));
        assert_eq!(is_whole(&call(xs)), expected, "{backend:?}");
        FORCED.set(None);
        // The same shape again: libtorch is not asked.
        assert_eq!(is_whole(&call(xs)), expected, "{backend:?} again");
    }
}

#[test]
fn failed_attention_kernel_is_not_used_again() {
    let xs = heads([1, 2, 6, 24], Kind::Float);
    let call = plain(&xs, &xs, &xs);
    assert!(is_whole(&call));
    never_whole(&call);
    assert!(!is_whole(&call));
    assert!(distance(&attention(&xs, &xs, &xs, None, None), &by_definition(&call)) < 1e-6);
}

#[test]
fn libtorch_reports_the_attention_backend_it_would_select() {
    let backend = |xs: &Tensor| {
        libtorchs_own(&AttentionCall {
            q: xs,
            k: xs,
            v: xs,
            bias: None,
            scale: None,
        })
    };
    let xs = heads([1, 2, 6, 32], Kind::Float);
    assert_eq!(backend(&xs), Some(SdpBackend::Flash));
    let odd = xs.transpose(2, 3).contiguous().transpose(2, 3);
    assert_eq!(backend(&odd), Some(SdpBackend::Math));
}

#[test]
fn sliced_attention_is_used_if_the_options_select_it() {
    let xs = heads([1, 2, 6, 32], Kind::Float);
    let options = ComputeOptions {
        attention: AttentionChoice::Sliced,
        ..ComputeOptions::default()
    };
    let _guard = use_compute_options(Device::Cpu, ConvBackend::Direct, options);
    let found = attention(&xs, &xs, &xs, None, None);
    let call = plain(&xs, &xs, &xs);
    // To the last bit, which libtorch's kernel does not give.
    assert!(found.equal(&sliced(&call, BUDGET)));
}

#[test]
fn pixels_are_sliced_on_amd_gpus_alone() {
    assert!(pixels_are_sliced(Device::Cuda(0), true));
    assert!(!pixels_are_sliced(Device::Cuda(0), false));
    assert!(!pixels_are_sliced(Device::Cpu, true));
    let xs = random(&[2, 1, 30, 384], Kind::Float);
    let found = pixel_attention(&xs, &xs, &xs);
    assert!(distance(&found, &attention(&xs, &xs, &xs, None, None)) < 1e-6);
}
