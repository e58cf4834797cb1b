//! Both Krea 2 models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and what is none of them, which is named and refused.

use serde_json::{Value, json};

use crate::families::flux::tests::files::shapes;
use crate::families::krea2;
use crate::families::tests::FamilyCase;
use crate::job::SamplerKind;
use crate::model::{ComponentOverrides, ModelSpec};
use crate::networks::Krea2TransformerConfig;
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::{
    Folder, Offered, assert_published, catalog_of, edited, resized, shapes_of, transformer_in,
};

/// One of the files in `tests/fixtures/headers/krea2.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("krea2", name)
}

fn folder(is_distilled: &Value) -> Folder {
    let text = json!({"model_type": "qwen3_vl", "text_config": {
        "model_type": "qwen3_vl_text", "vocab_size": 151_936, "hidden_size": 2560, "intermediate_size": 9728,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "rms_norm_eps": 1e-6, "rope_theta": 5_000_000,
        "rope_scaling": {"mrope_section": [24, 20, 20], "rope_type": "default"},
    }});
    Folder {
        classes: [
            "Krea2Pipeline",
            "Krea2Transformer2DModel",
            "AutoencoderKLQwenImage",
            "Qwen3VLModel",
            "Qwen2Tokenizer",
        ],
        marks: json!({"is_distilled": is_distilled, "patch_size": 2}),
        scheduler: json!({
            "shift": 1.0, "use_dynamic_shifting": true, "base_image_seq_len": 256, "max_image_seq_len": 6400,
        }),
        configs: [json!({}), json!({"input_channels": 3}), text],
        shapes: ["transformer diffusers", "vae diffusers", "qwen3vl_4b"].map(own),
        tokenizer: "qwen",
    }
}

