//! libtorch runtimes: installed ones, builds for this machine's GPUs, self-tests, and the choice for jobs.
//!
//! The project has not run ROCm so far: it has no AMD GPU. Chooses and downloads only on request.

mod check;
mod files;
mod folders;
mod install;
#[cfg(test)]
mod install_tests;
mod installed;
mod local;
#[cfg(test)]
mod local_tests;
mod machine;
mod members;
mod notes;
mod overview;
mod requirements;
mod table;
#[cfg(test)]
mod tests;
mod wheel;
mod wheel_source;

use std::cell::RefCell;
use std::fs;
use std::io;

use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use safelight_core::settings::{
    AppPaths, RuntimeSettings, Settings, SettingsFile, default_runtime, libtorch_versions,
    own_runtime,
};

use crate::download::DownloadOptions;

pub use check::{RuntimeCheck, check};
pub use install::{InstallProgress, InstallResult, NOTE, install};
pub use installed::{InstalledRuntime, PreviousRuntime, RuntimeSearch, all, folder};
pub use local::build_of;
pub use machine::{MachineGpu, MachineGpus, nvidia_on_bus};
pub use notes::{computes_on, finished_on};
pub use overview::{RuntimeAdvice, RuntimeOverview, RuntimeRow};
pub use requirements::{BuildFit, RuntimeRefusal, of_machine, of_place, refusal};
pub use table::{RuntimeBuild, RuntimeKind, TableError, builds};
pub use wheel_source::WheelSource;

/// Download options of wheels: small pieces, because only parts of them are needed.
pub fn options() -> DownloadOptions {
    DownloadOptions {
        piece_bytes: 4 << 20,
        ..DownloadOptions::default()
    }
}

/// Result of an installation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallOutcome {
    pub installed: InstallResult,
    /// Jobs get it from now on.
    pub is_used: bool,
    /// Why its GPU part was not used, where this machine has no GPU for it.
    pub gpu_problem: Option<String>,
}

/// Fetches or copies a build, tries it and has jobs use it; `None` when cancelled. `has_gpu`: this machine has one of the
/// maker that the build is for. What is for another machine is installed for its files, and jobs stay where they are.
pub fn get(
    build: &RuntimeBuild,
    place: &WheelSource,
    has_gpu: bool,
    (paths, settings): (&AppPaths, &RuntimeSettings),
    cancel: &CancelToken,
    report: &mut dyn FnMut(&InstallProgress),
) -> Result<Option<InstallOutcome>, JobError> {
    let tried = RefCell::new(None);
    let attempt = |runtime: &_| {
        let checked = check(runtime, settings, has_gpu, cancel)?;
        let is_there = checked.is_some();
        tried.replace(checked);
        Ok(is_there)
    };
    let installed = install(build, place, paths, &options(), cancel, &attempt, report)?;
    let (Some(installed), Some(checked)) = (installed, tried.into_inner()) else {
        return Ok(None);
    };
    let found = named(&installed.folder.display().to_string(), &[])?;
    computes_on(paths, &found.runtime, &checked.device);
    let is_used = has_gpu || build.kind == RuntimeKind::Cpu;
    if is_used {
        choose(&found, paths)?;
    }
    Ok(Some(InstallOutcome {
        installed,
        is_used,
        gpu_problem: checked.gpu_problem,
    }))
}

/// Tries one that is here, and remembers the device; `None` when cancelled. Safelight's own must have the files with which
/// it was installed.
pub fn tried(
    found: &InstalledRuntime,
    paths: &AppPaths,
    settings: &RuntimeSettings,
    cancel: &CancelToken,
) -> Result<Option<RuntimeCheck>, JobError> {
    if found.is_own {
        let Some(damaged) = files::damaged(&folder(paths).join(&found.id), cancel) else {
            return Ok(None);
        };
        if let Some(what) = broken(&damaged) {
            let what = format!("{}: {what}", found.id);
            let advice = format!(
                "`safelight runtime install {}`, or Repair in the settings, downloads these files again",
                found.id
            );
            let err = JobError::new(JobErrorKind::Device, what).advise(advice);
            return Err(err.detail(damaged.join("\n")));
        }
    }
    let checked = check(&found.runtime, settings, true, cancel)?;
    if let Some(checked) = &checked {
        computes_on(paths, &found.runtime, &checked.device);
    }
    Ok(checked)
}

/// Sentence on files that changed since the installation; `None` without any.
fn broken(damaged: &[String]) -> Option<String> {
    const MOST_NAMED: usize = 3;
    let named = damaged.iter().take(MOST_NAMED);
    let names: Vec<&str> = named.map(String::as_str).collect();
    let names = names.join(", ");
    match damaged.len() {
        0 => None,
        1 => Some(format!("a file is missing or damaged: {names}")),
        count if count <= MOST_NAMED => {
            Some(format!("{count} files are missing or damaged: {names}"))
        }
        count => Some(format!(
            "{count} files are missing or damaged, among them {names}"
        )),
    }
}

