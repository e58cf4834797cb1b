//! The viewer and the strip: one row and a menu, full screen, deleting, what a new video does, and dragging results.

use egui::{Event, MouseWheelUnit, ViewportCommand, vec2};
use safelight::window::create::choices::CompareMode;
use safelight::window::viewer::zoom::ZoomLevel;

use crate::app_window::prelude::*;

/// A bench with so many finished videos of three frames and more, whose files are there.
fn finished(count: u8) -> (Bench, Vec<SentJob>) {
    let mut bench = Bench::new();
    let sent = (0..count)
        .map(|index| {
            bench.form().prompt = format!("video {index}");
            let job = bench.start_job();
            write_made(&job.request.out, [64, 64], 3 + index, 10.0, None);
            bench.finish_job(&job, 3 + index);
            job
        })
        .collect();
    (bench, sent)
}

fn fullscreen_commands(bench: &Bench) -> Vec<bool> {
    let of = |command: &ViewportCommand| match command {
        ViewportCommand::Fullscreen(is_on) => Some(*is_on),
        _ => None,
    };
    bench.viewport_commands().iter().filter_map(of).collect()
}

fn key(bench: &mut Bench, key: Key) -> Vec<bool> {
    let mut told = Vec::new();
    for pressed in [true, false] {
        let event = key_event(key, Modifiers::NONE, pressed);
        bench.harness.event(event);
        bench.harness.step();
        told.extend(fullscreen_commands(bench));
    }
    bench.harness.step();
    told
}

#[test]
fn caption_shows_the_actual_and_not_the_requested_frame_count() {
    let (mut bench, sent) = Bench::at_work();
    assert_eq!(sent.request.num_frames, 17);
    // As a video that is extended.
    bench.finish_job(&sent, 25);
    bench.press_until("Pause", "25 frames|/ 25");
    bench.assert_hides("17 frames  ·");
}

#[test]
fn a_result_is_dragged_from_the_strip_onto_the_start_image() {
    let (mut bench, sent) = finished(1);
    bench.press("Pause");
    let thumb = bench.labelled("Result 1: video 0").rect().center();
    let place = bench.rect(Role::Button, "Choose a start image");
    bench.drag_and_drop(thumb, place.center());
    bench.until_video();
    let start = bench.app().inputs.get(InputSlot::Start).unwrap();
    assert_eq!(start.source.path(), sent[0].request.out);
}

#[test]
fn below_a_video_stand_one_row_of_buttons_and_one_line() {
    let (mut bench, _) = finished(1);
    bench.press("Pause");
    for size in [vec2(1240.0, 820.0), vec2(900.0, 600.0)] {
        bench.resize(size);
        let image = bench.labelled("Finished video").rect();
        let row = bench.labelled("More").rect();
        let others = ["Play", "Next frame", "Position", "Full screen"];
        for name in others {
            let button = bench.labelled(name).rect();
            let is_beside = (button.center().y - row.center().y).abs() < 4.0;
            assert!(is_beside, "{name} at {size}: {button:?}, {row:?}");
        }
        let strip = bench.labelled("Result 1: video 0").rect();
        assert!(row.top() >= image.bottom());
        let below = strip.top() - row.bottom();
        assert!(below < 64.0, "{below} at {size}");
    }
}

#[test]
fn full_screen_shows_the_image_alone_and_its_bar_fades() {
    let (mut bench, _) = finished(1);
    bench.press("Pause");
    assert_eq!(key(&mut bench, Key::F11), [true]);
    assert!(!bench.has_label("Generate"));
    let image = bench.labelled("Finished video").rect();
    let window = bench.harness.ctx.content_rect();
    assert!(image.contains_rect(window.shrink(1.0)), "{image:?}");
    bench.node(Role::Button, "Play");
    bench.wait_until_gone("Leave full screen");
    bench.until_at_rest();
    bench.harness.hover_at(window.center());
    bench.wait_for("Leave full screen");
    // It stays for whoever rests on it.
    let button = bench.labelled("Leave full screen").rect();
    bench.harness.hover_at(button.center());
    bench.harness.run_steps(30);
    bench.assert_shows("Leave full screen");
    assert_eq!(key(&mut bench, Key::Escape), [false]);
    bench.assert_shows("Generate");
    assert_eq!(key(&mut bench, Key::F), [true]);
    bench.harness.hover_at(window.center());
    bench.settle();
    bench.press_until("Leave full screen", "Generate");
}

