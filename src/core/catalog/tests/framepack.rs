//! Both published FramePack models in every layout: recognised, completed, described; and every tensor of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use super::flux_files::{
    behind, catalog_of, clip_config, edited, framepack_shapes, shapes, shipped,
};
use super::made_up::{Shapes, clip_vision, comfy_tree, write};
use super::tiny::{edit_json, write_json};
use crate::catalog::framepack::{check_part, tensors_of};
use crate::catalog::{
    CatalogError, Companions, Component, Family, Guidance, IdentityCard, InputUse, ModelSpec,
    WeightSet, component_config,
};
use crate::job::{Sampler, SectionOrder};

/// A tokenizer with as many ids as Llama 3 has.
fn write_llama_tokenizer(folder: &Path) {
    let last = json!({"model": {"type": "BPE", "vocab": {"a": 0, "z": 128_257}, "merges": []}});
    write_json(&folder.join("tokenizer.json"), &last);
}

/// ComfyUI's `models` folder with every companion that FramePack needs, and no transformer.
fn framepack_tree(models: &Path) -> PathBuf {
    let vae = models.join("vae/hunyuan_video_vae_bf16.safetensors");
    write(&vae, &framepack_shapes("vae comfy"), "BF16");
    let text = models.join("text_encoders");
    let llama = text.join("llava_llama3_fp16.safetensors");
    write(&llama, &framepack_shapes("llama"), "F16");
    write_llama_tokenizer(&text.join("llama-3"));
    write(&text.join("clip_l.safetensors"), &shapes("clip_l"), "F16");
    let vision = models.join("clip_vision/sigclip_vision_patch14_384.safetensors");
    write(&vision, &framepack_shapes("siglip"), "F16");
    models.to_owned()
}

