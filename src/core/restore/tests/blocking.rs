//! Nodes and models that Safelight has nothing for, and files whose settings are not another file's.

use serde_json::json;

use super::*;
use crate::families::wan;
use crate::model::{ModelSpec, test_spec};

#[test]
fn a_node_that_makes_an_input_is_named_with_what_it_makes_and_what_to_do() {
    let photo = || node("LoadImage", json!({"image": "cat.png"}));
    let latents = node(
        "WanVaceToVideo",
        json!({"width": 480, "height": 832, "length": 49, "control_video": ["31", 0]}),
    );
    for (parts, note) in [
        (
            json!({"20": photo(), "31": node("SAM3Segment", json!({"image": ["20", 0], "sam3_model": ["32", 0], "prompt": "the cat"})),
                "32": node("LoadSAM3Model", json!({"model": "sam3.pt"})), "33": node("GrowMask", json!({"mask": ["31", 1], "expand": 6})),
                "34": node("VAEEncode", json!({"pixels": ["20", 0]})),
                "35": node("SetLatentNoiseMask", json!({"samples": ["34", 0], "mask": ["33", 0]})), "7.latent_image": ["35", 0]}),
            "Node 31 (SAM3Segment) makes the mask from cat.png: Safelight cannot; draw or choose a mask",
        ),
        (
            json!({"20": node("LoadVideo", json!({"file": "dance.mp4"})), "31": node("DWPreprocessor", json!({"image": ["20", 0]})),
                "35": latents, "7.latent_image": ["35", 0]}),
            "Node 31 (DWPreprocessor) makes the control image from dance.mp4: Safelight cannot; add one that is made already",
        ),
        (
            json!({"20": node("LoadAudio", json!({"audio": "song.mp3"})), "31": node("AudioEncoderEncode", json!({"audio": ["20", 0]})),
                "35": node("WanSoundImageToVideo", json!({"width": 640, "height": 640, "length": 77, "audio_encoder_output": ["31", 0]})),
                "7.latent_image": ["35", 0]}),
            "Node 31 (AudioEncoderEncode) makes the sound from song.mp3: Safelight cannot; the result is made without it",
        ),
        (
            json!({"31": node("WanCameraEmbedding", json!({"camera_pose": "Zoom In", "speed": 1.2})),
                "35": node("WanCameraImageToVideo", json!({"width": 640, "height": 640, "length": 77, "camera_conditions": ["31", 0]})),
                "7.latent_image": ["35", 0]}),
            "Node 31 (WanCameraEmbedding) makes the movement: Safelight cannot; describe it in the prompt",
        ),
    ] {
        let found = read_with(&parts);
        assert_note(&found, note);
        assert_note(&found, "All settings that are not named are kept");
        assert!(
            found.notes.iter().all(|it| !it.contains("Its mask")),
            "{:?}",
            found.notes
        );
        assert_fields!(found, {"prompt": "a red barn", "seed": 9});
    }
}

#[test]
fn relatives_of_wan_are_never_replaced_by_a_plain_wan_model() {
    let mut spec = test_spec();
    (spec.family, spec.variant) = (wan::FAMILY, "I2V-A14B".to_owned());
    let plain: [ModelSpec; 1] = [spec];
    let with = |name: &str| {
        let loader = node("UNETLoader", json!({"unet_name": name}));
        let found = read_with(&json!({"1": loader}));
        assert_eq!(found.model.as_deref(), Some(name));
        match_model(&found, &plain).map(|found| found.is_same)
    };
    assert_eq!(with("wan2.2_i2v_high_noise_14B_Q4_K_M.gguf"), Some(false));
    for name in [
        "wan2.1_fun_control_1.3B_bf16.safetensors",
        "wan2.2_fun_control_high_noise_14B_fp8_scaled.safetensors",
        "Wan2.1-Fun-V1.1-14B-Control.safetensors",
        "wan2.1_fun_camera_v1.1_14B_bf16.safetensors",
        "Wan2.2-Fun-A14B-Control-Camera_HighNoise.gguf",
        "Wan2_1-I2V-ATI-14B_fp8_e4m3fn.safetensors",
        "wan2.2_s2v_14B_fp8_scaled.safetensors",
        "Wan2_2-Animate-14B_fp8_e4m3fn_scaled_KJ.safetensors",
        "wan_alpha_2.1_t2v_14B.safetensors",
        "wan2.1_14B_SCAIL_2_fp16.safetensors",
        "Wan21-WanMove_fp8_scaled_e4m3fn_KJ.safetensors",
        "wan2.1_humo_17B_fp16.safetensors",
        "Wan2_1-InfiniteTalk-Single_fp8.safetensors",
        "Phantom-Wan-14B_fp8_e4m3fn.safetensors",
        "wan2.2_dancer_14b_global_fp8_scaled.safetensors",
    ] {
        assert_eq!(with(name), None, "{name}");
    }
}

#[test]
fn the_settings_of_a_neighbouring_file_are_not_taken_for_another_name() {
    let graph = |prompt: &str| graph_with(&json!({"3.text": prompt})).to_string();
    let (plain, other) = (graph("a plain barn"), graph("another barn"));
    let image = png(*b"IDAT", b"");
    let text = b"{\"a\": 1}";
    for files in [
        [
            ("x_2511.json", text.as_slice()),
            ("x.json", plain.as_bytes()),
        ],
        [("x.json", text), ("x_2511.json", other.as_bytes())],
        [("x_2511.json", text), ("x_2511.txt", plain.as_bytes())],
        [
            ("x_2511.png", image.as_slice()),
            ("x.json", plain.as_bytes()),
        ],
        [("x_2511.mp4", text), ("x.json", plain.as_bytes())],
    ] {
        let (_folder, path) = folder_of(&files);
        assert!(read(&path).ok().flatten().is_none(), "{}", files[0].0);
    }
    let (_folder, path) = folder_of(&[("x_2511.png", &image), ("x_2511.json", other.as_bytes())]);
    let found = other_prompt(&path);
    assert_eq!(found.as_deref(), Some("another barn"));
}

fn other_prompt(path: &std::path::Path) -> Option<String> {
    other(read(path).unwrap())?.prompt
}
