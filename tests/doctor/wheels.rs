//! The real engine on libtorch laid as AMD's wheels lay it: the CPU's part is the prepared one, the GPU's part and what
//! it needs are libraries with nothing in them. Nothing of it says anything of AMD's own libraries.

#[path = "../common/stubs.rs"]
mod stubs;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{checks, lay_strix_halo};
use crate::common::{Home, end, events, tiny_model};

/// `site-packages`, with every library of libtorch a link into a store, as some package managers lay it. What its CPU
/// part needs lies in AMD's folders.
fn lay_wheels(root: &Path) -> PathBuf {
    let prepared = Path::new(env!("CARGO_MANIFEST_DIR")).join(".libtorch/lib");
    let site = root.join("site-packages");
    for (name, folder) in [
        ("libtorch_cpu.so", "torch/lib"),
        ("libc10.so", "torch/lib"),
        ("libgomp.so.1", "_rocm_sdk_core/lib/rocm_sysdeps/lib"),
        ("libcudart.so.13", "_rocm_sdk_core/lib/host-math/lib"),
        ("libcupti.so.13", "_rocm_sdk_libraries_gfx1151/lib"),
    ] {
        let folder = site.join(folder);
        fs::create_dir_all(&folder).unwrap();
        symlink(prepared.join(name), folder.join(name)).unwrap();
    }
    let hip = site.join("_rocm_sdk_core/lib/libamdhip64.so.7");
    stubs::compile(&hip, &stubs::hip_of("wheel"), &[], false);
    let blas = site.join("_rocm_sdk_libraries_gfx1151/lib/libhipblas.so.3");
    stubs::compile(&blas, "", &[&hip], false);
    let stored = root.join("store/libtorch_hip.so");
    stubs::compile(&stored, "", &[&hip, &blas], false);
    symlink(&stored, site.join("torch/lib/libtorch_hip.so")).unwrap();
    let version = "__version__ = '2.11.0+rocm7.13.0'\n";
    fs::write(site.join("torch/version.py"), version).unwrap();
    site
}

/// A command on these wheels, on a Strix Halo.
fn on_wheels(mut command: Command, root: &Path) -> Command {
    command
        .env("SAFELIGHT_LIBTORCH", root.join("site-packages/torch"))
        .env("SAFELIGHT_SYSFS_ROOT", root.join("sys"))
        .env("SAFELIGHT_PROC_ROOT", root.join("proc"))
        .env("SAFELIGHT_DEV_ROOT", root.join("dev"))
        // The tests' own has the prepared libtorch.
        .env_remove("LD_LIBRARY_PATH");
    command
}

/// The verdict on the engine: its status and its sentence.
fn engine(home: &Home) -> (String, String) {
    let mut command = on_wheels(home.safelight(), home.path());
    let output = command
        .args(["doctor", "--json", "--quick"])
        .output()
        .unwrap();
    let checks = checks(&output);
    let check = checks.iter().find(|check| check["name"] == "engine");
    let text = |key: &str| {
        let value = check.and_then(|check| check[key].as_str());
        value.unwrap_or_default().to_owned()
    };
    (text("status"), text("message"))
}

#[test]
fn the_engine_starts_on_amds_wheels_and_a_gpu_that_cannot_be_used_is_a_failure() {
    let home = Home::new();
    lay_strix_halo(home.path());
    let site = lay_wheels(home.path());
    let (status, message) = engine(&home);
    assert_eq!(status, "fail", "{message}");
    // The libraries have nothing in them, so that this is as far as it gets.
    let found = "libtorch_hip.so found no GPU that it can use";
    assert!(message.ends_with(found), "{message}");

    fs::remove_file(site.join("_rocm_sdk_libraries_gfx1151/lib/libhipblas.so.3")).unwrap();
    let (status, message) = engine(&home);
    assert_eq!(status, "fail", "{message}");
    let missing = "libtorch_hip.so could not be loaded: libhipblas.so.3 is missing";
    assert!(message.ends_with(missing), "{message}");

    fs::remove_file(site.join("_rocm_sdk_libraries_gfx1151/lib/libcupti.so.13")).unwrap();
    let (status, message) = engine(&home);
    assert_eq!(status, "fail");
    assert_eq!(
        message,
        "libtorch cannot be loaded: libcupti.so.13 is missing"
    );
}

#[test]
fn a_job_that_a_gpu_should_have_computed_says_that_the_cpu_does() {
    let home = Home::new();
    lay_strix_halo(home.path());
    lay_wheels(home.path());
    let warnings = |device: &str| -> Vec<String> {
        let mut command = on_wheels(home.safelight(), home.path());
        let output = command
            .args(["generate", "--json", "--prompt", "a fox", "--seed", "3"])
            .args(["--width", "64", "--height", "32", "--frames", "5"])
            .args(["--steps", "1", "--guidance", "1", "--device", device])
            .arg("--out")
            .arg(format!("{device}.mp4"))
            .arg("--model")
            .arg(tiny_model())
            .output()
            .unwrap();
        assert_eq!(end(&output).1, 0, "{:?}", end(&output));
        let events = events(&output);
        let told = events.iter().filter(|event| event["event"] == "warning");
        told.filter_map(|event| event["message"].as_str().map(str::to_owned))
            .collect()
    };
    let told = warnings("auto");
    let expected = "The CPU computes, which is slow: libtorch_hip.so found no GPU";
    assert!(
        told.iter().any(|text| text.starts_with(expected)),
        "{told:?}"
    );
    let asked = warnings("cpu");
    assert!(!asked.iter().any(|text| text.contains("CPU")), "{asked:?}");
}
