//! The queue's panel: what runs next, changing and doubling jobs, pausing, several images at once, and the end.

use safelight::window::create::choices::QueueEndAction;
use safelight::window::queue::WaitingJob;

use crate::app_window::prelude::*;

fn waiting(prompts: &[&str]) -> (Bench, SentJob) {
    let (mut bench, first) = Bench::at_work();
    bench.queue_prompts(prompts);
    (bench, first)
}

fn choose(bench: &mut Bench, prompt: &str, what: &str) {
    bench.press(&format!("More for: {prompt}"));
    bench.press(what);
}

#[test]
fn queue_panel_opens_for_a_second_job_unless_it_was_closed() {
    let (mut bench, first) = Bench::at_work();
    assert!(!bench.app().queue.is_open);
    bench.press("Generate");
    assert!(bench.app().queue.is_open);
    bench.press("Close the queue");
    bench.cancel_job(&first);
    bench.next_job();
    bench.press("Generate");
    assert!(!bench.app().queue.is_open);
    bench.press_until("Queue", "Waiting (1)");
}

#[test]
fn a_job_that_is_moved_to_the_top_runs_next() {
    let (mut bench, first) = waiting(&["one", "two", "three"]);
    choose(&mut bench, "three", "Move to the top");
    choose(&mut bench, "one", "Move down");
    assert_eq!(bench.waiting(), ["three", "two", "one"]);
    bench.cancel_job(&first);
    assert_eq!(bench.next_job().request.prompt, "three");
}

#[test]
fn keys_move_double_and_remove_the_job_that_has_the_focus() {
    let (mut bench, _first) = waiting(&["one", "two"]);
    bench.node(Role::Button, "2. two").focus();
    bench.settle();
    bench.press_keys(Modifiers::ALT, Key::ArrowUp);
    assert_eq!(bench.waiting(), ["two", "one"]);
    bench.press_keys(Modifiers::COMMAND, Key::D);
    assert_eq!(bench.waiting(), ["two", "two", "one"]);
    bench.press_key(Key::Delete);
    assert_eq!(bench.waiting(), ["two", "one"]);
    bench.press("Undo");
    assert_eq!(bench.waiting(), ["two", "two", "one"]);
}

#[test]
fn a_job_that_is_dragged_goes_where_it_is_let_go() {
    let (mut bench, _first) = waiting(&["one", "two", "three"]);
    let at = |name: &str| bench.rect(Role::Button, name).left_center() + egui::vec2(90.0, 0.0);
    let (from, to) = (at("3. three"), at("1. one") - egui::vec2(0.0, 10.0));
    bench.drag_and_drop(from, to);
    assert_eq!(bench.waiting(), ["three", "one", "two"]);
}

#[test]
fn edited_job_keeps_its_position_and_the_form_is_restored_afterwards() {
    let (mut bench, first) = waiting(&["one", "two"]);
    bench.form().prompt = "in the form".into();
    choose(&mut bench, "one", "Edit");
    bench.form().prompt = "something else".into();
    bench.press("Cancel edit");
    assert_eq!(bench.form().prompt, "in the form");
    assert_eq!(bench.waiting(), ["one", "two"]);
    choose(&mut bench, "one", "Edit");
    assert_eq!(bench.form().prompt, "one");
    bench.assert_shows("You are editing a job of the queue");
    bench.cancel_job(&first);
    let second = bench.next_job();
    assert_eq!(second.request.prompt, "two", "an edited job does not start");
    bench.form().prompt = "one, but better".into();
    bench.form().sampling.num_steps = Some(7);
    bench.press("Save as this job");
    assert_eq!(bench.form().prompt, "in the form");
    assert_eq!(bench.waiting(), ["one, but better"]);
    bench.cancel_job(&second);
    let request = bench.next_job().request;
    assert_eq!(request.prompt, "one, but better");
    assert_eq!(request.sampling.num_steps, 7);
    let name = request.out.display().to_string();
    assert!(name.contains("one-but-better"), "{name}");
}

#[test]
fn images_of_an_edit_that_is_cancelled_at_once_do_not_come_into_the_form() {
    let (mut bench, _first) = waiting(&[]);
    bench.drop_image("a.png", 64, 64, "Start image a.png");
    bench.press("Generate");
    let id = bench.app().queue.waiting[0].id;
    bench.push(InputsCommand::Remove(InputSlot::Start));
    bench.push(QueueCommand::Edit(id));
    bench.push(QueueCommand::CancelEdit);
    bench.harness.step();
    bench.until("it was opened", |bench| !bench.app().inputs.is_opening());
    assert!(bench.app().inputs.is_empty());
}

