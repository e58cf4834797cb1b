//! The four kleins in every layout, from names and shapes alone: recognised, completed, described; every tensor of them;
//! and relatives, which are named and refused.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::flux::tests::files::{behind, catalog_of, shapes, shapes_in, shipped};
use crate::families::flux2;
use crate::formats::weights::WeightSet;
use crate::job::{GenerateForm, Sampler};
use crate::library::Companions;
use crate::lora::{LoraFile, Origin};
use crate::model::{Guidance, ImageRole, InputUse, ModelSpec};
use crate::networks::{Flux2TransformerConfig, KlVaeConfig, NetworkConfig as _};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::write_json;
use crate::tokens::{TextReader, TextTokenizer};

mod refused;

/// One of the files in `tests/fixtures/headers/flux2.json`, which `flux2.py` beside it makes, and Z-Image's Qwen 3 4B.
pub(crate) fn own(name: &str) -> Shapes {
    if name == "qwen_3_4b" {
        return crate::families::z_image::tests::own(name);
    }
    let list = include_str!("../../../../../tests/fixtures/headers/flux2.json");
    shapes_in(list, name)
}

/// ComfyUI's `models` folder with every companion, those of other models too, and no transformer.
fn tree(models: &Path) -> PathBuf {
    let vae = models.join("vae");
    write(&vae.join("ae.safetensors"), &shapes("ae"), "F32");
    write(&vae.join("flux2-vae.safetensors"), &own("vae"), "F32");
    for name in ["qwen_3_4b", "qwen_3_8b"] {
        let text = models.join(format!("text_encoders/{name}.safetensors"));
        write(&text, &own(name), "BF16");
    }
    models.to_owned()
}

fn transformer_in(models: &Path, name: &str, size: &str) -> PathBuf {
    let place = models.join(format!("diffusion_models/{name}.safetensors"));
    write(&place, &own(&format!("transformer {size}")), "BF16")
}

/// A diffusers folder of the smaller published size.
fn write_folder(folder: &Path, is_distilled: bool) {
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": "Flux2KleinPipeline",
            "is_distilled": is_distilled,
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "Qwen3ForCausalLM"],
            "tokenizer": ["transformers", "Qwen2TokenizerFast"],
            "transformer": ["diffusers", "Flux2Transformer2DModel"],
            "vae": ["diffusers", "AutoencoderKLFlux2"],
        }),
    );
    for (component, config) in [
        (
            "transformer",
            json!({
                "_class_name": "Flux2Transformer2DModel", "num_layers": 5, "num_single_layers": 20,
                "num_attention_heads": 24, "joint_attention_dim": 7680, "guidance_embeds": false,
                "rope_theta": 2000,
            }),
        ),
        (
            "vae",
            json!({
                "_class_name": "AutoencoderKLFlux2", "block_out_channels": [128, 256, 512, 512],
                "layers_per_block": 2, "latent_channels": 32, "norm_num_groups": 32, "batch_norm_eps": 1e-4,
                "patch_size": [2, 2],
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
        &json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 3.0, "use_dynamic_shifting": true}),
    );
    let stem = "diffusion_pytorch_model.safetensors";
    let transformer = own("transformer 4b diffusers");
    write(&folder.join("transformer").join(stem), &transformer, "BF16");
    write(
        &folder.join("vae").join(stem),
        &own("vae diffusers"),
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
    for (size, published, count) in [
        ("4b", Flux2TransformerConfig::klein_4b(), 3_875_544_576_u64),
        ("9b", Flux2TransformerConfig::klein_9b(), 9_078_581_248),
    ] {
        for end in ["", " diffusers"] {
            for prefix in [
                "",
                "model.diffusion_model.",
                "diffusion_model.",
                "transformer.",
            ] {
                let shapes = behind(prefix, &own(&format!("transformer {size}{end}")));
                write(&place, &shapes, "BF16");
                let weights = WeightSet::at(&place).unwrap();
                let config = Flux2TransformerConfig::read(&place).unwrap();
                assert_eq!(config.out_channels, Some(128));
                let config = Flux2TransformerConfig {
                    out_channels: None,
                    ..config
                };
                assert_eq!(config, published, "{prefix}{size}{end}");
                config.check_weights(&weights).unwrap();
                let known = config.tensors(&weights).into_iter();
                let known: Shapes = known.map(|tensor| (tensor.name, tensor.shape)).collect();
                assert_eq!(known, shapes, "{prefix}{size}{end}");
                let numbers = shapes.values().map(|it| it.iter().product::<u64>());
                assert_eq!(numbers.sum::<u64>(), count);
            }
        }
    }
}

#[test]
fn no_tensor_of_a_published_autoencoder_is_missing_or_unexpected_in_any_dialect() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    for (name, prefix) in [
        ("vae", ""),
        ("vae", "vae."),
        ("vae diffusers", ""),
        ("vae small decoder", ""),
    ] {
        let mut shapes = behind(prefix, &own(name));
        write(&place, &shapes, "F32");
        let weights = WeightSet::at(&place).unwrap();
        let config = KlVaeConfig::read(&place).unwrap();
        assert!(config.is_normed() && config.latent_channels == 32, "{name}");
        let small = config.decoder_block_out_channels.is_some();
        assert_eq!(small, name == "vae small decoder");
        config.check_weights(&weights).unwrap();
        // How often the statistics were counted, which nobody reads.
        shapes.remove(&format!("{prefix}bn.num_batches_tracked"));
        let known = config.tensors(&weights).into_iter();
        let known: Shapes = known
            .map(|tensor| {
                // Matrices in diffusers' file.
                let is_matrix = tensor.name.contains(".attentions.0.to_") && tensor.shape.len() > 2;
                let axes = if is_matrix { 2 } else { tensor.shape.len() };
                (tensor.name, tensor.shape[..axes].to_vec())
            })
            .collect();
        assert_eq!(known, shapes, "{name}");
        for key in ["bn.running_var", "encoder.conv_in.weight"] {
            let mut less = behind(prefix, &own(name));
            less.remove(&format!("{prefix}{key}"));
            write(&place, &less, "F32");
            let weights = WeightSet::at(&place).unwrap();
            let text = config.check_weights(&weights).unwrap_err().to_string();
            assert!(text.contains(key), "{text}");
        }
    }
}

