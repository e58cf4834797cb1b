//! Both published FramePack models in every layout: recognised, completed, described; and every tensor of them.

use std::fs;

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::flux::tests::files::{framepack_shapes, shapes};
use crate::families::framepack;
use crate::families::framepack::tests::files::{framepack_tree, transformer_in, write_folder};
use crate::formats::weights::WeightSet;
use crate::job::{Sampler, SectionOrder};
use crate::model::{Component, Guidance, InputUse, ModelSpec};
use crate::testing::made_up::{Shapes, write};
use crate::testing::networks::{check_part, config_of, tensors_of};
use crate::testing::pipelines::edit_json;
use crate::testing::published::{behind, catalog_of, shipped};

#[test]
fn no_tensor_of_a_published_file_is_missing_or_unexpected_in_any_dialect() {
    use Component::{ImageEncoder, TextEncoder, TextEncoder2, Transformer, Vae};
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    let llama = framepack_shapes("llama");
    let mut files = vec![
        (Vae, framepack_shapes("vae diffusers")),
        (Vae, framepack_shapes("vae comfy")),
        (Vae, behind("vae.", &framepack_shapes("vae comfy"))),
        (TextEncoder, behind("language_model.", &llama)),
        (TextEncoder, llama),
        (TextEncoder2, shapes("clip_l")),
        (ImageEncoder, framepack_shapes("siglip")),
    ];
    for dialect in ["diffusers", "hunyuan", "comfy"] {
        let bare = framepack_shapes(&format!("transformer {dialect}"));
        for prefix in ["model.model.", "model.diffusion_model.", "transformer."] {
            files.push((Transformer, behind(prefix, &bare)));
        }
        files.push((Transformer, bare));
    }
    for (component, shapes) in files {
        write(&place, &shapes, "F16");
        let weights = WeightSet::at(&place).unwrap();
        check_part(framepack::FAMILY, component, &place, &weights).unwrap();
        let known: Shapes = tensors_of(framepack::FAMILY, component, &place, &weights)
            .into_iter()
            .collect();
        for (key, shape) in &known {
            // diffusers keeps the attention's convolutions of one pixel as matrices.
            let is_matrix = key.contains("mid_block.attentions.0.to_") && shape.len() == 5;
            let shape = if is_matrix { &shape[..2] } else { shape };
            let found = shapes.get(key).map(Vec::as_slice);
            assert_eq!(found, Some(shape), "{component:?} {key}");
        }
        for key in shapes.keys().filter(|key| !known.contains_key(*key)) {
            // The last two layers, the last norm and the pooling head are not read.
            let spare = ["layers.30.", "layers.31.", "model.norm.", ".head."];
            let is_spare = spare.iter().any(|spare| key.contains(spare));
            assert!(is_spare && component != Transformer, "{component:?} {key}");
        }
    }
}

#[test]
fn a_part_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("x.safetensors");
    for (component, name) in [
        (Component::Transformer, "transformer comfy"),
        (Component::Vae, "vae diffusers"),
        (Component::TextEncoder, "llama"),
        (Component::ImageEncoder, "siglip"),
    ] {
        let shapes = framepack_shapes(name);
        write(&place, &shapes, "F16");
        let mut weights = WeightSet::at(&place).unwrap();
        let known = tensors_of(framepack::FAMILY, component, &place, &weights);
        // What comes in lists is looked at once. Without its mark it is another network.
        let first = |key: &&String| {
            let is_later = key.contains("blocks.1") || key.contains("layers.1");
            let marks = [
                "clean_x_embedder.proj.weight",
                "model.layers.0.input_layernorm.weight",
            ];
            !is_later && !marks.contains(&key.as_str())
        };
        for key in known.iter().map(|(key, _)| key).filter(first) {
            let entry = weights.tensors.remove(key).unwrap();
            let refusal = |weights: &WeightSet| {
                let err = check_part(framepack::FAMILY, component, &place, weights).unwrap_err();
                err.to_string()
            };
            assert!(refusal(&weights).contains(key.as_str()), "{key}");
            let mut wrong = entry.clone();
            wrong.shape[0] += 1;
            weights.tensors.insert(key.clone(), wrong);
            let text = refusal(&weights);
            assert!(text.contains(key.as_str()), "{key}: {text}");
            weights.tensors.insert(key.clone(), entry);
        }
        check_part(framepack::FAMILY, component, &place, &weights).unwrap();
    }
}

