//! `safelight-engine probe`: whether the tiers of convolutions work on a device, and how fast each is.
//!
//! One JSON object when a tier and size has run once, which may compile and search for long, and one that says how it
//! went, each written as soon as it is known: a vendor's library may hang in the next one, so that the worker runs each
//! tier in a process of its own and ends it after a while. Remembers and chooses nothing.

pub mod choices;
mod subjects;

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use safelight_core::job::DeviceChoice;
use safelight_core::memory::choices::Choices;
use safelight_core::memory::tiers::{
    ConvolutionTier, Convolutions, ProbeLine, ShapeClass, TierEnd, WARM_LINE,
};
use serde::Serialize;
use tch::{Device, Kind};

use crate::error::EngineError;
use crate::place::dtype_name;
use crate::process::ProcessError;
use crate::runtime::{self, Runtime};
use crate::vae::{Trial, TrialLayer};

/// Timed runs of a layer, behind one of all layers that is not.
const RUNS: usize = 3;

const KINDS: [Kind; 3] = [Kind::BFloat16, Kind::Half, Kind::Float];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeArguments {
    pub device: DeviceChoice,
    pub tiers: Vec<ConvolutionTier>,
    pub shapes: Vec<ShapeClass>,
    pub convolutions: Vec<Convolutions>,
    /// bf16 on a GPU and f32 on the CPU where it is absent.
    pub kind: Option<Kind>,
}

impl ProbeArguments {
    /// `[--device DEVICE] [--tier TIER] [--shape small|large] [--convolutions pictures|clips] [--dtype bf16|f16|f32]
    /// [--json]`
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, ProcessError> {
        let mut parsed = Self {
            device: DeviceChoice::Auto,
            tiers: ConvolutionTier::ON_DEVICE.to_vec(),
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
                "--tier" => value()
                    .and_then(|text| {
                        one_of(
                            "tier",
                            ConvolutionTier::ON_DEVICE,
                            ConvolutionTier::name,
                            &text,
                        )
                    })
                    .map(|tier| parsed.tiers = vec![tier]),
                "--shape" => value()
                    .and_then(|text| one_of("shape", ShapeClass::ALL, ShapeClass::name, &text))
                    .map(|shape| parsed.shapes = vec![shape]),
                "--convolutions" => value()
                    .and_then(|text| one_of("kind", Convolutions::ALL, Convolutions::name, &text))
                    .map(|convolutions| parsed.convolutions = vec![convolutions]),
                "--dtype" => value()
                    .and_then(|text| kind_of(&text))
                    .map(|kind| parsed.kind = Some(kind)),
                // There is no other form.
                "--json" => Ok(()),
                other => Err(format!(
                    "expected --device, --tier, --shape, --convolutions, --dtype or --json, found {other:?}"
                )),
            };
            read.map_err(ProcessError::Arguments)?;
        }
        Ok(parsed)
    }
}

fn kind_of(name: &str) -> Result<Kind, String> {
    one_of("dtype", KINDS, dtype_name, name)
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

/// Probes what `arguments` ask for. `false` when a tier did not work; its line says why.
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
        let tiers = arguments.tiers.iter();
        let tiers = tiers.filter(|tier| convolutions.tiers().contains(tier));
        for (&tier, &shape) in
            tiers.flat_map(|tier| arguments.shapes.iter().map(move |it| (tier, it)))
        {
            let layers = TrialLayer::of_class(convolutions, shape);
            let probed = caught(|| probe(tier, layers, (kind, device), out));
            runtime::empty_cache(device);
            let end = probed.unwrap_or_else(|err| TierEnd::Failed {
                reason: err.to_string(),
            });
            all_well &= matches!(end, TierEnd::Right { .. });
            let line = ProbeLine {
                tier,
                shape,
                convolutions,
                dtype: dtype_name(kind).to_owned(),
                end,
            };
            tell(out, &line)?;
        }
    }
    Ok(all_well)
}

