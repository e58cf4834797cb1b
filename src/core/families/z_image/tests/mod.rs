//! Both Z-Image models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and relatives, which are named and refused.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::flux::tests::files::{behind, catalog_of, edited, shapes, shapes_in, shipped};
use crate::families::z_image;
use crate::formats::weights::WeightSet;
use crate::job::{GenerateForm, Sampler};
use crate::library::Companions;
use crate::lora::{LoraFile, Origin};
use crate::model::{CatalogError, Guidance, ImageRole, InputUse, ModelSpec};
use crate::networks::{NetworkConfig as _, ZImageTransformerConfig};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::write_json;
use crate::tokens::TextReader;

/// One of the files in `tests/fixtures/headers/z_image.json`, which `z_image.py` beside it makes.
pub(crate) fn own(name: &str) -> Shapes {
    let list = include_str!("../../../../../tests/fixtures/headers/z_image.json");
    shapes_in(list, name)
}

/// ComfyUI's `models` folder with every companion, and no transformer.
fn tree(models: &Path) -> PathBuf {
    write(&models.join("vae/ae.safetensors"), &shapes("ae"), "F32");
    let text = models.join("text_encoders/qwen_3_4b.safetensors");
    write(&text, &own("qwen_3_4b"), "BF16");
    models.to_owned()
}

fn transformer_in(models: &Path, name: &str) -> PathBuf {
    let place = models.join(format!("diffusion_models/{name}.safetensors"));
    write(&place, &own("transformer"), "BF16")
}

/// A diffusers folder of published size.
fn write_folder(folder: &Path, shift: f64) {
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": "ZImagePipeline",
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "Qwen3Model"],
            "tokenizer": ["transformers", "Qwen2Tokenizer"],
            "transformer": ["diffusers", "ZImageTransformer2DModel"],
            "vae": ["diffusers", "AutoencoderKL"],
        }),
    );
    for (component, config) in [
        (
            "transformer",
            json!({"_class_name": "ZImageTransformer2DModel", "axes_lens": [1536, 512, 512]}),
        ),
        (
            "vae",
            json!({
                "_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512],
                "layers_per_block": 2, "latent_channels": 16, "norm_num_groups": 32,
                "use_quant_conv": false, "use_post_quant_conv": false,
            }),
        ),
        (
            "text_encoder",
            json!({
                "model_type": "qwen3", "vocab_size": 151_936, "hidden_size": 2560, "intermediate_size": 9728,
                "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                "rms_norm_eps": 1e-6, "rope_theta": 1_000_000,
            }),
        ),
    ] {
        write_json(&folder.join(component).join("config.json"), &config);
    }
    write_json(
        &folder.join("scheduler/scheduler_config.json"),
        &json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": shift}),
    );
    let stem = "diffusion_pytorch_model.safetensors";
    let transformer = own("transformer diffusers");
    write(&folder.join("transformer").join(stem), &transformer, "BF16");
    write(
        &folder.join("vae").join(stem),
        &shapes("ae diffusers"),
        "BF16",
    );
    let text = folder.join("text_encoder/model.safetensors");
    write(&text, &own("qwen_3_4b"), "BF16");
    std::os::unix::fs::symlink(shipped("qwen"), folder.join("tokenizer")).unwrap();
}

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_in_any_dialect() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    let published = ZImageTransformerConfig::default();
    for name in ["transformer", "transformer diffusers"] {
        for prefix in [
            "",
            "model.diffusion_model.",
            "diffusion_model.",
            "transformer.",
        ] {
            let shapes = behind(prefix, &own(name));
            write(&place, &shapes, "BF16");
            let weights = WeightSet::at(&place).unwrap();
            let config = ZImageTransformerConfig::read(&place).unwrap();
            assert_eq!(config, published, "{prefix}{name}");
            config.check_weights(&weights).unwrap();
            let known = config.tensors(&weights).into_iter();
            let known: Shapes = known.map(|tensor| (tensor.name, tensor.shape)).collect();
            assert_eq!(known, shapes, "{prefix}{name}");
        }
    }
    let numbers: u64 = own("transformer")
        .values()
        .map(|it| it.iter().product::<u64>())
        .sum();
    assert_eq!(numbers, 6_154_908_736);
}

