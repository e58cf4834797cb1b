//! Graphs in both writings, with their detours.

use crate::model::choices::{SamplerKind, SigmaSchedule};
use serde_json::{Value, json};

use super::*;

/// What a PNG with this graph says.
fn run(graph: &Value) -> ForeignSettings {
    read_png("prompt", &graph.to_string())
}

fn flux() -> Value {
    json!({
        "1": {"class_type": "UNETLoader", "inputs": {"unet_name": "sub/flux1-dev-fp8.safetensors"}},
        "2": {"class_type": "LoraLoaderModelOnly", "inputs":
            {"lora_name": "a\\first.safetensors", "strength_model": 0.5, "model": ["1", 0]}},
        "3": {"class_type": "LoraLoader", "inputs":
            {"lora_name": "second.safetensors", "strength_model": 0.25, "model": ["2", 0]}},
        "4": {"class_type": "CLIPTextEncode", "inputs": {"text": ["14", 0], "clip": ["3", 1]}},
        "5": {"class_type": "FluxGuidance", "inputs": {"guidance": 3.0, "conditioning": ["4", 0]}},
        "6": {"class_type": "RandomNoise", "inputs": {"noise_seed": ["15", 0]}},
        "7": {"class_type": "BasicGuider", "inputs": {"model": ["3", 0], "conditioning": ["16", 0]}},
        "8": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
        "9": {"class_type": "BasicScheduler", "inputs":
            {"scheduler": "beta", "steps": 22, "denoise": 1.0, "model": ["3", 0]}},
        "10": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 1216, "height": 832}},
        "11": {"class_type": "SamplerCustomAdvanced", "inputs": {"noise": ["6", 0],
            "guider": ["7", 0], "sampler": ["8", 0], "sigmas": ["9", 0], "latent_image": ["10", 0]}},
        "12": {"class_type": "VAEDecode", "inputs": {"samples": ["11", 0]}},
        "13": {"class_type": "SaveImage", "inputs": {"images": ["12", 0]}},
        "14": {"class_type": "StringConcatenate", "inputs":
            {"string_a": "a fox", "string_b": "in snow", "delimiter": ", "}},
        "15": {"class_type": "PrimitiveInt", "inputs": {"value": 77}},
        "16": {"class_type": "Reroute", "inputs": {"": ["5", 0]}},
    })
}

#[test]
fn a_graph_of_flux_is_followed_through_its_parts() {
    let found = run(&flux());
    assert_eq!(found.tool, "ComfyUI");
    assert_eq!(found.prompt.as_deref(), Some("a fox, in snow"));
    assert_eq!(found.model.as_deref(), Some("flux1-dev-fp8.safetensors"));
    assert_eq!((found.seed, found.num_steps), (Some(77), Some(22)));
    assert_eq!(found.sampler, Some(SamplerKind::Euler));
    assert_eq!(found.sigma_schedule, Some(SigmaSchedule::Beta));
    assert_eq!(found.distilled_guidance, Some(3.0));
    assert_eq!((found.width, found.height), (Some(1216), Some(832)));
    let expected = [
        lora("first.safetensors", 0.5, None),
        lora("second.safetensors", 0.25, None),
    ];
    assert_eq!(found.loras, expected);
    assert_eq!((found.strength, found.cfg_scale), (None, None));
}

