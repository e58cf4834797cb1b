//! Both Krea 2 models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and what is none of them, which is named and refused.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::families::flux::tests::files::shapes;
use crate::families::krea2;
use crate::job::Sampler;
use crate::library::Companions;
use crate::model::ModelSpec;
use crate::networks::Krea2TransformerConfig;
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::{
    Folder, Offered, assert_all_in_one, assert_configs_refused, assert_described,
    assert_file_unsupported, assert_is_whole_behind_prefixes, assert_lacks, assert_needs_all,
    assert_pipelines_unsupported, assert_refused_with, catalog_of, count_numbers, edited,
    faultless_catalog, origin_of_lora, other_in, resized, shapes_of, transformer_in,
    with_text_encoder, with_vae,
};

/// One of the files in `tests/fixtures/headers/krea2.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("krea2", name)
}

/// ComfyUI's `models` folder with every companion, and no transformer.
fn tree(models: &Path) -> PathBuf {
    let vae = models.join("vae/qwen_image_vae.safetensors");
    write(&vae, &own("qwen_image_vae"), "F32");
    let text = models.join("text_encoders/qwen3vl_4b_bf16.safetensors");
    write(&text, &own("qwen3vl_4b"), "BF16");
    models.to_owned()
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

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_in_any_dialect() {
    for name in ["transformer", "transformer diffusers"] {
        assert_is_whole_behind_prefixes(&own(name), &Krea2TransformerConfig::default());
    }
    assert_eq!(count_numbers(&own("transformer")), 12_820_073_036);
}

#[test]
fn a_transformer_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let is_looked_at = |key: &str| !key.starts_with("blocks.") || key.starts_with("blocks.7.");
    assert_needs_all::<Krea2TransformerConfig>(&own("transformer"), is_looked_at);
}

#[test]
fn what_converters_squeeze_and_authors_leave_behind_is_no_fault() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
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
fn both_published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(&root.path().join("models"));
    for name in ["krea2_turbo_bf16", "krea2_raw_bf16"] {
        transformer_in(&models, name, &own("transformer"));
    }
    let catalog = faultless_catalog(&models, 2);
    let turbo = Offered {
        family: krea2::FAMILY,
        variant: "Turbo",
        licence: "Krea 2 Community License",
        num_steps: 8,
        guidance_scale: 1.0,
        shift: Some(1.15_f64.exp()),
        sampler: Sampler::Euler,
        edge: 1024,
        latent_channels: 16,
        tokenizer: "qwen",
        reader: ("Qwen 3 VL", 512),
        is_guided: false,
    };
    turbo.assert(&catalog.find("krea2-turbo").unwrap());
    let raw = Offered {
        variant: "Raw",
        num_steps: 28,
        guidance_scale: 5.5,
        shift: None,
        is_guided: true,
        ..turbo
    };
    raw.assert(&catalog.find("krea2-raw").unwrap());
}

#[test]
fn a_diffusers_folder_says_its_variant_by_its_pipeline_whatever_it_is_called() {
    let root = tempfile::tempdir().unwrap();
    for (name, is_distilled, variant, shift) in [
        ("Krea-2-Raw", json!(true), "Turbo", Some(1.15_f64.exp())),
        ("my-turbo", json!(false), "Raw", None),
        ("Krea-2-Base", Value::Null, "Raw", None),
    ] {
        let place = root.path().join(name);
        folder(&is_distilled).write(&place);
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(spec.variant, variant);
        assert_eq!(spec.defaults.sampling.shift, shift, "{name}");
        assert_eq!(spec.files.tokenizer, place.join("tokenizer"));
    }
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it() {
    let parts = [
        ("model.diffusion_model.", own("transformer")),
        ("vae.", own("qwen_image_vae")),
        ("text_encoders.qwen3vl_4b.transformer.", own("qwen3vl_4b")),
    ];
    assert_all_in_one("krea2_turbo_all-in-one", &parts);
}

#[test]
fn a_card_says_what_a_file_is_and_what_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "krea2_turbo_bf16", &own("transformer"));
    assert_described(&place, "krea2", "Turbo", "Krea 2 12B");
    assert_lacks(
        &place,
        &models,
        &[
            "vae/qwen_image_vae.safetensors",
            "text_encoders/qwen3vl_4b_bf16.safetensors",
        ],
        &[
            "qwen_image_vae.safetensors",
            "qwen3vl_4b_fp8_scaled.safetensors",
        ],
    );
}

