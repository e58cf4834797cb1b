//! Speed of matrix products, attention, convolutions and copies on the device, in a few seconds, for the doctor.
//!
//! Sizes grow until one run takes long enough to be timed, so a slow device (or a naive kernel) is not kept busy for
//! minutes. Judges nothing; the lines before a driver hangs are all that is known then.

use std::cell::RefCell;
use std::io::Write;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use safelight_core::job::DeviceChoice;
use safelight_core::speed::{SpeedLine, SpeedProbe, SpeedState};
use tch::{Device, Kind, TchError, Tensor};

use crate::error::ProcessError;
use crate::runtime::{
    DeviceRuntime, empty_cache, memory_counts, memory_peaks, reset_peaks, synchronize,
};

/// A run of this length is long enough to be timed.
const LONG_ENOUGH: Duration = Duration::from_millis(20);
/// Time for one probe once its size is found.
const BUDGET: Duration = Duration::from_millis(300);
const MAX_RUNS: usize = 20;

/// In their order, with the smallest and the largest size of each; of copies in MiB.
const PROBES: [(SpeedProbe, i64, i64); 13] = [
    (SpeedProbe::CopyToDevice, 16, 512),
    (SpeedProbe::CopyFromPinned, 16, 512),
    (SpeedProbe::CopyFromDevice, 16, 512),
    (SpeedProbe::CopyOnDevice, 16, 512),
    (SpeedProbe::MatrixF32, 256, 8192),
    (SpeedProbe::MatrixBf16, 256, 8192),
    (SpeedProbe::MatrixF16, 256, 8192),
    (SpeedProbe::MatrixF32Transposed, 256, 8192),
    (SpeedProbe::MatrixBf16Transposed, 256, 8192),
    (SpeedProbe::MatrixF16Transposed, 256, 8192),
    (SpeedProbe::Attention, 512, 16384),
    (SpeedProbe::Convolution, 32, 1024),
    (SpeedProbe::ConvolutionOverTime, 32, 512),
];

/// Measures everything and writes a line before and after each probe.
pub fn run(device: DeviceChoice, out: &mut impl Write) -> Result<(), ProcessError> {
    let runtime = DeviceRuntime::open(device)?;
    let device = runtime.device;
    for (probe, smallest, largest) in PROBES {
        if device == Device::Cpu && !is_of_cpu(probe) {
            continue;
        }
        say(out, probe, SpeedState::Begin)?;
        let state =
            tch::no_grad(|| measure(probe, device, smallest..=largest)).unwrap_or_else(|err| {
                let text = err.to_string();
                SpeedState::Failed {
                    reason: text.lines().next().unwrap_or_default().to_owned(),
                }
            });
        empty_cache(device);
        say(out, probe, state)?;
    }
    Ok(())
}

fn say(out: &mut impl Write, probe: SpeedProbe, state: SpeedState) -> Result<(), ProcessError> {
    let line = serde_json::to_string(&SpeedLine { probe, state }).map_err(std::io::Error::other)?;
    writeln!(out, "{line}")?;
    out.flush()?;
    Ok(())
}

/// A CPU has no device to copy to, and computes no job in f16.
fn is_of_cpu(probe: SpeedProbe) -> bool {
    !matches!(
        probe,
        SpeedProbe::CopyToDevice
            | SpeedProbe::CopyFromPinned
            | SpeedProbe::CopyFromDevice
            | SpeedProbe::MatrixF16
            | SpeedProbe::MatrixF16Transposed
    )
}

/// One size of a probe.
struct SpeedCase {
    call: Box<dyn Fn() -> Result<(), TchError>>,
    /// Operations or bytes.
    amount: f64,
    size: String,
}

