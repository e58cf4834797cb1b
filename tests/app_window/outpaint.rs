//! Extending an image where its mask is painted: edges, numbers, and the files that a job gets.

use egui::{PointerButton, Vec2};
use safelight::window::commands::MaskCommand;
use safelight_core::media::{OutpaintMargins, OutpaintRequest, open_rgb, open_video};

use crate::app_window::controls::{add_control, videos_spec};
use crate::app_window::images::fill_spec;
use crate::app_window::mask::{CANVAS, bench_of, drag, paint, place, set_brush};
use crate::app_window::prelude::*;

const SIZE: Vec2 = Vec2::new(400.0, 304.0);

fn opened(path: Option<&PathBuf>) -> RgbPixels {
    open_rgb(path.expect("the job has one")).expect("it is an image")
}

fn extend(bench: &mut Bench, margins: OutpaintMargins, overlap: u32) {
    let outpaint = OutpaintRequest { margins, overlap };
    bench.run(MaskCommand::Extend(outpaint));
    until_idle(bench);
}

fn until_idle(bench: &mut Bench) {
    bench.until("the image is extended", |bench| {
        let editor = bench.app().masking.editor.as_ref();
        editor.is_some_and(|editor| editor.busy.is_none())
    });
}

fn size(bench: &mut Bench) -> Vec2 {
    let editor = bench.app().masking.editor.as_ref();
    editor.expect("a mask is painted").size()
}

/// Asserts that the image contains the photo unchanged, `left` and `top` pixels from its corner.
fn assert_holds_photo(image: &RgbPixels, left: u32, top: u32) {
    for y in 0..SIZE.y as u32 {
        for x in 0..SIZE.x as u32 {
            let own = [x as u8, y as u8, 90];
            assert_eq!(image.pixel(left + x, top + y), own, "{x}, {y}");
        }
    }
}
fn masking(spec: ModelSpec) -> Bench {
    bench_of(spec, SIZE.x as u32, SIZE.y as u32)
}

fn above() -> OutpaintMargins {
    OutpaintMargins {
        top: 64,
        ..OutpaintMargins::default()
    }
}

#[test]
fn an_edge_that_is_dragged_makes_room_that_the_job_fills() {
    for spec in [flux_spec(), fill_spec()] {
        let fills = spec.image_role != flux_spec().image_role;
        let mut bench = masking(spec);
        let from = place(&bench, SIZE, -4.0, 150.0);
        let to = place(&bench, SIZE, -94.0, 150.0);
        drag(&mut bench, PointerButton::Primary, &[from, to]);
        bench.until("it is extended", |bench| size(bench).x > SIZE.x);
        until_idle(&mut bench);
        // Ninety pixels, and what makes whole multiples.
        assert_eq!(size(&mut bench), SIZE + Vec2::new(96.0, 0.0));
        if !fills {
            bench.harness.event(egui::Event::PointerGone);
            bench.settle();
            bench.snapshot("outpaint");
        }
        bench.press_generate();
        let request = bench.next_job().request;
        assert_eq!((request.width, request.height), (496, 304));
        assert!(request.keeps_unmasked);
        if !fills {
            assert_eq!(request.sampling.strength, Some(1.0));
        }
        assert_holds_photo(&opened(request.image.as_ref()), 96, 0);
        let mask = opened(request.mask.as_ref());
        assert_eq!((mask.width, mask.height), (496, 304));
        let row: Vec<u8> = (0..496).map(|x| mask.pixel(x, 9)[0]).collect();
        assert!(row[..96].iter().all(|value| *value == 255));
        assert!(row[96] > 240 && row[111] > 0 && row[96..112].is_sorted_by(|a, b| a > b));
        assert!(row[112..].iter().all(|value| *value == 0));
        assert_eq!(bench.app().cx.page, MainPage::Watch);
        bench.assert_no_job();
    }
}

