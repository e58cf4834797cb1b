//! All Chroma models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and relatives, which are named and refused.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::families::chroma;
use crate::families::flux::tests::files::{shapes, t5_config};
use crate::job::{GenerateForm, Sampler};
use crate::model::ModelSpec;
use crate::networks::ChromaTransformerConfig;
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::{
    Folder, Offered, assert_configs_refused, assert_described, assert_file_unsupported,
    assert_is_whole_behind_prefixes, assert_lacks, assert_needs_all, assert_pipelines_unsupported,
    assert_refused_with, count_numbers, edited, faultless_catalog, kl_vae_config, origin_of_lora,
    other_in, resized, shapes_of, transformer_in, with_text_encoder,
};

/// One of the files in `tests/fixtures/headers/chroma.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("chroma", name)
}

/// ComfyUI's `models` folder with every companion, and no transformer.
fn tree(models: &Path) -> PathBuf {
    write(&models.join("vae/ae.safetensors"), &shapes("ae"), "F32");
    let text = models.join("text_encoders/t5xxl_fp16.safetensors");
    write(&text, &shapes("t5xxl"), "F16");
    models.to_owned()
}

fn folder() -> Folder {
    Folder {
        classes: [
            "ChromaPipeline",
            "ChromaTransformer2DModel",
            "AutoencoderKL",
            "T5EncoderModel",
            "T5TokenizerFast",
        ],
        marks: json!({"feature_extractor": [null, null], "image_encoder": [null, null]}),
        scheduler: json!({"shift": 1.0}),
        configs: [json!({}), kl_vae_config(), t5_config()],
        shapes: [
            own("transformer diffusers"),
            shapes("ae diffusers"),
            shapes("t5xxl"),
        ],
        tokenizer: "t5-xxl",
    }
}

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_in_any_dialect() {
    for name in ["transformer", "transformer diffusers"] {
        assert_is_whole_behind_prefixes(&own(name), &ChromaTransformerConfig::default());
    }
    assert_eq!(count_numbers(&own("transformer")), 8_899_983_424);
}

#[test]
fn a_transformer_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let is_looked_at = |key: &str| !key.contains("blocks.1");
    assert_needs_all::<ChromaTransformerConfig>(&own("transformer"), is_looked_at);
}

#[test]
fn all_published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(&root.path().join("models"));
    for name in ["Chroma1-HD", "Chroma1-Base", "Chroma1-Flash"] {
        transformer_in(&models, name, &own("transformer"));
    }
    let catalog = faultless_catalog(&models, 3);
    let hd = Offered {
        family: chroma::FAMILY,
        variant: "HD",
        licence: "Apache-2.0",
        num_steps: 35,
        guidance_scale: 5.0,
        shift: Some(1.0),
        sampler: Sampler::Euler,
        edge: 1024,
        latent_channels: 16,
        tokenizer: "t5-xxl",
        reader: ("T5", 512),
        is_guided: true,
    };
    let base = Offered {
        variant: "Base",
        ..hd
    };
    let flash = Offered {
        variant: "Flash",
        num_steps: 8,
        guidance_scale: 1.0,
        sampler: Sampler::Heun,
        is_guided: false,
        ..hd
    };
    for (id, offered) in [
        ("chroma1-hd", hd),
        ("chroma1-base", base),
        ("chroma1-flash", flash),
    ] {
        let spec = catalog.find(id).unwrap();
        offered.assert(&spec);
        let form = GenerateForm {
            prompt: "a fox".to_owned(),
            out: PathBuf::from("a.png"),
            ..GenerateForm::default()
        };
        let request = form.validate(&spec).unwrap().request;
        assert_eq!(request.negative_prompt.is_empty(), !offered.is_guided);
    }
}

#[test]
fn a_checkpoint_of_the_training_is_an_hd_or_what_its_name_says() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    for (name, variant, steps) in [
        ("chroma-unlocked-v29", "HD", 35),
        ("chroma-unlocked-v48", "Base", 35),
        ("chroma-unlocked-v50-annealed", "HD", 35),
        ("chroma-unlocked-v47-flash", "Flash", 8),
    ] {
        let place = transformer_in(&models, name, &own("transformer"));
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(spec.variant, variant, "{name}");
        assert_eq!(spec.defaults.sampling.num_steps, steps, "{name}");
    }
}

