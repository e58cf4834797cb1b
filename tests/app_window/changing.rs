//! A video that is made anew instead of continued: with models that go by text alone, and with those that can do both.

use crate::app_window::mask::{CANVAS, paint};
use crate::app_window::prelude::*;

fn with_video(spec: ModelSpec) -> (Bench, PathBuf) {
    let mut bench = Bench::of(spec);
    let path = bench.drop_video("boat.mp4", 64, 32, 5, "Last frame of boat.mp4");
    (bench, path)
}

fn text_spec() -> ModelSpec {
    let mut spec = spec();
    spec.variant = "T2V".into();
    spec.start_image = InputUse::No;
    spec.defaults.sampling.strength = Some(0.8);
    spec
}

#[test]
fn a_model_that_goes_by_text_changes_a_video_that_is_dropped() {
    let (mut bench, path) = with_video(text_spec());
    bench.assert_shows("Change this video|0.5 s at 10 frames a second|9 of 12 steps are run");
    bench.edit(|form| form.sampling.strength = Some(0.5));
    bench.assert_shows("6 of 12 steps are run");
    let request = bench.request();
    assert_eq!((request.source_video, request.extend), (Some(path), None));
    assert_eq!((request.num_frames, request.fps), (5, 10.0));
    assert_eq!(request.sampling.strength, Some(0.5));
    bench.press_until("Remove video", "Video to change");
}

#[test]
fn video_can_be_continued_or_changed_by_a_model_that_supports_both() {
    let mut spec = spec();
    spec.defaults.sampling.strength = Some(0.8);
    let (mut bench, path) = with_video(spec);
    bench.assert_shows("Continue this video");
    bench.assert_hides("steps are run");
    bench.click(Role::ComboBox, "Video");
    bench.press_until("Change it", "Change this video|9 of 12 steps are run");
    let sent = bench.start_job();
    let request = &sent.request;
    assert_eq!(request.source_video.as_ref(), Some(&path));
    assert_eq!(request.extend, None);
    // Its settings bring the video back, and what becomes of it.
    bench.finish_job(&sent, 5);
    bench.press("Remove video");
    bench.form().remakes_video = false;
    bench.press_more_until("Use settings", "Change this video");
    let start = bench.app().inputs.get(InputSlot::Start).unwrap();
    assert_eq!(start.source.path(), path);
}

#[test]
fn a_mask_goes_with_a_video_that_is_changed_is_an_image_or_a_video_and_waits_without_one() {
    let (mut bench, path) = with_video(text_spec());
    let mask = bench.image_file("mask.png", 64, 32);
    bench.drop_onto("Choose a mask", &mask, "Mask mask.png");
    let request = bench.request();
    assert_eq!(request.source_video.as_ref(), Some(&path));
    assert_eq!(request.mask, Some(mask));
    bench.press("Remove mask");
    let mask = bench.video_file("mask.mp4", 64, 32, 5);
    bench.drop_onto("Choose a mask", &mask, "Last frame of mask.mp4");
    assert!(bench.is_disabled("Edit mask"));
    let sent = bench.start_job();
    let request = &sent.request;
    assert_eq!(
        (&request.source_video, &request.mask),
        (&Some(path), &Some(mask))
    );
    // Its settings bring both back.
    bench.finish_job(&sent, 5);
    bench.press("Remove mask");
    bench.press("Remove video");
    bench.press_more_until("Use settings", "Last frame of mask.mp4");
    bench.press("Remove video");
    bench.assert_shows("A mask needs a video to change. The mask is kept.");
}

#[test]
fn mask_painted_on_the_first_frame_applies_to_the_changed_video() {
    let (mut bench, path) = with_video(text_spec());
    bench.press_until("Paint a mask", CANVAS);
    assert!(!bench.has("Extend left"), "it keeps its shape");
    paint(&mut bench, egui::vec2(64.0, 32.0), 8.0, 16.0);
    let request = bench.start_job().request;
    assert_eq!(request.source_video, Some(path));
    let mask = request.mask.expect("it was painted");
    let mask = safelight_core::media::open_rgb(&mask).unwrap();
    assert_eq!((mask.width, mask.height), (64, 32));
    assert_eq!((mask.pixel(8, 16)[0], mask.pixel(60, 16)[0]), (255, 0));
}
