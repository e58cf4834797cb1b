//! `safelight-bench`: time and memory of the networks on this machine, and speed of loading weights.
//!
//! Starts `safelight-engine bench` with the libtorch of jobs and passes arguments on; shows the JSON lines as a table, or
//! compares them with earlier ones. Links no libtorch, so that it can say that there is none.

use std::io::{self, BufRead as _, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};

use safelight::cli::{CliEnvironment, log, out, print_comparison};
use safelight::report::compare::{self, ReportFigures};
use safelight::report::line_text;
use safelight::worker::not_started;
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use safelight_core::model::ModelFamily;

const HELP: &str = "\
Measures how fast the networks and loading are on this machine

safelight-bench FAMILY [CASE…]   a step of each transformer, decoding, reading a prompt
safelight-bench load [PLACE]     weights to the device, from page cache and from disk
safelight-bench parity           distance of small networks from known values
safelight-bench SUBJECT --help   more options

  --device DEVICE  auto, cpu or cuda:N
  --json           print one JSON object per line
  --against FILE   compare with lines that --json printed earlier, or with a report: 1 where something got slower by
                   more than 5 %

Families: ";

#[derive(Default)]
struct Arguments {
    is_json: bool,
    against: Option<PathBuf>,
    device: Option<DeviceChoice>,
    /// For the engine.
    others: Vec<String>,
}

impl Arguments {
    fn read(mut all: impl Iterator<Item = String>) -> Result<Self, JobError> {
        let refused = |what: String| JobError::new(JobErrorKind::InvalidRequest, what);
        let mut read = Self::default();
        while let Some(argument) = all.next() {
            let mut value = || {
                let value = all.next();
                value.ok_or_else(|| refused(format!("expected a value after {argument}")))
            };
            match argument.as_str() {
                "--json" => read.is_json = true,
                "--against" => read.against = Some(value()?.into()),
                "--device" => read.device = Some(value()?.parse().map_err(refused)?),
                _ => read.others.push(argument),
            }
        }
        Ok(read)
    }
}

/// 2 for invalid arguments, 1 when a case failed or got slower.
fn main() -> ExitCode {
    let all: Vec<String> = std::env::args().skip(1).collect();
    if matches!(
        all.first().map(String::as_str),
        None | Some("--help" | "-h")
    ) {
        let families = ModelFamily::all().map(|family| family.id.replace('_', "-"));
        let families = families.collect::<Vec<_>>().join(", ");
        return out::print(&format!("{HELP}{families}\n"), 0);
    }
    log::start();
    let is_json = all.iter().any(|argument| argument == "--json");
    let measured = Arguments::read(all.into_iter()).and_then(|arguments| measure(&arguments));
    measured.unwrap_or_else(|err| out::print_job_error(&err, is_json))
}

fn measure(arguments: &Arguments) -> Result<ExitCode, JobError> {
    let internal = |err: io::Error| JobError::from_error(JobErrorKind::Internal, &err);
    // Read before minutes of work.
    let before = arguments.against.as_deref().map(ReportFigures::read);
    let before = before.transpose()?;
    let environment = CliEnvironment::of_this_user();
    let device = arguments.device;
    let device = device.unwrap_or_else(|| environment.settings().runtime.first_device());
    let mut command = environment.process_launcher().command(device)?;
    command.arg("bench");
    let subject = arguments.others.first();
    command.args(subject);
    if subject.is_some_and(|subject| subject != "list") {
        command.args(["--device", &device.to_string()]);
    }
    command.args(arguments.others.iter().skip(1));
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut engine = command.spawn().map_err(|err| not_started(&command, &err))?;
    let mut lines = String::new();
    let stdout = engine.stdout.take().map(BufReader::new);
    for line in stdout.into_iter().flat_map(BufReader::lines) {
        let line = line.map_err(internal)?;
        let shown = if arguments.is_json {
            line.clone()
        } else {
            line_text(&line)
        };
        if writeln!(io::stdout(), "{shown}").is_err() {
            // The reader is gone.
            engine.kill().ok();
            break;
        }
        lines.push_str(&line);
        lines.push('\n');
    }
    let status = engine.wait().map_err(internal)?;
    let Some(code) = status.code() else {
        let what = format!("the engine was ended while it measured: {status}");
        return Err(JobError::new(JobErrorKind::EngineLost, what));
    };
    let Some(before) = before.filter(|_| code == 0) else {
        return Ok(ExitCode::from(u8::try_from(code).unwrap_or(1)));
    };
    let after = ReportFigures::from_lines(&lines);
    let pairs = compare::compare(&before, &after);
    let code = u8::from(compare::num_worse(&pairs) > 0);
    let is_json = arguments.is_json;
    Ok(print_comparison((&before, &after), &pairs, is_json, code))
}
