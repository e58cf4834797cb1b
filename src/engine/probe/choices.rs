//! `safelight-engine probe-choices`: how long each way of one choice takes on a device, and whether it is right.
//!
//! A line before each run, because a vendor's library may hang in it, and one on each way at the end. The ways run by
//! turns, so that what slows the device down slows all of them down. Remembers and chooses nothing.

use std::io::Write;
use std::time::{Duration, Instant};

use safelight_core::job::DeviceChoice;
use safelight_core::memory::choices::{
    Choice, ChoiceLine, ChoiceState, Choices, CopyPath, MatrixLibrary, Shapes,
};
use safelight_core::memory::tiers::{AttentionChoice, ConvolutionTier, TierEnd};
use tch::{Device, Kind};

use super::subjects::{Ready, Subject};
use super::{caught, kind_of, one_of, tell, timed};
use crate::error::EngineError;
use crate::place::dtype_name;
use crate::process::ProcessError;
use crate::runtime::{self, Runtime, convolution_tier, enter_ways, prefer_matrix_library};

/// Timed runs of each way at most, behind those that are not; halves of them are compared.
const MAX_RUNS: usize = 12;
/// What the timed runs of all ways may take together; one of each there is always.
const BUDGET: Duration = Duration::from_secs(12);
/// A way that takes so much longer than what is done by itself needs no more runs.
const HOPELESS: f64 = 1.5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChoiceArguments {
    pub device: DeviceChoice,
    pub choice: Choice,
    pub shapes: Shapes,
    /// bf16 on a GPU and f32 on the CPU where it is absent.
    pub kind: Option<Kind>,
    /// How convolutions are computed meanwhile; as where nobody chose where it is absent.
    pub tier: Option<ConvolutionTier>,
    /// Ways that are left out.
    pub without: Vec<Choices>,
}

impl ChoiceArguments {
    /// `--choice CHOICE [--device DEVICE] [--shapes JSON] [--dtype bf16|f16|f32] [--tier TIER] [--without JSON].. [--json]`
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, ProcessError> {
        let mut choice = None;
        let mut parsed = Self {
            device: DeviceChoice::Auto,
            choice: Choice::Attention,
            shapes: Shapes::default(),
            kind: None,
            tier: None,
            without: Vec::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let mut value = || {
                let value = arguments.next();
                value.ok_or_else(|| format!("expected a value after {argument}, found none"))
            };
            let unread = |err: serde_json::Error| format!("{argument} cannot be read: {err}");
            let read = match argument.as_str() {
                "--device" => value()
                    .and_then(|text| text.parse())
                    .map(|device| parsed.device = device),
                "--choice" => value()
                    .and_then(|text| text.parse())
                    .map(|it| choice = Some(it)),
                "--shapes" => value()
                    .and_then(|text| serde_json::from_str(&text).map_err(unread))
                    .map(|shapes| parsed.shapes = shapes),
                "--dtype" => value()
                    .and_then(|text| kind_of(&text))
                    .map(|kind| parsed.kind = Some(kind)),
                "--tier" => value()
                    .and_then(|text| {
                        let all = ConvolutionTier::ON_DEVICE;
                        one_of("tier", all, ConvolutionTier::name, &text)
                    })
                    .map(|tier| parsed.tier = Some(tier)),
                "--without" => value()
                    .and_then(|text| serde_json::from_str(&text).map_err(unread))
                    .map(|way| parsed.without.push(way)),
                // There is no other form.
                "--json" => Ok(()),
                other => Err(format!(
                    "expected --choice, --device, --shapes, --dtype, --tier, --without or --json, found {other:?}"
                )),
            };
            read.map_err(ProcessError::Arguments)?;
        }
        let missing = || {
            let names = Choice::ALL.map(Choice::name).join(", ");
            ProcessError::Arguments(format!("expected --choice and one of {names}"))
        };
        parsed.choice = choice.ok_or_else(missing)?;
        Ok(parsed)
    }
}

/// One way that works so far.
struct Trial {
    choices: Choices,
    ready: Ready,
    error: f64,
    secs: Vec<f64>,
    failure: Option<EngineError>,
}

