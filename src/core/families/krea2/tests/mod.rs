//! Both Krea 2 models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and what is none of them, which is named and refused.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::catalog::IdentityCard;
use crate::families::flux::tests::files::{behind, catalog_of, edited, shapes, shapes_in, shipped};
use crate::families::krea2;
use crate::formats::weights::WeightSet;
use crate::job::{GenerateForm, Sampler};
use crate::library::Companions;
use crate::lora::{LoraFile, Origin};
use crate::model::{CatalogError, Guidance, ImageRole, InputUse, ModelSpec};
use crate::networks::{Krea2TransformerConfig, NetworkConfig as _};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::write_json;
use crate::tokens::TextReader;

/// One of the files in `tests/fixtures/headers/krea2.json`, which `krea2.py` beside it makes.
pub(crate) fn own(name: &str) -> Shapes {
    let list = include_str!("../../../../../tests/fixtures/headers/krea2.json");
    shapes_in(list, name)
}

/// ComfyUI's `models` folder with every companion, and no transformer.
fn tree(models: &Path) -> PathBuf {
    let vae = models.join("vae/qwen_image_vae.safetensors");
    write(&vae, &own("qwen_image_vae"), "F32");
    let text = models.join("text_encoders/qwen3vl_4b_bf16.safetensors");
    write(&text, &own("qwen3vl_4b"), "BF16");
    models.to_owned()
}

fn transformer_in(models: &Path, name: &str) -> PathBuf {
    let place = models.join(format!("diffusion_models/{name}.safetensors"));
    write(&place, &own("transformer"), "BF16")
}

/// A diffusers folder of published size.
fn write_folder(folder: &Path, is_distilled: &Value) {
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": "Krea2Pipeline",
            "is_distilled": is_distilled,
            "patch_size": 2,
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "Qwen3VLModel"],
            "tokenizer": ["transformers", "Qwen2Tokenizer"],
            "transformer": ["diffusers", "Krea2Transformer2DModel"],
            "vae": ["diffusers", "AutoencoderKLQwenImage"],
        }),
    );
    for (component, config) in [
        (
            "transformer",
            json!({"_class_name": "Krea2Transformer2DModel"}),
        ),
        (
            "vae",
            json!({"_class_name": "AutoencoderKLQwenImage", "input_channels": 3}),
        ),
        (
            "text_encoder",
            json!({"model_type": "qwen3_vl", "text_config": {
                "model_type": "qwen3_vl_text", "vocab_size": 151_936, "hidden_size": 2560, "intermediate_size": 9728,
                "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                "rms_norm_eps": 1e-6, "rope_theta": 5_000_000,
                "rope_scaling": {"mrope_section": [24, 20, 20], "rope_type": "default"},
            }}),
        ),
    ] {
        write_json(&folder.join(component).join("config.json"), &config);
    }
    write_json(
        &folder.join("scheduler/scheduler_config.json"),
        &json!({
            "_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 1.0, "use_dynamic_shifting": true,
            "base_image_seq_len": 256, "max_image_seq_len": 6400,
        }),
    );
    let stem = "diffusion_pytorch_model.safetensors";
    let transformer = own("transformer diffusers");
    write(&folder.join("transformer").join(stem), &transformer, "BF16");
    let vae = own("vae diffusers");
    write(&folder.join("vae").join(stem), &vae, "BF16");
    let text = folder.join("text_encoder/model.safetensors");
    write(&text, &own("qwen3vl_4b"), "BF16");
    std::os::unix::fs::symlink(shipped("qwen"), folder.join("tokenizer")).unwrap();
}

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_in_any_dialect() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    let published = Krea2TransformerConfig::default();
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
            let config = Krea2TransformerConfig::read(&place).unwrap();
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
    assert_eq!(numbers, 12_820_073_036);
}

#[test]
fn a_transformer_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    write(&place, &own("transformer"), "BF16");
    let config = Krea2TransformerConfig::read(&place).unwrap();
    let mut weights = WeightSet::at(&place).unwrap();
    // What comes in lists is looked at once.
    let keys: Vec<String> = weights.tensors.keys().cloned().collect();
    let is_looked_at = |key: &&String| !key.starts_with("blocks.") || key.starts_with("blocks.7.");
    for key in keys.iter().filter(is_looked_at) {
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
    let place = models.join("diffusion_models/Krea-2-Raw-Q8_0.safetensors");
    write(&place, &shapes, "BF16");
    assert_eq!(ModelSpec::open(&place).unwrap().variant, "Raw");
}