/// The row of Krea 2 in the suite of all image families.
pub(in crate::families) fn case() -> FamilyCase {
    let turbo_shift = Some(1.15_f64.exp());
    let turbo = Offered {
        family: krea2::FAMILY,
        variant: "Turbo",
        licence: "Krea 2 Community License",
        num_steps: 8,
        guidance_scale: 1.0,
        shift: turbo_shift,
        sampler: SamplerKind::Euler,
        edge: 1024,
        preview_channels: Some(16),
        step: 16,
        tokenizer: "qwen",
        reader: ("Qwen 3 VL", 512),
        is_guided: false,
    };
    let raw = Offered {
        variant: "Raw",
        num_steps: 28,
        guidance_scale: 5.5,
        shift: None,
        is_guided: true,
        ..turbo
    };
    let text = own("qwen3vl_4b").into_iter();
    let text = text.filter(|(key, _)| !key.contains("visual."));
    let blind = text.map(|(key, shape)| (key.replace("language_model.", ""), shape));
    let large = resized(own("qwen3vl_4b"), 2560, 4096);
    let new = edited(own("transformer"), "something_new.weight", &[1, 6144]);
    let (right, heads) = ("qwen3vl_4b", "text_num_attention_heads");
    FamilyCase {
        family: krea2::FAMILY,
        transformers: || {
            let all = ["transformer", "transformer diffusers"].map(own);
            assert_published(
                &all,
                &Krea2TransformerConfig::default(),
                12_820_073_036,
                |key| !key.starts_with("blocks.") || key.starts_with("blocks.7."),
            );
        },
        companions: vec![
            ("vae/qwen_image_vae", own("qwen_image_vae")),
            ("text_encoders/qwen3vl_4b_bf16", own("qwen3vl_4b")),
        ],
        offered: vec![
            ("krea2_turbo_bf16", own("transformer"), "krea2-turbo", turbo),
            ("krea2_raw_bf16", own("transformer"), "krea2-raw", raw),
        ],
        card: "Krea 2 12B",
        folders: vec![
            ("Krea-2-Raw", folder(&json!(true)), "Turbo", 8, turbo_shift),
            ("my-turbo", folder(&json!(false)), "Raw", 28, None),
            ("Krea-2-Base", folder(&Value::Null), "Raw", 28, None),
        ],
        all_in_one: Some([
            ("model.diffusion_model.", own("transformer")),
            ("vae.", own("qwen_image_vae")),
            ("text_encoders.qwen3vl_4b.transformer.", own("qwen3vl_4b")),
        ]),
        missing: (
            &["vae/qwen_image_vae", "text_encoders/qwen3vl_4b_bf16"],
            &["qwen_image_vae", "qwen3vl_4b_fp8_scaled"],
        ),
        other_encoders: vec![
            ("clip", shapes("clip_l"), [right, "a CLIP text encoder"]),
            (
                "qwen_3_4b",
                blind.collect(),
                [right, "does not look at images"],
            ),
            ("qwen3vl_8b", large, [right, "one of 4096"]),
        ],
        other_vaes: vec![("ae", shapes("ae"), ["qwen_image_vae", "an image VAE"])],
        relatives: vec![("x", new, "something_new")],
        pipelines: &[("Krea2EditPipeline", "Krea2EditPipeline")],
        configs: vec![
            ("attention_head_dim", json!(0), "attention_head_dim"),
            ("num_key_value_heads", json!(7), "num_attention_heads"),
            (heads, json!(7), heads),
            ("axes_dims_rope", json!([32, 48, 50]), "axes_dims_rope"),
            ("in_channels", json!(66), "in_channels"),
            ("rope_theta", json!(0.0), "rope_theta"),
            ("num_layers", json!(27), "27 layers"),
            ("num_text_layers", json!(11), "projector"),
            ("quantization_config", json!({}), "quantised"),
        ],
        loras: [
            "lora_unet_blocks_0_attn_wq",
            "diffusion_model.blocks.3.attn.gate",
            "base_model.model.blocks.3.mlp.up",
            "transformer.text_fusion.refiner_blocks.0.attn.to_q",
            "transformer.transformer_blocks.27.attn.to_gate",
            "diffusion_model.txtfusion.layerwise_blocks.1.mlp.down",
        ]
        .map(|layer| (layer, [6144; 2], "krea2"))
        .to_vec(),
        variants: [
            (Some(false), ["Krea-2-Turbo", ""], "Raw"),
            (Some(true), ["krea2_raw", ""], "Turbo"),
            (None, ["krea2_turbo_fp8_scaled", ""], "Turbo"),
            (None, ["krea2_raw_bf16", ""], "Raw"),
            (None, ["Krea-2-Raw-Q8_0", ""], "Raw"),
            (None, ["krea2_base_fp8", ""], "Raw"),
            (None, ["krea2Turbo18For_v2", "raw"], "Turbo"),
            (None, ["drawings_v3", "diffusion_models"], "Turbo"),
            (None, ["transformer", "Krea-2-Raw"], "Raw"),
        ]
        .map(|(is_distilled, names, variant)| (is_distilled, names, Ok(variant)))
        .to_vec(),
        variant: |hints| Ok(super::variant_by(hints)),
    }
}

#[test]
fn krea2_transformers_with_squeezed_or_leftover_tensors_are_accepted() {
    let root = tempfile::tempdir().unwrap();
    let models = case().tree(root.path());
    let mut shapes = edited(own("transformer"), "txtfusion.projector.weight", &[12]);
    for (key, shape) in [
        ("last.down.weight", [16, 6144]),
        ("last.up.weight", [6144, 16]),
    ] {
        shapes.insert(key.to_owned(), shape.to_vec());
    }
    let place = transformer_in(&models, "Krea-2-Raw-Q8_0", &shapes);
    assert_eq!(ModelSpec::open(&place).unwrap().variant, "Raw");
}

#[test]
fn qwen3vl_text_encoder_without_vision_tower_is_recognised_by_key_prefix() {
    let root = tempfile::tempdir().unwrap();
    let models = case().tree(root.path());
    let place = transformer_in(&models, "krea2_turbo_bf16", &own("transformer"));
    let mut half = own("qwen3vl_4b");
    half.retain(|key, _| !key.contains("visual."));
    let text = models.join("text_encoders/qwen3vl_4b_bf16.safetensors");
    write(&text, &half, "BF16");
    let spec =
        catalog_of(root.path()).open_with(&place.to_string_lossy(), &ComponentOverrides::default());
    assert_eq!(spec.unwrap().files.text_encoder, text);
}
