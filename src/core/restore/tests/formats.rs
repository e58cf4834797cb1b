//! Files of each program in a table: what is read, and every sentence on the rest.

use serde_json::{Value, json};

use super::*;
use crate::families::flux;
use crate::media::test_files::pngs;
use crate::model::{GuidanceMode, test_spec};

/// Compares the members that `expected` has, and the notes, which are none where it does not say them.
#[track_caller]
fn assert_reads(found: Option<ForeignSettings>, expected: &Value, file: &str) {
    let found = found.unwrap_or_else(|| panic!("nothing in {file}"));
    assert_fields(&found, expected);
    if expected.get("notes").is_none() {
        assert_fields!(found, {"notes": []});
    }
}

const START: &str = "Its start image is not in the file: add it separately";

fn loras(all: &[(&str, f64)]) -> Value {
    let lora = |(name, strength): &(&str, f64)| json!({"name": name, "path": name, "strength": strength, "strength_2": null});
    all.iter().map(lora).collect()
}

#[test]
fn text_settings_of_other_tools_are_read_completely() {
    for (text, expected) in [
        (
            "a fox,\r\nin snow\r\n negative prompt: fog\r\nsteps: 9, cfg scale: 3,5, seed: 7, size: 640x832",
            json!({"prompt": "a fox,\nin snow", "negative_prompt": "fog", "cfg_scale": 3.5, "width": 640, "seed": 7, "num_steps": 9}),
        ),
        (
            "wooden steps: red Negative prompt: fog Steps: 9, Sampler: Euler, CFG scale: 7, some words, Seed: 7",
            json!({"prompt": "wooden steps: red", "negative_prompt": "fog", "num_steps": 9, "notes": ["Not used: some words"]}),
        ),
        (
            "a fox\nSteps: 30, CFG scale: 7, Seed: 3, Size: 64x64\nSteps: 9, CFG scale: 2, Seed: 8",
            json!({"num_steps": 9, "seed": 8, "notes": ["The file has several lines of settings: the last is used, and the others stay in the prompt"]}),
        ),
        (
            "a fox\nSteps: 9, Seed: 7, CFG scale: 4, Lora hashes: \"ink: aabbccddee, gr: 1122334455\", Lora weights: \"ink: 0.8, gr: 0,3\", Version: Fooocus v2.5.5",
            json!({"tool": "Fooocus", "loras": loras(&[("ink", 0.8), ("gr", 0.3)])}),
        ),
        (
            "a fox\nSteps: 9, Seed: 7, CFG scale: 3.5, CFG true: 2, Model: flux1-dev, Sampler shift: 3, App: SD.Next, LoRA networks: ink:0.8 gr:0.3:0.3",
            json!({"cfg_scale": 2.0, "distilled_guidance": 3.5, "shift": 3.0, "loras": loras(&[("ink", 0.8), ("gr", 0.3)])}),
        ),
        (
            "a fox\nSteps: 9, Seed: 7, CFG scale: 3.5, ControlNet 0: \"Module: none, Model: None, Weight: 1\", ControlNet 1: \"Module: reference_only, Model: None\"",
            json!({"controls": [], "notes": ["Not used: controlnet 1 Module: reference_only, Model: None"]}),
        ),
        (
            "a fox\nSteps: 9, Seed: 7, CFG scale: 3.5, Civitai resources: [{\"type\":\"lora\",\"weight\":0.8,\"modelVersionName\":\"v1\",\"air\":\"urn:air:flux1:lora:civitai:1@2\"}]",
            json!({"tool": "Civitai", "loras": loras(&[("v1 Civitai urn:air:flux1:lora:civitai:1@2", 0.8)])}),
        ),
        (
            "a fox <lora:ink:0.8>\nSteps: 20| Size: 640x832| Sampler: Euler FlowMatch| Seed: 42| CFG scale: 6| App: SD.Next| Model: a, b| LoRA networks: ink:0.8 grain:0.3",
            json!({"tool": "SD.Next", "prompt": "a fox", "seed": 42, "height": 832, "model": "a, b", "sampler": "euler", "loras": loras(&[("ink", 0.8), ("grain", 0.3)])}),
        ),
        (
            "a fox\nSteps: 9, Seed: 7, CFG scale: 2, ControlNet Enabled: True, ControlNet Weight: 0.8",
            json!({"controls": [], "notes": ["Not used: controlnet enabled True, controlnet weight 0.8"]}),
        ),
        (
            "a fox <lora:ink:0.8> <lora:file_of_other:0.7>\nSteps: 9, Seed: 7, CFG scale: 2, Model: flux1-dev, Civitai resources: [{\"type\":\"lora\",\"weight\":0.7,\"modelName\":\"Other\"},{\"type\":\"lora\",\"weight\":0.6,\"modelName\":\"Ink\"},{\"type\":\"lora\",\"weight\":0.4,\"modelName\":\"Grain\",\"modelVersionName\":\"v1\"},{\"air\":\"urn:air:flux1:checkpoint:civitai:1@2\"},{\"modelVersionId\":7}]",
            json!({"model": "flux1-dev", "loras": loras(&[("ink", 0.8), ("file_of_other", 0.7), ("Grain v1", 0.4)]), "notes": ["Not used: Civitai 7"]}),
        ),
        (
            "a fox\n-fog\nSteps: 8, Sampler: Euler A Trailing, Guidance Scale: 1.0, Seed: 2, Size: 512x768, Model: flux_1_schnell_q8p.ckpt, Strength: 1.0, Seed Mode: Scale Alike, Mask Blur: 1.5",
            json!({"tool": "Draw Things", "prompt": "a fox", "negative_prompt": "fog", "cfg_scale": 1.0, "strength": null, "from_image": false,
                "notes": ["Safelight has no sampler Euler A Trailing: the model's default is used"]}),
        ),
        (
            "Prompt: a fox; red\nin snow\nNegative Prompt: fog\nSeed: 5\nSteps: 25\nGuidance Scale: 3,5\nWidth: 512\nHeight: 640\nStable Diffusion model: flux1-dev\nLora model: ['ink', 'gr']\nLora alpha: [0.5, 0.6]\nUse Upscaling: RealESRGAN",
            json!({"tool": "Easy Diffusion", "prompt": "a fox; red\nin snow", "negative_prompt": "fog", "seed": 5, "cfg_scale": 3.5,
                "height": 640, "model": "flux1-dev", "loras": loras(&[("ink", 0.5), ("gr", 0.6)]), "notes": ["Not used: use upscaling RealESRGAN"]}),
        ),
        (
            "Metadata Version: 2\nInclude in Image: a red; cube\\nin snow\nExclude from Image: a\\\\b\nModel: flux1-dev\nSteps: 8\nSeed: 42\nGenerator: Mochi Diffusion 6.1",
            json!({"prompt": "a red; cube\nin snow", "negative_prompt": "a\\b", "num_steps": 8}),
        ),
        (
            "a fox\nNegative prompt: fog\nNegative prompt: rain\nSteps: 9, Seed: 7, CFG scale: 3, Denoising strength: 0.6, Mask blur: 4",
            json!({"strength": 0.6, "from_image": true, "negative_prompt": "fog\nrain", "notes": [
                "Its start image and its mask are not in the file: add the image, and set the mask again", "Not used: mask blur 4"]}),
        ),
        (
            "a fox\nSteps: 9, Seed: 7, CFG scale: 3, Denoising strength: 0.6",
            json!({"strength": 0.6, "from_image": true, "notes": [START]}),
        ),
        (
            "a fox\nSteps: 9, Seed: 7, CFG scale: 3, App: SD.Next, Second pass: True, Hires strength: 0.3, Hires scale: 1.5, Denoising strength: 0.3",
            json!({"strength": null, "from_image": false, "second_pass": {"scale": 1.5, "strength": 0.3}}),
        ),
        (
            "a fox\nSteps: 9, Seed: 7, CFG scale: 3, ControlNet 0: \"preprocessor: midas, model: depth [ab], weight: 0.75, starting/ending: (0.1, 0.8), resize mode: Just Resize, control mode: My prompt is more important\"",
            json!({"notes": ["Not used with the ControlNet depth: preprocessor midas, control mode My prompt is more important",
                "It was made with the ControlNet depth at strength 0.75 from 10 % to 80 % of the steps: its control image is not in the file, add it separately"]}),
        ),
        (
            "prompt: a fox\nseed: 3\nsteps: 20",
            json!({"prompt": "a fox", "seed": 3, "num_steps": 20}),
        ),
        (
            "Include in Image: a red; blue cube; Exclude from Image: ; Model: flux1-dev; Steps: 8; Guidance Scale: 4.5; Seed: 42; Size: 64x32; Quality: high; Scheduler: DPM-Solver++; ML Compute Unit: CPU; Generator: Mochi Diffusion 6.0",
            json!({"tool": "Mochi Diffusion", "prompt": "a red; blue cube", "negative_prompt": "", "num_steps": 8, "width": 64,
                "sampler": "dpmpp_2m_diffusers", "notes": ["Not used: quality high"]}),
        ),
    ] {
        assert_reads(read_file("a.txt", text.as_bytes()), &expected, text);
    }
}

