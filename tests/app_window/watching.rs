//! Watching: files from disk, two results beside each other, saved frames, zoom, and what stays while a job runs.

use safelight::window::create::choices::CompareMode;
use safelight::window::viewer::zoom::ZoomLevel;
use safelight::window::viewer::{PlaybackOptions, RepeatMode};
use safelight_core::media::{open_rgb, read_settings};

use crate::app_window::prelude::*;

fn finished(count: usize) -> (Bench, Vec<SentJob>) {
    let mut bench = Bench::of(experts_spec());
    let mut sent = Vec::new();
    for index in 0..count {
        bench.form().prompt = format!("video {index}");
        bench.form().seed = 100 + index as u64;
        bench.form().seed_mode = SeedMode::Fixed;
        sent.push(bench.make_video(3 + index as u8));
    }
    (bench, sent)
}

fn play(bench: &mut Bench, name: &str, num_frames: u8) -> PathBuf {
    let path = bench.video_file(name, 48, 32, num_frames);
    bench.run(PlayerCommand::PlayFile(path.clone()));
    bench.until_file(&path);
    path
}

#[test]
fn a_file_from_disk_plays_with_the_same_buttons_as_a_result() {
    let mut bench = Bench::new();
    let path = play(&mut bench, "walk.mp4", 12);
    bench.labelled("The file walk.mp4");
    bench.assert_shows("48 × 32  ·  12 frames  ·  walk.mp4");
    bench.press_until("More", "Open folder|Use settings|Export");
    bench.press_key(Key::Escape);
    bench.press("Pause");
    bench.press_key(Key::End);
    bench.assert_shows("12 / 12");
    bench.press_key(Key::Home);
    bench.assert_shows("1 / 12");
    bench.press("More");
    let copied = bench.copied_by_label("Copy path");
    assert_eq!(copied, Some(path.display().to_string()));
    // Paused, nothing wakes the window, and the thread reads nothing any more.
    bench.until_at_rest();
}

#[test]
fn a_file_that_is_no_image_and_no_video_is_a_card_and_takes_no_place() {
    let (mut bench, sent) = finished(1);
    let path = bench.text_file("notes.txt", "just words");
    bench.run(PlayerCommand::PlayFile(path));
    bench.wait_for("is a text file");
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[0].id));
    bench.run(PlayerCommand::PlayFile("/nowhere/at/all.mp4".into()));
    bench.wait_for("does not exist");
}

#[test]
fn last_of_two_opened_files_is_shown() {
    let mut bench = Bench::new();
    let first = bench.video_file("first.mp4", 48, 32, 5);
    let last = bench.video_file("last.mp4", 48, 32, 6);
    bench.push(PlayerCommand::PlayFile(first));
    bench.harness.step();
    bench.run(PlayerCommand::PlayFile(last));
    bench.wait_for("The file last.mp4");
    bench.harness.run_steps(20);
    bench.assert_shows("The file last.mp4");
}

#[test]
fn compared_results_play_in_step_and_their_differences_are_listed() {
    let (mut bench, sent) = finished(2);
    bench.run(PlayerCommand::CompareWith(sent[0].id));
    assert_eq!(bench.app().watch.mode, ViewerMode::Compare);
    bench.assert_shows("seed 101|prompt “video 0”");
    let compare = bench.app().watch.compare.as_ref().unwrap();
    assert_eq!(compare.playhead.len(), 4);
    assert!(compare.sides.iter().all(|it| it.texture.handle().is_some()));
    bench.press("Wipe");
    let divider = bench.node(Role::Slider, "Divider");
    divider.set_value_accesskit(0.25);
    bench.settle();
    let compare = bench.app().watch.compare.as_ref().unwrap();
    assert_eq!((compare.mode, compare.divider), (CompareMode::Wipe, 0.25));
    bench.press_until("Difference", "Difference of A and B");
    bench.press("Swap A and B");
    let compare = bench.app().watch.compare.as_ref().unwrap();
    assert!(compare.differences[0].contains("seed 100"));
    bench.press_key(Key::Escape);
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[1].id));
}

#[test]
fn results_are_compared_from_the_menu_and_with_ctrl_in_the_strip_where_a_click_shows() {
    let (mut bench, sent) = finished(2);
    bench.press_more("Compare with");
    bench.press("1: video 0, seed 100");
    assert_eq!(bench.app().watch.mode, ViewerMode::Compare);
    bench.press("Close");
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[1].id));
    let first = bench.labelled("Result 1: video 0");
    first.click_modifiers(Modifiers::COMMAND);
    bench.settle();
    assert_eq!(bench.app().watch.mode, ViewerMode::Compare);
    bench.press("Result 1: video 0");
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[0].id));
    assert!(bench.app().watch.compare.is_none());
}