fn transformer_in(models: &Path, name: &str) -> PathBuf {
    let place = models.join(format!("diffusion_models/{name}.safetensors"));
    write(&place, &framepack_shapes("transformer diffusers"), "BF16")
}

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
        check_part(component, &place, &weights).unwrap();
        let known: Shapes = tensors_of(component, &place, &weights)
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
        let known = tensors_of(component, &place, &weights);
        // What comes in lists is looked at once. Without the mark it is a HunyuanVideo.
        let first = |key: &&String| {
            let is_later = key.contains("blocks.1") || key.contains("layers.1");
            !is_later && *key != "clean_x_embedder.proj.weight"
        };
        for key in known.iter().map(|(key, _)| key).filter(first) {
            let entry = weights.tensors.remove(key).unwrap();
            let refusal = |weights: &WeightSet| {
                let err = check_part(component, &place, weights).unwrap_err();
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
        check_part(component, &place, &weights).unwrap();
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
            (Family::FramePack, variant)
        );
        assert_eq!((spec.section_order, spec.end_image), (Some(order), end));
        assert_eq!(spec.start_image, InputUse::Required);
        assert_eq!(spec.guidance, Guidance::Distilled);
        assert!(spec.licence.contains("Tencent Hunyuan") && spec.licence.contains("Llama 3"));
        let defaults = &spec.defaults;
        assert_eq!((defaults.num_steps, defaults.guidance_scale), (25, 10.0));
        assert_eq!(
            (defaults.sampler, defaults.shift),
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
        assert_eq!(spec.defaults.num_steps, 25);
        let config = component_config(Family::FramePack, Component::Transformer, &place).unwrap();
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
        component_config(Family::FramePack, component, &models.join(place)).unwrap()
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

/// The parts of HunyuanVideo's repository that FramePack fetches, in its folder.
fn write_parts(folder: &Path) {
    let weights = |part: &str, name: &str, shapes: &Shapes| {
        write(&folder.join(part).join(name), shapes, "F16");
    };
    weights(
        "text_encoder",
        "model.safetensors",
        &framepack_shapes("llama"),
    );
    write_json(
        &folder.join("text_encoder/config.json"),
        &json!({
            "architectures": ["LlamaModel"], "model_type": "llama", "vocab_size": 128_320,
            "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8,
        }),
    );
    weights("text_encoder_2", "model.safetensors", &shapes("clip_l"));
    write_json(&folder.join("text_encoder_2/config.json"), &clip_config());
    let vae = "diffusion_pytorch_model.safetensors";
    weights("vae", vae, &framepack_shapes("vae diffusers"));
    write_json(
        &folder.join("vae/config.json"),
        &json!({"_class_name": "AutoencoderKLHunyuanVideo"}),
    );
    write_llama_tokenizer(&folder.join("tokenizer"));
    let clip = folder.join("tokenizer_2");
    fs::create_dir_all(&clip).unwrap();
    for name in ["vocab.json", "merges.txt"] {
        fs::copy(shipped("clip-l").join(name), clip.join(name)).unwrap();
    }
}

fn write_siglip(folder: &Path) {
    let weights = folder.join("image_encoder/model.safetensors");
    write(&weights, &framepack_shapes("siglip"), "F16");
    write_json(
        &folder.join("image_encoder/config.json"),
        &json!({
            "model_type": "siglip_vision_model", "hidden_size": 1152, "intermediate_size": 4304,
            "num_hidden_layers": 27, "num_attention_heads": 16, "image_size": 384, "patch_size": 14,
        }),
    );
    let processor = folder.join("feature_extractor/preprocessor_config.json");
    write_json(&processor, &json!({"size": {"height": 384, "width": 384}}));
}

fn write_transformer(folder: &Path, class: &str) {
    let name = "diffusion_pytorch_model.safetensors";
    write(
        &folder.join(name),
        &framepack_shapes("transformer diffusers"),
        "BF16",
    );
    write_json(
        &folder.join("config.json"),
        &json!({
            "_class_name": class, "has_image_proj": true, "has_clean_x_embedder": true,
            "rope_axes_dim": [16, 56, 56],
        }),
    );
}

#[test]
fn framepacks_own_downloads_make_both_models() {
    let root = tempfile::tempdir().unwrap();
    let hub = root.path().join("FramePack/hf_download/hub");
    let snapshot = |repository: &str| hub.join(format!("models--{repository}/snapshots/abc"));
    let own_class = "HunyuanVideoTransformer3DModelPacked";
    for repository in [
        "lllyasviel--FramePackI2V_HY",
        "lllyasviel--FramePack_F1_I2V_HY_20250503",
    ] {
        write_transformer(&snapshot(repository), own_class);
    }
    let hunyuan = snapshot("hunyuanvideo-community--HunyuanVideo");
    write_parts(&hunyuan);
    let redux = snapshot("lllyasviel--flux_redux_bfl");
    write_siglip(&redux);
    let catalog = catalog_of(&hub);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    for id in ["framepack-i2v", "framepack-f1"] {
        let files = catalog.find(id).unwrap().files;
        assert_eq!(files.text_encoder, hunyuan.join("text_encoder"), "{id}");
        assert_eq!(files.tokenizer, hunyuan.join("tokenizer"));
        assert_eq!(files.text_encoder_2, Some(hunyuan.join("text_encoder_2")));
        assert_eq!(files.tokenizer_2, Some(hunyuan.join("tokenizer_2")));
        assert_eq!(files.vae, hunyuan.join("vae"));
        assert_eq!(files.image_encoder, Some(redux.join("image_encoder")));
    }
    // Repositories in folders of their own, which the user names.
    let place = snapshot("lllyasviel--FramePack_F1_I2V_HY_20250503");
    let companions = Companions {
        text_encoder_2: Some(hunyuan.join("text_encoder_2")),
        image_encoder: Some(redux.join("image_encoder")),
        ..Companions::default()
    };
    let spec = catalog.open_with(&place.to_string_lossy(), &companions);
    assert_eq!(spec.unwrap().variant, "F1");
}

fn write_folder(folder: &Path) {
    let class = "HunyuanVideoFramepackTransformer3DModel";
    write_transformer(&folder.join("transformer"), class);
    write_parts(folder);
    write_siglip(folder);
    write_json(
        &folder.join("scheduler/scheduler_config.json"),
        &json!({"_class_name": "FlowMatchEulerDiscreteScheduler", "shift": 7.0}),
    );
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": "HunyuanVideoFramepackPipeline",
            "feature_extractor": ["transformers", "SiglipImageProcessor"],
            "image_encoder": ["transformers", "SiglipVisionModel"],
            "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
            "text_encoder": ["transformers", "LlamaModel"],
            "text_encoder_2": ["transformers", "CLIPTextModel"],
            "tokenizer": ["transformers", "LlamaTokenizerFast"],
            "tokenizer_2": ["transformers", "CLIPTokenizer"],
            "transformer": ["diffusers", class],
            "vae": ["diffusers", "AutoencoderKLHunyuanVideo"],
        }),
    );
}

