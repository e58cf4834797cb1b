//! Models of images: what their form has and has not, masks, strength, batches, and what is done with results.

use safelight_core::job::{SigmaSchedule, StepCacheKind};
use safelight_core::media;
use safelight_core::model::{GuidanceMode, ImageRole};
use safelight_core::naming::numbered_path;

use crate::app_window::prelude::*;

/// A model that fills what a mask shows, and does nothing without one.
pub(crate) fn fill_spec() -> ModelSpec {
    let mut spec = flux_spec();
    spec.image_role = ImageRole::Canvas;
    (spec.start_image, spec.mask) = (InputUse::Required, InputUse::Required);
    spec.defaults.sampling.strength = None;
    spec
}

fn drop_mask(bench: &mut Bench) -> PathBuf {
    let mask = bench.image_file("mask.png", 640, 480);
    bench.drop_onto("Choose a mask", &mask, "Mask mask.png");
    mask
}

/// No card tells of anything but jobs that were cancelled.
fn assert_only_cancelled(bench: &mut Bench) {
    let told = bench.told();
    assert!(
        told.iter().all(|it| it.starts_with("Cancelled")),
        "{told:?}"
    );
}

#[test]
fn image_model_hides_frame_settings_and_writes_a_png() {
    let mut bench = Bench::of(flux_spec());
    bench.open_advanced();
    for name in ["Length", "Frames", "Frame rate"] {
        assert!(!bench.has_label(name), "{name}");
    }
    bench.node(Role::ComboBox, "Tiled VAE");
    let request = bench.request();
    assert_eq!((request.width, request.height), (1024, 1024));
    assert_eq!((request.num_frames, request.batch_size), (1, 1));
    let sampling = &request.sampling;
    assert_eq!(
        (sampling.guidance_scale, sampling.true_cfg_scale),
        (3.5, None)
    );
    assert_eq!(request.out.extension().unwrap(), "png");
    assert_only_cancelled(&mut bench);
}

#[test]
fn aspects_are_of_the_models_area_lying_and_standing() {
    let mut bench = Bench::of(flux_spec());
    for (aspect, expected) in [
        ((1, 1), (1024, 1024)),
        ((3, 2), (1248, 832)),
        ((21, 9), (1568, 672)),
        ((9, 16), (768, 1360)),
    ] {
        bench.edit(|form| form.size = SizeChoice::Aspect(aspect.0, aspect.1));
        let field = bench.node(Role::ComboBox, "Size");
        let text = format!("{} × {}", expected.0, expected.1);
        assert!(field.value().unwrap().ends_with(&text), "{text}");
    }
    bench.click(Role::ComboBox, "Size");
    bench.assert_shows("Cinema 21:9   1568 × 672|Portrait 3:4   880 × 1184");
}

#[test]
fn the_sliders_of_the_form_begin_at_one_edge_also_when_a_value_was_changed() {
    let mut bench = Bench::of(flux_spec());
    bench.drop_as("Start image", "boat.png");
    for strength in [None, Some(0.3)] {
        bench.edit(|form| form.sampling.strength = strength);
        let left = |name| bench.node(Role::Slider, name).rect().left();
        assert_eq!(left("Denoising strength"), left("Batch"), "{strength:?}");
    }
}

#[test]
fn the_strength_is_there_with_a_start_image_where_it_acts() {
    let mut bench = Bench::of(flux_spec());
    bench.assert_hides("Denoising strength");
    bench.drop_as("Start image", "boat.png");
    bench.assert_shows("17 of 28 steps are run");
    let slider = bench.node(Role::SpinButton, "Denoising strength");
    assert_eq!(slider.value().as_deref(), Some("0.60"));
    bench.form().sampling.strength = Some(0.25);
    assert_eq!(bench.request().sampling.strength, Some(0.25));
    bench.edit(|form| form.sampling.strength = Some(0.0));
    bench.assert_shows("leaves none of the 28 steps to run");
    let mut filled = Bench::of(fill_spec());
    filled.drop_as("Start image", "boat.png");
    filled.assert_hides("Denoising strength");
}

#[test]
fn mask_field_appears_with_the_start_image_and_accepts_a_dropped_mask() {
    let mut bench = Bench::of(flux_spec());
    bench.assert_hides("Choose a mask");
    bench.drop_as("Start image", "boat.png");
    // A second image dropped anywhere is another start image.
    let image = bench.drop_as("Start image", "other.png");
    let mask = drop_mask(&mut bench);
    let request = bench.request();
    assert_eq!((request.image, request.mask), (Some(image), Some(mask)));
    bench.press("Remove mask");
    assert_eq!(bench.request().mask, None);
}

