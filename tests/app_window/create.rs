//! The form as a whole: what a model does not take is kept, the line above Generate, its width, its one right edge, the
//! crop of an image, and the names of sizes.

use safelight_core::job::{ChosenLora, SectionOrder};

use crate::app_window::prelude::*;
use crate::common::networks::write_zeros;

fn text_spec() -> ModelSpec {
    let mut spec = spec();
    (spec.id, spec.name) = ("text".into(), "Text only".into());
    spec.start_image = InputUse::No;
    spec
}

#[test]
fn a_mask_waits_while_a_model_without_masks_is_chosen() {
    let mut bench = Bench::of_models(vec![flux_spec(), spec()]);
    let image = bench.drop_image("photo.png", 64, 64, "Start image photo.png");
    let mask = bench.image_file("mine.png", 64, 64);
    bench.drop_onto("Choose a mask", &mask, "Mask mine.png");
    bench.use_model("Little World");
    bench.assert_shows("A mask needs a video to change. The mask is kept.");
    assert!(!bench.is_disabled("Generate"));
    let request = bench.request();
    assert_eq!((request.image, request.mask), (Some(image), None));
    bench.use_model("Flux");
    bench.assert_hides("The mask is kept");
    assert_eq!(bench.request().mask, Some(mask));
    bench.use_model("Little World");
    bench.press("Remove");
    assert!(bench.app().inputs.get(InputSlot::Mask).is_none());
    assert!(bench.app().inputs.get(InputSlot::Start).is_some());
}

#[test]
fn images_and_videos_wait_for_a_model_that_takes_them() {
    let mut bench = Bench::of_models(vec![pair_spec(), text_spec(), flux_spec()]);
    let first = bench.drop_image("first.png", 64, 64, "Start image first.png");
    let last = bench.drop_image("last.png", 64, 64, "End image last.png");
    bench.use_model("Text only");
    bench.assert_shows("Not used by this model: start image, end image");
    let request = bench.request();
    assert_eq!((request.image, request.last_image), (None, None));
    bench.use_model("Pair");
    let request = bench.request();
    assert_eq!(request.image, Some(first));
    assert_eq!(request.last_image, Some(last));
    bench.press("Remove end image");
    bench.press("Remove start image");
    bench.drop_video("boat.mp4", 64, 32, 5, "Last frame of boat.mp4");
    bench.use_model("Flux");
    bench.assert_shows("This model cannot extend a video. The video is kept.");
    assert!(!bench.is_disabled("Generate"));
}

#[test]
fn a_lora_of_another_model_is_kept_and_not_sent() {
    let mut flux = flux_spec();
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets/little-world");
    flux.files.transformer = assets.join("transformer");
    let mut bench = Bench::of(flux);
    let folder = bench.paths().models();
    let path = folder.join("ink.safetensors");
    write_lora(&path);
    bench.form().loras = vec![ChosenLora::new(path)];
    bench.wait_for("The LoRA ink is not for this model. It is kept.");
    assert!(bench.start_job().request.loras.is_empty());
    assert_eq!(bench.form().loras.len(), 1);
    bench.press("Remove");
    assert!(bench.form().loras.is_empty());
}

/// A LoRA whose layers no model here has.
fn write_lora(path: &Path) {
    let layer = "transformer.single_transformer_blocks.0.attn.to_q";
    let tensors = [("lora_A", vec![2, 32]), ("lora_B", vec![32, 2])];
    write_zeros(
        path,
        tensors.map(|(part, shape)| (format!("{layer}.{part}.weight"), shape)),
    );
}

#[test]
fn missing_input_adds_a_button_above_generate_without_moving_it() {
    let mut bench = Bench::of(pair_spec());
    let generate = bench.rect(Role::Button, "Generate");
    let help = bench.rect(Role::Button, "Choose…");
    assert!(help.bottom() <= generate.top() && generate.top() - help.bottom() < 20.0);
    bench.drop_image("boat.png", 64, 64, "Start image boat.png");
    bench.assert_hides("Choose…");
    // Its line is kept, so that nothing jumps.
    assert_eq!(bench.rect(Role::Button, "Generate"), generate);
}

#[test]
fn a_model_that_cannot_continue_a_video_offers_the_one_that_can() {
    let mut f1 = framepack_spec();
    (f1.id, f1.name) = ("f1".into(), "FramePack F1".into());
    f1.section_order = Some(SectionOrder::F1);
    f1.end_image = InputUse::No;
    let mut bench = Bench::of_models(vec![framepack_spec(), f1]);
    let video = bench.drop_video("boat.mp4", 64, 32, 5, "Last frame of boat.mp4");
    bench.assert_shows("FramePack cannot continue a video. Use FramePack F1.");
    assert!(bench.is_disabled("Generate"));
    bench.press("Switch");
    let request = bench.request();
    assert_eq!(request.model, "f1");
    assert_eq!(request.extend, Some(video));
}

#[test]
fn an_emptied_form_has_the_models_defaults_and_nothing_else() {
    let mut bench = Bench::of(pair_spec());
    bench.drop_image("boat.png", 64, 64, "Start image boat.png");
    let form = bench.form();
    form.prompt = "a red boat".into();
    form.sampling.num_steps = Some(3);
    form.loras = vec![ChosenLora::new("ink.safetensors".into())];
    bench.settle();
    bench.scroll_and_press("Clear form");
    let form = bench.form().clone();
    assert_eq!(form.model.as_deref(), Some("pair"));
    assert!(form.prompt.is_empty() && form.loras.is_empty());
    assert_eq!(form.sampling_for(&pair_spec()).num_steps, 12);
    assert!(bench.app().inputs.is_empty());
    bench.assert_hides("boat.png");
}

