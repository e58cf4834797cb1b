//! `safelight-bench`: how long the networks take on this machine, how much memory, how fast weights are loaded, and
//! whether a long run keeps its memory.
//!
//! `safelight-bench-engine`, which lies beside this executable, measures on the runtime that jobs would have, and words
//! what it refuses; here it is started with that runtime's libtorch and its lines are shown, with `--json` its refusal as
//! an object too. This executable links no libtorch, so that it starts where there is none and can say so.

mod random;
mod soak;
mod stress;
mod table;
mod telemetry;

use std::ffi::OsString;
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::path::PathBuf;
use std::process::{Child, ExitCode, Stdio};
use std::thread;

use clap::{Args, Parser, Subcommand};
use safelight::cli::{Surroundings, log, out};
use safelight::worker::{ProcessLauncher, not_started};
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use serde_json::json;
use soak::SoakArgs;
use stress::StressArgs;
use table::Table;
use telemetry::TelemetryArgs;

/// Measure how fast the networks and loading are on this machine, and what a long run leaves behind
#[derive(Parser, Debug)]
#[command(name = "safelight-bench", version, about)]
struct Arguments {
    #[command(subcommand)]
    subject: Subject,
}

#[derive(Subcommand, Debug)]
enum Subject {
    /// Wan: one call of each transformer, decoding, reading a prompt
    Wan(FamilyArgs),
    /// Flux: one step of the transformer, decoding, reading a prompt
    Flux(FamilyArgs),
    /// FramePack: one step of a section, decoding, reading a prompt
    #[command(name = "framepack")]
    FramePack(FamilyArgs),
    /// Z-Image: one step of the transformer, reading a prompt
    #[command(name = "z-image")]
    ZImage(FamilyArgs),
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
    Soak(SoakArgs),
    Stress(StressArgs),
    #[command(hide = true)]
    Hog(stress::HogArgs),
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
    /// In place of the cases' own, in pixels
    #[arg(long, value_name = "PIXELS")]
    width: Option<String>,
    /// In place of the cases' own, in pixels
    #[arg(long, value_name = "PIXELS")]
    height: Option<String>,
    /// In place of the cases' own
    #[arg(long, value_name = "N")]
    frames: Option<String>,
    /// Texts or pictures at a time
    #[arg(long, value_name = "N")]
    batch: Option<String>,
    /// Edge of the tiles of an autoencoder, in pixels
    #[arg(long, value_name = "PIXELS")]
    tile: Option<String>,
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

#[derive(Args, Debug)]
struct WaysArgs {
    /// What to measure; may be given several times, everything by default
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// A fraction of the work, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// Timed runs of each case
    #[arg(long, value_name = "N")]
    runs: Option<String>,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
}

#[derive(Args, Debug)]
struct KernelsArgs {
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
}

#[derive(Args, Debug)]
struct FragmentsArgs {
    /// What the allocator may hold
    #[arg(long, value_name = "GIB")]
    cap: String,
    /// What weights leave free of it
    #[arg(long, value_name = "GIB")]
    preserved: String,
    /// Pictures of random sizes
    #[arg(long, value_name = "N")]
    rounds: Option<String>,
    /// Give back what is unused behind each picture, as between the stages of a job
    #[arg(long)]
    flush: bool,
    /// A hundredth of the sizes, for machines without a GPU
    #[arg(long)]
    small: bool,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
}

/// What is asked of `safelight-bench-engine`.
struct Request {
    /// The engine's subject, behind `bench` where every engine has it.
    subject: Vec<&'static str>,
    device: Option<DeviceChoice>,
    options: Vec<String>,
    /// Cases or paths: no options, however they begin.
    names: Vec<OsString>,
    is_json: bool,
    table: Table,
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
        Subject::Wan(args) => args.request("wan"),
        Subject::Flux(args) => args.request("flux"),
        Subject::FramePack(args) => args.request("framepack"),
        Subject::ZImage(args) => args.request("z-image"),
        Subject::StepCache(args) => args.request(),
        Subject::Load(args) => args.request(),
        Subject::Conv(args) => args.request("conv"),
        Subject::Attention(args) => args.request("attention"),
        Subject::Kernels(args) => args.request(),
        Subject::Fragments(args) => args.request(),
        Subject::Telemetry(args) => return telemetry::run(args, &surroundings),
        Subject::Soak(args) => {
            let soaked = soak::run(args, &surroundings);
            return soaked.unwrap_or_else(|err| out::print_job_error(&err, args.is_json()));
        }
        Subject::Hog(args) => return stress::hog(args),
        Subject::Stress(args) => {
            return stress::run(args)
                .unwrap_or_else(|err| out::print_job_error(&err, args.is_json()));
        }
    };
    match measure(&request, &surroundings) {
        Ok(code) => code,
        Err(err) => out::print_job_error(&err, request.is_json),
    }
}

