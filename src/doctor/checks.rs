//! The checks that need no GPU: settings, libtorch, engine, models, folders, memory.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use safelight_core::catalog::ModelCatalog;
use safelight_core::job::{DeviceChoice, JobError};
use safelight_core::model::{CatalogError, advice_for};
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{
    InstallationKind, LibtorchRuntime, LoadedSettings, RuntimeMissing, libtorch_versions,
};
use safelight_core::units::size_text;

use super::check::{CheckResult, CheckStatus};
use crate::runtimes::RuntimeKind;
use crate::telemetry::host;

/// A job keeps latents and frames on the disk; a long video of large frames needs this much.
const ROOMY_DISK_BYTES: u64 = 5_000_000_000;
/// Below this, not even the smallest video is likely to be kept.
const FULL_DISK_BYTES: u64 = 200_000_000;
/// The embedded model and libtorch need about this much at once.
const ROOMY_MEMORY_BYTES: u64 = 3_000_000_000;

pub(super) fn settings(loaded: &LoadedSettings, file: &Path) -> Vec<CheckResult> {
    if let Some(err) = &loaded.error {
        return vec![
            CheckResult::fail("settings", format!("{err}; the defaults are used"))
                .advise("Correct the file, or delete it to use the defaults"),
        ];
    }
    if !loaded.warnings.is_empty() {
        let warn = |warning: &String| {
            CheckResult::warn("settings", format!("{warning}: {}", file.display()))
                .advise("It has no effect: correct its name or remove it")
        };
        return loaded.warnings.iter().map(warn).collect();
    }
    let what = if file.exists() {
        "read"
    } else {
        "no settings file yet: the defaults are used"
    };
    vec![CheckResult::ok(
        "settings",
        format!("{what}: {}", file.display()),
    )]
}

/// `gfx`: the compute targets of the machine's AMD cards.
pub(super) fn runtime(
    runtime: &Result<LibtorchRuntime, RuntimeMissing>,
    gfx: &[String],
) -> Vec<CheckResult> {
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(err) => {
            let command = InstallationKind::of_this_program().libtorch_command();
            return vec![CheckResult::fail("libtorch", err.to_string()).fix(command)];
        }
    };
    let place = format!("{} ({})", runtime.folder.display(), runtime.source);
    let warn = |message: &str| CheckResult::warn("libtorch", format!("{message}: {place}"));
    let concerns = runtime.concerns(gfx);
    if !concerns.is_empty() {
        let checks = concerns.into_iter();
        let check = |what: &str| match runtime.engine() {
            Some(_) => warn(what),
            None => CheckResult::fail("libtorch", format!("{what}: {place}")),
        };
        return checks.map(|it| check(&it.what).advise(it.advice)).collect();
    }
    vec![match runtime.version() {
        Some(version) => {
            let kind = RuntimeKind::from_runtime(runtime).label();
            CheckResult::ok("libtorch", format!("{version} for {kind}: {place}"))
        }
        None => warn("the folder does not say its version").advise(format!(
            "The engines need libtorch {} and may not start with another",
            libtorch_versions("or")
        )),
    }]
}

/// Checks the libraries that a GPU half needs, and its ROCm or CUDA version, by the names of its libraries. `engine`:
/// result of loading it, if tried.
pub(super) fn gpu_half(
    runtime: &LibtorchRuntime,
    engine: Option<&EngineReport>,
) -> Option<CheckResult> {
    let needed: &[&str] = match runtime.kind() {
        "rocm" => &["libc10_hip.so", "libamdhip64.so", "libMIOpen.so"],
        "cuda" => &["libc10_cuda.so", "libcudart.so", "libcudnn.so"],
        _ => return None,
    };
    let names: Vec<String> = runtime
        .folders()
        .flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    let versioned = |library: &str| {
        let mut found: Vec<&String> = names.iter().filter(|it| it.starts_with(library)).collect();
        found.sort_by_key(|name| name.len());
        found.last().map(|name| (*name).clone())
    };
    let (found, missing): (Vec<_>, Vec<_>) = needed
        .iter()
        .map(|library| (library, versioned(library)))
        .partition(|(_, found)| found.is_some());
    let found: Vec<String> = found.into_iter().filter_map(|(_, found)| found).collect();
    let release = rocm_release(runtime).map_or_else(String::new, |it| format!(", ROCm {it}"));
    if missing.is_empty() {
        let message = format!("its GPU part brings {}{release}", found.join(", "));
        return Some(CheckResult::ok("libtorch", message));
    }
    let missing: Vec<&str> = missing.into_iter().map(|(library, _)| *library).collect();
    if engine.is_some_and(|report| report.device != DeviceChoice::Cpu) {
        let rest = missing.join(", ");
        let message = format!("its GPU part works, with {rest} of the system{release}");
        return Some(CheckResult::ok("libtorch", message));
    }
    let lacks = format!("its GPU part lacks {}", missing.join(", "));
    let advice = "Install the drivers' own libraries, or get a libtorch that brings all of its own";
    let message = format!("{lacks}, which other packages must bring{release}");
    Some(CheckResult::warn("libtorch", message).advise(advice))
}

