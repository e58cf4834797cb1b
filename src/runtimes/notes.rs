//! Notes on runtimes: the one that jobs used before, whether the current one has finished a job, and the device of
//! each.
//!
//! Only a help: a missing or unreadable file counts as empty.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::files::{read_json_or_default, write_json};
use safelight_core::settings::{AppPaths, LibtorchRuntime, default_runtime};
use serde::{Deserialize, Serialize};

const FILE: &str = "runtimes.json";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RuntimeNotes {
    change: Option<RuntimeChange>,
    /// Device line of the engine's last self-test, by libtorch folder.
    devices: BTreeMap<PathBuf, String>,
}

/// The last time that jobs were given another libtorch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RuntimeChange {
    /// Previous value of the setting; absent: the default.
    before: Option<PathBuf>,
    /// The folder with the libtorch in use since.
    now: PathBuf,
    /// A job has finished on it.
    is_proven: bool,
}

/// Path of the file.
pub(super) fn file(paths: &AppPaths) -> PathBuf {
    paths.data.join(FILE)
}

impl RuntimeNotes {
    pub(super) fn load(paths: &AppPaths) -> Self {
        read_json_or_default(&file(paths))
    }

    fn keep(&self, paths: &AppPaths) {
        let file = file(paths);
        let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
        if let Err(err) = folder.and_then(|()| write_json(&file, self)) {
            tracing::warn!("what is known of libtorch folders is not kept: {err}");
        }
    }

    /// The one that jobs used before, while it is there.
    pub(super) fn before(&self, paths: &AppPaths) -> Option<LibtorchRuntime> {
        let change = self.change.as_ref()?;
        match &change.before {
            Some(folder) => LibtorchRuntime::in_folder(folder, "used before"),
            None => default_runtime(&paths.cache).ok(),
        }
    }

    /// Returns whether the current runtime has not finished a job since it was chosen.
    pub(super) fn is_unproven(&self, used: Option<&LibtorchRuntime>) -> bool {
        let change = self.change.as_ref().filter(|change| !change.is_proven);
        change.is_some_and(|change| used.is_some_and(|used| used.lib == change.now))
    }

    pub(super) fn device(&self, runtime: &LibtorchRuntime) -> Option<&str> {
        self.devices.get(&runtime.lib).map(String::as_str)
    }
}

/// That jobs get another one from now on.
pub(super) fn changed(paths: &AppPaths, before: Option<PathBuf>, now: &LibtorchRuntime) {
    let mut notes = RuntimeNotes::load(paths);
    notes.change = Some(RuntimeChange {
        before,
        now: now.lib.clone(),
        is_proven: false,
    });
    notes.keep(paths);
}

/// That it was tried, and on which device it computed.
pub fn computes_on(paths: &AppPaths, runtime: &LibtorchRuntime, device: &str) {
    let mut notes = RuntimeNotes::load(paths);
    // Those of folders that are gone are of no use.
    notes.devices.retain(|lib, _| lib.is_dir());
    notes.devices.insert(runtime.lib.clone(), device.to_owned());
    notes.keep(paths);
}

/// That a job has finished on the libtorch in this folder: the one before it need not be kept any more.
pub fn finished_on(paths: &AppPaths, lib: &Path) {
    let mut notes = RuntimeNotes::load(paths);
    match &mut notes.change {
        Some(change) if change.now == lib && !change.is_proven => change.is_proven = true,
        _ => return,
    }
    notes.keep(paths);
}
