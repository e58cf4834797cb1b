//! `safelight runtime install`: fetches a libtorch for this machine's GPU, once its user agreed.
//!
//! How it comes is [`crate::runtimes`]'s.

use std::cell::RefCell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use indicatif::ProgressBar;
use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use safelight_core::units::size_text;
use serde_json::json;

use crate::cli::generate::{CANCELLED, ended, print_event, progress_bar, say, stop_on_signal};
use crate::cli::{Surroundings, out};
use crate::runtimes::{
    Advice, Build, Machine, Overview, Place, Progress, Refusal, builds, check, choose, folder,
    install, named, options, refusal,
};
use crate::telemetry::{Roots, nvidia};

/// How often progress is told to programs.
const TELL_EVERY: Duration = Duration::from_millis(500);

#[derive(Args, Debug)]
pub(super) struct InstallArgs {
    /// The id of a build of runtimes.toml [default: the one that fits this machine's GPU]
    id: Option<String>,
    /// Take the wheels from this folder or from the index at this address
    #[arg(long, value_name = "PLACE")]
    from: Option<String>,
    /// Do not ask before the download
    #[arg(long, short)]
    yes: bool,
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &InstallArgs, surroundings: &Surroundings) -> ExitCode {
    ended(fetched(args, surroundings), args.json)
}

fn fetched(args: &InstallArgs, surroundings: &Surroundings) -> Result<u8, JobError> {
    let machine = Machine::find(&Roots::of_this_machine(), &nvidia::report());
    let build = wanted(args, &machine, surroundings)?;
    let has_gpu = machine.gpus.iter().any(|gpu| gpu.kind == build.kind);
    let place = place(args)?;
    let to = folder(&surroundings.paths).join(&build.id);
    let from = args.from.as_deref().or_else(|| build.address());
    if !args.json {
        let size = size_text(build.download_mb * 1_000_000);
        say(&format!(
            "{}: about {size} from {} to {}. The licences of its makers apply; they are put beside it.",
            build.name,
            from.unwrap_or_default(),
            to.display()
        ));
    }
    if !args.yes && !out::ask("Download?", "download", args.json)? {
        say("Cancelled");
        return Ok(CANCELLED);
    }
    let cancel = CancelToken::default();
    stop_on_signal(&cancel)?;
    let mut teller = Teller::new(args.json);
    let runtime_settings = &surroundings.settings().runtime;
    // Whoever installs for another machine's GPU gets as far as this one goes.
    let problem = RefCell::new(None);
    let attempt = |runtime: &_| {
        let checked = check(runtime, runtime_settings, has_gpu, &cancel)?;
        let is_there = checked.is_some();
        problem.replace(checked.and_then(|checked| checked.gpu_problem));
        Ok(is_there)
    };
    let paths = &surroundings.paths;
    let installed = install(
        &build,
        &place,
        paths,
        &options(),
        &cancel,
        &attempt,
        &mut |it| {
            teller.tell(it);
        },
    );
    teller.bar.finish_and_clear();
    let Some(installed) = installed? else {
        say("Cancelled; what was downloaded is kept");
        return Ok(CANCELLED);
    };
    let here = super::here(surroundings);
    // One that cannot be used here is installed for its files, and jobs stay where they are.
    if has_gpu {
        choose(&named(&build.id, &here)?, paths)?;
    }
    let before = here.iter().find(|it| it.is_used).map(|it| it.id.as_str());
    let problem = problem.borrow();
    if args.json {
        print_event(&json!({
            "event": "finished", "id": build.id, "folder": installed.folder, "is_used": has_gpu,
            "before": before, "fetched_bytes": installed.fetched_bytes,
            "wheel_bytes": installed.wheel_bytes, "gpu_problem": *problem,
        }));
        return Ok(0);
    }
    let (fetched, whole) = (
        size_text(installed.fetched_bytes),
        size_text(installed.wheel_bytes),
    );
    let id = &build.id;
    say(&format!(
        "{id} is installed; {fetched} of {whole} were downloaded"
    ));
    let next = match (&*problem, before) {
        (Some(problem), _) => {
            format!("This machine has no GPU for it ({problem}), so jobs do not use it")
        }
        (None, _) if !has_gpu => format!("Use it with `safelight runtime use {id}`"),
        (None, Some(before)) => {
            format!("Jobs use it from now on; `safelight runtime use {before}` goes back")
        }
        (None, None) => "Jobs use it from now on".to_owned(),
    };
    say(&next);
    Ok(0)
}