fn wan() -> Value {
    let sampler = |model: &str, seed: u64, cfg: f64, start: u32, latents: Value| {
        json!({"class_type": "KSamplerAdvanced", "inputs": {
            "add_noise": if start == 0 { "enable" } else { "disable" }, "noise_seed": seed,
            "steps": 8, "cfg": cfg, "sampler_name": "uni_pc", "scheduler": "simple",
            "start_at_step": start, "end_at_step": 10_000, "model": [model, 0],
            "positive": ["98", 0], "negative": ["98", 1], "latent_image": latents}})
    };
    let shift = |model: &str| {
        json!({"class_type": "ModelSamplingSD3", "inputs":
        {"shift": 5.0, "model": [model, 0]}})
    };
    let file = |name: &str| json!({"class_type": "UnetLoaderGGUF", "inputs": {"unet_name": name}});
    let with = |name: &str, model: &str| {
        json!({"class_type": "LoraLoaderModelOnly", "inputs":
        {"lora_name": name, "strength_model": 1.0, "model": [model, 0]}})
    };
    json!({
        "1": file("wan2.2_i2v_high_noise_14B_Q4_K_M.gguf"), "2": file("wan2.2_i2v_low_noise_14B_Q4_K_M.gguf"),
        "3": with("high.safetensors", "1"), "4": with("low.safetensors", "2"),
        "5": shift("3"), "6": shift("4"),
        "86": sampler("5", 42, 3.5, 0, json!(["98", 2])),
        "85": sampler("6", 0, 1.0, 4, json!(["86", 0])),
        "87": {"class_type": "VAEDecode", "inputs": {"samples": ["85", 0]}},
        "88": {"class_type": "CreateVideo", "inputs": {"fps": 16, "images": ["87", 0]}},
        "89": {"class_type": "SaveVideo", "inputs": {"video": ["88", 0]}},
        "93": {"class_type": "CLIPTextEncode", "inputs": {"text": "waves"}},
        "94": {"class_type": "CLIPTextEncode", "inputs": {"text": "still"}},
        "97": {"class_type": "LoadImage", "inputs": {"image": "boat.png"}},
        "98": {"class_type": "WanImageToVideo", "inputs": {"width": 832, "height": 480, "length": 81,
            "positive": ["93", 0], "negative": ["94", 0], "start_image": ["97", 0]}},
    })
}

#[test]
fn vace_graph_gives_size_length_and_names_of_its_control_inputs() {
    let mut graph = wan();
    graph["96"] = json!({"class_type": "LoadVideo", "inputs": {"file": "dance.mp4"}});
    graph["95"] = json!({"class_type": "GetVideoComponents", "inputs": {"video": ["96", 0]}});
    graph["98"] = json!({"class_type": "WanVaceToVideo", "inputs": {"width": 480, "height": 832,
        "length": 49, "batch_size": 1, "strength": 0.8, "positive": ["93", 0],
        "negative": ["94", 0], "control_video": ["95", 0], "reference_image": ["97", 0]}});
    let found = run(&graph);
    assert_eq!((found.width, found.height), (Some(480), Some(832)));
    assert_eq!(found.num_frames, Some(49));
    for note in [
        "Its control video at strength 0.8, dance.mp4, is not in the file: add it separately",
        "Its reference image, boat.png, is not in the file: add it separately",
    ] {
        assert!(found.notes.contains(&note.to_owned()), "{:?}", found.notes);
    }
}

#[test]
fn a_graph_of_z_image_gives_its_shift_and_its_guidance_and_no_negative_prompt() {
    let found = run(&json!({
        "1": {"class_type": "UNETLoader", "inputs":
            {"unet_name": "z_image_turbo_bf16.safetensors", "weight_dtype": "default"}},
        "2": {"class_type": "CLIPLoader", "inputs":
            {"clip_name": "qwen_3_4b.safetensors", "type": "lumina2", "device": "default"}},
        "3": {"class_type": "VAELoader", "inputs": {"vae_name": "ae.safetensors"}},
        "4": {"class_type": "ModelSamplingAuraFlow", "inputs": {"shift": 3.0, "model": ["1", 0]}},
        "5": {"class_type": "CLIPTextEncode", "inputs": {"text": "a lighthouse", "clip": ["2", 0]}},
        "6": {"class_type": "ConditioningZeroOut", "inputs": {"conditioning": ["5", 0]}},
        "7": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 1024, "height": 768, "batch_size": 1}},
        "8": {"class_type": "KSampler", "inputs": {"seed": 12, "steps": 8, "cfg": 1.0, "sampler_name": "euler",
            "scheduler": "simple", "denoise": 1.0, "model": ["4", 0], "positive": ["5", 0],
            "negative": ["6", 0], "latent_image": ["7", 0]}},
        "9": {"class_type": "VAEDecode", "inputs": {"samples": ["8", 0], "vae": ["3", 0]}},
        "10": {"class_type": "SaveImage", "inputs": {"images": ["9", 0]}},
    }));
    assert_eq!(
        found.model.as_deref(),
        Some("z_image_turbo_bf16.safetensors")
    );
    assert_eq!(found.prompt.as_deref(), Some("a lighthouse"));
    assert_eq!(found.negative_prompt.as_deref(), Some(""));
    assert_eq!((found.seed, found.num_steps), (Some(12), Some(8)));
    assert_eq!((found.cfg_scale, found.shift), (Some(1.0), Some(3.0)));
    assert_eq!((found.width, found.height), (Some(1024), Some(768)));
    assert_eq!(found.sampler, Some(SamplerKind::Euler));
    assert_eq!(found.sigma_schedule, Some(SigmaSchedule::Simple));
}

