//! `safelight bench`: how long the networks take on this machine, and how much memory.
//!
//! The engine measures, on the runtime that jobs would have, and words what it refuses; here it is started and its
//! lines are shown.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{ExitCode, Stdio};

use clap::{Args, Subcommand};
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use serde_json::Value;

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
    Wan(WanArgs),
}

/// Wan: one call of each transformer, decoding, reading a prompt
#[derive(Args, Debug)]
struct WanArgs {
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
    /// Print one JSON object a case
    #[arg(long)]
    json: bool,
}

/// Runs the command: 2 for what cannot be measured, 1 when a case failed.
pub fn run(args: &BenchArgs, surroundings: &Surroundings) -> ExitCode {
    let Family::Wan(args) = &args.family;
    match measure(args, surroundings) {
        Ok(code) => code,
        Err(err) => out::print_job_error(&err, args.json),
    }
}

fn measure(args: &WanArgs, surroundings: &Surroundings) -> Result<ExitCode, JobError> {
    let device = args
        .device
        .unwrap_or_else(|| surroundings.settings().runtime.device);
    let mut command = surroundings.process_launcher().command()?;
    command.args(["bench", "--device", &device.to_string()]);
    if args.small {
        command.arg("--small");
    }
    if let Some(runs) = &args.runs {
        command.args(["--runs", runs]);
    }
    // Its sentences on standard error are for the user as they are.
    command
        .args(&args.cases)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut engine = command.spawn().map_err(|err| not_started(&err))?;
    let mut is_first = true;
    for line in engine
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufReader::lines)
    {
        let Ok(line) = line else { break };
        let text = if args.json {
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
    let status = engine.wait();
    let status = status.map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
    match status.code() {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        None => Err(JobError::new(
            JobErrorKind::EngineLost,
            format!("the engine was ended while it measured: {status}"),
        )),
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
