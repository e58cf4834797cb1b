//! Painting a mask over the start image: strokes, steps back, whole-image tools, and the file that comes of it.

use egui::{Event, PointerButton, Pos2, Rect, Vec2};
use safelight_core::media::open_rgb;

use crate::app_window::images::fill_spec;
use crate::app_window::prelude::*;

pub(crate) const CANVAS: &str = "Mask over the image";

/// A window with an image of this size, on the page where its mask is painted.
fn bench_at(width: u32, height: u32) -> Bench {
    bench_of(flux_spec(), width, height)
}

pub(crate) fn bench_of(spec: ModelSpec, width: u32, height: u32) -> Bench {
    let mut bench = Bench::of(spec);
    bench.drop_image("photo.png", width, height, "Start image photo.png");
    bench.press_until("Paint a mask", CANVAS);
    bench
}

pub(crate) fn canvas(bench: &Bench) -> Rect {
    bench.labelled(CANVAS).rect()
}

/// Screen position of a point of the image while the whole image is visible.
pub(crate) fn place(bench: &Bench, size: Vec2, x: f32, y: f32) -> Pos2 {
    let area = canvas(bench);
    let scale = (area.shrink(12.0).size() / size).min_elem().min(8.0);
    area.center() - size * scale / 2.0 + Vec2::new(x, y) * scale
}

pub(crate) fn drag(bench: &mut Bench, button: PointerButton, points: &[Pos2]) {
    let press = |pos, pressed| Event::PointerButton {
        pos,
        button,
        pressed,
        modifiers: Modifiers::NONE,
    };
    bench.harness.event(Event::PointerMoved(points[0]));
    bench.harness.step();
    bench.harness.event(press(points[0], true));
    bench.harness.step();
    // Several places within one frame all count; of events that it is given, the harness makes a frame each.
    let moves = points.iter().map(|point| Event::PointerMoved(*point));
    bench.harness.input_mut().events.extend(moves);
    bench.harness.run_steps(2);
    bench.harness.event(press(points[points.len() - 1], false));
    bench.settle();
}

pub(crate) fn paint(bench: &mut Bench, size: Vec2, x: f32, y: f32) {
    let at = place(bench, size, x, y);
    drag(bench, PointerButton::Primary, &[at]);
}

/// Uses the mask and goes on painting it; what is in its file.
fn used(bench: &mut Bench) -> RgbPixels {
    fn file(bench: &mut Bench) -> Option<PathBuf> {
        let mask = bench.app().inputs.get(InputSlot::Mask);
        mask.map(|mask| mask.source.path().to_path_buf())
    }
    let before = file(bench);
    bench.press("Use this mask");
    bench.until("the mask stands in its place", |bench| {
        bench.app().cx.page == MainPage::Watch && file(bench) != before
    });
    bench.press_until("Edit mask", CANVAS);
    let path = file(bench).expect("it was waited for");
    open_rgb(&path).expect("it is an image")
}

fn values<const N: usize>(bench: &mut Bench, places: [(u32, u32); N]) -> [u8; N] {
    let mask = used(bench);
    places.map(|(x, y)| mask.pixel(x, y)[0])
}

/// Presses a button of the popover Adjust, which closes again.
fn adjust(bench: &mut Bench, name: &str) {
    bench.press_until("Adjust", name);
    bench.press(name);
    bench.press_key(Key::Escape);
}

pub(crate) fn set_brush(bench: &mut Bench, diameter: f32) {
    let panel = &mut bench.panels().mask;
    (panel.diameter, panel.softness) = (diameter, 0.0);
}

