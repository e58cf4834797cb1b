//! Self-test of a libtorch in a separate process, which may hang or crash.
//!
//! The engine computes; this module judges its output and exit.

use std::time::Duration;

use safelight_core::job::{CancelToken, DeviceChoice, JobError, JobErrorKind};
use safelight_core::self_test::{SelfTest, TrialLine};
use safelight_core::settings::{LibtorchRuntime, RuntimeSettings};

use crate::child::{self, ChildExit};
use crate::telemetry::{SystemRoots, amdgpu};
use crate::worker::{ProcessLauncher, explain_start};

/// Loading a GPU's libraries from a cold disk takes a minute, and ROCm compiles its kernels for convolutions.
const LIMIT: Duration = Duration::from_mins(5);

/// Result of the self-test.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeCheck {
    /// The engine's words on the device that it got.
    pub device: String,
    /// Why its GPU part was not used, where that is no failure.
    pub gpu_problem: Option<String>,
    pub lines: Vec<TrialLine>,
}

/// Tries it on the device that jobs would get; `None` when cancelled. `needs_gpu`: one that is for a GPU and does not use
/// it fails.
pub fn check(
    runtime: &LibtorchRuntime,
    settings: &RuntimeSettings,
    needs_gpu: bool,
    cancel: &CancelToken,
) -> Result<Option<RuntimeCheck>, JobError> {
    let (of_launcher, runtime_settings) = (runtime.clone(), settings.clone());
    let mut launcher = ProcessLauncher::new(Box::new(move || {
        (runtime_settings.clone(), Ok(of_launcher.clone()))
    }));
    let mut command = launcher.command(settings.device)?;
    command.args(["try", "--device", &settings.device.to_string()]);
    let mut lines = Vec::new();
    let ended = child::run(command, LIMIT, &|| cancel.is_cancelled(), &mut |line| {
        lines.extend(serde_json::from_str::<TrialLine>(line));
    });
    let concerns = runtime.concerns(&amdgpu::targets(&SystemRoots::of_this_machine().sysfs));
    judged(
        lines,
        &ended,
        |words| explain_start(words, &concerns),
        needs_gpu && settings.device != DeviceChoice::Cpu,
    )
}

fn judged(
    lines: Vec<TrialLine>,
    ended: &ChildExit,
    explain: impl FnOnce(&str) -> Option<JobError>,
    needs_gpu: bool,
) -> Result<Option<RuntimeCheck>, JobError> {
    let failed = |what: String| {
        JobError::new(JobErrorKind::Device, what)
            .advise("Choose another libtorch, or look at what `safelight doctor` says of the GPU")
    };
    // A driver that hangs leaves a trial without an end.
    let last = match lines.last() {
        Some(TrialLine::Begin { trial }) => Some(*trial),
        _ => None,
    };
    let at = |last: Option<SelfTest>| {
        last.map_or_else(String::new, |trial| format!(" at {}", trial.label()))
    };
    match ended {
        ChildExit::Cancelled => return Ok(None),
        ChildExit::TooLate { secs } => {
            return Err(failed(format!(
                "this libtorch hangs{} (stopped after {secs} s)",
                at(last)
            )));
        }
        ChildExit::Badly { how, complaint } if lines.is_empty() || last.is_some() => {
            let words = format!("{how}\n{complaint}");
            return Err(explain(&words).unwrap_or_else(|| {
                let line = complaint.lines().last().unwrap_or_default();
                failed(format!("this libtorch crashes{}: {how}: {line}", at(last))).detail(&words)
            }));
        }
        ChildExit::Badly { .. } | ChildExit::Well => {}
    }
    let mut text = String::new();
    let mut problem = None;
    for line in &lines {
        match line {
            TrialLine::Device {
                text: message,
                gpu_problem,
                ..
            } => {
                problem.clone_from(gpu_problem);
                if let Some(problem) = gpu_problem.as_ref().filter(|_| needs_gpu) {
                    return Err(failed(format!(
                        "this libtorch does not use the GPU: {problem}"
                    )));
                }
                text.clone_from(message);
            }
            TrialLine::Failed { trial, reason } => {
                return Err(failed(format!("{} fails: {reason}", trial.label())));
            }
            TrialLine::Done {
                trial,
                error,
                limit,
            } if error > limit => {
                return Err(failed(format!(
                    "{} is computed wrongly: it is off by {error:.1e} of the largest number, where {limit:.0e} is allowed",
                    trial.label()
                )));
            }
            TrialLine::Done { .. } | TrialLine::Begin { .. } => {}
        }
    }
    Ok(Some(RuntimeCheck {
        device: text,
        gpu_problem: problem,
        lines,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONVOLUTION: SelfTest = SelfTest::Convolution;

    fn device(gpu_problem: Option<&str>) -> TrialLine {
        TrialLine::Device {
            text: "a device".to_owned(),
            is_gpu: gpu_problem.is_none(),
            gpu_problem: gpu_problem.map(str::to_owned),
        }
    }

    fn judge(lines: Vec<TrialLine>, ended: &ChildExit) -> Result<Option<RuntimeCheck>, String> {
        let judged = judged(lines, ended, |_| None, true);
        judged.map_err(|err| err.summary)
    }

    #[test]
    fn a_libtorch_that_computes_right_passes_with_its_device() {
        let done = TrialLine::Done {
            trial: CONVOLUTION,
            error: 1e-3,
            limit: 2e-2,
        };
        let lines = vec![device(None), TrialLine::Begin { trial: CONVOLUTION }, done];
        let checked = judge(lines, &ChildExit::Well).unwrap().unwrap();
        assert_eq!(checked.device, "a device");
        assert_eq!(judge(Vec::new(), &ChildExit::Cancelled), Ok(None));
        // On a machine without a GPU nothing more can be checked.
        let unused = vec![device(Some("it found no GPU"))];
        let checked = judged(unused, &ChildExit::Well, |_| None, false)
            .unwrap()
            .unwrap();
        assert_eq!(checked.gpu_problem.as_deref(), Some("it found no GPU"));
    }

    #[test]
    fn hangs_crashes_wrong_numbers_and_an_unused_gpu_are_one_sentence_each() {
        let crashed = || ChildExit::Badly {
            how: "signal 11".to_owned(),
            complaint: "first\nHSA exception".to_owned(),
        };
        let begun = || vec![device(None), TrialLine::Begin { trial: CONVOLUTION }];
        let wrong = TrialLine::Done {
            trial: CONVOLUTION,
            error: 0.5,
            limit: 2e-2,
        };
        let failed = TrialLine::Failed {
            trial: CONVOLUTION,
            reason: "no kernel image".to_owned(),
        };
        let assert_said = |lines, ended: ChildExit, said: &str| {
            assert_eq!(judge(lines, &ended), Err(said.to_owned()));
        };
        let said = "this libtorch hangs at a convolution (stopped after 300 s)";
        assert_said(begun(), ChildExit::TooLate { secs: 300 }, said);
        let said = "this libtorch crashes at a convolution: signal 11: HSA exception";
        assert_said(begun(), crashed(), said);
        let said = "this libtorch crashes: signal 11: HSA exception";
        assert_said(Vec::new(), crashed(), said);
        let said = "a convolution is computed wrongly: it is off by 5.0e-1 of the largest number, where 2e-2 is allowed";
        assert_said(vec![device(None), wrong], crashed(), said);
        let said = "a convolution fails: no kernel image";
        assert_said(vec![device(None), failed], crashed(), said);
        let said = "this libtorch does not use the GPU: it is odd";
        assert_said(vec![device(Some("it is odd"))], crashed(), said);
    }
}
