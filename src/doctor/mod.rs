//! Doctor: one sentence on each requirement of a job, with a verdict and the command that fixes it.
//!
//! Reports only what was observed on this machine. Anything that can hang (drivers, dead disks, the GPU itself) runs in
//! a separate process or thread with a time limit, so an examination always ends. The command line prints it, the
//! window shows it.

mod access;
mod checks;
mod counters;
mod disk;
mod firmware;
mod gpu;
mod holders;
mod kernel;
pub mod miopen;
mod speed;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use safelight_core::catalog::ModelCatalog;
use safelight_core::job::{DeviceChoice, JobError};
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{
    AppPaths, LibtorchRuntime, LoadedSettings, RuntimeMissing, Settings, own_runtime,
};
use safelight_core::speed::SpeedLine;
use serde::Serialize;

pub use crate::child::ChildExit;
use crate::runtimes;
use crate::telemetry::nvidia::{self, NvidiaReport};
use crate::telemetry::time_limit::within;
use crate::telemetry::{DeviceQuery, SystemRoots, amdgpu};
use crate::worker::environment::{self, EngineTarget};
use crate::worker::{ProcessLauncher, probe_engine};

/// An engine that has not said what it is by then is not waited for: loading a GPU runtime from a cold disk is slow.
const ENGINE_LIMIT: Duration = Duration::from_mins(1);
/// Looking through folders of models on a disk that is slow or gone.
const CATALOG_LIMIT: Duration = Duration::from_secs(30);

/// Longest name of a check, for alignment.
const NAME_WIDTH: usize = 12;

/// Verdict of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    Warn,
    Fail,
}

/// Subject of a check, in the order of display.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckGroup {
    Engine,
    Gpu,
    System,
    Environment,
    Speed,
    Files,
}

impl CheckGroup {
    pub const ALL: [Self; 6] = [
        Self::Engine,
        Self::Gpu,
        Self::System,
        Self::Environment,
        Self::Speed,
        Self::Files,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Engine => "Engine",
            Self::Gpu => "Graphics cards",
            Self::System => "System",
            Self::Environment => "Environment",
            Self::Speed => "Speed",
            Self::Files => "Models and files",
        }
    }

    fn from_check_name(name: &str) -> Self {
        match name {
            "settings" | "libtorch" | "engine" | "restarts" | "memory tiers" => Self::Engine,
            "gpu" | "gpu access" | "gpu memory" | "gpu choice" => Self::Gpu,
            "kernel" | "driver" | "memory" => Self::System,
            "environment" => Self::Environment,
            "speed" => Self::Speed,
            _ => Self::Files,
        }
    }
}

/// Measured value, for programs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckFigure {
    pub value: f64,
    pub unit: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckResult {
    pub group: CheckGroup,
    pub name: &'static str,
    pub status: CheckStatus,
    /// One sentence, no full stop.
    pub message: String,
    /// Advice; empty if nothing needs to be done.
    pub advice: String,
    /// A line for a shell that does it; empty when there is none.
    pub command: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figure: Option<CheckFigure>,
}

impl CheckResult {
    /// Returns whether the check can fail. Others state a fact, such as the GPU's name.
    pub fn is_verdict(&self) -> bool {
        const AT_RISK: [&str; 9] = [
            "libtorch",
            "engine",
            "gpu access",
            "gpu memory",
            "driver",
            "memory",
            "models",
            "output",
            "disk",
        ];
        self.status != CheckStatus::Ok || AT_RISK.contains(&self.name)
    }

    fn new(name: &'static str, status: CheckStatus, message: impl Into<String>) -> Self {
        Self {
            group: CheckGroup::from_check_name(name),
            name,
            status,
            message: message.into(),
            advice: String::new(),
            command: String::new(),
            figure: None,
        }
    }

