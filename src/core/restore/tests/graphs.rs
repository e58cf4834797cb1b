//! Graphs in both writings, with their detours.

use std::collections::BTreeSet;

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
    assert_fields!(found, {
        "tool": "ComfyUI", "prompt": "a fox, in snow", "model": "flux1-dev-fp8.safetensors", "seed": 77,
        "num_steps": 22, "sampler": SamplerKind::Euler, "sigma_schedule": SigmaSchedule::Beta,
        "distilled_guidance": 3.0, "width": 1216, "height": 832
    });
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
    assert_fields!(found, {"width": 480, "height": 832, "num_frames": 49});
    for note in [
        "Its control video at strength 0.8, dance.mp4, is not in the file: add it separately",
        "Its reference image, boat.png, is not in the file: add it separately",
    ] {
        assert_note(&found, note);
    }
}

#[test]
fn the_usual_graph_of_each_family_gives_its_settings_and_its_shift_where_it_has_one() {
    let shift = |shift: f64| {
        node(
            "ModelSamplingAuraFlow",
            json!({"shift": shift, "model": ["1", 0]}),
        )
    };
    let sampling = |seed: u64, steps: u32, cfg: f64| json!({"seed": seed, "num_steps": steps, "cfg_scale": cfg});
    for (parts, sampling, expected) in [
        (
            json!({"1.unet_name": "z_image_turbo_bf16.safetensors", "20": shift(3.0), "7.model": ["20", 0],
                "3.text": "a lighthouse", "6.width": 1024, "6.height": 768}),
            sampling(12, 8, 1.0),
            json!({"model": "z_image_turbo_bf16.safetensors", "prompt": "a lighthouse", "negative_prompt": "",
                "shift": 3.0, "width": 1024, "height": 768, "sampler": "euler", "sigma_schedule": "simple"}),
        ),
        (
            json!({"1.unet_name": "krea2_turbo_fp8_scaled.safetensors", "3.text": "a barley field"}),
            sampling(7, 8, 1.0),
            json!({"model": "krea2_turbo_fp8_scaled.safetensors", "prompt": "a barley field", "shift": null,
                "width": 896, "height": 640, "sampler": "euler"}),
        ),
        (
            // Nodes between loader and encoder do not matter.
            json!({"1.unet_name": "Chroma1-HD.safetensors", "20": shift(1.0), "7.model": ["20", 0],
                "21": node("T5TokenizerOptions", json!({"min_padding": 1, "min_length": 0, "clip": ["2", 0]})),
                "3.clip": ["21", 0], "5": encoder("low quality, ugly"), "7.scheduler": "beta"}),
            sampling(31, 26, 4.0),
            json!({"model": "Chroma1-HD.safetensors", "prompt": "a red barn", "negative_prompt": "low quality, ugly",
                "shift": 1.0, "sampler": "euler", "sigma_schedule": "beta"}),
        ),
        (
            json!({"1.unet_name": "qwen_image_2512_fp8_e4m3fn.safetensors", "20": shift(3.1), "7.model": ["20", 0],
                "5": encoder("blurry"), "6.width": 1328, "6.height": 1328}),
            sampling(12, 20, 2.5),
            json!({"model": "qwen_image_2512_fp8_e4m3fn.safetensors", "prompt": "a red barn",
                "negative_prompt": "blurry", "shift": 3.1, "width": 1328, "height": 1328}),
        ),
    ] {
        let mut parts = parts;
        for (input, field) in [
            ("seed", "seed"),
            ("steps", "num_steps"),
            ("cfg", "cfg_scale"),
        ] {
            parts[format!("7.{input}")] = sampling[field].clone();
        }
        parts["7.positive"] = json!(["3", 0]);
        let found = read_with(&parts);
        assert_fields(&found, &sampling);
        assert_fields(&found, &expected);
    }
    let klein = read_with(&json!({
        "1.unet_name": "flux-2-klein-4b.safetensors",
        "6": node("EmptyFlux2LatentImage", json!({"width": 1024, "height": 768, "batch_size": 1})),
        "20": node("Flux2Scheduler", json!({"steps": 4, "width": 1024, "height": 768})),
        "21": node("CFGGuider", json!({"cfg": 1.0, "model": ["1", 0], "positive": ["3", 0], "negative": ["5", 0]})),
        "22": node("RandomNoise", json!({"noise_seed": 12})),
        "23": node("KSamplerSelect", json!({"sampler_name": "euler"})),
        "7": node("SamplerCustomAdvanced", json!({"noise": ["22", 0], "guider": ["21", 0], "sampler": ["23", 0],
            "sigmas": ["20", 0], "latent_image": ["6", 0]})),
    }));
    assert_fields!(klein, {
        "model": "flux-2-klein-4b.safetensors", "prompt": "a red barn", "seed": 12, "num_steps": 4,
        "cfg_scale": 1.0, "shift": null, "width": 1024, "height": 768, "sampler": SamplerKind::Euler
    });
}

