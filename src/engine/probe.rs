//! `safelight-engine probe`: correctness and speed of the convolution backends on a device.
//!
//! Writes two JSON lines for each backend and size: [`WARM_LINE`] after its first run, which may compile and search, and
//! its result. Both are written immediately, because a vendor's library may hang in the next run: the worker probes each
//! backend in a separate process with a time limit, and stores the results.

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use safelight_core::job::DeviceChoice;
use safelight_core::memory::compute_options::ComputeOptions;
use safelight_core::memory::conv_backends::{
    ConvBackend, Convolutions, ProbeLine, ProbeResult, ShapeClass, WARM_LINE,
};
use tch::{Device, Kind};

use crate::error::EngineError;
use crate::place::dtype_name;
use crate::process::ProcessError;
use crate::runtime::{self, Runtime};
use crate::vae::{Trial, TrialLayer};

/// Timed runs of each layer, after one untimed run of all layers.
const RUNS: usize = 3;

const KINDS: [Kind; 3] = [Kind::BFloat16, Kind::Half, Kind::Float];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeArguments {
    pub device: DeviceChoice,
    pub backends: Vec<ConvBackend>,
    pub shapes: Vec<ShapeClass>,
    pub convolutions: Vec<Convolutions>,
    /// `None`: bf16 on a GPU, f32 on the CPU.
    pub kind: Option<Kind>,
}

impl ProbeArguments {
    /// `[--device DEVICE] [--backend BACKEND] [--shape small|large] [--convolutions pictures|clips] [--dtype bf16|f16|f32]
    /// [--json]`
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, ProcessError> {
        let mut parsed = Self {
            device: DeviceChoice::Auto,
            backends: ConvBackend::ON_DEVICE.to_vec(),
            shapes: ShapeClass::ALL.to_vec(),
            convolutions: Convolutions::ALL.to_vec(),
            kind: None,
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("expected a value after {argument}, found none"))
            };
            let read = match argument.as_str() {
                "--device" => value()
                    .and_then(|text| text.parse())
                    .map(|device| parsed.device = device),
                "--backend" => value()
                    .and_then(|text| {
                        let all = ConvBackend::ON_DEVICE;
                        one_of("backend", all, ConvBackend::name, &text)
                    })
                    .map(|backend| parsed.backends = vec![backend]),
                "--shape" => value()
                    .and_then(|text| one_of("shape", ShapeClass::ALL, ShapeClass::name, &text))
                    .map(|shape| parsed.shapes = vec![shape]),
                "--convolutions" => value()
                    .and_then(|text| one_of("kind", Convolutions::ALL, Convolutions::name, &text))
                    .map(|convolutions| parsed.convolutions = vec![convolutions]),
                "--dtype" => value()
                    .and_then(|text| one_of("dtype", KINDS, dtype_name, &text))
                    .map(|kind| parsed.kind = Some(kind)),
                // The only format.
                "--json" => Ok(()),
                other => Err(format!(
                    "expected --device, --backend, --shape, --convolutions, --dtype or --json, found {other:?}"
                )),
            };
            read.map_err(ProcessError::Arguments)?;
        }
        Ok(parsed)
    }
}

fn one_of<T: Copy, const N: usize>(
    what: &str,
    all: [T; N],
    name: fn(T) -> &'static str,
    text: &str,
) -> Result<T, String> {
    let found = all.into_iter().find(|one| name(*one) == text);
    let names = || all.map(name).join(", ");
    found.ok_or_else(|| format!("expected a {what} ({}), found {text:?}", names()))
}

/// Probes the requested backends. Returns `false` if one failed; its line gives the reason.
pub fn run(arguments: &ProbeArguments, out: &mut dyn Write) -> Result<bool, ProcessError> {
    runtime::count_cpu_tensors();
    let device = Runtime::open(arguments.device)?.device;
    let kind = arguments.kind.unwrap_or(match device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    });
    let _no_grad = tch::no_grad_guard();
    let mut all_well = true;
    for &convolutions in &arguments.convolutions {
        let backends = arguments.backends.iter();
        let backends = backends.filter(|backend| convolutions.backends().contains(backend));
        for (&backend, &shape) in
            backends.flat_map(|backend| arguments.shapes.iter().map(move |it| (backend, it)))
        {
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

/// Writes one line and flushes it.
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
            Trial::new(layer, kind, device)
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

    fn parse(line: &str) -> Result<ProbeArguments, ProcessError> {
        ProbeArguments::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_backend_and_size_has_a_line_with_its_result() {
        let arguments = parse("--device cpu --json").unwrap();
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
        let of_pictures = lines.iter().map(|line| line.convolutions);
        let of_pictures = of_pictures.filter(|it| *it == Convolutions::Pictures);
        assert_eq!(of_pictures.count(), 4);
    }

    #[test]
    fn one_backend_size_and_type_can_be_selected() {
        let arguments =
            parse("--device cpu --backend frames --shape small --convolutions clips --dtype bf16")
                .unwrap();
        let mut out = Vec::new();
        assert!(run(&arguments, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let line: ProbeLine = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(
            (line.backend, line.shape),
            (ConvBackend::Frames, ShapeClass::Small)
        );
        assert_eq!(line.dtype, "bf16");
        for (line, part) in [
            ("--backend cpu", "expected a backend"),
            ("--shape huge", "expected a shape"),
            ("--convolutions all", "expected a kind"),
            ("--dtype q4", "expected a dtype"),
            ("--device", "expected a value after --device"),
            ("all", "found \"all\""),
        ] {
            let err = parse(line).unwrap_err();
            assert!(
                err.to_string().contains(part) && err.exit_code() == 2,
                "{err}"
            );
        }
    }
}
