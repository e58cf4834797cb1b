//! From the form to the worker and back: one job, its progress, its end, and those that wait.

use crate::app_window::prelude::*;

#[test]
fn generate_sends_one_job_with_the_form_values_even_with_an_empty_prompt() {
    let mut bench = Bench::new();
    bench.write_prompt("a blue fish swims left");
    bench.press("Generate");
    let request = bench.next_request();
    assert_eq!(request.prompt, "a blue fish swims left");
    assert_eq!((request.width, request.height), (256, 256));
    assert_eq!((request.num_frames, request.sampling.num_steps), (17, 12));
    assert_eq!(request.image, None);
    let folder = bench.home.path().join("videos/Safelight");
    assert_eq!(request.out.parent(), Some(folder.as_path()));
    let name = request.out.display().to_string();
    let end = format!("_a-blue-fish-swims-left_{}.mp4", request.seed);
    assert!(name.ends_with(&end), "{name}");
    assert!(folder.is_dir());
    bench.assert_no_job();
    // An empty prompt is sent as it is.
    bench.form().prompt.clear();
    assert_eq!(bench.request().prompt, "");
}

#[test]
fn cancel_sets_the_flag_of_the_running_job_and_so_does_closing_the_window() {
    let (mut bench, sent) = Bench::at_work();
    assert!(!sent.cancel.is_cancelled());
    bench.press("Cancel");
    assert!(sent.cancel.is_cancelled());
    bench.assert_shows("Cancelling…");
    bench.cancel_job(&sent);
    bench.assert_shows("Cancelled");
    assert!(!bench.has_node(Role::Button, "Cancel"));
    let sent = bench.start_job();
    bench.app().close();
    assert!(sent.cancel.is_cancelled());
}

#[test]
fn status_line_shows_the_stage_step_and_time_left() {
    let mut bench = Bench::new();
    bench.assert_shows("Ready");
    let sent = bench.start_job();
    bench.assert_shows("Starting the engine…");
    bench.say(sent.id, JobUpdate::Device("Computing on the CPU".into()));
    bench.assert_shows("Computing on the CPU");
    for stage in [Stage::EncodeText, Stage::Denoise] {
        bench.say_stage(sent.id, stage);
        bench.assert_shows(stage.label());
        bench.say_stage_ended(sent.id, stage, 1.0);
    }
    bench.say_step(sent.id, Stage::Denoise, 5, 12);
    bench.assert_shows("Denoising  ·  step 5 of 12  ·  about 1 min 0 s left");
    let progress = |bench: &mut Bench| bench.app().queue.live().unwrap().progress();
    let before = progress(&mut bench);
    let (stage, section, resumed) = (Stage::Decode, 0, true);
    let again = JobUpdate::Stage {
        stage,
        section,
        resumed,
    };
    bench.say(sent.id, again);
    bench.assert_shows("resumed");
    assert!(progress(&mut bench) > before);
}

#[test]
fn preview_and_decoded_frames_are_shown_above_their_progress() {
    let (mut bench, sent) = Bench::at_work();
    bench.assert_shows("Starting the engine…");
    bench.say_stage(sent.id, Stage::Denoise);
    bench.say_step(sent.id, Stage::Denoise, 7, 25);
    bench.say_preview(sent.id, 0, 5, image(16, [90, 20, 10]));
    assert_eq!(bench.app().watch.texture.handle().unwrap().1, [16, 16]);
    bench.labelled("Live preview");
    bench.assert_shows("Denoising  ·  step 7 of 25  ·  about 1 min 0 s left");
    bench.say_stage(sent.id, Stage::Decode);
    bench.say_frame(sent.id, 3, 17, image(256, [9, 20, 90]));
    assert_eq!(bench.app().watch.texture.handle().unwrap().1, [256, 256]);
    bench.assert_shows("frame 4 of 17");
}

#[test]
fn events_of_another_job_change_nothing() {
    let (mut bench, sent) = Bench::at_work();
    let stranger = JobId(sent.id.0 - 1);
    bench.say_preview(stranger, 0, 5, image(16, [90, 20, 10]));
    bench.say_end(stranger, JobOutcome::Cancelled);
    assert!(bench.app().watch.texture.handle().is_none());
    assert_eq!(bench.app().queue.live().unwrap().id, sent.id);
}

#[test]
fn memory_graph_legend_lists_only_known_values() {
    let (mut bench, sent) = Bench::at_work();
    bench.say_stage(sent.id, Stage::Denoise);
    bench.say(sent.id, sample(4.0, 512, 300, 0, 2048));
    bench.say(sent.id, sample(4.5, 640, 310, 0, 2048));
    bench.press_until("Show memory", "Used 640 MiB|Peak 640 MiB|1.4 GiB free");
    bench.assert_hides("Allocated 310 MiB");
    bench.press_until("Memory details", "Allocated 310 MiB|Cap 2.0 GiB");
    bench.assert_hides("Reserved");
    bench.press("Hide memory");
    bench.assert_hides("Used 640 MiB");
    bench.press_until("Show memory", "Used 640 MiB");
}

#[test]
fn a_second_job_waits_for_the_first_to_end_and_can_be_taken_out_of_the_queue() {
    let (mut bench, first) = Bench::at_work();
    bench.queue_prompts(&["a second wish"]);
    bench.assert_no_job();
    bench.assert_shows("Waiting (1)");
    bench.finish_job(&first, 3);
    let second = bench.next_job();
    assert_eq!(second.request.prompt, "a second wish");
    bench.assert_hides("Waiting");
    bench.queue_prompts(&["keep me", "drop me"]);
    bench.assert_shows("Waiting (2)");
    bench.press_until("Remove from queue: drop me", "Waiting (1)");
    bench.cancel_job(&second);
    assert_eq!(bench.next_request().prompt, "keep me");
    bench.assert_no_job();
}

#[test]
fn the_keyboard_starts_a_job_from_inside_the_prompt() {
    let mut bench = Bench::new();
    bench.write_prompt("typed");
    // A slow frame brings the last letters and the shortcut together.
    bench.harness.event(egui::Event::Text(" late".into()));
    bench.press_keys(Modifiers::COMMAND, Key::Enter);
    assert_eq!(bench.next_job().request.prompt, "typed late");
}

#[test]
fn every_press_within_one_slow_frame_makes_a_job_and_a_key_that_is_held_makes_one() {
    let mut bench = Bench::new();
    bench.write_prompt("ten foxes");
    // Held for a while, then pressed twice more.
    for pressed in [true, true, true, false, true, false, true, false] {
        let event = key_event(Key::Enter, Modifiers::COMMAND, pressed);
        bench.harness.input_mut().events.push(event);
    }
    bench.settle();
    let mut seeds = vec![bench.next_job().request.seed];
    for job in &bench.app().queue.waiting {
        seeds.extend(job.request.generate().map(|request| request.seed));
    }
    assert_eq!(seeds.len(), 3);
    seeds.sort_unstable();
    seeds.dedup();
    assert_eq!(seeds.len(), 3, "each has another seed");
}

#[test]
fn choices_and_wildcards_in_a_prompt_are_settled_before_the_job_begins() {
    let mut bench = Bench::new();
    let folder = bench.paths().wildcards();
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("colour.txt"), "red\n").unwrap();
    bench.form().prompt = "a {small|small} __colour__ boat".into();
    let template = bench.form().prompt.clone();
    let request = bench.request();
    assert_eq!(request.prompt, "a small red boat");
    assert_eq!(request.prompt_template, Some(template));
    // What was written stays in the field.
    assert!(bench.form().prompt.contains("__colour__"));
}
