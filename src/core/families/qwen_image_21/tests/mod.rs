//! Qwen-Image 2.1 in every layout, from names and shapes alone: recognised, completed, described; every tensor of it; and
//! relatives, which are named and refused.

use std::fs;

use serde_json::{Value, json};

use crate::families::flux::tests::files::shapes;
use crate::families::tests::FamilyCase;
use crate::families::{krea2, qwen_image_21};
use crate::job::SamplerKind;
use crate::model::ModelSpec;
use crate::networks::{Qwen3VisionConfig, QwenImage21TransformerConfig, WanVaeConfig};
use crate::testing::made_up::{Shapes, vae, vae_of};
use crate::testing::published::{
    Folder, Offered, assert_is_read, assert_published, edited, shapes_of,
};

/// One of the files in `tests/fixtures/headers/qwen_image_21.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("qwen_image_21", name)
}

/// The autoencoder in ComfyUI's names.
fn single_vae() -> Shapes {
    vae_of(&WanVaeConfig::published(64), true)
}

fn folder(is_turbo: bool) -> Folder {
    let sigmas = json!({"sample_sigmas": [1.0, 0.9, 0.5]});
    let marks = if is_turbo { sigmas } else { json!({}) };
    let scheduler = json!({
        "shift": 1.0, "use_dynamic_shifting": !is_turbo, "base_shift": 0.5, "max_shift": 0.9,
        "base_image_seq_len": 256, "max_image_seq_len": 8192,
    });
    let text = json!({"model_type": "qwen3_vl", "text_config": {
        "model_type": "qwen3_vl_text", "vocab_size": 151_936, "hidden_size": 4096, "intermediate_size": 12_288,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "rms_norm_eps": 1e-6, "rope_theta": 5_000_000,
        "rope_scaling": {"mrope_section": [24, 20, 20], "rope_type": "default"},
    }, "vision_config": {"model_type": "qwen3_vl_vision", "depth": 27, "hidden_size": 1152}});
    let vae = serde_json::to_value(WanVaeConfig::published(64)).unwrap();
    let vae = edited_config(vae);
    Folder {
        classes: [
            "QwenImage21Pipeline",
            "QwenImage21Transformer2DModel",
            "AutoencoderKLQwenImage21",
            "Qwen3VLForConditionalGeneration",
            "Qwen2Tokenizer",
        ],
        marks,
        scheduler,
        configs: [json!({"axes_dims_rope": [16, 56, 56]}), vae, text],
        shapes: ["transformer diffusers", "vae diffusers", "qwen3vl_8b"].map(own),
        tokenizer: "qwen",
    }
}

/// With statistics of sixty-four channels.
fn edited_config(mut vae: Value) -> Value {
    vae["latents_mean"] = json!(vec![0.5; 64]);
    vae["latents_std"] = json!(vec![2.0; 64]);
    vae
}

