//! The form: the start image, sizes, lengths and seeds, and what is said when they are wrong.

use crate::app_window::prelude::*;

#[test]
fn files_held_over_the_window_are_announced_and_a_dropped_image_starts_the_video() {
    let mut bench = Bench::new();
    // egui repaints all the time while files are held.
    bench.hold_files(&["a.png"]);
    bench.assert_shows("Drop it to start the video from this image");
    bench.harness.input_mut().hovered_files.clear();
    bench.settle();
    bench.assert_hides("Drop it to start");
    let path = bench.drop_image("boat.png", 640, 320, "Start image boat.png");
    bench.assert_shows("640 × 320 pixels");
    assert!(!bench.has("End image"), "the model has one place");
    assert_eq!(bench.request().image, Some(path));
    bench.press("Remove start image");
    bench.assert_hides("boat.png");
    bench.node(Role::Button, "Choose a start image");
}

#[test]
fn a_file_that_is_no_image_is_refused_with_a_sentence_until_another_can_be_used() {
    let mut bench = Bench::new();
    let path = bench.text_file("notes.png", "just text");
    bench.drop_until(&path, "is a text file");
    bench.assert_shows("Choose another image, or a video to continue");
    assert_eq!(bench.count("PNG, JPEG"), 1, "the kinds are said once");
    assert!(bench.app().inputs.is_empty());
    bench.press("Dismiss");
    bench.assert_hides("is a text file");
    bench.drop_until(&path, "is a text file");
    bench.drop_image("good.png", 64, 64, "Start image good.png");
    assert!(!bench.has_cards());
}

#[test]
fn a_pasted_image_becomes_the_start_image() {
    let mut bench = Bench::new();
    bench.paste_image();
    let start = bench.app().inputs.get(InputSlot::Start).unwrap();
    let path = start.source.path().to_path_buf();
    assert!(path.starts_with(bench.home.path()) && path.is_file());
}

#[test]
fn text_only_model_warns_about_a_start_image() {
    let mut bench = Bench::of(ModelSpec {
        start_image: InputUse::No,
        ..spec()
    });
    bench.drop_image("boat.png", 64, 64, "makes videos from text only");
    bench.press("Remove start image");
    assert_eq!(bench.request().image, None);
}

#[test]
fn a_size_that_the_model_cannot_make_is_explained_and_not_sent_and_one_between_two_snaps() {
    let mut bench = Bench::new();
    bench.set_size(0, 256);
    bench.assert_shows("The width must be a multiple of 32 for Little World, not 0");
    bench.press_in_vain("Generate");
    bench.assert_no_job();
    bench.set_size(250, 256);
    bench.assert_hides("The width must");
    let notice = "The width was changed from 250 to 256";
    bench.assert_shows(notice);
    let request = bench.request();
    assert_eq!((request.width, request.height), (256, 256));
    // The field has the new value now, and a card says why.
    assert_eq!(bench.form().width, Some(256));
    assert!(bench.app().cx.field_notices.is_empty());
    bench.assert_shows(notice);
}

#[test]
fn frame_count_snaps_to_a_valid_value_and_is_refused_above_the_maximum() {
    let mut bench = Bench::new();
    bench.assert_shows("2.1 s at 8 frames a second");
    bench.edit(|form| form.num_frames = Some(16));
    bench.assert_shows("2.0 s at 8 frames a second|The number of frames was changed from 16 to 17");
    assert_eq!(bench.request().num_frames, 17);
    assert_eq!(bench.form().num_frames, Some(17));
    bench.assert_shows("2.1 s at 8 frames a second");
    bench.edit(|form| form.num_frames = Some(500));
    bench.assert_shows("The number of frames must be 4n+1 and at most 81");
    bench.press_in_vain("Generate");
    bench.edit(|form| form.num_frames = Some(1));
    bench.assert_shows("A single image");
    assert_eq!(bench.request().out.extension().unwrap(), "png");
}

fn choose_seed_mode(bench: &mut Bench, name: &str) {
    bench.scroll_to("Seed mode");
    bench.click_label("Seed mode");
    bench.click(Role::Button, name);
}