/// Tries one that is here on the GPU and has jobs use it; `false` when cancelled.
pub fn use_one(
    found: &InstalledRuntime,
    paths: &AppPaths,
    settings: &RuntimeSettings,
    cancel: &CancelToken,
) -> Result<bool, JobError> {
    if tried(found, paths, settings, cancel)?.is_none() {
        return Ok(false);
    }
    choose(found, paths)?;
    Ok(true)
}

/// The one that jobs used before the one in use: the way back.
pub fn previous(here: &[InstalledRuntime]) -> Result<InstalledRuntime, JobError> {
    let mut before = here.iter().filter(|it| it.is_previous());
    before.next().cloned().ok_or_else(|| {
        let what = "there is no libtorch to go back to: none was used before, or it is gone";
        JobError::invalid(what).advise("Choose one with `safelight runtime use ID`")
    })
}

/// Runtime named by its id, or by its folder.
pub fn named(word: &str, here: &[InstalledRuntime]) -> Result<InstalledRuntime, JobError> {
    if let Some(found) = here.iter().find(|it| it.id == word) {
        return Ok(found.clone());
    }
    let path = std::path::Path::new(word);
    let runtime = safelight_core::settings::LibtorchRuntime::in_folder(path, "as named");
    if let Some(runtime) = runtime.filter(|_| path.is_dir()) {
        return Ok(InstalledRuntime {
            id: runtime.folder.display().to_string(),
            runtime,
            is_own: false,
            is_used: false,
            before: PreviousRuntime::No,
        });
    }
    let ids: Vec<&str> = here.iter().map(|it| it.id.as_str()).collect();
    let what = format!("no libtorch is called {word}, and it is no folder with one");
    let advice = if ids.is_empty() {
        let either = libtorch_versions("or");
        format!("Name a folder with libtorch {either}, such as a Python environment")
    } else {
        format!("Those that are here: {}", ids.join(", "))
    };
    Err(JobError::invalid(what).advise(advice))
}

/// Settings of the file; a broken one is an error rather than the defaults, as it may name a mirror.
pub fn readable_settings(paths: &AppPaths) -> Result<Settings, JobError> {
    let loaded = Settings::load(&paths.settings_file());
    match loaded.error {
        Some(err) => {
            let advice = "Correct the settings file first: it is left as it is";
            Err(JobError::from_error(JobErrorKind::InvalidRequest, &err).advise(advice))
        }
        None => Ok(loaded.settings),
    }
}

/// Makes jobs from the next one on use this libtorch. The one before stays where it is.
pub fn choose(found: &InstalledRuntime, paths: &AppPaths) -> Result<(), JobError> {
    let file = SettingsFile::new(paths.settings_file());
    let loaded = readable_settings(paths)?;
    let mut settings = loaded.clone();
    let before = settings.runtime.libtorch.clone();
    // The default need not be named.
    let is_default = default_runtime(&paths.cache).is_ok_and(|it| it.lib == found.runtime.lib);
    settings.runtime.libtorch = (!is_default).then(|| found.runtime.folder.clone());
    let saved = file.save(&loaded, &settings);
    saved.map_err(|err| JobError::from_error(JobErrorKind::Disk, &err))?;
    if before != settings.runtime.libtorch {
        notes::changed(paths, before, &found.runtime);
    }
    let used = own_runtime(&settings, &paths.cache);
    if used.is_ok_and(|used| used.lib != found.runtime.lib) {
        let what = "the variable SAFELIGHT_LIBTORCH names another libtorch and has the last word";
        let advice = "Remove it from your shell's start-up files";
        return Err(JobError::invalid(what).advise(advice));
    }
    Ok(())
}

/// Deletes a runtime of Safelight's that no job would get.
pub fn remove(found: &InstalledRuntime) -> Result<(), JobError> {
    let refuse = |what: String, advice: &str| Err(JobError::invalid(what).advise(advice));
    let (id, folder) = (&found.id, &found.runtime.folder);
    if !found.is_own {
        let what = format!(
            "{id} is not in Safelight's own folder, and is left alone: {}",
            folder.display()
        );
        return refuse(what, "Delete it with what installed it");
    }
    if found.is_used {
        let what = format!("{id} is the libtorch that jobs use");
        return refuse(
            what,
            "Choose another one first with `safelight runtime use ID`",
        );
    }
    if found.before == PreviousRuntime::Kept {
        let what = format!("{id} is kept until a job has finished on the libtorch in use");
        return refuse(
            what,
            "Run a job first, or go back to it with `safelight runtime use --previous`",
        );
    }
    // Under another name first: a folder that is half deleted is never taken for a libtorch.
    let mut hidden = std::ffi::OsString::from(".removed-");
    hidden.push(folder.file_name().unwrap_or_default());
    let hidden = folder.with_file_name(hidden);
    let removed = remove_if_there(&hidden)
        .and_then(|()| fs::rename(folder, &hidden))
        .and_then(|()| fs::remove_dir_all(&hidden));
    removed.map_err(|err| {
        let what = format!("{id} cannot be deleted: {err}: {}", folder.display());
        JobError::new(JobErrorKind::Disk, what)
    })
}

/// Removes the rest of an interrupted deletion.
fn remove_if_there(folder: &std::path::Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}
