//! `safelight-engine probe`: correctness and speed of the convolution backends on a device.
//!
//! Writes two JSON lines for each backend and size: [`WARM_LINE`] after its first run, which may compile and search, and
//! its result. Both are written immediately, because a vendor's library may hang in the next run: the worker probes each
//! backend in a separate process with a time limit, and stores the results.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use clap::Parser;
use safelight_core::compute::ComputeOptions;
use safelight_core::compute::conv_backends::{
    ConvBackend, ConvDimensions, ProbeLine, ProbeResult, ShapeClass, WARM_LINE,
};
use safelight_core::job::DeviceChoice;
use tch::{Device, Kind};

use crate::error::EngineError;
use crate::error::ProcessError;
use crate::placement::dtype_name;
use crate::runtime::{self, DeviceRuntime};
use crate::vae::{LayerTrial, TrialLayer};

/// Timed runs of each layer, after one untimed run of all layers.
const RUNS: usize = 3;

const KINDS: [Kind; 3] = [Kind::BFloat16, Kind::Half, Kind::Float];

/// Correctness and speed of convolution backends, as JSON lines
#[derive(Clone, Debug, Parser)]
#[command(name = "probe", no_binary_name = true)]
pub struct ProbeArguments {
    /// auto, cpu or cuda:N
    #[arg(long, default_value = "auto")]
    device: DeviceChoice,
    /// [default: all]
    #[arg(long, value_parser = |text: &str| one_of(ConvBackend::ON_DEVICE, ConvBackend::name, text))]
    backend: Option<ConvBackend>,
    /// small or large [default: both]
    #[arg(long, value_parser = |text: &str| one_of(ShapeClass::ALL, ShapeClass::name, text))]
    shape: Option<ShapeClass>,
    /// images or videos [default: both]
    #[arg(long, value_parser = |text: &str| one_of(ConvDimensions::ALL, ConvDimensions::name, text))]
    convolutions: Option<ConvDimensions>,
    /// bf16, f16 or f32 [default: bf16 on a GPU, f32 on the CPU]
    #[arg(long, value_parser = |text: &str| one_of(KINDS, dtype_name, text))]
    dtype: Option<Kind>,
}

fn one_of<T: Copy, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
    text: &str,
) -> Result<T, String> {
    let found = all.into_iter().find(|one| name(*one) == text);
    found.ok_or_else(|| format!("expected {}, found {text:?}", all.map(name).join(", ")))
}

/// Probes the requested backends. Returns `false` if one failed; its line gives the reason.
pub fn run(arguments: &ProbeArguments, out: &mut dyn Write) -> Result<bool, ProcessError> {
    let device = DeviceRuntime::open(arguments.device)?.device;
    let kind = arguments.dtype.unwrap_or(match device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    });
    let _no_grad = tch::no_grad_guard();
    let mut all_well = true;
    for convolutions in ConvDimensions::ALL {
        if arguments.convolutions.is_some_and(|it| it != convolutions) {
            continue;
        }
        let backends = ConvBackend::ON_DEVICE.into_iter();
        let backends = backends.filter(|backend| {
            convolutions.backends().contains(backend)
                && arguments.backend.is_none_or(|it| it == *backend)
        });
        let shapes = || {
            let shapes = ShapeClass::ALL.into_iter();
            shapes.filter(|shape| arguments.shape.is_none_or(|it| it == *shape))
        };
        for (backend, shape) in backends.flat_map(|backend| shapes().map(move |it| (backend, it))) {
            let layers = TrialLayer::of_class(convolutions, shape);
            let probed = caught(|| probe(backend, layers, (kind, device), out));
            runtime::empty_cache(device);
            let result = probed.unwrap_or_else(|err| ProbeResult::Failed {
                reason: err.to_string(),
            });
            all_well &= matches!(result, ProbeResult::Right { .. });
            let line = ProbeLine {
                backend,
                shape,
                convolutions,
                dtype: dtype_name(kind).to_owned(),
                result,
            };
            write_line(out, &line)?;
        }
    }
    Ok(all_well)
}

/// Runs `work` and turns a panic into an error: libtorch's operators panic.
fn caught<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(EngineError::from_panic(panic.as_ref())))
}

