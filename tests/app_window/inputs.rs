//! Start and end pictures and clips to go on from: where they go, and what is said of them.

use crate::app_window::prelude::*;

fn pair() -> Bench {
    Bench::of(pair_spec())
}

/// Drops a picture and waits until it is shown as this.
fn drop_picture(bench: &mut Bench, name: &str, shown_as: &str) -> std::path::PathBuf {
    let path = bench.picture_file(name, 640, 320);
    bench.drop_file(&path);
    let label = format!("{shown_as} {name}");
    bench.wait_for(&label);
    path
}

#[test]
fn a_model_with_one_place_shows_no_end_picture() {
    let bench = Bench::new();
    bench.assert_shows("Start picture");
    assert!(!bench.has("End picture"));
}

#[test]
fn a_needed_picture_is_marked_and_explained_and_nothing_is_sent_without_it() {
    let mut bench = pair();
    bench.labelled("needed");
    bench.assert_shows("Pair needs a start picture");
    assert!(bench.is_disabled("Generate"));
    let path = drop_picture(&mut bench, "boat.png", "Start picture");
    assert!(!bench.has("needed"));
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!((request.image, request.last_image), (Some(path), None));
}

#[test]
fn a_second_picture_becomes_the_end_and_both_can_be_swapped_and_removed() {
    let mut bench = pair();
    let first = drop_picture(&mut bench, "first.png", "Start picture");
    let last = drop_picture(&mut bench, "last.png", "End picture");
    bench.press("Swap pictures");
    bench.assert_shows("Start picture last.png");
    bench.assert_shows("End picture first.png");
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!(
        (request.image, request.last_image),
        (Some(last), Some(first))
    );
    bench.press("Remove end picture");
    assert!(!bench.has("first.png"));
    bench.press("Remove start picture");
    assert!(!bench.has("last.png"));
    for name in ["Choose a start picture", "Choose an end picture"] {
        bench.node(Role::Button, name);
    }
}

#[test]
fn a_file_dropped_onto_a_place_goes_there() {
    let mut bench = pair();
    for (place, name, shown_as) in [
        ("Choose an end picture", "last.png", "End picture"),
        ("Choose a start picture", "first.png", "Start picture"),
    ] {
        let rect = bench.node(Role::Button, place).rect();
        bench.harness.hover_at(rect.center());
        bench.settle();
        drop_picture(&mut bench, name, shown_as);
    }
    bench.press("Generate");
    let request = bench.next_job().request;
    assert!(request.image.unwrap().ends_with("first.png"));
    assert!(request.last_image.unwrap().ends_with("last.png"));
}

#[test]
fn two_files_dropped_together_become_start_and_end() {
    let mut bench = pair();
    let first = bench.picture_file("first.png", 64, 64);
    let last = bench.picture_file("last.png", 64, 64);
    bench.drop_files(&[&first, &last]);
    bench.wait_for_all(&["Start picture first.png", "End picture last.png"]);
    assert!(bench.app().cx.notices.all().is_empty());
}

#[test]
fn of_more_files_than_places_the_first_can_go_into_the_form() {
    let mut bench = Bench::new();
    let paths = ["a.png", "b.png", "c.png"].map(|name| bench.picture_file(name, 64, 64));
    bench.drop_files(&[&paths[0], &paths[1], &paths[2]]);
    bench.wait_for("files at once");
    bench.press("Put only the first into the form");
    bench.wait_for("Start picture a.png");
    bench.assert_shows("Only one of 3 files is used: a.png");
    let mut bench = pair();
    bench.drop_files(&[&paths[0], &paths[1], &paths[2]]);
    bench.wait_for("files at once");
    bench.press("Put the first two into the form");
    bench.wait_for("End picture b.png");
    bench.assert_shows("Not all of 3 files are used, only these: a.png, b.png");
}

#[test]
fn a_file_that_is_no_picture_does_not_take_a_place_from_those_behind_it() {
    let mut bench = pair();
    let text = bench.home.path().join("notes.txt");
    std::fs::write(&text, "just text").unwrap();
    let first = bench.picture_file("first.png", 64, 64);
    let last = bench.picture_file("last.png", 64, 64);
    bench.drop_files(&[&text, &first, &last]);
    bench.wait_for("files at once");
    bench.press("Put the first two into the form");
    bench.wait_for_all(&["Start picture first.png", "End picture last.png"]);
    bench.assert_shows("is a text file");
}

#[test]
fn the_words_over_the_window_say_where_held_files_will_go() {
    let mut bench = pair();
    // Window systems tell of a file again whenever it moves.
    bench.hold_files(&["a.png", "a.png"]);
    bench.assert_shows("Drop it to start the clip from this picture");
    bench.hold_files(&["a.mp4"]);
    bench.assert_shows("Drop it to extend this clip");
    bench.hold_files(&["a.png", "b.png"]);
    bench.assert_shows("starts from the first and ends on the second");
    bench.hold_files(&["a.png", "b.png", "c.png"]);
    bench.assert_shows("Drop to queue one job per file");
    bench.hold_files(&[""; 0]);
    drop_picture(&mut bench, "a.png", "Start picture");
    bench.hold_files(&["b.png"]);
    bench.assert_shows("Drop it to end the clip on this picture");
}

