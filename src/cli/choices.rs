//! `safelight choices`: which ways of computing were measured on this machine's devices, with their figures, and
//! measuring them now.
//!
//! A worker does the same by itself while no job runs; see `worker::choices`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use safelight_core::job::{DeviceChoice, DtypeChoice, JobError, JobErrorKind};
use safelight_core::memory::ModelWeights;
use safelight_core::memory::choices::{Shapes, StoredChoice, halves, stored};
use serde_json::json;

use super::generate::GenerateArgs;
use super::{Surroundings, out, plan};
use crate::worker::choices::{Outcome, Target, keep, keys, measured};
use crate::worker::link::EngineLauncher as _;
use crate::worker::probe_engine;

/// Loading a GPU runtime from a cold disk is slow.
const START_LIMIT: Duration = Duration::from_mins(3);

/// Show which ways of computing are the fastest on this GPU, as they were measured; with --measure measure them now, at the sizes of a job that is described with the arguments of generate
#[derive(Args, Debug)]
pub struct ChoicesArgs {
    /// Measure now, which takes some minutes at most; without --model at the sizes of a picture of 1024 × 1024 and a clip of 480p
    #[arg(long)]
    measure: bool,
    #[command(flatten)]
    generate: GenerateArgs,
}

/// Runs the command: 0 unless nothing could be measured, which is 1.
pub fn run(args: ChoicesArgs, surroundings: &Surroundings) -> ExitCode {
    let is_json = args.generate.json;
    let mut problems = Vec::new();
    if args.measure
        && let Err(err) = measure(args.generate, surroundings, &mut problems)
    {
        return out::print_job_error(&err, is_json);
    }
    let told = stored(&surroundings.paths);
    let code = u8::from(!problems.is_empty());
    if is_json {
        return out::print_json(&json!({"choices": told, "problems": problems}), code);
    }
    out::print(&text(&told, &problems), code)
}

fn text(told: &[StoredChoice], problems: &[String]) -> String {
    if told.is_empty() && problems.is_empty() {
        return "Nothing was measured so far: `safelight choices --measure` does it now, the window while no job runs\n"
            .to_owned();
    }
    let lines = told.iter().map(StoredChoice::line);
    let devices = told.iter().map(|it| it.device.as_str());
    let lines = devices
        .zip(lines)
        .map(|(device, line)| format!("{device}: {line}\n"));
    let halves = halves(told).into_iter().map(|line| format!("{line}\n"));
    let problems = problems.iter().map(|line| format!("{line}\n"));
    lines.chain(halves).chain(problems).collect()
}

/// Measures everything that there is to choose on the device, and remembers it. `problems`: what could not be measured.
fn measure(
    args: GenerateArgs,
    surroundings: &Surroundings,
    problems: &mut Vec<String>,
) -> Result<(), JobError> {
    let (device, dtype, is_json) = (args.device, args.dtype, args.json);
    let shapes = if args.model.is_some() {
        shapes_of(args, surroundings)?
    } else {
        Shapes::default()
    };
    let settings = &surroundings.settings().runtime;
    let mut launcher = surroundings.process_launcher();
    let device = device.unwrap_or(settings.device);
    let report = probe_engine(&mut launcher, device, START_LIMIT)?;
    if report.device == DeviceChoice::Cpu {
        let what = "there is nothing to choose on the CPU: ways of computing are measured on GPUs";
        return Err(JobError::new(JobErrorKind::Device, what)
            .advise("Choose a libtorch for your GPU: `safelight doctor` says what is wrong"));
    }
    let order = launcher.measuring(report.device).ok_or_else(|| {
        JobError::new(JobErrorKind::Device, "the engine cannot be started")
            .advise("Run `safelight doctor` to check libtorch and the device")
    })?;
    let dtype = match dtype.unwrap_or(settings.dtype) {
        DtypeChoice::Auto => DtypeChoice::Bf16,
        dtype => dtype,
    };
    let keys = keys(&report, &order, &shapes, [dtype; 2]);
    let target = Target {
        device: report.device,
        shapes,
        tier: None,
    };
    for key in keys {
        if !is_json {
            let (label, dtype) = (key.choice.label(), &key.dtype);
            out::print(&format!("measuring: {label} {dtype}\n"), 0);
        }
        let mut command = || launcher.command(target.device).ok();
        match measured(&key, &target, &mut command, &|| false) {
            Outcome::Measured(measured) => {
                let file = surroundings.paths.choices_file();
                keep(&file, measured)
                    .map_err(|err| JobError::disk("what was measured cannot be kept", &err))?;
            }
            Outcome::Nothing(why) => {
                problems.push(format!(
                    "{} could not be measured: {why}",
                    key.choice.label()
                ));
            }
            Outcome::Cancelled => {}
        }
    }
    Ok(())
}

/// The sizes of a job that is described.
fn shapes_of(args: GenerateArgs, surroundings: &Surroundings) -> Result<Shapes, JobError> {
    let request = plan::request_of(args, surroundings)?;
    let weights = ModelWeights::read(request.family, &request.files, &request.loras)
        .map_err(|err| JobError::from(&err))?;
    Shapes::of(&weights, &request).ok_or_else(|| {
        let what = "the sizes of this model are not known";
        JobError::new(JobErrorKind::InvalidRequest, what)
            .advise("Leave --model out to measure at common sizes")
    })
}
