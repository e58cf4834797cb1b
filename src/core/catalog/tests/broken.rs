//! Every part of a model folder, missing, cut, mis-shaped or foreign: refused by name before anything loads.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::catalog::IdentityCard;
use crate::job::{JobError, JobErrorKind};
use crate::model::{CatalogError, ModelSpec, advice_for};
use crate::testing::made_up::{Shapes, shard_name, write, write_shards};
use crate::testing::pipelines::{edit_json, transformer_shapes, write_json, write_pipeline};
use crate::testing::{assert_not_opened, table};

/// Error of opening after `change` was done to a whole pipeline.
fn after(change: impl FnOnce(&Path)) -> CatalogError {
    let root = tempfile::tempdir().unwrap();
    let folder = write_pipeline(&root.path().join("model"));
    ModelSpec::open(&folder).unwrap();
    change(&folder);
    ModelSpec::open(&folder).unwrap_err()
}

const TRANSFORMER: &str = "transformer/diffusion_pytorch_model.safetensors";

#[test]
fn each_missing_file_and_folder_is_named() {
    for name in [
        "scheduler/scheduler_config.json",
        "transformer/config.json",
        TRANSFORMER,
        "vae/config.json",
        "vae/diffusion_pytorch_model.safetensors",
        "text_encoder/config.json",
        "text_encoder/model.safetensors",
        "tokenizer/tokenizer.json",
    ] {
        let err = after(|folder| fs::remove_file(folder.join(name)).unwrap());
        assert!(matches!(err, CatalogError::Missing { .. }), "{name}: {err}");
        let part = name.split('/').next().unwrap();
        assert!(err.to_string().contains(part), "{name}: {err}");
    }
    for name in "scheduler transformer vae text_encoder tokenizer".split(' ') {
        let err = after(|folder| fs::remove_dir_all(folder.join(name)).unwrap());
        assert!(err.to_string().contains(name), "{err}");
    }
}

#[test]
fn folders_without_model_index_and_missing_paths_have_separate_errors() {
    let err = after(|folder| fs::remove_file(folder.join("model_index.json")).unwrap());
    assert!(matches!(err, CatalogError::NoModel { .. }), "{err}");
    let root = tempfile::tempdir().unwrap();
    let err = ModelSpec::open(&root.path().join("none")).unwrap_err();
    assert!(matches!(err, CatalogError::NoSuchPath { .. }), "{err}");
}

#[test]
fn a_cut_or_lengthened_weight_file_is_named_with_both_lengths() {
    for name in [
        TRANSFORMER,
        "vae/diffusion_pytorch_model.safetensors",
        "text_encoder/model.safetensors",
    ] {
        let err = after(|folder| {
            let bytes = fs::read(folder.join(name)).unwrap();
            fs::write(folder.join(name), &bytes[..bytes.len() - 1]).unwrap();
        });
        let text = err.to_string();
        let said = text.contains("it is cut off (bytes missing: 1)");
        assert!(text.ends_with(name) && said, "{text}");
        let err = after(|folder| fs::write(folder.join(name), b"").unwrap());
        assert!(err.to_string().contains("file is damaged: "), "{err}");
    }
}

#[test]
fn every_config_that_is_cut_is_an_error_and_never_a_panic() {
    for name in [
        "model_index.json",
        "scheduler/scheduler_config.json",
        "transformer/config.json",
        "vae/config.json",
        "text_encoder/config.json",
        "tokenizer/tokenizer.json",
    ] {
        let root = tempfile::tempdir().unwrap();
        let folder = write_pipeline(root.path());
        let whole = fs::read(folder.join(name)).unwrap();
        fs::write(
            folder.join(name),
            "version https://git-lfs.github.com/spec/v1\n",
        )
        .unwrap();
        let pointer = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(pointer.contains("run `git lfs pull`"), "{pointer}");
        for cut in (0..whole.len()).step_by(whole.len() / 7) {
            fs::write(folder.join(name), &whole[..cut]).unwrap();
            let err = ModelSpec::open(&folder).unwrap_err();
            let is_named = err.to_string().ends_with(name);
            assert!(
                is_named && advice_for(&err).contains("download this file again"),
                "{name} {cut}: {err}"
            );
        }
    }
}

