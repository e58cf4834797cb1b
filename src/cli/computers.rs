//! `safelight computers`: other computers that run jobs; and `safelight worker`, this computer as one of them.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use clap::{Args, Subcommand};
use safelight_core::catalog::ModelCatalog;
use safelight_core::fitting;
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind};
use safelight_core::settings::{
    AppPaths, ComputerSettings, ENGINES, Settings, SettingsFile, own_runtime,
};
use safelight_core::units::size_text;
use serde_json::{Value, json};

use super::{CliEnvironment, out};
use crate::computers::client::check;
use crate::computers::host::{self, HostOptions};
use crate::computers::{ComputerInfo, PROTOCOL, VERSION, rank, relay, run_there};
use crate::telemetry::{self, DeviceQuery};
use crate::worker::{self, WorkerOptions, engine_executable};

/// Add, check, remove and set up other computers that run jobs, reached by ssh; without a command, list them
#[derive(Args, Debug)]
pub struct ComputersArgs {
    #[command(subcommand)]
    what: Option<ComputersAction>,
    /// Print one JSON object
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Subcommand, Debug)]
enum ComputersAction {
    /// Add a computer to the settings
    Add(HostArgs),
    /// Remove a computer from the settings; nothing there is deleted
    Remove(HostArgs),
    /// Connect to a computer and show its version, device and models
    Check(HostArgs),
    /// Copy this Safelight to a computer, to ~/.local/share there, and get it a libtorch
    Install(HostArgs),
    /// A rank of a job, started by its first engine
    #[command(hide = true)]
    Rank { host: String, device: DeviceChoice },
}

#[derive(Args, Debug)]
struct HostArgs {
    /// Name for ssh, such as me@box
    host: String,
}

/// Run jobs for another computer, which starts this by ssh
#[derive(Args, Debug)]
pub struct WorkerArgs {
    /// Connect standard input and output with the worker of this computer, and start it where none runs
    #[arg(long, required_unless_present_any = ["host", "rank"])]
    stdio: bool,
    #[arg(long, hide = true)]
    host: bool,
    /// A device that shares the steps of another computer's job.
    #[arg(long, hide = true)]
    rank: Option<DeviceChoice>,
}

pub fn run(args: &ComputersArgs, environment: &CliEnvironment) -> ExitCode {
    let result = match &args.what {
        None => return list(args.json, environment),
        Some(ComputersAction::Rank { host, device }) => {
            rank::connect(host, *device);
            return ExitCode::SUCCESS;
        }
        Some(action) => act(action, args.json, environment),
    };
    result.unwrap_or_else(|err| out::print_job_error(&err, args.json))
}

fn list(is_json: bool, environment: &CliEnvironment) -> ExitCode {
    let hosts = &environment.settings().computers.hosts;
    let found = hosts.iter().map(|host| (host, check(host, 1)));
    let found: Vec<_> = found.collect();
    let objects: Vec<Value> = found
        .iter()
        .map(|(host, found)| as_json(host, found))
        .collect();
    let mut text: String = found
        .iter()
        .map(|(host, found)| as_text(host, found))
        .collect();
    if found.is_empty() {
        text.push_str("No other computers. `safelight computers add me@box` adds one\n");
    }
    out::print_either(is_json, &json!({"computers": objects}), &text, 0)
}

fn as_json(host: &str, found: &Result<ComputerInfo, JobError>) -> Value {
    match found {
        Ok(info) => json!({
            "host": host,
            "version": info.version,
            "device": info.device,
            "free_bytes": info.free_bytes,
            "total_bytes": info.total_bytes,
            "models": info.models.iter().map(|spec| &spec.id).collect::<Vec<_>>(),
        }),
        Err(err) => json!({"host": host, "error": err.summary, "advice": err.advice}),
    }
}

fn as_text(host: &str, found: &Result<ComputerInfo, JobError>) -> String {
    let info = match found {
        Ok(info) => info,
        Err(err) => return format!("{host}\n  {}\n  {}\n", err.summary, err.advice),
    };
    let (free, total) = (size_text(info.free_bytes), size_text(info.total_bytes));
    let models = info.models.iter();
    let models = models.map(|spec| vec![spec.id.clone(), spec.name.clone()]);
    let models = out::table(&models.collect::<Vec<_>>());
    let (version, device) = (&info.version, &info.device);
    format!("{host}\n  Safelight {version}, {device}, {free} of {total} free\n{models}")
}

