//! `safelight doctor`: the examination as lines for people, or as one JSON object.
//!
//! [`crate::doctor`] runs the checks.

use std::process::ExitCode;

use clap::Args;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::units::size_text;
use serde_json::json;

use super::{CliEnvironment, out};
use crate::doctor::{CheckStatus, examine_this_machine, miopen, worst};
use crate::worker::environment;

/// Check the engine, GPUs, memory, environment, speed, models and folders
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Skip the slow checks: the speed of the device and of the disk
    #[arg(long)]
    quick: bool,
    /// Only clear the disk cache of MIOpen, AMD's convolution library, and run no checks
    #[arg(long, conflicts_with = "quick")]
    clear_miopen_cache: bool,
}

/// Runs the command: 0 unless something fails, which is 1.
pub fn run(args: &DoctorArgs, environment: &CliEnvironment) -> ExitCode {
    if args.clear_miopen_cache {
        return clear(args, environment);
    }
    let mut checks = Vec::new();
    examine_this_machine(
        environment.paths.clone(),
        environment.process_launcher(),
        !args.quick,
        &mut |check| {
            if !args.json {
                // As it is known: measuring takes its time. A reader that went away still gets the exit code.
                out::print(&check.text(), 0);
            }
            checks.push(check);
        },
    );
    let worst = worst(&checks);
    let code = u8::from(worst == CheckStatus::Fail);
    if args.json {
        out::print_json(&json!({"status": worst, "checks": checks}), code)
    } else {
        ExitCode::from(code)
    }
}

fn clear(args: &DoctorArgs, environment: &CliEnvironment) -> ExitCode {
    let settings = &environment.loaded.settings.runtime;
    let inherited = environment::inherited();
    match miopen::clear(&miopen::places(&environment.paths, settings, &inherited)) {
        Ok(bytes) => {
            let text = format!("cleared {}\n", size_text(bytes));
            out::print_either(args.json, &json!({"cleared_bytes": bytes}), &text, 0)
        }
        Err(err) => {
            let what = format!("MIOpen's cache cannot be cleared: {err}");
            let err = JobError::new(JobErrorKind::Disk, what);
            out::print_job_error(&err, args.json)
        }
    }
}