#[test]
fn full_screen_from_another_page_shows_the_image_and_a_page_ends_it() {
    let (mut bench, _) = finished(1);
    bench.press("Gallery");
    assert_eq!(key(&mut bench, Key::F11), [true]);
    bench.labelled("Finished video");
    bench.press_keys(Modifiers::COMMAND, Key::Num2);
    assert_eq!(bench.app().cx.page, MainPage::Gallery);
    assert!(!bench.app().watch.is_full);
    // Without an image there is none to show.
    let mut bench = Bench::new();
    assert_eq!(key(&mut bench, Key::F11), [] as [bool; 0]);
    bench.assert_shows("Generate");
}

#[test]
fn full_screen_shows_a_comparison_with_both_its_rows_of_buttons() {
    let (mut bench, sent) = finished(2);
    bench.run(PlayerCommand::CompareWith(sent[0].id));
    assert_eq!(key(&mut bench, Key::F11), [true]);
    assert!(!bench.has_label("Generate"));
    let window = bench.harness.ctx.content_rect();
    bench.harness.hover_at(window.center());
    bench.wait_for("Leave full screen");
    bench.settle();
    let place = |bench: &Bench, name: &str| {
        let rect = bench.labelled(name).rect();
        assert!(window.contains_rect(rect), "{name} at {rect:?}");
        rect
    };
    // Those of every video, and below them those of a comparison.
    let player = place(&bench, "Next frame");
    for name in ["Wipe", "Difference", "Swap A and B", "Close"] {
        assert!(place(&bench, name).top() >= player.bottom(), "{name}");
    }
    bench.press("Wipe");
    let mode = bench.app().watch.compare.as_ref().map(|it| it.mode);
    assert_eq!(mode, Some(CompareMode::Wipe));
    bench.until("the bar has faded", |bench| {
        bench.harness.remove_cursor();
        !bench.has("Leave full screen")
    });
    assert_eq!(key(&mut bench, Key::Escape), [false]);
    assert_eq!(bench.app().watch.mode, ViewerMode::Compare);
}

#[test]
fn viewer_and_strip_have_the_menu_of_the_gallery() {
    let (mut bench, sent) = finished(2);
    bench.press("Pause");
    for place in ["Finished video", "Result 1: video 0"] {
        bench.click_secondary(place);
        for name in "Use settings|Extend video|Favourite|Open folder|Copy path|Delete".split('|') {
            bench.node(Role::Button, name);
        }
        if place == "Finished video" {
            bench.press_key(Key::Escape);
        }
    }
    bench.press("Use settings");
    assert_eq!(bench.form().prompt, "video 0");
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[1].id));
    bench.click_secondary("Result 1: video 0");
    bench.press("Compare with what is shown");
    assert_eq!(bench.app().watch.mode, ViewerMode::Compare);
}

#[test]
fn delete_moves_the_shown_result_to_the_trash_and_undo_restores_it() {
    let (mut bench, sent) = finished(3);
    let path = |index: usize| sent[index].request.out.clone();
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[2].id));
    bench.harness.key_press(Key::Delete);
    bench.wait_until_gone("Result 3");
    assert!(!path(2).exists() && path(1).exists());
    // The one beside it is looked at.
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[1].id));
    bench.press_until("Undo", "Result 3: video 2");
    assert!(path(2).exists());
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[2].id));
    // One of the strip, while another one is looked at.
    bench.click_secondary("Result 1: video 0");
    bench.press_until("Delete", "Result 1: video 1");
    assert!(!path(0).exists());
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(sent[2].id));
    for _ in 0..2 {
        bench.push(PlayerCommand::Delete);
        bench.until("it is done", |bench| {
            let is_done = bench.app().watch.mode != ViewerMode::Result(sent[2].id);
            is_done && !path(2).exists()
        });
    }
    bench.wait_until_gone("Result 1");
    assert!(!bench.has("More") && bench.app().queue.results.is_empty());
}

#[test]
fn a_file_that_plays_is_deleted_and_plays_again_after_undo() {
    let (mut bench, _) = finished(1);
    let path = bench.home.path().join("videos/walk.mp4");
    write_made(&path, [48, 32], 12, 10.0, None);
    bench.push(PlayerCommand::PlayFile(path.clone()));
    bench.wait_for("The file walk.mp4");
    bench.harness.key_press(Key::Delete);
    bench.until("it has gone", |bench| {
        !path.exists() && bench.app().watch.mode != ViewerMode::File
    });
    bench.press("Undo");
    bench.until("it plays again", |bench| {
        bench.app().watch.mode == ViewerMode::File && bench.has("The file walk.mp4")
    });
    assert!(path.exists());
    bench.wait_for("12 frames");
}

