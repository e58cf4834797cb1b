//! Drawings with samplers and loaders of other node packs, which write their values in a row without names.

use serde_json::{Value, json};

use super::*;

/// A node of a drawing: its class, the nodes that its inputs come from, and its row of values.
type DrawnNode<'a> = (i64, &'a str, &'a [(&'a str, i64)], Value);

fn drawing(nodes: &[DrawnNode<'_>]) -> Value {
    let mut links = Vec::new();
    let nodes: Vec<Value> = nodes
        .iter()
        .map(|(id, class, inputs, values)| {
            let inputs: Vec<Value> = inputs
                .iter()
                .map(|(name, from)| {
                    let link = links.len() as i64 + 1;
                    links.push(json!([link, from, 0, id, 0, "*"]));
                    json!({"name": name, "type": "*", "link": link})
                })
                .collect();
            json!({"id": id, "type": class, "mode": 0, "inputs": inputs, "outputs": [], "widgets_values": values})
        })
        .collect();
    json!({"nodes": nodes, "links": links, "version": 0.4})
}

#[test]
fn values_in_a_row_of_other_packs_samplers_get_their_names() {
    const WITH: &[(&str, i64)] = &[("model", 1), ("positive", 3), ("latent_image", 6)];
    for (loader, sampler, expected, notes) in [
        (
            (
                "ClownModelLoader",
                json!([
                    "chroma.safetensors",
                    "default",
                    "t5.safetensors",
                    ".none",
                    ".none",
                    ".none",
                    "chroma",
                    "ae.sft"
                ]),
            ),
            (
                "ClownsharKSampler_Beta",
                WITH,
                json!([
                    0.5,
                    "exponential/res_2s",
                    "bong_tangent",
                    30,
                    -1,
                    0.8,
                    4,
                    3,
                    "fixed",
                    "standard",
                    true
                ]),
            ),
            json!({"prompt": "a cow", "model": "chroma.safetensors", "seed": 3, "num_steps": 30, "cfg_scale": 4.0,
                "sampler": "res_2s", "sigma_schedule": "bong_tangent", "width": 896}),
            &["eta 0.5"][..],
        ),
        (
            (
                "FluxLoader",
                json!([
                    "flux1-dev.safetensors",
                    "default",
                    "clip_l.safetensors",
                    "t5.safetensors",
                    "ae.sft",
                    ".none",
                    ".none"
                ]),
            ),
            (
                "SharkSampler_Beta",
                WITH,
                json!(["beta57", 20, -1, 1, 1, 5, "fixed", "standard"]),
            ),
            json!({"model": "flux1-dev.safetensors", "seed": 5, "num_steps": 20, "sigma_schedule": "beta57"}),
            &[],
        ),
        (
            ("UNETLoader", json!(["flux1-dev.safetensors", "default"])),
            (
                "LanPaint_KSampler",
                WITH,
                json!([
                    7,
                    "fixed",
                    30,
                    1,
                    "euler",
                    "simple",
                    1,
                    5,
                    "Image First",
                    "About LanPaint"
                ]),
            ),
            json!({"model": "flux1-dev.safetensors", "seed": 7, "num_steps": 30, "cfg_scale": 1.0, "sampler": "euler",
                "sigma_schedule": "simple"}),
            &["LanPaint_NumSteps 5"],
        ),
        (
            (
                "NunchakuFluxDiTLoader",
                json!([
                    "svdq-int4-flux.1-dev",
                    0,
                    "nunchaku-fp16",
                    "auto",
                    0,
                    "bfloat16",
                    "enabled"
                ]),
            ),
            (
                "KSampler",
                WITH,
                json!([7, "fixed", 30, 1, "linear/euler", "simple", 1]),
            ),
            json!({"model": "svdq-int4-flux.1-dev", "sampler": "euler"}),
            &[],
        ),
        (
            ("UNETLoader", json!(["flux1-dev.safetensors", "default"])),
            (
                "XlabsSampler",
                &[("model", 1), ("conditioning", 3), ("latent_image", 6)],
                json!([9, "fixed", 25, 1, 3.5, 0, 1]),
            ),
            json!({"prompt": "a cow", "model": "flux1-dev.safetensors", "seed": 9, "num_steps": 25, "width": 896}),
            &["true_gs 3.5"],
        ),
        (
            (
                "LoadFramePackModel",
                json!([
                    "FramePackI2V_HY_fp8_e4m3fn.safetensors",
                    "bf16",
                    "disabled",
                    "offload_device",
                    "sdpa"
                ]),
            ),
            (
                "FramePackSampler",
                &[("model", 1), ("positive", 3), ("start_latent", 6)],
                json!([
                    30,
                    true,
                    0.15,
                    1,
                    10,
                    0,
                    47,
                    "fixed",
                    9,
                    5,
                    6,
                    "unipc_bh1",
                    "disabled",
                    1,
                    1
                ]),
            ),
            json!({"model": "FramePackI2V_HY_fp8_e4m3fn.safetensors", "seed": 47, "num_steps": 30, "distilled_guidance": 10.0,
                "secs": 5.0, "sampler": "unipc_bh1"}),
            &[],
        ),
    ] {
        let drawn = drawing(&[
            (1, loader.0, &[], loader.1),
            (3, "CLIPTextEncode", &[], json!(["a cow"])),
            (6, "EmptySD3LatentImage", &[], json!([896, 640, 1])),
            (7, sampler.0, sampler.1, sampler.2),
            (11, "VHS_LoadVideo", &[], json!({"video": "cows.mp4"})),
            (
                12,
                "WanVideoEncode",
                &[("image", 11)],
                json!([false, 272, 272, 144, 128, 0, 1]),
            ),
            (8, "VAEDecode", &[("samples", 7)], json!([])),
            (9, "SaveImage", &[("images", 8)], json!(["a"])),
        ]);
        let found = read_file("a.json", drawn.to_string().as_bytes());
        let found = found.unwrap_or_else(|| panic!("{} is read", sampler.0));
        let said = found.notes.join("\n");
        let found = serde_json::to_value(&found).unwrap();
        for (name, value) in expected.as_object().unwrap() {
            assert_eq!(&found[name], value, "{name} of {}: {said}", sampler.0);
        }
        for note in notes {
            assert!(
                said.contains(note),
                "{note} is named for {}: {said}",
                sampler.0
            );
        }
    }
}