#[test]
fn both_published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(&root.path().join("models"));
    transformer_in(&models, "krea2_turbo_bf16");
    transformer_in(&models, "krea2_raw_bf16");
    let catalog = catalog_of(&models);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), 2);
    for (id, variant, steps, guidance, shift) in [
        ("krea2-turbo", "Turbo", 8, 1.0, Some(1.15_f64.exp())),
        ("krea2-raw", "Raw", 28, 5.5, None),
    ] {
        let spec = catalog.find(id).unwrap();
        assert_eq!((spec.family, &spec.variant[..]), (krea2::FAMILY, variant));
        assert!(spec.licence.starts_with("Krea 2 Community License"));
        let sampling = &spec.defaults.sampling;
        assert_eq!(
            (sampling.num_steps, sampling.guidance_scale),
            (steps, guidance)
        );
        assert_eq!((sampling.shift, sampling.sampler), (shift, Sampler::Euler));
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
        assert_eq!((reader.name, reader.limit), ("Qwen 3 VL", 512));
        let form = GenerateForm {
            prompt: "a fox".to_owned(),
            out: PathBuf::from("a.png"),
            ..GenerateForm::default()
        };
        let checked = form.validate(&spec).unwrap();
        assert!(checked.notices.is_empty(), "{:?}", checked.notices);
        assert_eq!(checked.request.is_guided(), variant == "Raw");
    }
}

#[test]
fn a_diffusers_folder_says_its_variant_by_its_pipeline_whatever_it_is_called() {
    let root = tempfile::tempdir().unwrap();
    for (name, is_distilled, variant, shift) in [
        ("Krea-2-Raw", json!(true), "Turbo", Some(1.15_f64.exp())),
        ("my-turbo", json!(false), "Raw", None),
        ("Krea-2-Base", Value::Null, "Raw", None),
    ] {
        let folder = root.path().join(name);
        write_folder(&folder, &is_distilled);
        let spec = ModelSpec::open(&folder).unwrap();
        assert_eq!(spec.variant, variant);
        assert_eq!(spec.defaults.sampling.shift, shift, "{name}");
        assert_eq!(spec.files.tokenizer, folder.join("tokenizer"));
    }
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it() {
    let root = tempfile::tempdir().unwrap();
    let mut all = behind("model.diffusion_model.", &own("transformer"));
    all.extend(behind("vae.", &own("qwen_image_vae")));
    let text = "text_encoders.qwen3vl_4b.transformer.";
    all.extend(behind(text, &own("qwen3vl_4b")));
    let place = root
        .path()
        .join("checkpoints/krea2_turbo_all-in-one.safetensors");
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
    let place = transformer_in(&models, "krea2_turbo_bf16");
    let card = IdentityCard::read(&place).unwrap();
    assert_eq!((&card.family[..], &card.variant[..]), ("krea2", "Turbo"));
    assert!(card.what.contains("Krea 2 12B"), "{}", card.what);
    assert!(card.is_runnable, "{:?}", card.problems);
    std::fs::remove_file(models.join("vae/qwen_image_vae.safetensors")).unwrap();
    std::fs::remove_file(models.join("text_encoders/qwen3vl_4b_bf16.safetensors")).unwrap();
    let card = IdentityCard::read(&place).unwrap();
    let [problem] = &card.problems[..] else {
        panic!("{:?}", card.problems);
    };
    for missing in [
        "qwen_image_vae.safetensors",
        "qwen3vl_4b_fp8_scaled.safetensors",
    ] {
        assert!(problem.contains(missing), "{problem}");
    }
}

#[test]
fn a_part_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "krea2_turbo_bf16");
    let alone: Shapes = own("qwen3vl_4b")
        .into_iter()
        .filter(|(key, _)| !key.contains("visual."))
        .map(|(key, shape)| (key.replace("language_model.", ""), shape))
        .collect();
    let mut wide = own("qwen3vl_4b");
    for shape in wide.values_mut() {
        let widths = shape.iter_mut().filter(|n| **n == 2560);
        widths.for_each(|n| *n = 4096);
    }
    let other = |name: &str, shapes: &Shapes| {
        let place = models.join(format!("other/{name}.safetensors"));
        write(&place, shapes, "BF16")
    };
    let text = |place| Companions {
        text_encoder: Some(place),
        ..Companions::default()
    };
    let vae = |place| Companions {
        vae: Some(place),
        ..Companions::default()
    };
    for (companions, wanted, found) in [
        (
            text(other("clip", &shapes("clip_l"))),
            "qwen3vl_4b",
            "a CLIP text encoder",
        ),
        (
            text(other("qwen_3_4b", &alone)),
            "qwen3vl_4b",
            "does not look at pictures",
        ),
        (
            text(other("qwen3vl_8b", &wide)),
            "qwen3vl_4b",
            "one of 4096",
        ),
        (
            vae(other("ae", &shapes("ae"))),
            "qwen_image_vae",
            "an image VAE",
        ),
    ] {
        let catalog = catalog_of(root.path());
        let err = catalog.open_with(&place.to_string_lossy(), &companions);
        let text = err.unwrap_err().to_string();
        assert!(text.contains(wanted) && text.contains(found), "{text}");
    }
}

