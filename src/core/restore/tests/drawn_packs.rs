//! Drawings with samplers and loaders of other node packs, which write their values in a row without names.

use serde_json::{Value, json};

use super::*;

/// A node of a drawing: its class, the nodes that its inputs come from, and its row of values as JSON.
type DrawnNode<'a> = (i64, &'a str, &'a [(&'a str, i64)], &'a str);

/// Loader and sampler with their rows, the inputs of the sampler, what is read, and a word of the notes.
const PACKS: [[&str; 5]; 7] = [
    [
        r#"ClownModelLoader ["chroma.safetensors", "default", "t5.safetensors", ".none", ".none", ".none", "chroma", "ae.sft"]"#,
        r#"ClownsharKSampler_Beta [0.5, "exponential/res_2s", "bong_tangent", 30, -1, 1, 4, 3, "fixed", "standard", true]"#,
        "model positive latent_image",
        r#"{"prompt": "a cow", "model": "chroma.safetensors", "seed": 3, "num_steps": 30, "cfg_scale": 4.0, "sampler": "res_2s",
            "sigma_schedule": "bong_tangent", "width": 896}"#,
        "eta 0.5",
    ],
    [
        r#"FluxLoader ["flux1-dev.safetensors", "default", "clip_l.safetensors", "t5.safetensors", "ae.sft", ".none", ".none"]"#,
        r#"SharkSampler_Beta ["beta57", 20, -1, 1, 1, 5, "fixed", "standard"]"#,
        "model positive latent_image",
        r#"{"model": "flux1-dev.safetensors", "seed": 5, "num_steps": 20, "sigma_schedule": "beta57"}"#,
        "",
    ],
    [
        r#"UNETLoader ["flux1-dev.safetensors", "default"]"#,
        r#"LanPaint_KSampler [7, "fixed", 30, 1, "euler", "simple", 1, 5, "Image First", "About LanPaint"]"#,
        "model positive latent_image",
        r#"{"model": "flux1-dev.safetensors", "seed": 7, "num_steps": 30, "sampler": "euler", "sigma_schedule": "simple"}"#,
        "LanPaint_NumSteps 5",
    ],
    [
        r#"NunchakuFluxDiTLoader ["svdq-int4-flux.1-dev", 0, "nunchaku-fp16", "auto", 0, "bfloat16", "enabled"]"#,
        r#"XlabsSampler [9, "fixed", 25, 1, 3.5, 0, 1]"#,
        "model conditioning latent_image",
        r#"{"prompt": "a cow", "model": "svdq-int4-flux.1-dev", "seed": 9, "num_steps": 25, "width": 896}"#,
        "true_gs 3.5",
    ],
    [
        r#"WanVideoModelLoader ["Wan2_1-T2V-1_3B_fp8_e4m3fn.safetensors", "fp16", "disabled", "offload_device"]"#,
        r#"WanVideoSampler [15, 6, 5, 11, "fixed", true, "unipc", 0, 0.5]"#,
        "model text_embeds samples image_embeds",
        r#"{"seed": 11, "num_steps": 30, "cfg_scale": 6.0, "shift": 5.0, "strength": 0.5}"#,
        "cows.mp4",
    ],
    [
        r#"UNETLoader ["wan2.2_t2v_high_noise_14B.safetensors", "default"]"#,
        r#"WanMoeKSampler [0.875, 23, "fixed", 20, 4, 3, "euler", "simple", 8, 1]"#,
        "model_high_noise model_low_noise positive latent_image",
        r#"{"seed": 23, "num_steps": 20, "cfg_scale": 4.0, "cfg_scale_2": 3.0, "sampler": "euler", "sigma_schedule": "simple",
            "shift": 8.0}"#,
        "",
    ],
    [
        r#"LoadFramePackModel ["FramePackI2V_HY_fp8_e4m3fn.safetensors", "bf16", "disabled", "offload_device", "sdpa"]"#,
        r#"FramePackSampler [30, true, 0.15, 1, 10, 0, 47, "fixed", 9, 5, 6, "unipc_bh1", "disabled", 1, 1]"#,
        "model positive start_latent",
        r#"{"model": "FramePackI2V_HY_fp8_e4m3fn.safetensors", "seed": 47, "num_steps": 30, "distilled_guidance": 10.0,
            "secs": 5.0, "sampler": "unipc_bh1"}"#,
        "",
    ],
];

