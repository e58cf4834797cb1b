//! FLUX.2 dev in every layout, from names and shapes alone: every tensor, the text encoder with its tokenizer, and klein,
//! which is another model.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::own;
use crate::families::flux2::dev::*;
use crate::families::prelude::*;
use crate::families::text_readers;
use crate::model::ModelSpec;
use crate::networks::Flux2TransformerConfig;
use crate::testing::assert_has;
use crate::testing::made_up::write;
use crate::testing::published::{
    Folder, assert_published, assert_refused_with, behind, catalog_of, transformer_in,
    with_text_encoder,
};

/// Writes a tokenizer with as many ids as Mistral's.
fn write_tokenizer(folder: &Path) {
    fs::create_dir_all(folder).unwrap();
    let mark = json!({"id": 17, "content": "[SYSTEM_PROMPT]"});
    let model = json!({"type": "BPE", "vocab": {"a": 131_071}, "merges": []});
    let file = json!({"model": model, "added_tokens": [mark]});
    fs::write(folder.join("tokenizer.json"), file.to_string()).unwrap();
}

/// ComfyUI's `models` folder with what the transformer needs, and parts of klein.
fn tree(models: &Path) -> PathBuf {
    for (name, shapes) in [
        ("vae/flux2-vae", own("vae")),
        ("text_encoders/qwen_3_8b", own("qwen_3_8b")),
        (
            "text_encoders/mistral_3_small_flux2_bf16",
            own("mistral_3_small_flux2"),
        ),
    ] {
        write(&models.join(format!("{name}.safetensors")), &shapes, "BF16");
    }
    write_tokenizer(&models.join("text_encoders/mistral"));
    models.to_owned()
}

fn assert_is_dev(spec: &ModelSpec) {
    assert_eq!((spec.family, &*spec.variant), (FAMILY, "dev"));
    assert_eq!(spec.guidance, GuidanceMode::Distilled);
    assert_eq!(spec.limits.max_references, 10);
    let [reader] = &text_readers(spec)[..] else {
        panic!("one text encoder");
    };
    assert_eq!((reader.name, reader.limit), ("Mistral", 512));
}

#[test]
fn every_tensor_of_the_published_transformer_is_read_in_both_dialects() {
    let published = Flux2TransformerConfig {
        out_channels: Some(128),
        ..Flux2TransformerConfig::default()
    };
    let all = ["", " diffusers"].map(|end| own(&format!("transformer dev{end}")));
    assert_published(&all, &published, 32_223_281_152, |key| {
        !key.contains("blocks.1")
    });
}

#[test]
fn a_file_of_dev_is_completed_with_mistral_and_its_tokenizer() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    for (name, shapes) in [
        ("flux2_dev_fp8mixed", own("transformer dev")),
        (
            "my-finetune",
            behind("model.diffusion_model.", &own("transformer dev")),
        ),
        ("flux2-dev-diffusers", own("transformer dev diffusers")),
    ] {
        let place = transformer_in(&models, name, &shapes);
        let spec = ModelSpec::open(&place).unwrap();
        assert_is_dev(&spec);
        let encoder = "text_encoders/mistral_3_small_flux2_bf16.safetensors";
        assert_eq!(spec.files.text_encoder, models.join(encoder));
        assert_eq!(spec.files.tokenizer, models.join("text_encoders/mistral"));
    }
    let catalog = catalog_of(&models);
    let ids: Vec<&str> = catalog.available.iter().map(|it| &*it.id).collect();
    assert!(ids.contains(&"flux2-dev"), "{ids:?}");
}

#[test]
fn text_encoders_of_other_models_are_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "flux2-dev", &own("transformer dev"));
    let qwen = with_text_encoder(models.join("text_encoders/qwen_3_8b.safetensors"));
    assert_refused_with(&models, &place, &qwen, ["mistral_3_small_flux2", "Qwen 3"]);
    for name in ["qwen_3_8b", "mistral_3_small_flux2_bf16"] {
        fs::remove_file(models.join(format!("text_encoders/{name}.safetensors"))).unwrap();
    }
    let missing = ModelSpec::open(&place).unwrap_err().to_string();
    assert_has(&missing, &["Mistral Small 3", "mistral_3_small_flux2"]);
}

#[test]
fn a_tokenizer_of_llama_is_not_taken_for_mistrals() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let folder = models.join("text_encoders/mistral");
    let model = json!({"type": "BPE", "vocab": {"a": 131_071}, "merges": []});
    let other = json!({ "model": model }).to_string();
    fs::write(folder.join("tokenizer.json"), other).unwrap();
    let place = transformer_in(&models, "flux2-dev", &own("transformer dev"));
    let missing = ModelSpec::open(&place).unwrap_err().to_string();
    assert_has(&missing, &["the tokenizer of Mistral Small 3"]);
}

#[test]
fn a_diffusers_folder_is_read_with_the_whole_text_encoder() {
    let root = tempfile::tempdir().unwrap();
    let folder = Folder {
        classes: [
            "Flux2Pipeline",
            "Flux2Transformer2DModel",
            "AutoencoderKLFlux2",
            "Mistral3ForConditionalGeneration",
            "PixtralProcessor",
        ],
        marks: json!({}),
        scheduler: json!({"shift": 3.0, "use_dynamic_shifting": true}),
        configs: [
            json!({"rope_theta": 2000}),
            json!({
                "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "latent_channels": 32,
                "norm_num_groups": 32, "batch_norm_eps": 1e-4, "patch_size": [2, 2],
            }),
            json!({
                "model_type": "mistral3",
                "text_config": {
                    "model_type": "mistral", "vocab_size": 131_072, "hidden_size": 5120,
                    "intermediate_size": 32_768, "num_hidden_layers": 40, "num_attention_heads": 32,
                    "num_key_value_heads": 8, "head_dim": 128, "rms_norm_eps": 1e-5, "rope_theta": 1e9,
                },
            }),
        ],
        shapes: [
            "transformer dev diffusers",
            "vae diffusers",
            "mistral folder",
        ]
        .map(own),
        tokenizer: "qwen",
    };
    let place = root.path().join("FLUX.2-dev");
    folder.write(&place);
    // A link to one that ships with the app.
    fs::remove_file(place.join("tokenizer")).unwrap();
    write_tokenizer(&place.join("tokenizer"));
    let spec = ModelSpec::open(&place).unwrap();
    assert_is_dev(&spec);
    let config = LANGUAGE.read(&spec.files.text_encoder).unwrap();
    assert_eq!((config.num_read_layers(), config.rope_theta()), (30, 1e9));
}

#[test]
fn klein_is_no_dev_and_loras_fit_by_their_layers() {
    let klein = Flux2TransformerConfig::klein_4b();
    let hints = VariantHints {
        class: None,
        is_distilled: None,
        names: &[],
    };
    let variant = Flux2DevFamily::TABLE.variant;
    assert!(variant(&klein, &hints).unwrap_err().contains("klein"));
    let accepts = Flux2DevFamily::TABLE.lora.accepts;
    assert!(accepts("flux2", &[]) && !accepts("wan", &[]));
}
