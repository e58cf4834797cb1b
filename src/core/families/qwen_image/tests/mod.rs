//! Qwen-Image in every layout, from names and shapes alone: recognised, completed, described; every tensor of it; and
//! relatives, which are named and refused.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::flux::tests::files::{behind, catalog_of, edited, shapes, shapes_in, shipped};
use crate::families::qwen_image;
use crate::formats::weights::WeightSet;
use crate::job::{GenerateForm, Sampler};
use crate::library::Companions;
use crate::lora::{LoraFile, Origin};
use crate::model::{CatalogError, Guidance, ImageRole, InputUse, ModelSpec};
use crate::networks::{
    NetworkConfig as _, QwenImageTransformerConfig, QwenVisionConfig, WanVaeConfig,
};
use crate::testing::made_up::{Shapes, vae, write};
use crate::testing::pipelines::write_json;
use crate::tokens::TextReader;

/// One of the files in `tests/fixtures/headers/qwen_image.json`, which `qwen_image.py` beside it makes.
pub(crate) fn own(name: &str) -> Shapes {
    let list = include_str!("../../../../../tests/fixtures/headers/qwen_image.json");
    shapes_in(list, name)
}

/// ComfyUI's `models` folder with every companion, and no transformer.
fn tree(models: &Path) -> PathBuf {
    let autoencoder = models.join("vae/qwen_image_vae.safetensors");
    write(&autoencoder, &vae(16), "BF16");
    let text = models.join("text_encoders/qwen_2.5_vl_7b.safetensors");
    write(&text, &own("qwen_2.5_vl_7b"), "BF16");
    models.to_owned()
}

fn transformer_in(models: &Path, name: &str) -> PathBuf {
    let place = models.join(format!("diffusion_models/{name}.safetensors"));
    write(&place, &own("transformer"), "BF16")
}

/// A diffusers folder of published size.
fn write_folder(folder: &Path, class: &str) {
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": class,
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "Qwen2_5_VLForConditionalGeneration"],
            "tokenizer": ["transformers", "Qwen2Tokenizer"],
            "transformer": ["diffusers", "QwenImageTransformer2DModel"],
            "vae": ["diffusers", "AutoencoderKLQwenImage"],
        }),
    );
    let text = json!({
        "model_type": "qwen2_5_vl", "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_config": {"model_type": "qwen2_5_vl", "depth": 32, "hidden_size": 1280},
    });
    for (component, config) in [
        (
            "transformer",
            json!({"_class_name": "QwenImageTransformer2DModel", "axes_dims_rope": [16, 56, 56]}),
        ),
        (
            "vae",
            json!({"_class_name": "AutoencoderKLQwenImage", "base_dim": 96, "z_dim": 16, "dropout": 0.0}),
        ),
        ("text_encoder", text),
    ] {
        write_json(&folder.join(component).join("config.json"), &config);
    }
    write_json(
        &folder.join("scheduler/scheduler_config.json"),
        &json!({
            "_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 1.0, "use_dynamic_shifting": true,
            "base_shift": 0.5, "max_shift": 0.9, "base_image_seq_len": 256, "max_image_seq_len": 8192,
            "shift_terminal": 0.02, "time_shift_type": "exponential",
        }),
    );
    let stem = "diffusion_pytorch_model.safetensors";
    let transformer = folder.join("transformer").join(stem);
    write(&transformer, &own("transformer"), "BF16");
    let autoencoder = folder.join("vae").join(stem);
    write(&autoencoder, &own("vae diffusers"), "BF16");
    let text = folder.join("text_encoder/model.safetensors");
    write(&text, &own("qwen_2.5_vl_7b"), "BF16");
    std::os::unix::fs::symlink(shipped("qwen"), folder.join("tokenizer")).unwrap();
}

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_behind_any_prefix() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    let published = QwenImageTransformerConfig::default();
    for prefix in [
        "",
        "model.diffusion_model.",
        "diffusion_model.",
        "transformer.",
    ] {
        let shapes = behind(prefix, &own("transformer"));
        write(&place, &shapes, "BF16");
        let weights = WeightSet::at(&place).unwrap();
        let config = QwenImageTransformerConfig::read(&place).unwrap();
        assert_eq!(config, published, "{prefix}");
        config.check_weights(&weights).unwrap();
        let known = config.tensors(&weights).into_iter();
        let known: Shapes = known.map(|tensor| (tensor.name, tensor.shape)).collect();
        assert_eq!(known, shapes, "{prefix}");
    }
    let all = own("transformer");
    let numbers: u64 = all.values().map(|it| it.iter().product::<u64>()).sum();
    assert_eq!(numbers, 20_430_401_088);
}