#[test]
fn a_part_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "krea2_turbo_bf16", &own("transformer"));
    let text = own("qwen3vl_4b").into_iter();
    let text = text.filter(|(key, _)| !key.contains("visual."));
    let blind = text.map(|(key, shape)| (key.replace("language_model.", ""), shape));
    for (name, shapes, found) in [
        ("clip", shapes("clip_l"), "a CLIP text encoder"),
        ("qwen_3_4b", blind.collect(), "does not look at pictures"),
        (
            "qwen3vl_8b",
            resized(own("qwen3vl_4b"), 2560, 4096),
            "one of 4096",
        ),
    ] {
        let other = with_text_encoder(other_in(&models, name, &shapes));
        assert_refused_with(&models, &place, &other, ["qwen3vl_4b", found]);
    }
    let vae = with_vae(other_in(&models, "ae", &shapes("ae")));
    assert_refused_with(&models, &place, &vae, ["qwen_image_vae", "an image VAE"]);
}

#[test]
fn the_text_half_alone_is_known_by_what_stands_before_its_names() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "krea2_turbo_bf16", &own("transformer"));
    let mut half = own("qwen3vl_4b");
    half.retain(|key, _| !key.contains("visual."));
    let text = models.join("text_encoders/qwen3vl_4b_bf16.safetensors");
    write(&text, &half, "BF16");
    let spec = catalog_of(root.path()).open_with(&place.to_string_lossy(), &Companions::default());
    assert_eq!(spec.unwrap().files.text_encoder, text);
}

#[test]
fn what_is_like_krea_2_and_is_not_is_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let new = edited(own("transformer"), "something_new.weight", &[1, 6144]);
    assert_file_unsupported(&models, "x", &new, "something_new");
    assert_pipelines_unsupported(&[("Krea2EditPipeline", "Krea2EditPipeline")]);
}

#[test]
fn a_config_that_nobody_can_run_is_refused_with_what_was_expected() {
    let heads = "text_num_attention_heads";
    let refused = [
        ("attention_head_dim", json!(0), "attention_head_dim"),
        ("num_key_value_heads", json!(7), "num_attention_heads"),
        (heads, json!(7), heads),
        ("axes_dims_rope", json!([32, 48, 50]), "axes_dims_rope"),
        ("in_channels", json!(66), "in_channels"),
        ("rope_theta", json!(0.0), "rope_theta"),
        ("num_layers", json!(27), "27 layers"),
        ("num_text_layers", json!(11), "projector"),
        ("quantization_config", json!({}), "quantised"),
    ];
    assert_configs_refused(folder(&json!(true)), &refused);
}

#[test]
fn a_lora_for_krea_2_is_known_by_its_layers() {
    for layer in [
        "lora_unet_blocks_0_attn_wq",
        "diffusion_model.blocks.3.attn.gate",
        "base_model.model.blocks.3.mlp.up",
        "transformer.text_fusion.refiner_blocks.0.attn.to_q",
        "transformer.transformer_blocks.27.attn.to_gate",
        "diffusion_model.txtfusion.layerwise_blocks.1.mlp.down",
    ] {
        let origin = origin_of_lora(layer, [6144; 2]);
        assert_eq!(
            (origin.family, &origin.label[..]),
            ("krea2", "Krea 2"),
            "{layer}"
        );
    }
}