/// Measures every way that there is on the device. `false` when one does not work; its line says why.
pub fn run(arguments: &ChoiceArguments, out: &mut dyn Write) -> Result<bool, ProcessError> {
    runtime::count_cpu_tensors();
    let device = Runtime::open(arguments.device)?.device;
    let kind = arguments.kind.unwrap_or(match device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    });
    let tier = arguments.tier.unwrap_or_else(convolution_tier);
    let _no_grad = tch::no_grad_guard();
    let choice = arguments.choice;
    let subject = caught(|| Subject::new(choice, &arguments.shapes, (kind, device)));
    let mut subject = subject.map_err(|err| ProcessError::Failed(err.to_string()))?;
    let ways = choice.alternatives().into_iter();
    let ways = ways.filter(|way| exists(*way, device) && !arguments.without.contains(way));
    let mut trials = Vec::new();
    let mut all_well = true;
    for choices in ways {
        say_trying(out, choices, true)?;
        let tried = caught(|| try_out(&mut subject, choices, (device, tier)));
        runtime::empty_cache(device);
        match tried {
            Ok(trial) => trials.push(trial),
            Err(err) => {
                all_well = false;
                let reason = err.to_string();
                done(out, choices, TierEnd::Failed { reason })?;
            }
        }
    }
    let limit = choice.tolerance(dtype_name(kind));
    time_by_turns(&mut trials, limit, (device, tier), out)?;
    for trial in trials {
        let is_base = trial.choices == Choices::default();
        let end = match trial.failure {
            Some(err) => TierEnd::Failed {
                reason: err.to_string(),
            },
            None if trial.error <= limit => TierEnd::Right {
                secs: figure(&trial.secs, is_base),
                error: trial.error,
            },
            // JSON has no infinity.
            None => TierEnd::Wrong {
                error: trial.error.min(f64::MAX),
            },
        };
        all_well &= matches!(end, TierEnd::Right { .. });
        done(out, trial.choices, end)?;
    }
    Ok(all_well)
}

/// Whether there is anything to choose there.
fn exists(way: Choices, device: Device) -> bool {
    device != Device::Cpu
        || (way.matrices == MatrixLibrary::Auto
            && way.copies == CopyPath::Auto
            && matches!(
                way.attention,
                AttentionChoice::Auto | AttentionChoice::Sliced
            ))
}

/// Runs a way once, which may compile and search, and looks at its numbers.
fn try_out(
    subject: &mut Subject,
    choices: Choices,
    (device, tier): (Device, ConvolutionTier),
) -> Result<Trial, EngineError> {
    let _ways = enter_ways(device, tier, choices);
    if choices.matrices != MatrixLibrary::Auto && !prefer_matrix_library(choices.matrices) {
        let library = choices.matrices.label();
        let reason = format!("this libtorch does not multiply matrices by {library}");
        return Err(EngineError::Request { reason });
    }
    let ready = subject.ready(choices)?;
    timed(device, &ready)?;
    let error = subject.error()?;
    Ok(Trial {
        choices,
        ready,
        error,
        secs: Vec::new(),
        failure: None,
    })
}

fn time_by_turns(
    trials: &mut [Trial],
    limit: f64,
    (device, tier): (Device, ConvolutionTier),
    out: &mut dyn Write,
) -> Result<(), ProcessError> {
    let began = Instant::now();
    let mut own = f64::INFINITY;
    for run in 0..MAX_RUNS {
        for trial in &mut *trials {
            let is_base = trial.choices == Choices::default();
            let is_hopeless = !is_base && run > 0 && figure(&trial.secs, false) > HOPELESS * own;
            if trial.failure.is_some() || trial.error > limit || is_hopeless {
                continue;
            }
            if run > 0 && began.elapsed() > BUDGET {
                return Ok(());
            }
            say_trying(out, trial.choices, false)?;
            let _ways = enter_ways(device, tier, trial.choices);
            let ready = &trial.ready;
            match caught(|| timed(device, ready)) {
                Ok(secs) => trial.secs.push(secs),
                Err(err) => trial.failure = Some(err),
            }
            if is_base {
                own = figure(&trial.secs, true);
            }
        }
    }
    Ok(())
}

/// The median of the runs. Those of the first and the second half each have theirs: what is done by itself gets the
/// better of the two, any other way the worse, so that chance makes nothing look faster than it is.
fn figure(secs: &[f64], is_base: bool) -> f64 {
    let median = |secs: &[f64]| {
        let mut sorted = secs.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    };
    let (first, second) = secs.split_at(secs.len() / 2);
    let halves = [first, second].into_iter().filter_map(median);
    let of_halves = if is_base {
        halves.reduce(f64::min)
    } else {
        halves.reduce(f64::max)
    };
    of_halves.unwrap_or(f64::INFINITY)
}

