//! The parts next to a transformer: found by their headers, named by the user, missing, wrong, foreign.

use std::fs;
use std::path::Path;

use super::installs::names;
use crate::job::{JobError, JobErrorKind};
use crate::model::{CatalogError, ComponentOverrides, ModelSpec};
use crate::testing::made_up::{
    Dims, I2V_14B, Shapes, T2V_1_3B, TI2V_5B, clip_vision, comfy_tree, t5, transformer, umt5, vae,
    wan_in, write, write_with_tokenizer,
};
use crate::testing::pipelines::{catalog_in, write_json, write_pipeline};
use crate::testing::published::edited;
use crate::testing::{assert_has, assert_not_opened, table};

pub(crate) const NARROW: Dims = Dims {
    dim: 256,
    ffn: 512,
    layers: 2,
    ..T2V_1_3B
};

#[test]
fn a_missing_part_is_named_with_the_file_to_get() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = wan_in(&models, "diffusion_models/x.safetensors", I2V_14B);
    ModelSpec::open(&place).unwrap();
    for (part, example) in table(
        "vae -> wan_2.1_vae.safetensors from Comfy-Org/Wan_2.1_ComfyUI_repackaged
         text_encoders -> umt5_xxl_fp16.safetensors from Comfy-Org
         clip_vision -> clip_vision_h.safetensors from Comfy-Org",
    ) {
        let hidden = root.path().join("hidden");
        fs::rename(models.join(part), &hidden).unwrap();
        let err = ModelSpec::open(&place).unwrap_err();
        let is_missing = matches!(err, CatalogError::MissingCompanion { .. });
        assert!(is_missing, "{err}");
        assert_has(&err.to_string(), &[example, "looked in"]);
        assert_eq!(JobError::from(&err).kind, JobErrorKind::BadModel);
        fs::rename(&hidden, models.join(part)).unwrap();
    }
    fs::remove_file(models.join("vae/wan_2.1_vae.safetensors")).unwrap();
    assert_not_opened(&place, &["a Wan 2.1 VAE (z_dim 16) is missing"]);
    // A text encoder without a tokenizer in it, and none around.
    write(&models.join("vae/wan_2.1_vae.safetensors"), &vae(16), "F32");
    let text = models.join("text_encoders/umt5_xxl_fp16.safetensors");
    write(&text, &umt5(), "F16");
    assert_not_opened(&place, &["google/umt5-xxl"]);
}

#[test]
fn a_wrong_part_that_the_user_named_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let catalog = catalog_in(&[&models]);
    let place = wan_in(&models, "unet/x.safetensors", I2V_14B);
    let five = wan_in(&models, "unet/5b.safetensors", TI2V_5B);
    let texts = models.join("text_encoders");
    write(&texts.join("t5xxl_fp16.safetensors"), &t5(), "F16");
    write(&texts.join("umt5_int8.safetensors"), &umt5(), "I8");
    fs::write(models.join("Wan2.1_VAE.pth"), b"\x80").unwrap();
    let named = |part: &str, name: &str| {
        let file = |other: &str| (part == other).then(|| models.join(name));
        ComponentOverrides {
            vae: file("vae"),
            text_encoder: file("text"),
            image_encoder: file("image"),
            ..ComponentOverrides::default()
        }
    };
    for (row, found) in table(
        "vae vae/wan2.2_vae.safetensors -> wan_2.1_vae.safetensors, a Wan 2.2 VAE
         five vae/wan_2.1_vae.safetensors -> wan2.2_vae.safetensors, a Wan 2.1 VAE
         vae text_encoders/umt5_xxl_fp16.safetensors -> wan_2.1_vae.safetensors, a UMT5 text encoder
         vae Wan2.1_VAE.pth -> wan_2.1_vae.safetensors, pickle
         text text_encoders/t5xxl_fp16.safetensors -> umt5_xxl_fp16.safetensors, a T5 text encoder
         text text_encoders/umt5_int8.safetensors -> umt5_xxl_fp16.safetensors, stored as I8
         image vae/wan_2.1_vae.safetensors -> clip_vision_h.safetensors, a Wan VAE",
    ) {
        let (part, name) = row.split_once(' ').unwrap();
        let (model, part) = if part == "five" {
            (&five, "vae")
        } else {
            (&place, part)
        };
        let err = catalog.open_with(&model.to_string_lossy(), &named(part, name));
        let parts: Vec<&str> = found.split(", ").collect();
        assert_has(&err.unwrap_err().to_string(), &parts);
    }
    let gone = named("vae", "/nowhere/x");
    let err = catalog.open_with(&place.to_string_lossy(), &gone);
    let err = err.unwrap_err();
    assert!(matches!(err, CatalogError::NoSuchPath { .. }), "{err}");
}

