//! Speed of each own kernel and of the libtorch operations it replaces, on tensors of the sizes of real videos. Results
//! are not compared here: the engine compares them before it uses a kernel.

use std::io::Write;
use std::time::Instant;

use clap::Parser;
use safelight_core::formats::weights::gguf::BlockType;
use safelight_core::job::DeviceChoice;
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use super::timing::gib;
use super::write_line;
use crate::kernels::{
    FusedNorm, GateArgs, TokenRows, expand_blocks, expand_fp8, gated_add, gated_add_norm,
    gelu_tanh, layer_norm, line, pixel_norm, reference, rms_norm_rope, status,
};
use crate::process::ProcessError;
use crate::runtime::{DeviceRuntime, synchronize};

const EPS: f64 = 1e-6;
const RUNS: u32 = 10;
const TOKENS: [(i64, i64, Kind); 5] = [
    (32_760, 5120, Kind::BFloat16),
    (27_280, 3072, Kind::BFloat16),
    (2_000, 5120, Kind::BFloat16),
    (32_760, 1536, Kind::Half),
    (8_190, 5120, Kind::Float),
];
/// Of decoders.
const PIXELS: [(i64, i64); 4] = [
    (4 * 832 * 480, 96),
    (4 * 416 * 240, 192),
    (104 * 60, 384),
    (704 * 1280, 256),
];
/// A large matrix of Flux.
const MATRIX: [i64; 2] = [12_288, 3072];

#[derive(Debug, Parser)]
pub(super) struct KernelArguments {
    /// auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
}

pub(super) fn run(arguments: &KernelArguments, out: &mut dyn Write) -> Result<bool, ProcessError> {
    let device = DeviceRuntime::open(arguments.device)?.device;
    write_line(out, &json!({"status": status(device)}))?;
    if device == Device::Cpu {
        return Ok(true);
    }
    let mut write = |line: Value| write_line(out, &line);
    for kind in [Kind::BFloat16, Kind::Half, Kind::Float] {
        write(json!({"kind": format!("{kind:?}"), "line": line(device, kind)}))?;
    }
    for (tokens, channels, kind) in TOKENS {
        if line(device, kind).is_some() {
            token_passes(tokens, channels, kind, device, &mut write)?;
        }
    }
    for (pixels, channels) in PIXELS {
        for kind in [Kind::BFloat16, Kind::Float] {
            if line(device, kind).is_some() {
                let xs = wave(&[pixels, channels], device).to_kind(kind);
                let factor = Tensor::ones([channels], (Kind::Float, device));
                let kernel = time(device, || drop(pixel_norm(&xs, &factor, true)));
                let twin = time(device, || drop(reference::pixel_norm(&xs, &factor, true)));
                write(measured("pixel_norm silu", &xs, [kernel, twin], 2))?;
            }
        }
    }
    if line(device, Kind::BFloat16).is_some() {
        expansions(device, &mut write)?;
    }
    Ok(true)
}

