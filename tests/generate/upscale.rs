//! `safelight upscale` as a whole program, with the real engine and a network of a few numbers.
//!
//! A compact network without weights gives its image's nearest pixels, four times as large: every result is known.

use std::io::{BufRead as _, BufReader};

use crate::common::networks::{write_upscaler, write_zeros};
use crate::generate::prelude::*;
use rustix::process::{Pid, Signal, kill_process};

pub(super) fn network(home: &Home, name: &str) {
    write_upscaler(&home.path().join(name));
}

pub(super) fn with_network() -> Home {
    let home = Home::new();
    network(&home, "net.safetensors");
    home
}

/// Noise, each frame another.
pub(super) fn frame(index: u32, width: u32, height: u32) -> RgbPixels {
    let at = |x: u32, y: u32| x.wrapping_mul(97) ^ y.wrapping_mul(57) ^ index.wrapping_mul(31);
    let pixel = |x, y| [at(x, y) as u8, (at(x, y) >> 1) as u8, (x * 5) as u8];
    RgbPixels::from_fn(width, height, pixel).expect("it has pixels")
}

pub(super) fn upscale(home: &Home) -> Command {
    let mut command = home.safelight();
    command.args("upscale --json --device cpu --model net.safetensors".split(' '));
    command
}

fn assert_is_nearest(large: &RgbPixels, small: &RgbPixels) {
    let size = (small.width * 4, small.height * 4);
    assert_eq!((large.width, large.height), size);
    for (x, y) in [(0, 0), (7, 5), (large.width - 1, large.height - 1)] {
        assert_eq!(large.pixel(x, y), small.pixel(x / 4, y / 4), "{x} {y}");
    }
    let all = RgbPixels::from_fn(large.width, large.height, |x, y| small.pixel(x / 4, y / 4));
    assert_eq!(*large, all.expect("it has pixels"));
}

