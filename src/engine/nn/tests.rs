//! Layers against torch and diffusers (`tests/fixtures/nn`).

use std::path::Path;

use tch::{Device, Kind, Tensor};

use super::*;
use crate::kernels;
use crate::weights::Weights;

fn recorded(kind: Kind) -> Weights {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/nn/recorded.safetensors");
    Weights::open(&path, kind, Device::Cpu).unwrap()
}

fn get(name: &str) -> Tensor {
    let w = recorded(Kind::Float);
    w.tensor(name, &w.shape_of(name).unwrap()).unwrap()
}

#[track_caller]
fn assert_close(found: &Tensor, expected: &str, limit: f64) {
    let expected = get(expected);
    assert_eq!(found.size(), expected.size());
    let off = (found - &expected).norm() / expected.norm();
    assert!(off.double_value(&[]) <= limit, "{off:?}");
}

#[test]
fn norms_are_those_of_torch() {
    let (xs, w) = (get("xs"), recorded(Kind::Float));
    let norm = LayerNorm::new(16, 1e-6, &w).unwrap();
    assert_close(&norm.forward(&xs), "layer_norm", 1e-6);
    let norm = LayerNorm::without_affine(16, 1e-5);
    assert_close(&norm.forward(&xs), "layer_norm_plain", 1e-6);
    let norm = RmsNorm::new(16, 1e-6, &w).unwrap();
    assert_close(&norm.forward_rope(xs.copy(), None), "rms_norm", 1e-6);
}

#[test]
fn a_layer_norm_computes_in_f32_whatever_comes_in() {
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
    assert_close(
        &timestep_embedding(&timesteps, 20),
        "timestep_embedding",
        1e-6,
    );
    assert_close(
        &timestep_embedding(&timesteps, 7),
        "timestep_embedding_odd",
        1e-6,
    );
}

#[test]
fn positions_turn_as_in_diffusers() {
    let grid = [2, 3, 4];
    let angles = [12, 10, 10].into_iter().enumerate().map(|(axis, dim)| {
        let mut shape = [1, 1, 1, dim / 2];
        shape[axis] = grid[axis];
        let angles = axis_angles(grid[axis], dim, 10000.0).view(shape);
        angles.expand([2, 3, 4, dim / 2], false)
    });
    let angles = Tensor::cat(&angles.collect::<Vec<_>>(), -1).flatten(0, 2);
    let rope = Rope::new(&angles, Device::Cpu);
    let heads = get("rope.in");
    let size = heads.size();
    let tokens = heads.flatten(2, 3);
    // The turns come behind a norm, which divides each token by one number.
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
    let w = Weights::open(&path, Kind::Float, Device::Cpu).unwrap();
    let linear = Linear::from_patch_conv(3, 5, &[1, 2, 2], &w).unwrap();
    let xs = Tensor::arange(3 * 4, f32s).cos().view([1, 3, 1, 2, 2]);
    let conv = xs.conv3d(&weight, Some(&bias), [1, 2, 2], [0, 0, 0], [1, 1, 1], 1);
    let flat = linear.forward(&xs.view([1, 12]));
    assert!(flat.allclose(&conv.view([1, 5]), 1e-5, 1e-6, false));
}
