//! The parts next to a transformer: found by their headers, named by the user, missing, wrong, foreign.

use std::fs;
use std::path::Path;

use crate::catalog::ModelCatalog;
use crate::job::{JobError, JobErrorKind};
use crate::model::{CatalogError, ComponentOverrides, ModelSpec};
use crate::settings::Settings;
use crate::testing::made_up::{
    Dims, I2V_14B, Shapes, T2V_1_3B, TI2V_5B, clip_vision, comfy_tree, t5, transformer, umt5, vae,
    write, write_with_tokenizer,
};
use crate::testing::pipelines::{user, write_json, write_pipeline};

pub(crate) const NARROW: Dims = Dims {
    dim: 256,
    ffn: 512,
    layers: 2,
    ..T2V_1_3B
};

fn catalog_of(folder: &Path) -> ModelCatalog {
    let (_root, paths) = user();
    let mut settings = Settings::default();
    settings.models.folders = vec![folder.to_owned()];
    ModelCatalog::load(&paths, &settings)
}

#[test]
fn a_missing_part_is_named_with_the_file_to_get() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("diffusion_models/x.safetensors");
    write(&place, &transformer(I2V_14B), "F16");
    ModelSpec::open(&place).unwrap();
    for (part, example) in [
        (
            "vae",
            "wan_2.1_vae.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged",
        ),
        ("text_encoders", "umt5_xxl_fp16.safetensors from Comfy-Org"),
        ("clip_vision", "clip_vision_h.safetensors from Comfy-Org"),
    ] {
        let hidden = root.path().join("hidden");
        fs::rename(models.join(part), &hidden).unwrap();
        let err = ModelSpec::open(&place).unwrap_err();
        assert!(
            matches!(err, CatalogError::MissingCompanion { .. }),
            "{err}"
        );
        let text = err.to_string();
        assert!(
            text.contains(example) && text.contains("looked in"),
            "{text}"
        );
        assert_eq!(JobError::from(&err).kind, JobErrorKind::BadModel);
        fs::rename(&hidden, models.join(part)).unwrap();
    }
    fs::remove_file(models.join("vae/wan_2.1_vae.safetensors")).unwrap();
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(
        text.contains("needs a Wan 2.1 VAE") && text.contains("not a Wan 2.2 VAE"),
        "{text}"
    );
    // A text encoder without a tokenizer in it, and none around.
    write(&models.join("vae/wan_2.1_vae.safetensors"), &vae(16), "F32");
    write(
        &models.join("text_encoders/umt5_xxl_fp16.safetensors"),
        &umt5(),
        "F16",
    );
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(text.contains("google/umt5-xxl"), "{text}");
}

