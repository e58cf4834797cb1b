//! Jobs that come back: one that failed is saved elsewhere, a cancelled one is put back, and an end with jobs left over.

use safelight::window::create::choices::QueueEndAction;

use crate::app_window::prelude::*;

#[test]
fn a_job_whose_disk_was_full_is_saved_in_the_folder_of_now_and_stays_the_same_otherwise() {
    let mut bench = Bench::new();
    bench.form().prompt = "a {red|blue} boat".into();
    let first = bench.start_job();
    assert!(first.request.prompt_template.is_some());
    bench.press("Queue");
    bench.fail_job(&first, JobErrorKind::Disk, "it broke");
    let elsewhere = bench.home.path().join("elsewhere");
    bench.app().cx.settings.output.folder = Some(elsewhere.clone());
    bench.press("Try again: a {red|blue} boat");
    let again = bench.next_job().request;
    assert!(again.out.starts_with(&elsewhere), "{}", again.out.display());
    let out = first.request.out.clone();
    assert_eq!(GenerateRequest { out, ..again }, first.request);
}

#[test]
fn a_cancelled_job_can_be_put_back_and_is_made_from_its_beginning() {
    let (mut bench, first) = Bench::at_work();
    bench.press("Generate");
    bench.cancel_job(&first);
    let second = bench.next_job();
    bench.assert_shows(&format!("Cancelled: {}", first.request.prompt));
    bench.press("Undo");
    bench.finish_job(&second, 2);
    let again = bench.next_job();
    assert_eq!(again.unnamed(), first.unnamed());
    assert_ne!(again.id, first.id, "every number has one end");
}

#[test]
fn a_cancelled_job_of_which_something_is_kept_gets_another_file_when_it_is_put_back() {
    let (mut bench, first) = Bench::at_work();
    bench.press("Queue");
    fs::write(&first.request.out, "the video so far").expect("a file");
    bench.say_end(first.id, JobOutcome::Kept(output(&first, 2)));
    bench.press("Undo");
    let again = bench.next_job().request;
    assert_ne!(again.out, first.request.out);
    assert_eq!(again.prompt, first.request.prompt);
}

#[test]
fn a_job_that_keys_move_out_of_sight_stays_under_them() {
    let mut bench = Bench::new();
    bench.start_job();
    bench.queue_prompts(&["moved"]);
    let job = bench.app().queue.waiting[0].clone();
    for number in 0..40 {
        let mut job = job.clone();
        job.id = JobId(number);
        bench.app().queue.waiting.push_back(job);
    }
    bench.app().cx.folds.is_graph_open = true;
    bench.settle();
    let row = bench.labelled("1. moved");
    row.focus();
    bench.settle();
    let place = |bench: &mut Bench| {
        let waiting = &bench.app().queue.waiting;
        waiting.iter().position(|it| it.id == job.id)
    };
    let (down, up) = (Key::ArrowDown, Key::ArrowUp);
    for (key, times, at) in [(down, 30, 30), (up, 2, 28), (Key::Home, 1, 0)] {
        for _ in 0..times {
            bench.press_keys(Modifiers::ALT, key);
        }
        assert_eq!(place(&mut bench), Some(at), "{key:?}");
    }
}

#[test]
fn quit_countdown_mentions_stopped_jobs() {
    let (mut bench, sent) = Bench::at_work();
    bench.app().queue.after = QueueEndAction::Quit;
    bench.fail_job(&sent, JobErrorKind::Internal, "it broke");
    bench.assert_shows("except for 1 stopped job");
    bench.assert_hides("every result is saved");
    bench.press("Stay open");
}

#[test]
fn a_paused_queue_that_is_cleared_takes_the_next_job_at_once() {
    let (mut bench, first) = Bench::at_work();
    bench.queue_prompts(&["one", "two"]);
    bench.press("Pause the queue");
    bench.say_end(first.id, JobOutcome::Paused);
    bench.assert_shows("The queue is paused");
    bench.press("Clear all");
    bench.assert_hides("The queue is paused");
    bench.assert_shows("3 jobs were removed from the queue");
    bench.press_until("Undo", "The queue is paused");
    assert_eq!(bench.app().queue.waiting.len(), 3);
    bench.press("Clear all");
    bench.queue_prompts(&["three"]);
    assert_eq!(bench.next_job().request.prompt, "three");
}
