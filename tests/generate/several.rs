//! One command, several jobs: a file of prompts, and batches of a model that makes one video at a time.

use std::collections::BTreeSet;

use crate::generate::prelude::*;

#[test]
fn a_batch_of_videos_is_one_job_after_the_other_with_seeds_that_count_on() {
    let home = Home::new();
    let output = makes(&home, "--batch 2 --frames 1 --out fox.png");
    let begun = events_of(&output, "job").into_iter();
    let begun: Vec<_> = begun
        .map(|it| (it["number"].clone(), it["seed"].clone()))
        .collect();
    assert_eq!(begun, [(1.into(), 3.into()), (2.into(), 4.into())]);
    let finished = events_of(&output, "finished");
    for (event, name) in finished.iter().zip(["fox_0001.png", "fox_0002.png"]) {
        let path = home.path().join(name).display().to_string();
        assert_eq!(event["path"], path);
        assert_eq!(event["paths"], serde_json::json!([path]));
    }
    assert_eq!(finished.len(), 2);
    assert_eq!(settings(&home, "fox_0002.png")["request"]["seed"], 4);
    makes(&home, "--seed 4 --frames 1 --out alone.png");
    let read = |name: &str| media::open_rgb(&home.path().join(name)).unwrap();
    assert_eq!(read("alone.png"), read("fox_0002.png"));
}

#[test]
fn each_line_of_a_file_is_a_job_and_all_are_checked_before_the_first() {
    let home = Home::new();
    let prompts = "\u{feff}a red fox\r\n\n  \na blue whale\n";
    fs::write(home.path().join("prompts.txt"), prompts).unwrap();
    let lines = |arguments: &str| {
        let made =
            "generate --json --device cpu --seed 7 --width 64 --height 32 --steps 1 --frames 1";
        let mut command = home.safelight();
        command.args(made.split(' ')).args(arguments.split(' '));
        run(command.arg("--model").arg(crate::common::tiny_model()))
    };
    assert_finished(&lines("--prompts-file prompts.txt"));
    for (name, prompt) in [
        ("a-red-fox_7.png", "a red fox"),
        ("a-blue-whale_7.png", "a blue whale"),
    ] {
        assert_eq!(settings(&home, name)["request"]["prompt"], prompt);
    }
    fs::write(home.path().join("empty.txt"), "\n \n").unwrap();
    for (arguments, expected) in [
        ("--prompts-file empty.txt", "no line with a prompt"),
        ("--prompts-file none.txt", "none.txt"),
        (
            "--prompts-file prompts.txt --prompt a",
            "cannot be used with",
        ),
        ("--prompts-file prompts.txt --batch 0", "batch"),
    ] {
        let output = lines(arguments);
        assert_failed(&output, 2, expected);
        assert_eq!(events(&output).len(), 1);
    }
}

#[test]
fn a_template_is_settled_by_the_seed_and_repeated_to_the_letter() {
    let home = Home::new();
    let template = "a {red|blue} __animal__ // of mine";
    let first = |out: &str| {
        let mut command = home.generate();
        command.args(["--frames", "1", "--prompt", template, "--out", out]);
        run(&mut command)
    };
    assert_failed(&first("none.png"), 2, "animal.txt");
    let wildcards = home.path().join("config/safelight/wildcards");
    fs::create_dir_all(&wildcards).unwrap();
    fs::write(wildcards.join("animal.txt"), "fox\n").unwrap();
    assert_finished(&first("first.png"));
    fs::write(wildcards.join("animal.txt"), "whale\n").unwrap();
    assert_finished(&run(&mut home.repeat("first.png", "again.png")));
    let (first, again) = (settings(&home, "first.png"), settings(&home, "again.png"));
    let prompt = first["request"]["prompt"].as_str().unwrap();
    assert!(["a red fox", "a blue fox"].contains(&prompt), "{prompt}");
    assert_eq!(first["request"]["prompt_template"], template);
    for field in ["prompt", "prompt_template"] {
        assert_eq!(first["request"][field], again["request"][field]);
    }
}

#[test]
fn jobs_that_come_to_the_same_name_at_once_all_keep_their_results() {
    let home = Home::new();
    let jobs: Vec<_> = (0..3)
        .map(|_| home.generate().stdout(Stdio::piped()).spawn().unwrap())
        .collect();
    let mut paths = BTreeSet::new();
    for job in jobs {
        let last = assert_finished(&job.wait_with_output().unwrap());
        paths.insert(last["path"].as_str().unwrap().to_owned());
    }
    assert_eq!(paths.len(), 3, "{paths:?}");
    assert!(paths.iter().all(|path| Path::new(path).is_file()));
    assert!(home.job_folders().is_empty());
}

#[test]
fn sidecar_of_an_automatic_name_replaces_no_other_file() {
    let home = Home::new();
    let make = || makes(&home, "--frames 1 --sidecar");
    make();
    let other = home.path().join("a-small-red-fox_3-2.json");
    fs::write(&other, "notes of another program").unwrap();
    let output = make();
    assert!(home.path().join("a-small-red-fox_3-2.png").is_file());
    assert_eq!(fs::read(&other).unwrap(), b"notes of another program");
    let warnings = events_of(&output, "warning");
    let is_told = |it: &Value| message(it).contains("settings could not be written");
    assert!(warnings.iter().any(is_told), "{warnings:?}");
    assert!(home.path().join("a-small-red-fox_3.json").is_file());
}
