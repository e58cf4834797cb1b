//! `safelight interpolate` as a whole program, with the real engine and a network of a few numbers.
//!
//! RIFE without weights moves nothing and blends both frames by halves: every result is known.

use safelight_core::media::FrameStarts;

use crate::common::networks::write_interpolator;
use crate::generate::prelude::*;
use crate::generate::upscale::{assert_steps_increase, fox_video, numbered, plan_error};

fn network(home: &Home, name: &str) {
    write_interpolator(&home.path().join(name));
}

fn with_network() -> Home {
    let home = Home::new();
    network(&home, "rife.safetensors");
    home
}

/// A scene of its own that grows brighter by 16 with each frame.
fn frame(scene: u32, index: u32) -> RgbPixels {
    let at = |x: u32, y: u32| match scene {
        0 => 40 + 8 * ((x / 8 + y / 8) % 6),
        _ => 40 + 8 * ((x / 20) * 5 + y / 16) % 60,
    };
    let pixel = |x, y| [(at(x, y) + 16 * index) as u8; 3];
    RgbPixels::from_fn(64, 48, pixel).expect("it has pixels")
}

/// `small.webp`: frames of the first scene, then of the second.
fn video(home: &Home, counts: [u32; 2]) -> Vec<RgbPixels> {
    let frames = [0, 1].map(|scene| (0..counts[scene as usize]).map(move |it| frame(scene, it)));
    let frames: Vec<RgbPixels> = frames.into_iter().flatten().collect();
    fox_video(home, "small.webp", &frames)
}

fn interpolate(home: &Home) -> Command {
    let plain = "interpolate small.webp --json --device cpu --model rife.safetensors";
    let mut command = home.safelight();
    command.args(plain.split(' '));
    command
}

/// Both by halves, within one step of the bytes' rounding.
fn assert_is_between(made: &RgbPixels, first: &RgbPixels, second: &RgbPixels) {
    let all = made.rgb.iter().zip(first.rgb.iter().zip(&second.rgb));
    for (made, (first, second)) in all {
        let expected = f64::midpoint(f64::from(*first), f64::from(*second));
        let off = (f64::from(*made) - expected).abs();
        assert!(off <= 1.0, "{made} {expected}");
    }
}

