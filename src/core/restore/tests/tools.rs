//! The texts of A1111 and its kin, and the JSON of SwarmUI, Wan2GP, FramePack, InvokeAI and Draw Things.

use crate::model::choices::{SamplerKind, SectionOrder, SigmaSchedule};
use serde_json::json;

use super::*;
use crate::families::{framepack, wan};
use crate::job::StepCacheKind;
use crate::job::prompt::PromptWeights;
use crate::media::test_files::{exif, jpeg, mp4_with_comment, webm};

const FORGE: &str = "a fox, <lora:Fur - v1:0.8> in the snow,\nwith breath in the air\nNegative prompt: blurry,\nSteps taken\nSteps: 24, Sampler: Euler, Schedule type: Simple, CFG scale: 1, Distilled CFG Scale: 3.5, Seed: 1234567890123, Size: 896x1152, Model hash: 06f96f89f6, Model: flux1-dev-bnb-nf4-v2, Denoising strength: 0.6, Lora hashes: \"Fur - v1: de92428f6411, Other: 1, two\", Version: f2.0.1v1.10.1";

#[test]
fn a_text_of_forge_gives_everything_that_it_names() {
    let found = read_png("parameters", FORGE);
    assert_fields!(found, {
        "tool": "Forge", "prompt": "a fox, in the snow,\nwith breath in the air",
        "negative_prompt": "blurry,\nSteps taken"
    });
    assert_eq!(found.loras, [lora("Fur - v1", 0.8, None)]);
    assert_fields!(found, {
        "num_steps": 24, "sampler": SamplerKind::Euler, "sigma_schedule": SigmaSchedule::Simple,
        "cfg_scale": 1.0, "distilled_guidance": 3.5, "seed": 1_234_567_890_123_u64, "width": 896, "height": 1152,
        "model": "flux1-dev-bnb-nf4-v2", "model_hash": "06f96f89f6", "strength": 0.6,
        "notes": ["Its start image is not in the file: add it separately"]
    });
}

#[test]
fn a_prompt_may_speak_of_negative_prompts() {
    let text = "a poster that says Negative prompt: none\nNegative prompt: fog\nSteps: 20, CFG scale: 7, Seed: 3";
    let found = read_png("parameters", text);
    let prompt = found.prompt.as_deref();
    assert_eq!(prompt, Some("a poster that says Negative prompt: none"));
    assert_eq!(found.negative_prompt.as_deref(), Some("fog"));
}

#[test]
fn the_same_text_in_a_jpeg_gives_the_same() {
    let units = FORGE.encode_utf16().flat_map(u16::to_be_bytes);
    let comment: Vec<u8> = b"UNICODE\0".iter().copied().chain(units).collect();
    let found = read_file("a.jpg", &jpeg(&exif(true, 0x9286, &comment)));
    assert_eq!(found, Some(read_png("parameters", FORGE)));
}

#[test]
fn unknown_sampler_is_reported_and_the_default_is_used() {
    let text = "a fox\nSteps: 20, Sampler: DPM fast, Schedule type: Karras, CFG scale: 7, Seed: 3";
    let found = read_png("parameters", text);
    assert_fields!(found, {
        "sampler": null, "sigma_schedule": SigmaSchedule::Karras,
        "notes": ["Safelight has no sampler DPM fast: the model's default is used"]
    });
    let text = "a fox\nSteps: 20, Sampler: DPM++ 2M Karras, CFG scale: 7, Seed: 3";
    let found = read_png("parameters", text);
    assert_fields!(found, {"sampler": SamplerKind::DpmPp2m, "sigma_schedule": SigmaSchedule::Karras});
}

