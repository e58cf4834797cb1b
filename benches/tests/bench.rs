//! `safelight-bench` as a developer starts it: output and exit codes. Needs `safelight-engine` in the same folder.

#![expect(clippy::unwrap_used, reason = "helpers of tests may panic as tests do")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// With an empty home, on the libtorch of this build.
fn bench(args: &[&str]) -> Output {
    let home = tempfile::tempdir().unwrap();
    command(home.path(), args).output().unwrap()
}

fn command(home: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_safelight-bench"));
    command
        .env("HOME", home)
        .env("XDG_CONFIG_HOME", home.join("config"))
        .env("XDG_DATA_HOME", home.join("data"))
        .env("OMP_NUM_THREADS", "1")
        .env_remove("SAFELIGHT_LIBTORCH")
        .args(args);
    command
}

fn t5(more: &[&str]) -> Output {
    let args = ["flux", "t5xxl", "--small", "--runs", "3", "--device", "cpu"];
    bench(&[&args, more].concat())
}

fn error(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn people_get_a_table_and_programs_get_json() {
    let output = t5(&[]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", error(&output));
    assert!(
        text.starts_with("t5xxl") && text.contains("median"),
        "{text}"
    );
    let output = t5(&["--json"]);
    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&line["case"], &line["runs"]), (&"t5xxl".into(), &3.into()));
    let help = bench(&["--help"]);
    let text = String::from_utf8(help.stdout).unwrap();
    assert!(help.status.success() && text.contains("z-image"), "{text}");
}

#[test]
fn a_run_is_compared_with_an_earlier_one_and_fails_where_it_is_slower() {
    let folder = tempfile::tempdir().unwrap();
    for (secs, code) in [(1e-9, 1), (1e9, 0)] {
        let path = folder.path().join("before.json");
        let line = format!(r#"{{"case":"t5xxl","median_s":{secs},"runs":1,"device":"CPU"}}"#);
        std::fs::write(&path, line).unwrap();
        let output = t5(&["--against", path.to_str().unwrap()]);
        let text = String::from_utf8(output.stdout.clone()).unwrap();
        assert_eq!(output.status.code(), Some(code), "{text}{}", error(&output));
        assert!(text.contains("t5xxl: median"), "{text}");
        assert_eq!(text.contains("SLOWER"), code == 1, "{text}");
    }
    let output = t5(&["--against", "nothing.json"]);
    assert!(error(&output).contains("nothing to compare"), "{output:?}");
}

#[test]
fn invalid_arguments_are_refused_in_one_sentence() {
    for (args, part) in [
        (&["wan", "wan99b"][..], "found \"wan99b\""),
        (&["wan", "umt5xxl", "--device", "cpu"], "expected a GPU"),
        (&["wan", "--runs", "none"], "found \"none\""),
        (&["wan", "--device", "tpu"], "tpu"),
        (&["sora", "--small"], "found \"sora\""),
    ] {
        let output = bench(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(output.stdout.is_empty());
        let text = error(&output);
        assert!(text.contains(part) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn bench_without_libtorch_exits_with_1_and_names_the_missing_folder() {
    let home = tempfile::tempdir().unwrap();
    let mut command = command(home.path(), &["kernels"]);
    let nowhere = home.path().join("nothing-here");
    let output = command.env("SAFELIGHT_LIBTORCH", nowhere).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(error(&output).contains("nothing-here"), "{output:?}");
}