#[test]
fn no_tensor_of_the_published_autoencoder_is_missing_or_unexpected() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    for shapes in [own("vae diffusers"), vae(16)] {
        write(&place, &shapes, "BF16");
        let weights = WeightSet::at(&place).unwrap();
        let config = WanVaeConfig::read(&place).unwrap();
        config.check_weights(&weights).unwrap();
        let known = config.tensors(&weights).into_iter();
        let known: Shapes = known.map(|tensor| (tensor.name, tensor.shape)).collect();
        assert_eq!(known, shapes);
    }
}

#[test]
fn a_transformer_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    write(&place, &own("transformer"), "BF16");
    let config = QwenImageTransformerConfig::read(&place).unwrap();
    let mut weights = WeightSet::at(&place).unwrap();
    // What comes in lists is looked at once.
    let keys: Vec<String> = weights.tensors.keys().cloned().collect();
    let is_one = |key: &&String| !key.contains("blocks.") || key.contains("blocks.59.");
    for key in keys.iter().filter(is_one) {
        let entry = weights.tensors.remove(key).unwrap();
        let refusal = |weights: &WeightSet| config.check_weights(weights).unwrap_err().to_string();
        assert!(refusal(&weights).contains(key.as_str()), "{key}");
        let mut wrong = entry.clone();
        wrong.shape[0] += 1;
        weights.tensors.insert(key.clone(), wrong);
        assert!(refusal(&weights).contains(key.as_str()), "{key}");
        weights.tensors.insert(key.clone(), entry);
    }
    config.check_weights(&weights).unwrap();
}

#[test]
fn both_published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(&root.path().join("models"));
    transformer_in(&models, "qwen_image_2512_bf16");
    transformer_in(&models, "qwen_image_fp8_e4m3fn");
    let catalog = catalog_of(&models);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), 2);
    for id in ["qwen-image-2512", "qwen-image"] {
        let spec = catalog.find(id).unwrap();
        assert_eq!(
            (spec.family, &spec.variant[..]),
            (qwen_image::FAMILY, "Image")
        );
        assert_eq!(spec.licence, "Apache-2.0");
        let sampling = &spec.defaults.sampling;
        assert_eq!((sampling.num_steps, sampling.guidance_scale), (50, 4.0));
        assert_eq!((sampling.shift, sampling.sampler), (None, Sampler::Euler));
        assert_eq!((spec.defaults.width, spec.defaults.height), (1328, 1328));
        assert_eq!(spec.guidance, Guidance::Cfg);
        assert_eq!(
            (spec.start_image, spec.image_role),
            (InputUse::Optional, ImageRole::Base)
        );
        assert_eq!(
            (spec.mask, spec.end_image),
            (InputUse::Optional, InputUse::No)
        );
        assert_eq!(spec.limits.size_multiple, 16);
        assert_eq!(spec.latent_rgb.as_ref().unwrap().factors.len(), 16);
        assert_eq!(spec.files.tokenizer, shipped("qwen"));
        let [reader] = &TextReader::of_model(&spec)[..] else {
            panic!("one text encoder");
        };
        assert_eq!((reader.name, reader.limit), ("Qwen 2.5 VL", 512));
        let form = GenerateForm {
            prompt: "a fox".to_owned(),
            out: PathBuf::from("a.png"),
            ..GenerateForm::default()
        };
        let checked = form.validate(&spec).unwrap();
        assert!(checked.notices.is_empty(), "{:?}", checked.notices);
        assert!(checked.request.is_guided());
    }
}

