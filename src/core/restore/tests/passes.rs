//! Graphs of several samplers, and canvases with subgraphs and Set and Get nodes.

use crate::model::choices::SamplerKind;
use serde_json::{Value, json};

use super::*;
use crate::job::SecondPass;

fn second_sampler(latents: &str) -> Value {
    json!({"class_type": "KSampler", "inputs": {"seed": 6, "steps": 10, "cfg": 1.0, "sampler_name": "euler",
        "scheduler": "simple", "denoise": 0.55, "model": ["1", 0], "positive": ["4", 0], "negative": ["5", 0],
        "latent_image": [latents, 0]}})
}

#[test]
fn an_upscale_between_two_samplers_is_a_second_pass() {
    let encode =
        json!({"class_type": "VAEEncode", "inputs": {"pixels": ["20", 0], "vae": ["9", 0]}});
    let network =
        json!({"class_type": "UpscaleModelLoader", "inputs": {"model_name": "4x-UltraSharp.pth"}});
    let enlarged = json!({"class_type": "ImageUpscaleWithModel", "inputs": {"image": ["8", 0], "upscale_model": ["25", 0]}});
    for (scale, notes, parts) in [
        (
            1.5,
            &[][..],
            json!({"20": {"class_type": "LatentUpscaleBy", "inputs": {"scale_by": 1.5, "samples": ["7", 0]}},
            "21": second_sampler("20")}),
        ),
        (
            2.0,
            &[],
            json!({"20": {"class_type": "LatentUpscale", "inputs": {"width": 1792, "height": 0, "samples": ["7", 0]}},
            "21": second_sampler("20")}),
        ),
        (
            1.25,
            &[
                "The hires fix had another shape, 1120 × 1120 (node 20 (LatentUpscale)): Safelight's keeps that of the first pass",
            ],
            json!({"20": {"class_type": "LatentUpscale", "inputs": {"width": 1120, "height": 1120, "samples": ["7", 0]}},
            "21": second_sampler("20")}),
        ),
        (
            2.0,
            &[],
            json!({"20": {"class_type": "ImageScaleBy", "inputs": {"scale_by": 0.5, "image": ["24", 0]}},
            "24": enlarged, "25": network, "22": encode, "21": second_sampler("22")}),
        ),
    ] {
        let mut parts = parts;
        parts["10"] = json!({"class_type": "SaveImage", "inputs": {"images": ["23", 0]}});
        parts["23"] = json!({"class_type": "VAEDecode", "inputs": {"samples": ["21", 0]}});
        let found = read_with(&parts);
        assert_eq!(
            found.second_pass,
            Some(SecondPass {
                scale,
                strength: 0.55
            })
        );
        assert_fields!(found, {"seed": 9, "num_steps": 24, "strength": null});
        let upscaler = if parts["25"].is_null() {
            ""
        } else {
            ", upscaler 4x-UltraSharp.pth"
        };
        let own = format!(
            "The hires fix had settings of its own: 10 steps, seed 6{upscaler}. Safelight's has those of the first pass"
        );
        assert_eq!(found.notes, [notes, &[&*own]].concat());
    }
}

#[test]
fn upscalers_and_detailers_are_later_passes() {
    let upscaler = json!({"class_type": "UltimateSDUpscale", "inputs": {"upscale_by": 2, "seed": 5, "steps": 8, "cfg": 1,
        "denoise": 0.2, "tile_width": 512, "image": ["8", 0], "model": ["1", 0], "positive": ["11", 0]}});
    let detailer = json!({"class_type": "FaceDetailer", "inputs": {"guide_size": 512, "seed": 5, "steps": 8, "cfg": 1,
        "denoise": 0.2, "image": ["8", 0], "model": ["1", 0], "positive": ["11", 0]}});
    for node in [upscaler.clone(), detailer] {
        let class = node["class_type"].as_str().unwrap().to_owned();
        let found =
            read_with(&json!({"20": node, "11": encoder("a face"), "10.images": ["20", 0]}));
        assert_fields!(found, {"prompt": "a red barn", "seed": 9, "num_steps": 24, "strength": null});
        assert_note(
            &found,
            &format!(
                "is not used: node 20 ({class}) with its own seed 5, 8 steps, denoising strength 0.2"
            ),
        );
        assert!(!found.from_image);
    }
    // Of an image that is not in the file.
    let load = json!({"class_type": "LoadImage", "inputs": {"image": "barn.png"}});
    let found = read_with(
        &json!({"20": upscaler, "11": encoder("a barn"), "8": load, "10.images": ["20", 0]}),
    );
    assert_fields!(found, {
        "seed": 5, "num_steps": 40, "strength": 0.2, "prompt": "a barn", "from_image": true, "width": null
    });
    assert_note(
        &found,
        "upscaled or detailed by node 20 (UltimateSDUpscale)",
    );
}

