//! Both Z-Image models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and relatives, which are named and refused.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::families::flux::tests::files::shapes;
use crate::families::z_image;
use crate::job::Sampler;
use crate::library::ControlNetwork;
use crate::model::ModelSpec;
use crate::networks::{ControlRefiner, ZImageControlConfig, ZImageTransformerConfig};
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::{
    Folder, Offered, assert_all_in_one, assert_configs_refused, assert_described,
    assert_file_unsupported, assert_is_read, assert_is_whole_behind_prefixes, assert_lacks,
    assert_needs_all, assert_pipelines_unsupported, assert_refused_with, count_numbers, edited,
    faultless_catalog, kl_vae_config, origin_of_lora, other_in, qwen3_config, resized, shapes_of,
    transformer_in, with_text_encoder,
};

/// One of the files in `tests/fixtures/headers/z_image.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("z_image", name)
}

/// ComfyUI's `models` folder with every companion, and no transformer.
fn tree(models: &Path) -> PathBuf {
    write(&models.join("vae/ae.safetensors"), &shapes("ae"), "F32");
    let text = models.join("text_encoders/qwen_3_4b.safetensors");
    write(&text, &own("qwen_3_4b"), "BF16");
    models.to_owned()
}

fn folder(shift: f64) -> Folder {
    Folder {
        classes: [
            "ZImagePipeline",
            "ZImageTransformer2DModel",
            "AutoencoderKL",
            "Qwen3Model",
            "Qwen2Tokenizer",
        ],
        marks: json!({}),
        scheduler: json!({ "shift": shift }),
        configs: [
            json!({"axes_lens": [1536, 512, 512]}),
            kl_vae_config(),
            qwen3_config(),
        ],
        shapes: [
            own("transformer diffusers"),
            shapes("ae diffusers"),
            own("qwen_3_4b"),
        ],
        tokenizer: "qwen",
    }
}

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_in_any_dialect() {
    for name in ["transformer", "transformer diffusers"] {
        assert_is_whole_behind_prefixes(&own(name), &ZImageTransformerConfig::default());
    }
    assert_eq!(count_numbers(&own("transformer")), 6_154_908_736);
}

#[test]
fn a_transformer_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let is_looked_at = |key: &str| !key.contains("layers.1");
    assert_needs_all::<ZImageTransformerConfig>(&own("transformer"), is_looked_at);
}

#[test]
fn both_published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(&root.path().join("models"));
    for name in ["z_image_turbo_bf16", "z_image_bf16"] {
        transformer_in(&models, name, &own("transformer"));
    }
    let catalog = faultless_catalog(&models, 2);
    let turbo = Offered {
        family: z_image::FAMILY,
        variant: "Turbo",
        licence: "Apache-2.0",
        num_steps: 8,
        guidance_scale: 1.0,
        shift: Some(3.0),
        sampler: Sampler::Euler,
        edge: 1024,
        latent_channels: 16,
        tokenizer: "qwen",
        reader: ("Qwen 3", 512),
        is_guided: false,
    };
    turbo.assert(&catalog.find("z-image-turbo").unwrap());
    let base = Offered {
        variant: "Base",
        num_steps: 28,
        guidance_scale: 5.0,
        shift: Some(6.0),
        is_guided: true,
        ..turbo
    };
    base.assert(&catalog.find("z-image").unwrap());
}

#[test]
fn a_diffusers_folder_says_its_variant_by_its_scheduler_whatever_it_is_called() {
    let root = tempfile::tempdir().unwrap();
    for (name, shift, variant, steps) in [
        ("Z-Image-Turbo", 3.0, "Turbo", 8),
        ("my-finetune", 6.0, "Base", 28),
    ] {
        let place = root.path().join(name);
        folder(shift).write(&place);
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(spec.variant, variant);
        assert_eq!(spec.defaults.sampling.shift, Some(shift));
        assert_eq!(spec.defaults.sampling.num_steps, steps);
        assert_eq!(spec.files.tokenizer, place.join("tokenizer"));
    }
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it() {
    let parts = [
        ("model.diffusion_model.", own("transformer")),
        ("vae.", shapes("ae")),
        ("text_encoders.qwen3_4b.transformer.", own("qwen_3_4b")),
    ];
    assert_all_in_one("z_image_turbo_all-in-one", &parts);
}

#[test]
fn a_card_says_what_a_file_is_and_what_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "z_image_turbo_bf16", &own("transformer"));
    assert_described(&place, "z_image", "Turbo", "Z-Image 6B");
    assert_lacks(
        &place,
        &models,
        &["vae/ae.safetensors", "text_encoders/qwen_3_4b.safetensors"],
        &["ae.safetensors", "qwen_3_4b.safetensors"],
    );
}