/// The row of Qwen-Image 2.1 in the suite of all image families.
pub(in crate::families) fn case() -> FamilyCase {
    let base = Offered {
        family: qwen_image_21::FAMILY,
        variant: "2.1",
        licence: "Qwen Research License",
        num_steps: 40,
        guidance_scale: 1.0,
        shift: None,
        sampler: SamplerKind::Euler,
        edge: 1024,
        preview_channels: None,
        step: 32,
        tokenizer: "qwen",
        reader: ("Qwen 3 VL", 1024),
        is_guided: false,
    };
    let turbo = Offered {
        variant: "Turbo",
        num_steps: 8,
        shift: Some(1.0),
        ..base
    };
    let right = "qwen3vl_8b_bf16.safetensors";
    let with = |key: &str, shape: &[u64]| edited(own("transformer"), key, shape);
    FamilyCase {
        family: qwen_image_21::FAMILY,
        transformers: || {
            let all = ["transformer", "transformer diffusers"].map(own);
            assert_published(
                &all,
                &QwenImage21TransformerConfig::default(),
                7_115_124_736,
                |key| !key.contains("blocks.") || key.contains("blocks.7."),
            );
        },
        companions: vec![
            ("vae/qwen_image_2.1_vae_bf16", single_vae()),
            ("text_encoders/qwen3vl_8b_bf16", own("qwen3vl_8b")),
        ],
        offered: vec![
            (
                "qwen_image_2.1_turbo_bf16",
                own("transformer"),
                "qwen-image-2.1-turbo",
                turbo,
            ),
            (
                "qwen_image_2.1_bf16",
                own("transformer"),
                "qwen-image-2.1",
                base,
            ),
        ],
        card: "Qwen-Image 2.1 7B",
        folders: vec![
            ("Qwen-Image-2.1", folder(false), "2.1", 40, None),
            ("mine", folder(true), "Turbo", 8, Some(1.0)),
        ],
        all_in_one: None,
        missing: (
            &[
                "vae/qwen_image_2.1_vae_bf16",
                "text_encoders/qwen3vl_8b_bf16",
            ],
            &["qwen_image_2.1_vae_bf16", "qwen3vl_8b_bf16"],
        ),
        other_encoders: vec![
            ("clip", shapes("clip_l"), [right, "a CLIP text encoder"]),
            (
                "qwen3vl_4b",
                krea2::tests::own("qwen3vl_4b"),
                [right, "one of 2560"],
            ),
        ],
        other_vaes: vec![
            ("wan", vae(16), ["qwen_image_2.1_vae", "z_dim of 16"]),
            ("ae", shapes("ae"), ["qwen_image_2.1_vae", "an image VAE"]),
        ],
        relatives: vec![
            ("x", with("something_new.weight", &[4096]), "something_new"),
            (
                "x",
                with("controlnet_blocks.0.weight", &[4096]),
                "ControlNet",
            ),
        ],
        pipelines: &[("QwenImage21EditPipeline", "QwenImage21EditPipeline")],
        configs: vec![
            ("num_attention_heads", json!(0), "num_attention_heads"),
            ("patch_size", json!(2), "patch_size"),
            ("axes_dims_rope", json!([16, 56, 58]), "axes_dims_rope"),
            ("causal_condition", json!(false), "causal_condition"),
            ("out_channels", json!(16), "out_channels"),
            ("quantization_config", json!({}), "quantised"),
        ],
        loras: [
            "lora_unet_transformer_blocks_0_img_mlp_gate_up",
            "diffusion_model.transformer_blocks.3.img_mlp.out",
            "transformer_blocks.31.img_mlp.proj",
            "transformer.transformer_blocks.0.img_mlp.gate_layer",
        ]
        .map(|layer| (layer, [4096; 2], "qwen_image_21"))
        .to_vec(),
        variants: [
            (Some(true), ["mine", ""], "Turbo"),
            (None, ["qwen_image_2.1_turbo_int8_convrot", ""], "Turbo"),
            (None, ["qwen_image_2.1_bf16", ""], "2.1"),
            (None, ["x", "Qwen-Image-2.1-Turbo"], "Turbo"),
        ]
        .map(|(is_distilled, names, variant)| (is_distilled, names, Ok(variant)))
        .to_vec(),
        variant: |hints| Ok(super::variant(hints).name),
    }
}

#[test]
fn no_tensor_of_the_published_autoencoder_and_vision_tower_is_missing_or_unexpected() {
    for shapes in [own("vae diffusers"), single_vae()] {
        assert_is_read::<WanVaeConfig>(&shapes, "vae");
    }
    let mut tower = own("qwen3vl_8b");
    tower.retain(|key, _| key.contains("visual."));
    assert_is_read::<Qwen3VisionConfig>(&tower, "text_encoder");
}

#[test]
fn a_tokenizer_inside_of_a_processor_is_found_in_its_folder() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("Qwen-Image-2.1");
    folder(false).write(&place);
    let index = place.join("model_index.json");
    let text = fs::read_to_string(&index).unwrap();
    fs::write(&index, text.replace("tokenizer", "processor")).unwrap();
    fs::rename(place.join("tokenizer"), place.join("processor")).unwrap();
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(spec.files.tokenizer, place.join("processor"));
}
