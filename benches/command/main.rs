//! `safelight-bench`: time and memory of the networks on this machine, and speed of loading weights.
//!
//! `safelight-bench-engine`, which lies beside this executable, measures on the runtime that jobs would have, and words
//! what it refuses; here it is started with that runtime's libtorch and its lines are shown, with `--json` its refusal as
//! an object too. This executable links no libtorch, so that it starts where there is none and can say so.

mod family;
mod request;
mod table;
mod telemetry;

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};
use std::thread;

use clap::{Args, Parser, Subcommand};
use family::OfFamily;
use request::{FragmentsArgs, KernelsArgs, LoadArgs, Request, StepCacheArgs, WaysArgs};
use safelight::cli::{Surroundings, log, out, print_comparison};
use safelight::report::compare::{self, ReportFigures};
use safelight::worker::{ProcessLauncher, not_started};
use safelight_core::job::{JobError, JobErrorKind};
use serde_json::json;
use telemetry::TelemetryArgs;

/// Measure how fast the networks and loading are on this machine
#[derive(Parser, Debug)]
#[command(name = "safelight-bench", version, about)]
struct Arguments {
    #[command(subcommand)]
    subject: Subject,
    /// Compare with lines that --json printed earlier, or with a report: 1 where something got slower by more than 5 %
    #[arg(long, global = true, value_name = "FILE")]
    against: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
enum Subject {
    #[command(flatten)]
    Family(OfFamily),
    /// FramePack's step caches: how far each is from every step computed, and how many steps it skips
    StepCache(StepCacheArgs),
    /// Loading weights to the device, beside what the device and the disk can do
    Load(LoadArgs),
    /// The ways in which a convolution over time can be computed, one JSON object each
    Conv(WaysArgs),
    /// The kinds of attention, one JSON object each
    Attention(WaysArgs),
    /// Whether Safelight's own kernels work on the device, and what they gain, as JSON
    Kernels(KernelsArgs),
    /// What the allocator that runtime.allocator chooses loses to fragments under a memory cap, as JSON
    Fragments(FragmentsArgs),
    /// What watching memory, temperature and power beside a job costs
    Telemetry(TelemetryArgs),
    Compare(CompareArgs),
}

/// Set what two runs printed with --json side by side: 1 where something got slower by more than 5 %
#[derive(Args, Debug)]
struct CompareArgs {
    /// Lines of --json, or a report
    #[arg(value_name = "A.json")]
    first: PathBuf,
    /// What is compared with it
    #[arg(value_name = "B.json")]
    second: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// 2 for what cannot be measured, 1 when a case failed.
fn main() -> ExitCode {
    let arguments = Arguments::try_parse().unwrap_or_else(|err| {
        if err.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
            out::print_job_error(&out::misunderstood(&err), true);
        }
        err.exit()
    });
    log::start();
    let surroundings = Surroundings::of_this_user();
    let request = match &arguments.subject {
        Subject::Family(of) => of.request(),
        Subject::StepCache(args) => args.request(),
        Subject::Load(args) => args.request(),
        Subject::Conv(args) => args.request("conv"),
        Subject::Attention(args) => args.request("attention"),
        Subject::Kernels(args) => args.request(),
        Subject::Fragments(args) => args.request(),
        Subject::Telemetry(args) => return telemetry::run(args, &surroundings),
        Subject::Compare(args) => {
            let compared = ReportFigures::read(&args.first).and_then(|first| {
                let second = ReportFigures::read(&args.second)?;
                Ok(compared(&first, &second, args.json))
            });
            return compared.unwrap_or_else(|err| out::print_job_error(&err, args.json));
        }
    };
    let measured = || {
        // Before minutes of work: a file that cannot be compared with is known now.
        let before = arguments
            .against
            .as_deref()
            .map(ReportFigures::read)
            .transpose()?;
        let (code, lines) = measure(&request, &surroundings)?;
        Ok(match before {
            Some(before) if code == 0 => {
                compared(&before, &ReportFigures::from_lines(&lines), request.is_json)
            }
            _ => ExitCode::from(code),
        })
    };
    measured().unwrap_or_else(|err| out::print_job_error(&err, request.is_json))
}

/// Two sheets for people, or as one JSON object; 1 where something got worse.
fn compared(before: &ReportFigures, after: &ReportFigures, is_json: bool) -> ExitCode {
    let pairs = compare::compare(before, after);
    let code = u8::from(compare::num_worse(&pairs) > 0);
    print_comparison((before, after), &pairs, is_json, code)
}

/// Starts `safelight-bench-engine`, which lies beside this executable, on the runtime that the settings name.
fn launcher(surroundings: &Surroundings) -> ProcessLauncher {
    let mut launcher = surroundings.process_launcher();
    let own = std::env::current_exe().unwrap_or_default();
    launcher.set_executable(own.with_file_name("safelight-bench-engine"));
    launcher
}

/// The code, and the lines that came.
fn measure(request: &Request, surroundings: &Surroundings) -> Result<(u8, String), JobError> {
    let device = request
        .device
        .unwrap_or_else(|| surroundings.settings().runtime.device);
    let mut command = launcher(surroundings).command(device)?;
    command
        .args(&request.subject)
        .args(["--device", &device.to_string()])
        .args(&request.options);
    command
        .arg("--")
        .args(&request.names)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    if request.is_json {
        command.stderr(Stdio::piped());
    }
    let mut engine = command.spawn().map_err(|err| not_started(&command, &err))?;
    // Drained beside the results: neither may wait for the other.
    let told = match engine.stderr.take() {
        Some(told) => {
            let thread = thread::Builder::new().name("bench-told".to_owned());
            let started = thread.spawn(|| pass_on(told));
            Some(started.map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?)
        }
        None => None,
    };
    let lines = show(&mut engine, request);
    let status = engine.wait();
    let refusal = told.and_then(|told| told.join().ok().flatten());
    let status = status.map_err(|err| JobError::from_error(JobErrorKind::Internal, &err))?;
    match (status.code(), refusal) {
        (Some(code), refusal) => {
            let code = u8::try_from(code).unwrap_or(1);
            if let Some(error) = refusal.filter(|_| code != 0) {
                out::print_json(
                    &json!({"error": error, "advice": "", "exit_code": code}),
                    code,
                );
            }
            Ok((code, lines))
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

/// The engine's lines as they come: as they are, or as rows of a table. Gives all of them.
fn show(engine: &mut Child, request: &Request) -> String {
    let mut all = String::new();
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
        all.push_str(&line);
        all.push('\n');
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
    all
}
