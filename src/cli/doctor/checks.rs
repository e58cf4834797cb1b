//! The checks that need no GPU: settings, libtorch, engine, models, folders, memory.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use safelight_core::catalog::{Catalog, size_text};
use safelight_core::job::JobError;
use safelight_core::protocol::EngineReport;
use safelight_core::settings::{LoadedSettings, Runtime, RuntimeMissing};

use super::{Check, Status};
use crate::telemetry::host;

/// The version that the engine is built for.
const LIBTORCH: &str = "2.11.0";
/// A job keeps latents and frames on the disk; a long clip of large frames needs this much.
const ROOMY_DISK_BYTES: u64 = 5_000_000_000;
/// Below this, not even the smallest clip is likely to be kept.
const FULL_DISK_BYTES: u64 = 200_000_000;
/// The embedded model and libtorch need about this much at once.
const ROOMY_MEMORY_BYTES: u64 = 3_000_000_000;

pub(super) fn settings(loaded: &LoadedSettings, file: &Path) -> Vec<Check> {
    if let Some(err) = &loaded.error {
        return vec![
            Check::fail("settings", format!("{err}; everything has its default"))
                .advise("Correct the file, or remove it to start afresh"),
        ];
    }
    if !loaded.warnings.is_empty() {
        let warn = |warning: &String| {
            Check::warn("settings", format!("{warning}: {}", file.display()))
                .advise("It changes nothing: correct its name or remove it")
        };
        return loaded.warnings.iter().map(warn).collect();
    }
    let message = if file.exists() {
        format!("read: {}", file.display())
    } else {
        format!(
            "no file yet, so everything has its default: {}",
            file.display()
        )
    };
    vec![Check::ok("settings", message)]
}

pub(super) fn runtime(runtime: &Result<Runtime, RuntimeMissing>) -> Check {
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(err) => return Check::fail("libtorch", err.to_string()),
    };
    let place = format!("{} ({})", runtime.folder.display(), runtime.source);
    match runtime.version() {
        Some(version) if version.split('+').next() == Some(LIBTORCH) => Check::ok(
            "libtorch",
            format!("{version}, {}: {place}", runtime.kind()),
        ),
        Some(version) => Check::warn(
            "libtorch",
            format!("expected version {LIBTORCH}, found {version}: {place}"),
        )
        .advise(format!(
            "The engine is built for libtorch {LIBTORCH} and may not start with another"
        )),
        None => Check::warn(
            "libtorch",
            format!("the folder does not say its version: {place}"),
        ),
    }
}

pub(super) fn engine(report: Result<EngineReport, JobError>) -> Check {
    match report {
        Ok(report) => Check::ok("engine", report.line),
        Err(err) => Check::fail("engine", err.summary).advise(err.advice),
    }
}

pub(super) fn models(catalog: &Catalog) -> Vec<Check> {
    let mut checks = Vec::new();
    let names: Vec<&str> = catalog
        .available
        .iter()
        .map(|spec| spec.name.as_str())
        .collect();
    checks.push(if names.is_empty() {
        Check::fail("models", "no model was found")
            .advise("Run `safelight models` to see where models are looked for")
    } else {
        Check::ok(
            "models",
            format!("{} found: {}", names.len(), names.join(", ")),
        )
    });
    for problem in &catalog.problems {
        checks.push(Check::warn("models", problem.to_string()).advise(problem.advice()));
    }
    checks
}

/// Whether results can be written, tried in the folder itself or in the one that it would be made in.
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
    match written {
        Ok(()) if existing == folder => Check::ok(
            "output",
            format!("results can be written: {}", folder.display()),
        ),
        Ok(()) => Check::ok(
            "output",
            format!("the folder for results can be made: {}", folder.display()),
        ),
        Err(err) => Check::fail(
            "output",
            format!("results cannot be written: {err}: {}", existing.display()),
        )
        .advise("Choose another folder in the setting output.folder"),
    }
}

pub(super) fn disk(folder: &Path) -> Check {
    let Some(free) = host::free_bytes(folder) else {
        return Check::warn(
            "disk",
            format!("free space is not known: {}", folder.display()),
        );
    };
    let status = match free {
        ..FULL_DISK_BYTES => Status::Fail,
        FULL_DISK_BYTES..ROOMY_DISK_BYTES => Status::Warn,
        _ => Status::Ok,
    };
    let check = Check::new(
        "disk",
        status,
        format!("{} free for jobs: {}", size_text(free), folder.display()),
    );
    if status == Status::Ok {
        check
    } else {
        check.advise("Jobs keep their latents and frames there: make room")
    }
}

pub(super) fn memory(proc: &Path) -> Check {
    let Some(memory) = host::memory(proc) else {
        return Check::warn("memory", "the kernel does not say how much memory there is");
    };
    let message = format!(
        "{} available of {}",
        size_text(memory.available_bytes),
        size_text(memory.total_bytes)
    );
    if memory.available_bytes < ROOMY_MEMORY_BYTES {
        Check::warn("memory", message)
            .advise("Close other programs: even the embedded model needs about 3 GB")
    } else {
        Check::ok("memory", message)
    }
}