#[test]
fn painted_strokes_become_the_mask_pixel_for_pixel() {
    let mut bench = bench_at(400, 300);
    let size = Vec2::new(400.0, 300.0);
    set_brush(&mut bench, 20.0);
    let points = [(100.0, 100.0), (200.0, 100.0), (200.0, 200.0)];
    let points = points.map(|(x, y)| place(&bench, size, x, y));
    drag(&mut bench, PointerButton::Primary, &points);
    bench.press("Use this mask");
    bench.until_input(InputSlot::Mask);
    assert_eq!(bench.app().cx.page, MainPage::Watch);
    let mask = bench.app().inputs.get(InputSlot::Mask).unwrap();
    let path = mask.source.path().to_path_buf();
    assert!(path.starts_with(bench.home.path().join("data/masks")));
    let mask = open_rgb(&path).expect("it is an image");
    assert_eq!((mask.width, mask.height), (400, 300));
    let painted = [(100, 100), (150, 100), (150, 93), (200, 150)];
    assert_eq!(painted.map(|(x, y)| mask.pixel(x, y)), [[255; 3]; 4]);
    let beside = [(150, 115), (100, 150), (250, 100), (20, 20)];
    assert_eq!(beside.map(|(x, y)| mask.pixel(x, y)), [[0; 3]; 4]);
    bench.until("nothing is opened", |bench| {
        !bench.app().inputs.is_opening()
    });
    bench.press("Generate");
    assert_eq!(bench.next_job().request.mask, Some(path));

    // A large image is painted in its own pixels.
    let mut bench = bench_at(4000, 3000);
    set_brush(&mut bench, 300.0);
    paint(&mut bench, Vec2::new(4000.0, 3000.0), 3000.0, 1000.0);
    let places = [(3000, 1000), (3140, 1000), (3200, 1000)];
    assert_eq!(values(&mut bench, places), [255, 255, 0]);
}

#[test]
fn a_click_beside_an_open_popover_closes_it_and_paints_nothing() {
    let mut bench = bench_at(400, 300);
    let size = Vec2::new(400.0, 300.0);
    set_brush(&mut bench, 20.0);
    bench.press_until("Adjust", "Invert");
    let at = place(&bench, size, 100.0, 200.0);
    drag(&mut bench, PointerButton::Primary, &[at]);
    bench.assert_hides("Invert");
    paint(&mut bench, size, 300.0, 200.0);
    assert_eq!(values(&mut bench, [(100, 200), (300, 200)]), [0, 255]);
}

/// A model of videos, of whose start image only what a mask shows moves.
fn video_spec() -> ModelSpec {
    let mut spec = spec();
    spec.mask = InputUse::Optional;
    spec
}

#[test]
fn generate_uses_the_mask_that_is_being_painted() {
    for spec in [flux_spec(), fill_spec(), video_spec()] {
        let mut bench = bench_of(spec, 400, 300);
        set_brush(&mut bench, 20.0);
        paint(&mut bench, Vec2::new(400.0, 300.0), 100.0, 100.0);
        bench.press("Generate");
        let path = bench.next_job().request.mask.expect("it is in its place");
        let mask = open_rgb(&path).expect("it is an image");
        assert_eq!(mask.pixel(100, 100), [255; 3]);
        assert_eq!(mask.pixel(300, 200), [0; 3]);
        assert_eq!(bench.app().cx.page, MainPage::Watch);
        bench.assert_no_job();
    }
}

#[test]
fn a_closed_mask_page_counts_and_an_empty_or_discarded_mask_does_not() {
    let mut bench = bench_at(400, 300);
    let mut paint = |then: &str| {
        bench.wait_for(CANVAS);
        paint(&mut bench, Vec2::new(400.0, 300.0), 100.0, 100.0);
        bench.press(then);
        let mask = bench.request().mask;
        bench.press(if mask.is_some() {
            "Edit mask"
        } else {
            "Paint a mask"
        });
        mask
    };
    assert_eq!(paint("Undo"), None);
    assert_eq!(paint("Discard"), None);
    assert!(paint("Close the mask").is_some());
}

#[test]
fn a_mask_whose_page_is_left_is_shown_in_its_slot_before_anything_is_generated() {
    let mut bench = bench_at(400, 300);
    paint(&mut bench, Vec2::new(400.0, 300.0), 100.0, 100.0);
    bench.press_key(Key::Escape);
    bench.wait_for("Mask photo-mask-");
    assert_eq!(bench.app().cx.page, MainPage::Watch);
    // Erased again it is in no slot.
    bench.press_until("Edit mask", CANVAS);
    adjust(&mut bench, "Clear");
    bench.press_key(Key::Escape);
    bench.wait_until_gone("Mask photo-mask-");
    assert_eq!(bench.request().mask, None);
}

