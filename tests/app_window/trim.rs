//! Trimming and exporting a video, and its first and last frames as input images.

use safelight_core::media::{RgbPixels, open_rgb, open_video};

use crate::app_window::prelude::*;

/// A window that shows a video of ten frames, each a little brighter.
fn shown(spec: ModelSpec) -> (Bench, PathBuf) {
    let mut bench = Bench::of(spec);
    let path = bench.video_file("boat.webp", 64, 48, 10);
    bench.push(PlayerCommand::PlayFile(path.clone()));
    bench.until_file(&path);
    bench.wait_for("Position");
    bench.press("Pause");
    (bench, path)
}

fn go_to(bench: &mut Bench, index: usize) {
    bench.push(PlayerCommand::ShowFrame(index));
    bench.settle();
}

fn range(bench: &mut Bench) -> (usize, usize) {
    bench.app().watch.trimmed().expect("it plays").range()
}

fn trim(bench: &mut Bench, first: usize, last: usize) {
    go_to(bench, first);
    bench.press_key(Key::I);
    go_to(bench, last);
    bench.press_key(Key::O);
    assert_eq!(range(bench), (first, last));
}

#[test]
fn i_and_o_choose_the_frames_that_repeat() {
    let (mut bench, _) = shown(spec());
    trim(&mut bench, 3, 6);
    bench.press_key(Key::Space);
    let mut seen = Vec::new();
    for _ in 0..40 {
        bench.harness.step();
        let player = bench.app().watch.player.as_ref();
        seen.push(player.expect("it is shown").index());
    }
    // It begins where the key was pressed.
    assert!(seen.iter().all(|index| (3..=6).contains(index)), "{seen:?}");
    assert!((3..=6).all(|index| seen.contains(&index)), "{seen:?}");
    bench.press_more_until("Reset trim", "Position");
    assert_eq!(range(&mut bench), (0, 9));
}

#[test]
fn handles_below_the_position_are_dragged_to_trim() {
    let (mut bench, _) = shown(spec());
    bench.resize(egui::vec2(1280.0, 800.0));
    let middle = bench.labelled("Position").rect().center();
    for (name, by, expected) in [("Trim start", -60.0, 0), ("Trim end", 60.0, 9)] {
        let from = bench.labelled(name).rect().center();
        let to = egui::pos2(middle.x + by, from.y);
        bench.drag_and_drop(from, to);
        bench.settle();
        let (first, last) = range(&mut bench);
        let moved = if by < 0.0 { first } else { last };
        assert!(
            moved != expected && (2..=7).contains(&moved),
            "{name}: {moved}"
        );
    }
    bench.harness.event(egui::Event::PointerGone);
    go_to(&mut bench, 5);
    bench.snapshot("trim");
}

#[test]
fn a_trimmed_video_is_exported_beside_the_original_which_stays() {
    let (mut bench, path) = shown(spec());
    let original = std::fs::read(&path).expect("it is there");
    trim(&mut bench, 3, 6);
    for (format, name) in [
        ("Animated WebP", "boat_0004-0007.webp"),
        ("PNG images", "boat_0004-0007"),
        ("GIF", "boat_0004-0007.gif"),
    ] {
        bench.press("More");
        bench.press_until("Export", format);
        bench.press(format);
        bench.wait_for(&format!("is exported as {name}"));
        let mut file = path.with_file_name(name);
        if file.is_dir() {
            file = file.join("boat_0004-0007_0001.png");
        }
        let frames = open_video(&file).expect("it is a video").frames;
        assert_eq!(frames.len(), 4, "{format}");
        assert!(frames[0].pixel(9, 9)[0].abs_diff(3 * 9) < 9, "{format}");
        bench.app().cx.notices.clear();
        bench.settle();
    }
    assert_eq!(std::fs::read(&path).expect("it is there"), original);
}

#[test]
fn the_first_and_the_last_frame_come_into_the_form_in_one_click() {
    let opened = |bench: &mut Bench, slot| -> RgbPixels {
        bench.until_input(slot);
        let input = bench.app().inputs.get(slot).expect("it was waited for");
        open_rgb(input.source.path()).expect("it is an image")
    };
    let mut spec = spec();
    spec.end_image = InputUse::Optional;
    let (mut bench, _) = shown(spec);
    for (name, slot, index) in [
        ("Last frame as start image", InputSlot::Start, 9),
        ("First frame as end image", InputSlot::End, 0),
    ] {
        bench.press_more("First or last frame");
        bench.press(name);
        let found = opened(&mut bench, slot).pixel(30, 20)[0];
        assert!(found.abs_diff(index * 9) < 6, "{name}: {found}");
        bench.push(PlayerCommand::ShowFrame(4));
        bench.run(InputsCommand::Remove(slot));
    }
}