    /// Lines for people: the verdict, and below it what to do.
    pub fn text(&self) -> String {
        let mark = match self.status {
            CheckStatus::Ok => "ok  ",
            CheckStatus::Warn => "note",
            CheckStatus::Fail => "FAIL",
        };
        let mut text = format!("{mark}  {:NAME_WIDTH$}  {}\n", self.name, self.message);
        for (arrow, line) in [("->", &self.advice), (" $", &self.command)] {
            if !line.is_empty() {
                // Writing to a string cannot fail.
                writeln!(text, "      {:NAME_WIDTH$}  {arrow} {line}", "").ok();
            }
        }
        text
    }

    fn ok(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Ok, message)
    }

    fn warn(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Warn, message)
    }

    fn fail(name: &'static str, message: impl Into<String>) -> Self {
        Self::new(name, CheckStatus::Fail, message)
    }

    fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    fn mend(mut self, command: impl Into<String>) -> Self {
        self.command = command.into();
        self
    }

    fn measured(mut self, value: f64, unit: &str) -> Self {
        self.figure = Some(CheckFigure {
            value,
            unit: unit.to_owned(),
        });
        self
    }
}

/// The worst of them.
pub fn worst(checks: &[CheckResult]) -> CheckStatus {
    let status = checks.iter().map(|check| check.status).max();
    status.unwrap_or(CheckStatus::Ok)
}

/// Everything that the checks look at, gathered first so that tests can say what is there.
#[derive(Debug)]
pub struct DoctorInputs {
    pub roots: SystemRoots,
    /// The environment that the engine would inherit.
    pub variables: BTreeMap<String, String>,
    /// Report of NVIDIA's driver, or the reason why there is none.
    pub nvidia: Result<NvidiaReport, String>,
}

impl DoctorInputs {
    pub fn of_this_user() -> Self {
        Self {
            roots: SystemRoots::of_this_machine(),
            variables: environment::inherited(),
            nvidia: nvidia::report(),
        }
    }
}

/// Programs started for the examination.
pub trait DoctorProbes {
    /// Starts an engine, hears its first message and ends it.
    fn engine(&mut self) -> Result<EngineReport, JobError>;
    /// Lets an engine measure how fast it is, and tells each line of it.
    fn speed(&mut self, tell: &mut dyn FnMut(SpeedLine)) -> Result<ChildExit, JobError>;
}

/// User and machine under examination.
pub struct DoctorTarget {
    pub paths: AppPaths,
    pub loaded: LoadedSettings,
    pub machine: DoctorInputs,
    pub runtime: Result<LibtorchRuntime, RuntimeMissing>,
    /// The GPU and the disk are measured too, which takes some seconds.
    pub is_measured: bool,
}

/// Examines this machine for this user; each check is reported as soon as it is done.
pub fn examine_this_machine(
    paths: AppPaths,
    launcher: ProcessLauncher,
    is_measured: bool,
    tell: &mut dyn FnMut(CheckResult),
) {
    let loaded = Settings::load(&paths.settings_file());
    let runtime = own_runtime(&loaded.settings, &paths.cache);
    let mut engines = OwnEngines {
        launcher,
        device: loaded.settings.runtime.device,
    };
    let patient = DoctorTarget {
        paths,
        loaded,
        machine: DoctorInputs::of_this_user(),
        runtime,
        is_measured,
    };
    examine(&patient, &mut engines, tell);
}

/// The engine of this installation.
struct OwnEngines {
    launcher: ProcessLauncher,
    device: safelight_core::job::DeviceChoice,
}

impl DoctorProbes for OwnEngines {
    fn engine(&mut self) -> Result<EngineReport, JobError> {
        probe_engine(&mut self.launcher, self.device, ENGINE_LIMIT)
    }

