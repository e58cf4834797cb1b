//! The queue on disk: it outlives the window, a crash and a broken file, and belongs to one window at a time.

use safelight_core::job::QueueFile;

use crate::app_window::prelude::*;

fn until_kept(bench: &mut Bench, count: usize) {
    let path = bench.paths().queue_file();
    bench.until("the queue is written", |_| {
        path.is_file() && QueueFile::load(&path).is_ok_and(|file| file.jobs.len() == count)
    });
}

#[test]
fn waiting_jobs_are_there_again_after_a_crash_and_wait_for_a_word() {
    let mut bench = Bench::new();
    let interrupted = bench.start_job().request.prompt;
    bench.queue_prompts(&["one", "two", "three"]);
    until_kept(&mut bench, 4);
    let mut bench = bench.restarted();
    bench.wait_for("4 jobs are left from last time|Interrupted");
    bench.assert_no_job();
    bench.queue_prompts(&["a new one"]);
    let new = bench.next_request().prompt;
    assert_eq!(new, "a new one", "new ones need not wait for old ones");
    bench.assert_no_job();
    bench.press("Resume");
    for prompt in [interrupted.as_str(), "one", "two", "three"] {
        assert_eq!(bench.next_request().prompt, prompt);
    }
    bench.assert_no_job();
}

#[test]
fn job_running_at_window_close_can_be_resumed_in_the_next_session() {
    let (mut bench, sent) = Bench::at_work();
    bench.job_folder(&sent);
    until_kept(&mut bench, 1);
    let token = sent.cancel.clone();
    // Of a program that was killed while it saved a result; no process has this number.
    let folder = sent.request.out.parent().unwrap();
    fs::create_dir_all(folder).unwrap();
    let half = folder.join(".safelight-0.4194305.partial");
    fs::write(&half, "half").unwrap();
    let mut bench = bench.reopened();
    assert!(token.is_paused());
    bench.wait_for("Interrupted");
    assert!(!half.exists());
    bench.press(&format!("Resume: {}", sent.request.prompt));
    assert_eq!(bench.next_job().id, sent.id);
}

#[test]
fn jobs_of_last_time_can_be_cleared_and_that_can_be_undone() {
    let mut bench = Bench::new();
    bench.start_job();
    bench.press("Generate");
    until_kept(&mut bench, 2);
    let mut bench = bench.reopened();
    bench.wait_for("2 jobs are left from last time");
    bench.press("Clear");
    bench.assert_hides("from last time");
    bench.press_until("Undo", "2 jobs are left from last time");
}

#[test]
fn an_image_that_is_gone_is_named_on_its_row() {
    let mut bench = Bench::new();
    bench.start_job();
    let path = bench.drop_image("boat.png", 64, 64, "Start image boat.png");
    bench.press("Generate");
    until_kept(&mut bench, 2);
    fs::remove_file(&path).unwrap();
    let mut bench = bench.reopened();
    bench.wait_for("boat.png is missing");
}

#[test]
fn broken_queue_file_is_preserved_and_reported() {
    let home = tempfile::tempdir().unwrap();
    let path = AppPaths::under(home.path()).queue_file();
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "{\"version\": 1, \"jobs\": [").unwrap();
    let mut bench = Bench::in_home(home, |_| {});
    bench.wait_for("This is not a queue of Safelight");
    bench.start_job();
    until_kept(&mut bench, 1);
    let copy = path.with_extension("broken-1.json");
    let kept = fs::read_to_string(copy).unwrap();
    assert!(kept.starts_with("{\"version\""));
}

#[test]
fn a_second_window_leaves_the_queue_to_the_first() {
    let mut bench = Bench::new();
    bench.start_job();
    bench.press("Generate");
    until_kept(&mut bench, 2);
    let data = bench.paths();
    let mut other = Bench::with(|startup| startup.paths = Some(data));
    other.wait_for("Another Safelight window already keeps the queue");
    other.assert_no_job();
    assert!(other.app().queue.waiting.is_empty());
    other.start_job();
    other.close();
    until_kept(&mut bench, 2);
}

#[test]
fn unsaved_queue_is_written_as_soon_as_the_disk_allows_it() {
    let mut bench = Bench::new();
    let path = bench.paths().queue_file();
    until_kept(&mut bench, 0);
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    bench.start_job();
    bench.wait_for("The queue could not be saved");
    // No later change is left that would be written by itself.
    bench.assert_no_job();
    fs::remove_dir(&path).unwrap();
    until_kept(&mut bench, 1);
    bench.wait_until_gone("The queue could not be saved");
    bench.until_at_rest();
}

#[test]
fn interrupted_job_is_listed_before_waiting_jobs() {
    let (mut bench, sent) = Bench::at_work();
    bench.job_folder(&sent);
    bench.queue_prompts(&["behind it"]);
    until_kept(&mut bench, 2);
    let mut bench = bench.restarted();
    let interrupted = format!("Interrupted. {}", sent.request.prompt);
    bench.wait_for(&interrupted);
    let top = |name: &str| bench.rect(Role::Button, name).top();
    assert!(top(&interrupted) < top("1. behind it"));
}