#[test]
fn a_sampler_of_two_experts_gives_both_models_and_guidances() {
    let with = json!({"class_type": "LoraLoaderModelOnly", "inputs": {"lora_name": "fast.safetensors",
        "strength_model": 0.5, "model": ["2", 0]}});
    let found = read_with(&json!({
        "1": {"class_type": "UNETLoader", "inputs": {"unet_name": "wan2.2_t2v_high_noise_14B.safetensors"}},
        "2": {"class_type": "UNETLoader", "inputs": {"unet_name": "wan2.2_t2v_low_noise_14B.safetensors"}},
        "11": with,
        "7": {"class_type": "WanMoeKSampler", "inputs": {"boundary": 0.875, "add_noise": "enable", "noise_seed": 99,
            "steps": 20, "cfg_high_noise": 3.5, "cfg_low_noise": 3.0, "sampler_name": "euler", "scheduler": "simple",
            "sigma_shift": 8, "model_high_noise": ["1", 0], "model_low_noise": ["11", 0], "positive": ["3", 0],
            "negative": ["5", 0], "latent_image": ["6", 0]}},
    }));
    assert_fields!(found, {
        "model": "wan2.2_t2v_high_noise_14B.safetensors", "model_2": "wan2.2_t2v_low_noise_14B.safetensors",
        "cfg_scale": 3.5, "cfg_scale_2": 3.0, "shift": 8.0
    });
    assert_eq!(found.loras, [lora("fast.safetensors", 0.0, Some(0.5))]);
    let found = read_with(
        &json!({"20": node("CfgPlanner", json!({"plan": 3.5, "budget": 2.0})), "7":
        node("WanMoeKSampler", json!({"seed": 1, "steps": 20, "cfg_high_noise": ["20", 0], "cfg_low_noise": 3.0,
            "model_high_noise": ["1", 0], "model_low_noise": ["1", 0], "positive": ["3", 0], "latent_image": ["6", 0]}))}),
    );
    assert_note(
        &found,
        "The guidance could not be read: node 20 (CfgPlanner) makes it",
    );
}

/// A sampler of the steps from `start` to `end` of 20.
fn part(start: u32, end: u32, changes: &Value) -> Value {
    let mut inputs = json!({"add_noise": if start == 0 { "enable" } else { "disable" }, "noise_seed": 9, "steps": 20,
        "cfg": 1.0, "sampler_name": "euler", "scheduler": "simple", "start_at_step": start, "end_at_step": end,
        "return_with_leftover_noise": "enable", "model": ["1", 0], "positive": ["4", 0], "negative": ["5", 0],
        "latent_image": ["6", 0]});
    let changes = changes.as_object().unwrap().clone();
    inputs.as_object_mut().unwrap().extend(changes);
    json!({"class_type": "KSamplerAdvanced", "inputs": inputs})
}

fn read_parts(first: &Value, second: &Value) -> ForeignSettings {
    read_with(
        &json!({"7": first, "11": encoder("at night"), "12": second, "8.samples": ["12", 0],
        "13": {"class_type": "UNETLoader", "inputs": {"unet_name": "flux1-schnell.safetensors"}}}),
    )
}

