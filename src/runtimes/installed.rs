//! The libtorch folders on this machine: Safelight's own, what is named, what an environment or the system has.
//!
//! Looks at names and sizes only and loads nothing.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::settings::{AppPaths, LibtorchRuntime, Settings, default_runtime, own_runtime};

use super::notes::RuntimeNotes;

/// Usual folders of distributions and administrators.
const OF_SYSTEM: [&str; 4] = [
    "usr/lib/python3/dist-packages",
    "usr",
    "usr/local/libtorch",
    "opt/libtorch",
];

/// A libtorch that is here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledRuntime {
    /// Id for commands: the name of a folder that Safelight manages, otherwise its origin.
    pub id: String,
    pub runtime: LibtorchRuntime,
    /// In Safelight's own folder, from which it can be removed.
    pub is_own: bool,
    /// The engine gets it.
    pub is_used: bool,
    pub before: PreviousRuntime,
}

/// Runtime of the engine before the current one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreviousRuntime {
    No,
    Yes,
    /// Yes, and it stays as the one to go back to until the one in use has finished a job.
    Kept,
}

/// Folders to search, in addition to the settings.
#[derive(Clone, Debug, Default)]
pub struct RuntimeSearch {
    /// The active Python environments, as their variables name them.
    pub environments: Vec<PathBuf>,
    /// `/`; another folder in tests.
    pub system: PathBuf,
}

impl RuntimeSearch {
    pub fn of_this_user() -> Self {
        let variable = |name: &str| std::env::var_os(name).filter(|it: &OsString| !it.is_empty());
        let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"]
            .into_iter()
            .filter_map(variable);
        Self {
            environments: environments.map(PathBuf::from).collect(),
            system: PathBuf::from("/"),
        }
    }
}

/// Safelight's own.
pub fn folder(paths: &AppPaths) -> PathBuf {
    paths.data.join("runtimes")
}

/// All of them, the one that the engine gets first.
pub fn all(paths: &AppPaths, settings: &Settings, around: &RuntimeSearch) -> Vec<InstalledRuntime> {
    let used = own_runtime(settings, &paths.cache).ok();
    let notes = RuntimeNotes::load(paths);
    let before = notes.before(paths);
    let mut found: Vec<InstalledRuntime> = Vec::new();
    let mut keep = |id: &str, runtime: Option<LibtorchRuntime>, is_own: bool| {
        let Some(runtime) = runtime else { return };
        let place = real(&runtime.lib);
        if found.iter().all(|it| real(&it.runtime.lib) != place) {
            found.push(InstalledRuntime {
                id: id.to_owned(),
                is_used: used.as_ref().is_some_and(|used| real(&used.lib) == place),
                before: match &before {
                    Some(before) if real(&before.lib) == place => {
                        if notes.is_unproven(used.as_ref()) {
                            PreviousRuntime::Kept
                        } else {
                            PreviousRuntime::Yes
                        }
                    }
                    _ => PreviousRuntime::No,
                },
                runtime,
                is_own,
            });
        }
    };
    for own in folders(&folder(paths)) {
        let id = own.file_name().unwrap_or_default().to_string_lossy();
        // Unfinished installations begin with a dot.
        if !id.starts_with('.') {
            keep(
                &id,
                LibtorchRuntime::in_folder(&own, "Safelight's own"),
                true,
            );
        }
    }
    keep("prepared", default_runtime(&paths.cache).ok(), false);
    keep("chosen", used.clone(), false);
    // Somewhere else, where nothing names it any more.
    if let Some(before) = &before {
        let id = before.folder.display().to_string();
        keep(&id, Some(before.clone()), false);
    }
    for environment in &around.environments {
        let runtime = LibtorchRuntime::in_folder(environment, "the Python environment");
        keep("environment", runtime, false);
    }
    for place in OF_SYSTEM {
        let runtime = LibtorchRuntime::in_folder(&around.system.join(place), "the system");
        keep("system", runtime, false);
    }
    found.sort_by_key(|it| !it.is_used);
    found
}

impl InstalledRuntime {
    /// The way back from the one in use.
    pub fn is_previous(&self) -> bool {
        !self.is_used && self.before != PreviousRuntime::No
    }

    pub fn can_be_removed(&self) -> bool {
        self.is_own && !self.is_used && self.before != PreviousRuntime::Kept
    }

