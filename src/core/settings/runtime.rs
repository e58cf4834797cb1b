//! Choice of the engine's libtorch: the folder of its shared libraries, and others that they need.
//!
//! Looks at names only and loads nothing. The engine reports the folder's capabilities.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::engines::{ENGINES, EngineBuild, LIBTORCH_VERSION, engine_of, libtorch_versions};
use super::installation::InstallationKind;
use super::{Settings, libraries};
use crate::files::read_text_bounded;

/// The oldest ROCm that computes right on the GPUs of today, as users report.
const FIRST_GOOD_ROCM: (u32, u32) = (6, 4);
const LIBRARY: &str = "libtorch_cpu.so";
/// The folder in the cache that `cargo xtask setup` prepares.
const PREPARED: &str = "libtorch-2.11.0-cpu";
/// Far more than a file has that says a version.
const MAX_VERSION_BYTES: u64 = 64 << 10;

/// A libtorch that can be put on the engine's library path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LibtorchRuntime {
    /// Folder that was named or found.
    pub folder: PathBuf,
    /// The folder that directly holds `libtorch_cpu.so`.
    pub lib: PathBuf,
    /// Additional folders for the GPU half: wheels keep their libraries next to `torch`.
    pub extra: Vec<PathBuf>,
    /// Origin of the choice, for people: a variable, a setting, or a folder.
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
        "no libtorch found: choose a libtorch {LIBTORCH_VERSION} folder in the setting runtime.libtorch, {}",
        InstallationKind::of_this_program().or_get_libtorch()
    )]
    Nowhere { searched: Vec<PathBuf> },
}

/// Known problem of a libtorch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeProblem {
    /// One sentence, no full stop.
    pub what: String,
    pub advice: String,
}

impl LibtorchRuntime {
    /// The libtorch of a folder, where there is one: of a libtorch, its `lib`, a package `torch`, or what has such a
    /// package. `source`: who named it, for people.
    pub fn in_folder(folder: &Path, source: &'static str) -> Option<Self> {
        let folder = std::path::absolute(folder).ok()?;
        let packages = libraries::torch_of(&folder).map(|torch| torch.join("lib"));
        let lib = [folder.join("lib"), folder.clone()]
            .into_iter()
            .chain(packages)
            .find(|lib| lib.join(LIBRARY).is_file())?;
        let extra = libraries::beside(&lib, kind_of(&lib));
        Some(Self {
            folder,
            lib,
            extra,
            source,
        })
    }