#[test]
fn a_text_of_sd_cpp_names_its_transformer_and_its_guidance() {
    let text = "a lake\nNegative prompt: fog\nSteps: 4, CFG scale: 1.000000, Guidance: 3.500000, Seed: 42, Size: 512x768, Model: , RNG: cuda, Sampler: euler simple, Unet: flux1-schnell-q4_0.gguf, Version: stable-diffusion.cpp";
    let found = read_png("parameters", text);
    assert_fields!(found, {
        "tool": "stable-diffusion.cpp", "model": "flux1-schnell-q4_0.gguf", "distilled_guidance": 3.5,
        "sampler": SamplerKind::Euler, "sigma_schedule": SigmaSchedule::Simple
    });
}

#[test]
fn words_with_colons_are_no_settings() {
    for text in [
        "Photo: a fox, Camera: old, Lens: 50 mm",
        "just words",
        "Steps: three",
        "<lora:broken",
    ] {
        let chunk = [b"Comment\0".as_slice(), text.as_bytes()].concat();
        assert_eq!(read_file("a.png", &png(*b"tEXt", &chunk)), None, "{text}");
    }
}

#[test]
fn swarmui_is_read_with_its_loras_and_hashes() {
    let text = json!({
        "sui_image_params": {
            "prompt": "a fox", "negativeprompt": "", "model": "Flux/flux1-dev-fp8",
            "seed": 7, "steps": 20, "cfgscale": 1.0, "fluxguidancescale": 3.0,
            "width": 1024, "height": 768, "sampler": "uni_pc_bh2", "scheduler": "beta",
            "loras": ["style/Ink"], "loraweights": ["0.75"], "sigmashift": 3,
        },
        "sui_models": [{"name": "flux1-dev-fp8.safetensors", "param": "model", "hash": "0xabc"}],
    });
    let found = read_png("parameters", &text.to_string());
    assert_fields!(found, {
        "tool": "SwarmUI", "model": "flux1-dev-fp8", "model_hash": "0xabc", "sampler": SamplerKind::UniPc,
        "sigma_schedule": SigmaSchedule::Beta
    });
    assert_eq!(found.loras, [lora("Ink", 0.75, None)]);
    assert_fields!(found, {"cfg_scale": 1.0, "distilled_guidance": 3.0, "shift": 3.0, "seed": 7});
}

fn wan2gp() -> serde_json::Value {
    json!({
        "type": "WanGP v9.1 by DeepBeepMeep - Wan2.2 Image2video 14B",
        "prompt": "waves", "negative_prompt": "", "resolution": "832x480", "video_length": 81,
        "seed": 99, "num_inference_steps": 8, "guidance_scale": 3.5, "guidance2_scale": 1.0,
        "guidance_phases": 2, "flow_shift": 5, "sample_solver": "unipc", "model_type": "i2v_2_2",
        "activated_loras": ["high.safetensors", "https://somewhere/both.safetensors"],
        "loras_multipliers": "1;0 0.8", "image_start": "boat.png",
    })
}

#[test]
fn wan2gp_is_read_from_videos_and_from_settings_files() {
    let text = wan2gp().to_string();
    let queue = json!([{ "id": 1, "params": wan2gp() }]).to_string();
    for (name, bytes) in [
        ("a.mp4", mp4_with_comment(&text)),
        ("a.mkv", webm("COMMENT", &text)),
        ("a.json", text.into_bytes()),
        ("queue.json", queue.into_bytes()),
    ] {
        let found = read_file(name, &bytes).expect(name);
        assert_fields!(found, {"tool": "Wan2GP", "model": "Wan2.2 Image2video 14B"});
        assert_eq!(found.family, Some(wan::FAMILY));
        assert_fields!(found, {
            "width": 832, "height": 480, "num_frames": 81, "num_steps": 8, "cfg_scale": 3.5, "cfg_scale_2": 1.0,
            "shift": 5.0, "seed": 99, "sampler": SamplerKind::UniPc
        });
        let expected = [
            lora("high.safetensors", 1.0, Some(0.0)),
            lora("both.safetensors", 0.8, None),
        ];
        assert_eq!(found.loras, expected);
        assert_eq!(found.notes.len(), 1, "{:?}", found.notes);
    }
}