#[test]
fn the_images_of_a_batch_from_disk_are_looked_at_one_by_one() {
    let mut bench = Bench::new();
    let paths: Vec<PathBuf> = (1..=3)
        .map(|number| bench.home.path().join(format!("cat_000{number}.png")))
        .collect();
    let settings = serde_json::json!({"seed": 1, "prompt": "a cat", "num_frames": 1});
    for path in &paths {
        write_made(path, [20, 10], 1, 8.0, Some(made_with(&settings)));
    }
    bench.run(PlayerCommand::PlayFile(paths[1].clone()));
    bench.wait_for("image 2 of 3");
    bench.press_until("Next image", "image 3 of 3|cat_0003.png");
    bench.press_key(Key::ArrowRight);
    bench.assert_shows("image 1 of 3");
}

#[test]
fn two_files_of_other_lengths_and_sizes_are_compared() {
    let mut bench = Bench::new();
    let a = bench.video_file("a.mp4", 48, 32, 5);
    let b = bench.image_file("b.png", 20, 60);
    bench.run(PlayerCommand::CompareFiles(a, b));
    bench.until("both are there", |bench| {
        let compare = bench.app().watch.compare.as_ref();
        let sides = compare.into_iter().flat_map(|compare| &compare.sides);
        sides.filter(|side| side.texture.handle().is_some()).count() == 2
    });
    for name in ["Wipe", "Difference", "Side by side"] {
        bench.press(name);
    }
    bench.assert_shows("settings unknown");
    let missing = bench.home.path().join("gone.png");
    bench.run(PlayerCommand::CompareFiles(missing.clone(), missing));
    bench.wait_for("does not exist");
}

#[test]
fn saved_frame_is_written_next_to_its_video_and_its_name_is_shown() {
    let mut bench = Bench::new();
    let path = play(&mut bench, "walk.webp", 6);
    bench.press("Pause");
    bench.run(PlayerCommand::ShowFrame(3));
    bench.until("the frame is there", |bench| {
        bench.has("4 / 6") && bench.app().watch.player.as_ref().unwrap().exact().is_some()
    });
    bench.press_more("Export");
    bench.press_until("Save this frame", "Frame 4 is saved as walk_frame_0004.png");
    let saved = path.with_file_name("walk_frame_0004.png");
    let shown: RgbPixels = (*bench.app().watch.player.as_ref().unwrap().exact().unwrap()).clone();
    assert_eq!(open_rgb(&saved).unwrap(), shown);
    assert_eq!(read_settings(&saved).unwrap(), None, "the video has none");
}

#[test]
fn the_frame_that_is_shown_starts_the_next_one_or_ends_it() {
    let (mut bench, _) = finished(1);
    bench.press("Pause");
    bench.run(PlayerCommand::ShowFrame(1));
    bench.press_more_until("Use frame as start image", "Start image frame-");
    bench.press_more_until("Use frame as end image", "End image frame-");
    let sent = bench.start_job();
    let start = open_rgb(&sent.request.image.unwrap()).unwrap();
    assert_eq!(start, *image(64, [10, 40, 30]));
    assert!(sent.request.last_image.is_some() && sent.request.extend.is_none());
}

#[test]
fn the_end_of_a_video_and_its_speed_are_chosen_once_for_all() {
    let (mut bench, _) = finished(1);
    // As wide as at the first start: the bar has room for all of it.
    bench.resize(egui::vec2(1240.0, 820.0));
    bench.press_until("At the end: Loop", "At the end: Back and forth");
    bench.press_key(Key::L);
    bench.assert_shows("At the end: Play once");
    bench.until("it has come to its end", |bench| {
        !bench
            .app()
            .watch
            .player
            .as_ref()
            .unwrap()
            .playhead
            .is_playing()
    });
    bench.until_at_rest();
    let playback = PlaybackOptions {
        repeat: RepeatMode::Off,
        speed: 0.25,
    };
    bench.app().watch.playback = playback;
    bench.settle();
    assert_eq!(bench.app().watch.playback, playback);
    bench.assert_shows("0.25×");
}

#[test]
fn an_image_is_zoomed_and_fitted_again() {
    let (mut bench, _) = finished(1);
    // As wide as at the first start: the bar has room for all of it.
    bench.resize(egui::vec2(1240.0, 820.0));
    bench.press("100 %");
    assert_ne!(bench.app().watch.zoom, ZoomLevel::Fit);
    bench.press_key(Key::Num0);
    assert_eq!(bench.app().watch.zoom, ZoomLevel::Fit);
}

#[test]
fn opened_file_stays_in_the_viewer_when_the_next_job_starts() {
    let (mut bench, _) = finished(1);
    let sent = bench.start_job();
    bench.press("Generate");
    let path = play(&mut bench, "walk.mp4", 5);
    bench.finish_job(&sent, 4);
    let next = bench.next_job();
    assert_ne!(next.id, sent.id);
    assert_eq!(bench.app().watch.mode, ViewerMode::File);
    bench.assert_shows(&path.file_name().unwrap().to_string_lossy());
    bench.press("Back to the live preview");
    assert_eq!(bench.app().watch.mode, ViewerMode::Live);
    assert!(bench.app().watch.media().is_none());
}