#[test]
fn json_settings_of_other_tools_are_read_completely() {
    for (text, expected) in [
        (
            json!({"prompt": "a fox", "negative_prompt": "fog", "steps": 30, "guidance_scale": 4, "base_model": "flux1-dev", "seed": "123",
                "loras": [["ink.safetensors", 0.1, "hash"]], "resolution": "(896, 1152)", "sharpness": 2, "version": "Fooocus v2.5.5"}).to_string(),
            json!({"tool": "Fooocus", "model": "flux1-dev", "width": 896, "seed": 123, "loras": loras(&[("ink.safetensors", 0.1)]), "notes": ["Not used: sharpness 2"]}),
        ),
        (
            json!({"positive_prompt": "a fox", "positive_style_prompt": "ink", "negative_prompt": "fog", "negative_style_prompt": "fog", "seed": 1,
                "steps": 9, "app_version": "5.4", "cfg_scale": 1, "guidance": 4, "scheduler": "euler", "model": {"name": "FLUX Dev", "hash": "blake3:ab"}}).to_string(),
            json!({"tool": "InvokeAI", "prompt": "a fox, ink", "negative_prompt": "fog", "model": "FLUX Dev", "model_hash": "blake3:ab", "sampler": "euler",
                "distilled_guidance": 4.0, "notes": ["Its style prompt, ink, is added to the prompt"]}),
        ),
        (
            json!({"sui_image_params": {"prompt": "a fox <lora:Ink:0.75>", "model": "flux1-dev", "seed": 7, "steps": 9, "loras": ["folder/ink.safetensors"],
                "loraweights": ["0.75"]}}).to_string(),
            json!({"loras": [{"name": "Ink", "path": "folder/ink.safetensors", "strength": 0.75, "strength_2": null}]}),
        ),
        (
            json!({"id": 3, "width": 640, "height": 832, "meta": {"prompt": "a fox", "negativePrompt": "fog", "cfgScale": 3.5, "steps": 9,
                "seed": 7, "clipSkip": 2, "Denoising strength": 0.4, "Hires upscale": "2", "civitaiResources": [{"type": "lora", "weight": 0.8, "modelVersionId": 12}],
                "resources": [{"name": "flux1-dev", "type": "model", "hash": "ab"}]}}).to_string(),
            json!({"tool": "Civitai", "negative_prompt": "fog", "cfg_scale": 3.5, "width": 640, "model": "flux1-dev", "strength": null,
                "second_pass": {"scale": 2.0, "strength": 0.4}, "loras": loras(&[("Civitai 12", 0.8)]), "clip_skip": 2.0, "notes": []}),
        ),
        (
            r#"{"prompt": ["a fox"], "seed": "new", "steps": 9, "cfg_scale": "auto", "width": "wide", "height": [1], "shift": NaN, "loras": "ink:0.8, gr", "fps": null}"#.to_owned(),
            json!({"prompt": "a fox", "cfg_scale": null, "loras": loras(&[("ink", 0.8), ("gr", 1.0)]),
                "notes": ["Not used: cfg_scale auto, height [1], seed new, shift NaN, width wide"]}),
        ),
        (
            json!({"Prompt": "a fox", "Negative Prompt": "fog", "Steps": 30, "Resolution": "(1152, 896)", "Guidance Scale": 4, "Base Model": "flux1-dev",
                "Refiner Model": "None", "Seed": "7", "LoRA 1": "ink : 0.8", "Version": "Fooocus v2.5.5", "Styles": "['Fooocus V2']"}).to_string(),
            json!({"tool": "Fooocus", "negative_prompt": "fog", "width": 1152, "seed": 7, "model": "flux1-dev", "loras": loras(&[("ink", 0.8)]),
                "notes": ["Not used: styles ['Fooocus V2']"]}),
        ),
        (
            json!({"prompt": "{a fox}, 1.5::snow::", "uc": "fog", "steps": 28, "scale": 5, "seed": 7, "sampler": "k_euler", "v4_prompt": {"caption":
                {"base_caption": "{a fox}, 1.5::snow::", "char_captions": [{"char_caption": "girl"}, {"char_caption": ""}]}},
                "v4_negative_prompt": {"caption": {"base_caption": "fog", "char_captions": [{"char_caption": "boy"}]}}}).to_string(),
            json!({"tool": "NovelAI", "prompt": "{a fox}, 1.5::snow::, girl", "negative_prompt": "fog, boy", "cfg_scale": 5.0, "notes": [
                "The prompts of its characters are added to the prompt, without their places",
                "Prompt weights are not used: 1.5::snow:: stays in the prompt as it is written",
                "Brackets are not used as prompt weights: they stay in the prompt as it is written"]}),
        ),
        (
            json!({"c": "a fox", "uc": "", "model": "flux_1_dev_q8p.ckpt", "scale": 1.5, "seed": 2, "size": "1024x1536", "steps": 8, "strength": 1,
                "mask_blur": 1.5, "hires_fix": true, "first_stage_size": "512x768", "second_stage_strength": 0.6, "v2": {"guidanceEmbed": 4.5,
                "speedUpWithGuidanceEmbed": false, "numFrames": 14, "clipSkip": 1, "stochasticSamplingGamma": 0.300_000_01, "teaCache": false,
                "teaCacheEnd": -1, "hiresFix": true, "hiresFixWidth": 512, "sharpness": 3.5, "upscaler": "x2", "loras": [{"file": "ink.ckpt", "weight": 0.8, "mode": "all"}]}}).to_string(),
            json!({"tool": "Draw Things", "strength": null, "cfg_scale": 1.5, "distilled_guidance": 4.5, "width": 512, "height": 768, "num_frames": null,
                "second_pass": {"scale": 2.0, "strength": 0.6}, "loras": loras(&[("ink.ckpt", 0.8)]), "notes": ["Not used: sharpness 3.5, upscaler x2"]}),
        ),
        (
            json!({"sui_image_params": {"prompt": "a fox <base>in snow <refiner>sharp <lora:gr:1> <region:0,0,1,1>red<region:end> at night", "negativeprompt": "fog<segment:face>ugly",
                "model": "flux1-dev", "seed": 7, "steps": 9, "cfgscale": 1, "fluxguidancescale": 3.5, "loras": ["ink", "gr"], "loraweights": ["0.8", "1"],
                "lorasectionconfinement": ["0", "1"], "controlnetmodel": "(None)"}}).to_string(),
            json!({"prompt": "a fox in snow at night", "negative_prompt": "fog", "distilled_guidance": 3.5, "loras": loras(&[("ink", 0.8)]), "controls": [], "notes": [
                "The part <refiner>sharp <lora:gr:1> of the prompt is not used: it was for another stage or region",
                "The part <region:0,0,1,1>red of the prompt is not used: it was for another stage or region",
                "The part <segment:face>ugly of the prompt is not used: it was for another stage or region",
                "The LoRA gr acted on another stage alone and is not used"]}),
        ),
        (
            json!({"sui_image_params": {"prompt": "a fox", "model": "wan2.2_t2v_high_noise_14B", "videoswapmodel": "wan2.2_t2v_low_noise_14B", "seed": 7,
                "loras": ["a", "b", "c"], "loraweights": ["0.5", "", "0.25"], "lorasectionconfinement": ["5", "0", "3"]}}).to_string(),
            json!({"model_2": "wan2.2_t2v_low_noise_14B", "loras": [{"name": "a", "path": "a", "strength": 0.5, "strength_2": 0.0},
                {"name": "b", "path": "b", "strength": 1.0, "strength_2": null}, {"name": "c", "path": "c", "strength": 0.0, "strength_2": 0.25}]}),
        ),
        (
            json!({"c": "a fox", "uc": "fog", "model": "wan_v2.2_a14b_hne_t2v_q8p.ckpt", "scale": 1, "seed": 2, "size": "832x480", "steps": 8,
                "v2": {"numFrames": 81, "refinerModel": "wan_v2.2_a14b_lne_t2v_q8p.ckpt", "loras": [{"file": "a", "weight": 0.5, "mode": "base"},
                {"file": "b", "weight": 1, "mode": "all"}, {"file": "c", "weight": 0.25, "mode": "refiner"}]}}).to_string(),
            json!({"num_frames": 81, "model_2": "wan_v2.2_a14b_lne_t2v_q8p.ckpt", "loras": [{"name": "a", "path": "a", "strength": 0.5, "strength_2": 0.0},
                {"name": "b", "path": "b", "strength": 1.0, "strength_2": null}, {"name": "c", "path": "c", "strength": 0.0, "strength_2": 0.25}]}),
        ),
        (
            json!({"positive_prompt": "a fox", "app_version": "5", "seed": 7, "steps": 9, "cfg_scale": [1, 2], "guidance": "4,5", "model": {"name": "FLUX Dev"},
                "loras": [{"model": {"name": "ink"}, "weight": 0.5}, {"weight": 1}, {"name": "off", "enabled": false}], "vae": {"name": "x"}}).to_string(),
            json!({"cfg_scale": null, "distilled_guidance": 4.5, "loras": loras(&[("ink", 0.5)]), "notes": ["A LoRA could not be read: {\"weight\":1}", "Not used: cfg_scale [1,2], vae {\"name\":\"x\"}"]}),
        ),
        (
            json!({"prompt": {"text": "a fox"}, "seed": 7, "model": ["x"], "loras": [["ink", 0.5]], "steps": 0}).to_string(),
            json!({"prompt": null, "seed": 7, "model": null, "notes": ["The file has no prompt: write one", "Its number of steps, 0, cannot be used",
                "Not used: model [\"x\"], prompt {\"text\":\"a fox\"}"]}),
        ),
        (
            json!({"prompt": "a fox <lora:ink:0.8>", "seed": -1, "steps": "9", "loras": "ink:0.8, None, gr:0,5", "hires": false, "hires_steps": 4}).to_string(),
            json!({"prompt": "a fox", "seed": null, "has_random_seed": true, "num_steps": 9, "loras": loras(&[("ink", 0.8), ("gr", 0.5)])}),
        ),
        (
            json!([{"prompt": "a fox", "num_inference_steps": 9, "seed": 7, "guidance_scale": 3.5, "true_cfg_scale": 2, "model": {"name": "flux1-dev"}}, {}]).to_string(),
            json!({"cfg_scale": 2.0, "distilled_guidance": 3.5, "model": "flux1-dev", "notes": ["Of 2 jobs in the file the first is used"]}),
        ),
        (
            json!({"prompt": "a fox", "resolution": "832x480", "num_inference_steps": 9, "seed": 7, "activated_loras": ["ink", "gr"], "loras_multipliers": "x 0.5;1",
                "force_fps": "control", "model_type": "t2v"}).to_string(),
            json!({"fps": null, "loras": [{"name": "gr", "path": "gr", "strength": 0.5, "strength_2": 1.0}],
                "notes": ["The LoRA ink is not used: its strength, \"x\", is not a number", "Not used: force_fps control"]}),
        ),
    ] {
        assert_reads(read_file("a.json", text.as_bytes()), &expected, &text);
    }
}

