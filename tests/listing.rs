//! `safelight models`, `inspect` and `doctor` as a user starts them.
//!
//! What each check says is tested beside it; here it is what comes out of the program, and its codes.

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use safelight_core::media::{RgbPixels, VideoOptions, media_info, write_video};
use serde_json::{Value, json};

use crate::common::{Home, assert_says, copy_folder, networks, object, text, tiny_model};

/// Without a prepared libtorch too.
fn safelight(home: &Home) -> Command {
    let mut command = home.bare();
    command.env_remove("SAFELIGHT_CACHE");
    command
}

fn run(home: &Home, args: &[&str]) -> Output {
    safelight(home).args(args).output().unwrap()
}

#[test]
fn partial_files_of_a_killed_process_are_removed_at_the_next_start() {
    let home = Home::new();
    // No process has this number.
    let names = [
        "data/safelight/telemetry/.1.json",
        "config/safelight/.settings.toml",
    ];
    let left = names.map(|name| home.path().join(format!("{name}.4194305.partial")));
    for path in &left {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "{").unwrap();
    }
    run(&home, &["models", "--json"]);
    assert!(left.iter().all(|path| !path.exists()));
}

#[test]
fn models_command_lists_installed_and_known_models_and_searched_folders() {
    let home = Home::new();
    let tiny = home.path().join("data/safelight/models/tiny");
    copy_folder(&tiny_model(), &tiny);
    let output = run(&home, &["models", "--json"]);
    assert_eq!(output.status.code(), Some(0));
    let listed = object(&output);
    assert_eq!(listed["available"][0]["name"], "tiny");
    assert_eq!(listed["available"][0]["limits"]["size_multiple"], 32);
    let missing = listed["missing"].as_array().unwrap().iter();
    let ids: Vec<&str> = missing.map(|entry| entry["id"].as_str().unwrap()).collect();
    assert_eq!(ids[0], "little-world");
    for id in ["wan2.2-ti2v-5b", "flux1-dev", "z-image-turbo"] {
        assert!(ids.contains(&id), "{ids:?}");
    }
    assert_eq!(listed["problems"], json!([]));

    let output = run(&home, &["models"]);
    let shown = assert_says(&output.stdout, "tiny|get 3 files, 16.9 GiB|(not there)");
    assert!(shown.is_ascii(), "{shown}");
}

