//! Start and end images and videos to go on from: where they go, and what is said of them.

use crate::app_window::images::fill_spec;
use crate::app_window::prelude::*;
use crate::app_window::references::edit_spec;

fn pair() -> Bench {
    Bench::of(pair_spec())
}

#[test]
fn a_needed_image_is_marked_and_explained_and_nothing_is_sent_without_it() {
    let mut bench = pair();
    bench.labelled("needed");
    bench.assert_shows("Pair needs a start image");
    assert!(bench.is_disabled("Generate"));
    let path = bench.drop_as("Start image", "boat.png");
    bench.assert_hides("needed");
    let request = bench.request();
    assert_eq!((request.image, request.last_image), (Some(path), None));
}

#[test]
fn a_second_image_becomes_the_end_and_both_can_be_swapped_and_removed() {
    let mut bench = pair();
    let first = bench.drop_as("Start image", "first.png");
    let last = bench.drop_as("End image", "last.png");
    bench.press_until("Swap images", "Start image last.png|End image first.png");
    let request = bench.request();
    assert_eq!(request.image, Some(last));
    assert_eq!(request.last_image, Some(first));
    bench.press("Remove end image");
    bench.assert_hides("first.png");
    bench.press("Remove start image");
    bench.assert_hides("last.png");
    for name in ["Choose a start image", "Choose an end image"] {
        bench.node(Role::Button, name);
    }
}

#[test]
fn a_file_dropped_onto_a_place_goes_there_and_two_dropped_together_become_start_and_end() {
    let mut bench = pair();
    let paths = ["first.png", "last.png"].map(|name| bench.image_file(name, 64, 64));
    bench.drop_onto("Choose an end image", &paths[1], "End image last.png");
    let first = "Start image first.png";
    bench.drop_onto("Choose a start image", &paths[0], first);
    let request = bench.request();
    let sent = [request.image, request.last_image];
    assert_eq!(sent, paths.clone().map(Some));
    let mut bench = pair();
    bench.drop_files(&[&paths[0], &paths[1]]);
    bench.wait_for("Start image first.png|End image last.png");
    assert!(!bench.has_cards());
}

#[test]
fn of_more_files_than_places_the_first_can_go_into_the_form() {
    let mut bench = Bench::new();
    let paths = ["a.png", "b.png", "c.png"].map(|name| bench.image_file(name, 64, 64));
    bench.drop_files(&[&paths[0], &paths[1], &paths[2]]);
    bench.wait_for("files at once");
    bench.press_until("Put only the first into the form", "Start image a.png");
    bench.assert_shows("Only one of 3 files is used: a.png");
    let mut bench = pair();
    bench.drop_files(&[&paths[0], &paths[1], &paths[2]]);
    bench.wait_for("files at once");
    bench.press_until("Put the first two into the form", "End image b.png");
    bench.assert_shows("Not all of 3 files are used, only these: a.png, b.png");
}

#[test]
fn dropped_non_image_takes_no_input_slot_from_the_images_after_it() {
    let mut bench = pair();
    let text = bench.text_file("notes.txt", "just text");
    let first = bench.image_file("first.png", 64, 64);
    let last = bench.image_file("last.png", 64, 64);
    bench.drop_files(&[&text, &first, &last]);
    bench.wait_for("files at once");
    bench.press_until("Put the first two into the form", "Start image first.png");
    bench.assert_shows("End image last.png|is a text file");
}

/// Asserts what the window says while files are held over it: names of files, separated by spaces, and the hint.
fn assert_hints(spec: ModelSpec, hints: &[(&str, &str)]) {
    let mut bench = Bench::of(spec);
    for (files, hint) in hints {
        let files: Vec<&str> = files.split(' ').collect();
        bench.hold_files(&files);
        bench.assert_shows(hint);
    }
}

#[test]
fn drop_hint_names_the_use_of_the_dragged_files() {
    let of_pair = [
        // Window systems tell of a file again whenever it moves.
        ("a.png a.png", "Drop it to start the video from this image"),
        ("a.mp4", "Drop it to extend this video"),
        ("a.png b.png", "from the first and ends on the second"),
        ("a.png b.png c.png", "Drop to queue one job per file"),
    ];
    assert_hints(pair_spec(), &of_pair);
    let of_references = [
        ("a.png", "Drop it as a reference image"),
        ("a.png b.png", "Drop them as reference images"),
        ("a.png b.png c.png d.png", "Drop to queue one job per file"),
    ];
    assert_hints(edit_spec(), &of_references);
    let of_image = [
        ("a.png", "Drop it to start from this image"),
        ("a.mp4", "starts from an image, not from a video"),
    ];
    assert_hints(flux_spec(), &of_image);
    let of_both = "the first is the image, the second its mask";
    assert_hints(fill_spec(), &[("a.png b.png", of_both)]);
    for (spec, hint) in [
        (pair_spec(), "Drop it to end the video on this image"),
        (fill_spec(), "Drop it as the mask"),
    ] {
        let mut bench = Bench::of(spec);
        bench.drop_as("Start image", "a.png");
        bench.hold_files(&["b.png"]);
        bench.assert_shows(hint);
    }
}

