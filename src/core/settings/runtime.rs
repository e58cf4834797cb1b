//! Which libtorch the engine gets: a folder with the shared libraries, and what else they need.
//!
//! Looks at names only and loads nothing. What the folder can do, the engine says.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::Settings;

const LIBRARY: &str = "libtorch_cpu.so";
/// The folder in the cache that `cargo xtask setup` prepares.
const PREPARED: &str = "libtorch-2.11.0-cpu";

/// A libtorch that can be put on the engine's library path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runtime {
    /// What was named or found.
    pub folder: PathBuf,
    /// The folder that directly holds `libtorch_cpu.so`.
    pub lib: PathBuf,
    /// More folders that the GPU half needs (CUDA wheels keep their libraries beside `torch`).
    pub extra: Vec<PathBuf>,
    /// Who named it, for people: a variable, a setting, or a place.
    pub source: &'static str,
}

/// Why there is no libtorch, and what to do about it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RuntimeMissing {
    #[error(
        "there is no {LIBRARY} in the folder that {source_name} names, nor in its lib folder: {}",
        folder.display()
    )]
    Wrong {
        source_name: &'static str,
        folder: PathBuf,
    },
    #[error(
        "no libtorch found: run `cargo xtask setup`, or choose a libtorch 2.11.0 folder in the setting runtime.libtorch"
    )]
    Nowhere { searched: Vec<PathBuf> },
}

impl Runtime {
    /// The library path for the engine: this runtime first, then what was there before.
    pub fn library_path(&self, inherited: Option<OsString>) -> OsString {
        let inherited = inherited.unwrap_or_default();
        let before = std::env::split_paths(&inherited)
            // An empty part would mean the current folder.
            .filter(|path| !path.as_os_str().is_empty())
            .collect::<Vec<_>>();
        let all = std::iter::once(&self.lib).chain(&self.extra).chain(&before);
        let mut joined = OsString::new();
        for path in all {
            if !joined.is_empty() {
                joined.push(":");
            }
            joined.push(path);
        }
        joined
    }

    /// What the folder says of its own version, such as `2.11.0` or `2.11.0+cu130`.
    pub fn version(&self) -> Option<String> {
        let parent = self.lib.parent();
        let in_folder = |name: &str| {
            [Some(self.lib.as_path()), parent]
                .into_iter()
                .flatten()
                .find_map(|folder| fs::read_to_string(folder.join(name)).ok())
        };
        if let Some(text) = in_folder("build-version") {
            return Some(text.trim().to_owned()).filter(|text| !text.is_empty());
        }
        // A pip-installed torch says it in Python.
        let text = in_folder("version.py")?;
        let line = text
            .lines()
            .find(|line| line.trim_start().starts_with("__version__"))?;
        line.split(['\'', '"']).nth(1).map(str::to_owned)
    }

    /// `cpu`, `cuda` or `rocm`, by which GPU half lies in the folder.
    pub fn kind(&self) -> &'static str {
        kind_of(&self.lib)
    }
}

/// `cpu`, `cuda` or `rocm`, by which GPU half lies in the folder with `libtorch_cpu.so`.
pub fn kind_of(lib: &Path) -> &'static str {
    if lib.join("libtorch_hip.so").exists() {
        "rocm"
    } else if lib.join("libtorch_cuda.so").exists() {
        "cuda"
    } else {
        "cpu"
    }
}

/// The same for this process: its variable, its executable, and the app's cache folder.
pub fn own_runtime(settings: &Settings, cache: &Path) -> Result<Runtime, RuntimeMissing> {
    let executable = std::env::current_exe().ok();
    let variable = std::env::var_os("SAFELIGHT_LIBTORCH");
    runtime_folder(
        settings,
        variable,
        executable.as_deref().and_then(Path::parent),
        cache,
    )
}