#[test]
fn a_held_delete_key_throws_one_result_away() {
    let (mut bench, sent) = finished(2);
    let hold = |bench: &mut Bench, is_held: bool| {
        let mut event = key_event(Key::Delete, Modifiers::NONE, true);
        if let Event::Key { repeat, .. } = &mut event {
            *repeat = is_held;
        }
        bench.harness.event(event);
        bench.harness.step();
    };
    hold(&mut bench, false);
    (0..20).for_each(|_| hold(&mut bench, true));
    bench.wait_until_gone("Result 2");
    (0..20).for_each(|_| hold(&mut bench, true));
    assert!(sent[0].request.out.exists());
}

#[test]
fn a_new_video_plays_once_while_the_next_job_runs() {
    let (mut bench, _) = finished(1);
    let first = bench.start_job();
    bench.press_generate();
    assert_eq!(bench.app().watch.mode, ViewerMode::Live);
    let made = output(&first, 6);
    bench.send(first.id, JobUpdate::Ended(JobOutcome::Finished(made)));
    let mut shown_at = None;
    bench.until_later("the video is shown, and then the running job", |bench| {
        let now = bench.harness.ctx.input(|input| input.time);
        let watch = &bench.app().watch;
        if watch.mode == ViewerMode::Result(first.id)
            && watch.player.as_ref().unwrap().playhead.is_playing()
        {
            shown_at.get_or_insert(now);
        }
        // Its six frames at eight a second are seen, however long the next job takes to begin.
        let is_over = shown_at.is_some() && watch.mode == ViewerMode::Live;
        assert!(!is_over || now >= shown_at.unwrap() + 0.75);
        is_over
    });
    let second = bench.next_job();
    // Whoever does something with it goes on looking at it, also where the next job has not begun yet.
    let (go_on, held) = crossbeam_channel::bounded::<()>(0);
    let before = bench.app().cx.background.on_files(move || held.recv().ok());
    assert!(before.is_busy());
    bench.press_generate();
    bench.finish_job(&second, 5);
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(second.id));
    bench.press_key(Key::ArrowRight);
    drop(go_on);
    let third = bench.next_job();
    bench.harness.run_steps(40);
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(second.id));
    bench.finish_job(&third, 4);
    assert_eq!(bench.app().watch.mode, ViewerMode::Result(second.id));
}

#[test]
fn an_image_of_the_form_that_is_still_being_opened_makes_room_for_the_job_that_begins() {
    let (mut bench, _) = finished(1);
    bench.push(QueueCommand::PauseAll);
    bench.press_generate();
    let image = bench.image_file("start.png", 64, 48);
    bench.push(PlayerCommand::ShowInput(image));
    bench.push(QueueCommand::GoOn);
    bench.harness.step();
    let app = bench.app();
    assert!(!app.queue.running.is_empty());
    assert_eq!(app.watch.opening(), None);
    assert_eq!(app.watch.mode, ViewerMode::Live);
}

#[test]
fn both_halves_of_a_comparison_zoom_in_the_same_frame() {
    let (mut bench, sent) = finished(2);
    bench.run(PlayerCommand::CompareWith(sent[0].id));
    bench.press_key(Key::Space);
    let widths = |bench: &mut Bench| {
        let compare = bench.app().watch.compare.as_ref().unwrap();
        let sides = compare.sides.each_ref();
        let ids = sides.map(|side| side.texture.handle().unwrap().0.id());
        let shapes = &bench.harness.output().shapes;
        ids.map(|id| {
            let of = |shape: &&egui::epaint::ClippedShape| shape.shape.texture_id() == id;
            let shape = shapes.iter().find(of).expect("it is drawn");
            shape.shape.visual_bounding_rect().width()
        })
    };
    let [before, _] = widths(&mut bench);
    let left = bench.harness.get_by_label_contains("A: ").rect();
    bench.harness.hover_at(left.center());
    for _ in 0..6 {
        bench.turn_wheel(MouseWheelUnit::Point, 40.0);
        let [a, b] = widths(&mut bench);
        assert!((a - b).abs() < 0.01, "{a} and {b}");
    }
    let [after, _] = widths(&mut bench);
    assert!(after > before * 1.2, "{before} to {after}");
    assert_ne!(bench.app().watch.zoom, ZoomLevel::Fit);
}