#[test]
fn json_settings_with_images_and_latent_windows_are_read_completely() {
    for (text, expected) in [
        (
            json!({"model": "stable diffusion", "model_weights": "dev", "app_version": "2.3", "image": {"prompt": [{"prompt": "a fox [fog] in snow", "weight": 1}],
                "steps": 9, "cfg_scale": 6.5, "seed": 7, "type": "txt2img", "sampler": "k_euler", "variations": []}}).to_string(),
            json!({"tool": "InvokeAI", "model": "dev", "prompt": "a fox  in snow", "negative_prompt": "fog", "sampler": "euler", "num_steps": 9}),
        ),
        (
            json!({"positive_prompt": "a fox", "app_version": "5.6", "seed": 7, "steps": 9, "num_steps": 9, "strength": 0.45, "init_image": "in.png"}).to_string(),
            json!({"strength": 0.45, "notes": ["Its start image, in.png, is not in the file: add it separately"]}),
        ),
        (
            json!({"prompt": "a fox", "total_second_length": 6, "seed": 7, "steps": 25, "latent_window_size": 12, "use_teacache": false, "teacache_rel_l1_thresh": 0.15,
                "use_magcache": true, "magcache_threshold": 0.12, "loras": {"ink": 0.8}, "lora_values": [0.8], "end_frame_image_path": "/x/end.png"}).to_string(),
            json!({"window": 12, "step_cache": {"kind": "mag_cache", "threshold": 0.12}, "notes": ["Its end image, end.png, is not in the file: add it separately"]}),
        ),
        (
            json!({"prompt": "a fox", "num_inference_steps": 9, "resolution": "832x480 (16:9)", "video_length": 81, "seed": 7, "image_mode": 1,
                "loras_choices": ["ink"], "image_refs": ["a.png", "b.png"]}).to_string(),
            json!({"tool": "Wan2GP", "num_frames": 1, "width": 832, "height": 480, "loras": loras(&[("ink", 1.0)]), "notes": ["Its reference image, a.png, is not in the file: add it separately",
                "Its reference image, b.png, is not in the file: add it separately"]}),
        ),
        (
            json!({"c": "a fox", "uc": "", "model": "x.ckpt", "scale": 1, "seed": 2, "size": "64x64", "steps": 8, "strength": 0.7,
                "v2": {"controls": [{"file": "canny.ckpt", "weight": 0.6, "guidanceStart": 0, "guidanceEnd": 0.57}]}}).to_string(),
            json!({"strength": 0.7, "notes": [START,
                "It was made with the ControlNet canny.ckpt at strength 0.6 from 0 % to 57 % of the steps: its control image is not in the file, add it separately"]}),
        ),
    ] {
        assert_reads(read_file("a.json", text.as_bytes()), &expected, &text);
    }
}