#[test]
fn a_diffusers_folder_is_a_model_with_its_own_schedule_and_refused_where_a_part_does_not_fit() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("my-framepack");
    write_folder(&folder);
    let spec = ModelSpec::open(&folder).unwrap();
    let defaults = &spec.defaults;
    assert_eq!(
        (defaults.sampler, defaults.shift),
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
        config["use_dynamic_shifting"] = json!(true)
    });
    assert_eq!(ModelSpec::open(&folder).unwrap().defaults.shift, None);
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
            json!(1280),
            "1280",
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

#[test]
fn missing_and_wrong_parts_are_told_with_the_file_to_get() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    let place = transformer_in(&models, "FramePackI2V_HY_fp8_e4m3fn");
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    for name in [
        "hunyuan_video_vae_bf16.safetensors",
        "llava_llama3_fp8_scaled.safetensors",
        "clip_l.safetensors",
        "sigclip_vision_patch14_384.safetensors",
    ] {
        assert!(text.contains(name), "{text}");
    }
    framepack_tree(&models);
    ModelSpec::open(&place).unwrap();
    let other =
        |name: &str, shapes: &Shapes| write(&models.join("other").join(name), shapes, "F16");
    let key = "model.embed_tokens.weight";
    let qwen = edited(framepack_shapes("llama"), key, &[152_064, 4096]);
    let qwen = other("qwen.safetensors", &qwen);
    let clip_h = other("clip_h.safetensors", &clip_vision());
    let ae = other("ae.safetensors", &shapes("ae"));
    let text_encoder = Companions {
        text_encoder: Some(qwen),
        ..Companions::default()
    };
    let image_encoder = Companions {
        image_encoder: Some(clip_h),
        ..Companions::default()
    };
    let vae = Companions {
        vae: Some(ae),
        ..Companions::default()
    };
    let nothing = tempfile::tempdir().unwrap();
    for (companions, right, found) in [
        (text_encoder, "llava_llama3", "152064 words"),
        (image_encoder, "sigclip_vision", "an image encoder"),
        (vae, "hunyuan_video_vae", "an image VAE"),
    ] {
        let catalog = catalog_of(nothing.path());
        let err = catalog.open_with(&place.to_string_lossy(), &companions);
        let text = err.unwrap_err().to_string();
        assert!(text.contains(right) && text.contains(found), "{text}");
    }
    fs::remove_dir_all(models.join("text_encoders/llama-3")).unwrap();
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(text.contains("the tokenizer of Llama 3"), "{text}");
}

#[test]
fn hunyuanvideo_itself_is_named_and_refused_and_wan_does_not_take_framepacks_parts() {
    let root = tempfile::tempdir().unwrap();
    let models = framepack_tree(&root.path().join("models"));
    comfy_tree(&models);
    for name in ["diffusers", "hunyuan", "comfy"] {
        let mut shapes = framepack_shapes(&format!("transformer {name}"));
        shapes.retain(|key, _| !key.contains("clean_x_embedder") && !key.contains("image_proj"));
        let place = models.join(format!("unet/{name}.safetensors"));
        write(&place, &shapes, "BF16");
        let err = ModelSpec::open(&place).unwrap_err();
        assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
        assert!(err.to_string().contains("HunyuanVideo"), "{err}");
    }
    let wan = models.join("unet/wan2.1_i2v_480p_14B_fp16.safetensors");
    write(
        &wan,
        &super::made_up::transformer(super::made_up::I2V_14B),
        "F16",
    );
    let files = ModelSpec::open(&wan).unwrap().files;
    let clip_h = models.join("clip_vision/clip_vision_h.safetensors");
    assert_eq!(files.image_encoder, Some(clip_h));
}
