//! `safelight plan` as a user starts it: what it prints and how it ends, without an engine.
//!
//! The arithmetic is tested where it is; here it is that the arguments reach it.

use std::process::Output;

use serde_json::Value;

use crate::common::{Home, assert_says, object, tiny_model};

/// Plans a small video of the tiny model.
fn plan(home: &Home, more: &[&str]) -> Output {
    let mut command = home.safelight();
    command.args("plan --width 64 --height 32 --frames 5 --guidance 2 --model".split(' '));
    command.arg(tiny_model()).args(more).output().unwrap()
}

fn planned(home: &Home, more: &str) -> Value {
    let more: Vec<&str> = more.split(' ').chain(["--json"]).collect();
    object(&plan(home, &more))
}

#[test]
fn plan_lists_memory_per_stage_and_that_the_job_fits() {
    let home = Home::new();
    let output = plan(&home, &["--total", "24", "--class", "discrete"]);
    assert_eq!(output.status.code(), Some(0));
    let job = "64×32, 5 frames|discrete|24.0 GiB, limit 22.5, other programs 0.0|denoise";
    assert_says(&output.stdout, job);
    let verdict = "Fits: needs | GiB, 21.8 GiB are free|Suggested preserved memory: ";
    assert_says(&output.stdout, verdict);
}

#[test]
fn plan_of_a_job_that_does_not_fit_exits_with_4_and_the_verdict() {
    let home = Home::new();
    let output = plan(&home, &["--total", "0.5", "--json"]);
    assert_eq!(output.status.code(), Some(4));
    let value = object(&output);
    assert_eq!(value["fits"], false);
    let verdict = value["plan"]["verdict"]["text"].as_str().unwrap();
    assert!(verdict.starts_with("Does not fit: the "), "{verdict}");
    // Nothing would help.
    assert!(value["suggestions"].as_array().unwrap().is_empty());
}

#[test]
fn plan_applies_the_cap_and_other_programs_use_and_lists_preserved_values() {
    let home = Home::new();
    let more = "--total 24 --used 2 --vram-cap 20 --preserved-table";
    let value = planned(&home, more);
    let budget = &value["plan"]["budget"];
    assert_eq!(budget["cap_bytes"], 20_u64 << 30);
    assert_eq!(budget["used_by_others_bytes"], 2_u64 << 30);
    let table = value["preserved_table"].as_array().unwrap();
    assert_eq!(table.len(), 19);
    assert_eq!(table[18]["preserved_gib"], 18);
    let asked = planned(&home, "--total 24 --preserved 23.5");
    let mut stages = asked["plan"]["stages"].as_array().unwrap().iter();
    let denoise = stages.find(|stage| stage["stage"] == "denoise").unwrap();
    assert!(denoise["resident_bytes"].as_u64() < denoise["weights_bytes"].as_u64());
}

#[test]
fn unified_memory_plan_reserves_memory_for_the_system() {
    let home = Home::new();
    let value = planned(&home, "--total 96 --class unified");
    assert_eq!(value["plan"]["budget"]["cap_bytes"], 88_u64 << 30);
    assert_eq!(value["plan"]["device"]["class"], "unified");
}

#[test]
fn a_model_that_is_not_downloaded_is_planned_by_the_sizes_of_its_files() {
    let home = Home::new();
    let plan = |more: &[&str]| {
        let mut command = home.safelight();
        command.args(["plan", "--model", "wan2.2-t2v-a14b", "--total", "16"]);
        command.args(more).output().unwrap()
    };
    let small = plan(&["--width", "480", "--height", "320", "--frames", "17"]);
    let text = assert_says(&small.stdout, "480×320, 17 frames");
    assert_eq!(small.status.code(), Some(0), "{text}");
    assert!(text.contains("The model is not downloaded"), "{text}");
    let value = object(&plan(&["--json", "--frames", "81"]));
    assert_eq!(value["is_estimate"], true);
    assert_eq!(value["num_frames"], 81);
    let refused = plan(&["--width", "0"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn invalid_plan_arguments_are_refused_in_one_sentence() {
    let home = Home::new();
    let classes = "expected a class of device (unified, discrete, cpu)";
    for (more, part) in [
        (["--class", "npu"], classes),
        (["--total", "much"], "is not a number of GiB"),
        (["--preserved", "-1"], "is not a number of GiB"),
    ] {
        let output = plan(&home, &more);
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert_says(&output.stderr, part);
    }
    // A plan needs no prompt, a job does.
    let mut generate = home.safelight();
    let output = generate.args(["generate", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_says(&output.stderr, "--prompt");
}

#[test]
fn plan_uses_settings_of_a_foreign_file_and_arguments_override_them() {
    let home = Home::new();
    let text = "a boat\nSteps: 3, Sampler: Euler, CFG scale: 2, Seed: 1, Size: 96x64, Frames: 9, Model: some";
    let file = home.path().join("boat.txt");
    std::fs::write(&file, text).unwrap();
    let mut command = home.safelight();
    command.args("plan --json --total 24 --frames 5 --model".split(' '));
    command.arg(tiny_model()).arg("--from").arg(&file);
    let value = object(&command.output().unwrap());
    assert_eq!(value["width"], 96);
    assert_eq!(value["height"], 64);
    assert_eq!(value["num_frames"], 5);
}

#[test]
fn a_plan_prints_the_notices_that_the_job_would() {
    let home = Home::new();
    let text =
        "a boat <lora:gone:0.5>\nSteps: 3, Sampler: Euler, Seed: 1, Size: 64x64, Clip skip: 2";
    let file = home.path().join("boat.txt");
    std::fs::write(&file, text).unwrap();
    let plan = |more: &[&str]| {
        let mut command = home.safelight();
        command.args(["plan", "--total", "24", "--frames", "5", "--model"]);
        command.arg(tiny_model()).arg("--from").arg(&file);
        command.args(more).output().unwrap()
    };
    let told = String::from_utf8(plan(&[]).stderr).unwrap();
    let value = object(&plan(&["--json"]));
    let notices = value["notices"].as_array().unwrap();
    for part in ["Clip skip 2", "gone"] {
        assert!(told.contains(part), "{part:?} in {told}");
        let is_named = |notice: &Value| notice.as_str().unwrap().contains(part);
        assert!(notices.iter().any(is_named), "{part:?} in {notices:?}");
    }
}

#[test]
fn the_largest_that_fits_is_searched_for_within_the_models_limits() {
    let home = Home::new();
    let search = |total: &str| {
        let value = planned(&home, &format!("--total {total} --largest"));
        let number = |value: &Value| value.as_u64().unwrap();
        let largest = &value["largest"];
        let [width, height] = [0, 1].map(|edge| number(&largest["size"][edge]));
        (width * height, number(&largest["num_frames"]))
    };
    let (small, large) = (search("2"), search("64"));
    assert!(small.0 < large.0, "{small:?} {large:?}");
    assert!(small.1 <= large.1, "{small:?} {large:?}");
    let text = plan(&home, &["--total", "2", "--largest"]);
    assert_says(
        &text.stdout,
        "Largest size that fits with |Most frames that fit at ",
    );
    // What it names does fit.
    let most = planned(&home, &format!("--total 2 --frames {}", small.1));
    assert_eq!(most["fits"], true);
}
