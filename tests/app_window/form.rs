//! The form: the start picture, sizes, lengths and seeds, and what is said when they are wrong.

use crate::app_window::prelude::*;

#[test]
fn a_dropped_picture_becomes_the_start_picture_with_its_thumbnail() {
    let mut bench = Bench::new();
    let path = bench.drop_picture("boat.png", 640, 320, "Start picture boat.png");
    bench.assert_shows("640 × 320 pixels");
    bench.press("Generate");
    assert_eq!(bench.next_job().request.image, Some(path));
    bench.press("Remove start picture");
    assert!(!bench.has("boat.png"));
    bench.node(Role::Button, "Choose a start picture");
}

#[test]
fn files_held_over_the_window_are_announced() {
    let mut bench = Bench::new();
    // egui repaints all the time while files are held.
    bench.hold_files(&["a.png"]);
    bench.assert_shows("Drop it to start the clip from this picture");
    bench.harness.input_mut().hovered_files.clear();
    bench.settle();
    assert!(!bench.has("Drop it to start"));
}

#[test]
fn a_file_that_is_no_picture_is_refused_with_a_sentence() {
    let mut bench = Bench::new();
    let path = bench.home.path().join("notes.png");
    std::fs::write(&path, "just text").unwrap();
    bench.drop_until(&path, "is a text file");
    bench.assert_shows("Choose another picture, or a clip to continue");
    let times = bench.harness.query_all_by_label_contains("PNG, JPEG");
    assert_eq!(times.count(), 1, "the kinds of pictures stand there once");
    assert!(bench.app().inputs.is_empty());
    bench.press("Dismiss");
    assert!(!bench.has("is a text file"));
}

#[test]
fn a_pasted_picture_becomes_the_start_picture() {
    let mut bench = Bench::new();
    let image = egui::ColorImage::filled([40, 30], egui::Color32::RED);
    bench
        .harness
        .event(egui::Event::PasteImage(std::sync::Arc::new(image)));
    bench.harness.step();
    bench.wait_for("40 × 30 pixels");
    let start = bench.app().inputs.get(Slot::Start).unwrap();
    let path = start.source.path().to_path_buf();
    assert!(path.starts_with(bench.home.path()) && path.is_file());
}

#[test]
fn a_model_without_pictures_says_so() {
    let mut bench = Bench::with(|startup| {
        let specs = vec![safelight_core::model::ModelSpec {
            start_image: InputUse::No,
            ..spec()
        }];
        startup.models = Some(FoundModels {
            specs,
            problems: Vec::new(),
            ..FoundModels::default()
        });
    });
    bench.drop_picture("boat.png", 64, 64, "makes clips from text only");
    bench.press("Remove start picture");
    bench.press("Generate");
    assert_eq!(bench.next_job().request.image, None);
}

#[test]
fn a_size_that_the_model_cannot_make_is_explained_beside_it_and_not_sent() {
    let mut bench = Bench::new();
    let form = bench.form();
    (form.size, form.width, form.height) = (SizeChoice::Custom, Some(0), Some(256));
    bench.settle();
    bench.assert_shows("The width must be a multiple of 32 for Little World, not 0");
    bench.press_in_vain("Generate");
    bench.assert_no_job();
    bench.form().width = Some(288);
    bench.settle();
    assert!(!bench.has("The width must"));
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!((request.width, request.height), (288, 256));
}

#[test]
fn a_size_between_two_that_the_model_makes_snaps_with_a_notice() {
    let mut bench = Bench::new();
    let form = bench.form();
    (form.size, form.width, form.height) = (SizeChoice::Custom, Some(250), Some(256));
    bench.settle();
    let notice = "The width was changed from 250 to 256";
    bench.assert_shows(notice);
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!((request.width, request.height), (256, 256));
    // The field has the new value now, and a card says why.
    assert_eq!(bench.form().width, Some(256));
    assert!(bench.app().cx.field_notices.is_empty());
    bench.assert_shows(notice);
    bench.press("Dismiss");
    assert!(!bench.has(notice));
}

#[test]
fn a_length_snaps_to_what_the_model_makes_and_is_shown_in_seconds() {
    let mut bench = Bench::new();
    bench.assert_shows("2.1 s at 8 frames a second");
    bench.form().num_frames = Some(16);
    bench.settle();
    bench.assert_shows("2.0 s at 8 frames a second");
    bench.assert_shows("The number of frames was changed from 16 to 17");
    bench.press("Generate");
    assert_eq!(bench.next_job().request.num_frames, 17);
    assert_eq!(bench.form().num_frames, Some(17));
    bench.assert_shows("2.1 s at 8 frames a second");
}

#[test]
fn a_length_far_beyond_the_model_is_refused() {
    let mut bench = Bench::new();
    bench.form().num_frames = Some(500);
    bench.settle();
    bench.assert_shows("The number of frames must be 4n+1 and at most 81");
    bench.press_in_vain("Generate");
    bench.assert_no_job();
}