#[test]
fn a_seed_is_new_for_every_video_or_stays_or_counts_on() {
    let mut bench = Bench::new();
    let first = bench.request().seed;
    let second = bench.request().seed;
    assert_ne!(first, second);
    assert_eq!(bench.form().seed, second);
    choose_seed_mode(&mut bench, "Fixed");
    assert_eq!(bench.request().seed, second);
    assert_eq!(bench.request().seed, second);
    choose_seed_mode(&mut bench, "Increment");
    assert_eq!(bench.request().seed, second.wrapping_add(1));
    bench.form().batch_size = Some(3);
    for after in [2, 5] {
        assert_eq!(bench.request().seed, second.wrapping_add(after));
        bench.next_request();
        bench.next_request();
    }
    bench.form().batch_size = Some(1);
    choose_seed_mode(&mut bench, "Random");
    let last = bench.request().seed;
    assert!(last.wrapping_sub(second) > 16);
    bench.scroll_and_press("Roll a new seed");
    let rolled = bench.form().seed;
    assert_ne!(rolled, last);
    assert_eq!(bench.request().seed, rolled, "the dice's is the next one");
}

#[test]
fn a_typed_seed_is_used_even_when_seeds_are_not_locked_and_one_that_is_no_number_is_explained() {
    let mut bench = Bench::new();
    bench.request();
    bench.form().type_seed(String::new());
    bench.focus_and_type(Role::TextInput, "Seed", "18446744073709551615");
    assert_eq!(bench.request().seed, u64::MAX);
    bench.form().type_seed("lucky".into());
    bench.settle();
    bench.assert_shows("The seed must be a whole number from 0 to 18446744073709551615");
}

#[test]
fn another_model_brings_its_own_values_and_keeps_the_prompt() {
    let mut other = spec();
    (other.id, other.name) = ("other".into(), "Other model".into());
    other.defaults.num_frames = 5;
    other.defaults.sampling.num_steps = 30;
    let mut bench = Bench::of_models(vec![spec(), other]);
    bench.write_prompt("kept");
    bench.use_model("Other model");
    let request = bench.request();
    assert_eq!(request.model, "other");
    assert_eq!((request.num_frames, request.sampling.num_steps), (5, 30));
    assert_eq!(request.prompt, "kept");
}

#[test]
fn advanced_values_reach_the_job_and_can_be_reset() {
    let mut bench = Bench::new();
    bench.open_advanced();
    let form = bench.form();
    (form.sampling.num_steps, form.fps) = (Some(20), Some(12.0));
    form.sampling.guidance_scale = Some(1.0);
    let request = bench.request();
    let sampling = &request.sampling;
    assert_eq!((sampling.num_steps, sampling.guidance_scale), (20, 1.0));
    assert_eq!(request.fps, 12.0);
    bench.scroll_and_press("Reset to the model's defaults");
    let form = bench.form();
    assert_eq!(form.sampling_for(&spec()).num_steps, 12);
}

#[test]
fn files_that_are_never_taken_back_are_forgotten_when_the_pointer_is_free_again() {
    let mut bench = Bench::new();
    // A window system that speaks of files after they were let go says so with every frame.
    let frames = |bench: &mut Bench| {
        for _ in 0..5 {
            let late = egui::HoveredFile {
                path: Some("late.png".into()),
                ..Default::default()
            };
            let mut input = std::mem::take(bench.harness.input_mut());
            input.hovered_files = vec![late];
            bench.app().drops.forget_stale(&mut input);
            *bench.harness.input_mut() = input;
            bench.harness.step();
        }
    };
    frames(&mut bench);
    bench.assert_shows("Drop it to start the video from this image");
    let moved = egui::Event::PointerMoved(egui::pos2(600.0, 300.0));
    bench.harness.input_mut().events.push(moved);
    frames(&mut bench);
    bench.assert_hides("Drop it to start");
    bench.until("it rests", |bench| {
        frames(bench);
        bench.next_repaint() != Some(Duration::ZERO)
    });
}
