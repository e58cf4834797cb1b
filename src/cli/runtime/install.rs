//! `safelight runtime install`: downloads a libtorch for this machine's GPU, after the user's confirmation.
//!
//! [`crate::runtimes`] installs it.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use safelight_core::settings::LibtorchRuntime;
use safelight_core::units::size_text;
use serde_json::json;

use super::GO_BACK;
use crate::cli::generate::{CANCELLED, ended, print_event, progress_bar, say, stop_on_signal};
use crate::cli::{CliEnvironment, out};
use crate::runtimes::{
    InstallOutcome, InstallProgress, MachineGpus, RuntimeAdvice, RuntimeBuild, RuntimeKind,
    RuntimeOverview, RuntimeRefusal, WheelSource, build_of, builds, folder, get, readable_settings,
    refusal,
};
use crate::telemetry::{SystemRoots, nvidia};
use crate::worker::engine_for;

/// Interval of progress events for programs.
const TELL_EVERY: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(super) struct InstallArgs {
    /// Build id from runtimes.toml; an installed one is repaired [default: the one that fits this computer's GPU]
    id: Option<String>,
    /// Source: a folder of wheels, a Python environment, a folder with libtorch, or the URL of an index
    #[arg(long, value_name = "PLACE")]
    from: Option<String>,
    /// Download without asking
    #[arg(long, short)]
    yes: bool,
    /// Print JSON lines
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &InstallArgs, environment: &CliEnvironment) -> ExitCode {
    ended(fetched(args, environment), args.json)
}

fn fetched(args: &InstallArgs, environment: &CliEnvironment) -> Result<u8, JobError> {
    let machine = MachineGpus::find(&SystemRoots::of_this_machine(), &nvidia::report());
    let (paths, settings) = (&environment.paths, &environment.settings().runtime);
    readable_settings(paths)?;
    let place = match &args.from {
        Some(from) => WheelSource::parse(from)?,
        None => WheelSource::of_settings(settings),
    };
    let build = match &place {
        WheelSource::Torch(runtime) => of_torch(runtime, args, &machine, environment)?,
        _ => wanted(args, &machine, environment)?,
    };
    let has_gpu = machine.gpus.iter().any(|gpu| gpu.kind == build.kind);
    let is_copied = matches!(place, WheelSource::Torch(_));
    if !args.json {
        say(&announced(&build, &place, args, environment));
    }
    let (question, verb) = if is_copied {
        ("Copy?", "copy")
    } else {
        ("Download?", "download")
    };
    if !args.yes && !out::ask(question, verb, args.json)? {
        say("Cancelled");
        return Ok(CANCELLED);
    }
    let cancel = CancelToken::default();
    stop_on_signal(&cancel)?;
    let mut teller = InstallPrinter::new(args.json);
    let before = super::here(environment);
    let got = get(
        &build,
        &place,
        has_gpu,
        (paths, settings),
        &cancel,
        &mut |it| {
            teller.tell(it);
        },
    );
    teller.bar.finish_and_clear();
    let Some(got) = got? else {
        say(if is_copied {
            "Cancelled"
        } else {
            "Cancelled; what was downloaded is kept"
        });
        return Ok(CANCELLED);
    };
    let before = before.iter().find(|it| it.is_used);
    let before = before.map(|it| it.id.as_str());
    let InstallOutcome {
        installed,
        is_used,
        gpu_problem,
    } = got;
    if args.json {
        print_event(&json!({
            "event": "finished", "id": build.id, "folder": installed.folder, "is_used": is_used,
            "before": before, "fetched_bytes": installed.fetched_bytes,
            "wheel_bytes": installed.wheel_bytes, "repaired": installed.repaired,
            "gpu_problem": gpu_problem,
        }));
        return Ok(0);
    }
    let (fetched, whole) = (
        size_text(installed.fetched_bytes),
        size_text(installed.wheel_bytes),
    );
    let id = &build.id;
    say(&match installed.repaired {
        _ if is_copied => format!("{id} is installed; {whole} were copied"),
        None => format!("{id} is installed; {fetched} of {whole} were downloaded"),
        Some(0) => format!("{id} had all its files"),
        Some(1) => format!("{id} is repaired: a file was replaced, {fetched} were downloaded"),
        Some(files) => {
            format!("{id} is repaired: {files} files were replaced, {fetched} were downloaded")
        }
    });
    let next = match gpu_problem.filter(|_| !is_used) {
        Some(problem) => {
            format!("This machine has no GPU for it ({problem}), so jobs do not use it")
        }
        None if !is_used => format!("Use it with `safelight runtime use {id}`"),
        None if before.is_some() => format!("Jobs use it from now on{GO_BACK}"),
        None => "Jobs use it from now on".to_owned(),
    };
    say(&next);
    Ok(0)
}

/// Download that begins: source and target.
fn announced(
    build: &RuntimeBuild,
    place: &WheelSource,
    args: &InstallArgs,
    environment: &CliEnvironment,
) -> String {
    let to = folder(&environment.paths).join(&build.id);
    let (name, to) = (&build.name, to.display());
    if let WheelSource::Torch(runtime) = place {
        let from = runtime.folder.display();
        return format!("{name}: copied from {from} to {to}.");
    }
    let mirror = environment.settings().runtime.mirror.as_deref();
    let from = args.from.as_deref().or(mirror).or_else(|| build.address());
    let (size, from) = (
        size_text(build.download_mb * 1_000_000),
        from.unwrap_or_default(),
    );
    if folder(&environment.paths).join(&build.id).exists() {
        return format!(
            "{name} is here: only its files that are missing or damaged are downloaded again, from {from} to {to}."
        );
    }
    let licences = &build.licences;
    format!(
        "{name}: about {size} from {from} to {to}. The licences: {licences}; they are put beside it."
    )
}