#[test]
fn a_job_that_is_tried_again_while_it_is_changed_is_not_changed_any_more() {
    let (mut bench, first) = Bench::at_work();
    bench.fail_job(&first, JobErrorKind::Internal, "it broke");
    bench.form().prompt = "in the form".into();
    bench.push(QueueCommand::Edit(first.id));
    bench.push(QueueCommand::Restart(first.id));
    bench.settle();
    assert!(bench.app().queue.editing.is_none());
    assert_eq!(bench.form().prompt, "in the form");
    assert_eq!(bench.next_job().unnamed(), first.unnamed());
}

#[test]
fn form_is_restored_after_the_window_closes_during_a_job_edit() {
    let (mut bench, _first) = waiting(&["one"]);
    bench.form().prompt = "in the form".into();
    choose(&mut bench, "one", "Edit");
    assert_eq!(bench.form().prompt, "one");
    let mut bench = bench.reopened();
    assert_eq!(bench.form().prompt, "in the form");
}

#[test]
fn a_double_gets_a_new_seed_unless_the_seed_is_fixed() {
    let (mut bench, _first) = waiting(&["one"]);
    choose(&mut bench, "one", "Duplicate");
    let double = bench.app().queue.waiting[1].request.generate_mut();
    double.unwrap().prompt = "its double".into();
    bench.settle();
    bench.form().seed_mode = SeedMode::Fixed;
    choose(&mut bench, "its double", "Duplicate");
    let seeds: Vec<u64> = {
        let waiting = &bench.app().queue.waiting;
        let seed = |job: &WaitingJob| job.request.generate().unwrap().seed;
        waiting.iter().map(seed).collect()
    };
    let [original, double, same] = seeds.as_slice() else {
        panic!("{seeds:?}");
    };
    assert_ne!(original, double);
    assert_eq!(double, same);
}

#[test]
fn paused_queue_starts_no_job_until_resumed() {
    let (mut bench, first) = waiting(&["next"]);
    bench.click_label("Pause after this job");
    bench.finish_job(&first, 2);
    bench.assert_no_job();
    bench.assert_shows("The queue is paused");
    bench.press("Resume the queue");
    assert_eq!(bench.next_job().request.prompt, "next");
}

#[test]
fn pausing_the_queue_pauses_the_running_job_which_resumes_first() {
    let (mut bench, first) = waiting(&["next"]);
    bench.press("Pause job");
    assert!(first.cancel.is_paused());
    bench.assert_shows("Pausing…");
    bench.say_end(first.id, JobOutcome::Paused);
    bench.assert_no_job();
    bench.press("Start the queue");
    let again = bench.next_job();
    assert_eq!(again.id, first.id);
    assert!(again.resume.unwrap().ends_with(first.id.to_string()));
}

#[test]
fn job_set_aside_does_not_pause_the_queue_and_can_be_resumed() {
    let (mut bench, first) = waiting(&["next"]);
    bench.press("Set aside");
    bench.say_end(first.id, JobOutcome::Paused);
    assert_eq!(bench.next_job().request.prompt, "next");
    bench.assert_shows("Stopped (1)");
    bench.press(&format!("Resume: {}", first.request.prompt));
    assert_eq!(bench.app().queue.waiting[0].id, first.id);
}

#[test]
fn a_job_without_a_prompt_has_a_title() {
    let mut bench = Bench::new();
    bench.press("Generate");
    bench.next_job();
    bench.press_until("Generate", "Running: Untitled job|1. Untitled job");
}

#[test]
fn a_failed_job_stops_no_other_and_can_be_tried_again() {
    let (mut bench, first) = waiting(&["next"]);
    bench.fail_job(&first, JobErrorKind::Internal, "it broke");
    let second = bench.next_job();
    bench.assert_shows("Failed: it broke");
    bench.press(&format!("Try again: {}", first.request.prompt));
    bench.cancel_job(&second);
    let again = bench.next_job();
    assert_eq!(again.unnamed(), first.unnamed());
    assert_ne!(again.id, first.id, "every number has one end");
}

#[test]
fn failed_job_with_finished_stages_can_be_resumed() {
    let (mut bench, sent) = Bench::at_work();
    let folder = bench.job_folder(&sent);
    fs::write(folder.result(Stage::EncodeText).unwrap(), "").unwrap();
    bench.press("Queue");
    bench.fail_job(&sent, JobErrorKind::Internal, "it broke");
    let again = format!("Resume: {}", sent.request.prompt);
    bench.wait_for(&again);
    bench.press(&again);
    assert_eq!(bench.next_job().id, sent.id);
}