pub(super) fn write_fox(home: &Home, name: &str, frames: &[RgbPixels]) {
    let options = VideoOptions {
        fps: 10.0,
        settings: Some(r#"{"app":"Safelight","request":{"prompt":"a red fox"}}"#.to_owned()),
        ..VideoOptions::default()
    };
    media::write_video(&home.path().join(name), frames, options).expect("it is written");
}

/// The frames of a video of a fox, as they can be read of its file.
pub(super) fn fox_video(home: &Home, name: &str, frames: &[RgbPixels]) -> Vec<RgbPixels> {
    write_fox(home, name, frames);
    let read = media::open_video(&home.path().join(name)).expect("the same video");
    read.frames.iter().map(|frame| (**frame).clone()).collect()
}

fn video(home: &Home, count: u32) -> Vec<RgbPixels> {
    let frames: Vec<RgbPixels> = (0..count).map(|index| frame(index, 20, 14)).collect();
    fox_video(home, "small.gif", &frames)
}

pub(super) fn numbered(home: &Home, name: &str, count: usize) -> Vec<RgbPixels> {
    let paths = (1..=count).map(|number| home.path().join(format!("{name}_{number:04}.png")));
    let frames = paths.map(|path| media::open_rgb(&path));
    frames.collect::<Result<_, _>>().expect("all are there")
}

pub(super) fn assert_steps_increase(output: &Output) {
    let steps = events_of(output, "step");
    let steps: Vec<u64> = steps.iter().filter_map(|it| it["step"].as_u64()).collect();
    assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
}

#[test]
fn upscaled_image_has_the_requested_size_and_keeps_its_settings() {
    let home = with_network();
    let small = frame(0, 33, 21);
    write_fox(&home, "fox.png", std::slice::from_ref(&small));
    let output = run(upscale(&home).args(["fox.png", "--scale", "4"]));
    let last = assert_finished(&output);
    assert_eq!((&last["frames"], &last["seed"]), (&1.into(), &Value::Null));
    let large = home.path().join("fox_upscaled.png");
    assert_is_nearest(&media::open_rgb(&large).unwrap(), &small);
    let carried = settings(&home, "fox_upscaled.png");
    assert_eq!(carried["request"]["prompt"], "a red fox");
    assert_eq!(carried["finished"][0]["work"], "upscale");
    assert_eq!(carried["finished"][0]["after"]["width"], 132);
    assert!(home.job_folders().is_empty(), "nothing is left of the job");

    // Once more in tiles, to another size, and what was done before stays known.
    let again = "fox_upscaled.png --size 200x100 --tile 64".split(' ');
    assert_finished(&run(upscale(&home).args(again)));
    let wide = "fox_upscaled_upscaled.png";
    let image = media::open_rgb(&home.path().join(wide)).unwrap();
    assert_eq!((image.width, image.height), (200, 100));
    let finished = settings(&home, wide)["finished"].clone();
    assert_eq!(finished.as_array().unwrap().len(), 2);
}

#[test]
fn upscaled_video_is_identical_after_an_engine_crash() {
    let home = with_network();
    let small = video(&home, 7);
    let mut command = upscale(&home);
    command.args(["small.gif", "--scale", "4", "--out", "large.png"]);
    strike(&mut command, &home, "upscale@frames+4:kill", "large.png");
    let output = run(&mut command);
    let last = assert_finished(&output);
    assert!(home.path().join("large.struck").exists());
    assert_eq!(last["frames"], 7);
    assert_eq!(last["warnings"].as_array().map(Vec::len), Some(1), "{last}");
    assert_all_nearest(&home, &small);
    // Of each frame, the engine told once that it was made, but for those that died with it.
    assert_steps_increase(&output);
}

fn assert_all_nearest(home: &Home, small: &[RgbPixels]) {
    for (large, small) in numbered(home, "large", small.len()).iter().zip(small) {
        assert_is_nearest(large, small);
    }
}

/// Has its user stop the program while the engine hangs in the third frame of `small.gif`; the job's number.
fn stopped_in_its_third_frame(home: &Home) -> String {
    home.write_settings("[runtime]\ncancel_grace_secs = 1\n");
    let mut child = upscale(home)
        .args(["small.gif", "--scale", "4", "--out", "large.png"])
        .env("SAFELIGHT_ENGINE_FAULT", "upscale@frames+3:hang")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut lines = lines.map_while(Result::ok);
    let mut until = |sign: &str| lines.by_ref().any(|line| line.contains(sign));
    assert!(until("\"step\":2"));
    let pid = Pid::from_raw(child.id() as i32).expect("a process");
    kill_process(pid, Signal::INT).expect("it lives");
    assert!(until("\"cancelled\""));
    assert_eq!(child.wait().expect("it ends").code(), Some(5));
    let folder = kept_job(home);
    let number = folder.file_name().and_then(|name| name.to_str());
    number.expect("a number").to_owned()
}

fn resume(home: &Home, number: &str) -> Output {
    let arguments = ["resume", number, "--json", "--device", "cpu"];
    run(home.safelight().args(arguments))
}

#[test]
fn stopped_upscale_resumes_at_its_next_frame() {
    let home = with_network();
    let small = video(&home, 6);
    let number = stopped_in_its_third_frame(&home);
    let list = run(home.safelight().arg("resume"));
    assert_says(&list.stdout, "2 of 6 frames|Upscale ×4: small.gif");
    let output = resume(&home, &number);
    assert_finished(&output);
    let first = &events_of(&output, "step")[0]["step"];
    assert_eq!(first, 3, "what was done is not computed again");
    assert_all_nearest(&home, &small);
    assert!(home.job_folders().is_empty());
}

#[test]
fn resumed_upscale_without_remaining_frames_records_its_device_and_libtorch() {
    let home = with_network();
    video(&home, 6);
    let number = stopped_in_its_third_frame(&home);
    // Two are done, and no more are wanted: nobody needs an engine.
    let file = home.job_folders()[0].join("request.json");
    let text = fs::read_to_string(&file).expect("the job's request");
    let mut request: Value = serde_json::from_str(&text).expect("JSON");
    request["after"]["num_frames"] = 2.into();
    fs::write(&file, request.to_string()).expect("it is written");
    assert_finished(&resume(&home, &number));
    let done = &settings(&home, "large_0001.png")["finished"][0];
    assert!(done["device"].is_string(), "{done}");
    assert!(done["libtorch"].is_string(), "{done}");
}

#[test]
fn upscale_does_not_resume_with_a_changed_network_or_source() {
    let home = with_network();
    video(&home, 6);
    let number = stopped_in_its_third_frame(&home);
    let file = home.path().join("net.safetensors");
    let old = fs::read(&file).expect("it is there");
    let mut new = old.clone();
    *new.last_mut().expect("it has numbers") ^= 1;
    fs::write(&file, new).expect("it is written");
    let said = "the network net.safetensors has changed since the job began";
    assert_failed(&resume(&home, &number), 3, said);
    assert_eq!(home.job_folders().len(), 1, "the old file may come back");
    fs::write(&file, old).expect("it is written");
    video(&home, 4);
    assert_failed(&resume(&home, &number), 2, "this file has changed");
    video(&home, 6);
    assert_eq!(assert_finished(&resume(&home, &number))["frames"], 6);
}

#[test]
fn memory_that_runs_out_is_met_with_smaller_tiles() {
    let home = with_network();
    let small = frame(3, 300, 9);
    media::write_png(&home.path().join("wide.png"), &small).unwrap();
    let with_fault = |fault: &str| {
        let mut command = upscale(&home);
        command.env("SAFELIGHT_ENGINE_FAULT", fault);
        run(command.args("wide.png --scale 4 --out large.png".split(' ')))
    };
    let last = assert_finished(&with_fault("upscale<tiles256:oom"));
    assert_eq!(last["rungs"][1]["rung"], "tiles256", "{last}");
    let large = media::open_rgb(&home.path().join("large.png")).unwrap();
    assert_is_nearest(&large, &small);
    let last = assert_failed(&with_fault("upscale:oom"), 4, "");
    assert_eq!(last["kind"], "out_of_memory", "{last}");
}

#[test]
fn a_network_is_found_where_other_programs_keep_theirs() {
    let home = Home::new();
    media::write_png(&home.path().join("a.png"), &frame(0, 8, 8)).unwrap();
    let models = home.path().join("ComfyUI/models");
    fs::create_dir_all(models.join("checkpoints")).unwrap();
    let named = |name: &str| {
        let mut command = home.safelight();
        command.args("upscale a.png --json --device cpu".split(' '));
        if !name.is_empty() {
            command.args(["--model", name]);
        }
        run(&mut command)
    };
    assert_failed(&named("4x-Zero"), 3, "upscale_models");
    fs::create_dir_all(models.join("upscale_models")).unwrap();
    fs::write(models.join("upscale_models/4x-Zero.pth"), b"\x80\x02").unwrap();
    assert_failed(&named("4x-Zero"), 3, "this is a pickle file");
    network(&home, "ComfyUI/models/upscale_models/4x-Zero.safetensors");
    assert_finished(&named("4x-zero"));
    // The only one there is needs no name.
    assert_finished(&named(""));
    let mut inspect = home.safelight();
    let output = run(inspect.arg("inspect").arg(models.join("upscale_models")));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("an upscaler (compact)"), "{text}");
}

