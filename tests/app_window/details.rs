//! The gallery's details: everything that a result was made of.

use safelight_core::naming::numbered_path;

use crate::app_window::prelude::*;

/// The gallery with a result that has these settings, and its details.
fn details_of(name: &str, num_frames: u8, request: &serde_json::Value) -> Bench {
    let home = tempfile::tempdir().expect("a scratch home");
    let path = home.path().join("videos/Safelight").join(name);
    write_made(&path, [64, 32], num_frames, 8.0, Some(made_with(request)));
    let mut bench = Bench::in_home(home, |_| {});
    bench.press_until("Gallery", "a red boat,");
    bench.press_key(Key::ArrowRight);
    bench
}

#[test]
fn details_show_loras_strength_images_mask_and_the_negative_prompt() {
    let request = serde_json::json!({
        "model": "flux", "prompt": "a red boat", "negative_prompt": "fog and rain", "seed": 7,
        "num_frames": 1, "num_steps": 12, "sampler": "euler", "guidance_scale": 3.5, "strength": 0.45,
        "sigma_schedule": "beta", "shift": 3.25, "guider": "cfg_zero:2", "second_pass": {"scale": 1.5, "strength": 0.35},
        "image": "/images/harbour.png", "mask": "/images/sky.png", "last_image": "/images/end.png",
        "loras": [
            {"path": "/loras/ink.safetensors", "strength": 0.8},
            {"path": "/loras/slow.safetensors", "strength": 1.0, "strength_2": 0.5},
        ],
    });
    let bench = details_of("boat.png", 1, &request);
    bench.assert_shows("fog and rain|harbour.png|sky.png|end.png|0.45|beta|3.25|cfg_zero:2");
    bench.assert_shows("×1.5, strength 0.35|ink (0.8)|slow (1, 0.5)");
    // What a result was not made of is not told.
    let request = serde_json::json!({"model": "flux", "prompt": "a red boat", "num_frames": 1, "strength": 0.45});
    let bare = details_of("bare.png", 1, &request);
    for text in ["Extends", "harbour.png", "0.45", "ink"] {
        assert!(!bare.has(text), "{text}");
    }
}

#[test]
fn every_value_that_is_not_as_usual_is_shown_and_all_details_are_copied_as_text() {
    let request = serde_json::json!({
        "model": "flux", "computer": "me@box", "prompt": "a red boat, (wet:1.2)", "prompt_template": "a {red|blue} boat", "seed": 7,
        "num_frames": 1, "num_steps": 12, "sampler": "euler", "guidance_scale": 3.5, "prompt_weights": "comfyui",
        "true_cfg_scale": 2.0, "guidance_range": "0.1-0.8", "start_step": 2, "end_step": 10, "batch_size": 4,
        "step_cache": {"kind": "teacache", "threshold": 0.15}, "keeps_unmasked": true, "fit": "crop",
        "dtype": "auto", "vae_tile": 512, "companions": {"vae": "/m/other-vae.safetensors"},
        "controls": [{"file": "/c/edges.png", "strength": 0.7, "from": 0.1, "until": 0.6, "kind": "canny",
                      "network": "/n/union.safetensors", "mask": "/c/part.png"}],
    });
    let mut bench = details_of("boat.png", 1, &request);
    let copied = bench.copied_by("Copy details").unwrap();
    for line in [
        "Prompt: a red boat, (wet:1.2)",
        "Computer: me@box",
        "Prompt as written: a {red|blue} boat",
        "Prompt weights: comfyui",
        "CFG scale: 2",
        "Guidance range: 0.1-0.8",
        "First step: 2",
        "Last step: 10",
        "Batch: 4",
        "Step cache: teacache, 0.15",
        "Keep unmasked: on",
        "Fit: crop",
        "VAE tiles: 512",
        "VAE: other-vae.safetensors",
        "Control images: edges.png (0.7, canny, from 0.1, until 0.6, mask part.png, network union.safetensors)",
        "Size: 64 × 32",
    ] {
        assert!(copied.lines().any(|it| it == line), "{line} in\n{copied}");
        let (_, value) = line.split_once(": ").unwrap();
        bench.assert_shows(value.split('|').next().unwrap());
    }
    assert!(
        !copied.contains("Precision") && !copied.contains("Negative"),
        "{copied}"
    );
}

#[test]
fn a_video_of_numbered_images_has_as_many_frames_as_there_are() {
    // A job that was stopped after a section made fewer than it was asked for.
    let request = serde_json::json!({"model": "framepack", "prompt": "a red boat", "num_frames": 145, "fps": 8.0});
    let bench = details_of("boat.png", 5, &request);
    bench.assert_shows("5 frames");
    bench.assert_hides("145");
    assert!(!numbered_path(&bench.home.path().join("videos/Safelight/boat.png"), 6).exists());
}

#[test]
fn result_details_list_postprocessing_steps_and_link_to_the_source() {
    let home = tempfile::tempdir().expect("a scratch home");
    let folder = home.path().join("videos/Safelight");
    let name = "a-boat-with-a-name-that-is-much-longer-than-the-details-of-it-are-wide.png";
    let request = serde_json::json!({"prompt": "a red boat", "num_frames": 1});
    let info = |side, fps, num_frames| serde_json::json!({"width": side, "height": side, "fps": fps, "num_frames": num_frames});
    let settings = serde_json::json!({"app": "Safelight", "request": request, "finished": [
        {"work": "interpolate", "network": "/nets/rife-4.26.safetensors", "source": "/gone/boat.mp4",
         "before": info(64, 8.0, 17), "after": info(64, 16.0, 33)},
        {"work": "a work of another day", "source": "/gone/other.mp4"},
        {"work": "upscale", "passes": 1, "network": "/nets/4x-UltraSharp.safetensors",
         "source": name, "before": info(64, 0.0, 1), "after": info(128, 0.0, 1)},
    ]});
    write_made(&folder.join(name), [64, 64], 1, 8.0, None);
    let result = folder.join("boat_x2.png");
    write_made(&result, [128, 128], 1, 8.0, Some(settings.to_string()));
    let mut bench = Bench::in_home(home, |_| {});
    bench.press_until("Gallery", "a red boat,");
    bench.harness.get_by_label_contains("a red boat,").click();
    bench.settle();
    bench.assert_shows("rife-4.26: 8 to 16 frames a second, 17 to 33 frames");
    bench.assert_shows("4x-UltraSharp: 64 × 64 to 128 × 128");
    bench.assert_hides("other.mp4");
    // Where the source is no whole path, it is beside the result.
    let link = bench.node(Role::Link, name);
    let window = bench.harness.ctx.content_rect();
    assert!(link.rect().right() <= window.right(), "{:?}", link.rect());
    link.scroll_to_me();
    bench.settle();
    bench.node(Role::Link, name).click();
    bench.settle();
    bench.until_file(&folder.join(name));
}
