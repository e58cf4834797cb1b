//! `safelight bench`: how long the networks take on this machine, how much memory, and how fast weights are loaded.
//!
//! The engine measures, on the runtime that jobs would have, and words what it refuses; here it is started and its
//! lines are shown, and with `--json` its refusal as an object too.

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};
use std::thread;

use clap::{Args, Subcommand};
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use serde_json::{Value, json};

use super::soak::{self, SoakArgs};
use super::watching::{self, TelemetryArgs};
use super::{Surroundings, out};
use crate::worker::not_started;

/// Measure how fast the networks and loading are on this machine
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
    /// FramePack: one step of a section, decoding, reading a prompt
    #[command(name = "framepack")]
    FramePack(FamilyArgs),
    /// FramePack's step caches: how far each is from every step computed, and how many steps it skips
    StepCache(StepCacheArgs),
    /// Loading weights to the device, beside what the device and the disk can do
    Load(LoadArgs),
    /// What watching memory, temperature and power beside a job costs
    Telemetry(TelemetryArgs),
    Soak(SoakArgs),
}

#[derive(Args, Debug)]
struct StepCacheArgs {
    /// teacache, magcache or first_block, perhaps with a threshold such as teacache:0.1; several may be given [default: all]
    #[arg(value_name = "CACHE[:X]")]
    caches: Vec<String>,
    /// A FramePack model: a diffusers folder or a transformer's file [default: random numbers]
    #[arg(long, value_name = "PATH")]
    model: Option<String>,
    /// Denoising steps [default: 25]
    #[arg(long, value_name = "N")]
    steps: Option<String>,
    /// As that of generate [default: unipc_bh1]
    #[arg(long, value_name = "NAME")]
    sampler: Option<String>,
    /// A small network of random numbers, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object a cache, or one that says why nothing is measured
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct LoadArgs {
    /// A weight file or component folder; without it, files of random numbers in the temporary folder
    #[arg(value_name = "FILE|DIR")]
    place: Option<PathBuf>,
    /// Size of each file of random numbers
    #[arg(long, value_name = "MIB")]
    mib: Option<String>,
    /// Timed runs of each file
    #[arg(long, value_name = "N")]
    runs: Option<String>,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object a file, or one that says why nothing is measured
    #[arg(long)]
    json: bool,
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
    /// Also with so many GiB kept free of weights, which then stream from a file made for it
    #[arg(long, value_name = "GIB,…")]
    preserved: Option<String>,
    /// Use no more than so many GiB of the device where weights stream
    #[arg(long, value_name = "GIB")]
    cap: Option<String>,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object a case, or one that says why nothing is measured
    #[arg(long)]
    json: bool,
}

/// What the engine is asked to measure.
struct Request<'a> {
    family: &'static str,
    device: Option<DeviceChoice>,
    options: Vec<&'a str>,
    /// Cases or paths: no options, however they begin.
    names: Vec<OsString>,
    is_json: bool,
    table: Table,
}

/// Runs the command: 2 for what cannot be measured, 1 when a case failed.
pub fn run(args: &BenchArgs, surroundings: &Surroundings) -> ExitCode {
    let request = match &args.family {
        Family::Wan(args) => args.request("wan"),
        Family::Flux(args) => args.request("flux"),
        Family::FramePack(args) => args.request("framepack"),
        Family::StepCache(args) => args.request(),
        Family::Load(args) => args.request(),
        Family::Telemetry(args) => return watching::run(args, surroundings),
        Family::Soak(args) => {
            let soaked = soak::run(args, surroundings);
            return soaked.unwrap_or_else(|err| out::print_job_error(&err, args.is_json()));
        }
    };
    match measure(&request, surroundings) {
        Ok(code) => code,
        Err(err) => out::print_job_error(&err, request.is_json),
    }
}

impl FamilyArgs {
    fn request(&self, family: &'static str) -> Request<'_> {
        let mut options = Vec::new();
        if self.small {
            options.push("--small");
        }
        if let Some(runs) = &self.runs {
            options.extend(["--runs", runs]);
        }
        if let Some(preserved) = &self.preserved {
            options.extend(["--preserved", preserved]);
        }
        if let Some(cap) = &self.cap {
            options.extend(["--cap", cap]);
        }
        Request {
            family,
            device: self.device,
            options,
            names: self.cases.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: NETWORKS,
        }
    }
}

impl StepCacheArgs {
    fn request(&self) -> Request<'_> {
        let mut options = Vec::new();
        if self.small {
            options.push("--small");
        }
        for (name, value) in [
            ("--model", &self.model),
            ("--steps", &self.steps),
            ("--sampler", &self.sampler),
        ] {
            if let Some(value) = value {
                options.extend([name, value]);
            }
        }
        Request {
            family: "step-cache",
            device: self.device,
            options,
            names: self.caches.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: STEP_CACHES,
        }
    }
}

impl LoadArgs {
    fn request(&self) -> Request<'_> {
        let mut options = Vec::new();
        if let Some(runs) = &self.runs {
            options.extend(["--runs", runs]);
        }
        if let Some(mib) = &self.mib {
            options.extend(["--mib", mib]);
        }
        Request {
            family: "load",
            device: self.device,
            options,
            names: self.place.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: LOADING,
        }
    }
}

