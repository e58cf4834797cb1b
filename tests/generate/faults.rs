//! Engines that die, hang and run out of memory, and people who interrupt.

use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::common::tiny_model;
use crate::generate::prelude::*;

const ENGINE_STAGES: [&str; 5] = ["encode_text", "encode_image", "denoise", "unload", "decode"];

/// One run on a start image in which the engine is struck once at the beginning of `stage`.
fn struck(home: &Home, stage: &str, kind: &str) -> Value {
    let name = format!("{stage}-{kind}");
    let mut command = home.generate();
    command.args(["--image", "start.png", "--out", "video.mp4"]);
    strike(&mut command, home, &format!("{stage}:{kind}"), &name);
    let output = run(&mut command);
    let last = assert_finished(&output);
    let marker = home.path().join(name).with_extension("struck");
    assert!(marker.exists(), "{stage} was not struck");
    let all = events(&output).into_iter();
    let again = all.filter(|event| event["resumed"] == true);
    let again: Vec<Value> = again.map(|event| event["stage"].clone()).collect();
    assert_eq!(again, [stage], "{kind}");
    last
}

#[test]
fn an_engine_that_dies_in_any_stage_is_replaced_and_the_job_finishes() {
    let home = Home::new();
    test_image(&home.path().join("start.png"), 64, 32);
    for stage in ENGINE_STAGES {
        for kind in ["abort", "kill"] {
            let last = struck(&home, stage, kind);
            assert_eq!(last["frames"], 5);
            let num_warnings = last["warnings"].as_array().map(Vec::len);
            assert_eq!(num_warnings, Some(1), "{stage}: {last}");
        }
    }
}

#[test]
fn an_engine_that_hangs_in_any_stage_is_ended_and_the_job_finishes() {
    let home = Home::new();
    test_image(&home.path().join("start.png"), 64, 32);
    home.write_settings("[runtime]\nstall_limit_secs = 2\n");
    for stage in ENGINE_STAGES {
        let last = struck(&home, stage, "hang");
        let warning = last["warnings"][0].as_str().unwrap();
        assert!(warning.contains("no progress"), "{last}");
    }
}

#[test]
fn repeated_engine_crash_fails_the_job_and_keeps_finished_stages() {
    let home = Home::new();
    let faulty = |fault: &str| {
        let mut command = home.generate();
        command.args(["--out", "video.mp4"]);
        run(command.env("SAFELIGHT_ENGINE_FAULT", fault))
    };
    assert_failed(&faulty("decode:abort"), 1, "");
    assert!(!home.path().join("video.mp4").exists());
    assert!(kept_job(&home).join("latents.safetensors").exists());
    // Out of memory and panics have their own exit codes.
    assert_failed(&faulty("denoise:oom"), 4, "");
    assert_failed(&faulty("denoise:panic"), 1, "");
}

/// A long job whose first step is made, and the lines that it goes on to say.
fn in_its_steps(home: &Home) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut command = home.generate();
    command.args(["--steps", "1000", "--out", "video.mp4"]);
    at_a_step(command)
}

