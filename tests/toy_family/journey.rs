//! A family of models that lives in one folder (`tests/toy_family`) and one line of each registry: from its file to a
//! image, as the families that users have.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use safelight::worker::ProcessLauncher;
use safelight_core::job::{
    DeviceChoice, GenerateForm, GenerateRequest, JobOptions, PartialSampling, PreviewChoice,
};
use safelight_core::job_update::JobUpdate;
use safelight_core::media;
use safelight_core::model::ModelSpec;
use safelight_core::settings::{AppPaths, Settings};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

use crate::common::{Home, assert_finished, events};
use crate::worker_promises::{FakeState, WorkerHarness, finished};

/// A folder with a toy's config, weights, and colours for previews.
fn toy_in(home: &Home) -> PathBuf {
    let folder = home.path().join("toy");
    fs::create_dir_all(&folder).unwrap();
    let config = json!({"_class_name": "ToyTransformer", "channels": 4});
    fs::write(folder.join("config.json"), config.to_string()).unwrap();
    let factors = [
        [0.3, 0.0, 0.0],
        [0.0, 0.3, 0.0],
        [0.0, 0.0, 0.3],
        [0.0, 0.0, 0.0],
    ];
    let own = json!({"latent_rgb": {"factors": factors, "bias": [0.5, 0.5, 0.5]}});
    fs::write(folder.join("safelight.json"), own.to_string()).unwrap();
    let numbers = |count: usize| -> Vec<u8> {
        let number = |index: usize| ((index * 37 % 101) as f32 / 101.0) - 0.5;
        (0..count)
            .flat_map(|index| number(index).to_le_bytes())
            .collect()
    };
    let tensors = [
        ("toy.letters.weight", vec![256, 4]),
        ("toy.mix.weight", vec![4, 4]),
        ("toy.paint.weight", vec![3, 4]),
    ];
    let bytes: Vec<Vec<u8>> = tensors
        .iter()
        .map(|(_, shape)| numbers(shape.iter().product()))
        .collect();
    let views = tensors.iter().zip(&bytes).map(|((name, shape), bytes)| {
        let view = TensorView::new(Dtype::F32, shape.clone(), bytes).unwrap();
        (*name, view)
    });
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).unwrap();
    folder
}

fn safelight(home: &Home, arguments: &str) -> Output {
    let mut command = home.safelight();
    command.args(arguments.split(' ')).output().unwrap()
}

fn printed(home: &Home, arguments: &str) -> Value {
    serde_json::from_slice(&safelight(home, arguments).stdout).unwrap()
}

fn generate(home: &Home, out: &str, fault: &str) -> Output {
    let arguments = "generate --json --device cpu --prompt boat --seed 5 --width 64 --height 32 --steps 9 --model toy --out";
    let mut command = home.safelight();
    command.args(arguments.split(' ')).arg(out);
    command
        .env("SAFELIGHT_ENGINE_FAULT", fault)
        .output()
        .unwrap()
}

fn pixels(path: &Path) -> media::RgbPixels {
    media::open_rgb(path).unwrap()
}

#[test]
fn a_family_of_one_folder_is_recognised_by_its_header_and_planned_from_its_schema() {
    let home = Home::new();
    let folder = toy_in(&home);
    for place in [folder.clone(), folder.join("model.safetensors")] {
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!((spec.family.id, &*spec.variant), ("toy", "squares"));
        assert!(spec.family.makes_images);
    }
    let card = printed(&home, "inspect --json toy");
    assert_eq!(card["family"], json!("toy"), "{card}");
    assert_eq!(card["is_runnable"], json!(true), "{card}");
    let plan = "plan --json --model toy --prompt boat --total 24 --class discrete";
    let text = printed(&home, plan).to_string();
    assert!(text.contains("denoise"), "{text}");
    assert!(text.contains("transformer"), "{text}");
}

#[test]
fn a_family_of_one_folder_makes_an_image_that_repeats() {
    let home = Home::new();
    toy_in(&home);
    let output = generate(&home, "a.png", "");
    assert_finished(&output);
    let steps = events(&output);
    let steps = steps.iter().filter(|event| event["event"] == "step");
    assert_eq!(steps.filter(|event| event["stage"] == "denoise").count(), 9);
    let settings = media::read_settings(&home.path().join("a.png")).unwrap();
    let settings = settings.unwrap();
    assert!(settings.contains("\"toy\""), "{settings}");
    let again = "generate --json --device cpu --from a.png --out b.png";
    assert_finished(&safelight(&home, again));
    let [first, second] = ["a.png", "b.png"].map(|name| pixels(&home.path().join(name)));
    assert_eq!(first, second);
}

#[test]
fn single_folder_family_resumes_from_its_checkpoint_after_a_crash() {
    let home = Home::new();
    toy_in(&home);
    assert_finished(&generate(&home, "whole.png", ""));
    let marker = home.path().join("struck");
    let fault = format!("denoise@sampler+7:kill:{}", marker.display());
    let output = generate(&home, "resumed.png", &fault);
    assert_finished(&output);
    assert!(marker.exists(), "the engine was not killed");
    let whole = pixels(&home.path().join("whole.png"));
    assert_eq!(whole, pixels(&home.path().join("resumed.png")));
}

#[test]
fn a_family_of_one_folder_shows_previews_of_its_latents() {
    let home = Home::new();
    let spec = ModelSpec::open(&toy_in(&home)).unwrap();
    let form = GenerateForm {
        prompt: "a boat".to_owned(),
        sampling: PartialSampling {
            num_steps: Some(4),
            ..PartialSampling::default()
        },
        options: JobOptions {
            preview: PreviewChoice::Linear,
            ..JobOptions::default()
        },
        out: home.path().join("shown.png"),
        ..GenerateForm::default()
    };
    let request = form.validate(&spec).unwrap().request;
    let previews = run(&home, request);
    assert!(!previews.is_empty(), "no preview came");
    let mut sizes = previews.iter();
    assert!(sizes.all(|(width, height)| width == height && *width > 0));
    assert!(home.path().join("shown.png").is_file());
}

/// Runs a job on the worker thread with the real engine -> the sizes of its previews.
fn run(home: &Home, request: GenerateRequest) -> Vec<(u32, u32)> {
    let mut launcher =
        ProcessLauncher::with_settings(Settings::default, &AppPaths::under(home.path()));
    let beside = Path::new(env!("CARGO_BIN_EXE_safelight")).with_file_name("safelight-engine");
    launcher.set_executable(beside);
    let (folder, patience) = (tempfile::tempdir().unwrap(), Duration::from_mins(2));
    let rig = WorkerHarness::launching(patience, folder, launcher, FakeState::default());
    rig.send(request.into(), DeviceChoice::Cpu, None);
    let (updates, outcome) = rig.hear();
    finished(outcome);
    let sizes = updates.iter().filter_map(|update| match update {
        JobUpdate::Preview(frame) => Some((frame.image.width, frame.image.height)),
        _ => None,
    });
    sizes.collect()
}
