//! Layers against torch and diffusers (`tests/fixtures/nn`).

use tch::{Device, Kind, Tensor};

use super::rope::frequencies;
use super::*;
use crate::closeness::{self, nearest_frequencies};
use crate::kernels;
use crate::weights::Weights;
use crate::weights::tests::fixtures::{self, fixture, open};
use crate::weights::tests::made_up_gguf::both_forms;

const RECORDED: &str = "nn/recorded.safetensors";

fn recorded(kind: Kind) -> Weights {
    open(&fixture(RECORDED), kind)
}

fn get(name: &str) -> Tensor {
    fixtures::recorded(RECORDED, name)
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &str, limit: f64) {
    closeness::assert_close(expected, found, &get(expected), limit);
}

#[test]
fn norms_are_those_of_torch() {
    let (xs, w) = (get("xs"), recorded(Kind::Float));
    let norm = LayerNorm::new(16, 1e-6, &w).unwrap();
    assert_close(&norm.forward(&xs), "layer_norm", 1e-6);
    let norm = TokenRmsNorm::new(16, 1e-6, &w).unwrap();
    assert_close(&norm.forward_rope(xs.copy(), None), "rms_norm", 1e-6);
}

#[test]
fn layer_norm_computes_in_f32_for_bf16_input() {
    let norm = LayerNorm::new(16, 1e-6, &recorded(Kind::BFloat16)).unwrap();
    let found = norm.forward(&get("xs").to_kind(Kind::BFloat16));
    assert_eq!(found.kind(), Kind::Float);
    assert_close(&found, "layer_norm", 1e-2);
}

#[test]
fn a_t5_norm_rounds_before_it_scales() {
    let norm = T5Norm::new(16, 1e-6, &recorded(Kind::BFloat16)).unwrap();
    let found = norm.forward(&get("xs").to_kind(Kind::BFloat16));
    assert_eq!(found.kind(), Kind::BFloat16);
    assert_close(&found.to_kind(Kind::Float), "t5_norm_bf16", 1e-6);
}

#[test]
fn timesteps_are_embedded_as_in_diffusers() {
    let timesteps = get("timesteps");
    for (width, expected) in [(20, "timestep_embedding"), (7, "timestep_embedding_odd")] {
        assert_close(&timestep_embedding(&timesteps, width), expected, 1e-6);
    }
}

/// A code path of MKL gives some of them another last bit, which is all that it may do.
#[test]
fn frequencies_are_a_bit_off_the_nearest_numbers_at_most() {
    let found: Vec<f32> = frequencies(128, Device::Cpu).try_into().unwrap();
    for (place, (found, nearest)) in found.iter().zip(nearest_frequencies(128)).enumerate() {
        let bits = found.to_bits().abs_diff(nearest.to_bits());
        assert!(bits <= 1, "{place}: {found} is {bits} bits off");
    }
}

#[test]
fn positions_turn_as_in_diffusers() {
    let grid = [2, 3, 4];
    let angles = [12, 10, 10].into_iter().enumerate().map(|(axis, dim)| {
        let mut shape = [1, 1, 1, dim / 2];
        shape[axis] = grid[axis];
        let places = Tensor::arange(grid[axis], (Kind::Int64, Device::Cpu));
        let angles = rope::angles_of_ids(&places.unsqueeze(1), &[dim], 10000.0).view(shape);
        angles.expand([2, 3, 4, dim / 2], false)
    });
    let angles = Tensor::cat(&angles.collect::<Vec<_>>(), -1).flatten(0, 2);
    let rope = Rope::new(&angles, Device::Cpu);
    let heads = get("rope.in");
    let size = heads.size();
    let tokens = heads.flatten(2, 3);
    // The turns come after a norm, which divides each token by one number.
    let length = tokens
        .square()
        .mean_dim([-1_i64].as_slice(), true, Kind::Float)
        .sqrt();
    let ones = Tensor::ones([tokens.size()[2]], (Kind::Float, Device::Cpu));
    let turned = kernels::rms_norm_rope(tokens.copy(), &ones, 0.0, Some(rope.turns()));
    assert_close(&(turned * &length).view(size.as_slice()), "rope.out", 1e-6);
    let half = tokens.to_kind(Kind::BFloat16);
    let half = kernels::rms_norm_rope(half, &ones, 0.0, Some(rope.turns()));
    assert_eq!(half.kind(), Kind::BFloat16);
}

