//! The libtorch folders that engines run on: which are here, which would fit this machine's GPUs, whether one computes
//! right, which one jobs use.
//!
//! Nothing of ROCm was run by the project so far: it has no AMD GPU. Chooses and fetches nothing by itself.

mod check;
mod fit;
mod here;
mod index;
mod install;
#[cfg(test)]
mod install_tests;
mod machine;
mod members;
mod overview;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;

use safelight_core::job::{CancelToken, JobError, JobErrorKind};
use safelight_core::settings::{
    LIBTORCH_VERSION, Paths, RuntimeSettings, Settings, SettingsFile, default_runtime, own_runtime,
};

use crate::download::Options;

pub use check::{Checked, check};
pub use fit::{Fit, Refusal, of_machine, refusal};
pub use here::{Found, Surroundings, all, folder};
pub use install::{Installed, NOTE, Place, Progress, install};
pub use machine::{Gpu, Machine, nvidia_on_bus};
pub use overview::{Advice, Overview};
pub use table::{Build, Kind, TableError, builds};

/// How wheels are fetched: in small pieces, as only parts of them are wanted.
pub fn options() -> Options {
    Options {
        piece_bytes: 4 << 20,
        ..Options::default()
    }
}

/// Fetches a build from its index, tries it on the GPU and has jobs use it; `false` when cancelled.
pub fn get(
    build: &Build,
    paths: &Paths,
    settings: &RuntimeSettings,
    cancel: &CancelToken,
    report: &mut dyn FnMut(&Progress),
) -> Result<bool, JobError> {
    let attempt = |runtime: &_| Ok(check(runtime, settings, true, cancel)?.is_some());
    let installed = install(
        build,
        &Place::Index,
        paths,
        &options(),
        cancel,
        &attempt,
        report,
    )?;
    let Some(installed) = installed else {
        return Ok(false);
    };
    choose(&named(&installed.folder.display().to_string(), &[])?, paths)?;
    Ok(true)
}

/// Tries one that is here on the GPU and has jobs use it; `false` when cancelled.
pub fn use_one(
    id: &str,
    paths: &Paths,
    settings: &RuntimeSettings,
    cancel: &CancelToken,
) -> Result<bool, JobError> {
    let loaded = Settings::load(&paths.settings_file()).settings;
    let found = named(id, &all(paths, &loaded, &Surroundings::of_this_user()))?;
    if check(&found.runtime, settings, true, cancel)?.is_none() {
        return Ok(false);
    }
    choose(&found, paths)?;
    Ok(true)
}

/// The one that a user names by its id, or by a folder of which it is told.
pub fn named(word: &str, here: &[Found]) -> Result<Found, JobError> {
    if let Some(found) = here.iter().find(|it| it.id == word) {
        return Ok(found.clone());
    }
    let path = std::path::Path::new(word);
    let runtime = safelight_core::settings::Runtime::at(path, "as named");
    if let Some(runtime) = runtime.filter(|_| path.is_dir()) {
        return Ok(Found {
            id: runtime.folder.display().to_string(),
            runtime,
            is_own: false,
            is_used: false,
        });
    }
    let ids: Vec<&str> = here.iter().map(|it| it.id.as_str()).collect();
    let what = format!("no libtorch is called {word}, and it is no folder with one");
    let advice = if ids.is_empty() {
        format!("Name a folder with libtorch {LIBTORCH_VERSION}, such as a Python environment")
    } else {
        format!("Those that are here: {}", ids.join(", "))
    };
    Err(JobError::new(JobErrorKind::InvalidRequest, what).advise(advice))
}

/// Makes jobs from the next one on use this libtorch. The one before stays where it is.
pub fn choose(found: &Found, paths: &Paths) -> Result<(), JobError> {
    let file = SettingsFile::new(paths.settings_file());
    let loaded = Settings::load(file.path());
    if let Some(err) = loaded.error {
        let advice = "Correct the settings file first: it is left as it is";
        return Err(JobError::from_error(JobErrorKind::InvalidRequest, &err).advise(advice));
    }
    let mut settings = loaded.settings.clone();
    // What is taken anyway need not be named.
    let is_default = default_runtime(&paths.cache).is_ok_and(|it| it.lib == found.runtime.lib);
    settings.runtime.libtorch = (!is_default).then(|| found.runtime.folder.clone());
    let saved = file.save(&loaded.settings, &settings);
    saved.map_err(|err| JobError::from_error(JobErrorKind::Disk, &err))?;
    let used = own_runtime(&settings, &paths.cache);
    if used.is_ok_and(|used| used.lib != found.runtime.lib) {
        let what = "the variable SAFELIGHT_LIBTORCH names another libtorch and has the last word";
        let advice = "Remove it from your shell's start-up files";
        return Err(JobError::new(JobErrorKind::InvalidRequest, what).advise(advice));
    }
    Ok(())
}

/// Deletes one that is Safelight's own and that no job would get.
pub fn remove(found: &Found) -> Result<(), JobError> {
    let refuse = |what: String, advice: &str| {
        Err(JobError::new(JobErrorKind::InvalidRequest, what).advise(advice))
    };
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

/// What an interrupted deletion left.
fn remove_if_there(folder: &std::path::Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(err) if err.kind() != io::ErrorKind::NotFound => Err(err),
        _ => Ok(()),
    }
}