/// What `work` gives; an error where it panics, as libtorch's operators do.
fn caught<T>(work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
    let done = catch_unwind(AssertUnwindSafe(work));
    done.unwrap_or_else(|panic| Err(EngineError::from_panic(panic.as_ref())))
}

/// One line, at once.
fn tell(out: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line).map_err(io::Error::from)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Seconds of one run, until the device is done.
fn timed(
    device: Device,
    run: impl FnOnce() -> Result<(), EngineError>,
) -> Result<f64, EngineError> {
    let started = Instant::now();
    run()?;
    if !runtime::synchronize(device) {
        return Err(EngineError::Device {
            reason: "the device failed at it".to_owned(),
        });
    }
    Ok(started.elapsed().as_secs_f64())
}

/// All of `layers`: their fastest times together, and the worst error.
fn probe(
    tier: ConvolutionTier,
    layers: &[TrialLayer],
    (kind, device): (Kind, Device),
    out: &mut dyn Write,
) -> Result<TierEnd, EngineError> {
    let _ways = runtime::enter_ways(device, tier, Choices::default());
    let trials = || {
        layers.iter().map(|layer| {
            // On the CPU nobody waits for a verdict; it only has to be right.
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
        error = f64::max(error, trial.error(&trial.layer(tier)()));
    }
    // Nobody who listens no more waits for an answer.
    writeln!(out, "{WARM_LINE}").and_then(|()| out.flush()).ok();
    for trial in trials() {
        let trial = trial?;
        let ready = trial.layer(tier);
        let mut least = f64::INFINITY;
        for _ in 0..RUNS {
            let run = || {
                drop(ready());
                Ok(())
            };
            least = least.min(timed(device, run)?);
        }
        secs += least;
    }
    Ok(if error <= tolerance(kind) {
        TierEnd::Right { secs, error }
    } else {
        // JSON has no infinity.
        let error = error.min(f64::MAX);
        TierEnd::Wrong { error }
    })
}

/// Relative. Libraries may round f32 to 10 bits behind the point before they multiply.
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
    fn every_tier_of_every_size_has_a_line_that_says_how_it_went() {
        let arguments = parse("--device cpu --json").unwrap();
        let mut out = Vec::new();
        assert!(run(&arguments, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let is_warm = |line: &&str| *line == WARM_LINE;
        // Each time before the answer.
        assert!(text.lines().step_by(2).all(|line| is_warm(&line)), "{text}");
        let lines: Vec<ProbeLine> = text
            .lines()
            .filter(|line| !is_warm(line))
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        // Three tiers of clips and two of pictures.
        assert_eq!(lines.len(), 10);
        for line in &lines {
            let TierEnd::Right { secs, error } = line.end else {
                panic!("{line:?}");
            };
            assert!(secs > 0.0 && error < 1e-5 && line.dtype == "f32");
        }
        let first = (lines[0].tier, lines[0].shape);
        assert_eq!(first, (ConvolutionTier::Direct, ShapeClass::Small));
        let of_pictures = lines.iter().map(|line| line.convolutions);
        let of_pictures = of_pictures.filter(|it| *it == Convolutions::Pictures);
        assert_eq!(of_pictures.count(), 4);
    }

    #[test]
    fn one_tier_of_one_size_in_one_type_can_be_asked_for() {
        let arguments =
            parse("--device cpu --tier frames --shape small --convolutions clips --dtype bf16")
                .unwrap();
        let mut out = Vec::new();
        assert!(run(&arguments, &mut out).unwrap());
        let text = String::from_utf8(out).unwrap();
        let line: ProbeLine = serde_json::from_str(text.lines().last().unwrap()).unwrap();
        assert_eq!(
            (line.tier, line.shape),
            (ConvolutionTier::Frames, ShapeClass::Small)
        );
        assert_eq!(line.dtype, "bf16");
        for (line, part) in [
            ("--tier cpu", "expected a tier"),
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
