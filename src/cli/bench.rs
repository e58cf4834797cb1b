//! `safelight bench`: how long the networks take on this machine, and how much memory.
//!
//! The engine measures, on the runtime that jobs would have, and words what it refuses; here it is started and its
//! lines are shown, and with `--json` its refusal as an object too.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::process::{Child, ExitCode, Stdio};
use std::thread;

use clap::{Args, Subcommand};
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use serde_json::{Value, json};

use super::{Surroundings, out};
use crate::worker::not_started;

/// Measure how fast the networks are on this machine, with random weights
#[derive(Args, Debug)]
pub struct BenchArgs {
    #[command(subcommand)]
    family: Family,
}

#[derive(Subcommand, Debug)]
enum Family {
    /// Wan: one call of each transformer, decoding, reading a prompt
    Wan(FamilyArgs),
    /// Flux: one step of the transformer, decoding, reading a prompt
    Flux(FamilyArgs),
}

#[derive(Args, Debug)]
struct FamilyArgs {
    /// What to measure; may be given several times, everything by default
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// Small networks of the same structure, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// Timed runs of each case
    #[arg(long, value_name = "N")]
    runs: Option<String>,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object a case, or one that says why nothing is measured
    #[arg(long)]
    json: bool,
}

/// Runs the command: 2 for what cannot be measured, 1 when a case failed.
pub fn run(args: &BenchArgs, surroundings: &Surroundings) -> ExitCode {
    let (family, args) = match &args.family {
        Family::Wan(args) => ("wan", args),
        Family::Flux(args) => ("flux", args),
    };
    match measure(family, args, surroundings) {
        Ok(code) => code,
        Err(err) => out::print_job_error(&err, args.json),
    }
}

fn measure(
    family: &str,
    args: &FamilyArgs,
    surroundings: &Surroundings,
) -> Result<ExitCode, JobError> {
    let device = args
        .device
        .unwrap_or_else(|| surroundings.settings().runtime.device);
    let mut command = surroundings.process_launcher().command()?;
    command.args(["bench", family, "--device", &device.to_string()]);
    if args.small {
        command.arg("--small");
    }
    if let Some(runs) = &args.runs {
        command.args(["--runs", runs]);
    }
    // What stands behind the dashes is no option, however it begins.
    command
        .arg("--")
        .args(&args.cases)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if args.json {
        command.stderr(Stdio::piped());
    }
    let mut engine = command.spawn().map_err(|err| not_started(&err))?;
    // Drained beside the results: neither may wait for the other.
    let told = match engine.stderr.take() {
        Some(told) => {
            let thread = thread::Builder::new().name("bench-told".to_owned());
            let started = thread.spawn(|| pass_on(told));
            Some(started.map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?)
        }
        None => None,
    };
    show(&mut engine, args.json);
    let status = engine.wait();
    let refusal = told.and_then(|told| told.join().ok().flatten());
    let status = status.map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
    match (status.code(), refusal) {
        (Some(code), refusal) => {
            let code = u8::try_from(code).unwrap_or(1);
            Ok(match refusal {
                Some(error) if code != 0 => out::print_json(
                    &json!({"error": error, "advice": "", "exit_code": code}),
                    code,
                ),
                _ => ExitCode::from(code),
            })
        }
        (None, _) => Err(JobError::new(
            JobErrorKind::EngineLost,
            format!("the engine was ended while it measured: {status}"),
        )),
    }
}

/// The engine's sentences are for the user as they are; returns the one that refuses, without its first word.
fn pass_on(told: impl Read) -> Option<String> {
    let mut refusal = None;
    for line in BufReader::new(told).split(b'\n') {
        let Ok(line) = line else { break };
        let line = String::from_utf8_lossy(&line);
        // Nobody is left to tell when standard error is closed.
        writeln!(io::stderr(), "{line}").ok();
        refusal = line.strip_prefix("error: ").map(str::to_owned).or(refusal);
    }
    refusal
}

/// The engine's lines as they come: as they are, or as rows of a table.
fn show(engine: &mut Child, is_json: bool) {
    let mut is_first = true;
    for line in engine
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufReader::lines)
    {
        let Ok(line) = line else { break };
        let text = if is_json {
            format!("{line}\n")
        } else {
            let mut text = if is_first { heading() } else { String::new() };
            text.push_str(&row(&line));
            text
        };
        is_first = false;
        let mut stdout = io::stdout().lock();
        if stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .is_err()
        {
            // The reader is gone, and nobody wants the rest.
            engine.kill().ok();
            break;
        }
    }
}

/// The widths fit the longest case and a day of seconds.
fn heading() -> String {
    format!(
        "{:24} {:>10} {:>10} {:>12} {:>10} {:>13}  {}\n",
        "case", "median s", "best s", "weights GiB", "peak GiB", "reserved GiB", "device"
    )
}

/// A line of the engine, for people.
fn row(line: &str) -> String {
    let Ok(found) = serde_json::from_str::<Value>(line) else {
        return format!("{line}\n");
    };
    let text = |name: &str| found[name].as_str().unwrap_or_default();
    if !text("error").is_empty() {
        return format!("{:24} failed: {}\n", text("case"), text("error"));
    }
    let number = |name: &str| found[name].as_f64().unwrap_or_default();
    format!(
        "{:24} {:>10.4} {:>10.4} {:>12.2} {:>10.2} {:>13.2}  {}, {}\n",
        text("case"),
        number("median_s"),
        number("min_s"),
        number("weights_gib"),
        number("peak_gib"),
        number("peak_reserved_gib"),
        text("device"),
        text("dtype"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_under_their_heading_and_failures_say_why() {
        let line = r#"{"case":"vae_wan_480p_81f_tiled","median_s":12.34567,"min_s":12.1,"weights_gib":26.5,
            "peak_gib":31.25,"peak_reserved_gib":33.0,"device":"A GPU","dtype":"bf16"}"#;
        let row = row(line);
        let at = |text: &str, part: &str| text.find(part).map(|start| start + part.len());
        assert_eq!(at(&row, "12.3457"), at(&heading(), "median s"), "{row}");
        assert_eq!(at(&row, "31.25"), at(&heading(), "peak GiB"), "{row}");
        assert_eq!(row.find("A GPU, bf16"), heading().find("device"), "{row}");
        let failed = super::row(r#"{"case":"umt5xxl","error":"out of memory"}"#);
        assert_eq!(failed, "umt5xxl                  failed: out of memory\n");
    }
}