#[test]
fn what_edits_is_known_by_its_name_its_mark_or_its_pipeline_and_needs_an_encoder_that_sees() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(&root.path().join("models"));
    transformer_in(&models, "qwen_image_edit_2509_fp8_e4m3fn");
    let place = models.join("diffusion_models/qwen_image_edit_2511_bf16.safetensors");
    let marked = edited(own("transformer"), "__index_timestep_zero__", &[0]);
    write(&place, &marked, "BF16");
    let catalog = catalog_of(&models);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    for id in ["qwen-image-edit-2509", "qwen-image-edit-2511"] {
        let spec = catalog.find(id).unwrap();
        assert_eq!(
            (spec.family, &spec.variant[..]),
            (qwen_image::FAMILY, "Edit")
        );
        assert_eq!((spec.start_image, spec.mask), (InputUse::No, InputUse::No));
        assert_eq!(spec.limits.max_references, 3);
        assert_eq!(
            (spec.defaults.width, spec.defaults.sampling.num_steps),
            (1024, 40)
        );
    }
    let unnamed = models.join("diffusion_models/mine.safetensors");
    std::fs::rename(&place, &unnamed).unwrap();
    assert_eq!(ModelSpec::open(&unnamed).unwrap().variant, "Edit");
    let folder = root.path().join("mine");
    write_folder(&folder, "QwenImageEditPlusPipeline");
    assert_eq!(ModelSpec::open(&folder).unwrap().variant, "Edit");
    let blind = models.join("text_encoders/qwen_2.5_vl_7b.safetensors");
    let mut shapes = own("qwen_2.5_vl_7b");
    shapes.retain(|key, _| !key.starts_with("visual."));
    write(&blind, &shapes, "BF16");
    let text = ModelSpec::open(&unnamed).unwrap_err().to_string();
    assert!(text.contains("looks at pictures"), "{text}");
    let plain = transformer_in(&models, "qwen_image_2512_bf16");
    ModelSpec::open(&plain).unwrap();
}

#[test]
fn no_tensor_of_the_published_part_that_looks_at_pictures_is_missing_or_unexpected() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    let mut shapes = own("qwen_2.5_vl_7b");
    write(&place, &shapes, "BF16");
    let weights = WeightSet::at(&place).unwrap();
    let config = QwenVisionConfig::read(&place).unwrap();
    assert_eq!(config, QwenVisionConfig::default());
    config.check_weights(&weights).unwrap();
    shapes.retain(|key, _| key.starts_with("visual."));
    let known = config.tensors(&weights).into_iter();
    let known: Shapes = known.map(|tensor| (tensor.name, tensor.shape)).collect();
    assert_eq!(known, shapes);
}

#[test]
fn a_diffusers_folder_is_whole_by_itself() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("Qwen-Image-2512");
    write_folder(&folder, "QwenImagePipeline");
    let spec = ModelSpec::open(&folder).unwrap();
    assert_eq!(
        (spec.family, &spec.variant[..]),
        (qwen_image::FAMILY, "Image")
    );
    assert_eq!(spec.defaults.sampling.shift, None);
    assert_eq!(spec.files.tokenizer, folder.join("tokenizer"));
}

#[test]
fn wan_s_autoencoder_will_do_where_qwen_image_s_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "qwen_image_2512_bf16");
    let own = models.join("vae/qwen_image_vae.safetensors");
    let wan = models.join("vae/wan_2.1_vae.safetensors");
    std::fs::copy(&own, &wan).unwrap();
    assert_eq!(ModelSpec::open(&place).unwrap().files.vae, own);
    std::fs::remove_file(&own).unwrap();
    assert_eq!(ModelSpec::open(&place).unwrap().files.vae, wan);
}

#[test]
fn a_card_says_what_a_file_is_and_what_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "qwen_image_2512_bf16");
    let card = IdentityCard::read(&place).unwrap();
    assert_eq!(
        (&card.family[..], &card.variant[..]),
        ("qwen_image", "Image")
    );
    assert!(card.what.contains("Qwen-Image 20B"), "{}", card.what);
    assert!(card.is_runnable, "{:?}", card.problems);
    std::fs::remove_file(models.join("vae/qwen_image_vae.safetensors")).unwrap();
    std::fs::remove_file(models.join("text_encoders/qwen_2.5_vl_7b.safetensors")).unwrap();
    let card = IdentityCard::read(&place).unwrap();
    let [problem] = &card.problems[..] else {
        panic!("{:?}", card.problems);
    };
    for missing in [
        "qwen_image_vae.safetensors",
        "qwen_2.5_vl_7b_fp8_scaled.safetensors",
    ] {
        assert!(problem.contains(missing), "{problem}");
    }
}

