//! The checks that need no GPU: settings, libtorch, engine, models, folders, memory.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use safelight_core::catalog::Catalog;
use safelight_core::job::{DeviceChoice, JobError};
use safelight_core::model::CatalogError;
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{
    Installation, LoadedSettings, Runtime, RuntimeMissing, libtorch_versions,
};
use safelight_core::units::size_text;

use super::{Check, Status};
use crate::runtimes::Kind;
use crate::telemetry::host;

/// A job keeps latents and frames on the disk; a long clip of large frames needs this much.
const ROOMY_DISK_BYTES: u64 = 5_000_000_000;
/// Below this, not even the smallest clip is likely to be kept.
const FULL_DISK_BYTES: u64 = 200_000_000;
/// The embedded model and libtorch need about this much at once.
const ROOMY_MEMORY_BYTES: u64 = 3_000_000_000;

pub(super) fn settings(loaded: &LoadedSettings, file: &Path) -> Vec<Check> {
    if let Some(err) = &loaded.error {
        return vec![
            Check::fail("settings", format!("{err}; the defaults are used"))
                .advise("Correct the file, or delete it to use the defaults"),
        ];
    }
    if !loaded.warnings.is_empty() {
        let warn = |warning: &String| {
            Check::warn("settings", format!("{warning}: {}", file.display()))
                .advise("It has no effect: correct its name or remove it")
        };
        return loaded.warnings.iter().map(warn).collect();
    }
    let what = if file.exists() {
        "read"
    } else {
        "no settings file yet: the defaults are used"
    };
    vec![Check::ok("settings", format!("{what}: {}", file.display()))]
}

/// `gfx`: the compute targets of the machine's AMD cards.
pub(super) fn runtime(runtime: &Result<Runtime, RuntimeMissing>, gfx: &[String]) -> Vec<Check> {
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(err) => {
            let command = Installation::of_this_program().libtorch_command();
            return vec![Check::fail("libtorch", err.to_string()).mend(command)];
        }
    };
    let place = format!("{} ({})", runtime.folder.display(), runtime.source);
    let warn = |message: &str| Check::warn("libtorch", format!("{message}: {place}"));
    let concerns = runtime.concerns(gfx);
    if !concerns.is_empty() {
        let told = concerns.into_iter();
        let check = |what: &str| match runtime.engine() {
            Some(_) => warn(what),
            None => Check::fail("libtorch", format!("{what}: {place}")),
        };
        return told.map(|it| check(&it.what).advise(it.advice)).collect();
    }
    vec![match runtime.version() {
        Some(version) => {
            let kind = Kind::of(runtime).label();
            Check::ok("libtorch", format!("{version} for {kind}: {place}"))
        }
        None => warn("the folder does not say its version").advise(format!(
            "The engines need libtorch {} and may not start with another",
            libtorch_versions("or")
        )),
    }]
}

/// Checks the libraries that a GPU half needs, and its ROCm or CUDA version, by the names of its libraries. `engine`:
/// result
/// of loading it, if tried.
pub(super) fn gpu_half(runtime: &Runtime, engine: Option<&EngineReport>) -> Option<Check> {
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
        return Some(Check::ok("libtorch", message));
    }
    let missing: Vec<&str> = missing.into_iter().map(|(library, _)| *library).collect();
    if engine.is_some_and(|report| report.device != DeviceChoice::Cpu) {
        let rest = missing.join(", ");
        let message = format!("its GPU part works, with {rest} of the system{release}");
        return Some(Check::ok("libtorch", message));
    }
    let lacks = format!("its GPU part lacks {}", missing.join(", "));
    let advice = "Install the drivers' own libraries, or get a libtorch that brings all of its own";
    let message = format!("{lacks}, which other packages must bring{release}");
    Some(Check::warn("libtorch", message).advise(advice))
}

fn rocm_release(runtime: &Runtime) -> Option<String> {
    if runtime.kind() != "rocm" {
        return None;
    }
    let text = fs::read_to_string("/opt/rocm/.info/version").ok()?;
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

pub(super) fn engine(report: Result<EngineReport, JobError>) -> Check {
    match report {
        Ok(EngineReport {
            gpu_problem: Some(problem),
            ..
        }) => {
            let message = format!("jobs are computed on the CPU, which is slow: {problem}");
            Check::fail("engine", message)
                .advise("Mend what is said of libtorch and the GPU below; `safelight runtime check` names files of it that are missing or damaged, and `safelight runtime install` with its id downloads those again. Or use another one, or choose the CPU in the setting runtime.device")
                .mend("safelight runtime check")
        }
        Ok(report) => Check::ok("engine", report.line),
        Err(err) => Check::fail("engine", err.summary).advise(err.advice),
    }
}

pub(super) fn models(catalog: Option<&Catalog>) -> Vec<Check> {
    let Some(catalog) = catalog else {
        let message =
            "the search for models did not end in time: a disk with model folders does not respond";
        return vec![
            Check::fail("models", message)
                .advise("Remove the folder from the setting models.folders, or repair its disk"),
        ];
    };
    let available = catalog.available.iter();
    let names: Vec<&str> = available.map(|spec| spec.name.as_str()).collect();
    let first = if names.is_empty() {
        Check::fail("models", "no model was found")
            .advise("Run `safelight models` to see which folders are searched")
            .mend("safelight models")
    } else {
        let message = format!("{} found: {}", names.len(), names.join(", "));
        Check::ok("models", message)
    };
    let problem = |it: &CatalogError| Check::warn("models", it.to_string()).advise(it.advice());
    let problems = catalog.problems.iter().map(problem);
    std::iter::once(first).chain(problems).collect()
}

/// Checks that results can be written, in the folder itself or in the one that it would be created in.
pub(super) fn output_folder(folder: &Path) -> Check {
    let Some(existing) = folder.ancestors().find(|path| path.exists()) else {
        return Check::fail("output", format!("no such folder: {}", folder.display()));
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
                "Choose another folder in the settings output.folder and output.pictures_folder";
            return Check::fail("output", message).advise(advice);
        }
    };
    Check::ok("output", format!("{what}: {}", folder.display()))
}

pub(super) fn disk(folder: &Path) -> Check {
    let place = folder.display();
    let Some(free) = host::free_bytes(folder) else {
        return Check::warn("disk", format!("free space is not known: {place}"));
    };
    let status = match free {
        ..FULL_DISK_BYTES => Status::Fail,
        FULL_DISK_BYTES..ROOMY_DISK_BYTES => Status::Warn,
        _ => Status::Ok,
    };
    let message = format!("{} free for jobs: {place}", size_text(free));
    let check = Check::new("disk", status, message);
    if status == Status::Ok {
        check
    } else {
        check.advise("Jobs keep their data there while they run: free some space")
    }
}

pub(super) fn memory(proc: &Path) -> Check {
    let Some(memory) = host::memory(proc) else {
        return Check::warn("memory", "the kernel does not say how much memory there is");
    };
    let [available, total] = [memory.available_bytes, memory.total_bytes].map(size_text);
    let message = format!("{available} available of {total}");
    if memory.available_bytes < ROOMY_MEMORY_BYTES {
        Check::warn("memory", message)
            .advise("Close other programs: even the embedded model needs about 3 GiB")
    } else {
        Check::ok("memory", message)
    }
}