    fn speed(&mut self, tell: &mut dyn FnMut(SpeedLine)) -> Result<ChildExit, JobError> {
        let mut command = self.launcher.command(self.device)?;
        command.args(["probe-speed", "--device", &self.device.to_string()]);
        Ok(crate::child::run(
            command,
            speed::LIMIT,
            &|| false,
            &mut |line| {
                if let Ok(line) = serde_json::from_str(line) {
                    tell(line);
                }
            },
        ))
    }
}

/// Reason why this user cannot open AMD's compute driver, and the command that fixes it.
pub fn access_problem(roots: &SystemRoots) -> Option<(String, String)> {
    let mut checks = access::all(roots).into_iter();
    let problem = checks.find(|check| check.status != CheckStatus::Ok)?;
    Some((problem.message, problem.command))
}

/// All checks, in the order in which a job needs the things.
pub fn examine(
    patient: &DoctorTarget,
    instruments: &mut dyn DoctorProbes,
    tell: &mut dyn FnMut(CheckResult),
) {
    let DoctorTarget {
        paths,
        loaded,
        machine,
        runtime,
        is_measured,
    } = patient;
    let settings = &loaded.settings;
    let mut tell_all = |checks: Vec<CheckResult>| checks.into_iter().for_each(&mut *tell);
    tell_all(checks::settings(loaded, &paths.settings_file()));
    let gfx = amdgpu::targets(&machine.roots.sysfs);
    tell_all(checks::runtime(runtime, &gfx));
    // Without libtorch, or with one that no engine is for, the engine's failure would only say so again.
    let mut report = None;
    let has_engine = runtime.as_ref().is_ok_and(|it| it.engine().is_some());
    if has_engine {
        let engine = instruments.engine();
        report = engine.as_ref().ok().cloned();
        tell_all(vec![checks::engine(engine)]);
    }
    let half = runtime.as_ref().ok();
    let half = half.and_then(|runtime| checks::gpu_half(runtime, report.as_ref()));
    tell_all(half.into_iter().collect());
    tell_all(counters::all(paths));

    let found = runtime.as_ref().ok();
    let query = DeviceQuery {
        kind: found.map_or("cpu", LibtorchRuntime::kind),
        device: settings.runtime.device,
        pci: report
            .as_ref()
            .map_or_else(String::new, |it| it.pci.clone()),
        // An engine on the CPU reports the machine's memory.
        driver_total_bytes: report
            .as_ref()
            .filter(|report| report.device != DeviceChoice::Cpu)
            .map_or(0, |report| report.total_bytes),
    };
    let (builds, _) = runtimes::builds(&paths.config);
    let own = runtimes::folder(paths);
    tell_all(gpu::all(machine, found, (&builds, &own), &query));
    tell_all(kernel::all(&machine.roots));
    tell_all(vec![checks::memory(&machine.roots.proc)]);
    let target = found.map(|runtime| EngineTarget::find(&machine.roots, runtime, query.device));
    tell_all(variables::all(
        target.as_ref(),
        &settings.runtime,
        &machine.variables,
    ));

    if *is_measured && report.is_some() {
        speed::all(instruments, target.as_ref(), &mut *tell);
    }
    let mut tell_all = |checks: Vec<CheckResult>| checks.into_iter().for_each(&mut *tell);
    let catalog = {
        let (paths, settings) = (paths.clone(), settings.clone());
        within(CATALOG_LIMIT, "catalog", move || {
            ModelCatalog::load(&paths, &settings)
        })
    };
    tell_all(checks::models(catalog.as_ref()));
    if *is_measured {
        let folders = catalog.iter().flat_map(|catalog| &catalog.available);
        tell_all(disk::all(folders.map(|spec| spec.folder.clone()).collect()));
    }
    let folders = settings.result_folders(paths);
    tell_all(
        folders
            .iter()
            .map(|folder| checks::output_folder(folder))
            .collect(),
    );
    tell_all(vec![checks::disk(&paths.data)]);
    let places = miopen::places(paths, &settings.runtime, &machine.variables);
    tell_all(miopen::all(&places));
}
