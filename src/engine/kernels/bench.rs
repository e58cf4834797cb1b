//! How fast each kernel is beside its twin, as JSON: `safelight-engine --check-kernels`.
//!
//! For developers and the doctor; no job comes here. Times are those of the last of several runs, on tensors of the
//! sizes of real videos.

use std::time::Instant;

use safelight_core::catalog::gguf::BlockType;
use serde_json::{Value, json};
use tch::{Cuda, Device, Kind, Tensor};

use super::check::wave;
use super::loaded::kernels_for;
use super::terms::{Gate, Norm, TokenRows};
use super::{
    block_twins, expand_blocks, expand_fp8, gated_add, gated_add_norm, gelu_tanh, layer_norm,
    pixel_norm, rms_norm_rope, status, twins,
};

const EPS: f64 = 1e-6;
const RUNS: u32 = 10;

/// Whether the kernels work on a device, and what they gain.
pub fn report(device: Device) -> Value {
    let Device::Cuda(index) = device else {
        return json!({ "status": status(device) });
    };
    let mut passes = Vec::new();
    for (tokens, channels, kind) in [
        (32_760, 5120, Kind::BFloat16),
        (27_280, 3072, Kind::BFloat16),
        (2_000, 5120, Kind::BFloat16),
        (32_760, 1536, Kind::Half),
        (8_190, 5120, Kind::Float),
    ] {
        let bench = Bench::new(tokens, channels, kind, index);
        if kernels_for(&bench.xs).is_some() {
            passes.extend(bench.passes());
        }
    }
    for (pixels, channels) in [
        (4 * 832 * 480, 96),
        (4 * 416 * 240, 192),
        (104 * 60, 384),
        (704 * 1280, 256),
    ] {
        for kind in [Kind::BFloat16, Kind::Float] {
            let xs = wave(&[pixels, channels], 0.37, device).to_kind(kind);
            if kernels_for(&xs).is_some() {
                passes.push(pixels_pass(&xs, index));
            }
        }
    }
    passes.extend(expansions(index));
    let states: Vec<Value> = [Kind::BFloat16, Kind::Half, Kind::Float]
        .into_iter()
        .map(|kind| {
            let kernels = kernels_for(&Tensor::zeros([1], (kind, device)));
            json!({ "kind": format!("{kind:?}"), "line": kernels.map(|kernels| kernels.line()) })
        })
        .collect();
    json!({ "status": status(device), "kinds": states, "passes": passes })
}

struct Bench {
    index: usize,
    xs: Tensor,
    ys: Tensor,
    values: Tensor,
    weight: Tensor,
    turns: Tensor,
    wide: Tensor,
}

impl Bench {
    fn new(tokens: i64, channels: i64, kind: Kind, index: usize) -> Self {
        let device = Device::Cuda(index);
        let angles = wave(&[tokens, 1, 64], 0.83, device) * 3.0;
        Self {
            index,
            xs: wave(&[1, tokens, channels], 0.37, device).to_kind(kind),
            ys: wave(&[1, tokens, channels], 0.71, device).to_kind(kind),
            values: wave(&[2, 6, channels], 0.53, device) * 0.01,
            weight: (wave(&[channels], 0.29, device) * 0.1 + 1.0).to_kind(kind),
            turns: Tensor::complex(&angles.cos(), &angles.sin()),
            wide: wave(&[1, tokens, 13824], 0.3, device).to_kind(kind),
        }
    }