fn token_passes(
    tokens: i64,
    channels: i64,
    kind: Kind,
    device: Device,
    write: &mut dyn FnMut(Value) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let [xs, ys] = [(); 2].map(|()| wave(&[1, tokens, channels], device).to_kind(kind));
    let values = wave(&[2, 6, channels], device) * 0.01;
    let weight = (wave(&[channels], device) * 0.1 + 1.0).to_kind(kind);
    let angles = wave(&[tokens, 1, 64], device) * 3.0;
    let turns = Tensor::complex(&angles.cos(), &angles.sin());
    let wide = wave(&[1, tokens, 13824], device).to_kind(kind);
    let ranges = [(0, 100), (100, tokens - 100)];
    let rows = TokenRows {
        values: &values,
        ranges: &ranges,
    };
    let gate = Some(GateArgs { rows, index: 2 });
    let modulated = FusedNorm::Modulated {
        rows,
        shift: 0,
        scale: 1,
    };
    let affine = FusedNorm::Affine {
        weight: &weight,
        bias: &weight,
    };
    let [mut sum, mut other] = [xs.copy(), xs.copy()];
    for (name, norm) in [
        ("layer_norm modulated", &modulated),
        ("layer_norm affine", &affine),
    ] {
        let kernel = time(device, || drop(layer_norm(&xs, norm, EPS)));
        let twin = time(device, || drop(reference::layer_norm(&xs, norm, EPS)));
        write(measured(name, &xs, [kernel, twin], 2))?;
    }
    let kernel = time(device, || gated_add(&mut sum, &ys, gate));
    let twin = time(device, || reference::gated_add(&mut other, &ys, gate));
    write(measured("gated_add", &xs, [kernel, twin], 3))?;
    let kernel = time(device, || {
        drop(gated_add_norm(&mut sum, &ys, gate, &modulated, EPS));
    });
    let twin = time(device, || {
        reference::gated_add(&mut other, &ys, gate);
        drop(reference::layer_norm(&other, &modulated, EPS));
    });
    write(measured("gated_add_norm", &xs, [kernel, twin], 4))?;
    for (name, turns) in [("rms_norm", None), ("rms_norm_rope", Some(&turns))] {
        let kernel = time(device, || {
            drop(rms_norm_rope(xs.shallow_clone(), &weight, EPS, turns));
        });
        let twin = time(device, || {
            drop(reference::rms_norm_rope(&ys, &weight, EPS, turns));
        });
        write(measured(name, &xs, [kernel, twin], 2))?;
    }
    let kernel = time(device, || drop(gelu_tanh(wide.shallow_clone())));
    let twin = time(device, || drop(wide.shallow_clone().gelu_("tanh")));
    write(measured("gelu_tanh", &wide, [kernel, twin], 2))?;
    let copy = time(device, || drop(xs.copy()));
    write(measured("copy", &xs, [copy; 2], 2))
}

/// A matrix from each storage that is expanded for every use.
fn expansions(
    device: Device,
    write: &mut dyn FnMut(Value) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let kind = Kind::BFloat16;
    let out = Tensor::empty(MATRIX, (kind, device));
    for block in BlockType::ALL {
        let count = MATRIX.iter().product::<i64>() / block.block_len() as i64;
        let blocks = Tensor::zeros([count, block.block_bytes() as i64], (Kind::Uint8, device));
        let kernel = time(device, || drop(expand_blocks(&blocks, block, kind)));
        let twin = time(device, || {
            drop(reference::expand_blocks(&blocks, block, kind));
        });
        let name = format!("expand {}", block.name());
        write(measured(&name, &out, [kernel, twin], 1))?;
    }
    let numbers = Tensor::zeros(MATRIX, (Kind::Uint8, device)).view_dtype(Kind::Float8e4m3fn);
    let kernel = time(device, || drop(expand_fp8(&numbers, 0.5, kind)));
    let twin = time(device, || drop(reference::expand_fp8(&numbers, 0.5, kind)));
    write(measured("expand fp8", &out, [kernel, twin], 1))
}

/// Numbers of both signs.
fn wave(size: &[i64], device: Device) -> Tensor {
    let count = size.iter().product::<i64>();
    let numbers = Tensor::arange(count, (Kind::Float, device)) * 0.37;
    numbers.sin().view(size)
}

/// Milliseconds of one call among several that may overlap; NaN where the device failed.
fn time(device: Device, mut pass: impl FnMut()) -> f64 {
    pass();
    pass();
    let is_ready = synchronize(device);
    let began = Instant::now();
    for _ in 0..RUNS {
        pass();
    }
    if is_ready && synchronize(device) {
        began.elapsed().as_secs_f64() * 1e3 / f64::from(RUNS)
    } else {
        f64::NAN
    }
}

/// `passes`: reads and writes of all of `xs` by the kernel
fn measured(name: &str, xs: &Tensor, [kernel, twin]: [f64; 2], passes: u64) -> Value {
    let bytes = xs.numel() as u64 * xs.kind().elt_size_in_bytes() as u64 * passes;
    let rounded = |ms: f64| (ms * 1e4).round() / 1e4;
    json!({
        "case": format!("{name} {:?} {:?}", xs.size(), xs.kind()), "kernel_ms": rounded(kernel),
        "twin_ms": rounded(twin), "gib_per_s": rounded(gib(bytes) / kernel * 1e3),
    })
}