#[test]
fn a_dropped_image_picks_the_size_of_its_aspect() {
    let mut bench = pair();
    let form = bench.form();
    form.size = SizeChoice::Aspect(9, 16);
    bench.drop_as("Start image", "wide.png");
    let field = bench.node(Role::ComboBox, "Size").value();
    assert_eq!(field.as_deref(), Some("Like the image  352 × 192"));
    let request = bench.request();
    assert_eq!((request.width, request.height), (352, 192));
}

#[test]
fn dropped_video_is_extended_and_shows_its_last_frame() {
    let mut bench = pair();
    let path = bench.drop_video("boat.mp4", 64, 32, 5, "Last frame of boat.mp4");
    bench.assert_shows("Continue this video|5 frames, 0.5 s at 10 fps");
    // 16 new frames behind the 5 that there are.
    bench.assert_shows("1.6 s more, 2.1 s in all at 10 frames a second");
    let request = bench.request();
    assert_eq!((request.extend, request.image), (Some(path), None));
    assert_eq!(request.fps, 10.0);
    bench.press("Remove video");
    bench.assert_hides("boat.mp4");
    bench.assert_shows("2.1 s at 8 frames a second");
}

#[test]
fn video_dropped_as_end_image_becomes_the_start_video() {
    let mut bench = pair();
    let video = bench.video_file("boat.mp4", 64, 32, 5);
    bench.drop_onto("Choose an end image", &video, "Last frame of boat.mp4");
    bench.assert_shows("Boat.mp4 is a video: it is extended");
    assert!(bench.is_disabled("Swap images"));
}

#[test]
fn a_finished_video_is_continued_from_its_file_or_without_one_from_its_last_frame() {
    let (mut bench, sent) = Bench::at_work();
    let mut made = output(&sent, 5);
    let path = bench.video_file("made.mp4", 64, 64, 5);
    made.paths = vec![path.clone()];
    bench.say_end(sent.id, JobOutcome::Finished(made));
    bench.press_more_until("Extend video", "Last frame of made.mp4");
    assert_eq!(bench.request().extend, Some(path));

    let mut bench = Bench::new();
    bench.make_video(5);
    bench.press_more_until("Extend video", "Start image last-frame");
    let request = bench.request();
    assert!(request.image.unwrap().is_file() && request.extend.is_none());
}

#[test]
fn a_model_for_text_alone_cannot_continue_a_video() {
    let mut bench = Bench::of(ModelSpec {
        variant: "text".into(),
        start_image: InputUse::No,
        ..spec()
    });
    bench.assert_hides("Start image");
    bench.make_video(5);
    bench.press("More");
    assert!(bench.is_disabled("Extend video"));
}

#[test]
fn an_earlier_videos_images_and_size_come_back_with_its_settings() {
    let mut bench = pair();
    let first = bench.drop_as("Start image", "first.png");
    let last = bench.drop_as("End image", "last.png");
    bench.set_size(128, 96);
    bench.make_video(5);
    bench.press("Remove end image");
    bench.press("Remove start image");
    bench.press_more_until("Use settings", "Start image first.png|End image last.png");
    let request = bench.request();
    assert_eq!(request.image, Some(first));
    assert_eq!(request.last_image, Some(last));
    assert_eq!((request.width, request.height), (128, 96));
}

#[test]
fn files_that_come_before_the_models_are_known_wait_for_them() {
    let mut bench = Bench::with(|startup| {
        startup.library.load = Arc::new(|_| found(vec![pair_spec()]));
    });
    bench.app().cx.models.are_loading = true;
    let paths = ["first.png", "last.png"].map(|name| bench.image_file(name, 64, 64));
    bench.drop_files(&[&paths[0], &paths[1]]);
    bench.push(LibraryCommand::Reload);
    bench.wait_for("Start image first.png|End image last.png");
}

#[test]
fn nothing_is_made_without_an_image_that_is_still_being_opened() {
    let mut bench = Bench::new();
    let app = bench.app();
    let place = app.inputs.expect(&app.cx);
    bench.press("Generate");
    bench.assert_no_job();
    let word = &bench.app().cx.last_word;
    assert_eq!(word, "The image is still being opened");
    drop(place);
    bench.press("Generate");
    bench.next_job();
}