#[test]
fn a_text_encoder_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "z_image_turbo_bf16", &own("transformer"));
    let sees = "model.visual.blocks.0.norm1.weight";
    for (name, shapes, found) in [
        ("clip", shapes("clip_l"), "a CLIP text encoder"),
        (
            "qwen_3_8b",
            resized(own("qwen_3_4b"), 2560, 4096),
            "one of 4096",
        ),
        (
            "qwen_3_vl_4b",
            edited(own("qwen_3_4b"), sees, &[1024]),
            "a Qwen 3 VL",
        ),
    ] {
        let other = with_text_encoder(other_in(&models, name, &shapes));
        assert_refused_with(&models, &place, &other, ["qwen_3_4b.safetensors", found]);
    }
}

#[test]
fn every_published_controlnet_is_told_by_its_header_alone_and_has_no_tensor_too_many_or_few() {
    let root = tempfile::tempdir().unwrap();
    for (name, blocks, refiner, channels) in [
        ("control 1.0", 6, None, 16),
        (
            "control 2.1",
            15,
            Some(ControlRefiner::ControlNoiseRefiner),
            33,
        ),
        (
            "control lite",
            3,
            Some(ControlRefiner::ControlNoiseRefiner),
            33,
        ),
    ] {
        let config: ZImageControlConfig = assert_is_read(&own(name), name);
        let places = &config.control_layers_places;
        assert_eq!((places.len(), places[1]), (blocks, 30 / blocks as i64));
        assert_eq!(config.add_control_noise_refiner, refiner);
        assert_eq!(config.control_in_dim, channels);
        let place = root.path().join(format!("{name}.safetensors"));
        write(&place, &own(name), "BF16");
        let found = ControlNetwork::read(&place).unwrap();
        assert_eq!(found.family, z_image::FAMILY);
        assert_eq!(found.problem(z_image::FAMILY, None, false), None);
        assert!(
            found
                .problem(crate::families::flux::FAMILY, None, false)
                .is_some()
        );
    }
    let is_looked_at = |key: &str| key.contains(".0.") || key.contains("embedder");
    assert_needs_all::<ZImageControlConfig>(&own("control 1.0"), is_looked_at);
    let mut wrong = own("control 1.0");
    wrong.remove("control_layers.3.after_proj.bias");
    let place = write(&root.path().join("wrong.safetensors"), &wrong, "BF16");
    let text = ControlNetwork::read(&place).unwrap_err().to_string();
    assert!(text.contains("control_layers.3.after_proj.bias"), "{text}");
}

#[test]
fn models_like_z_image_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let with = |key: &str| edited(own("transformer"), key, &[1, 3840]);
    let mut lumina = own("transformer");
    lumina.retain(|key, _| !key.ends_with("pad_token"));
    let mut control = Shapes::new();
    for name in ["attention_norm1.weight", "after_proj.weight"] {
        control.insert(format!("control_layers.0.{name}"), vec![3840]);
    }
    for (shapes, part) in [
        (with("siglip_pad_token"), "Z-Image Omni"),
        (
            with("control_layers.0.attention_norm1.weight"),
            "Z-Image ControlNet",
        ),
        (with("something_new.weight"), "something_new"),
        (lumina, "Lumina 2"),
        (control, "Z-Image ControlNet"),
    ] {
        assert_file_unsupported(&models, "x", &shapes, part);
    }
    assert_pipelines_unsupported(&[
        ("ZImageOmniPipeline", "Z-Image Omni"),
        ("ZImageControlNetPipeline", "Z-Image ControlNet"),
        ("ZImageEditPipeline", "ZImageEditPipeline"),
        ("Lumina2Pipeline", "a Lumina model"),
    ]);
}

#[test]
fn a_config_that_nobody_can_run_is_refused_with_what_was_expected() {
    let refused = [
        ("dim", json!(0), "dim"),
        ("n_heads", json!(7), "n_heads"),
        ("n_kv_heads", json!(10), "n_kv_heads"),
        ("axes_dims", json!([32, 48, 50]), "axes_dims"),
        ("all_patch_size", json!([4]), "all_patch_size"),
        ("qk_norm", json!(false), "qk_norm"),
        ("rope_theta", json!(0.0), "rope_theta"),
        ("n_layers", json!(29), "29 layers"),
        ("siglip_feat_dim", json!(1152), "Omni"),
        ("quantization_config", json!({}), "quantised"),
    ];
    assert_configs_refused(folder(3.0), &refused);
}

#[test]
fn a_lora_for_z_image_is_known_by_its_layers() {
    for layer in [
        "lora_unet_layers_0_attention_to_q",
        "diffusion_model.layers.3.attention.qkv",
        "transformer.noise_refiner.0.feed_forward.w1",
        "diffusion_model.context_refiner.1.attention.to_out.0",
    ] {
        let origin = origin_of_lora(layer, [3840; 2]);
        assert_eq!(
            (origin.family, &origin.label[..]),
            ("z_image", "Z-Image"),
            "{layer}"
        );
    }
}