#[test]
fn invalid_upscale_is_refused_early_and_automatic_names_replace_no_file() {
    let home = with_network();
    media::write_png(&home.path().join("a.png"), &frame(0, 8, 8)).unwrap();
    fs::write(home.path().join("text.png"), "no image").unwrap();
    for (arguments, expected) in [
        ("none.png", "does not exist"),
        ("text.png", "a text file"),
        ("a.png --scale 17", "between 1 and 16"),
        ("a.png --out a.mp4", "cannot be saved as MP4"),
        ("a.png --out no/such/folder/b.png", "folder"),
        ("a.png --tile 3", "at least 64"),
    ] {
        let output = run(upscale(&home).args(arguments.split(' ')));
        assert_failed(&output, 2, expected);
    }
    assert!(home.job_folders().is_empty());
    fs::write(home.path().join("a_upscaled.png"), b"mine").unwrap();
    assert_finished(&run(upscale(&home).arg("a.png")));
    let old = fs::read(home.path().join("a_upscaled.png")).unwrap();
    assert_eq!(old, b"mine");
    assert!(home.path().join("a_upscaled-2.png").exists());
}

/// A video with sound that ffmpeg made, 66 × 50 pixels, under a name of this home.
fn with_sound(home: &Home, name: &str) {
    let videos = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core/media/source/tests/videos");
    fs::copy(videos.join(name), home.path().join(name)).expect("the video is there");
}