#[test]
fn a_wrong_part_that_the_user_named_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let catalog = catalog_of(&models);
    let place = write(
        &models.join("unet/x.safetensors"),
        &transformer(I2V_14B),
        "F16",
    );
    let five = write(
        &models.join("unet/5b.safetensors"),
        &transformer(TI2V_5B),
        "F16",
    );
    let t5 = write(
        &models.join("text_encoders/t5xxl_fp16.safetensors"),
        &t5(),
        "F16",
    );
    let umt5 = write(
        &models.join("text_encoders/umt5_int8.safetensors"),
        &umt5(),
        "I8",
    );
    let pth = models.join("Wan2.1_VAE.pth");
    fs::write(&pth, b"\x80").unwrap();
    let named =
        |vae: Option<&Path>, text: Option<&Path>, image: Option<&Path>| ComponentOverrides {
            vae: vae.map(Path::to_owned),
            text_encoder: text.map(Path::to_owned),
            image_encoder: image.map(Path::to_owned),
            ..ComponentOverrides::default()
        };
    let text = models.join("text_encoders/umt5_xxl_fp16.safetensors");
    let old = models.join("vae/wan_2.1_vae.safetensors");
    let new = models.join("vae/wan2.2_vae.safetensors");
    for (model, companions, parts) in [
        (
            &place,
            named(Some(&new), None, None),
            ["wan_2.1_vae.safetensors", "a Wan 2.2 VAE"],
        ),
        (
            &five,
            named(Some(&old), None, None),
            ["wan2.2_vae.safetensors", "a Wan 2.1 VAE"],
        ),
        (
            &place,
            named(Some(&text), None, None),
            ["wan_2.1_vae.safetensors", "a UMT5 text encoder"],
        ),
        (
            &place,
            named(Some(&pth), None, None),
            ["wan_2.1_vae.safetensors", "pickle"],
        ),
        (
            &place,
            named(None, Some(&t5), None),
            ["umt5_xxl_fp16.safetensors", "a T5 text encoder"],
        ),
        (
            &place,
            named(None, Some(&umt5), None),
            ["umt5_xxl_fp16.safetensors", "stored as I8"],
        ),
        (
            &place,
            named(None, None, Some(&old)),
            ["clip_vision_h.safetensors", "a Wan VAE"],
        ),
    ] {
        let err = catalog
            .open_with(&model.to_string_lossy(), &companions)
            .unwrap_err();
        let text = err.to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    let gone = named(Some(Path::new("/nowhere/x")), None, None);
    let err = catalog
        .open_with(&place.to_string_lossy(), &gone)
        .unwrap_err();
    assert!(matches!(err, CatalogError::NoSuchPath { .. }), "{err}");
}

#[test]
fn parts_that_the_user_named_win_and_a_folder_brings_its_tokenizer() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(&root.path().join("models"));
    let place = write(
        &models.join("unet/x.safetensors"),
        &transformer(NARROW),
        "F16",
    );
    let mine = root.path().join("mine");
    let vae_file = write(&mine.join("odd name.safetensors"), &vae(16), "BF16");
    let text = mine.join("text_encoder");
    write(&text.join("model.safetensors"), &umt5(), "BF16");
    write_json(&text.join("config.json"), &umt5_config());
    fs::create_dir_all(mine.join("tokenizer")).unwrap();
    fs::write(
        mine.join("tokenizer/spiece.model"),
        [0x0a, 0].repeat(256_300),
    )
    .unwrap();
    let companions = ComponentOverrides {
        vae: Some(vae_file.clone()),
        text_encoder: Some(text.clone()),
        ..ComponentOverrides::default()
    };
    let catalog = catalog_of(&models);
    let spec = catalog
        .open_with(&place.to_string_lossy(), &companions)
        .unwrap();
    assert_eq!(
        (&spec.files.vae, &spec.files.text_encoder),
        (&vae_file, &text)
    );
    assert_eq!(spec.files.tokenizer, mine.join("tokenizer"));
    let tokenizer = ComponentOverrides {
        tokenizer: Some(models.join("text_encoders/umt5_xxl_fp16.safetensors")),
        ..companions
    };
    let spec = catalog
        .open_with(&place.to_string_lossy(), &tokenizer)
        .unwrap();
    assert_eq!(Some(&spec.files.tokenizer), tokenizer.tokenizer.as_ref());
    // In a diffusers folder they stand in for its own.
    let folder = write_pipeline(&root.path().join("tiny"));
    let other = write_pipeline(&root.path().join("other"));
    let companions = ComponentOverrides {
        vae: Some(other.join("vae")),
        tokenizer: Some(other.clone()),
        ..ComponentOverrides::default()
    };
    let spec = catalog
        .open_with(&folder.to_string_lossy(), &companions)
        .unwrap();
    assert_eq!(spec.files.vae, other.join("vae"));
    assert_eq!(spec.files.tokenizer, other.join("tokenizer"));
    assert_eq!(spec.files.transformer, folder.join("transformer"));
}

fn umt5_config() -> serde_json::Value {
    serde_json::json!({
        "model_type": "umt5", "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24,
        "num_heads": 64, "vocab_size": 256_384, "feed_forward_proj": "gated-gelu",
    })
}

