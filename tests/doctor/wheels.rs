//! The real engine on libtorch laid as AMD's wheels lay it: the CPU's part is the prepared one, the GPU's part and what
//! it needs are libraries with nothing in them. Nothing of it says anything of AMD's own libraries.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::{checks, lay_strix_halo, on_roots};
use crate::common::scripts::write_script;
use crate::common::{Home, assert_finished, events_of, stubs};

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
    set_version(&site, "2.11.0+rocm7.13.0");
    site
}

fn set_version(site: &Path, version: &str) {
    let text = format!("__version__ = '{version}'\n");
    fs::write(site.join("torch/version.py"), text).unwrap();
}

fn on_wheels(command: Command, root: &Path) -> Command {
    let mut command = on_roots(command, root);
    command.env("SAFELIGHT_LIBTORCH", root.join("site-packages/torch"));
    // The tests' own has the prepared libtorch.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

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
    lay_strix_halo(home.path(), "6.17.1-1");
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
    let missing = "libtorch cannot be loaded: libcupti.so.13 is missing";
    assert_eq!(message, missing);
}

#[test]
fn gpu_job_that_runs_on_the_cpu_warns_unless_cpu_was_selected() {
    let home = Home::new();
    lay_strix_halo(home.path(), "6.17.1-1");
    lay_wheels(home.path());
    let warnings = |device: &str| -> Vec<String> {
        let mut command = on_wheels(home.generate(), home.path());
        command.args(["--device", device, "--out", &format!("{device}.mp4")]);
        let output = command.output().unwrap();
        assert_finished(&output);
        let told = events_of(&output, "warning").into_iter();
        told.filter_map(|event| event["message"].as_str().map(str::to_owned))
            .collect()
    };
    let told = warnings("auto");
    let expected = "The CPU computes, which is slow: libtorch_hip.so found no GPU";
    let is_told = told.iter().any(|text| text.starts_with(expected));
    assert!(is_told, "{told:?}");
    let asked = warnings("cpu");
    assert!(!asked.iter().any(|text| text.contains("CPU")), "{asked:?}");
}

/// The program in a folder of its own, with scripts beside it that note being started in place of both engines.
fn lay_program(root: &Path) -> PathBuf {
    let folder = root.join("program");
    fs::create_dir_all(&folder).unwrap();
    let (built, program) = (env!("CARGO_BIN_EXE_safelight"), folder.join("safelight"));
    if fs::hard_link(built, &program).is_err() {
        fs::copy(built, &program).unwrap();
    }
    for engine in ["safelight-engine", "safelight-engine-2.13"] {
        let script = folder.join(engine);
        write_script(&script, "#!/bin/sh\necho \"${0##*/}\" >> \"$0.started\"\n");
    }
    folder
}

#[test]
fn the_version_of_the_wheels_chooses_the_engine_and_is_refused_where_there_is_none() {
    let home = Home::new();
    lay_strix_halo(home.path(), "6.17.1-1");
    let site = lay_wheels(home.path());
    let folder = lay_program(home.path());
    let examine = |version: &str| {
        set_version(&site, version);
        let of_home = home.safelight();
        let mut command = Command::new(folder.join("safelight"));
        for (name, value) in of_home.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command.env_remove("SAFELIGHT_ENGINE");
        let output = on_wheels(command, home.path())
            .args(["doctor", "--json", "--quick"])
            .output()
            .unwrap();
        let told = checks(&output);
        let sentences = |name: &str| -> Vec<String> {
            let found = told.iter().filter(|check| check["name"] == name);
            let sentence = |check: &Value| {
                let [status, message, advice] = ["status", "message", "advice"]
                    .map(|key| check[key].as_str().unwrap_or_default());
                format!("{status} {message} -> {advice}")
            };
            found.map(sentence).collect()
        };
        let started = |engine: &str| fs::remove_file(folder.join(engine)).is_ok();
        let engines = ["safelight-engine", "safelight-engine-2.13"];
        let started = engines.map(|engine| started(&format!("{engine}.started")));
        (
            started,
            sentences("libtorch").remove(0),
            sentences("engine"),
        )
    };
    for (version, expected) in [
        ("2.11.0+rocm7.14.1", [true, false]),
        ("2.13.0+rocm10.0.0", [false, true]),
    ] {
        let (started, libtorch, _) = examine(version);
        assert_eq!(started, expected);
        let fine = format!("ok {version} for AMD's GPUs");
        assert!(libtorch.starts_with(&fine), "{libtorch}");
    }

    let (started, libtorch, engine) = examine("2.12.0+rocm7.14.1");
    assert_eq!((started, engine.len()), ([false, false], 0), "{engine:?}");
    let refused = "fail this is libtorch 2.12.0+rocm7.14.1, and Safelight has engines for 2.11.0 and 2.13.0 alone: ";
    assert!(libtorch.starts_with(refused), "{libtorch}");
    let advice = "-> Choose a libtorch 2.11.0 or 2.13.0 in the setting runtime.libtorch";
    assert!(libtorch.ends_with(advice), "{libtorch}");

    fs::remove_file(folder.join("safelight-engine-2.13")).unwrap();
    let (started, _, engine) = examine("2.13.0+rocm10.0.0");
    assert_eq!(started, [false, false], "no other is taken in its place");
    let missing =
        "fail the engine for libtorch 2.13.0 (safelight-engine-2.13) is not installed -> ";
    assert!(engine[0].starts_with(missing), "{engine:?}");
}