#[test]
fn parts_that_the_user_named_win_and_a_folder_brings_its_tokenizer() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(&root.path().join("models"));
    let place = wan_in(&models, "unet/x.safetensors", NARROW);
    let mine = root.path().join("mine");
    let vae_file = write(&mine.join("odd name.safetensors"), &vae(16), "BF16");
    let text = mine.join("text_encoder");
    write(&text.join("model.safetensors"), &umt5(), "BF16");
    write_json(&text.join("config.json"), &umt5_config());
    fs::create_dir_all(mine.join("tokenizer")).unwrap();
    let pieces = [0x0a, 0].repeat(256_300);
    fs::write(mine.join("tokenizer/spiece.model"), pieces).unwrap();
    let companions = ComponentOverrides {
        vae: Some(vae_file.clone()),
        text_encoder: Some(text.clone()),
        ..ComponentOverrides::default()
    };
    let catalog = catalog_in(&[&models]);
    let open = |place: &Path, companions: &ComponentOverrides| {
        let spec = catalog.open_with(&place.to_string_lossy(), companions);
        spec.unwrap().files
    };
    let files = open(&place, &companions);
    assert_eq!((&files.vae, &files.text_encoder), (&vae_file, &text));
    assert_eq!(files.tokenizer, mine.join("tokenizer"));
    let tokenizer = ComponentOverrides {
        tokenizer: Some(models.join("text_encoders/umt5_xxl_fp16.safetensors")),
        ..companions
    };
    assert_eq!(
        Some(open(&place, &tokenizer).tokenizer),
        tokenizer.tokenizer
    );
    // In a diffusers folder they stand in for its own.
    let folder = write_pipeline(&root.path().join("tiny"));
    let other = write_pipeline(&root.path().join("other"));
    let companions = ComponentOverrides {
        vae: Some(other.join("vae")),
        tokenizer: Some(other.clone()),
        ..ComponentOverrides::default()
    };
    let files = open(&folder, &companions);
    assert_eq!(files.vae, other.join("vae"));
    assert_eq!(files.tokenizer, other.join("tokenizer"));
    assert_eq!(files.transformer, folder.join("transformer"));
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
    let place = wan_in(&models, "diffusion_models/wan/x.safetensors", NARROW);
    assert_eq!(ModelSpec::open(&place).unwrap().files.vae, usual);
    let beside = write(&place.with_file_name("any.safetensors"), &vae(16), "F32");
    assert_eq!(ModelSpec::open(&place).unwrap().files.vae, beside);
    // Far from everything, the searched places have what it needs.
    let far = wan_in(root.path(), "far/x.safetensors", NARROW);
    assert!(ModelSpec::open(&far).is_err());
    let spec = catalog_in(&[&models]).find(&far.to_string_lossy()).unwrap();
    assert_eq!(spec.files.vae, usual);
}

#[test]
fn a_tokenizer_of_another_size_is_passed_over() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let text = models.join("text_encoders/umt5_xxl_fp16.safetensors");
    write(&text, &umt5(), "F16");
    let place = wan_in(&models, "unet/x.safetensors", NARROW);
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
    assert_eq!(spec.files.text_encoder, text);
    assert_eq!(spec.files.tokenizer, other);
    write_with_tokenizer(&text, &umt5(), "F16", 300_000);
    assert_not_opened(&place, &["has 300000"]);
}