#[test]
fn a_model_that_fills_needs_both_and_takes_the_second_file_as_the_mask() {
    let mut bench = Bench::of(fill_spec());
    bench.assert_shows("Image to fill");
    assert_eq!(bench.harness.get_all_by_label("needed").count(), 2);
    assert!(bench.is_disabled("Generate"));
    bench.drop_as("Start image", "boat.png");
    bench.assert_shows("needs a mask");
    let mask = bench.drop_as("Mask", "mask.png");
    assert_eq!(bench.request().mask, Some(mask));

    let mut bench = Bench::of(fill_spec());
    let paths = ["a.png", "b.png"].map(|name| bench.image_file(name, 64, 64));
    bench.drop_files(&[&paths[0], &paths[1]]);
    bench.wait_for("Start image a.png|Mask b.png");
}

#[test]
fn the_size_of_the_image_comes_back_by_its_name_with_a_mask() {
    let mut bench = Bench::of(flux_spec());
    bench.drop_as("Start image", "lake.png");
    drop_mask(&mut bench);
    let sent = bench.start_job();
    assert!(sent.request.mask.is_some());
    bench.finish_job(&sent, 1);
    bench.press("Remove mask");
    bench.press("Remove start image");
    bench.press_more_until("Use settings", "Start image lake.png|Mask mask.png");
    assert_eq!(bench.form().size, SizeChoice::Auto);
}

#[test]
fn real_guidance_brings_the_negative_prompt_and_needs_it() {
    let mut bench = Bench::of(flux_spec());
    bench.open_advanced();
    bench.assert_hides("Negative prompt");
    for name in ["Guidance", "CFG scale"] {
        bench.node(Role::SpinButton, name);
    }
    bench.edit(|form| form.sampling.true_cfg_scale = Some(2.5));
    bench.assert_shows("Negative prompt|CFG is off: it needs a negative prompt");
    bench.edit(|form| form.negative_prompt = Some("blurry".into()));
    bench.assert_hides("CFG is off");
    let request = bench.request();
    assert_eq!(request.sampling.true_cfg_scale, Some(2.5));
    assert_eq!(request.negative_prompt, "blurry");
    // Turned off again, the text that is not seen any more is not spoken of either.
    bench.form().sampling.true_cfg_scale = Some(1.0);
    assert_eq!(bench.request().sampling.true_cfg_scale, None);
    assert_only_cancelled(&mut bench);
}

#[test]
fn a_model_without_a_guidance_shows_the_real_one_alone() {
    let mut spec = flux_spec();
    (spec.guidance, spec.defaults.sampling.guidance_scale) = (GuidanceMode::None, 0.0);
    let mut bench = Bench::of(spec);
    bench.open_advanced();
    assert!(!bench.has_label("Guidance"));
    bench.node(Role::SpinButton, "CFG scale");
    assert_eq!(bench.request().sampling.guidance_scale, 0.0);
    let mut videos = Bench::new();
    videos.open_advanced();
    videos.assert_hides("CFG scale");
}

#[test]
fn every_sampler_and_every_schedule_can_be_chosen() {
    let mut bench = Bench::of(flux_spec());
    bench.open_advanced();
    for sampler in SamplerKind::ALL {
        bench.choose("Sampler", sampler.label());
        let form = bench.form();
        assert_eq!(form.sampling_for(&flux_spec()).sampler, sampler);
    }
    for schedule in SigmaSchedule::ALL {
        bench.choose("Scheduler", schedule.label());
        assert_eq!(bench.request().sampling.sigma_schedule, schedule);
    }
}

#[test]
fn a_step_cache_of_those_that_the_model_has_is_chosen_with_its_number() {
    let mut bench = Bench::of(flux_spec());
    bench.open_advanced();
    for (kind, number) in [
        (StepCacheKind::FirstBlock, "Step cache threshold"),
        (StepCacheKind::TaylorSeer, "Step cache interval"),
    ] {
        bench.choose("Step cache", kind.label());
        bench.node(Role::SpinButton, number);
        assert_eq!(bench.request().options.step_cache, Some(kind.into()));
    }
    // Another program's may be one that was not measured for the model.
    let mut videos = Bench::new();
    videos.form().options.step_cache = Some(StepCacheKind::TeaCache.into());
    videos.open_advanced();
    videos.assert_shows("Step cache");
    assert_eq!(videos.request().options.step_cache, None);
}

fn batch() -> (Bench, Vec<PathBuf>) {
    let mut bench = Bench::of(flux_spec());
    let form = bench.form();
    (form.batch_size, form.seed) = (Some(3), 40);
    let sent = bench.start_job();
    assert_eq!((sent.request.batch_size, sent.request.seed), (3, 40));
    let mut made = output(&sent, 3);
    let names = (1..=3).map(|number| numbered_path(&sent.request.out, number));
    made.paths = names.collect();
    for (path, frame) in made.paths.iter().zip(&made.video.frames) {
        media::write_png(path, frame).expect("an image is written");
    }
    let paths = made.paths.clone();
    bench.end_job(&sent, made);
    bench.assert_shows("Image 3 of 3");
    (bench, paths)
}

