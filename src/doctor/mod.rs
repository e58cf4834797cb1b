//! Doctor: one sentence on each requirement of a job, with a verdict and the command that fixes it.
//!
//! Reports only what was observed on this machine. Anything that can hang (drivers, dead disks, the GPU itself) runs in
//! a separate process or thread with a time limit, so an examination always ends. The command line prints it, the
//! window shows it.

mod check;
mod checks;
mod counters;
mod disk;
mod firmware;
mod gpu;
mod holders;
mod inputs;
mod kernel;
pub mod miopen;
mod speed;
#[cfg(test)]
mod tests;
mod variables;

use std::time::Duration;

use safelight_core::catalog::ModelCatalog;
use safelight_core::job::{DeviceChoice, JobError};
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{AppPaths, LibtorchRuntime, Settings, own_runtime};
use safelight_core::speed::SpeedLine;

pub use crate::child::ChildExit;
use crate::runtimes;
use crate::telemetry::time_limit::within;
use crate::telemetry::{DeviceQuery, amdgpu};
use crate::worker::environment::{EngineTarget, job_gpus};
use crate::worker::{ProcessLauncher, probe_engine};
pub use check::{CheckFigure, CheckGroup, CheckResult, CheckStatus, worst};
pub use inputs::{DoctorInputs, DoctorProbes, DoctorTarget};

/// An engine that has not said what it is by then is not waited for: loading a GPU runtime from a cold disk is slow.
const ENGINE_LIMIT: Duration = Duration::from_mins(1);
/// Looking through folders of models on a disk that is slow or gone.
const CATALOG_LIMIT: Duration = Duration::from_secs(30);

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
        device: loaded.settings.runtime.first_device(),
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
        device: settings.runtime.first_device(),
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
    let nvidia = || machine.nvidia.clone();
    let gpus = job_gpus(&settings.runtime, query.kind, &machine.roots, nvidia);
    let devices = settings.runtime.job_devices(gpus);
    tell_all(checks::devices(&devices).into_iter().collect());
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
    tell_all(vec![checks::disk(
        &paths.data,
        (machine.free_bytes)(&paths.data),
    )]);
    let places = miopen::places(paths, &settings.runtime, &machine.variables);
    tell_all(miopen::all(&places));
}