#[test]
fn a_patch_convolution_is_a_product_with_flat_patches() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("conv.safetensors");
    let f32s = (Kind::Float, Device::Cpu);
    let weight = Tensor::arange(5 * 3 * 2 * 2, f32s)
        .view([5, 3, 1, 2, 2])
        .sin();
    let bias = Tensor::arange(5, f32s);
    Tensor::write_safetensors(&[("weight", &weight), ("bias", &bias)], &path).unwrap();
    let w = open(&path, Kind::Float);
    let linear = Linear::from_patch_conv(3, 5, &[1, 2, 2], &w).unwrap();
    let xs = Tensor::arange(3 * 4, f32s).cos().view([1, 3, 1, 2, 2]);
    let conv = xs.conv3d(&weight, Some(&bias), [1, 2, 2], [0, 0, 0], [1, 1, 1], 1);
    let flat = linear.forward(&xs.view([1, 12]));
    assert!(flat.allclose(&conv.view([1, 5]), 1e-5, 1e-6, false));
}

#[test]
fn products_that_a_file_has_apart_are_those_that_it_has_in_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("fused.safetensors");
    let f32s = (Kind::Float, Device::Cpu);
    let weight = Tensor::arange(12 * 8, f32s).view([12, 8]).sin();
    let bias = Tensor::arange(12, f32s);
    let part = |xs: &Tensor, start: i64, len: i64| xs.narrow(0, start, len).copy();
    let named = [
        ("one.weight", weight.copy()),
        ("one.bias", bias.copy()),
        ("two.q.weight", part(&weight, 0, 5)),
        ("two.q.bias", part(&bias, 0, 5)),
        ("two.k.weight", part(&weight, 5, 7)),
        ("two.k.bias", part(&bias, 5, 7)),
    ];
    let named: Vec<(&str, &Tensor)> = named.iter().map(|(k, v)| (*k, v)).collect();
    Tensor::write_safetensors(&named, &path).unwrap();
    let w = open(&path, Kind::Float);
    let xs = Tensor::arange(3 * 16, f32s).cos().view([1, 3, 16]);
    // Rows that lie apart, too.
    for xs in [xs.narrow(-1, 0, 8).contiguous(), xs.narrow(-1, 8, 8)] {
        let expected = xs.contiguous().linear(&weight, Some(&bias));
        for name in ["one", "two"] {
            let linear = Linear::fused(true, 8, &[("q", 5), ("k", 7)], &(&w / name)).unwrap();
            assert_eq!(linear.out_features(), 12);
            assert!(linear.forward(&xs).allclose(&expected, 1e-6, 1e-6, false));
            let wide = Tensor::zeros([1, 3, 20], f32s);
            linear.forward_into(&xs, &wide.narrow(-1, 4, 12));
            let found = wide.narrow(-1, 4, 12);
            assert!(found.allclose(&expected, 1e-6, 1e-6, false));
            let left = wide.narrow(-1, 0, 4).abs().max();
            assert_eq!(left, Tensor::from(0_f32));
        }
    }
    assert!(Linear::fused(true, 8, &[("q", 5), ("v", 7)], &(&w / "two")).is_err());
}

#[test]
fn a_matrix_in_blocks_is_multiplied_piece_by_piece() {
    let dir = tempfile::tempdir().unwrap();
    let (rows, columns) = (300, 16384);
    let numbers = Tensor::arange(rows * columns, (Kind::Float, Device::Cpu)).sin();
    let parts = [("q.weight", 0), ("k.weight", 100), ("v.weight", 200)];
    let parts = parts.map(|(name, start)| {
        let part = numbers.view([rows, columns]).narrow(0, start, 100);
        (name.to_owned(), part)
    });
    let bias = Tensor::arange(rows, (Kind::Float, Device::Cpu)).cos();
    let mut all = vec![
        ("weight".to_owned(), numbers.view([rows, columns])),
        ("bias".to_owned(), bias.shallow_clone()),
    ];
    for (i, (name, part)) in parts.into_iter().enumerate() {
        let name = format!("apart.{name}");
        let bias = bias.narrow(0, 100 * i as i64, 100);
        all.push((name.replace("weight", "bias"), bias));
        all.push((name, part));
    }
    let xs = (Tensor::arange(7 * columns, (Kind::Float, Device::Cpu)) * 0.37).cos();
    let xs = xs.view([1, 7, columns]);
    let places = both_forms(dir.path(), &all, str::to_owned);
    let [found, expected] = places.map(|place| {
        let w = open(&place, Kind::Float);
        let sizes = [("q", 100), ("k", 100), ("v", 100)];
        let fused = Linear::fused(true, columns, &sizes, &(&w / "apart")).unwrap();
        let whole = Linear::new(columns, rows, &w).unwrap();
        [whole.forward(&xs), fused.forward(&xs)]
    });
    for (found, expected) in found.iter().zip(&expected) {
        closeness::assert_close("blocks", found, expected, 1e-6);
    }
}
