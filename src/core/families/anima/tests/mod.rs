//! Anima in every layout, from names and shapes alone: recognised, completed, described; every tensor of it; and
//! relatives, which are named and refused.

use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::families::flux::tests::files::shapes;
use crate::families::table::SingleTransformerFamily as _;
use crate::families::tests::FamilyCase;
use crate::families::{anima, krea2, z_image};
use crate::job::SamplerKind;
use crate::model::{ModelComponent, ModelSpec};
use crate::networks::{AnimaAdapterConfig, AnimaTransformerConfig};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::write_json;
use crate::testing::published::{
    Folder, Offered, assert_is_read, assert_needs_all, assert_published, behind, edited,
    qwen3_config, shapes_of, shipped,
};

/// One of the files in `tests/fixtures/headers/anima.json`, or Krea 2's autoencoder; `file`: the authors' whole file.
pub(crate) fn own(name: &str) -> Shapes {
    match name {
        "file" => {
            let parts = [own("transformer"), own("adapter")].into_iter().flatten();
            behind("net.", &parts.collect())
        }
        "vae diffusers" | "qwen_image_vae" => krea2::tests::own(name),
        own => shapes_of("anima", own),
    }
}

/// Writes the text adapter of a modular folder, and its tokenizer.
pub(crate) fn write_adapter(folder: &Path) {
    let place = folder.join("text_conditioner");
    let config = place.join("config.json");
    write_json(&config, &json!({"_class_name": "AnimaTextConditioner"}));
    let file = place.join("diffusion_pytorch_model.safetensors");
    write(&file, &own("text_conditioner"), "BF16");
    symlink(shipped("t5-xxl"), folder.join("t5_tokenizer")).unwrap();
}

fn folder() -> Folder {
    let mut text = qwen3_config();
    for (key, value) in [
        ("hidden_size", 1024),
        ("intermediate_size", 3072),
        ("num_hidden_layers", 28),
        ("num_attention_heads", 16),
    ] {
        text[key] = json!(value);
    }
    Folder {
        classes: [
            "AnimaModularPipeline",
            "CosmosTransformer3DModel",
            "AutoencoderKLQwenImage",
            "Qwen3Model",
            "Qwen2Tokenizer",
        ],
        marks: json!({
            "text_conditioner": ["diffusers", "AnimaTextConditioner"],
            "t5_tokenizer": ["transformers", "T5Tokenizer"],
        }),
        scheduler: json!({"shift": 3.0}),
        configs: [json!({}), json!({"input_channels": 3}), text],
        shapes: [
            own("transformer diffusers"),
            own("vae diffusers"),
            own("qwen_3_06b_base"),
        ],
        tokenizer: "qwen",
    }
}

