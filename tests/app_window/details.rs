//! The gallery's details: everything that a result was made of.

use std::fs;

use safelight_core::media::{ClipOptions, Picture, numbered_path, write_clip};
use safelight_core::settings::Paths;

use crate::harness::Bench;

/// The gallery with a result that has these settings, and its details.
fn details_of(name: &str, num_frames: u8, request: &serde_json::Value) -> Bench {
    let home = tempfile::tempdir().expect("a picture of a scratch home");
    let folder = home.path().join("videos/Safelight");
    fs::create_dir_all(&folder).expect("a picture of a scratch home");
    let options = ClipOptions {
        fps: 8.0,
        settings: Some(serde_json::json!({"app": "Safelight", "request": request}).to_string()),
        ..ClipOptions::default()
    };
    let frames: Vec<Picture> = (0..num_frames)
        .map(|index| {
            Picture::from_fn(64, 32, |_, _| [index * 9, 40, 90])
                .expect("a picture of a scratch home")
        })
        .collect();
    write_clip(&folder.join(name), &frames, options).expect("a picture of a scratch home");
    let root = home.path().to_owned();
    let mut bench = Bench::in_home(home, |startup| startup.paths = Some(Paths::under(&root)));
    bench.press("Gallery");
    bench.until("it is read", |bench| bench.has("a red boat,"));
    bench.harness.key_press(egui::Key::ArrowRight);
    bench.settle();
    bench
}

#[test]
fn details_show_loras_strength_pictures_mask_and_the_negative_prompt() {
    let bench = details_of(
        "boat.png",
        1,
        &serde_json::json!({
            "model": "flux", "prompt": "a red boat", "negative_prompt": "fog and rain", "seed": 7,
            "num_frames": 1, "num_steps": 12, "sampler": "euler", "guidance_scale": 3.5, "strength": 0.45,
            "image": "/pictures/harbour.png", "mask": "/pictures/sky.png", "last_image": "/pictures/end.png",
            "loras": [
                {"path": "/loras/ink.safetensors", "strength": 0.8},
                {"path": "/loras/slow.safetensors", "strength": 1.0, "strength_2": 0.5},
            ],
        }),
    );
    for text in [
        "fog and rain",
        "harbour.png",
        "sky.png",
        "end.png",
        "0.45",
        "ink (0.8)",
        "slow (1, 0.5)",
    ] {
        bench.assert_shows(text);
    }
    // What a result was not made of is not told.
    let bare = details_of(
        "bare.png",
        1,
        &serde_json::json!({"model": "flux", "prompt": "a red boat", "num_frames": 1, "strength": 0.45}),
    );
    for text in ["Extends", "harbour.png", "0.45", "ink"] {
        assert!(!bare.has(text), "{text}");
    }
}

#[test]
fn a_clip_of_numbered_pictures_has_as_many_frames_as_there_are() {
    // A job that was stopped after a section made fewer than it was asked for.
    let bench = details_of(
        "boat.png",
        5,
        &serde_json::json!({"model": "framepack", "prompt": "a red boat", "num_frames": 145, "fps": 8.0}),
    );
    bench.assert_shows("5 frames");
    assert!(!bench.has("145"));
    assert!(!numbered_path(&bench.home.path().join("videos/Safelight/boat.png"), 6).exists());
}
