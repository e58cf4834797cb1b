//! What the window says when something is wrong, and that it goes on.

use safelight_core::library::{FolderWatch, SearchPath};
use safelight_core::settings::{Settings, ThemeChoice};

use crate::app_window::prelude::*;

fn failure() -> JobError {
    let summary = "the memory did not suffice for decoding";
    JobError::new(JobErrorKind::OutOfMemory, summary)
        .advise("Try a smaller size")
        .detail("stage: decode\nneeded 9 GiB")
}

#[test]
fn a_failure_is_a_sentence_with_advice_and_details_to_copy() {
    let (mut bench, sent) = Bench::at_work();
    bench.say_end(sent.id, JobOutcome::Failed(failure()));
    bench.assert_shows("The memory did not suffice for decoding|Try a smaller size");
    bench.assert_shows("The last job failed");
    let copied = bench.copied_by("Copy details").unwrap();
    assert!(copied.contains("needed 9 GiB"), "{copied}");
    assert!(copied.contains("did not suffice"), "{copied}");
    bench.press("Dismiss");
    bench.assert_hides("Try a smaller size");
    bench.start_job();
}

#[test]
fn warnings_of_a_finished_video_are_shown_with_it() {
    let (mut bench, sent) = Bench::at_work();
    let mut made = output(&sent, 3);
    let unused = "two keys of the model were not used";
    made.warnings.push(unused.into());
    let cropped = JobUpdate::Warning("the image was cropped".into());
    bench.say(sent.id, cropped);
    bench.say_end(sent.id, JobOutcome::Finished(made));
    bench.assert_shows("The image was cropped|Two keys of the model were not used");
    bench.labelled("Finished video");
}

#[test]
fn missing_engine_or_libtorch_is_an_error_with_advice() {
    let folder = tempfile::tempdir().unwrap();
    let paths = AppPaths::under(folder.path());
    let check = safelight::window::library::searching::check_runtime(paths);
    let mut settings = Settings::default();
    settings.runtime.libtorch = Some(folder.path().join("nowhere"));
    // Whichever is missing here, the engine or the libtorch that the settings name.
    let err = check(&settings).unwrap_err();
    assert_eq!(err.kind, JobErrorKind::Device);
    assert!(!err.advice.is_empty() && !err.details.is_empty());
}

#[test]
fn window_without_models_lists_searched_folders_and_opens_settings() {
    let mut bench = Bench::with(|startup| {
        startup.models = Some(FoundModels {
            searched: vec![SearchPath {
                path: "/some/ComfyUI/models".into(),
                exists: false,
                named_in: None,
            }],
            ..FoundModels::default()
        });
    });
    bench.assert_shows("No model was found|/some/ComfyUI/models (not there)");
    bench.assert_shows("No model to generate with");
    assert!(bench.is_disabled("Generate"));
    bench.press_until("Open settings…", "Model folders");
}

#[test]
fn models_are_looked_for_in_the_background_and_broken_ones_are_named() {
    let lacks = JobError::new(JobErrorKind::BadModel, "a tensor is missing in it");
    let models = FoundModels {
        problems: vec![lacks],
        ..found(vec![spec()])
    };
    let mut bench = Bench::with(|startup| {
        startup.models = None;
        startup.library.load = Arc::new(move |_| models.clone());
    });
    bench.wait_for("38 MiB");
    // Neither in the form nor over the image.
    assert!(!bench.has("a tensor is missing in it") && !bench.has_cards());
    bench.assert_hides("Copy what is wrong with models");
    bench.press("1 incomplete model");
    assert_eq!(bench.app().cx.page, MainPage::Models);
    let copied = bench.copied_by("Copy what is wrong with models");
    assert!(copied.is_some_and(|text| text.contains("a tensor is missing in it")));
    bench.press("Close the models");
    bench.start_job();
}

#[test]
fn a_model_that_is_put_where_it_is_looked_for_is_there_soon() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("new.safetensors");
    let watched = FolderWatch::new(vec![folder.path().to_owned()]);
    let place = file.clone();
    let mut bench = Bench::with(|startup| {
        startup.models = None;
        startup.library.load = Arc::new(move |_| FoundModels {
            watched: watched.clone(),
            ..found(place.exists().then(spec).into_iter().collect())
        });
    });
    bench.wait_for("No model was found");
    fs::write(&file, "").unwrap();
    bench.wait_for("38 MiB");
}

#[test]
fn a_worker_that_is_gone_is_a_sentence_and_not_a_frozen_window() {
    let mut bench = Bench::new();
    let (_, other) = safelight::worker::WorkerHandle::detached();
    drop(std::mem::replace(&mut bench.far, other));
    bench.press_until("Generate", "The worker of this window has ended");
    assert!(bench.app().queue.running.is_empty());
}

#[test]
fn the_look_is_switched_and_kept_in_the_settings_file() {
    let mut bench = Bench::new();
    bench.press("Light theme");
    assert_eq!(bench.app().cx.settings.interface.theme, ThemeChoice::Light);
    let file = bench.home.path().join("config/settings.toml");
    let until_in_file = |bench: &mut Bench, theme: &str| {
        bench.until("it is saved", |_| {
            fs::read_to_string(&file).is_ok_and(|text| text.contains(theme))
        });
    };
    until_in_file(&mut bench, "\"light\"");
    bench.press("Dark theme");
    until_in_file(&mut bench, "\"dark\"");
}