#[test]
fn inspect_describes_a_folder_or_file_and_fails_if_it_is_incomplete() {
    let home = Home::new();
    let whole = tiny_model();
    let output = run(&home, &["inspect", "--json", &whole.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(0));
    let card = object(&output);
    assert_eq!(card["is_runnable"], json!(true));
    assert_eq!(card["variant"], json!("TI2V"));
    assert_eq!(card["components"].as_array().unwrap().len(), 3);

    let broken = home.path().join("broken");
    copy_folder(&whole, &broken);
    let weights = broken.join("transformer/diffusion_pytorch_model.safetensors");
    let bytes = fs::read(&weights).unwrap();
    fs::write(&weights, &bytes[..bytes.len() - 100]).unwrap();
    let output = run(&home, &["inspect", "broken"]);
    assert_eq!(output.status.code(), Some(3));
    assert_says(&output.stdout, "cut off|not whole");

    let file = whole.join("vae/diffusion_pytorch_model.safetensors");
    let output = run(&home, &["inspect", &file.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(0));
    assert_says(&output.stdout, "a Wan VAE");
}

#[test]
fn inspect_names_the_command_for_upscale_and_interpolation_networks() {
    let home = Home::new();
    let place = |name: &str| home.path().join(name);
    networks::write_upscaler(&place("enlarge.safetensors"));
    networks::write_interpolator(&place("rife.safetensors"));
    for (name, uses) in [
        ("enlarge.safetensors", "`safelight upscale --model`"),
        ("rife.safetensors", "`safelight interpolate --model`"),
    ] {
        let output = run(&home, &["inspect", name]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        assert_says(&output.stdout, uses);
    }
}

#[test]
fn inspect_reports_whether_loras_and_text_encoders_can_be_used() {
    let home = Home::new();
    let two = |layer: &str| {
        ["lora_down", "lora_up"]
            .map(|part| (format!("lora_unet_{layer}.{part}.weight"), vec![4, 4]))
    };
    let video = [
        ("text_model.encoder.layers.0.mlp.fc1.weight", 8),
        ("text_model.embeddings.token_embedding.weight", 1024),
    ];
    let video = video.map(|(name, width)| (name.to_owned(), vec![4, width]));
    let foreign = "Stable Diffusion 1.5 or 2, rank 4, in the names of kohya; Safelight does not support models of this family";
    let used = "use it with `safelight generate --lora`";
    let unused = "a CLIP-H text encoder; no model that Safelight runs uses it";
    for (tensors, part) in [
        (two("input_blocks_1_1_proj_in"), foreign),
        (two("double_blocks_0_img_attn_proj"), used),
        (video, unused),
    ] {
        networks::write_zeros(&home.path().join("a.safetensors"), tensors);
        let output = run(&home, &["inspect", "a.safetensors"]);
        assert_eq!(output.status.code(), Some(0));
        assert_says(&output.stdout, part);
    }
}

#[test]
fn inspect_of_a_missing_path_or_pickle_fails_with_the_reason() {
    let home = Home::new();
    fs::write(home.path().join("a.ckpt"), b"\x80\x02").unwrap();
    for (name, part) in [
        ("none/at/all", "no file or folder"),
        ("a.ckpt", "pickle"),
        ("word", "available: "),
    ] {
        let output = run(&home, &["inspect", name]);
        assert_eq!(output.status.code(), Some(3), "{name}");
        assert!(output.stdout.is_empty());
        assert_says(&output.stderr, part);
        let output = run(&home, &["inspect", name, "--json"]);
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(object(&output)["exit_code"], 3);
    }
    assert_eq!(run(&home, &["inspect"]).status.code(), Some(2));
}

#[test]
fn doctor_without_libtorch_fails_with_the_reason_and_runs_other_checks() {
    let home = Home::new();
    let mut command = safelight(&home);
    command.env("SAFELIGHT_LIBTORCH", home.path().join("nowhere"));
    let output = command.args(["doctor", "--json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let report = object(&output);
    assert_eq!(report["status"], "fail");
    let checks = report["checks"].as_array().unwrap();
    let named = |name: &str| checks.iter().find(|check| check["name"] == name);
    let libtorch = named("libtorch").unwrap()["message"].as_str().unwrap();
    assert!(libtorch.contains("SAFELIGHT_LIBTORCH"), "{libtorch}");
    assert!(named("engine").is_none());
    for name in "settings gpu environment models output disk memory".split(' ') {
        assert!(named(name).is_some(), "{name}");
    }
}

#[test]
fn a_reader_that_goes_away_early_is_no_failure() {
    let home = Home::new();
    let mut command = safelight(&home);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.arg("models").spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn resume_lists_resumable_jobs_and_refuses_others() {
    let home = Home::new();
    let output = run(&home, &["resume"]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    assert!(shown.starts_with("There is no job to resume"), "{shown}");

    let sections = json!({"count": 2, "window": 9, "order": "original", "lead": 1});
    let request = json!({
        "model": "framepack-i2v", "family": "framepack", "prompt": "a dancer turns", "negative_prompt": "",
        "image": "dancer.png", "width": 640, "height": 608, "num_frames": 73, "sections": sections,
        "fps": 30.0, "num_steps": 25, "guidance_scale": 10.0, "sampler": "unipc_bh1", "seed": 3,
        "out": "/videos/dancer.mp4",
    });
    let folder = home.path().join("data/safelight/jobs/1700000000000000");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("request.json"), request.to_string()).unwrap();
    fs::write(folder.join("latents.safetensors"), "").unwrap();
    let listed = object(&run(&home, &["resume", "--json"]));
    let job = &listed["jobs"][0];
    assert_eq!(job["job"], "1700000000000000");
    // Text, image, a look at it, and the first of two sections denoised.
    assert_eq!((&job["finished"], &job["stages"]), (&json!(4), &json!(10)));
    assert_eq!(job["prompt"], "a dancer turns");
    let shown = text(&run(&home, &["resume"]).stdout);
    assert!(shown.contains("1 of 2 sections"), "{shown}");
    assert!(shown.contains("/videos/dancer.mp4"), "{shown}");

    let output = run(&home, &["resume", "17"]);
    assert_eq!(output.status.code(), Some(2));
    assert_says(&output.stderr, "this job cannot be resumed");
}

#[test]
fn inspect_shows_the_settings_of_a_file_from_another_program() {
    let home = Home::new();
    let settings = r#"{"prompt": "a boat", "seed": 5, "steps": 25, "gs": 9.5, "model_type": "F1", "total_second_length": 4, "loras": {"ink": 0.5}}"#;
    fs::write(home.path().join("video.json"), settings).unwrap();
    let output = run(&home, &["inspect", "video.json"]);
    assert_eq!(output.status.code(), Some(0));
    assert_says(
        &output.stdout,
        "made with FramePack Studio|prompt: a boat|seed: 5|LoRAs: ink (0.5)",
    );
    let card = object(&run(&home, &["inspect", "--json", "video.json"]));
    assert_eq!(card["settings"]["distilled_guidance"], json!(9.5));
    let output = run(&home, &["generate", "--from", "video.json"]);
    assert_eq!(output.status.code(), Some(3));
    assert_says(&output.stderr, "this computer has no model of that family");
}

#[test]
fn inspect_writes_a_result_of_safelight_as_a_comfyui_workflow() {
    let home = Home::new();
    let request = json!({
        "model": "some-model", "family": "z_image", "prompt": "a boat", "negative_prompt": "", "width": 1024,
        "height": 768, "num_frames": 1, "fps": 16.0, "num_steps": 8, "guidance_scale": 1.0, "sampler": "euler",
        "seed": 7, "shift": 3.0, "batch_size": 2,
    });
    let ours = json!({"app": "Safelight", "version": "0", "request": request});
    fs::write(home.path().join("boat.json"), ours.to_string()).unwrap();
    let output = run(&home, &["inspect", "boat.json", "--comfyui"]);
    assert_eq!(output.status.code(), Some(0));
    assert_says(&output.stderr, "only its first image is the same");
    // It is read as any other workflow.
    fs::write(home.path().join("workflow.json"), &output.stdout).unwrap();
    let card = object(&run(&home, &["inspect", "--json", "workflow.json"]));
    assert_eq!(card["tool"], "ComfyUI");
    for settings in [&card["settings"], &card["outputs"][0]["settings"]] {
        assert_eq!(settings["prompt"], "a boat");
        assert_eq!(settings["seed"], 7);
    }
    let json = object(&run(
        &home,
        &["inspect", "boat.json", "--comfyui", "--json"],
    ));
    assert!(json["workflow"].is_object() && json["notes"].is_array());
    let output = run(&home, &["inspect", "workflow.json", "--comfyui"]);
    assert_eq!(output.status.code(), Some(2));
    assert_says(&output.stderr, "was not made with Safelight");
}

#[test]
fn an_output_that_a_file_does_not_make_is_refused() {
    let home = Home::new();
    let settings = r#"{"prompt": "a boat", "seed": 5, "steps": 4, "total_second_length": 4}"#;
    fs::write(home.path().join("video.json"), settings).unwrap();
    let output = run(
        &home,
        &["generate", "--from", "video.json", "--output", "2"],
    );
    assert_says(&output.stderr, "--output is 2, and the file makes 1 result");
}

#[test]
fn a_file_without_a_readable_prompt_needs_one() {
    let home = Home::new();
    let settings = r#"{"seed": 5, "steps": 4, "total_second_length": 4}"#;
    fs::write(home.path().join("video.json"), settings).unwrap();
    let shown = text(&run(&home, &["inspect", "video.json"]).stdout);
    let needed = "The file has no prompt: write one";
    assert!(shown.contains(needed), "{shown}");
    let assets = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut command = safelight(&home);
    command.args("generate --from video.json --model little-world".split(' '));
    let output = command.env("SAFELIGHT_ASSETS", assets).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert_says(&output.stderr, "a prompt is needed");
}

#[test]
fn inspect_shows_the_settings_and_error_of_a_truncated_image() {
    let home = Home::new();
    let icon = include_bytes!("../assets/icons/safelight-256.png");
    let parameters = b"tEXtparameters\0a boat\nSteps: 20, Sampler: Euler, CFG scale: 7, Seed: 5";
    let length = (parameters.len() as u32 - 4).to_be_bytes();
    let parts = [&icon[..33], &length, parameters, &[0; 4], &icon[33..200]];
    fs::write(home.path().join("cut.png"), parts.concat()).unwrap();
    let output = run(&home, &["inspect", "cut.png"]);
    assert_eq!(output.status.code(), Some(2));
    assert_says(&output.stdout, "prompt: a boat|this PNG file is incomplete");
}

#[test]
fn inspect_of_files_without_settings_does_not_treat_them_as_models() {
    let home = Home::new();
    let write = |name: &str, bytes: &[u8]| fs::write(home.path().join(name), bytes).unwrap();
    let icon = include_bytes!("../assets/icons/safelight-256.png");
    write("nothing.png", icon);
    write("nothing", icon);
    write("other.json", b"{\"a\": 1}");
    write("empty.png", b"");
    write("plain.mp4", b"\0\0\0\x18ftypisom");
    let large = format!("{{\"a\": \"{}\"}}", "x".repeat(30_000_000));
    write("large.json", large.as_bytes());
    for name in ["nothing.png", "nothing"] {
        let output = run(&home, &["inspect", name]);
        let said = text(&output.stdout);
        let facts = format!("{name}\n  image of 256 × 256 pixels\n");
        assert!(said.starts_with(&facts), "{said}");
        assert!(said.ends_with("\n  holds no settings\n"), "{said}");
        assert_eq!(output.status.code(), Some(0), "{name}");
        let card = object(&run(&home, &["inspect", "--json", name]));
        assert_eq!(card["tool"], Value::Null);
        assert!(find(&card["facts"], "256 × 256"), "{card}");
    }
    for (name, part) in [
        ("other.json", "does not say how it was made"),
        ("empty.png", "empty"),
        ("plain.mp4", "plain.mp4"),
        ("large.json", "at most 16 MiB, but are 29 MiB"),
    ] {
        let output = run(&home, &["inspect", name]);
        let said = assert_says(&output.stderr, part);
        assert!(!said.contains("model,"), "{name}: {said}");
        assert_eq!(output.status.code(), Some(2), "{name}");
    }
}

#[test]
fn a_folder_whose_name_steers_a_terminal_is_spelled_out_and_programs_get_it_whole() {
    let home = Home::new();
    let name = "a\u{1b}]0;owned\u{7}b\u{202e}c";
    let models = home.path().join("models");
    fs::create_dir(&models).unwrap();
    copy_folder(&tiny_model(), &models.join(name));
    let folder = models.display().to_string();
    home.write_settings(&format!("models.folders = [{folder:?}]\n"));
    let shown = text(&run(&home, &["models"]).stdout);
    assert!(shown.contains(r"a\u{1b}]0;owned\u{7}b\u{202e}c"), "{shown}");
    let printed = text(&run(&home, &["models", "--json"]).stdout);
    for shown in [shown, printed.clone()] {
        assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown}");
    }
    let listed: Value = serde_json::from_str(&printed).unwrap();
    let folder = models.join(name).display().to_string();
    assert!(find(&listed, &folder), "{listed}");
}

fn find(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text.contains(wanted),
        Value::Array(values) => values.iter().any(|value| find(value, wanted)),
        Value::Object(values) => values.values().any(|value| find(value, wanted)),
        _ => false,
    }
}

#[test]
fn a_part_of_a_video_is_exported_in_another_format_and_the_original_stays() {
    let home = Home::new();
    let frame = |index: u8| RgbPixels::from_fn(32, 32, |_, _| [index * 20, 90, 60]).unwrap();
    let frames: Vec<RgbPixels> = (0..10).map(frame).collect();
    let options = VideoOptions {
        fps: 8.0,
        ..VideoOptions::default()
    };
    write_video(&home.path().join("boat.webp"), &frames, options).unwrap();
    let export = |arguments: &str| {
        let mut command = safelight(&home);
        command.current_dir(home.path()).arg("export");
        command.args(arguments.split(' ')).output().unwrap()
    };
    let output = export("boat.webp --from 0.25 --to 0.75 --as gif");
    assert_says(&output.stdout, "boat_0003-0006.gif");
    let info = media_info(&home.path().join("boat_0003-0006.gif")).unwrap();
    assert_eq!(info.num_frames, 4);
    let made = object(&export("boat.webp --as png --json"));
    assert_eq!(made["frames"], 10);
    assert!(home.path().join("boat").is_dir() && home.path().join("boat.webp").exists());
    let output = export("boat.webp --from 5");
    assert_eq!(output.status.code(), Some(2));
    let expected = "no frame is shown from 5 s to 1.25 s|Choose a part of the video, which lasts";
    assert_says(&output.stderr, expected);
}