#[test]
fn upscaled_video_keeps_its_sound_and_warns_if_it_cannot_be_copied() {
    let home = with_network();
    with_sound(&home, "sound.mp4");
    with_sound(&home, "pcm.mov");
    let large = home.path().join("large.mp4");
    let out = ["--scale", "1", "--out", "large.mp4"];
    let output = run(upscale(&home).arg("sound.mp4").args(out));
    let last = assert_finished(&output);
    assert_eq!(last["frames"], 12);
    assert_eq!(last["warnings"], serde_json::json!([]), "{last}");
    let found = media::sound_for(&large, &large).expect("it is read");
    assert!(found.sound.is_some() && found.left_out.is_none());
    let output = run(upscale(&home).arg("pcm.mov").args(out));
    let told = "The result has no sound: PCM is not copied into MP4";
    assert_eq!(assert_finished(&output)["warnings"][0], told);
    let found = media::sound_for(&large, &large).expect("it is read");
    assert!(found.sound.is_none());
}

/// Writes a Real-ESRGAN for ×4 of one block with as many channels as published ones have.
fn write_wide_upscaler(path: &Path) {
    let (width, growth) = (64, 32);
    let mut tensors: Vec<(String, Vec<usize>)> = Vec::new();
    let mut conv = |name: String, inputs: usize, outputs: usize| {
        tensors.push((format!("{name}.weight"), vec![outputs, inputs, 3, 3]));
        tensors.push((format!("{name}.bias"), vec![outputs]));
    };
    conv("conv_first".to_owned(), 3, width);
    for (part, number) in (1..=3).flat_map(|part| (0..5).map(move |number| (part, number))) {
        let outputs = if number == 4 { width } else { growth };
        let name = format!("body.0.rdb{part}.conv{}", number + 1);
        conv(name, width + number * growth, outputs);
    }
    for name in ["conv_body", "conv_up1", "conv_up2", "conv_hr"] {
        conv(name.to_owned(), width, width);
    }
    conv("conv_last".to_owned(), width, 3);
    write_zeros(path, tensors);
}

/// How much more the plan says than was measured, as a share.
pub(super) fn plan_error(last: &Value) -> f64 {
    let plan = &last["plan"];
    let [predicted, measured] =
        ["predicted_bytes", "measured_bytes"].map(|key| plan[key].as_f64().expect("a number"));
    predicted / measured - 1.0
}

#[test]
fn upscale_plan_predicts_the_peak_memory_with_and_without_tiles() {
    let home = Home::new();
    write_wide_upscaler(&home.path().join("net.safetensors"));
    media::write_png(&home.path().join("small.png"), &frame(0, 160, 120)).expect("an image");
    let shown = run(upscale(&home).args(["small.png", "--plan"]));
    let shown: Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    for tiles in [&[][..], &["--tile", "64"]] {
        let out = ["small.png", "--scale", "4", "--out", "large.png"];
        let output = run(upscale(&home).args(out).args(tiles));
        let last = assert_finished(&output);
        let off = plan_error(&last);
        assert!(off.abs() < 0.1, "{tiles:?}: {off} of {}", last["plan"]);
        let plans = events_of(&output, "plan");
        assert_eq!(plans.len(), 1);
        let stage = &plans[0]["plan"]["stages"][0];
        assert_eq!(stage["peak_bytes"], last["plan"]["predicted_bytes"]);
        assert_eq!(stage["tile"].is_null(), tiles.is_empty(), "{stage}");
        if tiles.is_empty() {
            assert_eq!(shown["plan"]["stages"][0], *stage);
        }
    }
    assert!(!home.path().join("small_upscaled.png").exists());
}