#[test]
fn a_dropped_picture_picks_the_size_of_its_aspect() {
    let mut bench = pair();
    let form = bench.form();
    form.size = SizeChoice::Aspect(9, 16);
    drop_picture(&mut bench, "wide.png", "Start picture");
    let field = bench.node(Role::ComboBox, "Size");
    assert_eq!(
        field.value().as_deref(),
        Some("Like the picture  352 × 192")
    );
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!((request.width, request.height), (352, 192));
}

#[test]
fn a_dropped_clip_is_gone_on_from_with_its_last_frame_shown() {
    let mut bench = pair();
    let path = bench.drop_clip("boat.mp4", 64, 32, 5, "Last frame of boat.mp4");
    bench.assert_shows("Continue this clip");
    bench.assert_shows("5 frames, 0.5 s at 10 fps");
    // 16 new frames behind the 5 that there are.
    bench.assert_shows("1.6 s more, 2.1 s in all at 10 frames a second");
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!((request.extend, request.image), (Some(path), None));
    assert_eq!(request.fps, 10.0);
    bench.press("Remove clip");
    assert!(!bench.has("boat.mp4"));
    bench.assert_shows("2.1 s at 8 frames a second");
}

#[test]
fn a_clip_cannot_be_an_end_and_stands_at_the_start_instead() {
    let mut bench = pair();
    let rect = bench.node(Role::Button, "Choose an end picture").rect();
    bench.harness.hover_at(rect.center());
    bench.settle();
    bench.drop_clip("boat.mp4", 64, 32, 5, "Last frame of boat.mp4");
    bench.assert_shows("Boat.mp4 is a clip: it is extended");
    let swap = bench.node(Role::Button, "Swap pictures");
    assert!(swap.accesskit_node().is_disabled());
}

#[test]
fn a_finished_clip_is_continued_from_its_file() {
    let mut bench = Bench::new();
    let sent = bench.start_job();
    let mut made = output(&sent, 5);
    let path = bench.clip_file("made.mp4", 64, 64, 5);
    made.paths = vec![path.clone()];
    bench.say(
        sent.id,
        safelight_core::job::JobUpdate::Ended(JobOutcome::Finished(made)),
    );
    bench.press_more("Extend clip");
    bench.wait_for("Last frame of made.mp4");
    bench.press("Generate");
    assert_eq!(bench.next_job().request.extend, Some(path));
}

#[test]
fn a_finished_clip_whose_file_is_gone_is_continued_from_its_last_frame() {
    let mut bench = Bench::new();
    let sent = bench.start_job();
    bench.finish_job(&sent, 5);
    bench.press_more("Extend clip");
    bench.wait_for("Start picture last-frame");
    bench.press("Generate");
    let request = bench.next_job().request;
    assert!(request.image.unwrap().is_file() && request.extend.is_none());
}

#[test]
fn a_model_for_text_alone_cannot_continue_a_clip() {
    let mut bench = Bench::of(ModelSpec {
        variant: "text".into(),
        start_image: InputUse::No,
        ..spec()
    });
    assert!(!bench.has("Start picture"));
    let sent = bench.start_job();
    bench.finish_job(&sent, 5);
    bench.press("More");
    assert!(bench.is_disabled("Extend clip"));
}

#[test]
fn an_earlier_clips_pictures_and_size_come_back_with_its_settings() {
    let mut bench = pair();
    let first = drop_picture(&mut bench, "first.png", "Start picture");
    let last = drop_picture(&mut bench, "last.png", "End picture");
    let form = bench.form();
    (form.size, form.width, form.height) = (SizeChoice::Custom, Some(128), Some(96));
    let sent = bench.start_job();
    bench.finish_job(&sent, 5);
    bench.press("Remove end picture");
    bench.press("Remove start picture");
    bench.press_more("Use settings");
    bench.wait_for_all(&["Start picture first.png", "End picture last.png"]);
    bench.press("Generate");
    let request = bench.next_job().request;
    assert_eq!(
        (request.image, request.last_image),
        (Some(first), Some(last))
    );
    assert_eq!((request.width, request.height), (128, 96));
}

#[test]
fn files_that_come_before_the_models_are_known_wait_for_them() {
    let mut bench = Bench::with(|startup| {
        startup.library.load = Arc::new(|_| FoundModels {
            specs: vec![pair_spec()],
            ..FoundModels::default()
        });
    });
    bench.app().cx.models.are_loading = true;
    let paths = ["first.png", "last.png"].map(|name| bench.picture_file(name, 64, 64));
    bench.drop_files(&[&paths[0], &paths[1]]);
    bench.push(LibraryCommand::Reload);
    bench.wait_for_all(&["Start picture first.png", "End picture last.png"]);
}

#[test]
fn nothing_is_made_without_a_picture_that_is_still_being_opened() {
    let mut bench = Bench::new();
    let app = bench.app();
    let place = app.inputs.expect(&app.cx);
    bench.press("Generate");
    bench.assert_no_job();
    assert_eq!(
        bench.app().cx.last_word,
        "The picture is still being opened"
    );
    drop(place);
    bench.press("Generate");
    bench.next_job();
}
