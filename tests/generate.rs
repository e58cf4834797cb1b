//! `safelight generate` as a whole program, with the real engine on the tiny model.

mod changing;
mod depth;
mod disk;
mod faults;
mod grids;
mod inputs;
mod interpolate;
mod ladder;
mod loras;
mod neighbour;
mod prelude;
mod private;
mod ranks;
mod several;
mod upscale;
mod upscale_formats;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use safelight_core::media;
use serde_json::Value;

use crate::common::{
    Home, assert_failed, assert_finished, copy_folder, events, events_of, tiny_model,
};

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// Output of a job of the tiny model that finishes. `arguments`: separated by spaces.
fn makes(home: &Home, arguments: &str) -> Output {
    let output = run(home.generate().args(arguments.split(' ')));
    assert_finished(&output);
    output
}

fn message(event: &Value) -> &str {
    event["message"].as_str().expect("a message")
}

fn settings(home: &Home, name: &str) -> Value {
    let text = media::read_settings(&home.path().join(name)).unwrap();
    serde_json::from_str(&text.expect("it carries some")).unwrap()
}

/// Has the engine struck once by this fault, where it is not empty.
fn strike(command: &mut Command, home: &Home, fault: &str, name: &str) {
    if !fault.is_empty() {
        let marker = home.path().join(name).with_extension("struck");
        let fault = format!("{fault}:{}", marker.display());
        command.env("SAFELIGHT_ENGINE_FAULT", fault);
    }
}

fn kept_job(home: &Home) -> std::path::PathBuf {
    let mut folders = home.job_folders();
    assert_eq!(folders.len(), 1, "{folders:?}");
    folders.remove(0)
}

fn test_image(path: &Path, width: u32, height: u32) {
    let pixel = |x: u32, y: u32| image::Rgb([(x * 3) as u8, (y * 5) as u8, 90]);
    let image = image::RgbImage::from_fn(width, height, pixel);
    image.save(path).unwrap();
}

#[test]
fn a_prompt_becomes_a_video_that_carries_its_settings_and_repeats_exactly() {
    let home = Home::new();
    let output = makes(&home, "--out video.mp4");
    assert_eq!(assert_finished(&output)["frames"], 5);
    let all = events(&output);
    for kind in ["stage", "step", "memory", "finished"] {
        assert!(all.iter().any(|event| event["event"] == kind), "no {kind}");
    }
    let request = settings(&home, "video.mp4")["request"].clone();
    assert_eq!(request["prompt"], "a small red fox");
    assert!(home.job_folders().is_empty(), "nothing is left of the job");

    for out in ["a.png", "b.png"] {
        assert_finished(&run(&mut home.repeat("video.mp4", out)));
    }
    let first = fs::read(home.path().join("a_0001.png")).unwrap();
    let image = media::open_rgb(&home.path().join("a_0005.png")).unwrap();
    let again = media::open_rgb(&home.path().join("b_0005.png")).unwrap();
    assert!(!first.is_empty());
    assert_eq!(image, again);
}

#[test]
fn start_image_is_encoded_with_and_without_a_mask_for_a_gif_and_a_webp() {
    let home = Home::new();
    for name in ["start.png", "mask.png"] {
        test_image(&home.path().join(name), 100, 70);
    }
    for more in ["--out video.gif", "--out video.webp --mask mask.png"] {
        let output = makes(&home, &format!("--image start.png {more}"));
        let all = events(&output);
        assert!(all.iter().any(|event| event["stage"] == "encode_image"));
    }
}