#[test]
fn a_tensor_of_another_shape_is_named_with_expected_and_found() {
    let err = after(|folder| {
        let mut shapes = transformer_shapes();
        shapes.insert("blocks.1.attn2.to_v.weight".into(), vec![8, 9]);
        write(&folder.join(TRANSFORMER), &shapes, "F32");
    });
    let text = err.to_string();
    assert!(text.contains("'blocks.1.attn2.to_v.weight'"), "{text}");
    assert!(text.contains("expected [8, 8], found [8, 9]"), "{text}");
    assert!(text.ends_with(TRANSFORMER), "{text}");
}

#[test]
fn a_missing_tensor_and_one_of_a_layer_too_many_are_named() {
    let err = after(|folder| {
        let mut shapes = transformer_shapes();
        shapes.remove("proj_out.bias");
        write(&folder.join(TRANSFORMER), &shapes, "F32");
    });
    assert!(err.to_string().contains("'proj_out.bias' is missing"));
    let err = after(|folder| {
        let mut shapes = transformer_shapes();
        shapes.insert("blocks.2.norm2.bias".into(), vec![8]);
        write(&folder.join(TRANSFORMER), &shapes, "F32");
    });
    assert!(err.to_string().contains("expected 2 layers"), "{err}");
}

/// Splits the transformer's weights into two shards with an index.
fn shard_transformer(folder: &Path) {
    fs::remove_file(folder.join(TRANSFORMER)).unwrap();
    write_shards(&folder.join("transformer"), transformer_shapes(), 2, "F32");
}

#[test]
fn sharded_weights_must_be_complete_and_match_their_index() {
    let root = tempfile::tempdir().unwrap();
    let folder = write_pipeline(root.path());
    let single = ModelSpec::open(&folder).unwrap();
    shard_transformer(&folder);
    let sharded = ModelSpec::open(&folder).unwrap();
    assert_eq!(sharded.limits, single.limits);

    let [first, second] =
        [0, 1].map(|number| folder.join("transformer").join(shard_name(number, 2)));
    let name = shard_name(1, 2);
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, &bytes[..bytes.len() / 2]).unwrap();
    let refusal = || ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(refusal().contains(&name));
    fs::remove_file(&second).unwrap();
    let text = refusal();
    assert!(text.contains("missing") && text.contains(&name), "{text}");
    fs::copy(&first, &second).unwrap();
    assert!(refusal().contains("does not have it"));
}

#[test]
fn an_index_cannot_lead_out_of_its_folder() {
    let err = after(|folder| {
        shard_transformer(folder);
        let index = folder.join("transformer/diffusion_pytorch_model.safetensors.index.json");
        edit_json(&index, |value| {
            let outside = "../vae/diffusion_pytorch_model.safetensors";
            value["weight_map"]["proj_out.bias"] = json!(outside);
        });
    });
    assert!(err.to_string().contains("beside the index"), "{err}");
}

#[test]
fn pickle_files_are_refused_with_a_hint_to_use_safetensors() {
    for name in ["diffusion_pytorch_model.bin", "model.PTH", "a.ckpt", "b.pt"] {
        let err = after(|folder| {
            fs::remove_file(folder.join(TRANSFORMER)).unwrap();
            fs::write(folder.join("transformer").join(name), b"\x80\x02").unwrap();
        });
        let text = err.to_string();
        assert!(matches!(err, CatalogError::Pickle { .. }), "{text}");
        assert!(text.contains("use the .safetensors version"), "{text}");
    }
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("wan.pth");
    fs::write(&file, b"").unwrap();
    let err = ModelSpec::open(&file).unwrap_err();
    assert!(matches!(err, CatalogError::Pickle { .. }));
}