/// Doubles the size until a run takes long enough, then times it.
fn measure(
    probe: SpeedProbe,
    device: Device,
    sizes: RangeInclusive<i64>,
) -> Result<SpeedState, TchError> {
    let is_cpu_attention = probe == SpeedProbe::Attention && device == Device::Cpu;
    let largest = if is_cpu_attention { 4096 } else { *sizes.end() };
    let mut size = *sizes.start();
    loop {
        let case = case(probe, device, size)?;
        // The first run loads kernels.
        once(&case, device)?;
        let quick = once(&case, device)?;
        if quick < LONG_ENOUGH && size < largest {
            size *= 2;
            continue;
        }
        let keeps_scores = probe == SpeedProbe::Attention && keeps_scores(&case, device, size)?;
        let mut best = quick;
        let began = Instant::now();
        for _ in 0..MAX_RUNS {
            if began.elapsed() + best > BUDGET {
                break;
            }
            best = best.min(once(&case, device)?);
        }
        let secs = best.as_secs_f64().max(1e-9);
        let unit = if probe.unit() == "GB/s" { 1e9 } else { 1e12 };
        return Ok(SpeedState::Done {
            rate: rounded(case.amount / secs / unit),
            size: case.size,
            secs,
            keeps_scores,
        });
    }
}

fn once(case: &SpeedCase, device: Device) -> Result<Duration, TchError> {
    let began = Instant::now();
    (case.call)()?;
    if synchronize(device) {
        Ok(began.elapsed())
    } else {
        Err(TchError::Torch("the device failed at it".to_owned()))
    }
}

/// Returns true if a run of attention allocates a score for every pair of tokens of every head.
fn keeps_scores(case: &SpeedCase, device: Device, tokens: i64) -> Result<bool, TchError> {
    reset_peaks(device);
    let before = memory_counts(device).allocated;
    once(case, device)?;
    let grown = memory_peaks(device).allocated.saturating_sub(before);
    let scores = (tokens * tokens * HEADS) as u64 * 2;
    Ok(grown >= scores)
}

const HEADS: i64 = 8;
const HEAD_WIDTH: i64 = 128;
const CHANNELS: i64 = 128;
const FRAMES: i64 = 4;

fn case(probe: SpeedProbe, device: Device, size: i64) -> Result<SpeedCase, TchError> {
    match probe {
        SpeedProbe::MatrixF32 => matrix(device, Kind::Float, size, false),
        SpeedProbe::MatrixBf16 => matrix(device, Kind::BFloat16, size, false),
        SpeedProbe::MatrixF16 => matrix(device, Kind::Half, size, false),
        SpeedProbe::MatrixF32Transposed => matrix(device, Kind::Float, size, true),
        SpeedProbe::MatrixBf16Transposed => matrix(device, Kind::BFloat16, size, true),
        SpeedProbe::MatrixF16Transposed => matrix(device, Kind::Half, size, true),
        SpeedProbe::Attention => attention(device, size),
        SpeedProbe::Convolution => convolution(device, size),
        SpeedProbe::ConvolutionOverTime => convolution_over_time(device, size),
        _ => copy(probe, device, size),
    }
}

/// Dtype of models on this device.
fn working_kind(device: Device) -> Kind {
    match device {
        Device::Cpu => Kind::Float,
        _ => Kind::BFloat16,
    }
}

fn random(size: &[i64], kind: Kind, device: Device) -> Result<Tensor, TchError> {
    Tensor::f_rand(size, (Kind::Float, device))?.f_to_kind(kind)
}

fn matrix(
    device: Device,
    kind: Kind,
    side: i64,
    is_transposed: bool,
) -> Result<SpeedCase, TchError> {
    let one = || random(&[side, side], kind, device);
    let [a, b] = [one()?, one()?];
    let b = if is_transposed { b.f_tr()? } else { b };
    Ok(SpeedCase {
        call: Box::new(move || a.f_matmul(&b).map(drop)),
        amount: 2.0 * (side as f64).powi(3),
        size: format!("{side} × {side}"),
    })
}

fn attention(device: Device, tokens: i64) -> Result<SpeedCase, TchError> {
    let kind = working_kind(device);
    let one = || random(&[1, HEADS, tokens, HEAD_WIDTH], kind, device);
    let [q, k, v] = [one()?, one()?, one()?];
    Ok(SpeedCase {
        call: Box::new(move || {
            let none = None::<&Tensor>;
            Tensor::f_scaled_dot_product_attention(&q, &k, &v, none, 0.0, false, None, false)
                .map(drop)
        }),
        amount: 4.0 * (tokens * tokens * HEADS * HEAD_WIDTH) as f64,
        size: format!("{tokens} tokens"),
    })
}

