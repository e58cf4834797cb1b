//! How fast each kernel is beside its twin, as JSON.
//!
//! Compares no results: the engine does before it uses a kernel. Times are those of the last of several runs, on tensors of the
//! sizes of real videos.

use std::io::{self, Write};
use std::time::Instant;

use safelight_core::formats::weights::gguf::BlockType;
use safelight_engine::kernels::{
    Gate, Norm, TokenRows, expand_blocks, expand_fp8, gated_add, gated_add_norm, gelu_tanh,
    layer_norm, line, pixel_norm, rms_norm_rope, status, twins,
};
use safelight_engine::process::device_of;
use safelight_engine::runtime::Runtime;
use serde_json::{Value, json};
use tch::{Cuda, Device, Kind, Tensor};

use safelight_engine::bench::error::BenchError;

const EPS: f64 = 1e-6;
const RUNS: u32 = 10;

/// Prints whether the kernels work on the device that is asked for, and what they gain.
pub fn run(
    arguments: impl Iterator<Item = String>,
    out: &mut dyn Write,
) -> Result<bool, BenchError> {
    let device = device_of(arguments.filter(|argument| argument != "--"))
        .map_err(|err| BenchError::Arguments(err.to_string()))?;
    let report = report(Runtime::open(device)?.device);
    serde_json::to_writer_pretty(&mut *out, &report).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    Ok(true)
}

fn report(device: Device) -> Value {
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
        if line(device, kind).is_some() {
            passes.extend(Bench::new(tokens, channels, kind, index).passes());
        }
    }
    for (pixels, channels) in [
        (4 * 832 * 480, 96),
        (4 * 416 * 240, 192),
        (104 * 60, 384),
        (704 * 1280, 256),
    ] {
        for kind in [Kind::BFloat16, Kind::Float] {
            if line(device, kind).is_some() {
                let xs = wave(&[pixels, channels], device).to_kind(kind);
                passes.push(pixels_pass(&xs, index));
            }
        }
    }
    passes.extend(expansions(index));
    let states = [Kind::BFloat16, Kind::Half, Kind::Float]
        .map(|kind| json!({ "kind": format!("{kind:?}"), "line": line(device, kind) }));
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
        let angles = wave(&[tokens, 1, 64], device) * 3.0;
        Self {
            index,
            xs: wave(&[1, tokens, channels], device).to_kind(kind),
            ys: wave(&[1, tokens, channels], device).to_kind(kind),
            values: wave(&[2, 6, channels], device) * 0.01,
            weight: (wave(&[channels], device) * 0.1 + 1.0).to_kind(kind),
            turns: Tensor::complex(&angles.cos(), &angles.sin()),
            wide: wave(&[1, tokens, 13824], device).to_kind(kind),
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
                    self.time(|| drop(self.wide.shallow_clone().gelu_("tanh"))),
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
    if line(device, kind).is_none() {
        return Vec::new();
    }
    let size = [12_288, 3072];
    let out = Tensor::empty(size, (kind, device));
    let types = BlockType::ALL.map(|block| {
        let count = size.iter().product::<i64>() / block.block_len() as i64;
        let blocks = Tensor::zeros([count, block.block_bytes() as i64], (Kind::Uint8, device));
        let times = [
            time(index, || drop(expand_blocks(&blocks, block, kind))),
            time(index, || {
                drop(twins::expand_blocks(&blocks, block, kind));
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

/// Numbers of both signs.
fn wave(size: &[i64], device: Device) -> Tensor {
    let count = size.iter().product::<i64>();
    (Tensor::arange(count, (Kind::Float, device)) * 0.37)
        .sin()
        .view(size)
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