#[test]
fn a_part_of_the_steps_with_other_settings_is_named_and_is_no_expert() {
    let first = || part(0, 10, &json!({}));
    let same = read_parts(
        &first(),
        &part(10, 10_000, &json!({"latent_image": ["7", 0]})),
    );
    assert_fields!(same, {"notes": [], "cfg_scale": 1.0, "cfg_scale_2": null});

    let second = part(
        10,
        20,
        &json!({"latent_image": ["7", 0], "positive": ["11", 0], "cfg": 4.0, "scheduler": "beta"}),
    );
    let other = read_parts(&first(), &second);
    assert_fields!(other, {
        "prompt": "a red barn", "cfg_scale_2": null,
        "notes": ["Some of the steps had settings of their own (node 12 (KSamplerAdvanced)): prompt at night, schedule beta, guidance 4. Those of the first sampler are used for all"]
    });

    let second = part(
        10,
        20,
        &json!({"latent_image": ["7", 0], "model": ["13", 0]}),
    );
    let refined = read_parts(&first(), &second);
    assert_fields!(refined, {"model": "flux1-dev.safetensors", "model_2": null});
    assert_note(
        &refined,
        "(node 12 (KSamplerAdvanced)): model flux1-schnell.safetensors.",
    );
}

#[test]
fn steps_that_no_sampler_runs_are_named() {
    let found = read_with(&json!({"7": part(0, 15, &json!({}))}));
    assert_fields!(found, {
        "num_steps": 20,
        "notes": ["The last 5 of 20 steps were not run (node 7 (KSamplerAdvanced)): all are run here"]
    });

    let split = |class: &str, value: Value, slot: u32| {
        let mut splitter = json!({"class_type": class, "inputs": value});
        splitter["inputs"]["sigmas"] = json!(["21", 0]);
        read_with(&json!({
            "7": {"class_type": "SamplerCustomAdvanced", "inputs": {"noise": ["24", 0], "guider": ["22", 0],
                "sampler": ["23", 0], "sigmas": ["20", slot], "latent_image": ["6", 0]}},
            "20": splitter,
            "21": {"class_type": "BasicScheduler", "inputs": {"scheduler": "simple", "steps": 20, "denoise": 1.0, "model": ["1", 0]}},
            "22": {"class_type": "BasicGuider", "inputs": {"model": ["1", 0], "conditioning": ["4", 0]}},
            "23": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
            "24": {"class_type": "RandomNoise", "inputs": {"noise_seed": 9}},
        }))
    };
    for (class, value) in [
        ("SplitSigmas", json!({"step": 15})),
        ("SplitSigmasDenoise", json!({"denoise": 0.25})),
    ] {
        let low = split(class, value.clone(), 1);
        assert_eq!(
            (low.strength, low.num_steps),
            (Some(0.25), Some(20)),
            "{class}"
        );
        assert_note(
            &low,
            "The first 15 of 20 steps were not run (node 7 (SamplerCustomAdvanced))",
        );
        let high = split(class, value, 0);
        assert_eq!(high.strength, None, "{class}");
        assert_note(&high, "The last 5 of 20 steps were not run");
    }
}

#[test]
fn a_sampler_that_turns_an_image_into_noise_is_named_and_is_no_pass() {
    let sampler = |text: &str, guider: &str, sigmas: &str, latent: &str| {
        let inputs = json!({"noise": ["24", 0], "guider": [guider, 0], "sampler": ["23", 0], "sigmas": [sigmas, 0],
            "latent_image": [latent, 0]});
        let guider = json!({"model": ["1", 0], "conditioning": [text, 0]});
        (
            node("SamplerCustomAdvanced", inputs),
            node("BasicGuider", guider),
        )
    };
    let (inverts, of_source) = sampler("3", "22", "26", "30");
    let (edits, of_edit) = sampler("31", "25", "21", "20");
    let found = read_with(&json!({
        "7": edits, "20": inverts, "22": of_source, "25": of_edit, "31": encoder("a golden barn"),
        "21": node("BasicScheduler", json!({"scheduler": "simple", "steps": 20, "denoise": 1.0, "model": ["1", 0]})),
        "23": node("KSamplerSelect", json!({"sampler_name": "euler"})),
        "24": node("DisableNoise", json!({})),
        "26": node("FlipSigmas", json!({"sigmas": ["21", 0]})),
        "29": node("LoadImage", json!({"image": "cat.png"})),
        "30": node("VAEEncode", json!({"pixels": ["29", 0], "vae": ["9", 0]})),
    }));
    assert_fields!(found, {"prompt": "a golden barn", "num_steps": 20, "from_image": true});
    assert_note(&found, "node 20 (SamplerCustomAdvanced)");
    assert_note(&found, "Its start image, cat.png, is not in the file");
}