#[test]
fn each_image_of_a_batch_is_looked_at_with_a_click_and_none_plays() {
    let (mut bench, paths) = batch();
    bench.labelled("Finished image");
    assert!(!bench.has_label("Play"));
    bench.until_at_rest();
    bench.assert_shows("image 1 of 3  ·  seed 40");
    bench.press_until("Image 2 of 3", "image 2 of 3  ·  seed 41");
    bench.press_key(Key::ArrowRight);
    bench.assert_shows("image 3 of 3  ·  seed 42");
    bench.press("More");
    let copied = bench.copied_by_label("Copy path");
    assert_eq!(copied, Some(paths[2].display().to_string()));
}

#[test]
fn the_image_that_is_looked_at_becomes_the_start_image_also_when_its_file_is_gone_and_gives_its_seed()
 {
    let (mut bench, paths) = batch();
    bench.press("Image 2 of 3");
    bench.press_more("Use settings");
    let form = bench.form();
    assert_eq!((form.seed, form.batch_size), (41, Some(1)));
    bench.press_more("Use as start image");
    let name = paths[1].file_name().unwrap().to_string_lossy();
    bench.wait_for(&format!("Start image {name}"));
    let request = bench.request();
    assert_eq!(request.image.as_ref(), Some(&paths[1]));
    assert_eq!(request.extend, None);
    // Every input of this model has a name.
    bench.app().cx.folds.is_advanced_open = true;
    bench.form().sampling.true_cfg_scale = Some(2.0);
    bench.resize(egui::vec2(1100.0, 1500.0));
    bench.assert_shows("Choose a mask");

    let (mut bench, paths) = batch();
    fs::remove_file(&paths[0]).unwrap();
    bench.press_more_until("Use as start image", "Start image image-");
    assert!(bench.request().image.unwrap().is_file());
}

#[test]
fn a_batch_is_counted_while_it_is_decoded() {
    let mut bench = Bench::of(flux_spec());
    bench.form().batch_size = Some(4);
    let sent = bench.start_job();
    bench.say_stage(sent.id, Stage::Decode);
    for index in 0..2 {
        bench.say_frame(sent.id, index, 4, image(64, [index as u8, 2, 3]));
    }
    bench.assert_shows("image 2 of 4");
}

#[test]
fn several_videos_are_several_jobs_with_seeds_that_count_on() {
    let mut bench = Bench::of(spec());
    let form = bench.form();
    (form.batch_size, form.seed) = (Some(3), 7);
    bench.press("Generate");
    for seed in 7..10 {
        let request = bench.next_request();
        assert_eq!((request.seed, request.batch_size), (seed, 1));
        let name = request.out.display().to_string();
        assert!(name.ends_with(&format!("_{seed}.mp4")), "{name}");
    }
    bench.assert_no_job();
}

/// A lake at some hour: something to look at.
fn lake(width: u32, height: u32, hour: u32) -> RgbPixels {
    let image = RgbPixels::from_fn(width, height, |x, y| {
        let is_sky = y < height * 3 / 5;
        let depth = if is_sky { y } else { height - y } * 120 / height;
        let ripple = if is_sky { 0 } else { (x / 9 + y / 3) % 5 * 4 };
        let (red, blue) = (90 + depth + hour * 20 - ripple, 120 + hour * 25 - depth);
        [red, 60 + depth / 2, blue].map(|part| part as u8)
    });
    image.expect("it has pixels")
}

#[test]
fn a_batch_looks_as_it_did() {
    let mut bench = Bench::of(flux_spec());
    let form = bench.form();
    form.prompt = "a lake between mountains, evening light".into();
    (form.batch_size, form.seed) = (Some(4), 1234);
    let paths = ["lake.png", "mask.png"].map(|name| bench.home.path().join(name));
    media::write_png(&paths[0], &lake(300, 200, 0)).expect("an image is written");
    let is_white = |x: u32, y: u32| x.abs_diff(150) < 70 && y.abs_diff(110) < 50;
    let mask = |x, y| [if is_white(x, y) { 255 } else { 0 }; 3];
    let mask = RgbPixels::from_fn(300, 200, mask).expect("it has pixels");
    media::write_png(&paths[1], &mask).expect("a mask is written");
    bench.drop_until(&paths[0], "Start image lake.png");
    bench.drop_onto("Choose a mask", &paths[1], "Mask mask.png");
    let sent = bench.start_job();
    let mut made = output(&sent, 1);
    made.paths = (1..=4).map(|n| format!("lake_000{n}.png").into()).collect();
    let frames = (0..4).map(|hour| Arc::new(lake(624, 416, hour)));
    made.video = Arc::new(safelight_core::job::Video {
        frames: frames.collect(),
        fps: 1.0,
    });
    bench.end_job(&sent, made);
    bench.assert_shows("Image 4 of 4");
    bench.press("Image 3 of 4");
    bench.harness.hover_at(egui::pos2(2.0, 2.0));
    bench.settle();
    bench.snapshot("batch");
}