#[test]
fn a_graph_of_krea_2_gives_its_guidance_and_leaves_its_shift_to_the_model() {
    let found = run(&json!({
        "1": {"class_type": "UNETLoader", "inputs":
            {"unet_name": "krea2_turbo_fp8_scaled.safetensors", "weight_dtype": "default"}},
        "2": {"class_type": "CLIPLoader", "inputs":
            {"clip_name": "qwen3vl_4b_fp8_scaled.safetensors", "type": "krea2", "device": "default"}},
        "3": {"class_type": "VAELoader", "inputs": {"vae_name": "qwen_image_vae.safetensors"}},
        "5": {"class_type": "CLIPTextEncode", "inputs": {"text": "a barley field", "clip": ["2", 0]}},
        "6": {"class_type": "ConditioningZeroOut", "inputs": {"conditioning": ["5", 0]}},
        "7": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 1280, "height": 768, "batch_size": 1}},
        "8": {"class_type": "KSampler", "inputs": {"seed": 7, "steps": 8, "cfg": 1.0, "sampler_name": "euler",
            "scheduler": "simple", "denoise": 1.0, "model": ["1", 0], "positive": ["5", 0],
            "negative": ["6", 0], "latent_image": ["7", 0]}},
        "9": {"class_type": "VAEDecode", "inputs": {"samples": ["8", 0], "vae": ["3", 0]}},
        "10": {"class_type": "SaveImage", "inputs": {"images": ["9", 0]}},
    }));
    assert_eq!(
        found.model.as_deref(),
        Some("krea2_turbo_fp8_scaled.safetensors")
    );
    assert_eq!(found.prompt.as_deref(), Some("a barley field"));
    assert_eq!((found.seed, found.num_steps), (Some(7), Some(8)));
    assert_eq!((found.cfg_scale, found.shift), (Some(1.0), None));
    assert_eq!((found.width, found.height), (Some(1280), Some(768)));
    assert_eq!(found.sampler, Some(SamplerKind::Euler));
}

