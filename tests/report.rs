//! `safelight report` as a user starts it: what it writes where nothing can be measured, and what it keeps when it is
//! stopped.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::Home;

fn report(home: &Home) -> Command {
    let mut command = home.safelight();
    command
        .env("USER", "planted-user")
        .env("HOSTNAME", "planted-computer")
        .arg("report");
    command
}

/// What a report that is printed as JSON wrote.
fn written(output: &Output) -> (Value, String) {
    let error = String::from_utf8_lossy(&output.stderr);
    let places: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{error}"));
    let read = |name: &str| fs::read_to_string(places[name].as_str().unwrap()).unwrap();
    (serde_json::from_str(&read("file")).unwrap(), read("page"))
}

#[test]
fn report_without_libtorch_describes_the_machine_without_personal_data() {
    let home = Home::new();
    let nowhere = home.path().join("planted-user/nowhere");
    let mut command = report(&home);
    command.env("SAFELIGHT_LIBTORCH", nowhere).arg("--json");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let (report, page) = written(&output);
    let (mut rows, mut num_unmeasured) = (Vec::new(), 0);
    for section in report["sections"].as_array().unwrap() {
        if ["targets", "machine", "doctor"].contains(&section["id"].as_str().unwrap()) {
            rows.extend(section["rows"].as_array().unwrap());
            continue;
        }
        num_unmeasured += 1;
        let problem = section["problems"][0].as_str().unwrap();
        assert!(problem.contains("No engine could be started"), "{problem}");
    }
    assert!(rows.iter().any(|row| row["label"] == "kernel"), "{rows:?}");
    assert_eq!(num_unmeasured, 5);
    let place = home.path().display().to_string();
    for text in [report.to_string(), page] {
        for planted in ["planted", &place] {
            assert!(!text.contains(planted), "{planted} in {text}");
        }
    }
}

#[test]
fn interrupted_report_keeps_its_measurements_and_is_marked_incomplete() {
    let home = Home::new();
    let mut command = report(&home);
    command
        .args(["--json", "--device", "cpu"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut told = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = told.find(|line| line.as_ref().is_ok_and(|line| line == "Loading weights"));
    assert!(line.is_some(), "it ended before");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // Nobody may wait for what is still said.
    let reader = std::thread::Builder::new().name("told".to_owned());
    let told = reader.spawn(move || told.count()).unwrap();
    let output = child.wait_with_output().unwrap();
    told.join().unwrap();
    assert_eq!(output.status.code(), Some(5), "as a job that was stopped");
    let (report, page) = written(&output);
    let why = report["incomplete"].as_str().unwrap();
    assert!(why.contains("stopped"), "{why}");
    assert!(page.contains("Incomplete"));
    let sections = report["sections"].as_array().unwrap();
    let mut all = sections.iter();
    let speed = all.find(|section| section["id"] == "speed").unwrap();
    assert!(!speed["rows"].as_array().unwrap().is_empty(), "{speed}");
    let ids: Vec<&Value> = sections.iter().map(|section| &section["id"]).collect();
    assert!(!ids.contains(&&Value::from("parity")), "{ids:?}");
}

#[test]
fn files_that_are_no_reports_are_refused_in_one_sentence() {
    let home = Home::new();
    fs::write(home.path().join("a.json"), "{}").unwrap();
    let mut command = report(&home);
    command.args(["--compare", "a.json", "b.json"]);
    let output = command.output().unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert_ne!(output.status.code(), Some(0));
    assert!(error.contains("nothing to compare"), "{error}");
}