#[test]
fn a_transformer_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    write(&place, &own("transformer"), "BF16");
    let config = ZImageTransformerConfig::read(&place).unwrap();
    let mut weights = WeightSet::at(&place).unwrap();
    // What comes in lists is looked at once.
    let keys: Vec<String> = weights.tensors.keys().cloned().collect();
    for key in keys.iter().filter(|key| !key.contains("layers.1")) {
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
    transformer_in(&models, "z_image_turbo_bf16");
    transformer_in(&models, "z_image_bf16");
    let catalog = catalog_of(&models);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), 2);
    for (id, variant, steps, guidance, shift) in [
        ("z-image-turbo", "Turbo", 8, 1.0, 3.0),
        ("z-image", "Base", 28, 5.0, 6.0),
    ] {
        let spec = catalog.find(id).unwrap();
        assert_eq!((spec.family, &spec.variant[..]), (z_image::FAMILY, variant));
        assert_eq!(spec.licence, "Apache-2.0");
        let sampling = &spec.defaults.sampling;
        assert_eq!(
            (sampling.num_steps, sampling.guidance_scale),
            (steps, guidance)
        );
        assert_eq!(
            (sampling.shift, sampling.sampler),
            (Some(shift), Sampler::Euler)
        );
        assert_eq!((spec.defaults.width, spec.defaults.height), (1024, 1024));
        assert_eq!(spec.guidance, Guidance::Cfg);
        assert_eq!(
            (spec.start_image, spec.image_role),
            (InputUse::Optional, ImageRole::Base)
        );
        assert_eq!(
            (spec.mask, spec.end_image),
            (InputUse::Optional, InputUse::No)
        );
        assert_eq!(
            (spec.limits.size_multiple, spec.limits.max_edge),
            (16, 8192)
        );
        assert_eq!(spec.latent_rgb.as_ref().unwrap().factors.len(), 16);
        assert_eq!(spec.files.tokenizer, shipped("qwen"));
        let [reader] = &TextReader::of_model(&spec)[..] else {
            panic!("one text encoder");
        };
        assert_eq!((reader.name, reader.limit), ("Qwen 3", 512));
        let form = GenerateForm {
            prompt: "a fox".to_owned(),
            out: PathBuf::from("a.png"),
            ..GenerateForm::default()
        };
        let checked = form.validate(&spec).unwrap();
        assert!(checked.notices.is_empty(), "{:?}", checked.notices);
        assert_eq!(checked.request.is_guided(), variant == "Base");
    }
}

