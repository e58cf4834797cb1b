//! Reference images: how they come into the form, their order, and what is sent of them.

use safelight::window::create::choices::SlotTarget;
use safelight_core::model::ReduxFiles;

use crate::app_window::prelude::*;

/// A model that edits: it sees up to three images and begins from none.
pub(crate) fn edit_spec() -> ModelSpec {
    let mut spec = flux_spec();
    (spec.id, spec.name) = ("edit".into(), "Edit".into());
    (spec.start_image, spec.mask) = (InputUse::No, InputUse::No);
    spec.limits.max_references = 3;
    spec
}

fn files(bench: &Bench, names: &[&str]) -> Vec<PathBuf> {
    let file = |name: &&str| bench.image_file(name, 64, 48);
    names.iter().map(file).collect()
}

fn drop_all(bench: &mut Bench, paths: &[PathBuf]) {
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    bench.drop_files(&paths);
}

#[test]
fn dropped_images_stand_in_their_order_and_can_be_moved_and_removed() {
    let mut bench = Bench::of(edit_spec());
    bench.assert_shows("0 of 3");
    let paths = files(&bench, &["man.png", "coat.png", "park.png"]);
    drop_all(&mut bench, &paths[..2]);
    bench.wait_for("Reference image 1: man.png|Reference image 2: coat.png");
    bench.drop_until(&paths[2], "Reference image 3: park.png");
    bench.assert_shows("3 of 3");
    assert!(!bench.has("Add reference images"), "there is no room");
    assert_eq!(bench.request().references, paths);
    bench.press("Move reference image 3 to the left");
    bench.press_until("Remove reference image 1", "Reference image 1: park.png");
    let request = bench.request();
    assert_eq!(request.references, [paths[2].clone(), paths[1].clone()]);
    assert!(request.image.is_none());
    // The size follows the first of them.
    assert!(request.width > request.height);
}

#[test]
fn of_more_images_than_places_some_are_taken_or_each_becomes_a_job() {
    let mut bench = Bench::of(edit_spec());
    let paths = files(&bench, &["a.png", "b.png", "c.png", "d.png"]);
    drop_all(&mut bench, &paths);
    bench.wait_for("4 files at once");
    bench.press_until("Put the first 3 into the form", "3 of 3");
    bench.assert_shows("Not all of 4 files are used");
    bench.press("Remove reference image 3");
    bench.press("Remove reference image 1");
    drop_all(&mut bench, &paths);
    bench.wait_for("4 files at once");
    bench.press("Make 4 jobs, one for each");
    // Each beside what stands in the form.
    let mut seen = Vec::new();
    for _ in 0..4 {
        seen.push(bench.next_request().references);
    }
    let beside = |path: &PathBuf| vec![path.clone(), paths[1].clone()];
    assert_eq!(seen, paths.iter().map(beside).collect::<Vec<_>>());
}

#[test]
fn a_result_becomes_a_reference_and_its_settings_bring_its_references_back() {
    let mut bench = Bench::of(edit_spec());
    let paths = files(&bench, &["a.png", "b.png"]);
    drop_all(&mut bench, &paths);
    bench.wait_for("2 of 3");
    let sent = bench.start_job();
    assert_eq!(sent.request.references, paths);
    bench.say_stage(sent.id, Stage::EncodeImage);
    bench.assert_shows("Reading the images");
    // The worker's part: the file is there when the job ends.
    let out = &sent.request.out;
    fs::create_dir_all(out.parent().unwrap()).unwrap();
    fs::copy(&paths[0], out).unwrap();
    bench.finish_job(&sent, 1);
    bench.press_more_until("Use as reference", "3 of 3");
    for _ in 0..3 {
        bench.press("Remove reference image 1");
    }
    bench.press_more_until("Use settings", "Reference image 1: a.png");
    bench.assert_shows("Reference image 2: b.png");
    assert_eq!(bench.request().references, paths);
}

#[test]
fn a_model_without_references_keeps_them_and_sends_none() {
    let mut bench = Bench::of_models(vec![edit_spec(), spec()]);
    bench.set_model("edit");
    let paths = files(&bench, &["a.png", "b.png"]);
    drop_all(&mut bench, &paths);
    bench.wait_for("2 of 3");
    bench.set_model(&spec().id);
    bench.assert_shows("This model does not use reference images. They are kept.");
    assert!(bench.request().references.is_empty());
    bench.set_model("edit");
    assert_eq!(bench.request().references, paths);
}

#[test]
fn single_reference_model_replaces_its_image_with_each_dropped_one() {
    let mut spec = edit_spec();
    spec.limits.max_references = 1;
    let mut bench = Bench::of(spec);
    bench.assert_shows("Image to edit");
    let paths = files(&bench, &["a.png", "b.png"]);
    for (path, name) in paths.iter().zip(["a.png", "b.png"]) {
        bench.drop_file(path);
        let shown = format!("Reference image 1: {name}");
        bench.wait_for(&shown);
    }
    bench.assert_shows("1 of 1");
    assert_eq!(bench.request().references, paths[1..]);
}

fn prompt_spec() -> ModelSpec {
    let mut spec = flux_spec();
    (spec.id, spec.name) = ("prompts".into(), "Prompts".into());
    spec.prompt_images = Some("Get the file that reads images".into());
    spec.files.image_prompts = Some(ReduxFiles {
        image_encoder: "sees.safetensors".into(),
        image_processor: None,
        embedder: "reads.safetensors".into(),
    });
    spec
}

#[test]
fn images_as_prompts_have_strengths_and_come_back_with_the_settings() {
    let mut bench = Bench::of(prompt_spec());
    bench.assert_shows("Images as prompts|0 of 8");
    let paths = files(&bench, &["a.png", "b.png", "c.png"]);
    let place = SlotTarget::onto(Some(InputSlot::Prompt));
    bench.push(InputsCommand::Open(paths.clone(), place));
    bench.wait_for("Prompt image 3: c.png");
    let inputs = &mut bench.app().inputs;
    inputs.change(InputSlot::Prompt, 1, |image| image.strength = 0.5);
    bench.settle();
    assert!(bench.has("Strength of prompt image 2"));
    bench.press("Remove prompt image 3");
    bench.press("Move prompt image 2 to the left");
    let asked = bench.request();
    let said = |request: &GenerateRequest| -> Vec<(PathBuf, f64)> {
        let images = request.prompt_images.iter();
        images.map(|it| (it.path.clone(), it.strength)).collect()
    };
    let expected = [(paths[1].clone(), 0.5), (paths[0].clone(), 1.0)];
    assert_eq!(said(&asked), expected);
    assert!(asked.image.is_none() && asked.references.is_empty());
    for _ in 0..2 {
        bench.press("Remove prompt image 1");
    }
    assert!(bench.request().prompt_images.is_empty());
    bench.push(InputsCommand::TakeOver(Box::new(asked)));
    bench.wait_for("Prompt image 2: a.png");
    assert_eq!(said(&bench.request()), expected);
}

#[test]
fn image_prompts_without_their_encoder_show_the_file_to_install() {
    let mut spec = prompt_spec();
    spec.files.image_prompts = None;
    let mut bench = Bench::of(spec);
    bench.assert_shows("Get the file that reads images");
    bench.assert_hides("Add images as prompts");
    bench.scroll_and_press("Get FLUX.1 Redux dev…");
    bench.wait_for("flux1-redux-dev.safetensors|sigclip_vision_patch14_384.safetensors|Download…");
    let mut bench = Bench::of(flux_spec());
    bench.assert_hides("Images as prompts");
    assert!(bench.request().prompt_images.is_empty());
}