#[test]
fn another_start_image_clears_the_mask_and_strength_of_the_one_before_and_undo_returns_them() {
    let mut bench = bench_at(400, 304);
    let margins = safelight_core::media::OutpaintMargins {
        left: 64,
        ..Default::default()
    };
    let outpaint = safelight_core::media::OutpaintRequest {
        margins,
        overlap: 0,
    };
    bench.run(safelight::window::commands::MaskCommand::Extend(outpaint));
    bench.press("Use this mask");
    bench.until_input(InputSlot::Mask);
    bench.until("it is extended", |bench| {
        !bench.app().inputs.is_opening() && bench.form().sampling.strength == Some(1.0)
    });
    bench.drop_image("other.png", 200, 200, "Start image other.png");
    assert!(bench.app().inputs.get(InputSlot::Mask).is_none());
    assert_eq!(bench.form().sampling.strength, None);
    assert!(!bench.form().keeps_unmasked);
    bench.undo();
    assert!(bench.app().inputs.get(InputSlot::Mask).is_some());
    assert_eq!(bench.form().sampling.strength, Some(1.0));

    // A mask of one's own stays for images of one series.
    bench.run(AppCommand::ClearForm);
    bench.drop_image("first.png", 200, 200, "Start image first.png");
    let mask = bench.image_file("mine.png", 200, 200);
    bench.drop_onto("Choose a mask", &mask, "Mask mine.png");
    bench.harness.event(Event::PointerGone);
    bench.drop_image("second.png", 200, 200, "Start image second.png");
    bench.assert_shows("Mask mine.png");
}

#[test]
fn a_click_within_one_frame_paints_a_dab() {
    let mut bench = bench_at(400, 300);
    let size = Vec2::new(400.0, 300.0);
    set_brush(&mut bench, 30.0);
    for (button, (x, y)) in [
        (PointerButton::Primary, (100.0, 100.0)),
        (PointerButton::Primary, (300.0, 200.0)),
        (PointerButton::Secondary, (300.0, 200.0)),
    ] {
        let pos = place(&bench, size, x, y);
        bench.harness.hover_at(pos);
        bench.settle();
        for pressed in [true, false] {
            bench.harness.event(Event::PointerButton {
                pos,
                button,
                pressed,
                modifiers: Modifiers::NONE,
            });
        }
        bench.settle();
    }
    let places = [(100, 100), (300, 200), (200, 150)];
    assert_eq!(values(&mut bench, places), [255, 0, 0]);
}

#[test]
fn the_right_button_erases_and_steps_are_taken_back_by_keys() {
    let mut bench = bench_at(400, 300);
    let size = Vec2::new(400.0, 300.0);
    set_brush(&mut bench, 30.0);
    let places = [(200, 150), (5, 5)];
    adjust(&mut bench, "Fill");
    assert_eq!(values(&mut bench, places), [255, 255]);
    let middle = place(&bench, size, 200.0, 150.0);
    drag(&mut bench, PointerButton::Secondary, &[middle]);
    assert_eq!(values(&mut bench, places), [0, 255]);
    adjust(&mut bench, "Invert");
    assert_eq!(values(&mut bench, places), [255, 0]);
    bench.undo();
    bench.undo();
    // Only Fill is left.
    assert_eq!(values(&mut bench, places), [255, 255]);
    bench.press_keys(Modifiers::COMMAND | Modifiers::SHIFT, Key::Z);
    assert_eq!(values(&mut bench, places), [0, 255]);
    adjust(&mut bench, "Clear");
    assert!(used(&mut bench).rgb.iter().all(|value| *value == 0));
}

#[test]
fn all_of_a_scribble_and_of_clicks_at_once_is_in_the_file() {
    let mut bench = bench_at(1600, 1200);
    let size = Vec2::new(1600.0, 1200.0);
    set_brush(&mut bench, 400.0);
    let points = (0..120).map(|way| {
        let x = 250.0 + 1100.0 * (way % 2) as f32;
        place(&bench, size, x, 250.0 + way as f32 * 5.0)
    });
    let points: Vec<Pos2> = points.collect();
    drag(&mut bench, PointerButton::Primary, &points);
    adjust(&mut bench, "Invert");
    drag(&mut bench, PointerButton::Secondary, &points[..1]);
    let places = [(250, 250), (800, 600), (1350, 840), (10, 10)];
    assert_eq!(values(&mut bench, places), [0, 0, 0, 255]);
    bench.undo();
    bench.undo();
    assert_eq!(values(&mut bench, places), [255, 255, 255, 0]);
    bench.press("Undo");
    assert_eq!(values(&mut bench, places), [0; 4]);
}