#[test]
fn chroma_graph_settings_are_read_through_nodes_between_loader_and_encoder() {
    let found = run(&json!({
        "1": {"class_type": "UNETLoader", "inputs":
            {"unet_name": "Chroma1-HD.safetensors", "weight_dtype": "default"}},
        "2": {"class_type": "CLIPLoader", "inputs":
            {"clip_name": "t5xxl_fp16.safetensors", "type": "chroma", "device": "default"}},
        "3": {"class_type": "T5TokenizerOptions", "inputs": {"min_padding": 1, "min_length": 0, "clip": ["2", 0]}},
        "4": {"class_type": "VAELoader", "inputs": {"vae_name": "ae.safetensors"}},
        "5": {"class_type": "ModelSamplingAuraFlow", "inputs": {"shift": 1.0, "model": ["1", 0]}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a fox in a library", "clip": ["3", 0]}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "low quality, ugly", "clip": ["3", 0]}},
        "8": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 1024, "height": 1152, "batch_size": 1}},
        "9": {"class_type": "KSampler", "inputs": {"seed": 31, "steps": 26, "cfg": 4.0, "sampler_name": "euler",
            "scheduler": "beta", "denoise": 1.0, "model": ["5", 0], "positive": ["6", 0],
            "negative": ["7", 0], "latent_image": ["8", 0]}},
        "10": {"class_type": "VAEDecode", "inputs": {"samples": ["9", 0], "vae": ["4", 0]}},
        "11": {"class_type": "SaveImage", "inputs": {"images": ["10", 0]}},
    }));
    assert_eq!(found.model.as_deref(), Some("Chroma1-HD.safetensors"));
    assert_eq!(found.prompt.as_deref(), Some("a fox in a library"));
    assert_eq!(found.negative_prompt.as_deref(), Some("low quality, ugly"));
    assert_eq!((found.seed, found.num_steps), (Some(31), Some(26)));
    assert_eq!((found.cfg_scale, found.shift), (Some(4.0), Some(1.0)));
    assert_eq!((found.width, found.height), (Some(1024), Some(1152)));
    assert_eq!(found.sampler, Some(SamplerKind::Euler));
    assert_eq!(found.sigma_schedule, Some(SigmaSchedule::Beta));
}

#[test]
fn a_graph_of_qwen_image_gives_its_shift_its_guidance_and_its_negative_prompt() {
    let found = run(&json!({
        "1": {"class_type": "UNETLoader", "inputs":
            {"unet_name": "qwen_image_2512_fp8_e4m3fn.safetensors", "weight_dtype": "default"}},
        "2": {"class_type": "CLIPLoader", "inputs":
            {"clip_name": "qwen_2.5_vl_7b_fp8_scaled.safetensors", "type": "qwen_image", "device": "default"}},
        "3": {"class_type": "VAELoader", "inputs": {"vae_name": "qwen_image_vae.safetensors"}},
        "4": {"class_type": "ModelSamplingAuraFlow", "inputs": {"shift": 3.1, "model": ["1", 0]}},
        "5": {"class_type": "CLIPTextEncode", "inputs": {"text": "a sign that says hello", "clip": ["2", 0]}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "blurry", "clip": ["2", 0]}},
        "7": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 1328, "height": 1328, "batch_size": 1}},
        "8": {"class_type": "KSampler", "inputs": {"seed": 12, "steps": 20, "cfg": 2.5, "sampler_name": "euler",
            "scheduler": "simple", "denoise": 1.0, "model": ["4", 0], "positive": ["5", 0],
            "negative": ["6", 0], "latent_image": ["7", 0]}},
        "9": {"class_type": "VAEDecode", "inputs": {"samples": ["8", 0], "vae": ["3", 0]}},
        "10": {"class_type": "SaveImage", "inputs": {"images": ["9", 0]}},
    }));
    assert_eq!(
        found.model.as_deref(),
        Some("qwen_image_2512_fp8_e4m3fn.safetensors")
    );
    assert_eq!(found.prompt.as_deref(), Some("a sign that says hello"));
    assert_eq!(found.negative_prompt.as_deref(), Some("blurry"));
    assert_eq!((found.seed, found.num_steps), (Some(12), Some(20)));
    assert_eq!((found.cfg_scale, found.shift), (Some(2.5), Some(3.1)));
    assert_eq!((found.width, found.height), (Some(1328), Some(1328)));
}

