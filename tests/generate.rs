//! `safelight generate` as a whole program, with the real engine on the tiny model.

mod changing;
mod disk;
mod faults;
mod grids;
mod inputs;
mod interpolate;
mod ladder;
mod loras;
mod neighbour;
mod outpaint;
mod prelude;
mod private;
mod several;
mod upscale;
mod upscale_formats;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use safelight_core::media;
use serde_json::Value;

use crate::common::{Home, end, events, tiny_model};

fn run(command: &mut Command) -> Output {
    command.output().unwrap()
}

/// What the last event says, of a job that must have finished.
fn assert_finished(output: &Output) -> Value {
    let (last, code) = end(output);
    assert_eq!(
        (last["event"].as_str(), code),
        (Some("finished"), 0),
        "{last}"
    );
    last
}

fn test_picture(path: &Path, width: u32, height: u32) {
    image::RgbImage::from_fn(width, height, |x, y| {
        image::Rgb([(x * 3) as u8, (y * 5) as u8, 90])
    })
    .save(path)
    .unwrap();
}

#[test]
fn a_prompt_becomes_a_clip_that_carries_its_settings_and_repeats_exactly() {
    let home = Home::new();
    let output = run(home.generate().args(["--out", "clip.mp4"]));
    assert_eq!(assert_finished(&output)["frames"], 5);
    let all = events(&output);
    for kind in ["stage", "step", "memory", "finished"] {
        assert!(all.iter().any(|event| event["event"] == kind), "no {kind}");
    }
    let settings = media::read_settings(&home.path().join("clip.mp4"))
        .unwrap()
        .unwrap();
    assert!(settings.contains("a small red fox"));
    assert!(
        home.job_folders().is_empty(),
        "a finished job leaves nothing behind"
    );

    for out in ["a.png", "b.png"] {
        let repeated = run(home.safelight().args([
            "generate", "--json", "--device", "cpu", "--from", "clip.mp4", "--out", out,
        ]));
        assert_eq!(end(&repeated).1, 0);
    }
    let first = fs::read(home.path().join("a_0001.png")).unwrap();
    let picture = media::open_picture(&home.path().join("a_0005.png")).unwrap();
    let again = media::open_picture(&home.path().join("b_0005.png")).unwrap();
    assert!(!first.is_empty());
    assert_eq!(picture, again);
}