/// The libtorch to use: what the variable `SAFELIGHT_LIBTORCH` names, what the settings name, what lies
/// beside the executable, what set-up prepared in the cache, what the checkout's link leads to.
///
/// What is named outright and wrong is an error: silently taking another one would surprise.
fn runtime_folder(
    settings: &Settings,
    variable: Option<OsString>,
    exe_folder: Option<&Path>,
    cache: &Path,
) -> Result<Runtime, RuntimeMissing> {
    let named = variable
        .filter(|value| !value.is_empty())
        .map(|value| (PathBuf::from(value), "SAFELIGHT_LIBTORCH"))
        .or_else(|| {
            let folder = settings.runtime.libtorch.clone()?;
            Some((folder, "the setting runtime.libtorch"))
        });
    if let Some((folder, source_name)) = named {
        return runtime_at(&folder, source_name).ok_or(RuntimeMissing::Wrong {
            source_name,
            folder,
        });
    }
    let mut places: Vec<(PathBuf, &'static str)> = Vec::new();
    if let Some(exe) = exe_folder {
        places.push((exe.join("runtime"), "beside the executable"));
    }
    places.push((cache.join(PREPARED), "prepared by set-up"));
    if let Some(exe) = exe_folder {
        // An executable lies in target/debug, a test in target/debug/deps.
        for above in exe.ancestors().skip(1).take(3) {
            places.push((above.join(".libtorch"), "the checkout's own"));
        }
    }
    for (folder, source) in &places {
        if let Some(runtime) = runtime_at(folder, source) {
            return Ok(runtime);
        }
    }
    Err(RuntimeMissing::Nowhere {
        searched: places.into_iter().map(|(folder, _)| folder).collect(),
    })
}

fn runtime_at(folder: &Path, source: &'static str) -> Option<Runtime> {
    let folder = std::path::absolute(folder).ok()?;
    let lib = [folder.join("lib"), folder.clone()]
        .into_iter()
        .find(|lib| lib.join(LIBRARY).is_file())?;
    let extra = nvidia_folders(&lib);
    Some(Runtime {
        folder,
        lib,
        extra,
        source,
    })
}

/// `site-packages/nvidia/*/lib` for a pip-installed `site-packages/torch/lib`.
fn nvidia_folders(lib: &Path) -> Vec<PathBuf> {
    let packages = lib.parent().and_then(Path::parent);
    let Some(entries) = packages.and_then(|folder| fs::read_dir(folder.join("nvidia")).ok()) else {
        return Vec::new();
    };
    let mut folders: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path().join("lib")))
        .filter(|folder| folder.is_dir())
        .collect();
    folders.sort();
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    fn libtorch(at: &Path) -> PathBuf {
        fs::create_dir_all(at.join("lib")).unwrap();
        fs::write(at.join("lib").join(LIBRARY), b"").unwrap();
        at.to_owned()
    }

    fn settings_with(folder: &Path) -> Settings {
        let mut settings = Settings::default();
        settings.runtime.libtorch = Some(folder.to_owned());
        settings
    }

    #[test]
    fn the_variable_wins_over_the_setting_and_that_over_all_places() {
        let root = tempfile::tempdir().unwrap();
        let exe = root.path().join("repo/target/debug");
        let [a, b, beside, cached, linked] = [
            libtorch(&root.path().join("a")),
            libtorch(&root.path().join("b")),
            libtorch(&exe.join("runtime")),
            libtorch(&root.path().join("cache").join(PREPARED)),
            libtorch(&root.path().join("repo/.libtorch")),
        ];
        let cache = root.path().join("cache");
        let find = |settings: &Settings, variable: Option<&Path>| {
            let variable = variable.map(|path| path.as_os_str().to_owned());
            runtime_folder(settings, variable, Some(&exe), &cache).map(|found| found.folder)
        };
        let none = Settings::default();
        assert_eq!(find(&settings_with(&b), Some(&a)), Ok(a));
        assert_eq!(find(&settings_with(&b), None), Ok(b));
        assert_eq!(find(&none, None), Ok(beside.clone()));
        fs::remove_dir_all(beside).unwrap();
        assert_eq!(find(&none, Some(Path::new(""))), Ok(cached.clone()));
        fs::remove_dir_all(cached).unwrap();
        assert_eq!(find(&none, None), Ok(linked.clone()));
        fs::remove_dir_all(linked).unwrap();
        assert!(matches!(
            find(&none, None),
            Err(RuntimeMissing::Nowhere { .. })
        ));
    }

    #[test]
    fn a_named_folder_that_is_wrong_is_an_error_and_not_passed_over() {
        let root = tempfile::tempdir().unwrap();
        libtorch(&root.path().join("cache").join(PREPARED));
        let cache = root.path().join("cache");
        let wrong = root.path().join("empty");
        let err = runtime_folder(&settings_with(&wrong), None, None, &cache).unwrap_err();
        let text = err.to_string();
        assert!(
            text.contains("runtime.libtorch") && text.contains(LIBRARY),
            "{text}"
        );
        let variable = Some(wrong.into_os_string());
        let err = runtime_folder(&Settings::default(), variable, None, &cache).unwrap_err();
        assert!(err.to_string().contains("SAFELIGHT_LIBTORCH"));
    }

    #[test]
    fn the_lib_folder_itself_and_a_pip_package_are_runtimes_too() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("site-packages");
        let torch = libtorch(&packages.join("torch"));
        fs::write(torch.join("lib/libtorch_cuda.so"), b"").unwrap();
        fs::write(
            torch.join("version.py"),
            "from typing import Optional\n__version__ = '2.11.0+cu130'\n",
        )
        .unwrap();
        fs::create_dir_all(packages.join("nvidia/cudnn/lib")).unwrap();
        fs::create_dir_all(packages.join("nvidia/cublas/lib")).unwrap();
        fs::write(packages.join("nvidia/__init__.py"), b"").unwrap();
        for folder in [torch.clone(), torch.join("lib")] {
            let runtime =
                runtime_folder(&settings_with(&folder), None, None, Path::new("")).unwrap();
            assert_eq!(runtime.lib, torch.join("lib"));
            assert_eq!(
                runtime.extra,
                [
                    packages.join("nvidia/cublas/lib"),
                    packages.join("nvidia/cudnn/lib")
                ]
            );
            assert_eq!(runtime.version().as_deref(), Some("2.11.0+cu130"));
            assert_eq!(runtime.kind(), "cuda");
        }
    }

    #[test]
    fn the_library_path_puts_the_runtime_first_and_drops_empty_parts() {
        let runtime = Runtime {
            folder: "/t".into(),
            lib: "/t/lib".into(),
            extra: vec!["/n/lib".into()],
            source: "",
        };
        assert_eq!(
            runtime.library_path(Some(":/old:".into())),
            "/t/lib:/n/lib:/old"
        );
        assert_eq!(runtime.library_path(None), "/t/lib:/n/lib");
    }
}