#[test]
fn a_video_from_an_image_of_the_same_graph_is_not_its_second_pass() {
    let found = read_with(&json!({
        "20": {"class_type": "WanImageToVideo", "inputs": {"width": 832, "height": 480, "length": 81,
            "positive": ["3", 0], "negative": ["5", 0], "start_image": ["8", 0]}},
        "21": {"class_type": "KSampler", "inputs": {"seed": 5, "steps": 20, "cfg": 3.5, "denoise": 1.0, "model": ["22", 0],
            "positive": ["20", 0], "negative": ["20", 1], "latent_image": ["20", 2]}},
        "22": {"class_type": "UNETLoader", "inputs": {"unet_name": "wan.safetensors"}},
        "23": {"class_type": "VAEDecode", "inputs": {"samples": ["21", 0]}},
        "10": {"class_type": "SaveVideo", "inputs": {"video": ["23", 0]}},
    }));
    assert_fields!(found, {"seed": 5, "num_frames": 81, "width": 832});
    assert!(found.from_image);
    assert_note(
        &found,
        "from a result of the same graph (node 7 (KSampler))",
    );
}

#[test]
fn an_upscaler_of_an_encoded_image_is_a_later_pass() {
    let parts = json!({
        "20": {"class_type": "SUPIR_sample", "inputs": {"latents": ["21", 0], "positive": ["22", 0],
            "negative": ["22", 1], "seed": 42, "steps": 45, "sampler": "RestoreEDMSampler"}},
        "21": {"class_type": "SUPIR_encode", "inputs": {"image": ["8", 0]}},
        "22": {"class_type": "SUPIR_conditioner", "inputs": {"positive_prompt": "sharp", "negative_prompt": "bad"}},
        "23": {"class_type": "SUPIR_decode", "inputs": {"latents": ["20", 0]}},
        "10.images": ["23", 0],
    });
    let found = read_with(&parts);
    assert_fields!(found, {"prompt": "a red barn", "seed": 9, "num_steps": 24});
    assert!(!found.from_image);
    assert_note(
        &found,
        "is not used: node 20 (SUPIR_sample) with its own seed 42, 45 steps",
    );
    let mut loaded = parts;
    loaded["8"] = json!({"class_type": "LoadImage", "inputs": {"image": "barn.png"}});
    let found = read_with(&loaded);
    assert_eq!((found.seed, found.from_image), (Some(42), true));
}

#[test]
fn a_context_with_seed_and_steps_is_no_sampler() {
    let found = read_with(&json!({
        "20": {"class_type": "Context Big (rgthree)", "inputs": {"base_ctx": ["21", 0], "positive": ["3", 0]}},
        "21": {"class_type": "Context Big (rgthree)", "inputs": {"model": ["1", 0], "positive": ["11", 0],
            "negative": ["11", 0], "latent": ["6", 0], "seed": 99, "steps": 30, "cfg": 2.0}},
        "11": encoder("ugly"),
        "7.seed": ["20", 8], "7.steps": ["20", 14], "7.cfg": ["20", 16], "7.model": ["20", 1],
        "7.positive": ["20", 4], "7.negative": ["20", 5], "7.latent_image": ["20", 6],
    }));
    let prompts = [found.prompt.as_deref(), found.negative_prompt.as_deref()];
    assert_eq!(prompts, [Some("a red barn"), Some("ugly")]);
    assert_eq!((found.seed, found.num_steps), (Some(99), Some(30)));
    assert_eq!((found.cfg_scale, found.width), (Some(2.0), Some(896)));
    assert_eq!(found.sampler, Some(SamplerKind::Euler));
}