#[test]
fn invalid_arguments_are_refused_with_exit_code_2_and_the_expected_value() {
    let home = Home::new();
    test_image(&home.path().join("whole.png"), 64, 32);
    let whole = fs::read(home.path().join("whole.png")).unwrap();
    fs::write(home.path().join("cut.png"), &whole[..whole.len() / 2]).unwrap();
    fs::write(home.path().join("text.png"), "not an image").unwrap();
    let cut = "\0\0\0\x14ftypisom\0\0\0\0isom\0\0\x10\0moov";
    fs::write(home.path().join("cut.mp4"), cut).unwrap();
    fs::create_dir(home.path().join("seq.json")).unwrap();
    for (arguments, expected) in [
        ("--mask whole.png", "a mask needs a start image"),
        ("--schedule linear", "exponential"),
        ("--frames 4294967295", "4n+1"),
        ("--width 4096 --height 64", "3840"),
        ("--out seq.mp4 --sidecar", "seq.json"),
        ("--capture cut.png/folder", "capture"),
        ("--width 0", "multiple of"),
        ("--frames 0", "4n+1"),
        ("--start-step 2", "below the end step 2"),
        ("--end-step 3", "between 1 and 2"),
        ("--vae-tile 63", "between 64"),
        ("--preset slow", "has none"),
        ("--sampler dpm", "dpmpp_2m"),
        ("--last-image whole.png", "does not use end images"),
        ("--extend text.png", "a text file"),
        ("--extend whole.png", "without a number"),
        ("--extend none.mp4", "none.mp4"),
        ("--extend cut.mp4", "is incomplete"),
        ("--steps 0", "between 1 and 1000"),
        ("--guidance -3", "between 0 and 100"),
        ("--image cut.png", "cut.png"),
        ("--image text.png", "text.png"),
        ("--image none.png", "none.png"),
        ("--out video.avi", ".mp4"),
        ("--out no/such/folder/video.mp4", "folder"),
        ("--device cuda:7", "cuda:7"),
        ("--device tpu", ""),
        ("--steps many", ""),
        ("--no-such-thing", ""),
        (
            "--image whole.png --source-video whole.png",
            "a video that is changed stands alone",
        ),
    ] {
        let mut command = home.generate();
        if !arguments.contains("--out ") {
            command.args(["--out", "video.mp4"]);
        }
        let output = run(command.args(arguments.split(' ')));
        assert_failed(&output, 2, expected);
        assert!(!home.path().join("video.mp4").exists(), "{arguments}");
    }
    assert!(home.job_folders().is_empty(), "nothing was made");
}

#[test]
fn a_model_that_is_missing_or_damaged_is_named_with_exit_code_3() {
    let home = Home::new();
    let damaged = |name: &str, damage: &dyn Fn(&Path)| {
        let folder = home.path().join(name);
        copy_folder(&tiny_model(), &folder);
        damage(&folder);
        folder
    };
    let weights = "transformer/diffusion_pytorch_model.safetensors";
    let without = |part: &'static str| {
        damaged(part, &|folder| {
            fs::remove_dir_all(folder.join(part)).unwrap();
        })
    };
    let cut = damaged("cut", &|folder| {
        let bytes = fs::read(folder.join(weights)).unwrap();
        fs::write(folder.join(weights), &bytes[..bytes.len() - 100]).unwrap();
    });
    let misshapen = damaged("mis-shaped", &|folder| {
        let config = folder.join("transformer/config.json");
        let text = fs::read_to_string(&config).unwrap();
        let text = text.replace("\"ffn_dim\": ", "\"ffn_dim\": 1");
        fs::write(config, text).unwrap();
    });
    for (folder, expected) in [
        (home.path().join("nowhere"), "nowhere"),
        (without("vae"), "vae"),
        (without("tokenizer"), "tokenizer"),
        (cut, "diffusion_pytorch_model.safetensors"),
        (misshapen, "diffusion_pytorch_model.safetensors"),
    ] {
        let mut command = home.generate();
        command.args(["--out", "video.mp4", "--model"]).arg(folder);
        assert_failed(&run(&mut command), 3, expected);
        assert!(!home.path().join("video.mp4").exists());
    }
}

#[test]
fn broken_settings_file_is_reported_and_left_unchanged() {
    let home = Home::new();
    let file = home.write_settings("[output\n");
    let output = makes(&home, "--out video.mp4");
    assert!(message(&events_of(&output, "warning")[0]).contains("settings.toml"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "[output\n");
}

#[test]
fn a_runtime_folder_without_libtorch_is_named() {
    let home = Home::new();
    let mut command = home.generate();
    command.env("SAFELIGHT_LIBTORCH", home.path().join("nothing-here"));
    assert_failed(&run(&mut command), 1, "libtorch_cpu.so");
}

#[test]
fn a_capture_holds_every_stage_under_the_references_names() {
    let home = Home::new();
    makes(&home, "--out video.mp4 --capture captured");
    let bytes = fs::read(home.path().join("captured/capture.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let names = tensors.names();
    let expected = "tokenizer.prompt.input_ids prompt_embeds negative_prompt_embeds noise.0 \
        latents.initial timesteps sigmas step.00.transformer.cond step.01.latents latents.final \
        vae.decode.0.input pixels output_u8";
    for name in expected.split(' ') {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}