#[test]
fn configs_that_do_not_fit_each_other_are_refused() {
    for (change, part) in table(
        "transformer in_channels 48 -> z_dim
         transformer text_dim 7 -> d_model
         transformer num_layers 0 -> num_layers
         transformer num_layers -1 -> transformer
         transformer num_attention_heads 9223372036854775807 -> heads
         transformer patch_size [2,2,2] -> patch_size
         transformer patch_size [1,0,2] -> patch_size
         transformer ffn_dim 18446744073709551615 -> transformer
         transformer ffn_dim \"wide\" -> transformer
         vae z_dim 16 -> z_dim
         vae dim_mult [] -> dim_mult
         vae base_dim 1e300 -> vae
         vae patch_size 1 -> in_channels
         vae is_residual false -> down_blocks.0.norm1
         text_encoder vocab_size 18 -> shared.weight
         text_encoder model_type \"t5\" -> umt5
         text_encoder num_layers 1 -> layers",
    ) {
        let [component, key, value] = change.split(' ').collect::<Vec<_>>()[..] else {
            panic!("{change}");
        };
        let value: Value = serde_json::from_str(value).unwrap();
        assert_refused(component, key, value, part);
    }
    assert_refused("vae", "dim_mult", json!(vec![1; 70]), "dim_mult");
}

/// That a config with this value is of a bad model, in a sentence with `part`.
fn assert_refused(component: &str, key: &str, value: Value, part: &str) {
    let config = format!("{component}/config.json");
    let err = after(|folder| edit_json(&folder.join(config), |config| config[key] = value));
    assert!(err.to_string().contains(part), "{component} {key}: {err}");
    assert_eq!(JobError::from(&err).kind, JobErrorKind::BadModel);
}

#[test]
fn a_tokenizer_whose_ids_the_embedding_does_not_have_is_refused() {
    let err = after(|folder| {
        edit_json(&folder.join("tokenizer/tokenizer.json"), |file| {
            file["added_tokens"][0]["id"] = json!(20);
        });
    });
    assert!(err.to_string().contains("has 21"), "{err}");
}

#[test]
fn unsupported_models_are_refused_with_their_name() {
    for (class, part) in [
        ("WanAnimatePipeline", "Animate"),
        ("WanSpeechToVideoPipeline", "S2V"),
        ("HunyuanVideoPipeline", "HunyuanVideo"),
        ("StableDiffusionPipeline", "Stable Diffusion"),
        ("SomethingNewPipeline", "SomethingNewPipeline"),
    ] {
        let err = after(|folder| {
            edit_json(&folder.join("model_index.json"), |index| {
                index["_class_name"] = json!(class);
            });
        });
        let text = err.to_string();
        assert!(matches!(err, CatalogError::Unsupported { .. }), "{text}");
        assert!(text.contains(part), "{text}");
        assert!(text.contains("Safelight cannot run"), "{text}");
    }
    let quantised = after(|folder| {
        edit_json(&folder.join("transformer/config.json"), |cfg| {
            cfg["quantization_config"] = json!({"quant_method": "auto-round"});
        });
    });
    assert!(quantised.to_string().contains("quantised"), "{quantised}");
}

#[test]
fn single_files_and_original_checkpoints_are_named() {
    let root = tempfile::tempdir().unwrap();
    let folder = write_pipeline(&root.path().join("m"));
    let vae = folder.join("vae/diffusion_pytorch_model.safetensors");
    assert_not_opened(&vae, &["a Wan VAE alone"]);
    // A transformer within its diffusers folder is as good as the folder.
    let spec = ModelSpec::open(&folder.join(TRANSFORMER)).unwrap();
    assert_eq!(spec.folder, folder);
    let gguf = root.path().join("flux.gguf");
    fs::write(&gguf, b"GGUF\x03\0\0\0").unwrap();
    assert_not_opened(&gguf, &["this GGUF file is damaged"]);
    let original = root.path().join("original");
    let config = json!({"_class_name": "WanModel"});
    write_json(&original.join("config.json"), &config);
    assert_not_opened(&original, &["a weight file"]);
}