/// Build of a local libtorch: the named one, or a separate one.
fn of_torch(
    runtime: &LibtorchRuntime,
    args: &InstallArgs,
    machine: &MachineGpus,
    environment: &CliEnvironment,
) -> Result<RuntimeBuild, JobError> {
    let refuse = |what: String, advice: String| Err(JobError::invalid(what).advise(advice));
    let gfx: Vec<String> = machine
        .gpus
        .iter()
        .filter_map(|it| it.target.clone())
        .collect();
    if let Some(concern) = runtime.concerns(&gfx).into_iter().next() {
        return refuse(concern.what, concern.advice);
    }
    engine_for(runtime)?;
    let place = runtime.folder.display();
    let Some(own) = build_of(runtime) else {
        let what = format!("this libtorch does not say its version: {place}");
        let advice = format!("Use it where it is with `safelight runtime use {place}`");
        return refuse(what, advice);
    };
    let Some(id) = &args.id else {
        return Ok(own);
    };
    let build = wanted(args, machine, environment)?;
    // The CPU's half is in each of them.
    if build.kind != RuntimeKind::Cpu && build.version != own.version {
        let what = format!(
            "{id} is {}, and this is {}: {place}",
            build.version, own.version
        );
        return refuse(
            what,
            "Leave the id away to install it as what it is".to_owned(),
        );
    }
    Ok(build)
}

/// The build that is named, or that fits.
fn wanted(
    args: &InstallArgs,
    machine: &MachineGpus,
    environment: &CliEnvironment,
) -> Result<RuntimeBuild, JobError> {
    let (builds, err) = builds(&environment.paths.config);
    if let Some(id) = &args.id {
        let mut known = builds.iter();
        let Some(build) = known.find(|build| build.id == *id) else {
            let ids: Vec<&str> = builds.iter().map(|build| build.id.as_str()).collect();
            let mut advice = format!("The known ones: {}", ids.join(", "));
            if let Some(err) = err {
                advice = format!("{advice}. {err}");
            }
            let what = format!("no build of libtorch is called {id}");
            return Err(JobError::invalid(what).advise(advice));
        };
        return match refusal(build, machine) {
            Some(refusal) => Err(refused(refusal)),
            None => Ok(build.clone()),
        };
    }
    let overview = RuntimeOverview::of_this_user(&environment.paths, environment.settings());
    let refuse = |what: String, advice: String| {
        Err(JobError::new(JobErrorKind::Device, what).advise(advice))
    };
    match overview.advice {
        RuntimeAdvice::Get { build, .. } => Ok(build),
        RuntimeAdvice::NoGpu => refuse(
            "no GPU was found, so there is nothing to install for one".to_owned(),
            "Name a build to install it all the same".to_owned(),
        ),
        RuntimeAdvice::CpuChosen => refuse(
            "the setting runtime.device chooses the CPU".to_owned(),
            "Name a build to install it all the same, or choose another device".to_owned(),
        ),
        RuntimeAdvice::Served { gpu } => refuse(
            format!("the libtorch in use is for {} already", gpu.name),
            "Name a build to install another one".to_owned(),
        ),
        RuntimeAdvice::Use { gpu, id } => refuse(
            format!("{id} is here and serves {}", gpu.name),
            format!("Use it with `safelight runtime use {id}`"),
        ),
        RuntimeAdvice::Repair { refusal, .. } => Err(refused(refusal)),
    }
}

fn refused(refusal: RuntimeRefusal) -> JobError {
    let command = Some(refusal.command).filter(|command| !command.is_empty());
    let command = command.map_or_else(String::new, |it| format!(": {it}"));
    let advice = format!("{}{command}", refusal.advice);
    JobError::new(JobErrorKind::Device, refusal.what).advise(advice)
}

/// Tells how far it is: a bar on a terminal, a line a wheel elsewhere, JSON lines for programs.
struct InstallPrinter {
    bar: ProgressBar,
    is_json: bool,
    reported_at: Option<Instant>,
}

impl InstallPrinter {
    fn new(is_json: bool) -> Self {
        use std::io::IsTerminal as _;
        let is_seen = std::io::stderr().is_terminal() && !is_json;
        Self {
            bar: progress_bar(is_seen, "{bar:30.red} {bytes}/{total_bytes}  {msg}"),
            is_json,
            reported_at: None,
        }
    }

    fn tell(&mut self, progress: &InstallProgress) {
        let (phase, what) = match progress {
            InstallProgress::Asking { name } => ("asking", name.clone()),
            InstallProgress::Fetching {
                done_bytes,
                total_bytes,
            } => {
                self.bar.set_length((*total_bytes).max(1));
                self.bar.set_position(*done_bytes);
                if self.is_json
                    && self
                        .reported_at
                        .is_none_or(|reported_at| reported_at.elapsed() > TELL_EVERY)
                {
                    self.reported_at = Some(Instant::now());
                    print_event(&json!({
                        "event": "progress", "phase": "fetching", "done_bytes": done_bytes,
                        "total_bytes": total_bytes,
                    }));
                }
                return;
            }
            InstallProgress::Unpacking { name } => ("unpacking", name.clone()),
            InstallProgress::Comparing { name } => ("comparing", name.clone()),
            InstallProgress::Trying => ("trying", "whether it computes right".to_owned()),
        };
        if self.is_json {
            print_event(&json!({"event": "progress", "phase": phase, "what": what}));
        } else {
            self.bar.suspend(|| say(&format!("{phase} {what}")));
        }
    }
}
