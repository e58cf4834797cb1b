//! `safelight doctor`, the engine's environment and `--telemetry`, as a user meets them.
//!
//! Machines are false trees of files; the engine is the real one, or a script that tells what it was given.

mod wheels;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

use crate::common::scripts::write_script;
use crate::common::{Home, assert_finished, end};

/// A Strix Halo as the kernel shows it, with a small carve-out and half of the memory for the GPU.
pub(crate) fn lay_strix_halo(root: &Path, kernel: &str) {
    let device = root.join("sys/devices/card0");
    let link = root.join("sys/class/drm/card0");
    let node = root.join("sys/class/kfd/kfd/topology/nodes/1");
    for folder in [&device, &link, &node, &root.join("proc/sys/kernel")] {
        fs::create_dir_all(folder).unwrap();
    }
    symlink(&device, link.join("device")).unwrap();
    for (name, text) in [
        ("vendor", "0x1002"),
        ("device", "0x1586"),
        ("uevent", "PCI_SLOT_NAME=0000:c4:00.0"),
        ("mem_info_vram_total", "536870912"),
        ("mem_info_vram_used", "1000000"),
        ("mem_info_gtt_total", "67000000000"),
        ("mem_info_gtt_used", "2000000000"),
    ] {
        fs::write(device.join(name), format!("{text}\n")).unwrap();
    }
    let properties = "gfx_target_version 110501\nlocation_id 50176\nsimd_count 80\n";
    fs::write(node.join("properties"), properties).unwrap();
    let meminfo = "MemTotal: 130000000 kB\nMemAvailable: 100000000 kB\n";
    fs::write(root.join("proc/meminfo"), meminfo).unwrap();
    fs::write(root.join("proc/sys/kernel/osrelease"), kernel).unwrap();
}

/// A command on the machine whose files are below this root.
pub(crate) fn on_roots(mut command: Command, root: &Path) -> Command {
    for (name, folder) in [("SYSFS", "sys"), ("PROC", "proc"), ("DEV", "dev")] {
        command.env(format!("SAFELIGHT_{name}_ROOT"), root.join(folder));
    }
    command
}

fn lay_rocm(root: &Path) -> PathBuf {
    let lib = root.join("torch/lib");
    fs::create_dir_all(&lib).unwrap();
    for name in ["libtorch_cpu.so", "libtorch_hip.so"] {
        fs::write(lib.join(name), "").unwrap();
    }
    fs::write(root.join("torch/build-version"), "2.11.0+rocm7.1\n").unwrap();
    root.join("torch")
}

fn lay_engine(root: &Path) -> PathBuf {
    let engine = root.join("engine");
    write_script(&engine, "#!/bin/sh\nenv > \"$0.environment\"\n");
    engine
}

fn checks(output: &Output) -> Vec<Value> {
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    report["checks"].as_array().unwrap().clone()
}

fn messages(checks: &[Value], name: &str) -> String {
    let found = checks.iter().filter(|check| check["name"] == name);
    let lines = found.map(|check| format!("{} {}\n", check["message"], check["command"]));
    lines.collect()
}