    /// The chips that it has code for, as far as the names of its files tell.
    pub fn targets(&self) -> Vec<String> {
        let below = self.runtime.folders().flat_map(|folder| {
            ["rocblas/library", "hipblaslt/library"].map(|library| folder.join(library))
        });
        let mut found = BTreeSet::new();
        for folder in self.kernels().into_iter().chain(below) {
            let entries = fs::read_dir(folder).into_iter().flatten().flatten();
            found.extend(entries.filter_map(|it| target_in(&it.file_name().to_string_lossy())));
        }
        // Older wheels have the chip in the name of their package.
        let packages = self
            .runtime
            .extra
            .iter()
            .filter_map(|it| it.parent()?.file_name());
        found.extend(packages.filter_map(|name| target_in(&name.to_string_lossy())));
        found.into_iter().collect()
    }

    /// Folder of each chip's kernels in AMD's newer wheels.
    fn kernels(&self) -> Option<PathBuf> {
        Some(self.runtime.lib.parent()?.join(".kpack"))
    }

    /// Size of its libraries on disk.
    pub fn bytes(&self) -> u64 {
        let folders = self.runtime.folders().map(Path::to_path_buf);
        let mut waiting: Vec<PathBuf> = folders.chain(self.kernels()).collect();
        let mut seen = BTreeSet::new();
        let mut bytes = 0;
        while let Some(folder) = waiting.pop() {
            if !seen.insert(real(&folder)) {
                continue;
            }
            for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
                let path = entry.path();
                let Ok(stat) = fs::metadata(&path) else {
                    continue;
                };
                if stat.is_dir() {
                    waiting.push(path);
                } else if seen.insert(real(&path)) {
                    bytes += stat.len();
                }
            }
        }
        bytes
    }
}

/// `TensileLibrary_gfx1151.dat` → `gfx1151`.
fn target_in(name: &str) -> Option<String> {
    let start = name.find("gfx")?;
    let digits: String = name[start + 3..]
        .chars()
        .take_while(char::is_ascii_hexdigit)
        .collect();
    (digits.len() >= 3).then(|| format!("gfx{digits}"))
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The folders in a folder, by name.
fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn lay(torch: &Path, files: &[&str]) {
        for file in ["lib/libtorch_cpu.so"].iter().chain(files) {
            let path = torch.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, [0; 10]).unwrap();
        }
    }

    #[test]
    fn safelights_own_the_chosen_an_environment_and_the_system_are_found_once_each() {
        let root = tempfile::tempdir().unwrap();
        let paths = AppPaths::under(root.path());
        let own = folder(&paths).join("rocm7.14-gfx1151");
        lay(&own, &["lib/libtorch_hip.so"]);
        lay(&folder(&paths).join(".rocm7.2.part"), &[]);
        let venv = root.path().join("venv");
        lay(&venv.join("lib/python3.12/site-packages/torch"), &[]);
        let system = root.path().join("root");
        lay(&system.join("opt/libtorch"), &[]);
        let mut settings = Settings::default();
        settings.runtime.libtorch = Some(own.clone());
        let around = RuntimeSearch {
            environments: vec![venv.clone(), venv],
            system,
        };
        let found = all(&paths, &settings, &around);
        let message = found.iter().filter(|it| it.id != "prepared");
        let message: Vec<_> = message.map(|it| (&*it.id, it.is_own, it.is_used)).collect();
        let others = ["environment", "system"].map(|id| (id, false, false));
        assert_eq!(message[0], ("rocm7.14-gfx1151", true, true));
        assert_eq!(message[1..], others);
    }

    #[test]
    fn gpu_targets_and_size_are_read_from_files_each_counted_once() {
        let root = tempfile::tempdir().unwrap();
        let torch = root.path().join("torch");
        let tensile = "lib/rocblas/library/TensileLibrary_Type_HH_gfx1100.co";
        let kernels = ".kpack/torch_gfx1151.kpack";
        lay(&torch, &["lib/libtorch_hip.so", tensile, kernels]);
        let core = root.path().join("_rocm_sdk_core");
        lay(&core, &["lib/llvm/lib/libLLVM.so.23.0"]);
        symlink("libtorch_hip.so", torch.join("lib/link.so")).unwrap();
        let found = InstalledRuntime {
            id: String::new(),
            runtime: LibtorchRuntime::in_folder(&torch, "").unwrap(),
            is_own: false,
            is_used: false,
            before: PreviousRuntime::No,
        };
        assert_eq!(found.targets(), ["gfx1100", "gfx1151"]);
        assert_eq!(found.bytes(), 60, "six files, and one name more of one");
        let found = target_in("_rocm_sdk_libraries_gfx90a/lib");
        assert_eq!(found.as_deref(), Some("gfx90a"));
        assert_eq!(target_in("gfx"), None);
    }
}