#[test]
fn removing_outpaint_margins_keeps_the_mask_on_the_image() {
    let mut bench = masking(flux_spec());
    set_brush(&mut bench, 20.0);
    paint(&mut bench, SIZE, 100.0, 100.0);
    extend(&mut bench, above(), 0);
    assert_eq!(size(&mut bench), SIZE + Vec2::new(0.0, 64.0));
    let extended = size(&mut bench);
    paint(&mut bench, extended, 300.0, 264.0);
    extend(&mut bench, OutpaintMargins::default(), 0);
    assert_eq!(size(&mut bench), SIZE);
    let request = bench.request();
    let mask = opened(request.mask.as_ref());
    assert_eq!((mask.width, mask.height), (400, 304));
    for ((x, y), expected) in [((100, 100), 255), ((300, 200), 255), ((200, 3), 0)] {
        assert_eq!(mask.pixel(x, y)[0], expected, "{x}, {y}");
    }
    let image = request.image.expect("the photo");
    assert!(image.ends_with("photo.png"), "the image itself");
    assert!(!request.keeps_unmasked);
}

/// Presses Undo or Redo, and waits until the image has this size and there is this much to undo and redo.
fn step(bench: &mut Bench, name: &str, expected: Vec2, can: (bool, bool)) {
    bench.press(name);
    bench.until("the step is done", |bench| {
        let editor = bench.app().masking.editor.as_ref();
        let painted = &editor.expect("a mask is painted").painted;
        let is_so = (painted.can_undo, painted.can_redo) == can;
        is_so && size(bench) == expected
    });
}

#[test]
fn undo_takes_an_extension_back_and_the_strokes_before_it() {
    let mut bench = masking(flux_spec());
    set_brush(&mut bench, 20.0);
    paint(&mut bench, SIZE, 100.0, 100.0);
    extend(&mut bench, above(), 0);
    let extended = SIZE + Vec2::new(0.0, 64.0);
    paint(&mut bench, extended, 300.0, 264.0);
    step(&mut bench, "Undo", extended, (true, true));
    step(&mut bench, "Undo", SIZE, (true, true));
    step(&mut bench, "Undo", SIZE, (false, true));
    step(&mut bench, "Redo", SIZE, (true, true));
    step(&mut bench, "Redo", extended, (true, true));
    step(&mut bench, "Redo", extended, (true, false));
    let request = bench.request();
    let mask = opened(request.mask.as_ref());
    assert_eq!((mask.width, mask.height), (400, 368));
    for ((x, y), expected) in [((100, 164), 255), ((300, 264), 255), ((200, 150), 0)] {
        assert_eq!(mask.pixel(x, y)[0], expected, "{x}, {y}");
    }
    assert_holds_photo(&opened(request.image.as_ref()), 0, 64);
}

#[test]
fn painting_after_an_undone_extension_replaces_it_in_the_history() {
    let mut bench = masking(flux_spec());
    extend(&mut bench, above(), 0);
    step(&mut bench, "Undo", SIZE, (false, true));
    set_brush(&mut bench, 20.0);
    paint(&mut bench, SIZE, 100.0, 100.0);
    step(&mut bench, "Undo", SIZE, (false, true));
    step(&mut bench, "Redo", SIZE, (true, false));
    let request = bench.request();
    assert!(request.image.expect("the photo").ends_with("photo.png"));
    let mask = opened(request.mask.as_ref());
    assert_eq!((mask.width, mask.height), (400, 304));
}

#[test]
fn an_edge_is_dragged_however_long_the_frame_of_the_press_lasts() {
    for is_one_frame in [false, true] {
        let mut bench = masking(flux_spec());
        let from = place(&bench, SIZE, -4.0, 150.0);
        let to = place(&bench, SIZE, -94.0, 150.0);
        for event in [
            egui::Event::PointerMoved(from),
            primary_button(from, true),
            egui::Event::PointerMoved(to),
        ] {
            bench.harness.event(event);
        }
        if !is_one_frame {
            bench.harness.step();
            bench.harness.step();
        }
        bench.harness.event(primary_button(to, false));
        bench.harness.step();
        bench.until("it is extended", |bench| size(bench).x > SIZE.x);
        until_idle(&mut bench);
        assert_eq!(size(&mut bench), SIZE + Vec2::new(96.0, 0.0));
        step(&mut bench, "Undo", SIZE, (false, true));
    }
}

#[test]
fn edge_dragged_to_the_canvas_border_zooms_out_to_make_room() {
    let mut bench = masking(flux_spec());
    let border = bench.labelled(CANVAS).rect().right() - 2.0;
    let from = place(&bench, SIZE, SIZE.x + 4.0, 150.0);
    let to = egui::pos2(border, from.y);
    for event in [
        egui::Event::PointerMoved(from),
        primary_button(from, true),
        egui::Event::PointerMoved(to),
    ] {
        bench.harness.event(event);
    }
    let before = bench.panels().mask.scale;
    for _ in 0..11 {
        bench.harness.step();
    }
    bench.harness.event(primary_button(to, false));
    bench.harness.step();
    bench.until("it is extended", |bench| size(bench).x > SIZE.x);
    until_idle(&mut bench);
    let room = size(&mut bench).x - SIZE.x;
    assert!(room > SIZE.x, "{room}");
    // And the whole image is seen again.
    assert_eq!(bench.panels().mask.scale, before);
}