#[test]
fn framepack_studio_settings_are_read_from_the_json_next_to_the_video() {
    let text = json!({
        "prompt": "[1s: she waves]", "negative_prompt": "", "seed": 5, "steps": 25, "cfg": 1.0,
        "gs": 10.0, "rs": 0.0, "model_type": "F1", "resolutionW": 640, "resolutionH": 608,
        "total_second_length": 6, "latent_window_size": 9, "use_teacache": true,
        "loras": {"dance": 0.9}, "has_input_image": true,
    })
    .to_string();
    let video = mp4_with_comment("Lavf61");
    for beside in ["job_1.json", "job_1_145.json", "job_1_145.mp4.json"] {
        let files = [
            ("job_1_145.mp4", video.as_slice()),
            (beside, text.as_bytes()),
        ];
        let (_folder, path) = folder_of(&files);
        let found = other(read(&path).unwrap()).expect(beside);
        assert_eq!(found.tool, "FramePack Studio");
        assert_eq!(found.family, Some(framepack::FAMILY));
        assert_eq!(found.section_order, Some(SectionOrder::F1));
        assert_eq!(found.secs, Some(6.0));
        assert_eq!(found.distilled_guidance, Some(10.0));
        assert_eq!((found.width, found.height), (Some(640), Some(608)));
        assert_eq!(found.loras, [lora("dance", 0.9, None)]);
        let cache = found.step_cache.map(|cache| cache.kind);
        assert_eq!(cache, Some(StepCacheKind::TeaCache));
    }
}

#[test]
fn framepack_studio_image_takes_missing_settings_from_the_adjacent_json() {
    let image = crate::media::test_files::pngs(&[
        (*b"tEXt", b"prompt\0she waves"),
        (*b"tEXt", b"seed\x005"),
    ]);
    let beside = br#"{"steps": 25, "gs": 9, "total_second_length": 3, "model_type": "Original"}"#;
    let (_folder, path) = folder_of(&[("job.png", &image), ("job.json", beside)]);
    let found = other(read(&path).unwrap()).unwrap();
    assert_eq!(found.prompt.as_deref(), Some("she waves"));
    assert_eq!((found.seed, found.num_steps), (Some(5), Some(25)));
    assert_eq!(found.section_order, Some(SectionOrder::Original));
}

#[test]
fn prompts_of_a1111_stay_as_they_are_and_have_its_weights() {
    let prompt = r"(very (red:1.2):1.5) \[fox\] [x], BREAK";
    let text = format!("{prompt}\nNegative prompt: [fog]\nSteps: 9, Seed: 7, CFG scale: 1");
    let found = read_png("parameters", &text);
    assert_eq!(found.prompt.as_deref(), Some(prompt));
    assert_eq!(found.negative_prompt.as_deref(), Some("[fog]"));
    let (form, _) = found.form_for(&crate::model::test_spec());
    assert_eq!(form.options.prompt_weights, Some(PromptWeights::A1111));
}

#[test]
fn img2img_is_detected_from_denoising_strength_or_mask_blur() {
    for (more, expected) in [
        ("", false),
        (", Denoising strength: 0.6", true),
        (", Denoising strength: 0.6, Hires upscale: 2", false),
        (", Mask blur: 4", true),
    ] {
        let text = format!("a fox\nSteps: 9, Seed: 7, CFG scale: 1{more}");
        let found = read_png("parameters", &text);
        assert_eq!(found.from_image, expected, "{more}");
    }
}