#[test]
fn a_diffusers_folder_says_its_variant_by_its_scheduler_whatever_it_is_called() {
    let root = tempfile::tempdir().unwrap();
    for (name, shift, variant, steps) in [
        ("Z-Image-Turbo", 3.0, "Turbo", 8),
        ("my-finetune", 6.0, "Base", 28),
    ] {
        let folder = root.path().join(name);
        write_folder(&folder, shift);
        let spec = ModelSpec::open(&folder).unwrap();
        assert_eq!(spec.variant, variant);
        assert_eq!(spec.defaults.sampling.shift, Some(shift));
        assert_eq!(spec.defaults.sampling.num_steps, steps);
        assert_eq!(spec.files.tokenizer, folder.join("tokenizer"));
    }
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it() {
    let root = tempfile::tempdir().unwrap();
    let mut all = behind("model.diffusion_model.", &own("transformer"));
    all.extend(behind("vae.", &shapes("ae")));
    all.extend(behind(
        "text_encoders.qwen3_4b.transformer.",
        &own("qwen_3_4b"),
    ));
    let place = root
        .path()
        .join("checkpoints/z_image_turbo_all-in-one.safetensors");
    write(&place, &all, "BF16");
    let files = ModelSpec::open(&place).unwrap().files;
    assert_eq!((&files.vae, &files.text_encoder), (&place, &place));
    let card = IdentityCard::read(&place).unwrap();
    let parts: Vec<&str> = card.components.iter().map(|part| &part.name[..]).collect();
    assert_eq!(parts, ["transformer", "vae", "text_encoder"]);
}

#[test]
fn a_card_says_what_a_file_is_and_what_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "z_image_turbo_bf16");
    let card = IdentityCard::read(&place).unwrap();
    assert_eq!((&card.family[..], &card.variant[..]), ("z_image", "Turbo"));
    assert!(card.what.contains("Z-Image 6B"), "{}", card.what);
    assert!(card.is_runnable, "{:?}", card.problems);
    std::fs::remove_file(models.join("vae/ae.safetensors")).unwrap();
    std::fs::remove_file(models.join("text_encoders/qwen_3_4b.safetensors")).unwrap();
    let card = IdentityCard::read(&place).unwrap();
    let [problem] = &card.problems[..] else {
        panic!("{:?}", card.problems);
    };
    for missing in ["ae.safetensors", "qwen_3_4b.safetensors"] {
        assert!(problem.contains(missing), "{problem}");
    }
}

#[test]
fn a_text_encoder_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "z_image_turbo_bf16");
    let mut wide = own("qwen_3_4b");
    for shape in wide.values_mut() {
        shape
            .iter_mut()
            .filter(|n| **n == 2560)
            .for_each(|n| *n = 4096);
    }
    let mut sees = own("qwen_3_4b");
    sees.insert("model.visual.blocks.0.norm1.weight".to_owned(), vec![1024]);
    for (name, shapes, found) in [
        ("clip", shapes("clip_l"), "a CLIP text encoder"),
        ("qwen_3_8b", wide, "one of 4096"),
        ("qwen_3_vl_4b", sees, "a Qwen 3 VL"),
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
            text.contains("qwen_3_4b.safetensors") && text.contains(found),
            "{text}"
        );
    }
}

#[test]
fn models_like_z_image_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = models.join("diffusion_models/x.safetensors");
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
        write(&place, &shapes, "BF16");
        let err = ModelSpec::open(&place).unwrap_err();
        assert!(
            matches!(err, CatalogError::Unsupported { .. }),
            "{part}: {err}"
        );
        assert!(err.to_string().contains(part), "{part}: {err}");
    }
    for (class, part) in [
        ("ZImageOmniPipeline", "Z-Image Omni"),
        ("ZImageControlNetPipeline", "Z-Image ControlNet"),
        ("ZImageEditPipeline", "ZImageEditPipeline"),
        ("Lumina2Pipeline", "a Lumina model"),
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
    write_folder(&folder, 3.0);
    let place = folder.join("transformer/config.json");
    for (key, value, part) in [
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
    ] {
        let mut config = json!({"_class_name": "ZImageTransformer2DModel"});
        config[key] = value;
        write_json(&place, &config);
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{key}: {text}");
    }
}

#[test]
fn a_lora_for_z_image_is_known_by_its_layers() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    for layer in [
        "lora_unet_layers_0_attention_to_q",
        "diffusion_model.layers.3.attention.qkv",
        "transformer.noise_refiner.0.feed_forward.w1",
        "diffusion_model.context_refiner.1.attention.to_out.0",
    ] {
        let mut shapes = Shapes::new();
        shapes.insert(format!("{layer}.lora_down.weight"), vec![4, 3840]);
        shapes.insert(format!("{layer}.lora_up.weight"), vec![3840, 4]);
        write(&place, &shapes, "BF16");
        let origin = Origin::of(&LoraFile::read(&place).unwrap());
        assert_eq!(
            (origin.family, &origin.label[..]),
            ("z_image", "Z-Image"),
            "{layer}"
        );
    }
}