    fn passes(&self) -> Vec<Value> {
        let (xs, ys, weight) = (&self.xs, &self.ys, &self.weight);
        let tokens = xs.size()[1];
        let ranges = [(0, 100), (100, tokens - 100)];
        let rows = TokenRows {
            values: &self.values,
            ranges: &ranges,
        };
        let gate = Some(Gate { rows, index: 2 });
        let norm = Norm::Modulated {
            rows,
            shift: 0,
            scale: 1,
        };
        let affine = Norm::Affine {
            weight,
            bias: weight,
        };
        let mut sum = xs.copy();
        let mut other = xs.copy();
        let turns = Some(&self.turns);
        let row = |name: &str, times: [f64; 2], passes: u64| measured(name, xs, times, passes);
        vec![
            row(
                "layer_norm modulated",
                [
                    self.time(|| drop(layer_norm(xs, &norm, EPS))),
                    self.time(|| drop(twins::layer_norm(xs, &norm, EPS))),
                ],
                2,
            ),
            row(
                "layer_norm affine",
                [
                    self.time(|| drop(layer_norm(xs, &affine, EPS))),
                    self.time(|| drop(twins::layer_norm(xs, &affine, EPS))),
                ],
                2,
            ),
            row(
                "gated_add",
                [
                    self.time(|| gated_add(&mut sum, ys, gate)),
                    self.time(|| twins::gated_add(&mut other, ys, gate)),
                ],
                3,
            ),
            row(
                "gated_add_norm",
                [
                    self.time(|| drop(gated_add_norm(&mut sum, ys, gate, &norm, EPS))),
                    self.time(|| {
                        twins::gated_add(&mut other, ys, gate);
                        drop(twins::layer_norm(&other, &norm, EPS));
                    }),
                ],
                4,
            ),
            row(
                "rms_norm",
                [
                    self.time(|| drop(rms_norm_rope(xs.shallow_clone(), weight, EPS, None))),
                    self.time(|| drop(twins::rms_norm_rope(ys, weight, EPS, None))),
                ],
                2,
            ),
            row(
                "rms_norm_rope",
                [
                    self.time(|| drop(rms_norm_rope(xs.shallow_clone(), weight, EPS, turns))),
                    self.time(|| drop(twins::rms_norm_rope(ys, weight, EPS, turns))),
                ],
                2,
            ),
            measured(
                "gelu_tanh",
                &self.wide,
                [
                    self.time(|| drop(gelu_tanh(self.wide.shallow_clone()))),
                    self.time(|| twins::gelu_tanh(&mut self.wide.shallow_clone())),
                ],
                2,
            ),
            row("copy", [self.time(|| drop(copied(xs))); 2], 2),
        ]
    }

    fn time(&self, pass: impl FnMut()) -> f64 {
        time(self.index, pass)
    }
}

fn pixels_pass(xs: &Tensor, index: usize) -> Value {
    let factor = Tensor::ones([xs.size()[1]], (Kind::Float, xs.device()));
    let times = [
        time(index, || drop(pixel_norm(xs, &factor, true))),
        time(index, || drop(twins::pixel_norm(xs, &factor, true))),
    ];
    measured("pixel_norm silu", xs, times, 2)
}

/// A large matrix of Flux from each storage that is expanded per use.
fn expansions(index: usize) -> Vec<Value> {
    let device = Device::Cuda(index);
    let kind = Kind::BFloat16;
    let size = [12_288, 3072];
    let out = Tensor::empty(size, (kind, device));
    if kernels_for(&out).is_none() {
        return Vec::new();
    }
    let types = BlockType::ALL.map(|block| {
        let count = size.iter().product::<i64>() / block.block_len() as i64;
        let blocks = Tensor::zeros([count, block.block_bytes() as i64], (Kind::Uint8, device));
        let times = [
            time(index, || drop(expand_blocks(&blocks, block, kind))),
            time(index, || {
                drop(block_twins::expand_blocks(&blocks, block, kind));
            }),
        ];
        measured(&format!("expand {}", block.name()), &out, times, 1)
    });
    let numbers = Tensor::zeros(size, (Kind::Uint8, device)).view_dtype(Kind::Float8e4m3fn);
    let times = [
        time(index, || drop(expand_fp8(&numbers, 0.5, kind))),
        time(index, || drop(twins::expand_fp8(&numbers, 0.5, kind))),
    ];
    let fp8 = measured("expand fp8", &out, times, 1);
    types.into_iter().chain([fp8]).collect()
}

fn copied(xs: &Tensor) -> Tensor {
    let mut copy = xs.empty_like();
    copy.copy_(xs);
    copy
}

/// Milliseconds of one call, without the time to queue it where calls overlap.
fn time(index: usize, mut pass: impl FnMut()) -> f64 {
    let device = index as i64;
    pass();
    pass();
    Cuda::synchronize(device);
    let started = Instant::now();
    for _ in 0..RUNS {
        pass();
    }
    Cuda::synchronize(device);
    started.elapsed().as_secs_f64() * 1e3 / f64::from(RUNS)
}

/// `passes`: how often the kernel reads or writes all of `xs`.
fn measured(name: &str, xs: &Tensor, [kernel, twin]: [f64; 2], passes: u64) -> Value {
    let bytes = xs.numel() as u64 * xs.kind().elt_size_in_bytes() as u64 * passes;
    json!({
        "pass": name,
        "size": xs.size(),
        "kind": format!("{:?}", xs.kind()),
        "kernel_ms": rounded(kernel),
        "twin_ms": rounded(twin),
        "gb_per_s": (bytes as f64 / kernel / 1e6).round(),
    })
}

fn rounded(ms: f64) -> f64 {
    (ms * 1e4).round() / 1e4
}