#[test]
fn a_transformer_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    write(&place, &own("transformer 4b"), "BF16");
    let config = Flux2TransformerConfig::read(&place).unwrap();
    let mut weights = WeightSet::at(&place).unwrap();
    let keys: Vec<String> = weights.tensors.keys().cloned().collect();
    // What comes in lists is looked at once.
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
    for (name, size) in [
        ("flux-2-klein-4b-fp8", "4b"),
        ("flux-2-klein-base-4b", "4b"),
        ("flux-2-klein-9b", "9b"),
        ("flux-2-klein-base-9b", "9b"),
    ] {
        transformer_in(&models, name, size);
    }
    let catalog = catalog_of(&models);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), 4);
    for (id, variant, steps, guidance, text, licence) in [
        (
            "flux2-klein-4b",
            "klein 4B",
            4,
            1.0,
            "qwen_3_4b",
            "Apache-2.0",
        ),
        (
            "flux2-klein-4b-base",
            "klein 4B base",
            50,
            4.0,
            "qwen_3_4b",
            "Apache-2.0",
        ),
        (
            "flux2-klein-9b",
            "klein 9B",
            4,
            1.0,
            "qwen_3_8b",
            "FLUX Non-Commercial License",
        ),
        (
            "flux2-klein-9b-base",
            "klein 9B base",
            50,
            4.0,
            "qwen_3_8b",
            "FLUX Non-Commercial License",
        ),
    ] {
        let spec = catalog.find(id).unwrap();
        assert_eq!((spec.family, &spec.variant[..]), (flux2::FAMILY, variant));
        assert_eq!(spec.licence, licence);
        let sampling = &spec.defaults.sampling;
        assert_eq!(
            (sampling.num_steps, sampling.guidance_scale),
            (steps, guidance)
        );
        assert_eq!((sampling.shift, sampling.sampler), (None, Sampler::Euler));
        assert_eq!((spec.defaults.width, spec.defaults.height), (1024, 1024));
        assert_eq!(spec.guidance, Guidance::Cfg);
        assert_eq!(
            (spec.start_image, spec.image_role, spec.mask, spec.end_image),
            (
                InputUse::Optional,
                ImageRole::Base,
                InputUse::Optional,
                InputUse::No
            )
        );
        assert_eq!(
            (spec.limits.size_multiple, spec.limits.max_edge),
            (16, 8192)
        );
        assert_eq!(spec.latent_rgb.as_ref().unwrap().factors.len(), 32);
        let files = &spec.files;
        assert_eq!(
            files.text_encoder,
            models.join(format!("text_encoders/{text}.safetensors"))
        );
        assert_eq!(files.vae, models.join("vae/flux2-vae.safetensors"));
        assert_eq!(files.tokenizer, shipped("qwen"));
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
        assert_eq!(checked.request.is_guided(), variant.ends_with("base"));
    }
}

