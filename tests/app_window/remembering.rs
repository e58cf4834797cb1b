//! What the window remembers: it outlives a close and a crash.

use safelight::window::create::choices::SlotTarget;
use safelight_core::job::ControlBy;

use crate::app_window::mask::{CANVAS, paint, set_brush};
use crate::app_window::prelude::*;

#[test]
fn prompt_is_restored_after_a_close_and_after_a_crash() {
    let mut bench = Bench::new();
    bench.write_prompt("a red boat");
    let mut bench = bench.reopened();
    assert_eq!(bench.form().prompt, "a red boat");
    bench.write_prompt(" at sea");
    // It is on the disk a moment later, whatever happens then.
    let path = bench.paths().state_file();
    bench.until("it is written", |_| {
        fs::read_to_string(&path).is_ok_and(|text| text.contains("at sea"))
    });
    let written = bench.form().prompt.clone();
    let mut bench = bench.restarted();
    assert_eq!(bench.form().prompt, written);
}

/// A model of images with every kind of input.
fn every_input_spec() -> ModelSpec {
    let mut spec = flux_spec();
    (spec.id, spec.name) = ("every-input".into(), "Every input".into());
    spec.limits.max_references = 2;
    let controls = &mut spec.limits.controls;
    (controls.by, controls.most) = (ControlBy::Layers, 1);
    (controls.takes_videos, controls.takes_masks) = (true, true);
    spec
}

fn opened_again(home: tempfile::TempDir) -> Bench {
    Bench::in_home(home, |startup| {
        startup.models = Some(found(vec![every_input_spec(), flux_spec()]));
    })
}

#[test]
fn images_masks_and_videos_of_the_form_are_there_again_after_a_close_and_after_a_crash() {
    let mut bench = Bench::of(every_input_spec());
    let inputs = [
        (InputSlot::Start, bench.image_file("photo.png", 64, 48)),
        (InputSlot::Mask, bench.image_file("mask.png", 64, 48)),
        (InputSlot::Reference, bench.image_file("coat.png", 64, 48)),
        (InputSlot::Reference, bench.image_file("park.png", 64, 48)),
        (InputSlot::Control, bench.video_file("walk.mp4", 64, 48, 5)),
    ];
    for (slot, path) in &inputs {
        let placing = SlotTarget::onto(Some(*slot));
        bench.run(InputsCommand::OpenHere(vec![path.clone()], placing));
    }
    let expected: Vec<&PathBuf> = inputs.iter().map(|(_, path)| path).collect();
    let are_all_there = |bench: &mut Bench| {
        let inputs = &bench.app().inputs;
        let placed = inputs.all().map(|input| input.source.path());
        placed.eq(expected.iter().copied())
    };
    bench.until("all are open", are_all_there);
    let before = bench.app().inputs.saved();

    let mut bench = opened_again(bench.close());
    bench.until("all came back", are_all_there);
    assert_eq!(bench.app().inputs.saved(), before);
    // It crashes while they are opened, and then is closed: they are not forgotten.
    let bench = opened_again(bench.die());
    let mut bench = opened_again(bench.close());
    bench.until("all came back", are_all_there);
}

#[test]
fn a_painted_mask_is_saved_while_it_is_painted_and_survives_a_crash() {
    let mut bench = crate::app_window::mask::bench_of(flux_spec(), 400, 300);
    set_brush(&mut bench, 20.0);
    paint(&mut bench, egui::Vec2::new(400.0, 300.0), 100.0, 100.0);
    bench.until_later("the mask is saved", |bench| {
        bench.app().inputs.get(InputSlot::Mask).is_some()
    });
    assert!(bench.has(CANVAS), "painting goes on");
    let state = bench.paths().state_file();
    bench.until_later("it is written", |_| {
        fs::read_to_string(&state).is_ok_and(|text| text.contains("photo-mask-"))
    });
    let mut bench = opened_again(bench.die());
    bench.until_input(InputSlot::Mask);
    let mask = bench.request().mask.expect("the painted one");
    let mask = safelight_core::media::open_rgb(&mask).expect("it is an image");
    assert_eq!(mask.pixel(100, 100), [255; 3]);
}

#[test]
fn the_strip_of_results_is_there_again() {
    let mut bench = Bench::of(flux_spec());
    let sent = bench.start_job();
    fs::create_dir_all(sent.request.out.parent().unwrap()).unwrap();
    image::RgbImage::new(64, 64)
        .save(&sent.request.out)
        .unwrap();
    bench.finish_job(&sent, 1);
    let name = format!("Result 1: {}", sent.request.prompt);
    bench.assert_shows(&name);
    let mut bench = opened_again(bench.close());
    bench.wait_for(&name);
    bench.press(&name);
    let ViewerMode::Result(_) = bench.app().watch.mode else {
        panic!("it is shown");
    };
    // One whose file is gone does not come back.
    fs::remove_file(&sent.request.out).unwrap();
    let mut bench = bench.reopened();
    bench.until("the strip is read", |bench| {
        bench.app().queue.saved_results().is_empty()
    });
    assert!(!bench.has(&name));
}