fn convolution(device: Device, side: i64) -> Result<SpeedCase, TchError> {
    let kind = working_kind(device);
    let xs = random(&[1, CHANNELS, side, side], kind, device)?;
    let weight = random(&[CHANNELS, CHANNELS, 3, 3], kind, device)?;
    Ok(SpeedCase {
        call: Box::new(move || {
            let none = None::<&Tensor>;
            xs.f_conv2d(&weight, none, [1, 1], [1, 1], [1, 1], 1)
                .map(drop)
        }),
        amount: (2 * 9 * CHANNELS * CHANNELS * side * side) as f64,
        size: format!("{side} × {side}"),
    })
}

fn convolution_over_time(device: Device, side: i64) -> Result<SpeedCase, TchError> {
    let kind = working_kind(device);
    let xs = random(&[1, CHANNELS, FRAMES + 2, side, side], kind, device)?;
    let weight = random(&[CHANNELS, CHANNELS, 3, 3, 3], kind, device)?;
    Ok(SpeedCase {
        call: Box::new(move || {
            let none = None::<&Tensor>;
            xs.f_conv3d(&weight, none, [1, 1, 1], [0, 1, 1], [1, 1, 1], 1)
                .map(drop)
        }),
        amount: (2 * 27 * CHANNELS * CHANNELS * FRAMES * side * side) as f64,
        size: format!("{FRAMES} frames of {side} × {side}"),
    })
}

fn copy(probe: SpeedProbe, device: Device, mib: i64) -> Result<SpeedCase, TchError> {
    let count = mib << 20;
    let empty = |device| Tensor::f_zeros([count], (Kind::Uint8, device));
    let (from, to) = match probe {
        SpeedProbe::CopyToDevice => (empty(Device::Cpu)?, empty(device)?),
        SpeedProbe::CopyFromPinned => (empty(Device::Cpu)?.f_pin_memory(device)?, empty(device)?),
        SpeedProbe::CopyFromDevice => (empty(device)?, empty(Device::Cpu)?),
        _ => (empty(device)?, empty(device)?),
    };
    let to = RefCell::new(to);
    Ok(SpeedCase {
        call: Box::new(move || to.borrow_mut().f_copy_(&from)),
        amount: count as f64,
        size: format!("{mib} MiB"),
    })
}

/// Four digits: more than two runs have in common.
fn rounded(rate: f64) -> f64 {
    if rate <= 0.0 || !rate.is_finite() {
        return 0.0;
    }
    let unit = 10_f64.powi(3 - rate.log10().floor() as i32);
    (rate * unit).round() / unit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::tests::fixtures::json_lines;

    #[test]
    fn every_probe_of_the_cpu_begins_and_ends_with_a_rate() {
        let mut out = Vec::new();
        run(DeviceChoice::Cpu, &mut out).unwrap();
        let lines: Vec<SpeedLine> = json_lines(&out);
        let probes = PROBES.into_iter().map(|(probe, ..)| probe);
        let expected: Vec<SpeedProbe> = probes.filter(|it| is_of_cpu(*it)).collect();
        assert_eq!(lines.len(), expected.len() * 2);
        for (pair, probe) in lines.chunks(2).zip(expected) {
            assert_eq!((pair[0].probe, pair[1].probe), (probe, probe));
            assert_eq!(pair[0].state, SpeedState::Begin);
            let SpeedState::Done { rate, secs, .. } = pair[1].state else {
                panic!("{:?}", pair[1]);
            };
            assert!(rate > 0.0 && secs > 0.0, "{:?}", pair[1]);
        }
    }

    #[test]
    fn a_rate_keeps_four_digits() {
        assert_eq!(rounded(0.123456), 0.1235);
        assert_eq!(rounded(812.345), 812.3);
        assert_eq!(rounded(f64::INFINITY), 0.0);
    }
}