/// The build that is named, or that fits.
fn wanted(
    args: &InstallArgs,
    machine: &Machine,
    surroundings: &Surroundings,
) -> Result<Build, JobError> {
    let (builds, err) = builds(&surroundings.paths.config);
    if let Some(id) = &args.id {
        let mut known = builds.iter();
        let Some(build) = known.find(|build| build.id == *id) else {
            let ids: Vec<&str> = builds.iter().map(|build| build.id.as_str()).collect();
            let mut advice = format!("The known ones: {}", ids.join(", "));
            if let Some(err) = err {
                advice = format!("{advice}. {err}");
            }
            let what = format!("no build of libtorch is called {id}");
            return Err(JobError::new(JobErrorKind::InvalidRequest, what).advise(advice));
        };
        return match refusal(build, machine) {
            Some(refusal) => Err(refused(refusal)),
            None => Ok(build.clone()),
        };
    }
    let overview = Overview::of_this_user(&surroundings.paths, surroundings.settings());
    let refuse = |what: String, advice: String| {
        Err(JobError::new(JobErrorKind::Device, what).advise(advice))
    };
    match overview.advice {
        Advice::Get { build, .. } => Ok(build),
        Advice::NoGpu => refuse(
            "no GPU was found, so there is nothing to install for one".to_owned(),
            "Name a build to install it all the same".to_owned(),
        ),
        Advice::CpuChosen => refuse(
            "the setting runtime.device chooses the CPU".to_owned(),
            "Name a build to install it all the same, or choose another device".to_owned(),
        ),
        Advice::Served { gpu } => refuse(
            format!("the libtorch in use is for {} already", gpu.name),
            "Name a build to install another one".to_owned(),
        ),
        Advice::Use { gpu, id } => refuse(
            format!("{id} is here and serves {}", gpu.name),
            format!("Use it with `safelight runtime use {id}`"),
        ),
        Advice::Mend { refusal, .. } => Err(refused(refusal)),
    }
}

fn refused(refusal: Refusal) -> JobError {
    let command = Some(refusal.command).filter(|command| !command.is_empty());
    let command = command.map_or_else(String::new, |it| format!(": {it}"));
    let advice = format!("{}{command}", refusal.advice);
    JobError::new(JobErrorKind::Device, refusal.what).advise(advice)
}

fn place(args: &InstallArgs) -> Result<Place, JobError> {
    let Some(from) = &args.from else {
        return Ok(Place::Index);
    };
    if from.contains("://") {
        return Ok(Place::Mirror(from.clone()));
    }
    let folder = PathBuf::from(from);
    if !folder.is_dir() {
        let what = format!("this is neither an address nor a folder: {from}");
        return Err(JobError::new(JobErrorKind::InvalidRequest, what));
    }
    Ok(Place::Folder(folder))
}

/// Tells how far it is: a bar on a terminal, a line a wheel elsewhere, JSON lines for programs.
struct Teller {
    bar: ProgressBar,
    is_json: bool,
    told: Option<Instant>,
}

impl Teller {
    fn new(is_json: bool) -> Self {
        use std::io::IsTerminal as _;
        let is_seen = std::io::stderr().is_terminal() && !is_json;
        Self {
            bar: progress_bar(is_seen, "{bar:30.red} {bytes}/{total_bytes}  {msg}"),
            is_json,
            told: None,
        }
    }

    fn tell(&mut self, progress: &Progress) {
        let (phase, what) = match progress {
            Progress::Asking { name } => ("asking", name.clone()),
            Progress::Fetching {
                done_bytes,
                total_bytes,
            } => {
                self.bar.set_length((*total_bytes).max(1));
                self.bar.set_position(*done_bytes);
                if self.is_json && self.told.is_none_or(|told| told.elapsed() > TELL_EVERY) {
                    self.told = Some(Instant::now());
                    print_event(&json!({
                        "event": "progress", "phase": "fetching", "done_bytes": done_bytes,
                        "total_bytes": total_bytes,
                    }));
                }
                return;
            }
            Progress::Unpacking { name } => ("unpacking", name.clone()),
            Progress::Trying => ("trying", "whether it computes right".to_owned()),
        };
        if self.is_json {
            print_event(&json!({"event": "progress", "phase": phase, "what": what}));
        } else {
            self.bar.suspend(|| say(&format!("{phase} {what}")));
        }
    }
}
