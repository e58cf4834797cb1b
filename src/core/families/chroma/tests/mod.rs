//! All Chroma models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and relatives, which are named and refused.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::chroma;
use crate::families::flux::tests::files::{
    behind, catalog_of, edited, shapes, shapes_in, shipped, t5_config,
};
use crate::formats::weights::WeightSet;
use crate::job::{GenerateForm, Sampler};
use crate::library::Companions;
use crate::lora::{LoraFile, Origin};
use crate::model::{CatalogError, Guidance, ImageRole, InputUse, ModelSpec};
use crate::networks::{ChromaTransformerConfig, NetworkConfig as _};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::write_json;
use crate::tokens::TextReader;

/// One of the files in `tests/fixtures/headers/chroma.json`, which `chroma.py` beside it makes.
pub(crate) fn own(name: &str) -> Shapes {
    let list = include_str!("../../../../../tests/fixtures/headers/chroma.json");
    shapes_in(list, name)
}

/// ComfyUI's `models` folder with every companion, and no transformer.
fn tree(models: &Path) -> PathBuf {
    write(&models.join("vae/ae.safetensors"), &shapes("ae"), "F32");
    let text = models.join("text_encoders/t5xxl_fp16.safetensors");
    write(&text, &shapes("t5xxl"), "F16");
    models.to_owned()
}

fn transformer_in(models: &Path, name: &str) -> PathBuf {
    let place = models.join(format!("diffusion_models/{name}.safetensors"));
    write(&place, &own("transformer"), "BF16")
}

/// A diffusers folder of published size.
fn write_folder(folder: &Path) {
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": "ChromaPipeline",
            "feature_extractor": [null, null],
            "image_encoder": [null, null],
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "T5EncoderModel"],
            "tokenizer": ["transformers", "T5TokenizerFast"],
            "transformer": ["diffusers", "ChromaTransformer2DModel"],
            "vae": ["diffusers", "AutoencoderKL"],
        }),
    );
    for (component, config) in [
        (
            "transformer",
            json!({"_class_name": "ChromaTransformer2DModel"}),
        ),
        (
            "vae",
            json!({
                "_class_name": "AutoencoderKL", "block_out_channels": [128, 256, 512, 512],
                "layers_per_block": 2, "latent_channels": 16, "norm_num_groups": 32,
                "use_quant_conv": false, "use_post_quant_conv": false,
            }),
        ),
        ("text_encoder", t5_config()),
    ] {
        write_json(&folder.join(component).join("config.json"), &config);
    }
    write_json(
        &folder.join("scheduler/scheduler_config.json"),
        &json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 1.0}),
    );
    let stem = "diffusion_pytorch_model.safetensors";
    let transformer = own("transformer diffusers");
    write(&folder.join("transformer").join(stem), &transformer, "BF16");
    write(
        &folder.join("vae").join(stem),
        &shapes("ae diffusers"),
        "F32",
    );
    let text = folder.join("text_encoder/model.safetensors");
    write(&text, &shapes("t5xxl"), "F16");
    std::os::unix::fs::symlink(shipped("t5-xxl"), folder.join("tokenizer")).unwrap();
}

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_in_any_dialect() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    let published = ChromaTransformerConfig::default();
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
            let config = ChromaTransformerConfig::read(&place).unwrap();
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
    assert_eq!(numbers, 8_899_983_424);
}

#[test]
fn a_transformer_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    write(&place, &own("transformer"), "BF16");
    let config = ChromaTransformerConfig::read(&place).unwrap();
    let mut weights = WeightSet::at(&place).unwrap();
    // What comes in lists is looked at once.
    let keys: Vec<String> = weights.tensors.keys().cloned().collect();
    for key in keys.iter().filter(|key| !key.contains("blocks.1")) {
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
fn all_published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(&root.path().join("models"));
    for name in ["Chroma1-HD", "Chroma1-Base", "Chroma1-Flash"] {
        transformer_in(&models, name);
    }
    let catalog = catalog_of(&models);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), 3);
    for (id, variant, steps, guidance, sampler) in [
        ("chroma1-hd", "HD", 35, 5.0, Sampler::Euler),
        ("chroma1-base", "Base", 35, 5.0, Sampler::Euler),
        ("chroma1-flash", "Flash", 8, 1.0, Sampler::Heun),
    ] {
        let spec = catalog.find(id).unwrap();
        assert_eq!((spec.family, &spec.variant[..]), (chroma::FAMILY, variant));
        assert_eq!(spec.licence, "Apache-2.0");
        let sampling = &spec.defaults.sampling;
        assert_eq!(
            (sampling.num_steps, sampling.guidance_scale),
            (steps, guidance)
        );
        assert_eq!((sampling.shift, sampling.sampler), (Some(1.0), sampler));
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
        assert_eq!(spec.files.tokenizer, shipped("t5-xxl"));
        assert_eq!(spec.files.text_encoder_2, None);
        let [reader] = &TextReader::of_model(&spec)[..] else {
            panic!("one text encoder");
        };
        assert_eq!((reader.name, reader.limit), ("T5", 512));
        let form = GenerateForm {
            prompt: "a fox".to_owned(),
            out: PathBuf::from("a.png"),
            ..GenerateForm::default()
        };
        let checked = form.validate(&spec).unwrap();
        assert!(checked.notices.is_empty(), "{:?}", checked.notices);
        assert_eq!(checked.request.is_guided(), variant != "Flash");
        assert_eq!(
            checked.request.negative_prompt.is_empty(),
            variant == "Flash"
        );
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
        let place = transformer_in(&models, name);
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(spec.variant, variant, "{name}");
        assert_eq!(spec.defaults.sampling.num_steps, steps, "{name}");
    }
}

