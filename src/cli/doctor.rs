//! `safelight doctor`: the examination as lines for people, or as one JSON object.
//!
//! What is examined is in [`crate::doctor`].

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::units::size_text;
use serde_json::json;

use super::{Surroundings, out};
use crate::doctor::{Check, Status, examine_this_machine, miopen, worst};

/// The longest name of a check, so that all stand under each other.
const WIDTH: usize = 12;

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
pub fn run(args: &DoctorArgs, surroundings: &Surroundings) -> ExitCode {
    if args.clear_miopen_cache {
        return clear(args, surroundings);
    }
    let mut checks = Vec::new();
    examine_this_machine(
        surroundings.paths.clone(),
        surroundings.process_launcher(),
        !args.quick,
        &mut |check| {
            if !args.json {
                // As it is known: measuring takes its time. A reader that went away still gets the exit code.
                out::print(&as_text(&check), 0);
            }
            checks.push(check);
        },
    );
    let worst = worst(&checks);
    let code = u8::from(worst == Status::Fail);
    if args.json {
        out::print_json(&json!({"status": worst, "checks": checks}), code)
    } else {
        ExitCode::from(code)
    }
}

fn clear(args: &DoctorArgs, surroundings: &Surroundings) -> ExitCode {
    match miopen::clear(&surroundings.paths) {
        Ok(bytes) if args.json => out::print_json(&json!({"cleared_bytes": bytes}), 0),
        Ok(bytes) => out::print(&format!("cleared {}\n", size_text(bytes)), 0),
        Err(err) => {
            let what = format!("MIOpen's cache cannot be cleared: {err}");
            let err = JobError::new(JobErrorKind::Disk, what);
            out::print_job_error(&err, args.json)
        }
    }
}

fn as_text(check: &Check) -> String {
    let mark = match check.status {
        Status::Ok => "ok  ",
        Status::Warn => "note",
        Status::Fail => "FAIL",
    };
    let mut text = format!("{mark}  {:WIDTH$}  {}\n", check.name, check.message);
    for (arrow, line) in [("->", &check.advice), (" $", &check.command)] {
        if !line.is_empty() {
            // Writing to a string cannot fail.
            writeln!(text, "      {:WIDTH$}  {arrow} {line}", "").ok();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::doctor::Group;

    use super::*;

    #[test]
    fn the_text_has_a_line_a_check_one_a_piece_of_advice_and_one_a_command() {
        let check = |name, status, message: &str, advice: &str, command: &str| Check {
            group: Group::Engine,
            name,
            status,
            message: message.to_owned(),
            advice: advice.to_owned(),
            command: command.to_owned(),
            figure: None,
        };
        let checks = [
            check("a", Status::Ok, "fine", "", ""),
            check("long", Status::Fail, "bad", "mend it", "sudo mend"),
            check("b", Status::Warn, "odd", "", ""),
        ];
        let text: String = checks.iter().map(as_text).collect();
        let lines = [
            "ok    a             fine",
            "FAIL  long          bad",
            "                    -> mend it",
            "                     $ sudo mend",
            "note  b             odd",
        ];
        assert_eq!(text, format!("{}\n", lines.join("\n")));
    }
}