#[test]
fn engine_process_gets_required_variables_and_no_harmful_ones() {
    let home = Home::new();
    let root = home.path();
    lay_strix_halo(root, "6.17.1-1");
    let engine = lay_engine(root);
    home.write_settings("[runtime.environment]\nMINE = 'yes'\nGOMP_SPINCOUNT = '7'\n");
    let output = on_roots(home.safelight(), root)
        .args(["doctor", "--json", "--quick"])
        .env("SAFELIGHT_LIBTORCH", lay_rocm(root))
        .env("SAFELIGHT_ENGINE", &engine)
        .env("HSA_OVERRIDE_GFX_VERSION", "11.0.0")
        .env("PYTORCH_HIP_ALLOC_CONF", "max_split_size_mb:64")
        .env("MIOPEN_FIND_MODE", "NORMAL")
        .output()
        .unwrap();
    let given = fs::read_to_string(root.join("engine.environment")).unwrap();
    let has = |line: &str| given.lines().any(|given| given == line);
    for line in [
        "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1",
        "MIOPEN_FIND_MODE=2",
        "TORCH_BLAS_PREFER_HIPBLASLT=1",
        "MINE=yes",
        "GOMP_SPINCOUNT=7",
    ] {
        assert!(has(line), "{line} is not in\n{given}");
    }
    for name in ["HSA_OVERRIDE_GFX_VERSION", "PYTORCH_HIP_ALLOC_CONF"] {
        assert!(!given.contains(name), "{given}");
    }
    let checks = checks(&output);
    let environment = messages(&checks, "environment");
    for words in [
        "HSA_OVERRIDE_GFX_VERSION=11.0.0 is set",
        "PYTORCH_HIP_ALLOC_CONF=max_split_size_mb:64 is set",
        "MIOPEN_FIND_MODE=NORMAL is set; the engine gets MIOPEN_FIND_MODE=2",
        "MINE=yes, as the settings say so",
    ] {
        let has = environment.contains(words);
        assert!(has, "{words} is not in\n{environment}");
    }
    let memory = messages(&checks, "gpu memory");
    assert!(memory.contains("pages_limit="), "{memory}");
    assert!(messages(&checks, "kernel").contains("this is 6.17.1-1"));
    assert!(messages(&checks, "gpu").contains("gfx1151"));
    let libtorch = messages(&checks, "libtorch");
    let crashes = "ROCm 7.1 crashes on gfx1151";
    assert!(libtorch.contains(crashes), "{libtorch}");
}

#[test]
fn on_a_machine_with_none_of_this_everything_is_examined_and_measured() {
    let home = Home::new();
    let empty = home.path().join("empty");
    let output = home
        .safelight()
        .args(["doctor", "--json"])
        .env("SAFELIGHT_SYSFS_ROOT", &empty)
        .env("OMP_NUM_THREADS", "2")
        .output()
        .unwrap();
    let checks = checks(&output);
    assert!(messages(&checks, "gpu").contains("no supported GPU found"));
    let speed: Vec<&Value> = checks.iter().filter(|it| it["name"] == "speed").collect();
    assert!(speed.len() >= 5, "{speed:?}");
    for check in speed {
        assert_eq!(check["status"], "ok", "{check}");
        assert!(check["figure"]["value"].as_f64().unwrap() > 0.0, "{check}");
    }
    assert!(!messages(&checks, "disk speed").is_empty());
}

#[test]
fn job_telemetry_is_written_to_the_given_file() {
    let home = Home::new();
    let table = home.path().join("telemetry.csv");
    let mut command = home.generate();
    command
        .args(["--out", "video.mp4", "--telemetry"])
        .arg(&table);
    assert_finished(&command.output().unwrap());
    let text = fs::read_to_string(&table).unwrap();
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0][..4], ["job", "seconds", "event", "stage"]);
    let num = |event: &str| rows.iter().filter(|row| row[2] == event).count();
    assert!(num("sample") > 2, "{text}");
    assert_eq!(num("stage-begin"), num("stage-end"), "{text}");
    assert!(num("stage-begin") >= 4, "{text}");
    // On a fast machine a stage so small ends between two samples.
    let samples = rows.iter().filter(|row| row[2] == "sample");
    let used: u64 = samples.map(|row| row[4].parse().unwrap()).max().unwrap();
    assert!(used > 1 << 20, "{text}");

    let nowhere = "--out video.mp4 --telemetry no/such/folder/a.csv".split(' ');
    let refused = home.generate().args(nowhere).output().unwrap();
    assert_eq!(end(&refused).0["event"], "failed");
}

#[test]
fn the_cache_of_miopen_is_cleared_on_demand() {
    let home = Home::new();
    let file = home.path().join(".cache/miopen/3.5/a.kdb");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, [0; 900]).unwrap();
    let output = home
        .safelight()
        .args(["doctor", "--clear-miopen-cache", "--json"])
        .output()
        .unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["cleared_bytes"], 900);
    assert!(!file.exists());
}