/// Starts `safelight-bench-engine`, which lies beside this executable, on the runtime that the settings name.
fn launcher(surroundings: &Surroundings) -> ProcessLauncher {
    let mut launcher = surroundings.process_launcher();
    let own = std::env::current_exe().unwrap_or_default();
    launcher.set_executable(own.with_file_name("safelight-bench-engine"));
    launcher
}

/// The options that were given, with their values.
fn given<const N: usize>(options: [(&str, &Option<String>); N]) -> Vec<String> {
    let given = options.into_iter().filter_map(|(name, value)| {
        let value = value.as_ref()?;
        Some([name.to_owned(), value.clone()])
    });
    given.flatten().collect()
}

/// `--small` where it was given.
fn small(is_small: bool) -> impl Iterator<Item = String> {
    is_small.then(|| "--small".to_owned()).into_iter()
}

impl FamilyArgs {
    fn request(&self, subject: &'static str) -> Request {
        let values = given([
            ("--runs", &self.runs),
            ("--width", &self.width),
            ("--height", &self.height),
            ("--frames", &self.frames),
            ("--batch", &self.batch),
            ("--tile", &self.tile),
            ("--preserved", &self.preserved),
            ("--cap", &self.cap),
        ]);
        Request {
            subject: vec!["bench", subject],
            device: self.device,
            options: small(self.small).chain(values).collect(),
            names: self.cases.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: table::NETWORKS,
        }
    }
}

impl StepCacheArgs {
    fn request(&self) -> Request {
        let values = given([
            ("--model", &self.model),
            ("--steps", &self.steps),
            ("--sampler", &self.sampler),
        ]);
        Request {
            subject: vec!["step-cache"],
            device: self.device,
            options: small(self.small).chain(values).collect(),
            names: self.caches.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: table::STEP_CACHES,
        }
    }
}

impl LoadArgs {
    fn request(&self) -> Request {
        Request {
            subject: vec!["bench", "load"],
            device: self.device,
            options: given([("--runs", &self.runs), ("--mib", &self.mib)]),
            names: self.place.iter().map(OsString::from).collect(),
            is_json: self.json,
            table: table::LOADING,
        }
    }
}

impl WaysArgs {
    fn request(&self, subject: &'static str) -> Request {
        let values = given([("--runs", &self.runs)]);
        Request {
            subject: vec!["bench", subject],
            device: self.device,
            options: small(self.small).chain(values).collect(),
            names: self.cases.iter().map(OsString::from).collect(),
            is_json: false,
            table: table::PLAIN,
        }
    }
}

impl KernelsArgs {
    fn request(&self) -> Request {
        Request {
            subject: vec!["kernels"],
            device: self.device,
            options: Vec::new(),
            names: Vec::new(),
            is_json: false,
            table: table::PLAIN,
        }
    }
}

impl FragmentsArgs {
    fn request(&self) -> Request {
        let needed = ["--cap", &self.cap, "--preserved", &self.preserved].map(str::to_owned);
        let flush = self.flush.then(|| "--flush".to_owned());
        let values = given([("--rounds", &self.rounds)]);
        let options = needed.into_iter().chain(values).chain(flush);
        Request {
            subject: "fragments",
            device: self.device,
            options: options.chain(small(self.small)).collect(),
            names: Vec::new(),
            is_json: false,
            table: table::PLAIN,
        }
    }
}

fn measure(request: &Request, surroundings: &Surroundings) -> Result<ExitCode, JobError> {
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
fn show(engine: &mut Child, request: &Request) {
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