#[test]
fn the_nearest_part_wins_then_the_usual_name_and_other_places_come_last() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(&root.path().join("models"));
    let usual = models.join("vae/wan_2.1_vae.safetensors");
    write(&models.join("vae/a_finetune.safetensors"), &vae(16), "F32");
    let place = write(
        &models.join("diffusion_models/wan/x.safetensors"),
        &transformer(NARROW),
        "F16",
    );
    assert_eq!(ModelSpec::open(&place).unwrap().files.vae, usual);
    let beside = write(&place.with_file_name("any.safetensors"), &vae(16), "F32");
    assert_eq!(ModelSpec::open(&place).unwrap().files.vae, beside);
    // Far from everything, the searched places have what it needs.
    let far = write(
        &root.path().join("far/x.safetensors"),
        &transformer(NARROW),
        "F16",
    );
    assert!(ModelSpec::open(&far).is_err());
    let spec = catalog_of(&models).find(&far.to_string_lossy()).unwrap();
    assert_eq!(spec.files.vae, usual);
}

#[test]
fn a_tokenizer_of_another_size_is_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let text = models.join("text_encoders/umt5_xxl_fp16.safetensors");
    write(&text, &umt5(), "F16");
    let place = write(
        &models.join("unet/x.safetensors"),
        &transformer(NARROW),
        "F16",
    );
    for (folder, pieces) in [("tokenizer", 1000), ("google/umt5-xxl", 256_300)] {
        let folder = models.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("spiece.model"), [0x0a, 0].repeat(pieces)).unwrap();
    }
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(spec.files.tokenizer, models.join("google/umt5-xxl"));
    fs::remove_dir_all(models.join("google")).unwrap();
    let other = models.join("text_encoders/zz_with_tokenizer.safetensors");
    write_with_tokenizer(&other, &umt5(), "F16", 256_300);
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(
        (spec.files.text_encoder, spec.files.tokenizer),
        (text.clone(), other)
    );
    write_with_tokenizer(&text, &umt5(), "F16", 300_000);
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(text.contains("has 300000"), "{text}");
}

fn with(mut shapes: Shapes, key: &str) -> Shapes {
    shapes.insert(key.to_owned(), vec![1]);
    shapes
}

#[test]
fn other_wan_models_and_storages_are_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("x.safetensors");
    let plain = || transformer(NARROW);
    let channels = |input, output| {
        let dims = Dims {
            input,
            output,
            ..NARROW
        };
        transformer(dims)
    };
    for (shapes, dtype, part) in [
        (
            with(plain(), "face_adapter.fuser_blocks.0.q.weight"),
            "F16",
            "Animate",
        ),
        (with(plain(), "casual_audio_encoder.weights"), "F16", "S2V"),
        (with(plain(), "ref_conv.weight"), "F16", "Fun-Control"),
        (
            with(plain(), "blocks.0.audio_cross_attn.q.weight"),
            "F16",
            "sound",
        ),
        (
            with(plain(), "something_new.weight"),
            "F16",
            "something_new",
        ),
        (channels(32, 16), "F16", "32 input"),
        (channels(100, 48), "F16", "100 input"),
        (
            with(
                plain(),
                "blocks.0.ffn.0.weight.quant_state.bitsandbytes__nf4",
            ),
            "U8",
            "nf4",
        ),
        (plain(), "I8", "I8"),
    ] {
        write(&place, &shapes, dtype);
        let err = ModelSpec::open(&place).unwrap_err();
        assert!(
            matches!(err, CatalogError::Unsupported { .. }),
            "{part}: {err}"
        );
        assert!(err.to_string().contains(part), "{part}: {err}");
    }
    for (shapes, part) in [
        (vae(16), "VAE"),
        (umt5(), "UMT5"),
        (clip_vision(), "image encoder"),
    ] {
        write(&place, &shapes, "F16");
        let err = ModelSpec::open(&place).unwrap_err();
        assert!(
            matches!(err, CatalogError::PartAlone { .. }),
            "{part}: {err}"
        );
        assert!(err.to_string().contains(part), "{err}");
    }
}