#[test]
fn a_graph_of_klein_gives_its_steps_and_size_and_no_shift() {
    let found = run(&json!({
        "1": {"class_type": "UNETLoader", "inputs":
            {"unet_name": "flux-2-klein-4b.safetensors", "weight_dtype": "default"}},
        "2": {"class_type": "CLIPLoader", "inputs":
            {"clip_name": "qwen_3_4b.safetensors", "type": "flux2", "device": "default"}},
        "3": {"class_type": "VAELoader", "inputs": {"vae_name": "flux2-vae.safetensors"}},
        "4": {"class_type": "CLIPTextEncode", "inputs": {"text": "a lighthouse", "clip": ["2", 0]}},
        "5": {"class_type": "ConditioningZeroOut", "inputs": {"conditioning": ["4", 0]}},
        "6": {"class_type": "EmptyFlux2LatentImage", "inputs": {"width": 1024, "height": 768, "batch_size": 1}},
        "7": {"class_type": "Flux2Scheduler", "inputs": {"steps": 4, "width": 1024, "height": 768}},
        "8": {"class_type": "CFGGuider", "inputs":
            {"cfg": 1.0, "model": ["1", 0], "positive": ["4", 0], "negative": ["5", 0]}},
        "9": {"class_type": "RandomNoise", "inputs": {"noise_seed": 12}},
        "10": {"class_type": "KSamplerSelect", "inputs": {"sampler_name": "euler"}},
        "11": {"class_type": "SamplerCustomAdvanced", "inputs": {"noise": ["9", 0], "guider": ["8", 0],
            "sampler": ["10", 0], "sigmas": ["7", 0], "latent_image": ["6", 0]}},
        "12": {"class_type": "VAEDecode", "inputs": {"samples": ["11", 0], "vae": ["3", 0]}},
        "13": {"class_type": "SaveImage", "inputs": {"images": ["12", 0]}},
    }));
    assert_eq!(found.model.as_deref(), Some("flux-2-klein-4b.safetensors"));
    assert_eq!(found.prompt.as_deref(), Some("a lighthouse"));
    assert_eq!((found.seed, found.num_steps), (Some(12), Some(4)));
    assert_eq!((found.cfg_scale, found.shift), (Some(1.0), None));
    assert_eq!((found.width, found.height), (Some(1024), Some(768)));
    assert_eq!(found.sampler, Some(SamplerKind::Euler));
}

#[test]
fn two_samplers_of_wan_are_two_experts() {
    let found = run(&wan());
    assert_eq!(found.prompt.as_deref(), Some("waves"));
    assert_eq!(found.negative_prompt.as_deref(), Some("still"));
    assert_eq!((found.seed, found.num_steps), (Some(42), Some(8)));
    assert_eq!((found.cfg_scale, found.cfg_scale_2), (Some(3.5), Some(1.0)));
    assert_eq!((found.shift, found.fps), (Some(5.0), Some(16.0)));
    assert_eq!((found.width, found.num_frames), (Some(832), Some(81)));
    assert_eq!(found.sampler, Some(SamplerKind::UniPcBh1));
    let models = [found.model.as_deref(), found.model_2.as_deref()];
    assert!(models[0].is_some_and(|name| name.contains("high_noise")));
    assert!(models[1].is_some_and(|name| name.contains("low_noise")));
    let expected = [
        lora("high.safetensors", 1.0, Some(0.0)),
        lora("low.safetensors", 0.0, Some(1.0)),
    ];
    assert_eq!(found.loras, expected);
    let (expert, others) = found.notes.split_first().unwrap();
    assert!(expert.starts_with("The second expert took over at step 4 of 8: "));
    let start = "Its start image, boat.png, is not in the file: add it separately";
    assert_eq!(others, [start]);
    let mut own = wan();
    own["85"]["inputs"]["start_at_step"] = json!(3);
    assert_eq!(run(&own).notes, [start]);
}

#[test]
fn a_video_carries_both_writings_in_one_comment() {
    let comment = json!({"prompt": wan().to_string(), "workflow": {"nodes": []}});
    let bytes = crate::media::test_files::mp4_with_comment(&comment.to_string());
    assert_eq!(read_file("a.mp4", &bytes), Some(run(&wan())));
}