fn act(
    action: &ComputersAction,
    is_json: bool,
    environment: &CliEnvironment,
) -> Result<ExitCode, JobError> {
    let (ComputersAction::Add(HostArgs { host })
    | ComputersAction::Remove(HostArgs { host })
    | ComputersAction::Check(HostArgs { host })
    | ComputersAction::Install(HostArgs { host })
    | ComputersAction::Rank { host, .. }) = action;
    if let Some(problem) = ComputerSettings::host_problem(host) {
        return Err(JobError::invalid(problem));
    }
    match action {
        ComputersAction::Add(_) => {
            change(environment, |hosts| {
                if !hosts.contains(host) {
                    hosts.push(host.clone());
                }
            })?;
        }
        ComputersAction::Remove(_) => {
            if !environment
                .settings()
                .computers
                .hosts
                .iter()
                .any(|it| it == host)
            {
                return Err(JobError::invalid(format!(
                    "{host} is not among your computers"
                )));
            }
            change(environment, |hosts| hosts.retain(|it| it != host))?;
            return Ok(out::print_either(is_json, &json!({"removed": host}), "", 0));
        }
        ComputersAction::Install(_) => install(host, is_json, &environment.paths)?,
        ComputersAction::Check(_) | ComputersAction::Rank { .. } => {}
    }
    let found = check(host, 1);
    let printed = out::print_either(is_json, &as_json(host, &found), &as_text(host, &found), 0);
    Ok(match found {
        Err(err) if !matches!(action, ComputersAction::Add(_)) => err.kind.exit_code().into(),
        _ => printed,
    })
}

fn change(
    environment: &CliEnvironment,
    change: impl FnOnce(&mut Vec<String>),
) -> Result<(), JobError> {
    let base = environment.settings();
    let mut ours = base.clone();
    change(&mut ours.computers.hosts);
    let file = SettingsFile::new(environment.paths.settings_file());
    let saved = file.save(base, &ours);
    saved
        .map(drop)
        .map_err(|err| JobError::from_error(JobErrorKind::Disk, &err))
}

/// Copies the executables and the assets, links `safelight` into the user's programs, and gets a libtorch.
fn install(host: &str, is_json: bool, paths: &AppPaths) -> Result<(), JobError> {
    let say = |text: &str| {
        if !is_json {
            // If standard error is closed, the exit code still reports the result.
            writeln!(std::io::stderr(), "{text}").ok();
        }
    };
    let machine = run_there(host, "uname -sm", Stdio::null())?;
    let own = format!("Linux {}", std::env::consts::ARCH);
    if machine.trim() != own {
        let what = format!(
            "{host} is {}, and this Safelight is for {own}",
            machine.trim()
        );
        return Err(JobError::invalid(what).advise("Install a package for that computer there"));
    }
    let disk = |err| JobError::disk("the program's files cannot be packed", &err);
    let program = std::env::current_exe().map_err(disk)?;
    let staging = paths.cache.join(format!("install-{}", std::process::id()));
    fs::create_dir_all(&staging).map_err(disk)?;
    let packed = || -> std::io::Result<Stdio> {
        symlink(&program, staging.join("safelight"))?;
        for engine in ENGINES
            .iter()
            .map(engine_executable)
            .filter(|it| it.exists())
        {
            symlink(
                &engine,
                staging.join(engine.file_name().unwrap_or_default()),
            )?;
        }
        if let Some(assets) = &paths.assets {
            symlink(assets, staging.join("assets"))?;
        }
        let mut tar = Command::new("tar");
        tar.args(["-czhf", "-", "."]).current_dir(&staging);
        tar.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = tar.spawn()?;
        let output = child.stdout.take().map_or_else(Stdio::null, Stdio::from);
        let waiting = std::thread::Builder::new().name("tar".to_owned());
        waiting.spawn(move || child.wait())?;
        Ok(output)
    };
    say(&format!("Copying Safelight {VERSION} to {host}"));
    let folder = format!("$HOME/.local/share/safelight-{VERSION}");
    // A running program is replaced, not changed.
    let unpack = format!(
        r#"sh -c 'set -e; rm -rf "{folder}.new"; mkdir -p "{folder}.new" "$HOME/.local/bin"; tar -xzf - -C "{folder}.new"; rm -rf "{folder}"; mv "{folder}.new" "{folder}"; ln -sfn "{folder}/safelight" "$HOME/.local/bin/safelight"'"#
    );
    let copied = packed()
        .map_err(disk)
        .and_then(|input| run_there(host, &unpack, input));
    fs::remove_dir_all(&staging).ok();
    copied?;
    let has_runtime = run_there(host, "safelight runtime check --json", Stdio::null());
    if has_runtime.is_err() {
        say(&format!(
            "Getting a libtorch for {host}, which takes a while"
        ));
        let got = run_there(host, "safelight runtime install --yes", Stdio::null());
        got.map_err(|err| {
            let what = format!("Safelight is on {host}, but has no libtorch yet");
            let advice = format!("Run `ssh {host} .local/bin/safelight runtime install`");
            JobError::new(JobErrorKind::Network, what)
                .advise(advice)
                .detail(err.details)
        })?;
    }
    Ok(())
}