#[test]
fn doubled_frames_keep_the_old_ones_and_no_cut_is_blended() {
    let home = with_network();
    let old = video(&home, [3, 2]);
    let output = run(interpolate(&home).args(["--times", "2", "--out", "smooth.png"]));
    assert_eq!(assert_finished(&output)["frames"], 10);
    let new = numbered(&home, "smooth", 10);
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
fn interpolation_to_a_frame_rate_keeps_duration_and_settings() {
    let home = with_network();
    video(&home, [4, 0]);
    let output = run(interpolate(&home).args(["--fps", "25", "--out", "smooth.webp"]));
    assert_finished(&output);
    let made = media::video_info(&home.path().join("smooth.webp")).unwrap();
    assert_eq!((made.num_frames, made.fps), (10, 25.0));
    let carried = settings(&home, "smooth.webp");
    assert_eq!(carried["request"]["prompt"], "a red fox");
    assert_eq!(carried["finished"][0]["work"], "interpolate");
    assert_eq!(carried["finished"][0]["after"]["fps"], 25.0);
}

#[test]
fn a_video_of_uneven_frame_times_gets_frames_of_even_moments() {
    let home = with_network();
    let frames: Vec<RgbPixels> = (0..3).map(|index| frame(0, index)).collect();
    let options = VideoOptions {
        starts: Some(FrameStarts::from_micros([0, 100_000, 500_000, 600_000])),
        ..VideoOptions::default()
    };
    media::write_video(&home.path().join("small.webp"), &frames, options).unwrap();
    let old = media::open_rgb(&home.path().join("small.webp")).unwrap();
    let output = run(interpolate(&home).args(["--fps", "10", "--out", "smooth.png"]));
    assert_eq!(assert_finished(&output)["frames"], 6);
    let new = numbered(&home, "smooth", 6);
    // Frame 0 is the first, frame 1 the second, and 2 to 4 are between that and the third, which is 5.
    assert_eq!(new[0], old);
    let bright = |index: usize| i32::from(new[index].pixel(30, 20)[0]);
    for (index, expected) in [(1, 16), (5, 32)] {
        let step = bright(index) - bright(0);
        assert!((step - expected).abs() <= 4, "{index}: {step}");
    }
    assert_is_between(&new[3], &new[1], &new[5]);
}

#[test]
fn a_video_is_the_same_when_its_engine_dies_at_any_frame() {
    let smooth = |fault: &str| {
        let home = with_network();
        video(&home, [3, 2]);
        let mut command = interpolate(&home);
        command.args(["--times", "3", "--out", "smooth.png"]);
        strike(&mut command, &home, fault, "smooth.png");
        let output = run(&mut command);
        assert_eq!(assert_finished(&output)["frames"], 15);
        assert_steps_increase(&output);
        let was_struck = home.path().join("smooth.struck").exists();
        (numbered(&home, "smooth", 15), was_struck)
    };
    let (expected, _) = smooth("");
    for at in [2, 7, 9, 15] {
        let found = smooth(&format!("interpolate@frames+{at}:kill"));
        assert!(found == (expected.clone(), true), "{at}");
    }
}

#[test]
fn invalid_interpolation_is_refused_before_it_starts() {
    let home = with_network();
    video(&home, [3, 0]);
    media::write_png(&home.path().join("one.png"), &frame(0, 0)).unwrap();
    fs::write(home.path().join("rife49.pth"), b"\x80\x02").unwrap();
    for (option, value, expected) in [
        ("--fps", "10", "10 frames a second already"),
        ("--times", "17", "2 to 16"),
        ("--fps", "1000", "up to 240"),
        ("--out", "small.txt", "small.txt"),
    ] {
        let output = run(interpolate(&home).args([option, value]));
        assert_failed(&output, 2, expected);
    }
    for (source, model, code, expected) in [
        ("one.png", "rife.safetensors", 2, "a single image"),
        ("small.webp", "rife49.pth", 3, "this is a pickle file"),
    ] {
        let arguments = ["interpolate", source, "--json", "--model", model];
        assert_failed(&run(home.safelight().args(arguments)), code, expected);
    }
    assert!(home.job_folders().is_empty());
}

#[test]
fn a_network_is_found_where_comfyui_keeps_it() {
    let home = Home::new();
    video(&home, [2, 0]);
    let models = home.path().join("ComfyUI/models");
    fs::create_dir_all(models.join("checkpoints")).unwrap();
    let plain = || {
        let arguments = "interpolate small.webp --json --device cpu".split(' ');
        run(home.safelight().args(arguments))
    };
    assert_failed(&plain(), 2, "no RIFE network was found");
    let folder = "ComfyUI/models/frame_interpolation";
    network(&home, &format!("{folder}/rife_v4.26.safetensors"));
    assert_finished(&plain());
    assert!(home.path().join("small_interpolated.webp").exists());
}

#[test]
fn interpolation_plan_predicts_the_peak_memory() {
    let home = with_network();
    let frames = [0, 1, 2].map(|index| {
        let pixel = |x: u32, y: u32| [(x + y + 16 * index) as u8; 3];
        RgbPixels::from_fn(512, 256, pixel).expect("it has pixels")
    });
    let path = home.path().join("small.webp");
    media::write_video(&path, &frames, VideoOptions::default()).expect("a video");
    let output = run(interpolate(&home).args(["--times", "2", "--out", "smooth.mp4"]));
    let off = plan_error(&assert_finished(&output));
    assert!(off.abs() < 0.1, "{off}");
}