fn at_a_step(mut command: Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let is_step = |line: String| line.contains(r#""event":"step""#);
    assert!(lines.by_ref().map_while(Result::ok).any(is_step));
    (child, lines)
}

/// Sends the signal to a job in its steps and hears its last line, which says that the job is kept.
fn stopped_politely((mut child, lines): (Child, Lines<BufReader<ChildStdout>>), signal: Signal) {
    let pid = Pid::from_child(&child);
    kill_process(pid, signal).unwrap();
    let last = lines.map_while(Result::ok).last().unwrap();
    assert!(last.contains(r#""event":"cancelled","kept":"#), "{last}");
    assert_eq!(child.wait().unwrap().code(), Some(5));
}

#[test]
fn a_polite_signal_stops_within_a_step_and_keeps_the_job_also_one_that_was_resumed() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let home = Home::new();
        stopped_politely(in_its_steps(&home), signal);
        assert!(!home.path().join("video.mp4").exists());
        let kept = kept_job(&home);
        let checkpoint = kept.join("denoise.partial.safetensors");
        let number = kept.file_name().unwrap().to_str().unwrap();
        assert!(checkpoint.exists(), "the first step is kept");
        let mut resumed = home.safelight();
        resumed.args(["resume", number, "--json"]);
        stopped_politely(at_a_step(resumed), signal);
        assert_eq!(kept_job(&home), kept);
        assert!(checkpoint.exists());
        let mut discard = home.safelight();
        discard.args(["resume", number, "--discard"]);
        assert!(discard.status().unwrap().success());
        assert!(home.job_folders().is_empty());
    }
}

#[test]
fn resume_names_a_job_in_use_and_the_command_for_a_stopped_one() {
    let home = Home::new();
    let running = in_its_steps(&home);
    let folder = home.job_folders().remove(0);
    let number = folder.file_name().unwrap().to_str().unwrap();
    let resume = || {
        let mut command = home.safelight();
        command.args(["resume", number]);
        command
    };
    let second = run(&mut resume());
    let said = String::from_utf8(second.stderr).unwrap();
    let told = "another window or program is working on this job";
    assert!(said.contains(told), "{said}");
    assert_eq!(second.status.code(), Some(2));
    stopped_politely(running, Signal::INT);

    let checkpoint = folder.join("denoise.partial.safetensors");
    let written = || fs::metadata(&checkpoint).unwrap().modified().unwrap();
    let before = written();
    let mut resume = resume();
    resume.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = resume.spawn().unwrap();
    while written() == before {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let told = format!("To continue: safelight resume {number}\n");
    assert!(said.contains(&told), "{said}");
    assert_eq!(output.status.code(), Some(5));
}

/// Interrupts a job whose engine hears nothing and is given up after `grace_secs`, twice; returns the last line, the code,
/// and how long after the first the second one was sent at most.
fn interrupted_twice(grace_secs: u32, pause: Duration) -> (String, Option<i32>, Duration) {
    let home = Home::new();
    home.write_settings(&format!("[runtime]\ncancel_grace_secs = {grace_secs}\n"));
    let marker = home.path().join("hangs.struck");
    let mut command = home.generate();
    command.args(["--out", "video.mp4"]);
    strike(&mut command, &home, "denoise:hang", "hangs");
    command.stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    while !marker.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended early");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (pid, first) = (Pid::from_child(&child), Instant::now());
    kill_process(pid, Signal::INT).unwrap();
    std::thread::sleep(pause);
    kill_process(pid, Signal::INT).unwrap();
    let apart = first.elapsed();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap_or_default();
    (last.to_owned(), output.status.code(), apart)
}

#[test]
fn two_interrupts_of_one_key_press_cancel_and_a_later_one_does_not_wait() {
    // On a busy machine the second one may come later than one key press sends it.
    let (last, code) = loop {
        let (last, code, apart) = interrupted_twice(3, Duration::from_millis(30));
        if apart < Duration::from_millis(60) {
            break (last, code);
        }
    };
    assert!(last.contains(r#""event":"cancelled""#), "{last}");
    assert_eq!(code, Some(5));
    let (last, code, _) = interrupted_twice(60, Duration::from_secs(3));
    assert!(!last.contains("cancelled"), "{last}");
    assert_eq!(code, Some(5));
}

#[test]
fn engine_exits_when_its_app_is_killed() {
    let home = Home::new();
    let (mut child, _lines) = in_its_steps(&home);
    let engines = children_of(child.id());
    assert_eq!(engines.len(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    let is_gone = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(50));
        !is_running(engines[0])
    });
    assert!(is_gone, "the engine {} still runs", engines[0]);
}

#[test]
fn an_autoencoder_of_no_numbers_fails_the_job_instead_of_a_black_video() {
    let home = Home::new();
    let model = home.path().join("broken");
    copy_folder(&tiny_model(), &model);
    let weights = model.join("vae/diffusion_pytorch_model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    let header = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    for number in bytes[8 + header..].chunks_exact_mut(4) {
        number.copy_from_slice(&f32::NAN.to_le_bytes());
    }
    fs::write(&weights, bytes).unwrap();
    let mut command = home.generate();
    command.arg("--model").arg(&model).args(["--frames", "1"]);
    let output = run(command.args(["--steps", "1", "--out", "video.mp4"]));
    assert_failed(&output, 2, "the VAE gave invalid pixels");
    assert!(!home.path().join("video.mp4").exists());
}

fn children_of(pid: u32) -> Vec<u32> {
    let status_of =
        |entry: &fs::DirEntry| fs::read_to_string(entry.path().join("status")).unwrap_or_default();
    fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter(|entry| status_of(entry).contains(&format!("PPid:\t{pid}\n")))
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

fn is_running(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // A zombie nobody waited for is gone all the same.
    !stat.is_empty() && !stat.contains(") Z ")
}