#[test]
fn both_published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = framepack_tree(&root.path().join("models"));
    transformer_in(&models, "FramePackI2V_HY_bf16");
    transformer_in(&models, "FramePack_F1_I2V_HY_20250503_fp8_e4m3fn");
    let catalog = catalog_of(&models);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), 2);
    for (id, variant, order, end) in [
        (
            "framepack-i2v",
            "I2V",
            SectionOrder::Original,
            InputUse::Optional,
        ),
        ("framepack-f1", "F1", SectionOrder::F1, InputUse::No),
    ] {
        let spec = catalog.find(id).unwrap();
        assert_eq!(
            (spec.family, spec.variant.as_str()),
            (framepack::FAMILY, variant)
        );
        assert_eq!((spec.section_order, spec.end_image), (Some(order), end));
        assert_eq!(spec.start_image, InputUse::Required);
        assert_eq!(spec.guidance, Guidance::Distilled);
        assert!(spec.licence.contains("Tencent Hunyuan") && spec.licence.contains("Llama 3"));
        let defaults = &spec.defaults;
        assert_eq!(
            (
                defaults.sampling.num_steps,
                defaults.sampling.guidance_scale
            ),
            (25, 10.0)
        );
        assert_eq!(
            (defaults.sampling.sampler, defaults.sampling.shift),
            (Sampler::UniPcBh1, None)
        );
        assert_eq!((defaults.fps, defaults.num_frames), (30.0, 145));
        assert_eq!(spec.limits.size_multiple, 16);
        assert_eq!(spec.latent_rgb.as_ref().unwrap().factors.len(), 16);
        let text = models.join("text_encoders");
        let files = &spec.files;
        let llama = text.join("llava_llama3_fp16.safetensors");
        assert_eq!(files.text_encoder, llama);
        assert_eq!(files.tokenizer, text.join("llama-3"));
        assert_eq!(files.text_encoder_2, Some(text.join("clip_l.safetensors")));
        assert_eq!(files.tokenizer_2, Some(shipped("clip-l")));
        let vision = "clip_vision/sigclip_vision_patch14_384.safetensors";
        assert_eq!(files.image_encoder, Some(models.join(vision)));
        let vae = "vae/hunyuan_video_vae_bf16.safetensors";
        assert_eq!(files.vae, models.join(vae));
    }
}

#[test]
fn a_transformer_is_the_same_in_every_dialect_and_its_config_is_the_published_one() {
    let root = tempfile::tempdir().unwrap();
    let models = framepack_tree(root.path());
    let place = models.join("unet/any name.safetensors");
    for name in ["diffusers", "hunyuan", "comfy"] {
        let shapes = framepack_shapes(&format!("transformer {name}"));
        write(&place, &behind("model.model.", &shapes), "BF16");
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(
            (spec.name.as_str(), spec.variant.as_str()),
            ("any name", "I2V")
        );
        assert_eq!(spec.defaults.sampling.num_steps, 25);
        let config = config_of(framepack::FAMILY, Component::Transformer, &place).unwrap();
        for (key, value) in [
            ("in_channels", json!(16)),
            ("out_channels", json!(16)),
            ("num_attention_heads", json!(24)),
            ("attention_head_dim", json!(128)),
            ("num_layers", json!(20)),
            ("num_single_layers", json!(40)),
            ("num_refiner_layers", json!(2)),
            ("mlp_ratio", json!(4.0)),
            ("patch_size", json!(2)),
            ("patch_size_t", json!(1)),
            ("guidance_embeds", json!(true)),
            ("text_embed_dim", json!(4096)),
            ("pooled_projection_dim", json!(768)),
            ("rope_theta", json!(256.0)),
            ("rope_axes_dim", json!([16, 56, 56])),
            ("image_proj_dim", json!(1152)),
        ] {
            assert_eq!(config[key], value, "{name} {key}");
        }
    }
    let read = |component, place: &str| {
        config_of(framepack::FAMILY, component, &models.join(place)).unwrap()
    };
    let vae = read(Component::Vae, "vae/hunyuan_video_vae_bf16.safetensors");
    assert_eq!(vae["block_out_channels"], json!([128, 256, 512, 512]));
    assert_eq!(
        (&vae["layers_per_block"], &vae["scaling_factor"]),
        (&json!(2), &json!(0.476_986))
    );
    let llama = read(
        Component::TextEncoder,
        "text_encoders/llava_llama3_fp16.safetensors",
    );
    for (key, value) in [
        ("vocab_size", 128_320),
        ("hidden_size", 4096),
        ("intermediate_size", 14336),
        ("num_hidden_layers", 32),
        ("num_attention_heads", 32),
        ("num_key_value_heads", 8),
    ] {
        assert_eq!(llama[key], value, "{key}");
    }
    let siglip = "clip_vision/sigclip_vision_patch14_384.safetensors";
    let siglip = read(Component::ImageEncoder, siglip);
    for (key, value) in [
        ("hidden_size", 1152),
        ("intermediate_size", 4304),
        ("num_hidden_layers", 27),
        ("num_attention_heads", 16),
        ("image_size", 384),
        ("patch_size", 14),
    ] {
        assert_eq!(siglip[key], value, "{key}");
    }
}