fn rocm_release(runtime: &LibtorchRuntime) -> Option<String> {
    if runtime.kind() != "rocm" {
        return None;
    }
    let text = fs::read_to_string("/opt/rocm/.info/version").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// The devices that run jobs side by side, where there are several.
pub(super) fn devices(devices: &[DeviceChoice]) -> Option<CheckResult> {
    let names: Vec<String> = devices.iter().map(DeviceChoice::to_string).collect();
    let message = format!("jobs run side by side on {}", names.join(", "));
    (names.len() > 1).then(|| CheckResult::ok("devices", message))
}

pub(super) fn engine(report: Result<EngineReport, JobError>) -> CheckResult {
    match report {
        Ok(EngineReport {
            gpu_problem: Some(problem),
            ..
        }) => {
            let message = format!("jobs are computed on the CPU, which is slow: {problem}");
            CheckResult::fail("engine", message)
                .advise("Fix what is said of libtorch and the GPU below; `safelight runtime check` names files of it that are missing or damaged, and `safelight runtime install` with its id downloads those again. Or use another one, or choose the CPU in the setting runtime.device")
                .fix("safelight runtime check")
        }
        Ok(report) => CheckResult::ok("engine", report.line),
        Err(err) => CheckResult::fail("engine", err.summary).advise(err.advice),
    }
}

pub(super) fn models(catalog: Option<&ModelCatalog>) -> Vec<CheckResult> {
    let Some(catalog) = catalog else {
        let message =
            "the search for models did not end in time: a disk with model folders does not respond";
        return vec![
            CheckResult::fail("models", message)
                .advise("Remove the folder from the setting models.folders, or repair its disk"),
        ];
    };
    let available = catalog.available.iter();
    let names: Vec<&str> = available.map(|spec| spec.name.as_str()).collect();
    let first = if names.is_empty() {
        CheckResult::fail("models", "no model was found")
            .advise("Run `safelight models` to see which folders are searched")
            .fix("safelight models")
    } else {
        let message = format!("{} found: {}", names.len(), names.join(", "));
        CheckResult::ok("models", message)
    };
    let problem =
        |it: &CatalogError| CheckResult::warn("models", it.to_string()).advise(advice_for(it));
    let problems = catalog.problems.iter().map(problem);
    std::iter::once(first).chain(problems).collect()
}

/// Checks that results can be written, in the folder itself or in the one that it would be created in.
pub(super) fn output_folder(folder: &Path) -> CheckResult {
    let Some(existing) = folder.ancestors().find(|path| path.exists()) else {
        return CheckResult::fail("output", format!("no such folder: {}", folder.display()));
    };
    let trial = existing.join(format!(".safelight-{}.trial", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(&trial)
        .and_then(|mut file| file.write_all(b"trial"));
    fs::remove_file(&trial).ok();
    let what = match written {
        Ok(()) if existing == folder => "results can be written",
        Ok(()) => "the folder for results can be created",
        Err(err) => {
            let message = format!("results cannot be written: {err}: {}", existing.display());
            let advice =
                "Choose another folder in the settings output.folder and output.images_folder";
            return CheckResult::fail("output", message).advise(advice);
        }
    };
    CheckResult::ok("output", format!("{what}: {}", folder.display()))
}

pub(super) fn disk(folder: &Path, free: Option<u64>) -> CheckResult {
    let place = folder.display();
    let Some(free) = free else {
        return CheckResult::warn("disk", format!("free space is not known: {place}"));
    };
    let status = match free {
        ..FULL_DISK_BYTES => CheckStatus::Fail,
        FULL_DISK_BYTES..ROOMY_DISK_BYTES => CheckStatus::Warn,
        _ => CheckStatus::Ok,
    };
    let message = format!("{} free for jobs: {place}", size_text(free));
    let check = CheckResult::new("disk", status, message);
    if status == CheckStatus::Ok {
        check
    } else {
        check.advise("Jobs keep their data there while they run: free some space")
    }
}

pub(super) fn memory(proc: &Path) -> CheckResult {
    let Some(memory) = host::memory(proc) else {
        return CheckResult::warn("memory", "the kernel does not say how much memory there is");
    };
    let [available, total] = [memory.available_bytes, memory.total_bytes].map(size_text);
    let message = format!("{available} available of {total}");
    if memory.available_bytes < ROOMY_MEMORY_BYTES {
        CheckResult::warn("memory", message)
            .advise("Close other programs: even the embedded model needs about 3 GiB")
    } else {
        CheckResult::ok("memory", message)
    }
}
