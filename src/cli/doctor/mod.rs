//! `safelight doctor`: one sentence on everything that a job needs, and what to do where it is not well.
//!
//! States what was seen on this machine and nothing else.

mod checks;
mod gpu;
#[cfg(test)]
mod tests;
mod variables;

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use safelight_core::catalog::Catalog;
use safelight_core::job::JobError;
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{Paths, Runtime, RuntimeMissing, runtime_folder};
use serde::Serialize;
use serde_json::json;

use super::{Surroundings, out};
use crate::telemetry::Roots;
use crate::telemetry::nvidia::{self, NvidiaReport};
use crate::worker::probe_engine;

/// Check the settings, libtorch, the engine, GPUs, models, folders and memory
#[derive(Args, Debug)]
pub struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub name: &'static str,
    pub status: Status,
    /// One sentence, no full stop.
    pub message: String,
    /// What to do; empty when nothing needs doing.
    pub advice: String,
}

impl Check {
    fn new(name: &'static str, status: Status, message: impl Into<String>) -> Self {
        Self {
            name,
            status,
            message: message.into(),
            advice: String::new(),
        }
    }

    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Ok, message)
    }

    fn warn(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Warn, message)
    }

    fn fail(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, Status::Fail, message)
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }
}

/// Everything that the checks look at, gathered first so that tests can say what is there.
#[derive(Debug)]
pub struct Machine {
    pub roots: Roots,
    /// The environment that the engine would inherit.
    pub variables: Vec<(String, String)>,
    /// What NVIDIA's driver says, or why there is none.
    pub nvidia: Result<NvidiaReport, String>,
}

impl Machine {
    pub fn of_this_user() -> Self {
        Self {
            roots: Roots::of_this_machine(),
            variables: std::env::vars_os()
                .map(|(name, value)| {
                    (
                        name.to_string_lossy().into_owned(),
                        value.to_string_lossy().into_owned(),
                    )
                })
                .collect(),
            nvidia: nvidia::report(),
        }
    }
}

/// Starts an engine, hears its first message and ends it.
pub type ProbeEngine<'a> = &'a mut dyn FnMut() -> Result<EngineReport, JobError>;

/// Runs the command: 0 unless something fails, which is 1.
pub fn run(args: &DoctorArgs, surroundings: &Surroundings) -> ExitCode {
    let settings = surroundings.settings();
    let executable = std::env::current_exe().ok();
    let runtime = runtime_folder(
        settings,
        std::env::var_os("SAFELIGHT_LIBTORCH"),
        executable.as_deref().and_then(Path::parent),
        &surroundings.paths.cache,
    );
    let mut probe = || probe_engine(surroundings.launcher().as_mut(), settings.runtime.device);
    let checks = examine(surroundings, &Machine::of_this_user(), &runtime, &mut probe);
    let worst = checks
        .iter()
        .map(|check| check.status)
        .max()
        .unwrap_or(Status::Ok);
    let code = u8::from(worst == Status::Fail);
    if args.json {
        out::print_json(&json!({"status": worst, "checks": checks}), code)
    } else {
        out::print(&as_text(&checks), code)
    }
}

/// All checks, in the order in which a job needs the things.
pub fn examine(
    surroundings: &Surroundings,
    machine: &Machine,
    runtime: &Result<Runtime, RuntimeMissing>,
    probe_engine: ProbeEngine<'_>,
) -> Vec<Check> {
    let paths: &Paths = &surroundings.paths;
    let settings = surroundings.settings();
    let catalog = Catalog::load(paths, settings);
    let mut checks = checks::settings(&surroundings.loaded, &paths.settings_file());
    checks.push(checks::runtime(runtime));
    // Without libtorch the engine's failure would only say so again.
    if runtime.is_ok() {
        checks.push(checks::engine(probe_engine()));
    }
    checks.extend(gpu::all(machine, runtime.as_ref().ok()));
    checks.extend(variables::all(
        &machine.variables,
        gpu::has_gfx1151(&machine.roots),
    ));
    checks.extend(checks::models(&catalog));
    checks.push(checks::output_folder(
        &settings.output.folder_or_default(paths),
    ));
    checks.push(checks::disk(&paths.data));
    checks.push(checks::memory(&machine.roots.proc));
    checks
}

fn as_text(checks: &[Check]) -> String {
    let mut text = String::new();
    let width = checks
        .iter()
        .map(|check| check.name.len())
        .max()
        .unwrap_or(0);
    for check in checks {
        let mark = match check.status {
            Status::Ok => "ok  ",
            Status::Warn => "warn",
            Status::Fail => "FAIL",
        };
        // Writing to a string cannot fail.
        writeln!(text, "{mark}  {:width$}  {}", check.name, check.message).ok();
        if !check.advice.is_empty() {
            writeln!(text, "      {:width$}  -> {}", "", check.advice).ok();
        }
    }
    text
}