#[test]
fn a_diffusers_folder_has_everything() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("Chroma1-HD");
    write_folder(&folder);
    let spec = ModelSpec::open(&folder).unwrap();
    assert_eq!(spec.variant, "HD");
    assert_eq!(spec.defaults.sampling.shift, Some(1.0));
    assert_eq!(spec.files.tokenizer, folder.join("tokenizer"));
    assert_eq!(spec.files.text_encoder, folder.join("text_encoder"));
}

#[test]
fn a_card_says_what_a_file_is_and_what_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "Chroma1-HD");
    let card = IdentityCard::read(&place).unwrap();
    assert_eq!((&card.family[..], &card.variant[..]), ("chroma", "HD"));
    assert!(card.what.contains("Chroma 8.9B"), "{}", card.what);
    assert!(card.is_runnable, "{:?}", card.problems);
    std::fs::remove_file(models.join("vae/ae.safetensors")).unwrap();
    std::fs::remove_file(models.join("text_encoders/t5xxl_fp16.safetensors")).unwrap();
    let card = IdentityCard::read(&place).unwrap();
    let [problem] = &card.problems[..] else {
        panic!("{:?}", card.problems);
    };
    for missing in ["ae.safetensors", "t5xxl_fp16.safetensors"] {
        assert!(problem.contains(missing), "{problem}");
    }
}

#[test]
fn a_text_encoder_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "Chroma1-HD");
    let mut narrow = shapes("t5xxl");
    for shape in narrow.values_mut() {
        shape
            .iter_mut()
            .filter(|n| **n == 4096)
            .for_each(|n| *n = 2048);
    }
    for (name, shapes, found) in [
        ("clip", shapes("clip_l"), "a CLIP text encoder"),
        ("t5_xl", narrow, "one of 2048"),
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
            text.contains("t5xxl_fp16.safetensors") && text.contains(found),
            "{text}"
        );
    }
}

#[test]
fn models_like_chroma_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = models.join("diffusion_models/x.safetensors");
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
        write(&place, &shapes, "BF16");
        let err = ModelSpec::open(&place).unwrap_err();
        assert!(
            matches!(err, CatalogError::Unsupported { .. }),
            "{part}: {err}"
        );
        assert!(err.to_string().contains(part), "{part}: {err}");
    }
    for (class, part) in [
        ("ChromaRadiancePipeline", "Chroma Radiance"),
        ("Chroma2Pipeline", "Chroma 2"),
        ("ZetaChromaPipeline", "Chroma 2"),
        ("ChromaEditPipeline", "ChromaEditPipeline"),
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
    write_folder(&folder);
    let place = folder.join("transformer/config.json");
    for (key, value, part) in [
        ("num_attention_heads", json!(0), "num_attention_heads"),
        ("patch_size", json!(2), "patch_size"),
        ("out_channels", json!(32), "out_channels"),
        ("axes_dims_rope", json!([16, 56, 58]), "axes_dims_rope"),
        (
            "approximator_num_channels",
            json!(60),
            "approximator_num_channels",
        ),
        ("approximator_layers", json!(4), "distilled_guidance_layer"),
        ("num_layers", json!(18), "18"),
        ("quantization_config", json!({}), "quantised"),
    ] {
        let mut config = json!({"_class_name": "ChromaTransformer2DModel"});
        config[key] = value;
        write_json(&place, &config);
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{key}: {text}");
    }
}

#[test]
fn a_lora_for_chroma_is_known_by_its_own_layers_and_one_for_the_blocks_fits_it_and_flux() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    for (layer, family) in [
        (
            "lora_unet_distilled_guidance_layer_layers_0_in_layer",
            "chroma",
        ),
        ("diffusion_model.distilled_guidance_layer.in_proj", "chroma"),
        ("lora_unet_double_blocks_0_img_attn_qkv", "flux"),
        ("transformer.single_transformer_blocks.3.attn.to_q", "flux"),
    ] {
        let mut shapes = Shapes::new();
        shapes.insert(format!("{layer}.lora_down.weight"), vec![4, 3072]);
        shapes.insert(format!("{layer}.lora_up.weight"), vec![3072, 4]);
        write(&place, &shapes, "BF16");
        let origin = Origin::of(&LoraFile::read(&place).unwrap());
        assert_eq!(origin.family, family, "{layer}");
        assert!((chroma::FAMILY.lora.accepts)(origin.family, &[]), "{layer}");
    }
}