#[test]
fn a_part_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "qwen_image_2512_bf16");
    let mut narrow = own("qwen_2.5_vl_7b");
    for shape in narrow.values_mut() {
        shape
            .iter_mut()
            .filter(|n| **n == 3584)
            .for_each(|n| *n = 2048);
    }
    narrow.insert(
        "model.layers.0.self_attn.q_norm.weight".to_owned(),
        vec![128],
    );
    for (name, shapes, found) in [
        ("clip", shapes("clip_l"), "a CLIP text encoder"),
        ("qwen_3", narrow, "a Qwen 3 text encoder"),
    ] {
        let other = models.join(format!("other/{name}.safetensors"));
        write(&other, &shapes, "BF16");
        let companions = Companions {
            text_encoder: Some(other),
            ..Companions::default()
        };
        let catalog = catalog_of(root.path());
        let err = catalog.open_with(&place.to_string_lossy(), &companions);
        let text = err.unwrap_err().to_string();
        assert!(
            text.contains("qwen_2.5_vl_7b_fp8_scaled.safetensors") && text.contains(found),
            "{text}"
        );
    }
}

#[test]
fn models_like_qwen_image_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = models.join("diffusion_models/x.safetensors");
    let with = |key: &str, shape: &[u64]| edited(own("transformer"), key, shape);
    let mut newest = Shapes::new();
    newest.insert("txt_in.text_norm.weight".to_owned(), vec![4096]);
    newest.insert("img_in.weight".to_owned(), vec![4096, 64]);
    for (shapes, part) in [
        (
            with("time_text_embed.addition_t_embedding.weight", &[2, 3072]),
            "Qwen-Image-Layered",
        ),
        (
            with("controlnet_x_embedder.weight", &[3072, 64]),
            "Qwen-Image ControlNet",
        ),
        (with("something_new.weight", &[3072]), "something_new"),
        (newest, "Qwen-Image 2.1"),
    ] {
        write(&place, &shapes, "BF16");
        let err = ModelSpec::open(&place).unwrap_err();
        assert!(
            matches!(err, CatalogError::Unsupported { .. }),
            "{part}: {err}"
        );
        assert!(err.to_string().contains(part), "{part}: {err}");
    }
    for (class, part) in [
        ("QwenImageLayeredPipeline", "Qwen-Image-Layered"),
        ("QwenImageControlNetPipeline", "Qwen-Image ControlNet"),
        ("QwenImageEditPipeline", "the first Qwen-Image-Edit"),
        ("QwenImage21Pipeline", "Qwen-Image 2.1"),
        ("QwenImageNewPipeline", "QwenImageNewPipeline"),
    ] {
        let folder = root.path().join(class);
        write_json(
            &folder.join("model_index.json"),
            &json!({"_class_name": class}),
        );
        let err = ModelSpec::open(&folder).unwrap_err();
        assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
        assert!(err.to_string().contains(part), "{err}");
    }
}

#[test]
fn a_config_that_nobody_can_run_is_refused_with_what_was_expected() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("model");
    write_folder(&folder, "QwenImagePipeline");
    let place = folder.join("transformer/config.json");
    for (key, value, part) in [
        ("num_attention_heads", json!(0), "num_attention_heads"),
        ("in_channels", json!(60), "in_channels"),
        ("patch_size", json!(4), "patch_size"),
        ("axes_dims_rope", json!([16, 56, 58]), "axes_dims_rope"),
        ("guidance_embeds", json!(true), "guidance_embeds"),
        ("num_layers", json!(59), "59 layers"),
        ("use_layer3d_rope", json!(true), "Layered"),
        ("quantization_config", json!({}), "quantised"),
    ] {
        let mut config = json!({"_class_name": "QwenImageTransformer2DModel"});
        config[key] = value;
        write_json(&place, &config);
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{key}: {text}");
    }
}

#[test]
fn a_lora_for_qwen_image_is_known_by_its_layers() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    for layer in [
        "lora_unet_transformer_blocks_0_img_mlp_net_0_proj",
        "diffusion_model.transformer_blocks.3.txt_mod.1",
        "transformer_blocks.59.attn.to_q",
        "transformer.transformer_blocks.0.txt_mlp.net.2",
    ] {
        let mut shapes = Shapes::new();
        shapes.insert(format!("{layer}.lora_down.weight"), vec![4, 3072]);
        shapes.insert(format!("{layer}.lora_up.weight"), vec![3072, 4]);
        write(&place, &shapes, "BF16");
        let origin = Origin::of(&LoraFile::read(&place).unwrap());
        assert_eq!(
            (origin.family, &origin.label[..]),
            ("qwen_image", "Qwen-Image"),
            "{layer}"
        );
    }
}