#[test]
fn a_drawing_is_read_by_the_order_of_its_widgets() {
    let node = |id: u32, kind: &str, inputs: Value, values: Value| json!({"id": id, "type": kind, "mode": 0, "inputs": inputs, "widgets_values": values});
    let input = |name: &str, link: u32| json!({"name": name, "type": "X", "link": link});
    let bypassed = json!({"id": 9, "type": "LoraLoaderModelOnly", "mode": 4,
        "inputs": [input("model", 10)], "widgets_values": ["off.safetensors", 1.0]});
    let graph = json!({
        "nodes": [
            node(1, "CheckpointLoaderSimple", json!([]), json!(["flux1-schnell.safetensors"])),
            bypassed,
            node(2, "CLIPTextEncode", json!([
                {"name": "clip", "type": "CLIP", "link": null},
                {"name": "text", "type": "STRING", "widget": {"name": "text"}, "link": 5}]), json!([""])),
            node(3, "CLIPTextEncode", json!([]), json!(["fog"])),
            node(4, "PrimitiveNode", json!([]), json!(["a fox", "fixed"])),
            node(5, "EmptyLatentImage", json!([]), json!([640, 512, 1])),
            node(6, "KSampler", json!([input("model", 1), input("positive", 2),
                input("negative", 3), input("latent_image", 4)]),
                json!([123, "randomize", 4, 1.0, "euler", "simple", 1.0])),
            node(7, "SaveImage", json!([input("images", 6)]), json!(["out"])),
        ],
        "links": [[1, 9, 0, 6, 0, "MODEL"], [10, 1, 0, 9, 0, "MODEL"], [2, 2, 0, 6, 1, "C"],
            [3, 3, 0, 6, 2, "C"], [4, 5, 0, 6, 3, "LATENT"], [5, 4, 0, 2, 0, "STRING"],
            [6, 6, 0, 7, 0, "IMAGE"]],
    });
    let found = read_file("graph.json", graph.to_string().as_bytes()).unwrap();
    assert_eq!(found.prompt.as_deref(), Some("a fox"));
    assert_eq!(found.negative_prompt.as_deref(), Some("fog"));
    assert_eq!((found.seed, found.num_steps), (Some(123), Some(4)));
    assert_eq!((found.width, found.height), (Some(640), Some(512)));
    assert_eq!(found.model.as_deref(), Some("flux1-schnell.safetensors"));
    assert_eq!(found.loras, []);

    // The same inside a subgraph, whose links are objects.
    let links: Vec<Value> = graph["links"]
        .as_array()
        .unwrap()
        .iter()
        .map(|link| json!({"id": link[0], "origin_id": link[1], "origin_slot": link[2]}))
        .collect();
    let packed = json!({
        "nodes": [{"id": 1, "type": "0a1b", "inputs": []}], "links": [],
        "definitions": {"subgraphs": [{"nodes": graph["nodes"], "links": links}]},
    });
    let packed = read_file("graph.json", packed.to_string().as_bytes());
    assert_eq!(packed, Some(found));
}

#[test]
fn the_nodes_of_wanvideo_wrapper_are_read() {
    let found = run(&json!({
        "1": {"class_type": "WanVideoModelLoader", "inputs": {"model": "Wan2_1-T2V-14B_fp8.safetensors", "lora": ["2", 0]}},
        "2": {"class_type": "WanVideoLoraSelect", "inputs": {"lora": "speed.safetensors", "strength": 0.7}},
        "3": {"class_type": "WanVideoTextEncode", "inputs": {"positive_prompt": "waves", "negative_prompt": "still"}},
        "4": {"class_type": "WanVideoEmptyEmbeds", "inputs": {"width": 640, "height": 384, "num_frames": 49}},
        "5": {"class_type": "WanVideoSampler", "inputs": {"steps": 6, "cfg": 1.0, "shift": 8.0, "seed": 4,
            "scheduler": "lcm", "model": ["1", 0], "text_embeds": ["3", 0], "image_embeds": ["4", 0]}},
        "6": {"class_type": "WanVideoDecode", "inputs": {"samples": ["5", 0]}},
        "7": {"class_type": "VHS_VideoCombine", "inputs": {"images": ["6", 0], "frame_rate": 16}},
    }));
    assert_eq!(
        found.model.as_deref(),
        Some("Wan2_1-T2V-14B_fp8.safetensors")
    );
    assert_eq!(found.loras, [lora("speed.safetensors", 0.7, None)]);
    assert_eq!(found.prompt.as_deref(), Some("waves"));
    assert_eq!((found.shift, found.fps), (Some(8.0), Some(16.0)));
    assert_eq!((found.width, found.num_frames), (Some(640), Some(49)));
    assert_eq!(found.sampler, Some(SamplerKind::Lcm));
}