    /// All folders with its libraries, the one with libtorch first.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.lib)
            .chain(&self.extra)
            .map(PathBuf::as_path)
    }

    /// Library path of the engine: this runtime first, then the inherited one.
    ///
    /// A libtorch that brings AMD's runtime must not find a second one.
    pub fn library_path(&self, inherited: Option<OsString>) -> OsString {
        let inherited = inherited.unwrap_or_default();
        let has_own = self.folders().any(libraries::has_hip);
        let before = std::env::split_paths(&inherited)
            // An empty part would mean the current folder.
            .filter(|path| !path.as_os_str().is_empty())
            .filter(|path| !(has_own && libraries::has_hip(path)))
            .collect::<Vec<_>>();
        let all = self.folders().chain(before.iter().map(PathBuf::as_path));
        let mut joined = OsString::new();
        for path in all {
            if !joined.is_empty() {
                joined.push(":");
            }
            joined.push(path);
        }
        joined
    }

    /// Known problems on a machine whose AMD cards have these compute targets.
    pub fn concerns(&self, gfx: &[String]) -> Vec<RuntimeProblem> {
        let Some(version) = self.version() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        if engine_of(&version).is_none() {
            let (both, either) = (libtorch_versions("and"), libtorch_versions("or"));
            found.push(RuntimeProblem {
                what: format!(
                    "this is libtorch {version}, and Safelight has engines for {both} alone"
                ),
                advice: format!("Choose a libtorch {either} in the setting runtime.libtorch"),
            });
        }
        if let Some((major, minor)) = rocm_of(&version).filter(|rocm| *rocm < FIRST_GOOD_ROCM) {
            let (first, second) = FIRST_GOOD_ROCM;
            found.push(RuntimeProblem {
                what: format!(
                    "this is libtorch {version}, and ROCm {major}.{minor} is older than {first}.{second}"
                ),
                advice: format!(
                    "Choose a libtorch {LIBTORCH_VERSION} for a newer ROCm in the setting runtime.libtorch"
                ),
            });
        }
        if rocm_of(&version) == Some((7, 1)) && gfx.iter().any(|gfx| gfx == "gfx1151") {
            found.push(RuntimeProblem {
                what: format!("this is libtorch {version}, and ROCm 7.1 crashes on gfx1151"),
                advice: format!(
                    "Choose a libtorch {LIBTORCH_VERSION} for ROCm 7.14 in the setting runtime.libtorch"
                ),
            });
        }
        found
    }

    /// The engine that computes with it, the first where it does not say its version; `None` where none is built for it:
    /// the first of [`concerns`](Self::concerns) says so.
    pub fn engine(&self) -> Option<&'static EngineBuild> {
        match self.version() {
            Some(version) => engine_of(&version),
            None => ENGINES.first(),
        }
    }

    /// Version stated in the folder, such as `2.11.0` or `2.11.0+cu130`.
    pub fn version(&self) -> Option<String> {
        version_of(&self.lib)
    }

    /// The ROCm that it was built for, as far as it says so: 7, 14.
    pub fn rocm(&self) -> Option<(u32, u32)> {
        rocm_of(&self.version()?)
    }

    /// `cpu`, `cuda` or `rocm`, by the GPU half in the folder.
    pub fn kind(&self) -> &'static str {
        kind_of(&self.lib)
    }
}

/// `cpu`, `cuda` or `rocm`, by the GPU half in the folder with `libtorch_cpu.so`.
pub fn kind_of(lib: &Path) -> &'static str {
    if lib.join("libtorch_hip.so").exists() {
        "rocm"
    } else if lib.join("libtorch_cuda.so").exists() {
        "cuda"
    } else {
        "cpu"
    }
}

