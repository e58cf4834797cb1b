//! What a capped device loses to fragments: weights that stay, and beside them pictures of many sizes, one after the other,
//! with small results that outlive some of them.
//!
//! The allocator is as `PYTORCH_ALLOC_CONF` says when the process starts. One line of JSON.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use clap::Parser;
use safelight_core::job::DeviceChoice;
use safelight_engine::bench::arguments::{count, gib, read};
use safelight_engine::bench::error::BenchError;
use safelight_engine::bench::measure::{gib as in_gib, rounded};
use safelight_engine::runtime::{self, Runtime, memory_counts, memory_peaks};
use serde_json::json;
use tch::{Device, Kind, Tensor};

/// Of Flux: tokens have so many channels, and four times as many inside of a block.
const CHANNELS: i64 = 3072;
/// Of its decoder at full size.
const PIXEL_CHANNELS: i64 = 128;
/// Edges of pictures: from 512 pixels on in steps of 64.
const EDGES: u64 = 17;

#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Arguments {
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// What the allocator may hold.
    #[arg(long, value_parser = gib)]
    cap: u64,
    /// What weights leave free of it.
    #[arg(long, value_parser = gib)]
    preserved: u64,
    #[arg(long, default_value = "200", value_parser = |text: &str| count(text, "rounds"))]
    rounds: u32,
    /// Everything unused is given back behind each picture, as between the stages of a job.
    #[arg(long)]
    flush: bool,
    /// A hundredth of the sizes.
    #[arg(long)]
    small: bool,
}

/// How the rounds ended.
#[derive(Default)]
struct Tally {
    secs: Vec<f64>,
    /// They went on once everything unused was given back: there was room, in pieces.
    fragmented: u32,
    /// Not even then.
    lost: u32,
    /// The most that the allocator held beyond what was allocated at that moment.
    gap: u64,
}

pub fn run(
    arguments: impl Iterator<Item = String>,
    out: &mut dyn Write,
) -> Result<bool, BenchError> {
    let arguments: Arguments = read(arguments)?;
    runtime::count_cpu_tensors();
    let runtime = Runtime::open(arguments.device)?;
    let device = runtime.device;
    let kind = if device == Device::Cpu {
        Kind::Float
    } else {
        Kind::BFloat16
    };
    let _no_grad = tch::no_grad_guard();
    runtime::limit(device, Some(arguments.cap));
    let channels = if arguments.small {
        CHANNELS / 10
    } else {
        CHANNELS
    };
    let room = arguments.cap.saturating_sub(arguments.preserved);
    let mut weights = Vec::new();
    while memory_counts(device).allocated + weight_bytes(channels, kind) <= room {
        weights.push(Tensor::randn([channels, 4 * channels], (kind, device)) * 0.01);
    }
    runtime::reset_peaks(device);
    let mut random = 1_u64;
    let mut kept = Vec::new();
    let mut tally = Tally::default();
    for _ in 0..arguments.rounds {
        let sizes = [(); 2].map(|()| next(&mut random) % EDGES);
        let scale = if arguments.small { 6 } else { 64 };
        let [height, width] = sizes.map(|size| (8 + size as i64) * scale);
        let started = Instant::now();
        let mut picture = || {
            let made = catch_unwind(AssertUnwindSafe(|| {
                make(&weights, (height, width), (kind, device), &mut tally.gap)
            }));
            made.ok()
        };
        let mut made = picture();
        if made.is_none() {
            runtime::empty_cache(device);
            made = picture();
            *(if made.is_some() {
                &mut tally.fragmented
            } else {
                &mut tally.lost
            }) += 1;
        }
        tally.lost += u32::from(!runtime::synchronize(device));
        tally.secs.push(started.elapsed().as_secs_f64());
        // A preview or an embedding, which stays for a few pictures.
        kept.extend(made);
        while kept.len() > 4 {
            drop(kept.swap_remove(next(&mut random) as usize % kept.len()));
        }
        if arguments.flush {
            runtime::empty_cache(device);
        }
    }
    let peaks = memory_peaks(device);
    let largest = largest(device, arguments.cap);
    let counts = memory_counts(device);
    let Tally {
        mut secs,
        fragmented,
        lost,
        gap,
    } = tally;
    let total: f64 = secs.iter().sum();
    secs.sort_by(f64::total_cmp);
    let line = json!({
        "alloc_conf": std::env::var("PYTORCH_ALLOC_CONF").ok(),
        "cap_gib": in_gib(arguments.cap), "preserved_gib": in_gib(arguments.preserved),
        "flush": arguments.flush, "rounds": secs.len(), "fragmented": fragmented, "lost": lost,
        "total_s": rounded(total), "median_s": secs.get(secs.len() / 2), "worst_s": secs.last(),
        "weights": weights.len(), "peak_gib": in_gib(peaks.allocated),
        "peak_reserved_gib": in_gib(peaks.reserved), "gap_gib": in_gib(gap),
        "left_gib": in_gib(arguments.cap.saturating_sub(counts.allocated)),
        "largest_gib": in_gib(largest), "device": runtime.device_name,
    });
    serde_json::to_writer(&mut *out, &line).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    runtime::limit(device, None);
    Ok(lost == 0)
}

fn weight_bytes(channels: i64, kind: Kind) -> u64 {
    4 * channels as u64 * channels as u64 * kind.elt_size_in_bytes() as u64
}

/// One step of a transformer over a picture's tokens, then what a decoder holds at full size; a small piece of it stays.
fn make(
    weights: &[Tensor],
    (height, width): (i64, i64),
    (kind, device): (Kind, Device),
    gap: &mut u64,
) -> Tensor {
    let channels = weights.first().map_or(1, |weight| weight.size()[0]);
    let tokens = (height / 16) * (width / 16) + 512;
    let mut xs = Tensor::randn([tokens, channels], (kind, device));
    for weight in weights {
        let inside = xs.matmul(weight).gelu("tanh");
        xs = inside.matmul(&weight.tr()) * 0.1 + &xs;
    }
    let mut pixels = Tensor::zeros([PIXEL_CHANNELS / 2, height, width], (kind, device));
    for channels in [PIXEL_CHANNELS, PIXEL_CHANNELS / 2, PIXEL_CHANNELS / 4] {
        let wide = Tensor::zeros([channels, height, width], (kind, device));
        pixels = wide.narrow(0, 0, channels.min(pixels.size()[0]))
            + pixels.narrow(0, 0, channels.min(pixels.size()[0]));
        let counts = memory_counts(device);
        *gap = (*gap).max(counts.reserved.saturating_sub(counts.allocated));
    }
    (pixels.narrow(0, 0, 8).copy() + xs.mean(Kind::Float).to_kind(kind)).contiguous()
}

/// The largest tensor that can still be had, to 16 MiB.
fn largest(device: Device, cap: u64) -> u64 {
    let fits = |bytes: u64| {
        let tensor = Tensor::f_empty([bytes as i64], (Kind::Uint8, device));
        tensor.is_ok()
    };
    let (mut low, mut high) = (0, cap);
    while high - low > 16 << 20 {
        let middle = low.midpoint(high);
        *(if fits(middle) { &mut low } else { &mut high }) = middle;
    }
    low
}

/// A number that looks random and is the same in every run.
fn next(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}