#[test]
fn a_diffusers_folder_says_its_variant_whatever_it_is_called() {
    let root = tempfile::tempdir().unwrap();
    for (name, is_distilled, variant, steps) in [
        ("FLUX.2-klein-base-4B", true, "klein 4B", 4),
        ("my-finetune", false, "klein 4B base", 50),
    ] {
        let folder = root.path().join(name);
        write_folder(&folder, is_distilled);
        let spec = ModelSpec::open(&folder).unwrap();
        assert_eq!(spec.variant, variant);
        assert_eq!(spec.defaults.sampling.num_steps, steps);
        assert_eq!(spec.defaults.sampling.shift, None);
        assert_eq!(spec.files.tokenizer, folder.join("tokenizer"));
    }
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it() {
    let root = tempfile::tempdir().unwrap();
    let mut all = behind("model.diffusion_model.", &own("transformer 4b"));
    all.extend(behind("vae.", &own("vae")));
    all.extend(behind(
        "text_encoders.qwen3_4b.transformer.",
        &own("qwen_3_4b"),
    ));
    let place = root.path().join("checkpoints/klein_all-in-one.safetensors");
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
    let place = transformer_in(&models, "flux-2-klein-9b", "9b");
    let card = IdentityCard::read(&place).unwrap();
    assert_eq!((&card.family[..], &card.variant[..]), ("flux2", "klein 9B"));
    assert!(card.what.contains("FLUX.2 klein 9B"), "{}", card.what);
    assert!(card.is_runnable, "{:?}", card.problems);
    let lacks = |gone: &[&str], missing: &[&str]| {
        for file in gone {
            std::fs::remove_file(models.join(file)).unwrap();
        }
        let card = IdentityCard::read(&place).unwrap();
        let [problem] = &card.problems[..] else {
            panic!("{:?}", card.problems);
        };
        for missing in missing {
            assert!(problem.contains(missing), "{problem}");
        }
    };
    // What is left is of other models.
    let (vae, text) = ("flux2-vae.safetensors", "qwen_3_8b_fp8mixed.safetensors");
    lacks(&["vae/flux2-vae.safetensors"], &[vae, "16 latent channels"]);
    lacks(
        &[
            "vae/ae.safetensors",
            "text_encoders/qwen_3_4b.safetensors",
            "text_encoders/qwen_3_8b.safetensors",
        ],
        &[vae, text],
    );
}

#[test]
fn a_part_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let (small, large) = (
        transformer_in(&models, "flux-2-klein-4b", "4b"),
        transformer_in(&models, "flux-2-klein-9b", "9b"),
    );
    let text = |name: &str| Companions {
        text_encoder: Some(models.join(format!("text_encoders/{name}.safetensors"))),
        ..Companions::default()
    };
    let vae = Companions {
        vae: Some(models.join("vae/ae.safetensors")),
        ..Companions::default()
    };
    for (place, companions, parts) in [
        (
            &small,
            text("qwen_3_8b"),
            ["qwen_3_4b.safetensors", "one of 4096"],
        ),
        (&large, text("qwen_3_4b"), ["qwen_3_8b", "one of 2560"]),
        (&small, vae, ["flux2-vae.safetensors", "16 latent channels"]),
    ] {
        let catalog = catalog_of(root.path());
        let err = catalog.open_with(&place.to_string_lossy(), &companions);
        let text = err.unwrap_err().to_string();
        for part in parts {
            assert!(text.contains(part), "{text}");
        }
    }
}

#[test]
fn a_lora_is_known_by_its_layers_and_counts_where_only_shapes_could_tell() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    for (layer, family) in [
        ("lora_unet_double_stream_modulation_img_lin", "flux2"),
        (
            "transformer.single_transformer_blocks.0.attn.to_qkv_mlp_proj",
            "flux2",
        ),
        ("transformer.transformer_blocks.3.ff.linear_in", "flux2"),
        ("lora_unet_double_blocks_0_img_attn_qkv", "flux"),
    ] {
        let mut shapes = Shapes::new();
        shapes.insert(format!("{layer}.lora_down.weight"), vec![4, 3072]);
        shapes.insert(format!("{layer}.lora_up.weight"), vec![9216, 4]);
        write(&place, &shapes, "BF16");
        let origin = Origin::of(&LoraFile::read(&place).unwrap());
        assert_eq!(origin.family, family, "{layer}");
        assert!((flux2::FAMILY.lora.accepts)(origin.family, &[]), "{layer}");
    }
}

#[test]
fn the_words_around_a_prompt_are_those_of_an_answer_without_a_thought() {
    let tokenizer = TextTokenizer::open(&shipped("qwen"), None, flux2::PROMPT.length()).unwrap();
    let [whole, bare] = [
        flux2::PROMPT.around("a fox"),
        format!("{}a fox", flux2::PROMPT.before),
    ]
    .map(|text| tokenizer.encode(&text).unwrap());
    let count =
        |tokens: &crate::tokens::TokenIds| tokens.mask().iter().filter(|it| **it != 0).count();
    assert_eq!(count(&whole) - count(&bare), flux2::PROMPT.ids_behind);
}