/// Version stated in the folder with `libtorch_cpu.so`, such as `2.11.0+cu130`.
pub fn version_of(lib: &Path) -> Option<String> {
    let in_folder = |name: &str| {
        [Some(lib), lib.parent()]
            .into_iter()
            .flatten()
            .find_map(|folder| read_text_bounded(&folder.join(name), MAX_VERSION_BYTES).ok())
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

/// `2.11.0+rocm7.14.1` → 7, 14.
pub fn rocm_of(version: &str) -> Option<(u32, u32)> {
    let (_, release) = version.split_once("+rocm")?;
    let mut numbers = release.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Like `runtime_folder`, for this process: its variable, executable and cache folder.
pub fn own_runtime(settings: &Settings, cache: &Path) -> Result<LibtorchRuntime, RuntimeMissing> {
    let variable = std::env::var_os("SAFELIGHT_LIBTORCH");
    of_this_executable(settings, variable, cache)
}

/// Default runtime.
pub fn default_runtime(cache: &Path) -> Result<LibtorchRuntime, RuntimeMissing> {
    of_this_executable(&Settings::default(), None, cache)
}

fn of_this_executable(
    settings: &Settings,
    variable: Option<OsString>,
    cache: &Path,
) -> Result<LibtorchRuntime, RuntimeMissing> {
    let executable = std::env::current_exe().ok();
    let folder = executable.as_deref().and_then(Path::parent);
    runtime_folder(settings, variable, folder, cache)
}

/// Libtorch to use, in this order: the variable `SAFELIGHT_LIBTORCH`, the settings, next to the executable, set-up's in
/// the cache, the checkout's link.
///
/// An invalid explicit choice is an error: silently taking another one would surprise.
fn runtime_folder(
    settings: &Settings,
    variable: Option<OsString>,
    exe_folder: Option<&Path>,
    cache: &Path,
) -> Result<LibtorchRuntime, RuntimeMissing> {
    let named = variable
        .filter(|value| !value.is_empty())
        .map(|value| (PathBuf::from(value), "SAFELIGHT_LIBTORCH"))
        .or_else(|| {
            let folder = settings.runtime.libtorch.clone()?;
            Some((folder, "the setting runtime.libtorch"))
        });
    if let Some((folder, source_name)) = named {
        return LibtorchRuntime::in_folder(&folder, source_name).ok_or(RuntimeMissing::Wrong {
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
        // An executable is in target/debug, a test in target/debug/deps.
        for above in exe.ancestors().skip(1).take(3) {
            places.push((above.join(".libtorch"), "the checkout's own"));
        }
    }
    for (folder, source) in &places {
        if let Some(runtime) = LibtorchRuntime::in_folder(folder, source) {
            return Ok(runtime);
        }
    }
    Err(RuntimeMissing::Nowhere {
        searched: places.into_iter().map(|(folder, _)| folder).collect(),
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::process::Command;

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

    /// The runtime where the settings name a folder.
    fn found_in(folder: &Path) -> LibtorchRuntime {
        runtime_folder(&settings_with(folder), None, None, Path::new("")).unwrap()
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
        let missing = find(&none, None);
        assert!(matches!(missing, Err(RuntimeMissing::Nowhere { .. })));
    }

    #[test]
    fn a_named_folder_that_is_wrong_is_an_error_and_not_passed_over() {
        let root = tempfile::tempdir().unwrap();
        libtorch(&root.path().join("cache").join(PREPARED));
        let cache = root.path().join("cache");
        let wrong = root.path().join("empty");
        let err = runtime_folder(&settings_with(&wrong), None, None, &cache).unwrap_err();
        let text = err.to_string();
        assert!(text.contains("runtime.libtorch"), "{text}");
        assert!(text.contains(LIBRARY), "{text}");
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
        let version = "from typing import Optional\n__version__ = '2.11.0+cu130'\n";
        fs::write(torch.join("version.py"), version).unwrap();
        let libraries = ["nvidia/cublas/lib", "nvidia/cudnn/lib"].map(|it| packages.join(it));
        for folder in &libraries {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(packages.join("nvidia/__init__.py"), b"").unwrap();
        for folder in [torch.clone(), torch.join("lib")] {
            let runtime = found_in(&folder);
            assert_eq!(runtime.lib, torch.join("lib"));
            assert_eq!(runtime.extra, libraries);
            assert_eq!(runtime.version().as_deref(), Some("2.11.0+cu130"));
            assert_eq!(runtime.kind(), "cuda");
        }
    }

    #[test]
    fn a_version_that_is_no_plain_file_is_none_at_once() {
        let root = tempfile::tempdir().unwrap();
        let lib = libtorch(root.path()).join("lib");
        let pipe = lib.join("build-version");
        assert!(Command::new("mkfifo").arg(pipe).status().unwrap().success());
        symlink("/dev/zero", root.path().join("version.py")).unwrap();
        assert_eq!(version_of(&lib), None);
    }

    #[test]
    fn a_virtual_environment_of_amds_wheels_is_a_runtime_with_all_their_folders() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("lib/python3.12/site-packages");
        let torch = libtorch(&packages.join("torch"));
        fs::write(torch.join("lib/libtorch_hip.so"), b"").unwrap();
        let core = packages.join("_rocm_sdk_core/lib");
        fs::create_dir_all(core.join("rocm_sysdeps/lib")).unwrap();
        for folder in [root.path(), &packages] {
            let runtime = found_in(folder);
            assert_eq!(runtime.lib, torch.join("lib"));
            let expected = [core.clone(), core.join("rocm_sysdeps/lib")];
            assert_eq!(runtime.extra, expected, "{}", folder.display());
        }
    }

    /// A libtorch of this version, and what is said of it where these chips are.
    fn concerns(version: &str, gfx: &[&str]) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        let folder = libtorch(root.path());
        fs::write(folder.join("build-version"), version).unwrap();
        let runtime = LibtorchRuntime::in_folder(&folder, "").unwrap();
        let gfx: Vec<String> = gfx.iter().map(|gfx| (*gfx).to_owned()).collect();
        let found = runtime.concerns(&gfx).into_iter();
        found.map(|concern| concern.what).collect()
    }

    #[test]
    fn libtorch_version_without_an_engine_is_reported_with_supported_versions() {
        let expected = "this is libtorch 2.12.0+rocm7.14.1, and Safelight has engines for 2.11.0 and 2.13.0 alone";
        assert_eq!(concerns("2.12.0+rocm7.14.1\n", &["gfx1151"]), [expected]);
        assert_eq!(concerns("2.11.0+cu130", &[]), [""; 0]);
        assert_eq!(concerns("2.13.0+rocm10.0.0\n", &["gfx1151"]), [""; 0]);
    }

    #[test]
    fn rocm_7_1_is_warned_of_on_gfx1151_alone() {
        for version in ["2.11.0+rocm7.1", "2.11.0+rocm7.1.1"] {
            let message = concerns(version, &["gfx1036", "gfx1151"]);
            assert!(
                message[0].contains("ROCm 7.1 crashes on gfx1151"),
                "{message:?}"
            );
            assert_eq!(concerns(version, &["gfx1100"]), [""; 0]);
        }
        let old = "this is libtorch 2.11.0+rocm6.3, and ROCm 6.3 is older than 6.4";
        assert_eq!(concerns("2.11.0+rocm6.3", &["gfx1100"]), [old]);
        for version in ["2.11.0+rocm7.14.1", "2.11.0+rocm6.4", "2.11.0"] {
            assert_eq!(concerns(version, &["gfx1151"]), [""; 0], "{version}");
        }
    }

    #[test]
    fn no_second_hip_runtime_is_left_on_the_path_of_a_libtorch_that_brings_its_own() {
        let root = tempfile::tempdir().unwrap();
        let [own, system, other] = ["own", "system", "other"].map(|name| root.path().join(name));
        for (folder, file) in [
            (&own, "libamdhip64.so.7"),
            (&system, "libamdhip64.so"),
            (&other, "libroctracer64.so.4"),
        ] {
            fs::create_dir_all(folder).unwrap();
            fs::write(folder.join(file), b"").unwrap();
        }
        let inherited = std::env::join_paths([&system, &other]).unwrap();
        let path = |extra: &[&PathBuf]| {
            let runtime = LibtorchRuntime {
                folder: "/t".into(),
                lib: "/t/lib".into(),
                extra: extra.iter().map(|&folder| folder.clone()).collect(),
                source: "",
            };
            let path = runtime.library_path(Some(inherited.clone()));
            std::env::split_paths(&path).skip(1).collect::<Vec<_>>()
        };
        assert_eq!(path(&[&own]), [own, other.clone()]);
        assert_eq!(path(&[]), [system, other], "it may need the system's");
    }

    #[test]
    fn the_library_path_puts_the_runtime_first_and_drops_empty_parts() {
        let runtime = LibtorchRuntime {
            folder: "/t".into(),
            lib: "/t/lib".into(),
            extra: vec!["/n/lib".into()],
            source: "",
        };
        let path = runtime.library_path(Some(":/old:".into()));
        assert_eq!(path, "/t/lib:/n/lib:/old");
        assert_eq!(runtime.library_path(None), "/t/lib:/n/lib");
    }
}