fn measure(request: &Request<'_>, surroundings: &Surroundings) -> Result<ExitCode, JobError> {
    let device = request
        .device
        .unwrap_or_else(|| surroundings.settings().runtime.device);
    let mut command = surroundings.process_launcher().command(device)?;
    command
        .args(["bench", request.family, "--device", &device.to_string()])
        .args(&request.options);
    command
        .arg("--")
        .args(&request.names)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if request.is_json {
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
    show(&mut engine, request);
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
fn show(engine: &mut Child, request: &Request<'_>) {
    let mut is_first = true;
    for line in engine
        .stdout
        .take()
        .map(BufReader::new)
        .into_iter()
        .flat_map(BufReader::lines)
    {
        let Ok(line) = line else { break };
        let text = if request.is_json {
            format!("{line}\n")
        } else {
            let mut text = if is_first {
                (request.table.heading)()
            } else {
                String::new()
            };
            text.push_str(&(request.table.row)(&line));
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

/// How results are shown to people.
struct Table {
    heading: fn() -> String,
    row: fn(&str) -> String,
}

const NETWORKS: Table = Table { heading, row };
const STEP_CACHES: Table = Table {
    heading: step_cache_heading,
    row: step_cache_row,
};
const LOADING: Table = Table {
    heading: load_heading,
    row: load_row,
};

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

fn step_cache_heading() -> String {
    format!(
        "{:<14}{:>10}{:>14}{:>16}{:>10}  device\n",
        "cache", "threshold", "steps skipped", "off (rel. L2)", "seconds"
    )
}

/// A line of the engine about a step cache.
fn step_cache_row(line: &str) -> String {
    let Ok(line) = serde_json::from_str::<Value>(line) else {
        return String::new();
    };
    let text = |key: &str| line[key].as_str().unwrap_or("-").to_owned();
    let number = |key: &str| line[key].as_f64();
    let threshold = number("threshold").map_or_else(|| "-".to_owned(), |it| it.to_string());
    let skipped = format!("{} of {}", line["skipped"], line["steps"]);
    format!(
        "{:<14}{threshold:>10}{skipped:>14}{:>16.2e}{:>10.2}  {}\n",
        text("cache"),
        number("relative_l2").unwrap_or_default(),
        number("secs").unwrap_or_default(),
        text("device"),
    )
}

fn load_heading() -> String {
    format!(
        "{:12} {:>8} {:>8} {:>10} {:>10} {:>12} {:>12} {:>12}  {}\n",
        "case",
        "GiB",
        "tensors",
        "median s",
        "GiB/s",
        "device GiB/s",
        "cold GiB/s",
        "disk GiB/s",
        "device"
    )
}

/// A line of the engine about loading; what was not measured is a dash.
fn load_row(line: &str) -> String {
    let Ok(found) = serde_json::from_str::<Value>(line) else {
        return format!("{line}\n");
    };
    let number = |value: &Value, digits: usize| {
        let number = value.as_f64();
        number.map_or_else(|| "-".to_owned(), |number| format!("{number:.digits$}"))
    };
    let mut row = format!(
        "{:12} {:>8} {:>8} {:>10} {:>10} {:>12} {:>12} {:>12}  {}\n",
        found["case"].as_str().unwrap_or_default(),
        number(&found["gib"], 2),
        number(&found["tensors"], 0),
        number(&found["median_s"], 4),
        number(&found["gib_per_s"], 2),
        number(&found["pinned_copy_gib_per_s"], 2),
        number(&found["cold"]["gib_per_s"], 2),
        number(&found["cold"]["disk_gib_per_s"], 2),
        found["device"].as_str().unwrap_or_default(),
    );
    if found["is_whole"] == Value::Bool(false) {
        row.push_str("failed: what came to the device is not what the file holds\n");
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_caches_stand_under_their_heading() {
        let line = r#"{"cache":"teacache","threshold":0.15,"steps":25,"skipped":12,"relative_l2":0.0371,"secs":4.5,
            "device":"A GPU"}"#;
        let row = step_cache_row(line);
        for part in ["teacache", "0.15", "12 of 25", "3.71e-2", "4.50", "A GPU"] {
            assert!(row.contains(part), "{row}");
        }
        let heading = step_cache_heading();
        assert_eq!(row.find("A GPU"), heading.find("device"), "{heading}{row}");
    }

    #[test]
    fn rows_stand_under_their_heading_and_failures_say_why() {
        let line = r#"{"case":"vae_wan_480p_81f_tiled","median_s":12.34567,"min_s":12.1,"weights_gib":26.5,
            "peak_gib":31.25,"peak_reserved_gib":33.0,"device":"A GPU","dtype":"bf16"}"#;
        let row = row(line);
        let at = |text: &str, part: &str| text.find(part).map(|start| start + part.len());
        assert_eq!(at(&row, "12.3457"), at(&heading(), "median s"), "{row}");
        assert_eq!(at(&row, "31.25"), at(&heading(), "peak GiB"), "{row}");
        assert_eq!(row.find("A GPU, bf16"), heading().find("device"), "{row}");
        let line = r#"{"case":"load_tiny","gib":2.0,"tensors":8192,"median_s":0.05,"gib_per_s":40.0,
            "cold":{"gib_per_s":1.25,"disk_gib_per_s":1.5},"device":"A GPU","is_whole":true}"#;
        let row = load_row(line);
        assert_eq!(
            at(&row, " 1.25"),
            at(&load_heading(), "cold GiB/s"),
            "{row}"
        );
        assert_eq!(at(&row, " -"), at(&load_heading(), "device GiB/s"), "{row}");
        assert_eq!(row.find("A GPU"), load_heading().rfind("device"), "{row}");
        assert!(load_row(r#"{"case":"load","is_whole":false}"#).contains("failed:"));
        let failed = super::row(r#"{"case":"umt5xxl","error":"out of memory"}"#);
        assert_eq!(failed, "umt5xxl                  failed: out of memory\n");
    }
}