#[test]
fn other_wan_models_and_storages_are_refused_by_name() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let place = models.join("x.safetensors");
    let refused = |shapes: &Shapes, dtype, parts: &[&str]| {
        write(&place, shapes, dtype);
        let err = ModelSpec::open(&place).unwrap_err();
        let is_unsupported = matches!(err, CatalogError::Unsupported { .. });
        assert_eq!(is_unsupported, parts.len() == 1, "{err}");
        assert_has(&err.to_string(), parts);
    };
    for (key, part) in table(
        "face_adapter.fuser_blocks.0.q.weight -> Animate
         casual_audio_encoder.weights -> S2V
         ref_conv.weight -> Fun-Control
         blocks.0.audio_cross_attn.q.weight -> sound
         something_new.weight -> something_new
         blocks.0.ffn.0.weight.quant_state.bitsandbytes__nf4 -> nf4",
    ) {
        let dtype = if part == "nf4" { "U8" } else { "F16" };
        refused(&edited(transformer(NARROW), key, &[1]), dtype, &[part]);
    }
    for (input, output, part) in [(32, 16, "32 input"), (100, 48, "100 input")] {
        let dims = Dims {
            input,
            output,
            ..NARROW
        };
        refused(&transformer(dims), "F16", &[part]);
    }
    refused(&transformer(NARROW), "I8", &["I8"]);
    let alone = " alone: choose";
    refused(&vae(16), "F16", &["VAE", alone]);
    refused(&umt5(), "F16", &["UMT5", alone]);
    refused(&clip_vision(), "F16", &["image encoder", alone]);
}

#[test]
fn a_width_without_whole_heads_needs_a_config() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let odd = Dims { dim: 192, ..NARROW };
    let place = wan_in(&models, "x.safetensors", odd);
    assert_not_opened(&place, &["multiple of 128"]);
}

#[test]
fn search_separates_incomplete_files_from_unsupported_models() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let folder = models.join("diffusion_models");
    wan_in(&folder, "good.safetensors", NARROW);
    let half = wan_in(&folder, "half.safetensors", NARROW);
    let file = fs::File::options().write(true).open(&half).unwrap();
    file.set_len(20_000).unwrap();
    let pose = edited(transformer(NARROW), "pose_patch_embedding.weight", &[1]);
    write(&folder.join("animate.safetensors"), &pose, "F16");
    for (name, key, shape) in [
        ("flux", "double_blocks.0.img_attn.qkv.weight", [9, 3]),
        (
            "a_lora",
            "diffusion_model.blocks.0.self_attn.q.lora_A.weight",
            [4, 256],
        ),
    ] {
        let shapes = edited(Shapes::new(), key, &shape);
        write(&folder.join(format!("{name}.safetensors")), &shapes, "F16");
    }
    fs::write(folder.join("wan.gguf"), b"GGUF\x03\0\0\0").unwrap();
    fs::write(folder.join("empty.safetensors"), b"").unwrap();
    let catalog = catalog_in(&[&models]);
    assert_eq!(names(&catalog), ["good"]);
    for (errors, names) in [
        (&catalog.problems, ["half.safetensors", "wan.gguf"]),
        (&catalog.unsupported, ["animate", "flux"]),
    ] {
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 2, "{texts:?}");
        assert_has(&texts.join("\n"), &names);
    }
}

#[test]
fn finding_a_known_model_without_its_components_reports_the_missing_ones() {
    let root = tempfile::tempdir().unwrap();
    let name = "models/unet/wan2.1_t2v_1.3B_bf16.safetensors";
    wan_in(root.path(), name, T2V_1_3B);
    let catalog = catalog_in(&[root.path()]);
    assert_eq!((catalog.available.len(), catalog.problems.len()), (0, 1));
    let err = catalog.find("wan2.1-t2v-1.3b").unwrap_err();
    let is_missing = matches!(err, CatalogError::MissingCompanions { .. });
    assert!(is_missing, "{err}");
}

#[test]
fn components_above_the_model_folder_are_not_used() {
    let root = tempfile::tempdir().unwrap();
    comfy_tree(root.path());
    let place = wan_in(root.path(), "mine/x.safetensors", NARROW);
    let err = ModelSpec::open(&place).unwrap_err();
    let is_missing = matches!(err, CatalogError::MissingCompanions { .. });
    assert!(is_missing, "{err}");
}

#[test]
fn a_repository_in_the_cache_of_another_program_counts_with_its_deep_folders() {
    let root = tempfile::tempdir().unwrap();
    let repository = "models--Comfy-Org--Wan/snapshots/abc/split_files";
    let repository = comfy_tree(&root.path().join(repository));
    wan_in(
        &repository,
        "diffusion_models/wan2.1_t2v_1.3B_fp16.safetensors",
        T2V_1_3B,
    );
    let catalog = catalog_in(&[root.path()]);
    let found = catalog.find("wan2.1-t2v-1.3b");
    assert!(found.is_ok(), "{:?}", catalog.problems);
}
