//! Which ways of computing a job takes where they differ in time alone, and measuring them while no job runs.
//!
//! A choice is measured in a process of its own, which is ended as soon as a job waits: what was measured until then is
//! kept, the rest is measured another time. Where a way hangs or takes its process along, the others are measured
//! without it. Computes nothing.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use safelight_core::job::{DeviceChoice, DtypeChoice, GenerateRequest};
use safelight_core::memory::Fault;
use safelight_core::memory::choices::{
    Alternative, Choice, ChoiceFile, ChoiceKey, ChoiceLine, ChoiceState, Choices, Measured, Shapes,
};
use safelight_core::memory::tiers::{ConvolutionTier, TierEnd};
use safelight_core::naming::now_secs;
use safelight_core::protocol::EngineReport;

use super::link::ProbeOrder;
use crate::child::{self, Ended};

/// How long a run may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// With loading libtorch, what the CPU computes to compare with, compiling and searching for algorithms.
    first: Duration,
    /// From there on.
    later: Duration,
}

const LIMITS: Limits = Limits {
    first: Duration::from_mins(4),
    later: Duration::from_secs(30),
};

/// What is measured at, besides a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub device: DeviceChoice,
    pub shapes: Shapes,
    /// How convolutions are computed, where that is known.
    pub tier: Option<ConvolutionTier>,
}

/// What became of one measurement.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Measured(Measured),
    /// Nobody waits for it any more.
    Cancelled,
    /// There is nothing to compare with: why.
    Nothing(String),
}

/// What measurements of a job's sizes are kept under, those that the job takes first. `dtype`: of the transformer.
pub fn keys(
    report: &EngineReport,
    order: &ProbeOrder,
    shapes: &Shapes,
    [dtype, decoder_dtype]: [DtypeChoice; 2],
) -> Vec<ChoiceKey> {
    let versions = [
        report.device_name.as_str(),
        order.driver.as_str(),
        order.libtorch.as_str(),
    ];
    let mut keys = shapes.keys(versions, [dtype.name(), decoder_dtype.name()]);
    let other = match dtype {
        DtypeChoice::Bf16 => DtypeChoice::F16,
        DtypeChoice::F16 => DtypeChoice::Bf16,
        _ => return keys,
    };
    // To compare the two.
    let others = shapes.keys(versions, [other.name(); 2]);
    keys.extend(
        others
            .into_iter()
            .filter(|key| matches!(key.choice, Choice::Attention | Choice::Matrices)),
    );
    keys
}

/// What a job's transformer and its decoder compute in, as the engine places them on a GPU.
pub(super) fn dtypes(request: &GenerateRequest) -> [DtypeChoice; 2] {
    let own = match request.dtype {
        DtypeChoice::Auto => DtypeChoice::Bf16,
        dtype => dtype,
    };
    [own, request.family.vae_dtype(request.dtype)]
}

/// What is remembered, and what is yet to be measured.
pub(super) struct Store {
    file: Option<PathBuf>,
    known: ChoiceFile,
    /// What the last jobs would have taken.
    wished: Vec<(ChoiceKey, Target)>,
    limits: Limits,
}

impl Store {
    /// `file`: where measurements are kept, if anywhere.
    pub(super) fn load(file: Option<PathBuf>) -> Self {
        Self {
            known: file.as_deref().map(ChoiceFile::load).unwrap_or_default(),
            file,
            wished: Vec::new(),
            limits: LIMITS,
        }
    }

    /// What a job takes, whose user chose `hand`; what is not known yet is wished for.
    pub(super) fn settle(
        &mut self,
        hand: Choices,
        keys: Vec<ChoiceKey>,
        target: &Target,
    ) -> Choices {
        if let Some(file) = &self.file {
            // Another program may have measured.
            self.known = ChoiceFile::load(file);
        }
        let settled = self.known.settle(hand, &keys);
        let now = now_secs();
        for key in keys {
            let is_known = self.known.find(&key).is_some_and(|it| !it.is_due(now));
            if !is_known && self.wished.iter().all(|(wished, _)| *wished != key) {
                self.wished.push((key, target.clone()));
            }
        }
        settled
    }

    pub(super) fn has_wishes(&self) -> bool {
        !self.wished.is_empty()
    }

    pub(super) fn forget_wishes(&mut self) {
        self.wished.clear();
    }

    /// Measures what is wished for, until `is_cancelled`. What could not be measured is tried again when the program
    /// starts the next time.
    pub(super) fn measure(
        &mut self,
        order: &mut dyn FnMut(DeviceChoice) -> Option<ProbeOrder>,
        is_cancelled: &dyn Fn() -> bool,
    ) {
        while let Some((key, target)) = self.wished.first() {
            let mut command = || Some(order(target.device)?.command);
            let outcome = measured_within(self.limits, key, target, &mut command, is_cancelled);
            match outcome {
                Outcome::Cancelled => return,
                Outcome::Measured(measured) => self.keep(measured),
                Outcome::Nothing(why) => {
                    tracing::info!("{} could not be measured: {why}", key.choice.label());
                }
            }
            self.wished.remove(0);
        }
    }