#[test]
fn numbers_extend_too_and_the_extended_image_is_painted_on_from_then_on() {
    let mut bench = masking(flux_spec());
    bench.press_until("Extend", "Extend right");
    bench.node(Role::SpinButton, "Extend right").click();
    bench.settle();
    bench.harness.event(egui::Event::Text("112".to_owned()));
    bench.settle();
    bench.press_key(Key::Enter);
    bench.press("Extend the image");
    until_idle(&mut bench);
    assert_eq!(size(&mut bench), SIZE + Vec2::new(112.0, 0.0));
    bench.press("Use this mask");
    bench.until("both stand in their places", |bench| {
        let app = bench.app();
        let start = app.inputs.get(InputSlot::Start).map(|it| it.source.path());
        let is_extended = start.is_some_and(|path| path.to_string_lossy().contains("-extended-"));
        is_extended && app.inputs.get(InputSlot::Mask).is_some() && app.cx.page == MainPage::Watch
    });
    bench.press_until("Edit mask", CANVAS);
    assert_eq!(size(&mut bench), SIZE + Vec2::new(112.0, 0.0));
    let margins = OutpaintMargins {
        left: 16,
        ..OutpaintMargins::default()
    };
    extend(&mut bench, margins, 0);
    let request = bench.request();
    assert_eq!((request.width, request.height), (528, 304));
    assert_holds_photo(&opened(request.image.as_ref()), 16, 0);
}

#[test]
fn more_room_than_the_model_makes_is_refused_and_the_image_stays() {
    let mut bench = masking(flux_spec());
    let margins = OutpaintMargins {
        left: 4096,
        bottom: 4096,
        ..OutpaintMargins::default()
    };
    extend(&mut bench, margins, 16);
    assert_eq!(size(&mut bench), SIZE);
    let told = bench.told().join("\n");
    assert!(told.contains("extend it by less"), "{told}");
}

#[test]
fn an_edge_of_a_control_video_gives_gray_room_to_all_its_frames() {
    let mut spec = videos_spec();
    (spec.limits.fixed_size, spec.limits.size_multiple) = (false, 16);
    let mut bench = Bench::of(spec);
    let video = bench.video_file("dance.mp4", 64, 48, 6);
    add_control(&mut bench, &video);
    bench.scroll_and_press("Paint a mask for control image 1");
    bench.wait_for(CANVAS);
    let own = Vec2::new(64.0, 48.0);
    let from = place(&bench, own, -0.5, 24.0);
    let to = place(&bench, own, -12.5, 24.0);
    drag(&mut bench, PointerButton::Primary, &[from, to]);
    bench.until("it is extended", |bench| size(bench).x > own.x);
    until_idle(&mut bench);
    assert_eq!(size(&mut bench), own + Vec2::new(16.0, 0.0));
    let request = bench.request();
    assert_eq!((request.width, request.height), (80, 48));
    assert_eq!(request.num_frames, 5, "as many whole latents as it has");
    assert_eq!(request.fps, 10.0, "at its own rate");
    let control = &request.controls[0];
    let given = open_video(&video).unwrap().frames;
    let frames = open_video(&control.file).unwrap().frames;
    assert_eq!(frames.len(), 5);
    for (frame, given) in frames.iter().zip(&given) {
        assert_eq!(frame.pixel(15, 7), [127; 3]);
        assert_eq!(frame.pixel(16, 7), given.pixel(0, 7));
    }
    let mask = opened(control.mask.as_ref());
    assert_eq!((mask.pixel(15, 7)[0], mask.pixel(79, 7)[0]), (255, 0));

    bench.run(InputsCommand::Remove(InputSlot::Control));
    bench.push(InputsCommand::TakeOver(Box::new(request.clone())));
    bench.wait_for("5 frames|Remove the mask of control image 1");
    let again = bench.request();
    assert_eq!(again.controls, request.controls);
    assert_eq!((again.width, again.num_frames), (80, 5));
}