fn write_line(out: &mut dyn Write, line: &ProbeLine) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Returns the seconds of one run, until the device has finished it.
fn timed<T>(device: Device, run: impl FnOnce() -> T) -> Result<f64, EngineError> {
    let started = Instant::now();
    drop(run());
    if !runtime::synchronize(device) {
        return Err(EngineError::Device {
            reason: "the device failed at it".to_owned(),
        });
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Returns the sum of the fastest times of `layers` and their largest error.
fn probe(
    backend: ConvBackend,
    layers: &[TrialLayer],
    (kind, device): (Kind, Device),
    out: &mut dyn Write,
) -> Result<ProbeResult, EngineError> {
    let _options = runtime::use_compute_options(device, backend, ComputeOptions::default());
    let trials = || {
        layers.iter().map(|layer| {
            // The CPU needs no speed, only correctness.
            let layer = if device == Device::Cpu {
                layer.small().small()
            } else {
                *layer
            };
            LayerTrial::new(layer, kind, device)
        })
    };
    let [mut secs, mut error] = [0.0; 2];
    for trial in trials() {
        let trial = trial?;
        error = f64::max(error, trial.error(&trial.layer(backend)()));
    }
    // A reader that is gone waits for no result either.
    writeln!(out, "{WARM_LINE}").and_then(|()| out.flush()).ok();
    for trial in trials() {
        let trial = trial?;
        let layer = trial.layer(backend);
        let mut fastest = f64::INFINITY;
        for _ in 0..RUNS {
            fastest = fastest.min(timed(device, &layer)?);
        }
        secs += fastest;
    }
    Ok(if error <= tolerance(kind) {
        ProbeResult::Right { secs, error }
    } else {
        // JSON has no infinity.
        let error = error.min(f64::MAX);
        ProbeResult::Wrong { error }
    })
}

/// Returns the largest relative error allowed. Libraries may round f32 to 10 bits of mantissa (TF32) to multiply.
fn tolerance(kind: Kind) -> f64 {
    match kind {
        Kind::BFloat16 => 2e-2,
        Kind::Half => 5e-3,
        _ => 3e-3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::read;

    fn parse(line: &str) -> Result<ProbeArguments, ProcessError> {
        read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_backend_and_size_has_a_line_with_its_result() {
        let arguments = parse("--device cpu").unwrap();
        let mut out = Vec::new();
        assert!(run(&arguments, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let is_warm = |line: &&str| *line == WARM_LINE;
        // Each before its result.
        assert!(text.lines().step_by(2).all(|line| is_warm(&line)), "{text}");
        let lines: Vec<ProbeLine> = text
            .lines()
            .filter(|line| !is_warm(line))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        // Three backends of 3D convolutions and two of 2D ones.
        assert_eq!(lines.len(), 10);
        for line in &lines {
            let ProbeResult::Right { secs, error } = line.result else {
                panic!("{line:?}");
            };
            assert!(secs > 0.0 && error < 1e-5 && line.dtype == "f32");
        }
        let first = (lines[0].backend, lines[0].shape);
        assert_eq!(first, (ConvBackend::Direct, ShapeClass::Small));
        let of_images = lines.iter().map(|line| line.convolutions);
        let of_images = of_images.filter(|it| *it == ConvDimensions::Images);
        assert_eq!(of_images.count(), 4);
    }

    #[test]
    fn one_backend_size_and_type_can_be_selected() {
        let arguments =
            parse("--device cpu --backend frames --shape small --convolutions videos --dtype bf16")
                .unwrap();
        let mut out = Vec::new();
        assert!(run(&arguments, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let line: ProbeLine = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        let found = (line.backend, line.shape);
        assert_eq!(found, (ConvBackend::Frames, ShapeClass::Small));
        assert_eq!(line.dtype, "bf16");
        for (line, part) in [
            ("--backend cpu", "expected direct, "),
            ("--shape huge", "expected small, large"),
            ("--convolutions all", "expected images, videos"),
            ("--dtype q4", "expected bf16, f16, f32"),
            ("--device", "a value is required for '--device"),
            ("all", "unexpected argument 'all'"),
        ] {
            let err = parse(line).unwrap_err();
            let holds = err.to_string().contains(part) && err.exit_code() == 2;
            assert!(holds, "{err}");
        }
    }
}