    fn keep(&mut self, measured: Measured) {
        self.known.put(measured.clone());
        let Some(file) = &self.file else { return };
        if let Err(err) = keep(file, measured) {
            // It costs another measurement.
            tracing::warn!("what was measured could not be kept: {err}");
        }
    }
}

/// Adds to what is remembered in a file, which others write to as well.
pub fn keep(file: &Path, measured: Measured) -> io::Result<()> {
    let mut known = ChoiceFile::load(file);
    known.put(measured);
    known.save(file)
}

/// Measures every way of a choice. `command`: an engine without arguments, `None` where none can be started.
pub fn measured(
    key: &ChoiceKey,
    target: &Target,
    command: &mut dyn FnMut() -> Option<Command>,
    is_cancelled: &dyn Fn() -> bool,
) -> Outcome {
    measured_within(LIMITS, key, target, command, is_cancelled)
}

fn measured_within(
    limits: Limits,
    key: &ChoiceKey,
    target: &Target,
    command: &mut dyn FnMut() -> Option<Command>,
    is_cancelled: &dyn Fn() -> bool,
) -> Outcome {
    // Ways that hung or ended their process.
    let mut bad: Vec<Alternative> = Vec::new();
    let mut found = loop {
        let Some(command) = command() else {
            return Outcome::Nothing("no engine could be started".to_owned());
        };
        let run = run(limits, key, target, &bad, command, is_cancelled);
        match run.ended {
            Ended::Cancelled => return Outcome::Cancelled,
            // What it said counts, whatever its destructors do behind it.
            _ if run.trying.is_none() && !run.found.is_empty() => break run.found,
            ended => {
                let reason = match &ended {
                    Ended::TooLate { .. } | Ended::Cancelled => "it hung".to_owned(),
                    Ended::Well => "it ended without an answer".to_owned(),
                    Ended::Badly { how, complaint } => {
                        let last = complaint.lines().last().unwrap_or_default();
                        format!("{how} {last}").trim_end().to_owned()
                    }
                };
                let Some(choices) = run.trying else {
                    return Outcome::Nothing(reason);
                };
                let end = match ended {
                    Ended::TooLate { secs } => TierEnd::TimedOut { secs: secs as f64 },
                    _ => TierEnd::Failed { reason },
                };
                bad.push(Alternative { choices, end });
            }
        }
        if bad.len() >= key.choice.alternatives().len() {
            break Vec::new();
        }
    };
    found.extend(bad);
    // Want of memory is of the moment.
    found.retain(|it| !is_for_memory(&it.end));
    let order = key.choice.alternatives();
    found.sort_by_key(|it| order.iter().position(|way| *way == it.choices));
    if found
        .first()
        .is_none_or(|it| it.choices != Choices::default())
    {
        return Outcome::Nothing("there was not enough memory for it".to_owned());
    }
    let measured = Measured {
        key: key.clone(),
        since_secs: now_secs(),
        alternatives: found,
    };
    let best = measured.best(Choices::default()).words(key.choice);
    tracing::info!(
        "{} ({}, {}): {best}",
        key.choice.label(),
        key.dtype,
        key.shape
    );
    Outcome::Measured(measured)
}

fn is_for_memory(end: &TierEnd) -> bool {
    let TierEnd::Failed { reason } = end else {
        return false;
    };
    reason.starts_with("out of memory")
        || Fault::of_last_words(reason).is_some_and(Fault::is_memory)
}

struct Run {
    found: Vec<Alternative>,
    /// What ran when it ended, if anything.
    trying: Option<Choices>,
    ended: Ended,
}

fn run(
    limits: Limits,
    key: &ChoiceKey,
    target: &Target,
    without: &[Alternative],
    mut command: Command,
    is_cancelled: &dyn Fn() -> bool,
) -> Run {
    let json = |value: serde_json::Result<String>| value.unwrap_or_default();
    command
        .args(["probe-choices", "--json"])
        .args(["--device", &target.device.to_string()])
        .args(["--choice", key.choice.name()])
        .args(["--shapes", &json(serde_json::to_string(&target.shapes))]);
    if !key.dtype.is_empty() {
        command.args(["--dtype", &key.dtype]);
    }
    if let Some(tier) = target.tier {
        command.args(["--tier", tier.name()]);
    }
    for way in without {
        command.args(["--without", &json(serde_json::to_string(&way.choices))]);
    }
    let mut found: Vec<Alternative> = Vec::new();
    let mut trying = None;
    let ended = child::run_in_parts(command, limits.first, is_cancelled, &mut |line| {
        // Libraries print what they like.
        let line: ChoiceLine = serde_json::from_str(line).ok()?;
        let choices = line.alternative;
        match line.state {
            ChoiceState::Trying { is_first } => {
                trying = Some(choices);
                Some(if is_first { limits.first } else { limits.later })
            }
            ChoiceState::Done { end } => {
                trying = None;
                found.push(Alternative { choices, end });
                Some(limits.first)
            }
        }
    });
    Run {
        found,
        trying,
        ended,
    }
}

#[cfg(test)]
mod tests;