#[test]
fn every_kind_of_file_can_be_written() {
    let home = Home::new();
    for name in ["clip.gif", "clip.webp", "picture.png"] {
        let mut command = home.generate();
        if name == "picture.png" {
            command.args(["--frames", "1"]);
        }
        let output = run(command.args(["--out", name]));
        assert_eq!(
            end(&output).1,
            0,
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(home.path().join(name).exists(), "{name}");
    }
}

#[test]
fn a_start_picture_steers_the_clip() {
    let home = Home::new();
    test_picture(&home.path().join("start.png"), 100, 70);
    let output = run(home
        .generate()
        .args(["--image", "start.png", "--out", "clip.mp4"]));
    let all = events(&output);
    assert_eq!(end(&output).1, 0, "{:?}", end(&output).0);
    assert!(all.iter().any(|event| event["stage"] == "encode_image"));
}

#[test]
fn a_mask_says_which_part_of_the_start_picture_moves() {
    let home = Home::new();
    test_picture(&home.path().join("start.png"), 100, 70);
    test_picture(&home.path().join("mask.png"), 100, 70);
    let given = ["--image", "start.png", "--mask", "mask.png"];
    let output = run(home.generate().args(given).args(["--out", "clip.mp4"]));
    assert_eq!(end(&output).1, 0, "{:?}", end(&output).0);
    assert!(home.path().join("clip.mp4").exists());
}

#[test]
fn bad_arguments_are_refused_with_what_was_expected_and_exit_code_2() {
    let home = Home::new();
    test_picture(&home.path().join("whole.png"), 64, 32);
    let whole = fs::read(home.path().join("whole.png")).unwrap();
    fs::write(home.path().join("cut.png"), &whole[..whole.len() / 2]).unwrap();
    fs::write(home.path().join("text.png"), "not a picture").unwrap();
    fs::write(
        home.path().join("cut.mp4"),
        "\0\0\0\x14ftypisom\0\0\0\0isom\0\0\x10\0moov",
    )
    .unwrap();
    fs::create_dir(home.path().join("seq.json")).unwrap();
    let cases: [(&[&str], &str); 26] = [
        (&["--mask", "whole.png"], "a mask needs a start picture"),
        (&["--schedule", "linear"], "exponential"),
        (&["--frames", "4294967295"], "4n+1"),
        (&["--width", "4096", "--height", "64"], "3840"),
        (&["--out", "seq.mp4", "--sidecar"], "seq.json"),
        (&["--capture", "cut.png/folder"], "capture"),
        (&["--width", "0"], "multiple of"),
        (&["--frames", "0"], "4n+1"),
        (&["--start-step", "2"], "below the end step 2"),
        (&["--end-step", "3"], "between 1 and 2"),
        (&["--vae-tile", "63"], "between 64"),
        (&["--preset", "slow"], "has none"),
        (&["--sampler", "dpm"], "dpmpp_2m"),
        (&["--last-image", "whole.png"], "does not use end pictures"),
        (&["--extend", "text.png"], "a text file"),
        (&["--extend", "whole.png"], "without a number"),
        (&["--extend", "none.mp4"], "none.mp4"),
        (&["--extend", "cut.mp4"], "is incomplete"),
        (&["--steps", "0"], "between 1 and 1000"),
        (&["--guidance", "-3"], "between 0 and 100"),
        (&["--image", "cut.png"], "cut.png"),
        (&["--image", "text.png"], "text.png"),
        (&["--image", "none.png"], "none.png"),
        (&["--out", "clip.avi"], ".mp4"),
        (&["--out", "no/such/folder/clip.mp4"], "folder"),
        (&["--device", "cuda:7"], "cuda:7"),
    ];
    for (arguments, expected) in cases {
        let mut command = home.generate();
        if !arguments.contains(&"--out") {
            command.args(["--out", "clip.mp4"]);
        }
        let output = run(command.args(arguments));
        let (last, code) = end(&output);
        assert_eq!(
            (last["event"].as_str(), code),
            (Some("failed"), 2),
            "{arguments:?}: {last}"
        );
        let message = last["message"].as_str().unwrap();
        assert!(message.contains(expected), "{arguments:?}: {message}");
        assert!(!home.path().join("clip.mp4").exists());
    }
    assert!(
        home.job_folders().is_empty(),
        "nothing was made, so nothing is kept"
    );
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
    let cases = [
        (home.path().join("nowhere"), "nowhere"),
        (
            damaged("no-vae", &|dir| {
                fs::remove_dir_all(dir.join("vae")).unwrap();
            }),
            "vae",
        ),
        (
            damaged("no-tokenizer", &|dir| {
                fs::remove_dir_all(dir.join("tokenizer")).unwrap();
            }),
            "tokenizer",
        ),
        (
            damaged("cut", &|dir| {
                let bytes = fs::read(dir.join(weights)).unwrap();
                fs::write(dir.join(weights), &bytes[..bytes.len() - 100]).unwrap();
            }),
            "diffusion_pytorch_model.safetensors",
        ),
        (
            damaged("mis-shaped", &|dir| {
                let config = fs::read_to_string(dir.join("transformer/config.json")).unwrap();
                fs::write(
                    dir.join("transformer/config.json"),
                    config.replace("\"ffn_dim\": ", "\"ffn_dim\": 1"),
                )
                .unwrap();
            }),
            "diffusion_pytorch_model.safetensors",
        ),
    ];
    for (folder, expected) in cases {
        let folder_text = folder.display().to_string();
        let output = run(home
            .generate()
            .args(["--model", &folder_text, "--out", "clip.mp4"]));
        let (last, code) = end(&output);
        assert_eq!(
            (last["event"].as_str(), code),
            (Some("failed"), 3),
            "{folder_text}: {last}"
        );
        let message = last["message"].as_str().unwrap();
        assert!(message.contains(expected), "{folder_text}: {message}");
        assert!(!home.path().join("clip.mp4").exists());
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn arguments_that_cannot_be_understood_are_a_failed_event_too() {
    let home = Home::new();
    for arguments in [
        &["--device", "tpu"][..],
        &["--steps", "many"],
        &["--no-such-thing"],
    ] {
        let (last, code) = end(&run(home.generate().args(arguments)));
        assert_eq!(
            (last["event"].as_str(), code),
            (Some("failed"), 2),
            "{arguments:?}: {last}"
        );
    }
}

#[test]
fn a_broken_settings_file_is_told_and_left_as_it_is() {
    let home = Home::new();
    let file = home.path().join("config/safelight/settings.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "[output\n").unwrap();
    let output = run(home.generate().args(["--out", "clip.mp4"]));
    assert_eq!(end(&output).1, 0);
    let warning = events(&output)
        .into_iter()
        .find(|event| event["event"] == "warning")
        .unwrap();
    assert!(
        warning["message"]
            .as_str()
            .unwrap()
            .contains("settings.toml"),
        "{warning}"
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), "[output\n");
}

#[test]
fn results_without_a_name_never_replace_each_other() {
    let home = Home::new();
    for _ in 0..2 {
        assert_eq!(end(&run(&mut home.generate())).1, 0);
    }
    let clips = fs::read_dir(home.path()).unwrap().flatten();
    let clips = clips.filter(|entry| entry.path().extension().is_some_and(|kind| kind == "mp4"));
    assert_eq!(clips.count(), 2);
}

#[test]
fn a_runtime_folder_without_libtorch_is_named() {
    let home = Home::new();
    let output = run(home
        .generate()
        .args(["--out", "clip.mp4"])
        .env("SAFELIGHT_LIBTORCH", home.path().join("nothing-here")));
    let (last, code) = end(&output);
    assert_eq!(code, 1, "{last}");
    assert!(
        last["message"]
            .as_str()
            .unwrap()
            .contains("libtorch_cpu.so"),
        "{last}"
    );
}

#[test]
fn a_capture_holds_every_stage_under_the_references_names() {
    let home = Home::new();
    let output = run(home
        .generate()
        .args(["--out", "clip.mp4", "--capture", "captured"]));
    assert_eq!(end(&output).1, 0, "{:?}", end(&output).0);
    let bytes = fs::read(home.path().join("captured/capture.safetensors")).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let names = tensors.names();
    for name in [
        "tokenizer.prompt.input_ids",
        "prompt_embeds",
        "negative_prompt_embeds",
        "noise.0",
        "latents.initial",
        "timesteps",
        "sigmas",
        "step.00.transformer.cond",
        "step.01.latents",
        "latents.final",
        "vae.decode.0.input",
        "pixels",
        "output_u8",
    ] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
}
