//! Installing from libtorch folders that are here: environments, folders of libtorch, and those of links.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use safelight_core::job::{CancelToken, JobError};
use safelight_core::settings::{AppPaths, LibtorchRuntime};

use super::install::{InstallResult, NOTE, install};
use super::local::build_of;
use super::options;
use super::table::{RuntimeBuild, RuntimeKind};
use super::wheel_source::WheelSource;

/// Writes a file of `bytes` bytes.
fn lay(path: &Path, bytes: usize) {
    fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder");
    fs::write(path, vec![7; bytes]).expect("a file");
}

/// Packages with what NVIDIA's wheels leave.
fn lay_packages(packages: &Path) {
    for (name, bytes) in [
        ("torch/lib/libtorch_cpu.so", 900),
        ("torch/lib/libtorch_cuda.so", 800),
        ("torch/lib/libtorch_python.so", 700),
        ("torch/include/torch/all.h", 600),
        ("torch-2.11.0.dist-info/licenses/LICENSE", 50),
        ("nvidia/cu13/lib/libcudart.so.13", 40),
        ("nvidia/cu13/lib/libcufft.so.12", 45),
        ("nvidia/cu13/include/cuda.h", 500),
        ("numpy/numpy.py", 400),
    ] {
        lay(&packages.join(name), bytes);
    }
    fs::write(
        packages.join("torch/version.py"),
        "__version__ = '2.11.0+cu130'\n",
    )
    .expect("a file");
}

fn installed(
    root: &Path,
    from: &str,
    build: Option<RuntimeBuild>,
) -> Result<InstallResult, JobError> {
    let place = WheelSource::parse(from)?;
    let WheelSource::Torch(runtime) = &place else {
        panic!("another place: {place:?}");
    };
    let build = build.unwrap_or_else(|| build_of(runtime).expect("it says its version"));
    let done = install(
        &build,
        &place,
        &AppPaths::under(root),
        &options(),
        &CancelToken::default(),
        &|_| Ok(true),
        &mut |_| {},
    );
    done.map(|it| it.expect("nobody cancels"))
}

fn text(path: &Path) -> String {
    path.display().to_string()
}

#[test]
fn python_environment_becomes_a_runtime_without_development_files() {
    let root = tempfile::tempdir().unwrap();
    let venv = root.path().join("venv");
    lay_packages(&venv.join("lib/python3.12/site-packages"));
    let done = installed(root.path(), &text(&venv), None).unwrap();
    assert!(done.folder.ends_with("cuda-2.11.0+cu130"), "{done:?}");
    assert_eq!(done.fetched_bytes, 0);
    for there in [
        "torch/lib/libtorch_cuda.so",
        "nvidia/cu13/lib/libcudart.so.13",
        "torch-2.11.0.dist-info/licenses/LICENSE",
        NOTE,
    ] {
        assert!(done.folder.join(there).is_file(), "{there}");
    }
    for not_needed in [
        "torch/include",
        "torch/lib/libtorch_python.so",
        "nvidia/cu13/include",
        "numpy",
    ] {
        assert!(!done.folder.join(not_needed).exists(), "{not_needed}");
    }
    let runtime = LibtorchRuntime::in_folder(&done.folder, "a test").unwrap();
    assert_eq!(runtime.version().as_deref(), Some("2.11.0+cu130"));
    assert_eq!(runtime.folders().count(), 2, "{runtime:?}");
}

#[test]
fn environment_of_symlinks_is_copied_with_the_link_targets() {
    let root = tempfile::tempdir().unwrap();
    let (store, packages) = (root.path().join("store"), root.path().join("packages"));
    lay_packages(&store);
    // Each file of torch is a link, as some package managers make them; NVIDIA's is one as a whole.
    for name in ["libtorch_cpu.so", "libtorch_cuda.so"] {
        let link = packages.join("torch/lib").join(name);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(store.join("torch/lib").join(name), link).unwrap();
    }
    let version = packages.join("torch/version.py");
    symlink(store.join("torch/version.py"), version).unwrap();
    symlink(store.join("nvidia"), packages.join("nvidia")).unwrap();
    // Another name in the same folder stays a link; one in a circle ends somewhere.
    let lib = packages.join("torch/lib");
    symlink("libtorch_cuda.so", lib.join("libtorch_cuda.so.2")).unwrap();
    symlink(&lib, lib.join("again")).unwrap();
    let done = installed(root.path(), &text(&packages), None).unwrap();
    let lib = done.folder.join("torch/lib");
    assert!(!lib.join("libtorch_cuda.so").is_symlink());
    assert!(lib.join("libtorch_cuda.so.2").is_symlink());
    fs::remove_dir_all(store).unwrap();
    assert_eq!(fs::read(lib.join("libtorch_cuda.so")).unwrap().len(), 800);
    let nvidia = done.folder.join("nvidia/cu13/lib/libcudart.so.13");
    assert!(nvidia.is_file());
}

#[test]
fn cpu_build_copies_only_cpu_libraries_and_reports_its_own_version() {
    let root = tempfile::tempdir().unwrap();
    lay_packages(&root.path().join("packages"));
    let cpu = RuntimeBuild {
        id: "cpu".to_owned(),
        kind: RuntimeKind::Cpu,
        version: "2.11.0".to_owned(),
        ..build_of(&LibtorchRuntime::in_folder(&root.path().join("packages"), "").unwrap()).unwrap()
    };
    let from = text(&root.path().join("packages"));
    let done = installed(root.path(), &from, Some(cpu)).unwrap();
    let runtime = LibtorchRuntime::in_folder(&done.folder, "a test").unwrap();
    assert_eq!(runtime.kind(), "cpu");
    assert_eq!(runtime.version().as_deref(), Some("2.11.0"));
    assert!(
        done.folder
            .join("nvidia/cu13/lib/libcudart.so.13")
            .is_file()
    );
    assert!(!done.folder.join("nvidia/cu13/lib/libcufft.so.12").exists());
    assert!(!done.folder.join("torch/version.py").exists());
}

#[test]
fn wheel_sources_are_parsed_and_invalid_ones_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let folder = |name: &str| root.path().join(name);
    lay(&folder("wheels/torch-2.11.0-py3-none-any.whl"), 1);
    lay(&folder("plain/lib/libtorch_cpu.so"), 1);
    lay(&folder("empty/file"), 1);
    let parsed = |name: &str| WheelSource::parse(&text(&folder(name)));
    assert_eq!(parsed("wheels"), Ok(WheelSource::Folder(folder("wheels"))));
    assert!(matches!(parsed("plain"), Ok(WheelSource::Torch(_))));
    let err = parsed("empty").unwrap_err();
    assert!(
        err.summary.contains("neither wheels nor a libtorch"),
        "{err:?}"
    );
    let address = "https://mirror.example/simple";
    assert_eq!(
        WheelSource::parse(address),
        Ok(WheelSource::Mirror(address.to_owned()))
    );
    for wrong in ["http://mirror.example/simple", "file:///tmp"] {
        let err = WheelSource::parse(wrong).unwrap_err();
        assert!(err.advice.contains("https://"), "{err:?}");
    }
    let mut settings = safelight_core::settings::RuntimeSettings::default();
    assert_eq!(WheelSource::of_settings(&settings), WheelSource::Index);
    settings.mirror = Some(address.to_owned());
    assert_eq!(
        WheelSource::of_settings(&settings),
        WheelSource::Mirror(address.to_owned())
    );
}