#[test]
fn a_stroke_that_begins_and_ends_within_slow_frames_is_whole() {
    let mut bench = bench_at(400, 300);
    let size = Vec2::new(400.0, 300.0);
    set_brush(&mut bench, 20.0);
    let corners = [(100, 100), (300, 100), (300, 200), (100, 200)];
    let at = corners.map(|(x, y)| place(&bench, size, x as f32, y as f32));
    let middles = [(200, 100), (300, 150), (200, 200)];
    // All of it in one frame; begun and gone on with in one, ended in the next; and the other way round.
    for frames in [vec![6], vec![4, 2], vec![2, 4]] {
        bench.harness.event(Event::PointerMoved(at[0]));
        bench.harness.step();
        let mut events = vec![primary_button(at[0], true)];
        events.extend(at[1..].iter().map(|at| Event::PointerMoved(*at)));
        events.push(Event::PointerMoved(at[3]));
        events.push(primary_button(at[3], false));
        let mut events = events.into_iter();
        for count in frames {
            let of_frame = events.by_ref().take(count);
            bench.harness.input_mut().events.extend(of_frame);
            bench.harness.step();
        }
        bench.settle();
        assert_eq!(values(&mut bench, corners), [255; 4]);
        assert_eq!(values(&mut bench, middles), [255; 3]);
        adjust(&mut bench, "Clear");
    }
}

#[test]
fn brackets_and_the_wheel_change_the_brush_and_ctrl_zooms_at_the_pointer() {
    let mut bench = bench_at(400, 300);
    set_brush(&mut bench, 40.0);
    let diameter = |bench: &mut Bench| bench.panels().mask.diameter;
    bench.press_key(Key::CloseBracket);
    let larger = diameter(&mut bench);
    assert!(larger > 40.0);
    bench.press_key(Key::OpenBracket);
    assert!(diameter(&mut bench) < larger);
    let before = diameter(&mut bench);
    let at = canvas(&bench).center();
    bench.harness.hover_at(at);
    bench.harness.step();
    bench.turn_wheel(egui::MouseWheelUnit::Line, 1.0);
    bench.settle();
    assert!(diameter(&mut bench) > before);
    let zoom = Event::Zoom(2.0);
    bench.harness.event_modifiers(zoom, Modifiers::CTRL);
    bench.settle();
    let scale = bench.panels().mask.scale;
    assert!(scale.is_some_and(|scale| scale > 1.0), "{scale:?}");
    // What is painted now lies where it is seen.
    set_brush(&mut bench, 10.0);
    drag(&mut bench, PointerButton::Primary, &[at]);
    assert_eq!(values(&mut bench, [(200, 150)]), [255]);
}

#[test]
fn existing_mask_is_edited_as_a_copy_and_closing_the_page_keeps_changes() {
    let mut bench = Bench::of(flux_spec());
    bench.drop_image("photo.png", 200, 100, "Start image photo.png");
    let mask = bench.home.path().join("mine.png");
    // Half the image's size, so it is resized.
    image::GrayImage::from_fn(100, 50, |x, _| image::Luma([if x < 50 { 255 } else { 0 }]))
        .save(&mask)
        .expect("a mask is written");
    bench.drop_onto("Choose a mask", &mask, "Mask mine.png");
    bench.press_until("Edit mask", CANVAS);
    set_brush(&mut bench, 20.0);
    paint(&mut bench, Vec2::new(200.0, 100.0), 180.0, 50.0);
    bench.press("Close the mask");
    assert!(!bench.has(CANVAS));
    bench.press("Edit mask");
    let places = [(20, 50), (140, 50), (180, 50)];
    assert_eq!(values(&mut bench, places), [255, 0, 255]);
    bench.press("Close the mask");
    assert!(bench.has("Mask photo-mask"));
    // The user's own file is as it was.
    assert_eq!(open_rgb(&mask).expect("it is there").width, 100);
}

#[test]
fn edges_are_softened_in_the_background() {
    let mut bench = bench_at(300, 200);
    set_brush(&mut bench, 60.0);
    paint(&mut bench, Vec2::new(300.0, 200.0), 150.0, 100.0);
    assert_eq!(values(&mut bench, [(185, 100)]), [0]);
    bench.panels().mask.soften_by = 20;
    adjust(&mut bench, "Feather");
    bench.wait_until_gone("Changing the mask…");
    let [edge] = values(&mut bench, [(185, 100)]);
    assert!((1..255).contains(&edge), "{edge}");
    bench.press("Undo");
    assert_eq!(values(&mut bench, [(185, 100)]), [0]);
}