pub fn run_worker(args: &WorkerArgs, environment: CliEnvironment) -> ExitCode {
    let folder = environment.paths.remote_jobs();
    if args.stdio {
        return ExitCode::from(relay::run(&folder));
    }
    if let Some(device) = args.rank {
        rank::serve(device, environment.launcher().as_mut(), &environment.paths);
        return ExitCode::SUCCESS;
    }
    // Without a terminal already, where this fails.
    rustix::process::setsid().ok();
    match host_jobs(&folder, environment) {
        Ok(()) => ExitCode::SUCCESS,
        Err(err) => {
            // The relay reads this line.
            out::print(&format!("{}\n", err.summary), err.kind.exit_code())
        }
    }
}

fn host_jobs(folder: &Path, environment: CliEnvironment) -> Result<(), JobError> {
    let file = environment.paths.settings_file();
    let crf = Arc::new(AtomicU8::new(environment.settings().output.crf));
    let (by_worker, worker_file) = (Arc::clone(&crf), file.clone());
    // Jobs of others are not among those of this computer's window.
    let paths = AppPaths {
        data: folder.to_owned(),
        ..environment.paths.clone()
    };
    let options = WorkerOptions {
        paths: paths.clone(),
        settings: Box::new(move || {
            let mut settings = Settings::load(&worker_file).settings;
            settings.output.crf = by_worker.load(Ordering::Relaxed);
            settings
        }),
        ..environment.worker_options()
    };
    let launcher = environment.launcher();
    let own = environment.paths;
    let host = HostOptions {
        paths,
        settings: Box::new(move || Settings::load(&file).settings),
        crf,
        look: Arc::new(move || look(&own)),
    };
    host::run(host, |wake| {
        worker::spawn(options, launcher, wake).map(|(handle, _)| handle)
    })
}

/// Version, device and models of this computer.
fn look(paths: &AppPaths) -> ComputerInfo {
    let settings = Settings::load(&paths.settings_file()).settings;
    let runtime = own_runtime(&settings, &paths.cache);
    let query = DeviceQuery {
        kind: runtime.map_or("cpu", |runtime| runtime.kind()),
        device: settings.runtime.first_device(),
        ..DeviceQuery::default()
    };
    let device = telemetry::device(&telemetry::SystemRoots::of_this_machine(), &query);
    let facts = device.facts;
    ComputerInfo {
        protocol: PROTOCOL,
        version: VERSION.to_owned(),
        device: device.name,
        free_bytes: facts.total_bytes.saturating_sub(facts.used_bytes),
        total_bytes: facts.total_bytes,
        models: ModelCatalog::load(paths, &settings).available,
        loras: fitting::find(paths, &settings),
    }
}