#[test]
fn a_diffusers_folder_has_everything() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("Chroma1-HD");
    folder().write(&place);
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(spec.variant, "HD");
    assert_eq!(spec.defaults.sampling.shift, Some(1.0));
    assert_eq!(spec.files.tokenizer, place.join("tokenizer"));
    assert_eq!(spec.files.text_encoder, place.join("text_encoder"));
}

#[test]
fn a_card_says_what_a_file_is_and_what_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "Chroma1-HD", &own("transformer"));
    assert_described(&place, "chroma", "HD", "Chroma 8.9B");
    assert_lacks(
        &place,
        &models,
        &["vae/ae.safetensors", "text_encoders/t5xxl_fp16.safetensors"],
        &["ae.safetensors", "t5xxl_fp16.safetensors"],
    );
}

#[test]
fn a_text_encoder_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "Chroma1-HD", &own("transformer"));
    let narrow = resized(shapes("t5xxl"), 4096, 2048);
    for (name, shapes, found) in [
        ("clip", shapes("clip_l"), "a CLIP text encoder"),
        ("t5_xl", narrow, "one of 2048"),
    ] {
        let other = with_text_encoder(other_in(&models, name, &shapes));
        assert_refused_with(&models, &place, &other, ["t5xxl_fp16.safetensors", found]);
    }
}

#[test]
fn models_like_chroma_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let with = |key: &str| edited(own("transformer"), key, &[1, 3072]);
    let mut radiance = own("transformer");
    radiance.retain(|key, _| !key.starts_with("img_in") && !key.starts_with("final_layer"));
    radiance.insert("img_in_patch.weight".to_owned(), vec![3072, 3, 16, 16]);
    let nerf = "nerf_image_embedder.embedder.0.weight";
    radiance.insert(nerf.to_owned(), vec![64, 67]);
    for (shapes, part) in [
        (radiance, "Chroma Radiance"),
        (with("nerf_blocks.0.norm.scale"), "Chroma Radiance"),
        (with("controlnet_blocks.0.weight"), "Chroma ControlNet"),
        (with("something_new.weight"), "something_new"),
        (with("time_in.in_layer.weight"), "time_in"),
    ] {
        assert_file_unsupported(&models, "x", &shapes, part);
    }
    assert_pipelines_unsupported(&[
        ("ChromaRadiancePipeline", "Chroma Radiance"),
        ("Chroma2Pipeline", "Chroma 2"),
        ("ZetaChromaPipeline", "Chroma 2"),
        ("ChromaEditPipeline", "ChromaEditPipeline"),
    ]);
}

#[test]
fn a_config_that_nobody_can_run_is_refused_with_what_was_expected() {
    let channels = "approximator_num_channels";
    let refused = [
        ("num_attention_heads", json!(0), "num_attention_heads"),
        ("patch_size", json!(2), "patch_size"),
        ("out_channels", json!(32), "out_channels"),
        ("axes_dims_rope", json!([16, 56, 58]), "axes_dims_rope"),
        (channels, json!(60), channels),
        ("approximator_layers", json!(4), "distilled_guidance_layer"),
        ("num_layers", json!(18), "18"),
        ("quantization_config", json!({}), "quantised"),
    ];
    assert_configs_refused(folder(), &refused);
}

#[test]
fn a_lora_for_chroma_is_known_by_its_own_layers_and_one_for_the_blocks_fits_it_and_flux() {
    let guidance = "lora_unet_distilled_guidance_layer_layers_0_in_layer";
    for (layer, family) in [
        (guidance, "chroma"),
        ("diffusion_model.distilled_guidance_layer.in_proj", "chroma"),
        ("lora_unet_double_blocks_0_img_attn_qkv", "flux"),
        ("transformer.single_transformer_blocks.3.attn.to_q", "flux"),
    ] {
        let origin = origin_of_lora(layer, [3072; 2]);
        assert_eq!(origin.family, family, "{layer}");
        assert!((chroma::FAMILY.lora.accepts)(origin.family, &[]), "{layer}");
    }
}