#[test]
fn a_rectangle_and_a_lasso_add_what_they_surround_and_erase_it_with_e() {
    let mut bench = bench_at(400, 300);
    let size = Vec2::new(400.0, 300.0);
    let places = [(150, 80), (250, 200), (40, 40)];
    let [corner, opposite] =
        [(100.0, 50.0), (300.0, 250.0)].map(|(x, y)| place(&bench, size, x, y));
    bench.press_key(Key::R);
    drag(&mut bench, PointerButton::Primary, &[corner, opposite]);
    assert_eq!(values(&mut bench, places), [255, 255, 0]);
    let around = [(80.0, 30.0), (320.0, 30.0), (80.0, 270.0)];
    let around = around.map(|(x, y)| place(&bench, size, x, y));
    bench.press("Lasso");
    bench.press_key(Key::E);
    drag(&mut bench, PointerButton::Primary, &around);
    assert_eq!(values(&mut bench, places), [0, 255, 0]);
    // Escape drops an outline that is being drawn and leaves the page open.
    bench.harness.event(Event::PointerMoved(corner));
    bench.harness.event(primary_button(corner, true));
    bench.harness.event(Event::PointerMoved(opposite));
    bench.harness.run_steps(2);
    bench.press_key(Key::Escape);
    bench.harness.event(primary_button(opposite, false));
    bench.settle();
    assert_eq!(values(&mut bench, places), [0, 255, 0]);
    bench.undo();
    assert_eq!(values(&mut bench, places), [255, 255, 0]);
    bench.undo();
    assert_eq!(values(&mut bench, places), [0; 3]);
}

#[test]
fn a_mask_grows_and_shrinks_by_pixels_and_undo_takes_that_back() {
    let mut bench = bench_at(300, 200);
    set_brush(&mut bench, 60.0);
    paint(&mut bench, Vec2::new(300.0, 200.0), 150.0, 100.0);
    bench.panels().mask.grow_by = 20;
    let places = [(190, 100), (150, 60), (150, 128), (205, 100)];
    adjust(&mut bench, "Grow");
    bench.wait_until_gone("Changing the mask…");
    assert_eq!(values(&mut bench, places), [255, 255, 255, 0]);
    bench.panels().mask.grow_by = 40;
    adjust(&mut bench, "Shrink");
    bench.wait_until_gone("Changing the mask…");
    assert_eq!(values(&mut bench, places), [0; 4]);
    bench.undo();
    bench.undo();
    assert_eq!(values(&mut bench, places), [0, 0, 255, 0]);
}

#[test]
fn the_overlay_of_a_red_image_is_green_unless_another_colour_is_chosen() {
    let mut bench = Bench::of(flux_spec());
    let path = bench.home.path().join("photo.png");
    image::RgbImage::from_pixel(64, 64, image::Rgb([200, 60, 50]))
        .save(&path)
        .expect("an image is written");
    bench.drop_until(&path, "Start image photo.png");
    bench.press_until("Paint a mask", CANVAS);
    bench.harness.event(Event::PointerGone);
    adjust(&mut bench, "Fill");
    bench.snapshot("mask");
    adjust(&mut bench, "Blue overlay");
    assert_eq!(bench.panels().mask.colour, Some(2));
}

#[test]
fn the_tools_stay_within_a_small_window() {
    let mut bench = bench_at(300, 200);
    bench.resize(Vec2::new(900.0, 600.0));
    let area = canvas(&bench);
    assert!(area.right() <= 900.0 && area.height() > 300.0, "{area:?}");
    for name in [
        "Use this mask",
        "Discard",
        "Brush",
        "Adjust",
        "Extend",
        "100 %",
    ] {
        let rect = bench.labelled(name).rect();
        assert!(rect.right() <= 900.0, "{name} at {rect:?}");
    }
}

#[test]
fn a_model_without_masks_offers_none() {
    let mut bench = Bench::new();
    bench.drop_image("photo.png", 64, 64, "Start image photo.png");
    bench.assert_hides("Paint a mask");
}