#[test]
fn two_samplers_of_wan_are_two_experts() {
    let found = run(&wan());
    assert_fields!(found, {
        "prompt": "waves", "negative_prompt": "still", "seed": 42, "num_steps": 8, "cfg_scale": 3.5,
        "cfg_scale_2": 1.0, "shift": 5.0, "fps": 16.0, "width": 832, "num_frames": 81,
        "sampler": SamplerKind::UniPcBh1
    });
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
    assert_fields!(found, {
        "prompt": "a fox", "negative_prompt": "fog", "seed": 123, "num_steps": 4, "width": 640, "height": 512,
        "model": "flux1-schnell.safetensors"
    });
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
        "definitions": {"subgraphs": [{"id": "0a1b", "nodes": graph["nodes"], "links": links}]},
    });
    let mut packed = read_file("graph.json", packed.to_string().as_bytes()).unwrap();
    assert_eq!(
        packed.output.take().as_deref(),
        Some("Save Image (node 1:7)")
    );
    packed.output.clone_from(&found.output);
    assert_eq!(packed, found);
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
    assert_fields!(found, {"model": "Wan2_1-T2V-14B_fp8.safetensors"});
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
    assert_fields!(found, {
        "seed": 77, "num_steps": 22,
        "notes": ["Another pass at scale 1 is not used (node 20 (KSampler) with its own seed 1, 5 steps, denoising strength 0.3): Safelight has one hires fix, at 1.1 to 4 times the size"]
    });
}

#[test]
fn the_reference_images_of_editing_models_are_named_in_their_order() {
    let file = |name: &str| node("LoadImage", json!({"image": name}));
    let seen = |latents: &str, before: &str| {
        node(
            "ReferenceLatent",
            json!({"conditioning": [before, 0], "latent": [latents, 0]}),
        )
    };
    let encoded = |pixels: &str| node("VAEEncode", json!({"pixels": [pixels, 0]}));
    let of_latents = json!({
        "22": node("ImageScaleToTotalPixels", json!({"image": ["20", 0], "megapixels": 1.0})),
        "23": encoded("22"), "24": encoded("21"), "25": seen("23", "3"), "26": seen("24", "25"),
        "7.positive": ["26", 0],
    });
    let of_text = json!({
        "22": node("TextEncodeQwenImageEditPlus", json!({"prompt": "a red barn", "image1": ["20", 0], "image2": ["21", 0]})),
        "7.positive": ["22", 0],
    });
    for mut parts in [of_latents, of_text] {
        parts["20"] = file("man.png");
        parts["21"] = file("coat.png");
        let found = read_with(&parts);
        assert_fields!(found, {"prompt": "a red barn", "from_image": true});
        let note =
            "Its reference images, man.png, coat.png, are not in the file: add them separately";
        assert_note(&found, note);
    }
}

#[test]
fn images_that_are_parts_of_the_prompt_are_named_with_their_strengths() {
    let found = read_with(&json!({
        "20": node("LoadImage", json!({"image": "look.png"})),
        "21": node("CLIPVisionEncode", json!({"image": ["20", 0], "crop": "center"})),
        "22": node("StyleModelApply", json!({"conditioning": ["4", 0], "strength": 0.5, "strength_type": "multiply",
            "style_model": ["23", 0], "clip_vision_output": ["21", 0]})),
        "23": node("StyleModelLoader", json!({"style_model_name": "flux1-redux-dev.safetensors"})),
        "7.positive": ["22", 0],
    }));
    assert_eq!(found.prompt.as_deref(), Some("a red barn"));
    let note =
        "Its image as a prompt at strength 0.5, look.png, is not in the file: add it separately";
    assert_note(&found, note);
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
    let found = read_with(&json!({
        "20": node("LoadImage", json!({"image": "room.png"})),
        "21": node("Canny", json!({"image": ["20", 0], "low_threshold": 0.1, "high_threshold": 0.4})),
        "22": node("ControlNetLoader", json!({"control_net_name": "union.safetensors"})),
        "23": node("SetUnionControlNetType", json!({"control_net": ["22", 0], "type": "canny"})),
        "24": node("ControlNetApplyAdvanced", json!({"positive": ["4", 0], "negative": ["5", 0], "control_net": ["23", 0],
            "image": ["21", 0], "strength": 0.6, "start_percent": 0.0, "end_percent": 0.8})),
        "7.positive": ["24", 0], "7.negative": ["24", 1],
    }));
    assert_eq!(found.prompt.as_deref(), Some("a red barn"));
    assert_eq!(
        found.notes,
        [
            "Not used: node 21 (Canny) with high_threshold 0.4, low_threshold 0.1",
            "It was made with the ControlNet union.safetensors at strength 0.6 from 0 % to 80 % of the steps: its control image, room.png, is not in the file, add it separately"
        ]
    );
}

#[test]
fn the_reader_uses_each_row_of_the_table_of_nodes_and_no_other() {
    let table = include_str!("../graph/nodes.txt").lines();
    let rows = table.filter(|line| !line.starts_with('#'));
    let rows: BTreeSet<&str> = rows
        .filter_map(|row| Some(row.split_once(": ")?.0))
        .collect();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("restore/graph");
    let files = fs::read_dir(folder)
        .unwrap()
        .map(|file| file.unwrap().path());
    let sources = files.filter(|path| path.extension().is_some_and(|it| it == "rs"));
    let code: String = sources
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let is_name = |text: &&str| text.bytes().all(|it| it.is_ascii_uppercase() || it == b'_');
    let named: BTreeSet<&str> = code
        .split('"')
        .filter(|it| it.len() > 3)
        .filter(is_name)
        .collect();
    let types = "BOOLEAN CHOOSE COMBO CONDITIONING FLOAT HOOKS IMAGE LATENT LORA MASK MODEL PIPE \
        PIPELINE RGTHREE_CONTEXT STRING VIDEO WANVIDEOMODEL WANVIDEOTEXTEMBEDS WANVIDIMAGE_EMBEDS";
    let types: BTreeSet<&str> = types.split(' ').collect();
    assert_eq!(rows, &named - &types);
}