/// Settings of a drawing of these nodes and of those that every graph has: a prompt (node 3), a size (6), and what saves the
/// images of node 7.
fn read_drawing(own: &[DrawnNode<'_>]) -> ForeignSettings {
    const ALL: [DrawnNode<'_>; 4] = [
        (3, "CLIPTextEncode", &[], r#"["a cow"]"#),
        (6, "EmptySD3LatentImage", &[], "[896, 640, 1]"),
        (8, "VAEDecode", &[("samples", 7)], "[]"),
        (9, "SaveImage", &[("images", 8)], r#"["a"]"#),
    ];
    let mut links = Vec::new();
    let nodes = own.iter().chain(&ALL).map(|(id, class, inputs, values)| {
        let inputs = inputs.iter().map(|(name, from)| {
            let link = links.len() as i64 + 1;
            links.push(json!([link, from, 0, id, 0, "*"]));
            json!({"name": name, "type": "*", "link": link})
        });
        let inputs: Vec<Value> = inputs.collect();
        let values: Value = serde_json::from_str(values).expect("a row");
        json!({"id": id, "type": class, "mode": 0, "inputs": inputs, "outputs": [], "widgets_values": values})
    });
    let nodes: Vec<Value> = nodes.collect();
    let drawing = json!({"nodes": nodes, "links": links, "version": 0.4});
    read_file("a.json", drawing.to_string().as_bytes()).expect("it is read")
}

#[test]
fn values_in_a_row_of_other_packs_samplers_get_their_names() {
    for [loader, sampler, inputs, expected, note] in PACKS {
        let (class, row) = sampler.split_once(' ').unwrap();
        let (loader, loads) = loader.split_once(' ').unwrap();
        let from = |name: &str| match name {
            "model" | "model_high_noise" | "model_low_noise" => 1,
            "samples" => 12,
            "latent_image" | "start_latent" | "image_embeds" => 6,
            _ => 3,
        };
        let inputs = inputs.split(' ').map(|name| (name, from(name)));
        let inputs: Vec<_> = inputs.collect();
        let found = read_drawing(&[
            (1, loader, &[], loads),
            (7, class, &inputs, row),
            (11, "VHS_LoadVideo", &[], r#"{"video": "cows.mp4"}"#),
            (
                12,
                "WanVideoEncode",
                &[("image", 11)],
                "[false, 272, 272, 144, 128, 0, 1]",
            ),
        ]);
        let said = found.notes.join("\n");
        let found = serde_json::to_value(&found).unwrap();
        let expected: Value = serde_json::from_str(expected).unwrap();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&found[name], value, "{name} of {class}: {said}");
        }
        assert!(said.contains(note), "{note} is named for {class}: {said}");
    }
}

#[test]
fn a_face_for_pulid_is_named_and_a_stack_of_no_loras_is_none() {
    let found = read_drawing(&[
        (
            1,
            "UNETLoader",
            &[],
            r#"["flux1-dev.safetensors", "default"]"#,
        ),
        (
            2,
            "NunchakuPuLIDLoaderV2",
            &[("model", 1)],
            r#"["pulid.safetensors", "eva.pt", "gpu"]"#,
        ),
        (4, "LoadImage", &[], r#"["face.jpg", "image"]"#),
        (
            5,
            "NunchakuFluxPuLIDApplyV2",
            &[("model", 2), ("pulid_pipeline", 2), ("image", 4)],
            "[1, 0, 1]",
        ),
        (
            10,
            "Lora Loader Stack (rgthree)",
            &[("model", 5)],
            r#"["None", 0.8, "None", 1, "None", 1, "None", 1]"#,
        ),
        (
            7,
            "KSampler",
            &[("model", 10), ("positive", 3), ("latent_image", 6)],
            r#"[1, "fixed", 20, 1, "euler", "simple", 1]"#,
        ),
    ]);
    assert_eq!(found.model.as_deref(), Some("flux1-dev.safetensors"));
    assert!(found.loras.is_empty());
    let said = found.notes.join("\n");
    assert!(
        said.contains("NunchakuFluxPuLIDApplyV2") && said.contains("face.jpg"),
        "{said}"
    );
    assert!(!said.contains("rgthree"), "{said}");
}

#[test]
fn a_step_that_is_found_by_its_sigma_is_not_the_sigma() {
    let row = r#"[30, 1, 5, 0, "fixed", true, "unipc", 0, 1]"#;
    let found = read_drawing(&[
        (
            1,
            "WanVideoModelLoader",
            &[],
            r#"["wan2.2_t2v_high_noise_14B.safetensors"]"#,
        ),
        (
            2,
            "WanVideoModelLoader",
            &[],
            r#"["wan2.2_t2v_low_noise_14B.safetensors"]"#,
        ),
        (5, "WanVideoSigmaToStep", &[], "[0.9]"),
        (4, "WanVideoEmptyEmbeds", &[], "[832, 480, 81]"),
        (
            10,
            "WanVideoSampler",
            &[
                ("model", 1),
                ("text_embeds", 3),
                ("image_embeds", 4),
                ("end_step", 5),
            ],
            row,
        ),
        (
            7,
            "WanVideoSampler",
            &[
                ("model", 2),
                ("text_embeds", 3),
                ("image_embeds", 4),
                ("samples", 10),
                ("start_step", 5),
            ],
            row,
        ),
    ]);
    assert_eq!(
        found.model_2.as_deref(),
        Some("wan2.2_t2v_low_noise_14B.safetensors")
    );
    let said = found.notes.join("\n");
    assert!(!said.contains("0.9 of"), "{said}");
}

#[test]
fn an_image_is_what_its_nearest_use_says_although_its_size_is_used_elsewhere() {
    let found = read_drawing(&[
        (
            1,
            "UNETLoader",
            &[],
            r#"["wan2.1_flf2v_720p_14B.safetensors", "default"]"#,
        ),
        (4, "LoadImage", &[], r#"["first.png", "image"]"#),
        (5, "LoadImage", &[], r#"["last.png", "image"]"#),
        (
            11,
            "ImageResizeKJv2",
            &[("image", 4)],
            r#"[832, 480, "lanczos", "crop", "0, 0, 0", "center", 2]"#,
        ),
        (
            12,
            "ImageResizeKJv2",
            &[("image", 5), ("width", 11), ("height", 11)],
            r#"[832, 480, "lanczos", "crop", "0, 0, 0", "center", 2]"#,
        ),
        (
            13,
            "WanFirstLastFrameToVideo",
            &[("positive", 3), ("end_image", 12), ("start_image", 11)],
            "[832, 480, 81, 1]",
        ),
        (
            7,
            "KSampler",
            &[("model", 1), ("positive", 13), ("latent_image", 13)],
            r#"[1, "fixed", 20, 1, "euler", "simple", 1]"#,
        ),
    ]);
    let said = found.notes.join("\n");
    assert!(said.contains("start image, first.png"), "{said}");
    assert!(said.contains("end image, last.png"), "{said}");
}

#[test]
fn latents_that_are_changed_before_the_sampler_are_still_those_of_the_start_image() {
    let found = read_drawing(&[
        (
            1,
            "UNETLoader",
            &[],
            r#"["z_image_turbo_bf16.safetensors", "default"]"#,
        ),
        (4, "LoadImage", &[], r#"["field.jpg", "image"]"#),
        (5, "VAEEncode", &[("pixels", 4)], "[]"),
        (11, "LatentMultiply", &[("samples", 5)], "[1.1]"),
        (
            7,
            "KSampler",
            &[("model", 1), ("positive", 3), ("latent_image", 11)],
            r#"[1, "fixed", 10, 1, "euler", "simple", 0.3]"#,
        ),
    ]);
    let said = found.notes.join("\n");
    assert_eq!(found.strength, Some(0.3));
    assert!(said.contains("start image, field.jpg"), "{said}");
    assert!(said.contains("LatentMultiply"), "{said}");
}

#[test]
fn context_windows_missing_noise_and_extended_sigmas_are_named() {
    let found = read_drawing(&[
        (
            1,
            "UNETLoader",
            &[],
            r#"["wan2.1_t2v_1.3B.safetensors", "default"]"#,
        ),
        (
            2,
            "ContextWindowsManual",
            &[("model", 1)],
            r#"[81, 30, "standard_static"]"#,
        ),
        (4, "BasicScheduler", &[("model", 2)], r#"["simple", 20, 1]"#),
        (
            5,
            "ExtendIntermediateSigmas",
            &[("sigmas", 4)],
            r#"[2, -1, 12, "linear"]"#,
        ),
        (10, "DisableNoise", &[], "[]"),
        (
            11,
            "BasicGuider",
            &[("model", 2), ("conditioning", 3)],
            "[]",
        ),
        (12, "KSamplerSelect", &[], r#"["euler"]"#),
        (
            7,
            "SamplerCustomAdvanced",
            &[
                ("noise", 10),
                ("guider", 11),
                ("sampler", 12),
                ("sigmas", 5),
                ("latent_image", 6),
            ],
            "[]",
        ),
    ]);
    let said = found.notes.join("\n");
    assert_eq!(found.num_steps, Some(20));
    for name in [
        "ContextWindowsManual",
        "ExtendIntermediateSigmas",
        "No noise was added",
    ] {
        assert!(said.contains(name), "{name} is named: {said}");
    }
}

#[test]
fn texts_in_a_row_of_the_wan_wrapper_and_of_constants_are_read() {
    let found = read_drawing(&[
        (
            1,
            "WanVideoModelLoader",
            &[],
            r#"["Wan2_1-T2V-14B.safetensors"]"#,
        ),
        (
            7,
            "WanVideoSampler",
            &[("model", 1), ("text_embeds", 4), ("image_embeds", 6)],
            r#"[20, 6, 5, 11, "fixed", true, "unipc", 0, 1]"#,
        ),
        (
            4,
            "WanVideoTextEncodeCached",
            &[("positive_prompt", 5)],
            r#"["umt5.safetensors", "bf16", "", "a blur", "disabled", true, "gpu"]"#,
        ),
        (
            5,
            "StringConstantMultiline",
            &[],
            r#"["  two cows\n\nin a field ", true]"#,
        ),
    ]);
    assert_fields!(found, {"prompt": "two cows\nin a field", "negative_prompt": "a blur"});
}
