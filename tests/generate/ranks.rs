//! Jobs whose steps several devices share: engines that each compute a part, here on the CPU.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::generate::prelude::*;

/// Numbers of the engine processes that work for `home`.
fn engines(home: &Home) -> Vec<u32> {
    let own = home.path().display().to_string();
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let numbers = processes.filter_map(|it| it.file_name().to_str()?.parse::<u32>().ok());
    let is_engine = |number: &u32| {
        let of = |file: &str| fs::read(format!("/proc/{number}/{file}")).unwrap_or_default();
        let text = |file: &str| String::from_utf8_lossy(&of(file)).into_owned();
        text("cmdline").contains("safelight-engine") && text("environ").contains(&own)
    };
    numbers.filter(is_engine).collect()
}

fn assert_no_engine_is_left(home: &Home) {
    let began = Instant::now();
    while !engines(home).is_empty() {
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "an engine stayed"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn shared(home: &Home, devices: &str, out: &str) -> Command {
    let mut command = home.generate();
    command.args(["--devices", devices, "--out", out]);
    command
}

/// The result's pixels.
fn frame(home: &Home, out: &str) -> Vec<u8> {
    media::open_image(&home.path().join(out)).unwrap().image.rgb
}

#[test]
fn a_job_on_several_devices_gives_the_result_of_one() {
    let home = Home::new();
    for devices in ["1", "2", "3"] {
        let out = format!("on{devices}.png");
        let output = run(shared(&home, devices, &out).args(["--frames", "1"]));
        assert_finished(&output);
    }
    let whole = frame(&home, "on1.png");
    for out in ["on2.png", "on3.png"] {
        let found = frame(&home, out);
        let off = whole.iter().zip(&found).map(|(a, b)| a.abs_diff(*b)).max();
        assert!(off <= Some(1), "{out}: {off:?}");
    }
    assert_no_engine_is_left(&home);
}

#[test]
fn a_rank_that_dies_hangs_or_runs_out_of_memory_costs_no_job() {
    let home = Home::new();
    home.write_settings("[runtime]\nstall_limit_secs = 5\n");
    for fault in [
        "denoise@block+2:abort",
        "denoise@block+2:kill",
        "denoise@block+3:oom",
        "decode@vae_decode:kill",
        "denoise@look:hang",
    ] {
        let name = fault.replace([':', '@', '+'], "-");
        let mut command = shared(&home, "2", "video.mp4");
        strike(&mut command, &home, fault, &name);
        let output = run(&mut command);
        assert_finished(&output);
        let marker = home.path().join(name).with_extension("struck");
        assert!(marker.exists(), "{fault} did not strike");
        assert_no_engine_is_left(&home);
    }
}

#[test]
fn a_cancelled_job_ends_all_its_ranks() {
    let home = Home::new();
    let mut command = shared(&home, "2", "video.mp4");
    command.args(["--steps", "1000"]);
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_kept = || {
        let folders = home.job_folders();
        folders
            .iter()
            .any(|it| it.join("denoise.partial.safetensors").exists())
    };
    while !is_kept() {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(engines(&home).len(), 2);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    assert_no_engine_is_left(&home);
}