#[test]
fn broken_json_is_named_as_such() {
    let (_folder, path) =
        folder_of(&[("a.json", br#"{"prompt": "a fox", "seed": 1, "steps": 4,}"#)]);
    let said = says_nothing(&path).summary;
    assert_eq!(
        said,
        "the settings in the file a.json are not valid JSON: key must be a string at line 1 column 43"
    );
}

#[test]
fn settings_in_several_texts_of_a_png_are_read_together() {
    let read = |texts: &[&str]| {
        let texts: Vec<Vec<u8>> = texts
            .iter()
            .map(|it| it.replacen('=', "\0", 1).into_bytes())
            .collect();
        let texts: Vec<([u8; 4], &[u8])> = texts.iter().map(|it| (*b"tEXt", &it[..])).collect();
        read_file("a.png", &pngs(&texts))
    };
    let texts = [
        "prompt=a fox",
        "seed=5",
        "num_inference_steps=9",
        "use_stable_diffusion_model=flux1-dev",
        "use_lora_model=['ink', 'gr']",
        "lora_alpha=[0.5, 0.6]",
        "guidance_scale=1.0",
        "distilled_guidance_scale=3.5",
        "scheduler_name=beta",
        "tiling=x",
    ];
    let expected = json!({"tool": "Easy Diffusion", "cfg_scale": 1.0, "distilled_guidance": 3.5, "sigma_schedule": "beta",
        "loras": loras(&[("ink", 0.5), ("gr", 0.6)]), "notes": ["Not used: tiling x"]});
    assert_reads(read(&texts), &expected, "Easy Diffusion");
    let texts = [
        "Source=NovelAI Diffusion V4.5 4BDE2A90",
        r#"Comment={"prompt": "a fox", "uc": "", "steps": 28, "scale": 5, "seed": 1}"#,
    ];
    let expected =
        json!({"tool": "NovelAI", "model": "NovelAI Diffusion V4.5 4BDE2A90", "cfg_scale": 5.0});
    assert_reads(read(&texts), &expected, "NovelAI");
    let texts = [
        "Source=Stable Diffusion XL 7BCCAA2C",
        r#"Comment={"prompt": "a fox", "uc": "", "steps": 28, "scale": 5, "seed": 1}"#,
    ];
    assert_reads(
        read(&texts),
        &json!({"tool": "NovelAI", "model": "Stable Diffusion XL 7BCCAA2C"}),
        "an older NovelAI",
    );
    for prompt in ["[1s: she waves] [3s: she sits]", "{she|he} waves"] {
        let expected = json!({"tool": "FramePack Studio", "prompt": prompt, "seed": 31});
        let text = format!("prompt={prompt}");
        assert_reads(read(&[&text, "seed=31"]), &expected, prompt);
        let all = [
            &text,
            "seed=31",
            "total_second_length=6",
            "loras={'ink': 0.8}",
            "use_magcache=True",
        ];
        let expected = json!({"prompt": prompt, "secs": 6.0, "loras": loras(&[("ink", 0.8)]),
            "step_cache": {"kind": "mag_cache", "threshold": 0.1}});
        assert_reads(read(&all), &expected, prompt);
    }
    let long = format!(
        r#"Comment={{"prompt": "{}", "steps": 28, "seed": 1}}"#,
        "a ".repeat(40_000)
    );
    let expected = json!({"prompt": null, "notes": ["The file's prompt, 80000 bytes, is not used: a prompt has at most 65536. Write a shorter one"]});
    assert_reads(read(&[&long]), &expected, "a long prompt");
}

#[test]
fn one_scale_is_the_distilled_guidance_where_the_program_has_no_other() {
    let mut spec = test_spec();
    spec.family = flux::FAMILY;
    let a1111 = |more: &str| {
        format!("a fox\nNegative prompt: fog\nSteps: 9, Seed: 7, CFG scale: 3.5{more}")
    };
    let moved = "Its CFG scale, 3.5, is used as the distilled guidance of Test model, which the file does not name apart";
    let idle = "Its CFG scale, 3.5, is not used: Test model takes no guidance";
    for (text, mode, expected, note) in [
        (a1111(""), GuidanceMode::Distilled, [Some(3.5), None], moved),
        (
            a1111(", App: SD.Next"),
            GuidanceMode::Distilled,
            [Some(3.5), None],
            moved,
        ),
        (
            a1111(", Distilled CFG Scale: 2"),
            GuidanceMode::Distilled,
            [Some(2.0), Some(3.5)],
            "",
        ),
        (
            a1111(", Version: f2.0.1"),
            GuidanceMode::Distilled,
            [None, Some(3.5)],
            "",
        ),
        (
            r#"{"c": "a fox", "uc": "", "model": "x.ckpt", "scale": 3.5, "seed": 2, "steps": 8}"#.to_owned(),
            GuidanceMode::Distilled,
            [Some(3.5), None],
            moved,
        ),
        (
            r#"{"meta": {"prompt": "a fox", "cfgScale": 3.5, "steps": 9, "seed": 7, "resources": []}}"#.to_owned(),
            GuidanceMode::Distilled,
            [Some(3.5), None],
            moved,
        ),
        (a1111(""), GuidanceMode::None, [None, None], idle),
        (a1111(""), GuidanceMode::Cfg, [Some(3.5), None], ""),
    ] {
        spec.guidance = mode;
        let (form, notes) = read_file("a.txt", text.as_bytes()).unwrap().form_for(&spec);
        let sampling = form.sampling;
        assert_eq!(
            [sampling.guidance_scale, sampling.true_cfg_scale],
            expected,
            "{text}"
        );
        assert_eq!(
            notes.iter().any(|it| it == note),
            !note.is_empty(),
            "{notes:?}"
        );
    }
}