#[test]
fn a_second_pass_of_the_same_size_is_named_and_left_out() {
    let mut graph = flux();
    graph["20"] = json!({"class_type": "KSampler", "inputs": {"seed": 1, "steps": 5, "cfg": 1,
        "denoise": 0.3, "latent_image": ["11", 0], "model": ["3", 0]}});
    graph["12"]["inputs"]["samples"] = json!(["20", 0]);
    let found = run(&graph);
    assert_eq!((found.seed, found.num_steps), (Some(77), Some(22)));
    assert_eq!(
        found.notes,
        [
            "Another pass at scale 1 is not used (node 20 (KSampler) with its own seed 1, 5 steps, denoising strength 0.3): Safelight has one second pass, at 1.1 to 4 times the size"
        ]
    );
}

#[test]
fn the_reference_images_of_editing_models_are_named_in_their_order() {
    let sampler = |positive: &str| {
        json!({"class_type": "KSampler", "inputs": {"seed": 1, "steps": 4, "cfg": 1.0, "model": ["1", 0],
            "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0,
            "positive": [positive, 0], "latent_image": ["9", 0]}})
    };
    let file = |name: &str| json!({"class_type": "LoadImage", "inputs": {"image": name}});
    let shared = json!({
        "1": {"class_type": "UNETLoader", "inputs": {"unet_name": "edit.safetensors"}},
        "2": file("man.png"), "3": file("coat.png"),
        "9": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 1024, "height": 768}},
        "11": {"class_type": "SaveImage", "inputs": {"images": ["10", 0]}},
    });
    let with = |parts: Value| {
        let mut graph = shared.clone();
        let all = graph.as_object_mut().unwrap();
        all.extend(parts.as_object().unwrap().clone());
        run(&graph)
    };
    let seen = |latents: &str, before: &str| {
        json!({"class_type": "ReferenceLatent", "inputs":
            {"conditioning": [before, 0], "latent": [latents, 0]}})
    };
    let encoded =
        |pixels: &str| json!({"class_type": "VAEEncode", "inputs": {"pixels": [pixels, 0]}});
    let of_latents = with(json!({
        "4": {"class_type": "ImageScaleToTotalPixels", "inputs": {"image": ["2", 0], "megapixels": 1.0}},
        "5": encoded("4"), "6": encoded("3"),
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": "put it on him"}},
        "8": seen("5", "7"), "12": seen("6", "8"), "10": sampler("12"),
    }));
    let of_text = with(json!({
        "8": {"class_type": "TextEncodeQwenImageEditPlus", "inputs":
            {"prompt": "put it on him", "image1": ["2", 0], "image2": ["3", 0]}},
        "10": sampler("8"),
    }));
    for found in [of_latents, of_text] {
        assert_eq!(found.prompt.as_deref(), Some("put it on him"));
        let note =
            "Its reference images, man.png, coat.png, are not in the file: add them separately";
        assert!(
            found.from_image && found.notes.contains(&note.to_owned()),
            "{:?}",
            found.notes
        );
    }
}