#[test]
fn a_diffusers_folder_is_a_model_with_its_own_schedule_and_refused_where_a_part_does_not_fit() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("my-framepack");
    write_folder(&folder);
    let spec = ModelSpec::open(&folder).unwrap();
    let defaults = &spec.defaults;
    assert_eq!(
        (defaults.sampling.sampler, defaults.sampling.shift),
        (Sampler::Euler, Some(7.0))
    );
    assert_eq!(
        spec.files.image_processor,
        Some(folder.join("feature_extractor"))
    );
    let card = IdentityCard::read(&folder).unwrap();
    assert_eq!(
        (card.family.as_str(), card.is_runnable),
        ("framepack", true)
    );
    assert_eq!(card.what, "a FramePack I2V model");
    let scheduler = folder.join("scheduler/scheduler_config.json");
    edit_json(&scheduler, |config| {
        config["use_dynamic_shifting"] = json!(true);
    });
    assert_eq!(
        ModelSpec::open(&folder).unwrap().defaults.sampling.shift,
        None
    );
    for (file, key, value, part) in [
        (
            "transformer/config.json",
            "num_layers",
            json!(19),
            "19 layers",
        ),
        (
            "transformer/config.json",
            "patch_size_t",
            json!(2),
            "patch_size_t",
        ),
        (
            "transformer/config.json",
            "rope_axes_dim",
            json!([16, 56, 54]),
            "rope_axes_dim",
        ),
        (
            "transformer/config.json",
            "has_clean_x_embedder",
            json!(false),
            "clean_x_embedder",
        ),
        (
            "transformer/config.json",
            "image_proj_dim",
            json!(1280),
            "1280",
        ),
        ("vae/config.json", "latent_channels", json!(8), "one of 8"),
        (
            "vae/config.json",
            "temporal_compression_ratio",
            json!(8),
            "4 frames",
        ),
        (
            "text_encoder/config.json",
            "model_type",
            json!("qwen2"),
            "qwen2",
        ),
        (
            "text_encoder/config.json",
            "vocab_size",
            json!(32_000),
            "32000",
        ),
        (
            "text_encoder_2/config.json",
            "hidden_size",
            json!(960),
            "one of 960",
        ),
        (
            "image_encoder/config.json",
            "hidden_size",
            json!(768),
            "768",
        ),
        (
            "scheduler/scheduler_config.json",
            "_class_name",
            json!("DDIM"),
            "DDIM",
        ),
    ] {
        let path = folder.join(file);
        let before = fs::read(&path).unwrap();
        edit_json(&path, |config| config[key] = value.clone());
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{file} {key}: {text}");
        fs::write(&path, before).unwrap();
    }
    for part in ["feature_extractor", "image_encoder", "tokenizer", "vae"] {
        let (here, away) = (folder.join(part), folder.join("away"));
        fs::rename(&here, &away).unwrap();
        let text = ModelSpec::open(&folder).unwrap_err().to_string();
        assert!(text.contains(part), "{text}");
        fs::rename(&away, &here).unwrap();
    }
}