#[test]
fn ten_dropped_images_become_ten_jobs_with_their_own_sizes() {
    let mut bench = Bench::of(pair_spec());
    bench.form().prompt = "it moves".into();
    let mut paths: Vec<_> = (0..10)
        .map(|index| bench.image_file(&format!("{index}.png"), 320 + 320 * (index % 2), 320))
        .collect();
    paths.insert(3, bench.text_file("notes.png", "just text"));
    let paths: Vec<_> = paths.iter().map(|path| path.as_path()).collect();
    bench.drop_files(&paths);
    bench.wait_for("11 files at once");
    bench.press("Make 11 jobs, one for each");
    bench.wait_for("One of 11 files could not be used");
    let mut sizes = Vec::new();
    let mut seeds = std::collections::BTreeSet::new();
    for index in 0..10 {
        let request = bench.next_request();
        assert_eq!(request.prompt, "it moves");
        let name = format!("{index}.png");
        assert!(request.image.unwrap().ends_with(name));
        sizes.push((request.width, request.height));
        seeds.insert(request.seed);
    }
    assert_eq!(sizes[..2], [(256, 256), (352, 192)]);
    assert_eq!(seeds.len(), 10);
    bench.assert_no_job();
    assert!(bench.app().inputs.is_empty(), "the form stays as it is");
}

#[test]
fn dropping_two_images_for_one_slot_prompts_and_can_be_cancelled() {
    let mut bench = Bench::new();
    let paths = ["a.png", "b.png"].map(|name| bench.image_file(name, 64, 64));
    bench.drop_files(&[&paths[0], &paths[1]]);
    bench.wait_for("2 files at once");
    bench.press("Cancel");
    bench.assert_hides("2 files at once");
    bench.assert_no_job();
    assert!(bench.app().inputs.is_empty());
}

#[test]
fn of_five_hundred_jobs_only_those_on_the_screen_are_drawn() {
    let (mut bench, _first) = waiting(&["a wish"]);
    let job = bench.app().queue.waiting[0].clone();
    for number in 0..499 {
        let mut job = job.clone();
        job.id = JobId(number);
        let request = job.request.generate_mut().unwrap();
        request.prompt = format!("wish {number}");
        bench.app().queue.waiting.push_back(job);
    }
    bench.settle();
    bench.assert_shows("Waiting (500)");
    let count = bench.count("More for: ");
    assert!((5..25).contains(&count), "{count} rows are drawn");
    bench.until_at_rest();
}

#[test]
fn window_quits_after_a_countdown_at_queue_end_unless_cancelled() {
    let (mut bench, first) = waiting(&["last"]);
    bench.app().queue.after = QueueEndAction::Quit;
    bench.finish_job(&first, 2);
    let last = bench.next_job();
    bench.assert_hides("Safelight quits");
    bench.finish_job(&last, 2);
    bench.assert_shows("Safelight quits in ");
    bench.press("Stay open");
    assert_eq!(bench.app().queue.after, QueueEndAction::Nothing);
    bench.app().queue.after = QueueEndAction::Quit;
    bench.until_later("it closes", |bench| {
        let close = egui::ViewportCommand::Close;
        bench.viewport_commands().contains(&close)
    });
}

#[test]
fn failed_suspend_at_queue_end_is_reported_and_not_repeated() {
    let mut bench = Bench::new();
    let forbid = || Err(JobError::new(JobErrorKind::Device, "somebody forbids it"));
    bench.app().queue.suspend = Some(Arc::new(forbid));
    let sent = bench.start_job();
    bench.press("Queue");
    bench.app().queue.after = QueueEndAction::Suspend;
    bench.fail_job(&sent, JobErrorKind::Internal, "it broke");
    bench.assert_shows("The computer goes to sleep in ");
    bench.until_later("it is told", |bench| bench.has("Somebody forbids it"));
    assert_eq!(bench.app().queue.after, QueueEndAction::Nothing);
}

#[test]
fn a_job_of_a_model_that_is_gone_is_not_put_into_the_form() {
    let (mut bench, _first) = waiting(&["one"]);
    let first = bench.app().queue.waiting[0].request.generate_mut();
    first.unwrap().model = "elsewhere".into();
    choose(&mut bench, "one", "Edit");
    bench.assert_shows("The model of this job is not here: elsewhere");
    assert_eq!(bench.form().model, Some(spec().id));
}

#[test]
fn queue_covers_the_image_in_a_small_window_and_can_be_closed() {
    let (mut bench, _first) = waiting(&["one", "two"]);
    bench.resize(egui::vec2(413.0, 300.0));
    bench.press("View");
    bench.assert_hides("Close the queue");
    bench.press("Form");
    bench.press("Queue");
    bench.labelled("Close the queue");
    bench.scroll_to("More for: one");
    choose(&mut bench, "one", "Move down");
    assert_eq!(bench.waiting(), ["two", "one"]);
    bench.scroll_to("Close the queue");
    bench.press("Close the queue");
    bench.assert_hides("More for");
}
