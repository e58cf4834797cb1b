//! Disks that are full, fail or know no locks, folders that vanish, and the longest names: one sentence, nothing lost,
//! and the job goes on when the disk is well again. `cargo run --bin stress -- --only disk` tries random ones.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;

use crate::generate::prelude::*;

/// The library of faults, built once; its source says what it does.
fn library() -> &'static Path {
    static BUILT: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, library) = BUILT.get_or_init(|| {
        let source = "tests/common/disk_faults.c";
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
        let folder = tempfile::tempdir().expect("a folder");
        let library = folder.path().join("disk_faults.so");
        let built = Command::new("cc")
            .args(["-O1", "-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status();
        assert!(built.is_ok_and(|status| status.success()), "cc");
        (folder, library)
    });
    library
}

/// Has the program fail at its `at`-th call of this kind below the home; the file counts the calls.
fn failing(mut command: Command, home: &Home, kind: &str, at: u64) -> (Command, PathBuf) {
    let counter = home.path().with_extension("counter");
    fs::write(&counter, [0; 8]).unwrap();
    let (counter_path, home) = (counter.display(), home.path().display());
    let fault = format!("{kind}:{at}:{counter_path}:{home}/");
    command.env("LD_PRELOAD", library());
    command.env("SAFELIGHT_DISK_FAULT", fault);
    (command, counter)
}

fn run_failing(command: Command, home: &Home, kind: &str, at: u64) -> Output {
    let (mut command, counter) = failing(command, home, kind, at);
    let output = run(&mut command);
    fs::remove_file(counter).unwrap();
    output
}

fn job(home: &Home) -> Command {
    let mut command = home.generate();
    command.args(["--out", "video.webp"]);
    command
}

/// The bytes of a job that nothing disturbs, and how often it does what fails in this kind.
fn undisturbed(kind: &str) -> (Vec<u8>, u64) {
    let home = Home::new();
    let (mut command, counter) = failing(job(&home), &home, kind, 0);
    assert_finished(&run(&mut command));
    let count = fs::read(&counter).unwrap().try_into().unwrap();
    fs::remove_file(counter).unwrap();
    let bytes = fs::read(home.path().join("video.webp")).unwrap();
    (bytes, u64::from_le_bytes(count))
}

/// The end of a job that failed for its disk, in a sentence.
fn assert_is_of_disk(output: &Output) {
    let (last, _) = end(output);
    assert_eq!(last["event"], "failed", "{last}");
    // Where the result was to go is a wish that may be another one.
    let kind = last["kind"].as_str().unwrap();
    assert!(kind == "disk" || kind == "invalid_request", "{last}");
    assert!(!last["advice"].as_str().unwrap().is_empty(), "{last}");
    let message = message(&last);
    assert!(!message.contains('\n') && message.len() > 10, "{message}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!said.contains("panicked"), "{said}");
}

fn resume(home: &Home) -> Command {
    let kept = kept_job(home);
    let mut command = home.safelight();
    command
        .args(["resume", "--json"])
        .arg(kept.file_name().unwrap());
    command
}

#[test]
fn a_disk_that_is_full_when_the_result_is_written_keeps_the_job() {
    // Half of a write, and then no space.
    let kind = "short";
    let (bytes, count) = undisturbed(kind);
    let mut was_kept = false;
    // From behind: the last writes note times and what was measured, which no job fails for.
    for at in (1..=count).rev() {
        let home = Home::new();
        let output = run_failing(job(&home), &home, kind, at);
        let path = home.path().join("video.webp");
        if end(&output).1 == 0 {
            assert!(fs::read(path).unwrap() == bytes, "{kind} {at}");
            continue;
        }
        assert_is_of_disk(&output);
        assert!(!path.exists(), "{kind} {at}: half a file");
        assert_finished(&run(&mut resume(&home)));
        assert!(fs::read(path).unwrap() == bytes, "{kind} {at}");
        assert!(home.job_folders().is_empty(), "{kind} {at}");
        was_kept = true;
        break;
    }
    assert!(was_kept, "{kind}");
}

#[test]
fn full_disk_fails_the_job_and_leaves_no_files() {
    let home = Home::new();
    let output = run_failing(job(&home), &home, "full", 1);
    assert_is_of_disk(&output);
    assert!(home.job_folders().is_empty());
    let left: Vec<_> = fs::read_dir(home.path()).unwrap().flatten().collect();
    let mut names = left.iter().map(|entry| entry.file_name());
    let partial = names.any(|name| name.to_string_lossy().contains("partial"));
    assert!(!partial, "{left:?}");
}

#[test]
fn a_rename_or_a_flush_that_fails_costs_no_result() {
    for kind in ["rename", "sync"] {
        let (bytes, count) = undisturbed(kind);
        // Every third: all would take minutes.
        for at in (1..=count).step_by(3) {
            let home = Home::new();
            let output = run_failing(job(&home), &home, kind, at);
            if end(&output).1 != 0 {
                assert_is_of_disk(&output);
                let mut again = match home.job_folders().len() {
                    0 => job(&home),
                    _ => resume(&home),
                };
                assert_finished(&run(&mut again));
            }
            let made = fs::read(home.path().join("video.webp")).unwrap();
            assert!(made == bytes, "{kind} {at}");
            assert!(home.job_folders().is_empty(), "{kind} {at}");
        }
    }
}

#[test]
fn share_without_file_locks_keeps_jobs_and_resumes_them() {
    for kind in ["nolock", "unlock"] {
        let home = Home::new();
        let mut command = job(&home);
        command.env("SAFELIGHT_ENGINE_FAULT", "decode:abort");
        assert_failed(&run_failing(command, &home, kind, 1), 1, "");
        let mut listing = home.safelight();
        listing.args(["resume", "--json"]);
        let listed = run_failing(listing, &home, kind, 1);
        let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
        assert_eq!(listed["jobs"].as_array().map(Vec::len), Some(1), "{kind}");
        assert_finished(&run_failing(resume(&home), &home, kind, 1));
        assert!(home.path().join("video.webp").exists());
    }
}

#[test]
fn jobs_that_come_to_the_same_name_at_once_on_a_disk_without_links_all_keep_their_results() {
    let home = Home::new();
    let (mut command, counter) = failing(home.generate(), &home, "nolink", 1);
    let jobs: Vec<_> = (0..3)
        .map(|_| command.stdout(Stdio::piped()).spawn().unwrap())
        .collect();
    let mut results = BTreeMap::new();
    for job in jobs {
        let last = assert_finished(&job.wait_with_output().unwrap());
        let path = last["path"].as_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        assert!(results.insert(path, bytes).is_none(), "{last}");
    }
    let names_taken = fs::read(&counter).unwrap();
    fs::remove_file(counter).unwrap();
    assert_ne!(names_taken, [0; 8], "links were tried");
    assert!(results.values().all(|bytes| !bytes.is_empty()));
    assert!(home.job_folders().is_empty());
}

#[test]
fn removed_job_or_output_folder_fails_the_job_and_not_the_next_one() {
    use std::io::{BufRead as _, BufReader};
    // The job's own folder, and that of the result.
    for is_result in [false, true] {
        let home = Home::new();
        let out = home.path().join("out");
        let mut command = home.generate();
        fs::create_dir_all(out.join("deep")).unwrap();
        let mut child = command
            .args(["--steps", "40", "--out", "out/deep/video.webp"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut last = Value::Null;
        for line in lines.map_while(Result::ok) {
            let event: Value = serde_json::from_str(&line).unwrap();
            if event["event"] == "step" && event["step"] == 2 {
                let folder = home.job_folders().remove(0);
                let folder = if is_result { &out } else { &folder };
                // All at once, whatever is written into it.
                fs::rename(folder, home.path().join("gone")).unwrap();
            }
            last = event;
        }
        let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
        assert!(!said.contains("panicked"), "{said}");
        assert!(!child.wait().unwrap().success(), "{last}");
        assert_eq!(last["event"], "failed", "{last}");
        let message = message(&last);
        assert!(
            message.contains('/') && !message.contains('\n'),
            "{message}"
        );
        if is_result {
            // What was made is kept, and goes where its folder is again.
            fs::create_dir_all(out.join("deep")).unwrap();
            assert_finished(&run(&mut resume(&home)));
            assert!(out.join("deep/video.webp").exists());
        } else {
            assert_eq!(last["kind"], "disk", "{last}");
            assert_finished(&run(&mut job(&home)));
        }
        assert!(home.job_folders().is_empty());
    }
}

#[test]
fn a_result_may_have_a_name_of_255_bytes() {
    let home = Home::new();
    let name = format!("{}.webp", "n".repeat(250));
    let last = assert_finished(&makes(&home, &format!("--sidecar --out {name}")));
    assert_eq!(last["warnings"].as_array().map(Vec::len), Some(0), "{last}");
    let sidecar = home.path().join(&name).with_extension("json");
    assert!(home.path().join(&name).exists() && sidecar.exists());
    let mut command = home.generate();
    let longer = format!("{}.webp", "n".repeat(251));
    let output = run(command.args(["--out", &longer]));
    let (last, code) = end(&output);
    assert_ne!(code, 0, "{last}");
    assert!(events_of(&output, "stage").is_empty());
    assert!(!message(&last).contains('\n'), "{last}");
}