#[test]
fn sizes_are_swapped_replaced_and_enlarged_before_the_first_pass() {
    let size = |class: &str, inputs: Value| {
        let found = read_with(&json!({"6": {"class_type": class, "inputs": inputs}}));
        found.width.zip(found.height)
    };
    let preset = |invert: bool| json!({"dimensions": "832 x 1216 (0.68)", "invert": invert});
    let presets = "EmptyLatentImagePresets";
    assert_eq!(size(presets, preset(false)), Some((832, 1216)));
    assert_eq!(size(presets, preset(true)), Some((1216, 832)));
    let ratio = |swap: &str, scale: f64| json!({"width": 1024, "height": 768, "aspect_ratio": "custom", "swap_dimensions": swap, "prescale_factor": scale});
    let class = "CR Aspect Ratio";
    assert_eq!(size(class, ratio("On", 0.5)), Some((384, 512)));
    assert_eq!(size(class, ratio("Off", 1.0)), Some((1024, 768)));
    let picker =
        json!({"resolution": "1024x1024 (1.0)", "width_override": 0, "height_override": 1280});
    assert_eq!(
        size("SDXLEmptyLatentSizePicker+", picker),
        Some((1024, 1280))
    );

    let mut enlarged = json!({"20": {"class_type": "LatentUpscaleBy", "inputs": {"samples": ["6", 0], "scale_by": 1.5}},
        "7.latent_image": ["20", 0]});
    let found = read_with(&enlarged);
    assert_eq!((found.width, found.height), (Some(1344), Some(960)));
    enlarged["20"]["inputs"]["scale_by"] = json!(["6", 0]);
    let found = read_with(&enlarged);
    assert_eq!(found.width, None);
    assert_note(&found, "The size could not be read");

    let part = json!({"class_type": "LatentFromBatch", "inputs": {"samples": ["6", 0], "batch_index": 2, "length": 1}});
    let found = read_with(&json!({"20": part, "7.latent_image": ["20", 0]}));
    assert_eq!((found.num_frames, found.width), (None, Some(896)));
}

#[test]
fn the_frame_rate_is_that_of_the_models_frames() {
    let combine = |rate: u32, images: &str| json!({"class_type": "VHS_VideoCombine", "inputs": {"images": [images, 0], "frame_rate": rate}});
    let interpolator =
        json!({"class_type": "RIFE VFI", "inputs": {"frames": ["8", 0], "multiplier": 2}});
    let found = read_with(&json!({"10": combine(32, "20"), "20": interpolator}));
    assert_eq!(found.fps, None);
    assert_note(&found, "The frame rate of 32 was set after frames");
    let found = read_with(
        &json!({"10": combine(32, "20"), "20": interpolator, "30": combine(16, "8"),
        "0": {"class_type": "AnotherVideo", "inputs": {"video": "x.mp4", "fps": 30}}}),
    );
    assert_eq!(found.fps, Some(16.0));
    assert!(found.notes.iter().all(|it| !it.contains("frame rate")));
}

#[test]
fn samplers_of_res4lyf_that_finish_the_steps_are_one_pass_and_differences_are_named() {
    let read_part = |parts: Value| {
        let sampler = json!({"seed": 9, "steps": 20, "steps_to_run": 14, "cfg": 3.0, "sampler_name": "multistep/res_2m",
            "scheduler": "simple", "denoise": 1.0, "model": ["1", 0], "positive": ["4", 0], "negative": ["5", 0],
            "latent_image": ["6", 0]});
        let mut all = json!({"7": node("ClownsharKSampler_Beta", sampler)});
        all.as_object_mut()
            .unwrap()
            .extend(parts.as_object().unwrap().clone());
        read_with(&all)
    };
    let chained = |cfg: f64| {
        let inputs = json!({"eta": 0.0, "sampler_name": "multistep/res_2m", "steps_to_run": -1, "cfg": cfg, "latent_image": ["7", 0]});
        read_part(
            json!({"20": node("ClownsharkChainsampler_Beta", inputs), "8.samples": ["20", 0]}),
        )
    };
    let unknown = "Safelight has no sampler multistep/res_2m: the model's default is used";
    let found = chained(3.0);
    assert_fields!(found, {"seed": 9, "num_steps": 20, "prompt": "a red barn", "notes": [unknown]});
    let found = chained(1.5);
    assert_fields!(found, {"notes": [unknown,
        "Some of the steps had settings of their own (node 20 (ClownsharkChainsampler_Beta)): guidance 1.5. Those of the first sampler are used for all"]});
    let found = read_part(json!({"8.samples": ["7", 0]}));
    assert_note(&found, "The last 6 of 20 steps were not run");
}
