//! One command, several jobs: a file of prompts, and batches of a model that makes one clip at a time.

use std::collections::BTreeSet;

use crate::generate::prelude::*;

fn settings(home: &Home, name: &str) -> serde_json::Value {
    let text = media::read_settings(&home.path().join(name)).unwrap();
    serde_json::from_str(&text.unwrap()).unwrap()
}

#[test]
fn a_batch_of_clips_is_one_job_after_the_other_with_seeds_that_count_on() {
    let home = Home::new();
    let wish = ["--batch", "2", "--frames", "1", "--out", "fox.png"];
    let output = run(home.generate().args(wish));
    assert_eq!(end(&output).1, 0, "{}", end(&output).0);
    let all = events(&output);
    let of_kind = |kind: &str| {
        let wanted = all.iter().filter(|event| event["event"] == kind);
        wanted.cloned().collect::<Vec<_>>()
    };
    let begun: Vec<_> = of_kind("job")
        .iter()
        .map(|job| (job["number"].clone(), job["seed"].clone()))
        .collect();
    assert_eq!(begun, [(1.into(), 3.into()), (2.into(), 4.into())]);
    let finished = of_kind("finished");
    for (event, name) in finished.iter().zip(["fox_0001.png", "fox_0002.png"]) {
        let path = home.path().join(name).display().to_string();
        assert_eq!(event["path"], path);
        assert_eq!(event["paths"], serde_json::json!([path]));
    }
    assert_eq!(finished.len(), 2);
    assert_eq!(settings(&home, "fox_0002.png")["request"]["seed"], 4);
    let alone = ["--seed", "4", "--frames", "1", "--out", "alone.png"];
    assert_eq!(end(&run(home.generate().args(alone))).1, 0);
    let read = |name: &str| media::open_picture(&home.path().join(name)).unwrap();
    assert_eq!(read("alone.png"), read("fox_0002.png"));
}

#[test]
fn each_line_of_a_file_is_a_job_and_all_are_checked_before_the_first() {
    let home = Home::new();
    fs::write(
        home.path().join("prompts.txt"),
        "\u{feff}a red fox\r\n\n  \na blue whale\n",
    )
    .unwrap();
    let lines = |arguments: &[&str]| {
        let mut command = home.safelight();
        command
            .args(["generate", "--json", "--device", "cpu", "--seed", "7"])
            .args(["--width", "64", "--height", "32", "--steps", "1"])
            .args(["--frames", "1", "--model"])
            .arg(crate::common::tiny_model())
            .args(arguments);
        run(&mut command)
    };
    let output = lines(&["--prompts-file", "prompts.txt"]);
    assert_eq!(end(&output).1, 0, "{}", end(&output).0);
    for (name, prompt) in [
        ("a-red-fox_7.png", "a red fox"),
        ("a-blue-whale_7.png", "a blue whale"),
    ] {
        assert_eq!(settings(&home, name)["request"]["prompt"], prompt);
    }
    fs::write(home.path().join("empty.txt"), "\n \n").unwrap();
    for (arguments, expected) in [
        (
            &["--prompts-file", "empty.txt"][..],
            "no line with a prompt",
        ),
        (&["--prompts-file", "none.txt"], "none.txt"),
        (
            &["--prompts-file", "prompts.txt", "--prompt", "a"],
            "cannot be used with",
        ),
        (&["--prompts-file", "prompts.txt", "--batch", "0"], "batch"),
    ] {
        let output = lines(arguments);
        let (last, code) = end(&output);
        assert_eq!(code, 2, "{last}");
        let message = last["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        assert_eq!(events(&output).len(), 1);
    }
}

#[test]
fn a_template_is_settled_by_the_seed_and_repeated_to_the_letter() {
    let home = Home::new();
    let template = "a {red|blue} __animal__ // of mine";
    let make = |arguments: &[&str]| {
        let mut command = home.safelight();
        command
            .args(["generate", "--json", "--device", "cpu"])
            .args(arguments);
        run(&mut command)
    };
    let first = |out: &str| {
        let model = crate::common::tiny_model().display().to_string();
        let size = ["--width", "64", "--height", "32", "--frames", "1"];
        let wish = ["--steps", "1", "--seed", "7", "--prompt", template];
        let place = ["--model", &model, "--out", out];
        make(&[&size[..], &wish, &place].concat())
    };
    let (refused, code) = end(&first("none.png"));
    assert_eq!(code, 2);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("animal.txt"), "{message}");
    let wildcards = home.path().join("config/safelight/wildcards");
    fs::create_dir_all(&wildcards).unwrap();
    fs::write(wildcards.join("animal.txt"), "fox\n").unwrap();
    assert_eq!(end(&first("first.png")).1, 0);
    fs::write(wildcards.join("animal.txt"), "whale\n").unwrap();
    let repeated = make(&["--from", "first.png", "--out", "again.png"]);
    assert_eq!(end(&repeated).1, 0, "{}", end(&repeated).0);
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
        let (last, code) = end(&job.wait_with_output().unwrap());
        assert_eq!(code, 0, "{last}");
        paths.insert(last["path"].as_str().unwrap().to_owned());
    }
    assert_eq!(paths.len(), 3, "{paths:?}");
    assert!(paths.iter().all(|path| Path::new(path).is_file()));
    assert!(home.job_folders().is_empty());
}

#[test]
fn the_settings_beside_a_file_of_an_automatic_name_replace_no_other_file() {
    let home = Home::new();
    let make = || {
        let output = run(home.generate().args(["--frames", "1", "--sidecar"]));
        assert_eq!(end(&output).1, 0, "{}", end(&output).0);
        output
    };
    make();
    let other = home.path().join("a-small-red-fox_3-2.json");
    fs::write(&other, "notes of another program").unwrap();
    let output = make();
    assert!(home.path().join("a-small-red-fox_3-2.png").is_file());
    assert_eq!(fs::read(&other).unwrap(), b"notes of another program");
    let warned = |event: &serde_json::Value| {
        let message = event["message"].as_str().unwrap_or_default();
        event["event"] == "warning" && message.contains("settings could not be written")
    };
    assert!(events(&output).iter().any(warned));
    assert!(home.path().join("a-small-red-fox_3.json").is_file());
}