/// The row of Anima in the suite of all image families.
pub(in crate::families) fn case() -> FamilyCase {
    let base = Offered {
        family: anima::FAMILY,
        variant: "Base",
        licence: "CircleStone Labs Non-Commercial License",
        num_steps: 30,
        guidance_scale: 4.0,
        shift: Some(3.0),
        sampler: SamplerKind::Euler,
        edge: 1024,
        preview_channels: Some(16),
        step: 16,
        tokenizer: "qwen",
        reader: ("Qwen 3", 512),
        is_guided: true,
    };
    let turbo = Offered {
        variant: "Turbo",
        num_steps: 10,
        guidance_scale: 1.0,
        is_guided: false,
        ..base
    };
    let bare = [own("transformer"), own("adapter")].into_iter().flatten();
    let new = edited(bare.collect(), "something_new.weight", &[2048, 128]);
    let text = "qwen_3_06b_base.safetensors";
    FamilyCase {
        family: anima::FAMILY,
        transformers: || {
            let all = ["transformer", "transformer diffusers"].map(own);
            let published = AnimaTransformerConfig::default();
            assert_published(&all, &published, NUMBERS, |key| {
                !key.contains("blocks.") || key.contains(".3.")
            });
        },
        companions: vec![
            ("vae/qwen_image_vae", own("qwen_image_vae")),
            ("text_encoders/qwen_3_06b_base", own("qwen_3_06b_base")),
        ],
        offered: vec![
            ("anima-base-v1.0", own("file"), "anima", base),
            ("anima-turbo-v1.0", own("file"), "anima-turbo", turbo),
        ],
        card: "Anima 2B",
        folders: vec![
            ("mine", folder(), "Base", 30, Some(3.0)),
            ("anima-turbo", folder(), "Turbo", 10, Some(3.0)),
        ],
        all_in_one: None,
        missing: (
            &["vae/qwen_image_vae", "text_encoders/qwen_3_06b_base"],
            &["qwen_image_vae", "qwen_3_06b_base"],
        ),
        other_encoders: vec![(
            "qwen_3_4b",
            z_image::tests::own("qwen_3_4b"),
            [text, "one of 2560"],
        )],
        other_vaes: vec![("ae", shapes("ae"), ["qwen_image_vae", "an image VAE"])],
        relatives: vec![
            ("x", own("transformer"), "a Cosmos Predict2 model"),
            ("x", own("transformer diffusers"), "a Cosmos model"),
            ("x", new, "something_new"),
        ],
        pipelines: &[(
            "AnimaSomethingPipeline",
            "an Anima model for AnimaSomethingPipeline",
        )],
        configs: vec![
            ("num_attention_heads", json!(0), "num_attention_heads"),
            ("in_channels", json!(17), "models of videos"),
            ("rope_scale", json!([1.0, 4.0, 0.0]), "rope_scale"),
            ("patch_size", json!([1, 4, 4]), "patch_size"),
            (
                "extra_pos_embed_type",
                json!("learnable"),
                "extra_pos_embed_type",
            ),
            ("mlp_ratio", json!(0.0), "mlp_ratio"),
            ("num_layers", json!(27), "27 layers"),
            ("quantization_config", json!({}), "quantised"),
        ],
        loras: [
            "diffusion_model.blocks.0.self_attn.q_proj",
            "diffusion_model.llm_adapter.blocks.0.cross_attn.q_proj",
            "lora_unet_llm_adapter_blocks_0_mlp_0",
            "lora_unet_blocks_3_adaln_modulation_mlp_1",
            "text_conditioner.blocks.0.self_attn.q_proj",
        ]
        .map(|layer| (layer, [2048; 2], "anima"))
        .to_vec(),
        variants: [
            (["anima-base-v1.0", "diffusion_models"], "Base"),
            (["anima-aesthetic-v1.0", ""], "Base"),
            (["Anima_Turbo_v1", ""], "Turbo"),
            (["transformer", "Anima-Turbo-Diffusers"], "Turbo"),
        ]
        .map(|(names, variant)| (None, names, Ok(variant)))
        .to_vec(),
        variant: |hints| {
            let variant = super::AnimaFamily::TABLE.variant;
            Ok(variant(&AnimaTransformerConfig::default(), hints)?.name)
        },
    }
}

/// Numbers of the published transformer.
const NUMBERS: u64 = 1_956_405_248;

#[test]
fn a_text_adapter_is_read_whole_in_every_file() {
    for (name, prefix) in [
        ("adapter", ""),
        ("adapter", "net."),
        ("adapter", "model.diffusion_model."),
        ("text_conditioner", ""),
    ] {
        let config: AnimaAdapterConfig = assert_is_read(&behind(prefix, &own(name)), name);
        assert_eq!(config, AnimaAdapterConfig::default());
    }
    assert_needs_all::<AnimaAdapterConfig>(&own("adapter"), |key| {
        !key.contains("blocks.") || key.contains(".3.")
    });
}

#[test]
fn the_text_adapter_is_in_the_transformer_file_and_t5_tokenizer_ships() {
    let root = tempfile::tempdir().unwrap();
    let models = case().tree(root.path());
    let place = models.join("diffusion_models/anima-base-v1.0.safetensors");
    write(&place, &own("file"), "BF16");
    let spec = crate::testing::published::catalog_of(&models);
    let files = spec.find("anima").unwrap().files;
    assert_eq!(files.path(ModelComponent::TextEncoder2), Some(&*place));
    assert_eq!(files.tokenizer_2, Some(shipped("t5-xxl")));
}

#[test]
fn the_text_adapter_of_a_modular_folder_has_a_folder_with_a_t5_tokenizer() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("anima");
    folder().write(&place);
    let files = ModelSpec::open(&place).unwrap().files;
    assert_eq!(files.text_encoder_2, Some(place.join("text_conditioner")));
    assert_eq!(files.tokenizer_2, Some(place.join("t5_tokenizer")));
}