#[test]
fn the_text_half_alone_is_known_by_what_stands_before_its_names() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "krea2_turbo_bf16");
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
    let place = models.join("diffusion_models/x.safetensors");
    let new = edited(own("transformer"), "something_new.weight", &[1, 6144]);
    write(&place, &new, "BF16");
    let err = ModelSpec::open(&place).unwrap_err();
    assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
    assert!(err.to_string().contains("something_new"), "{err}");
    let folder = root.path().join("edit");
    write_json(
        &folder.join("model_index.json"),
        &json!({"_class_name": "Krea2EditPipeline"}),
    );
    let err = ModelSpec::open(&folder).unwrap_err();
    assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
    assert!(err.to_string().contains("Krea2EditPipeline"), "{err}");
}

#[test]
fn a_config_that_nobody_can_run_is_refused_with_what_was_expected() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("model");
    write_folder(&folder, &json!(true));
    let place = folder.join("transformer/config.json");
    for (key, value, part) in [
        ("attention_head_dim", json!(0), "attention_head_dim"),
        ("num_key_value_heads", json!(7), "num_attention_heads"),
        (
            "text_num_attention_heads",
            json!(7),
            "text_num_attention_heads",
        ),
        ("axes_dims_rope", json!([32, 48, 50]), "axes_dims_rope"),
        ("in_channels", json!(66), "in_channels"),
        ("rope_theta", json!(0.0), "rope_theta"),
        ("num_layers", json!(27), "27 layers"),
        ("num_text_layers", json!(11), "projector"),
        ("quantization_config", json!({}), "quantised"),
    ] {
        let mut config = json!({"_class_name": "Krea2Transformer2DModel"});
        config[key] = value;
        write_json(&place, &config);
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{key}: {text}");
    }
}

#[test]
fn a_lora_for_krea_2_is_known_by_its_layers() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    for layer in [
        "lora_unet_blocks_0_attn_wq",
        "diffusion_model.blocks.3.attn.gate",
        "base_model.model.blocks.3.mlp.up",
        "transformer.text_fusion.refiner_blocks.0.attn.to_q",
        "transformer.transformer_blocks.27.attn.to_gate",
        "diffusion_model.txtfusion.layerwise_blocks.1.mlp.down",
    ] {
        let mut shapes = Shapes::new();
        shapes.insert(format!("{layer}.lora_down.weight"), vec![4, 6144]);
        shapes.insert(format!("{layer}.lora_up.weight"), vec![6144, 4]);
        write(&place, &shapes, "BF16");
        let origin = Origin::of(&LoraFile::read(&place).unwrap());
        assert_eq!(
            (origin.family, &origin.label[..]),
            ("krea2", "Krea 2"),
            "{layer}"
        );
    }
}