fn say_trying(
    out: &mut dyn Write,
    alternative: Choices,
    is_first: bool,
) -> Result<(), ProcessError> {
    let state = ChoiceState::Trying { is_first };
    Ok(tell(out, &ChoiceLine { alternative, state })?)
}

fn done(out: &mut dyn Write, alternative: Choices, end: TierEnd) -> Result<(), ProcessError> {
    let state = ChoiceState::Done { end };
    Ok(tell(out, &ChoiceLine { alternative, state })?)
}

#[cfg(test)]
mod tests {
    use safelight_core::memory::choices::MatrixLayout;

    use super::*;

    fn parse(arguments: &[&str]) -> Result<ChoiceArguments, ProcessError> {
        ChoiceArguments::parse(arguments.iter().map(|it| (*it).to_owned()))
    }

    /// The ways that were told of, with what came of them, of a run on the CPU.
    fn measured(arguments: &[&str]) -> Vec<(Choices, TierEnd)> {
        let shapes = r#"{"tokens": 48, "matrices": [[96, 64], [64, 32]], "heads": 2, "head_width": 16, "latents": null}"#;
        let own = ["--device", "cpu", "--json", "--shapes", shapes];
        let mut out = Vec::new();
        run(&parse(&[&own, arguments].concat()).unwrap(), &mut out).unwrap();
        let mut found = Vec::new();
        let mut trying = Vec::new();
        for line in String::from_utf8(out).unwrap().lines() {
            let line: ChoiceLine = serde_json::from_str(line).unwrap();
            match line.state {
                ChoiceState::Trying { .. } => trying.push(line.alternative),
                ChoiceState::Done { end } => {
                    assert!(trying.contains(&line.alternative));
                    found.push((line.alternative, end));
                }
            }
        }
        found
    }

    fn assert_right(found: &[(Choices, TierEnd)], limit: f64) {
        for (choices, end) in found {
            let TierEnd::Right { secs, error } = end else {
                panic!("{choices:?}: {end:?}");
            };
            assert!(*secs > 0.0 && *error <= limit, "{choices:?}: {end:?}");
        }
    }

    #[test]
    fn every_way_of_a_choice_that_the_device_has_is_measured_and_right() {
        let attention = measured(&["--choice", "attention"]);
        let ways: Vec<_> = attention.iter().map(|(way, _)| way.attention).collect();
        assert_eq!(ways, [AttentionChoice::Auto, AttentionChoice::Sliced]);
        assert_right(&attention, 1e-5);
        let matrices = measured(&["--choice", "matrices", "--dtype", "bf16"]);
        let layouts: Vec<_> = matrices.iter().map(|(way, _)| way.layout).collect();
        assert_eq!(layouts, [MatrixLayout::Auto, MatrixLayout::Columns]);
        assert_right(&matrices, 2e-2);
        let copies = measured(&["--choice", "copies"]);
        assert_eq!(copies.len(), 1);
        assert_right(&copies, 0.0);
    }

    #[test]
    fn a_way_that_is_left_out_is_not_tried() {
        let sliced = r#"{"attention": "sliced"}"#;
        let found = measured(&["--choice", "attention", "--without", sliced]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0, Choices::default());
    }

    #[test]
    fn what_is_asked_for_wrongly_is_told() {
        for (arguments, part) in [
            (&[][..], "expected --choice and one of"),
            (&["--choice", "luck"], "expected a choice"),
            (&["--choice"], "expected a value after --choice"),
            (&["--shapes", "{}"], "--shapes cannot be read"),
            (&["--without", "4"], "--without cannot be read"),
            (&["--tier", "cpu"], "expected a tier"),
            (&["all"], "found \"all\""),
        ] {
            let err = parse(arguments).unwrap_err();
            let is_right = err.to_string().contains(part) && err.exit_code() == 2;
            assert!(is_right, "{err}");
        }
    }

    #[test]
    fn chance_favours_what_is_done_by_itself() {
        let secs = [3.0, 1.0, 2.0, 5.0, 4.0, 6.0];
        assert_eq!([figure(&secs, true), figure(&secs, false)], [2.0, 5.0]);
        assert_eq!(figure(&[7.0], false), 7.0);
        assert_eq!(figure(&[], true), f64::INFINITY);
    }
}