#[test]
fn a_video_that_was_changed_is_named_with_its_strength() {
    let found = read_with(&json!({
        "20": node("LoadVideo", json!({"file": "videos/dog.mp4"})),
        "21": node("GetVideoComponents", json!({"video": ["20", 0]})),
        "22": node("ImageScale", json!({"image": ["21", 0], "width": 832, "height": 480})),
        "23": node("VAEEncode", json!({"pixels": ["22", 0], "vae": ["9", 0]})),
        "7.denoise": 0.6, "7.latent_image": ["23", 0],
    }));
    assert_fields!(found, {"strength": 0.6, "from_image": true});
    let said = "Its video, dog.mp4, is not in the file: add it separately";
    assert_note(&found, said);
}

#[test]
fn a_seed_of_minus_one_is_a_random_seed_and_others_below_zero_are_none() {
    for (seed, is_random) in [("-1", true), ("\"-1\"", true), ("-2", false), ("5", false)] {
        let text = format!(r#"{{"prompt": "a fox", "seed": {seed}, "steps": 4}}"#);
        let found = read_file("a.json", text.as_bytes()).unwrap();
        assert_eq!(found.has_random_seed, is_random, "{seed}");
    }
}

#[test]
fn restored_prompts_are_literal() {
    let prompt = "a {red|blue} fox, __place__";
    let text = format!("{prompt}\nNegative prompt: {{fog|rain}}\nSteps: 9, Seed: 7, CFG scale: 4");
    let found = read_png("parameters", &text);
    let (form, _) = found.form_for(&crate::model::test_spec());
    assert_eq!(form.unedited_prompt().unwrap().text, prompt);
    assert_eq!(form.unedited_negative().unwrap().text, "{fog|rain}");
}

fn read_text(text: &str) -> ForeignSettings {
    read_png("parameters", text)
}

#[test]
fn a_hires_fix_is_a_second_pass_and_not_image_to_image() {
    let found = read_text(
        "a fox\nSteps: 20, CFG scale: 7, Seed: 3, Size: 512x768, Denoising strength: 0.4, Hires upscale: 2, Hires steps: 10, Hires upscaler: 4x-UltraSharp, Hires prompt: \"a fox, \\\"lit\\\": late\", Version: v1.10.1",
    );
    let pass = found.second_pass.unwrap();
    assert_eq!(
        (pass.scale, pass.strength, found.strength),
        (2.0, 0.4, None)
    );
    assert!(!found.from_image);
    let note = "The hires fix had settings of its own: steps 10, upscaler 4x-UltraSharp, prompt a fox, \"lit\": late. Safelight's has those of the first pass";
    assert_eq!(found.notes, [note]);
    let found = read_text(
        "a fox\nSteps: 20, CFG scale: 7, Seed: 3, Size: 512x768, Denoising strength: 0.5, Hires resize: 768x1152",
    );
    assert_eq!(found.second_pass.map(|pass| pass.scale), Some(1.5));
    let found = read_text(
        "a fox\nSteps: 20, CFG scale: 7, Seed: 3, Denoising strength: 0.5, Hires upscale: 8",
    );
    assert_eq!((found.second_pass, found.strength), (None, None));
    assert!(
        found.notes[0].starts_with("Another pass at scale 8 is not used"),
        "{:?}",
        found.notes
    );
}

#[test]
fn a_controlnet_is_named_with_its_settings() {
    let found = read_text(
        "a dog\nSteps: 20, CFG scale: 7, Seed: 3, ControlNet 0: \"Module: canny, Model: control_canny [abc], Weight: 0.8, Resize Mode: Crop and Resize, Guidance Start: 0.1, Guidance End: 0.9\", Version: v1.9",
    );
    assert_fields!(found, {
        "notes": ["Not used with the ControlNet control_canny: preprocessor canny, resize mode Crop and Resize", "It was made with the ControlNet control_canny at strength 0.8 from 10 % to 90 % of the steps: its control image is not in the file, add it separately"]
    });
}

#[test]
fn the_strength_of_the_transformer_counts_in_a_tag() {
    let found = read_text(
        "a fox <lora:detail:te=0.5:unet=0.8> and <lora:sub\\dir\\Name (v1.2):0.33:lbw=OUTALL> <lyco:old:0.5> <lora:two:1:0.25> <lora:dot.v1.2:.25> a <3 b\nNegative prompt: <lora:inneg:0.4> ugly\nSteps: 20, CFG scale: 7, Seed: 3",
    );
    let expected = [
        lora("detail", 0.8, None),
        lora("Name (v1.2)", 0.33, None),
        lora("old", 0.5, None),
        lora("two", 0.25, None),
        lora("dot.v1.2", 0.25, None),
    ];
    assert_eq!(found.loras, expected);
    assert_fields!(found, {
        "prompt": "a fox and a <3 b", "negative_prompt": "ugly",
        "notes": ["The text encoder's strength 0.5 in <lora:detail:te=0.5:unet=0.8> is not used: a LoRA has one strength for all, here 0.8", "The part lbw=OUTALL of <lora:sub\\dir\\Name (v1.2):0.33:lbw=OUTALL> is not used", "The text encoder's strength 1 in <lora:two:1:0.25> is not used: a LoRA has one strength for all, here 0.25", "LoRAs in the negative prompt are not used, as in A1111: inneg (0.4)"]
    });
}

#[test]
fn the_resources_of_civitai_and_the_hashes_of_loras_are_named() {
    let found = read_text(
        r#"a fox
Negative prompt: ugly
Steps: 25, CFG scale: 3,5, Sampler: Undefined, Seed: 3, Size: 832x1216, Clip skip: 2, Civitai resources: [{"type":"checkpoint","modelVersionId":691639,"modelName":"FLUX","modelVersionName":"Dev"},{"type":"lora","weight":0.8,"modelVersionId":11,"modelName":"Ink: lines, thin","modelVersionName":"v1"},{"type":"lora","weight":-0.35,"modelVersionId":12},{"type":"embed","modelName":"Bad hands"}], Civitai metadata: {"remixOfId":1}"#,
    );
    let expected = [
        lora("Ink: lines, thin v1", 0.8, None),
        lora("Civitai 12", -0.35, None),
    ];
    assert_eq!(found.loras, expected);
    assert_fields!(found, {
        "model": "FLUX Dev", "cfg_scale": 3.5, "width": 832,
        "clip_skip": 2.0, "notes": ["Not used: Bad hands (embed)"]
    });

    let found = read_text(
        "a fox <lora:ink:0.5>\nSteps: 25, CFG scale: 3, Seed: 3, Lora hashes: \"ink: de92428f6411, Gr: ain: aabbccddeeff\"",
    );
    assert_eq!(found.loras, [lora("ink", 0.5, None)]);
    assert!(
        found.notes[0].contains("the LoRA Gr: ain, at a strength that the file does not say"),
        "{:?}",
        found.notes
    );
}

#[test]
fn the_settings_are_the_last_line_and_the_first_of_two_values_counts() {
    let found = read_text(
        "a poster\nSteps: 5, Sampler: LMS, Seed: 1, Size: 64x64\nNegative prompt: x\nSteps: 20, Sampler: Euler, CFG scale: 7, Seed: 3",
    );
    assert_fields!(found, {
        "num_steps": 20, "seed": 3, "prompt": "a poster\nSteps: 5, Sampler: LMS, Seed: 1, Size: 64x64"
    });
    let found = read_text(
        "a poster\nSteps: 20, Sampler: Euler, CFG scale: 7, Seed: 3\nSteps: 99, but not these",
    );
    assert_fields!(found, {
        "num_steps": 20, "seed": 3,
        "notes": ["The settings say steps twice: 20 is used, and not 99", "Not used: but not these"]
    });
}

#[test]
fn file_without_a_prompt_gets_a_notice_to_write_one() {
    let found = read_file(
        "a.json",
        br#"{"seed": 5, "steps": 25, "gs": 9.5, "total_second_length": 4}"#,
    );
    assert_eq!(found.unwrap().notes, ["The file has no prompt: write one"]);
}