#[test]
fn images_that_are_parts_of_the_prompt_are_named_with_their_strengths() {
    let found = run(&json!({
        "1": {"class_type": "UNETLoader", "inputs": {"unet_name": "flux1-dev.safetensors"}},
        "2": {"class_type": "LoadImage", "inputs": {"image": "look.png"}},
        "3": {"class_type": "CLIPVisionEncode", "inputs": {"image": ["2", 0], "crop": "center"}},
        "4": {"class_type": "CLIPTextEncode", "inputs": {"text": "a boat"}},
        "5": {"class_type": "FluxGuidance", "inputs": {"conditioning": ["4", 0], "guidance": 3.0}},
        "6": {"class_type": "StyleModelApply", "inputs": {"conditioning": ["5", 0], "strength": 0.5,
            "strength_type": "multiply", "style_model": ["7", 0], "clip_vision_output": ["3", 0]}},
        "7": {"class_type": "StyleModelLoader", "inputs": {"style_model_name": "flux1-redux-dev.safetensors"}},
        "9": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 1024, "height": 768}},
        "10": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 4, "cfg": 1.0, "model": ["1", 0],
            "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0,
            "positive": ["6", 0], "latent_image": ["9", 0]}},
        "11": {"class_type": "SaveImage", "inputs": {"images": ["10", 0]}},
    }));
    assert_eq!(found.prompt.as_deref(), Some("a boat"));
    let note =
        "Its image as a prompt at strength 0.5, look.png, is not in the file: add it separately";
    assert!(found.notes.contains(&note.to_owned()), "{:?}", found.notes);
}

#[test]
fn circles_end() {
    let found = run(&json!({
        "1": {"class_type": "KSampler", "inputs": {"seed": ["2", 0], "steps": 9, "model": ["3", 0],
            "positive": ["4", 0], "latent_image": ["1", 0]}},
        "2": {"class_type": "Reroute", "inputs": {"in": ["2", 0]}},
        "3": {"class_type": "LoraLoader", "inputs": {"lora_name": "a", "model": ["3", 0]}},
        "4": {"class_type": "Combine", "inputs": {"conditioning": ["4", 0], "text": ["5", 0]}},
        "5": {"class_type": "StringConcatenate", "inputs": {"string_a": ["5", 0], "string_b": ["5", 0]}},
        "6": {"class_type": "SaveImage", "inputs": {"images": ["1", 0]}},
    }));
    assert_eq!((found.num_steps, found.seed), (Some(9), None));
}

#[test]
fn nan_and_infinity_in_graph_json_are_ignored() {
    let text = flux()
        .to_string()
        .replacen("{\"1\"", "{\"0\":[NaN, -Infinity],\"1\"", 1);
    assert_eq!(read_png("prompt", &text), run(&flux()));
}

#[test]
fn a_control_image_is_named_with_its_network() {
    let found = run(&json!({
        "1": {"class_type": "UNETLoader", "inputs": {"unet_name": "flux1-dev.safetensors"}},
        "2": {"class_type": "LoadImage", "inputs": {"image": "room.png"}},
        "3": {"class_type": "Canny", "inputs": {"image": ["2", 0], "low_threshold": 0.1, "high_threshold": 0.4}},
        "4": {"class_type": "ControlNetLoader", "inputs": {"control_net_name": "union.safetensors"}},
        "5": {"class_type": "SetUnionControlNetType", "inputs": {"control_net": ["4", 0], "type": "canny"}},
        "6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a room"}},
        "7": {"class_type": "CLIPTextEncode", "inputs": {"text": ""}},
        "8": {"class_type": "ControlNetApplyAdvanced", "inputs": {"positive": ["6", 0], "negative": ["7", 0],
            "control_net": ["5", 0], "image": ["3", 0], "strength": 0.6, "start_percent": 0.0, "end_percent": 0.8}},
        "9": {"class_type": "EmptySD3LatentImage", "inputs": {"width": 1024, "height": 768}},
        "10": {"class_type": "KSampler", "inputs": {"seed": 1, "steps": 4, "cfg": 1.0, "model": ["1", 0],
            "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0,
            "positive": ["8", 0], "negative": ["8", 1], "latent_image": ["9", 0]}},
        "11": {"class_type": "SaveImage", "inputs": {"images": ["10", 0]}},
    }));
    assert_eq!(found.prompt.as_deref(), Some("a room"));
    assert_eq!(
        found.notes,
        [
            "Not used: node 5 (SetUnionControlNetType); node 3 (Canny) with high_threshold 0.4, low_threshold 0.1",
            "It was made with the ControlNet union.safetensors at strength 0.6 from 0 % to 80 % of the steps: its control image, room.png, is not in the file, add it separately"
        ]
    );
}