#[test]
fn one_frame_is_a_picture_file() {
    let mut bench = Bench::new();
    bench.form().num_frames = Some(1);
    bench.settle();
    bench.assert_shows("A single picture");
    bench.press("Generate");
    assert_eq!(bench.next_job().request.out.extension().unwrap(), "png");
}

/// Generates and cancels; gives the seed.
fn seed_of_next_job(bench: &mut Bench) -> u64 {
    bench.press_generate();
    let sent = bench.next_job();
    bench.say_end(sent.id, JobOutcome::Cancelled);
    sent.request.seed
}

fn choose_seed_mode(bench: &mut Bench, name: &str) {
    bench.scroll_to("Seed mode");
    bench.click_label("Seed mode");
    bench.click(Role::Button, name);
}

#[test]
fn a_seed_is_new_for_every_clip_or_stays_or_counts_on() {
    let mut bench = Bench::new();
    let first = seed_of_next_job(&mut bench);
    let second = seed_of_next_job(&mut bench);
    assert_ne!(first, second);
    assert_eq!(bench.form().seed, second);
    choose_seed_mode(&mut bench, "Fixed");
    assert_eq!(seed_of_next_job(&mut bench), second);
    assert_eq!(seed_of_next_job(&mut bench), second);
    choose_seed_mode(&mut bench, "Increment");
    assert_eq!(seed_of_next_job(&mut bench), second.wrapping_add(1));
    bench.form().batch_size = Some(3);
    assert_eq!(seed_of_next_job(&mut bench), second.wrapping_add(2));
    for _ in 0..2 {
        let rest = bench.next_job();
        bench.say_end(rest.id, JobOutcome::Cancelled);
    }
    assert_eq!(seed_of_next_job(&mut bench), second.wrapping_add(5));
    for _ in 0..2 {
        let rest = bench.next_job();
        bench.say_end(rest.id, JobOutcome::Cancelled);
    }
    bench.form().batch_size = Some(1);
    choose_seed_mode(&mut bench, "Random");
    let last = seed_of_next_job(&mut bench);
    assert!(last.wrapping_sub(second) > 16);
}

#[test]
fn the_dice_rolls_the_seed_of_the_next_clip() {
    let mut bench = Bench::new();
    let first = seed_of_next_job(&mut bench);
    bench.scroll_to("Roll a new seed");
    bench.press("Roll a new seed");
    let rolled = bench.form().seed;
    assert_ne!(rolled, first);
    assert_eq!(seed_of_next_job(&mut bench), rolled);
}

#[test]
fn a_typed_seed_is_used_even_when_seeds_are_not_locked() {
    let mut bench = Bench::new();
    seed_of_next_job(&mut bench);
    bench.form().type_seed(String::new());
    let field = bench.node(Role::TextInput, "Seed");
    field.focus();
    bench.settle();
    bench
        .node(Role::TextInput, "Seed")
        .type_text("18446744073709551615");
    bench.settle();
    assert_eq!(seed_of_next_job(&mut bench), u64::MAX);
}

#[test]
fn a_seed_that_is_no_number_is_explained() {
    let mut bench = Bench::new();
    bench.form().type_seed("lucky".into());
    bench.settle();
    bench.assert_shows("The seed must be a whole number from 0 to 18446744073709551615");
}

#[test]
fn another_model_brings_its_own_values_and_keeps_the_prompt() {
    let mut bench = Bench::with(|startup| {
        let mut other = spec();
        other.id = "other".into();
        other.name = "Other model".into();
        other.defaults.num_frames = 5;
        other.defaults.sampling.num_steps = 30;
        startup.models = Some(FoundModels {
            specs: vec![spec(), other],
            problems: Vec::new(),
            ..FoundModels::default()
        });
    });
    bench.write_prompt("kept");
    bench.use_model("Other model");
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!(
        (
            request.model.as_str(),
            request.num_frames,
            request.sampling.num_steps
        ),
        ("other", 5, 30)
    );
    assert_eq!(request.prompt, "kept");
}

#[test]
fn advanced_values_reach_the_job_and_can_be_reset() {
    let mut bench = Bench::new();
    bench.scroll_to("Advanced");
    bench.click_label("Advanced");
    let form = bench.form();
    (
        form.sampling.num_steps,
        form.sampling.guidance_scale,
        form.sampling.shift,
        form.fps,
    ) = (Some(20), Some(1.0), None, Some(12.0));
    bench.settle();
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!(
        (
            request.sampling.num_steps,
            request.sampling.guidance_scale,
            request.fps
        ),
        (20, 1.0, 12.0)
    );
    let reset = bench.labelled("Reset to the model's defaults");
    reset.scroll_to_me();
    bench.settle();
    bench.press("Reset to the model's defaults");
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
    bench.assert_shows("Drop it to start the clip from this picture");
    let moved = egui::Event::PointerMoved(egui::pos2(600.0, 300.0));
    bench.harness.input_mut().events.push(moved);
    frames(&mut bench);
    assert!(!bench.has("Drop it to start"));
    bench.until("it rests", |bench| {
        frames(bench);
        bench.next_repaint() != Some(Duration::ZERO)
    });
}
