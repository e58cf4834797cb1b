//! `safelight interpolate` as a whole program, with the real engine and a network of a few numbers.
//!
//! RIFE without weights moves nothing and blends both frames by halves: every result is known.

use std::path::PathBuf;

use safelight_core::media::{ClipOptions, FrameStarts};

use crate::common::networks::write_interpolator;
use crate::generate::prelude::*;

fn network(home: &Home, name: &str) -> PathBuf {
    let path = home.path().join(name);
    write_interpolator(&path);
    path
}

/// A scene of its own that grows brighter by 16 with each frame.
fn frame(scene: u32, index: u32) -> Picture {
    let at = |x: u32, y: u32| match scene {
        0 => 40 + 8 * ((x / 8 + y / 8) % 6),
        _ => 40 + 8 * ((x / 20) * 5 + y / 16) % 60,
    };
    let pixel = |x, y| [(at(x, y) + 16 * index) as u8; 3];
    Picture::from_fn(64, 48, pixel).expect("it has pixels")
}

/// `small_0001.png` and so on: frames of the first scene, then of the second.
fn clip(home: &Home, counts: [u32; 2]) -> Vec<Picture> {
    let frames = [0, 1].map(|scene| (0..counts[scene as usize]).map(move |it| frame(scene, it)));
    let frames: Vec<Picture> = frames.into_iter().flatten().collect();
    let options = ClipOptions {
        fps: 10.0,
        settings: Some(r#"{"app":"Safelight","request":{"prompt":"a red fox"}}"#.to_owned()),
        ..ClipOptions::default()
    };
    media::write_clip(&home.path().join("small.webp"), &frames, options).expect("a clip");
    let read = media::open_clip(&home.path().join("small.webp")).expect("the same clip");
    read.frames.iter().map(|frame| (**frame).clone()).collect()
}

fn interpolate(home: &Home) -> std::process::Command {
    let mut command = home.safelight();
    command.args(["interpolate", "small.webp", "--json", "--device", "cpu"]);
    command.args(["--model", "rife.safetensors"]);
    command
}

fn numbered(home: &Home, count: usize) -> Vec<Picture> {
    (1..=count)
        .map(|number| media::open_picture(&home.path().join(format!("smooth_{number:04}.png"))))
        .collect::<Result<_, _>>()
        .expect("all frames are there")
}

/// Both by halves, within one step of the bytes' rounding.
fn assert_is_between(made: &Picture, first: &Picture, second: &Picture) {
    let all = made.rgb.iter().zip(first.rgb.iter().zip(&second.rgb));
    for (made, (first, second)) in all {
        let expected = f64::midpoint(f64::from(*first), f64::from(*second));
        assert!(
            (f64::from(*made) - expected).abs() <= 1.0,
            "{made} {expected}"
        );
    }
}

#[test]
fn doubled_frames_keep_the_old_ones_and_no_cut_is_blended() {
    let home = Home::new();
    network(&home, "rife.safetensors");
    let old = clip(&home, [3, 2]);
    let output = run(interpolate(&home).args(["--times", "2", "--out", "smooth.png"]));
    let (last, code) = end(&output);
    assert_eq!((code, &last["frames"]), (0, &10.into()), "{last}");
    let new = numbered(&home, 10);
    for (index, old) in old.iter().enumerate() {
        assert_eq!(&new[2 * index], old, "{index}");
    }
    for index in [0, 1, 3] {
        assert_is_between(&new[2 * index + 1], &old[index], &old[index + 1]);
    }
    // Until the second scene begins, and for as long as the last frame lasts.
    assert_eq!(new[5], old[2]);
    assert_eq!(new[9], old[4]);
    assert!(home.job_folders().is_empty());
}

#[test]
fn a_given_rate_keeps_the_length_and_what_the_clip_carried() {
    let home = Home::new();
    network(&home, "rife.safetensors");
    clip(&home, [4, 0]);
    let output = run(interpolate(&home).args(["--fps", "25", "--out", "smooth.webp"]));
    assert_eq!(end(&output).1, 0, "{:?}", end(&output).0);
    let path = home.path().join("smooth.webp");
    let made = media::clip_info(&path).unwrap();
    assert_eq!((made.num_frames, made.fps), (10, 25.0));
    let settings = media::read_settings(&path).unwrap().unwrap();
    let settings: serde_json::Value = serde_json::from_str(&settings).unwrap();
    assert_eq!(settings["request"]["prompt"], "a red fox");
    assert_eq!(settings["finished"][0]["work"], "interpolate");
    assert_eq!(settings["finished"][0]["after"]["fps"], 25.0);
}

#[test]
fn a_video_of_uneven_frame_times_gets_frames_of_even_moments() {
    let home = Home::new();
    network(&home, "rife.safetensors");
    let frames: Vec<Picture> = (0..3).map(|index| frame(0, index)).collect();
    let options = ClipOptions {
        starts: Some(FrameStarts::from_micros([0, 100_000, 500_000, 600_000])),
        ..ClipOptions::default()
    };
    media::write_clip(&home.path().join("small.webp"), &frames, options).unwrap();
    let old = media::open_picture(&home.path().join("small.webp")).unwrap();
    let output = run(interpolate(&home).args(["--fps", "10", "--out", "smooth.png"]));
    let (last, code) = end(&output);
    assert_eq!((code, &last["frames"]), (0, &6.into()), "{last}");
    let new = numbered(&home, 6);
    // Frame 0 is the first, frame 1 the second, and 2 to 4 are between that and the third, which is 5.
    assert_eq!(new[0], old);
    let bright = |picture: &Picture| i32::from(picture.pixel(30, 20)[0]);
    let steps = [1, 5].map(|index| bright(&new[index]) - bright(&new[0]));
    assert!(
        (steps[0] - 16).abs() <= 4 && (steps[1] - 32).abs() <= 4,
        "{steps:?}"
    );
    assert_is_between(&new[3], &new[1], &new[5]);
}

#[test]
fn a_clip_is_the_same_when_its_engine_dies_at_any_frame() {
    let whole = Home::new();
    network(&whole, "rife.safetensors");
    clip(&whole, [3, 2]);
    let arguments = ["--times", "3", "--out", "smooth.png"];
    let output = run(interpolate(&whole).args(arguments));
    assert_eq!(end(&output).1, 0, "{:?}", end(&output).0);
    let expected = numbered(&whole, 15);
    for at in [2, 7, 9, 15] {
        let home = Home::new();
        network(&home, "rife.safetensors");
        clip(&home, [3, 2]);
        let marker = home.path().join("marker");
        let fault = format!("interpolate@frames+{at}:kill:{}", marker.display());
        let output = run(interpolate(&home)
            .args(arguments)
            .env("SAFELIGHT_ENGINE_FAULT", fault));
        let (last, code) = end(&output);
        assert!(marker.exists());
        assert_eq!((code, &last["frames"]), (0, &15.into()), "{last}");
        assert_eq!(numbered(&home, 15), expected, "{at}");
        let steps = events(&output).into_iter();
        let steps = steps.filter(|event| event["event"] == "step");
        let steps: Vec<u64> = steps.filter_map(|event| event["step"].as_u64()).collect();
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
    }
}

#[test]
fn what_cannot_work_is_told_in_a_sentence_before_anything_runs() {
    let home = Home::new();
    network(&home, "rife.safetensors");
    clip(&home, [3, 0]);
    media::write_png(&home.path().join("one.png"), &frame(0, 0)).unwrap();
    fs::write(home.path().join("rife49.pth"), b"\x80\x02").unwrap();
    let cases: [(&[&str], &str); 4] = [
        (&["--fps", "10"], "10 frames a second already"),
        (&["--times", "17"], "2 to 16"),
        (&["--fps", "1000"], "up to 240"),
        (&["--out", "small.txt"], "small.txt"),
    ];
    for (arguments, expected) in cases {
        let (last, code) = end(&run(interpolate(&home).args(arguments)));
        let message = last["message"].as_str().unwrap_or_default();
        assert!(
            code == 2 && message.contains(expected),
            "{arguments:?}: {last}"
        );
    }
    for (source, model, code, expected) in [
        ("one.png", "rife.safetensors", 2, "a single picture"),
        ("small.webp", "rife49.pth", 3, "this is a pickle file"),
    ] {
        let arguments = ["interpolate", source, "--json", "--model", model];
        let (last, found) = end(&run(home.safelight().args(arguments)));
        let message = last["message"].as_str().unwrap_or_default();
        assert!(found == code && message.contains(expected), "{last}");
    }
    let nothing: [&Path; 0] = [];
    assert_eq!(home.job_folders(), nothing);
}

#[test]
fn a_network_is_found_where_comfyui_keeps_it() {
    let home = Home::new();
    clip(&home, [2, 0]);
    let models = home.path().join("ComfyUI/models");
    fs::create_dir_all(models.join("checkpoints")).unwrap();
    let plain = |home: &Home| {
        let arguments = ["interpolate", "small.webp", "--json", "--device", "cpu"];
        end(&run(home.safelight().args(arguments)))
    };
    let (last, code) = plain(&home);
    let message = last["message"].as_str().unwrap_or_default();
    assert!(
        code == 2 && message.contains("no RIFE network was found"),
        "{last}"
    );
    network(
        &home,
        "ComfyUI/models/frame_interpolation/rife_v4.26.safetensors",
    );
    assert_eq!(plain(&home).1, 0);
    assert!(home.path().join("small_interpolated.webp").exists());
}

#[test]
fn the_plan_tells_what_a_frame_between_two_takes() {
    let home = Home::new();
    network(&home, "rife.safetensors");
    let frames: Vec<Picture> = [0, 1, 2]
        .map(|index| {
            let pixel = |x: u32, y: u32| [(x + y + 16 * index) as u8; 3];
            Picture::from_fn(512, 256, pixel).expect("it has pixels")
        })
        .into();
    let path = home.path().join("small.webp");
    media::write_clip(&path, &frames, ClipOptions::default()).expect("a clip");
    let output = run(interpolate(&home).args(["--times", "2", "--out", "smooth.mp4"]));
    let (last, code) = end(&output);
    assert_eq!(code, 0, "{last}");
    let plan = &last["plan"];
    let [predicted, measured] =
        ["predicted_bytes", "measured_bytes"].map(|key| plan[key].as_f64().expect("a number"));
    assert!((predicted / measured - 1.0).abs() < 0.1, "{plan}");
}