#[test]
fn a_width_without_whole_heads_needs_a_config() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let odd = Dims { dim: 192, ..NARROW };
    let place = write(&models.join("x.safetensors"), &transformer(odd), "F16");
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(text.contains("multiple of 128"), "{text}");
}

#[test]
fn search_separates_incomplete_files_from_unsupported_models() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let folder = models.join("diffusion_models");
    write(
        &folder.join("good.safetensors"),
        &transformer(NARROW),
        "F16",
    );
    let half = write(
        &folder.join("half.safetensors"),
        &transformer(NARROW),
        "F16",
    );
    let file = fs::File::options().write(true).open(&half).unwrap();
    file.set_len(20_000).unwrap();
    write(
        &folder.join("animate.safetensors"),
        &with(transformer(NARROW), "pose_patch_embedding.weight"),
        "F16",
    );
    let mut flux = Shapes::new();
    flux.insert("double_blocks.0.img_attn.qkv.weight".into(), vec![9, 3]);
    write(&folder.join("flux.safetensors"), &flux, "F16");
    fs::write(folder.join("wan.gguf"), b"GGUF\x03\0\0\0").unwrap();
    let mut lora = Shapes::new();
    lora.insert(
        "diffusion_model.blocks.0.self_attn.q.lora_A.weight".into(),
        vec![4, 256],
    );
    write(&folder.join("a_lora.safetensors"), &lora, "F16");
    fs::write(folder.join("empty.safetensors"), b"").unwrap();
    let catalog = catalog_of(&models);
    let names: Vec<&str> = catalog
        .available
        .iter()
        .map(|spec| spec.name.as_str())
        .collect();
    assert_eq!(names, ["good"]);
    let problems: Vec<String> = catalog.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 2, "{problems:?}");
    for name in ["half.safetensors", "wan.gguf"] {
        assert!(
            problems.iter().any(|text| text.contains(name)),
            "{problems:?}"
        );
    }
    let unsupported: Vec<String> = catalog
        .unsupported
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(unsupported.len(), 2, "{unsupported:?}");
    for name in ["animate", "flux"] {
        assert!(
            unsupported.iter().any(|text| text.contains(name)),
            "{unsupported:?}"
        );
    }
}

#[test]
fn finding_a_known_model_without_its_components_reports_the_missing_ones() {
    let root = tempfile::tempdir().unwrap();
    let place = root
        .path()
        .join("models/unet/wan2.1_t2v_1.3B_bf16.safetensors");
    write(&place, &transformer(T2V_1_3B), "BF16");
    let catalog = catalog_of(root.path());
    assert_eq!((catalog.available.len(), catalog.problems.len()), (0, 1));
    let err = catalog.find("wan2.1-t2v-1.3b").unwrap_err();
    assert!(
        matches!(err, CatalogError::MissingCompanions { .. }),
        "{err}"
    );
}

#[test]
fn components_above_the_model_folder_are_not_used() {
    let root = tempfile::tempdir().unwrap();
    comfy_tree(root.path());
    let place = root.path().join("mine/x.safetensors");
    write(&place, &transformer(NARROW), "F16");
    let err = ModelSpec::open(&place).unwrap_err();
    assert!(
        matches!(err, CatalogError::MissingCompanions { .. }),
        "{err}"
    );
}

#[test]
fn a_repository_in_the_cache_of_another_program_counts_with_its_deep_folders() {
    let root = tempfile::tempdir().unwrap();
    let repository = root
        .path()
        .join("models--Comfy-Org--Wan/snapshots/abc/split_files");
    comfy_tree(&repository);
    write(
        &repository.join("diffusion_models/wan2.1_t2v_1.3B_fp16.safetensors"),
        &transformer(T2V_1_3B),
        "F16",
    );
    let catalog = catalog_of(root.path());
    assert!(
        catalog.find("wan2.1-t2v-1.3b").is_ok(),
        "{:?}",
        catalog.problems
    );
}
