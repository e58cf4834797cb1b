//! Files that say how they were made, held over the window and dropped: two zones, and what happens elsewhere.

use egui::{Pos2, pos2};

use crate::app_window::prelude::*;

/// A bench and a file of ours in it, made by its model with 5 steps.
fn with_file(name: &str, num_frames: u8) -> (Bench, PathBuf) {
    let mut bench = Bench::of_models(vec![spec(), flux_spec()]);
    bench.write_prompt("a lighthouse");
    let sent = bench.start_job();
    let mut request = serde_json::to_value(&sent.request).expect("it is plain");
    request["num_steps"] = 5.into();
    request["seed"] = 77.into();
    bench.finish_job(&sent, 2);
    bench.press("Pause");
    bench.form().prompt = "something else".into();
    let path = bench.home.path().join(name);
    write_made(&path, [64, 64], num_frames, 8.0, Some(made_with(&request)));
    (bench, path)
}

/// Until this is read, while a file is held: egui paints without end then, so the window never settles.
fn until_asked(bench: &mut Bench, text: &str) {
    for _ in 0..1000 {
        bench.harness.step();
        if bench.has(text) {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bench.assert_shows(text);
}

fn drop_at(bench: &mut Bench, path: &Path, pos: Pos2) {
    bench.harness.hover_at(pos);
    bench.harness.input_mut().hovered_files.clear();
    bench.harness.step();
    bench.drop_file(path);
}

#[test]
fn a_video_of_ours_is_dropped_for_its_settings_or_to_be_extended() {
    let (mut bench, path) = with_file("boat.mp4", 5);
    bench.hold_files(&[&path]);
    until_asked(&mut bench, "Extend video");
    let zone = bench.labelled("Use settings").rect();
    drop_at(&mut bench, &path, zone.center());
    bench.until_prompt("a lighthouse");
    assert_eq!(bench.form().seed, 77);
    assert!(bench.app().inputs.is_empty());
    assert!(matches!(bench.app().watch.mode, ViewerMode::Result(_)));

    bench.form().prompt = "something else".into();
    bench.hold_files(&[&path]);
    until_asked(&mut bench, "Extend video");
    let zone = bench.labelled("Extend video").rect();
    drop_at(&mut bench, &path, zone.center());
    bench.until_video();
    assert_eq!(bench.form().prompt, "something else");
}

#[test]
fn a_video_of_ours_that_is_dropped_elsewhere_plays_and_changes_nothing() {
    let (mut bench, path) = with_file("boat.mp4", 5);
    bench.hold_files(&[&path]);
    until_asked(&mut bench, "Extend video");
    drop_at(&mut bench, &path, pos2(720.0, 8.0));
    bench.wait_for("The file boat.mp4|Boat.mp4 was made with Safelight");
    bench.assert_shows("It also contains its prompt and settings");
    assert!(bench.app().inputs.is_empty());
    assert_eq!(bench.form().prompt, "something else");
    bench.press("Extend video");
    bench.until_video();
}

#[test]
fn an_image_of_ours_is_dropped_for_its_settings_or_as_the_start_image() {
    let (mut bench, path) = with_file("boat.png", 1);
    bench.hold_files(&[&path]);
    until_asked(&mut bench, "Use as start image");
    bench.assert_hides("Extend video");
    let zone = bench.labelled("Use as start image").rect();
    drop_at(&mut bench, &path, zone.center());
    bench.wait_for("Start image boat.png");
    assert_eq!(bench.form().prompt, "something else");
    assert!(!bench.has_cards());
}

#[test]
fn files_without_settings_and_multiple_files_show_no_drop_zones() {
    let mut bench = Bench::new();
    let plain = bench.video_file("plain.mp4", 48, 32, 5);
    bench.hold_files(&[&plain]);
    until_asked(&mut bench, "Drop it to extend this video");
    bench.harness.run_steps(20);
    bench.assert_hides("Use settings");
    let (mut bench, path) = with_file("boat.mp4", 5);
    bench.hold_files(&[&path, &plain]);
    bench.harness.run_steps(20);
    bench.assert_hides("Use settings");
}

#[test]
fn a_model_that_cannot_extend_a_video_offers_its_settings_alone() {
    let (mut bench, path) = with_file("boat.mp4", 5);
    bench.use_model("Flux");
    bench.hold_files(&[&path]);
    until_asked(&mut bench, "Use settings");
    bench.assert_hides("Extend video");
    assert!(bench.app().inputs.is_empty());
}

#[test]
fn dropped_file_of_a_known_model_selects_that_model() {
    let home = tempfile::tempdir().expect("a temporary folder");
    let file = home.path().join("flux1-dev-Q8_0.gguf");
    fs::write(&file, "").unwrap();
    let mut flux = flux_spec();
    flux.files.transformer.clone_from(&file);
    let mut bench = Bench::in_home(home, |startup| {
        startup.models = Some(found(vec![spec(), flux.clone()]));
    });
    bench.drop_until(&file, "is a model file");
    bench.press("Use this model");
    assert_eq!(bench.app().cx.form.model, Some(flux.id));
    assert!(bench.app().cx.settings.models.folders.is_empty());
}

#[test]
fn a_folder_or_file_of_a_model_that_is_dropped_can_be_added_to_the_model_folders() {
    let mut bench = Bench::new();
    let folder = bench.home.path().join("comfy/models");
    let gguf = folder.join("diffusion_models/z-image-Q4.gguf");
    fs::create_dir_all(gguf.parent().unwrap()).unwrap();
    fs::write(&gguf, "").unwrap();
    for (dropped, added, said, button) in [
        (&folder, folder.as_path(), "Models are in", "Add its folder"),
        (
            &gguf,
            gguf.parent().unwrap(),
            "is a model file",
            "Use this model",
        ),
    ] {
        bench.drop_until(dropped, said);
        bench.assert_hides("no images");
        bench.press(button);
        let folders = &bench.app().cx.settings.models.folders;
        assert!(folders.iter().any(|it| it == added), "{folders:?}");
        bench.app().cx.notices.clear();
        bench.run(AppCommand::Show(MainPage::Watch));
    }
}