#[test]
fn inspect_report_lists_every_problem_and_the_intact_components() {
    let root = tempfile::tempdir().unwrap();
    let folder = write_pipeline(root.path());
    let whole = IdentityCard::read(&folder).unwrap();
    assert!(whole.is_runnable && whole.problems.is_empty());
    assert_eq!(whole.components.len(), 3);
    assert_eq!(whole.variant, "TI2V");
    let transformer = &whole.components[1];
    let sizes = transformer_shapes().into_values();
    let expected: u64 = sizes.map(|shape| shape.iter().product::<u64>()).sum();
    assert_eq!(transformer.parameters, expected);
    assert_eq!(transformer.dtypes["F32"], expected);
    fs::remove_file(folder.join("vae/diffusion_pytorch_model.safetensors")).unwrap();
    fs::write(folder.join("text_encoder/model.safetensors"), b"short").unwrap();
    let card = IdentityCard::read(&folder).unwrap();
    assert!(!card.is_runnable);
    assert_eq!(card.components.len(), 1);
    let problems = card.problems.join("\n");
    assert!(problems.contains("vae"), "{problems}");
    assert!(problems.contains("text_encoder"), "{problems}");
    let file = IdentityCard::read(&folder.join(TRANSFORMER)).unwrap();
    assert_eq!(file.kind, "safetensors file");
    assert_eq!(file.family.as_str(), "wan");
    assert_eq!(file.parameters, expected);
}

#[test]
fn a_card_of_a_wider_transformer_names_the_published_variant() {
    let root = tempfile::tempdir().unwrap();
    let mut shapes = Shapes::new();
    let key = "model.diffusion_model.patch_embedding.weight";
    shapes.insert(key.into(), vec![3072, 48, 1, 1, 1]);
    let key = "model.diffusion_model.blocks.0.self_attn.q.weight";
    shapes.insert(key.into(), vec![1, 1]);
    let path = write(&root.path().join("x.safetensors"), &shapes, "F32");
    let card = IdentityCard::read(&path).unwrap();
    assert!(card.what.contains("Wan 2.2 TI2V 5B"), "{}", card.what);
}

#[test]
fn non_model_files_are_identified_by_their_first_bytes() {
    let root = tempfile::tempdir().unwrap();
    // Begins as a JPEG XL image does, by the length of its header.
    let len = 2815_u64.to_le_bytes();
    let header = [&len[..], br#"{"a":{"dtype":"U8","shape":[9]"#].concat();
    let bytes_of = |text: &str| match text {
        "pointer" => {
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n".to_vec()
        }
        "image" => b"\x89PNG\r\n\x1a\n....".to_vec(),
        "header" => header.clone(),
        "zeros" => vec![0; 9],
        "ones" => vec![0xff; 64],
        text => text.as_bytes().to_vec(),
    };
    for (row, found) in table(
        "video.mp4 \0\0\0\x18ftypisom\0\0\0\0isommp42 -> this is an MP4 video, not a model
         x.gguf ones -> this is a file that is named .gguf and does not begin as one
         y.gguf  -> this GGUF file is damaged: the file is empty
         z.gguf image -> this is a PNG image
         a.safetensors <html>Sign in</html> -> this is a web page
         b.safetensors pointer -> this is a Git LFS pointer, not a model
         c.safetensors header -> this safetensors file is damaged
         e.safetensors zeros -> damaged: its header is empty
         d.safetensors ones -> this is a file of an unknown kind, not a model",
    ) {
        let (name, text) = row.split_once(' ').unwrap();
        let path = root.path().join(name);
        fs::write(&path, bytes_of(text)).unwrap();
        for err in [
            IdentityCard::read(&path).unwrap_err(),
            ModelSpec::open(&path).unwrap_err(),
        ] {
            let text = err.to_string();
            assert!(text.contains(found) && text.ends_with(name), "{text}");
            let is_incomplete = advice_for(&err).contains("incomplete");
            assert_eq!(is_incomplete, found.contains("damaged"), "{name}");
        }
    }
}