#[test]
fn a_dropped_image_is_seen_with_the_crop_that_is_used() {
    let mut bench = Bench::of(pair_spec());
    let path = bench.drop_image("long.png", 800, 100, "Used for 512 × 128");
    bench.assert_shows("Only the middle 50 % of the image is used");
    bench.edit(|form| form.fit = Some(safelight_core::job::ResizeMode::Stretch));
    bench.assert_hides("Used for");
    bench.assert_shows("The image is stretched to 512 × 128");
    // The job takes its place, and an image that is taken out leaves the stage.
    bench.press("Remove start image");
    assert_eq!(bench.app().watch.mode, ViewerMode::Live);
    bench.drop_file(&path);
    bench.until_file(&path);
    bench.start_job();
    assert_eq!(bench.app().watch.mode, ViewerMode::Live);
}

#[test]
fn transparent_image_shows_a_note_that_it_becomes_opaque() {
    let mut bench = Bench::new();
    let note = "Transparent parts become opaque";
    let path = bench.home.path().join("logo.png");
    image::RgbaImage::from_pixel(64, 64, image::Rgba([9, 9, 9, 0]))
        .save(&path)
        .expect("an image is written");
    bench.drop_until(&path, "Start image logo.png");
    bench.assert_shows(note);
    bench.drop_image("plain.png", 64, 64, "Start image plain.png");
    assert!(!bench.has(note));
}

#[test]
fn the_form_is_widened_by_its_edge_and_stays_so() {
    let mut bench = Bench::new();
    let right = |bench: &Bench| bench.rect(Role::Button, "Generate").right();
    let before = right(&bench);
    // Behind the button stands the margin, and then the edge.
    let edge = egui::pos2(before + 14.0, 400.0);
    bench.harness.hover_at(edge);
    bench.settle();
    bench.harness.drag_at(edge);
    bench.settle();
    bench.harness.hover_at(edge + egui::vec2(80.0, 0.0));
    bench.settle();
    bench.harness.drop_at(edge + egui::vec2(80.0, 0.0));
    bench.settle();
    let after = right(&bench);
    let change = after - before - 80.0;
    assert!(change.abs() < 6.0, "{after} after {before}");
    let home = bench.close();
    let bench = Bench::in_home(home, |startup| {
        let paths = startup.paths.clone().unwrap();
        let kept = fs::read_to_string(paths.state_file()).unwrap();
        startup.remembered = serde_json::from_str(&kept).ok();
    });
    assert!((right(&bench) - after).abs() < 1.0);
}

#[test]
fn all_controls_of_the_form_end_at_one_edge() {
    for spec in [pair_spec(), flux_spec(), framepack_spec()] {
        let name = spec.name.clone();
        let mut bench = Bench::of(spec);
        bench.resize(egui::vec2(1100.0, 1800.0));
        bench.open_advanced();
        let form = bench.form();
        form.sampling.shift = Some(2.0);
        form.size = SizeChoice::Custom;
        bench.settle();
        let edge = bench.node(Role::ComboBox, "Sampler").rect().right();
        for role in [Role::ComboBox, Role::SpinButton] {
            for control in bench.harness.get_all_by_role(role) {
                let rect = control.rect();
                let label = control.accesskit_node().label();
                // What stands before another control in its row ends before it.
                let distance = (rect.right() - edge).abs();
                let is_before = distance >= 40.0;
                assert!(is_before || distance < 1.5, "{name}: {label:?} at {rect:?}");
            }
        }
    }
}

#[test]
fn sizes_are_named_by_their_aspect_ratio() {
    let mut bench = Bench::of(framepack_spec());
    bench.click(Role::ComboBox, "Size");
    assert!(!bench.has("Square 1:1"), "this model makes no square");
    bench.assert_shows("Near 1:1   608 × 640|Photo 3:2   768 × 512");
}

#[test]
fn a_job_that_is_edited_has_its_size_by_name() {
    let mut bench = Bench::of(flux_spec());
    bench.start_job();
    for (size, edges) in [
        (SizeChoice::Auto, None),
        (SizeChoice::Aspect(16, 9), None),
        (SizeChoice::Custom, Some((640, 320))),
    ] {
        let form = bench.form();
        form.size = size;
        (form.width, form.height) = edges.unzip();
        bench.press_generate();
        let id = bench.app().queue.waiting.back().unwrap().id;
        bench.run(QueueCommand::Edit(id));
        assert_eq!(bench.form().size, size);
        bench.press("Cancel edit");
    }
}

#[test]
fn a_video_that_is_dropped_on_a_model_of_images_offers_its_first_frame() {
    let mut bench = Bench::of(flux_spec());
    bench.drop_image("photo.png", 64, 64, "Start image photo.png");
    bench.drop_video(
        "boat.mp4",
        64,
        32,
        5,
        "The video boat.mp4 is not used: Flux makes images",
    );
    bench.assert_shows("Start image photo.png");
    bench.press_until("Use its first frame", "Start image first-frame");
    let image = bench.request().image.expect("the frame");
    assert_eq!(image::image_dimensions(image).unwrap(), (64, 32));
}

#[test]
fn width_and_height_are_swapped_by_the_button_between_them() {
    let mut bench = Bench::of(flux_spec());
    bench.set_size(832, 480);
    bench.settle();
    bench.scroll_and_press("Swap width and height");
    let form = bench.form();
    assert_eq!((form.width, form.height), (Some(480), Some(832)));
    assert_eq!(form.size, SizeChoice::Custom);
}
