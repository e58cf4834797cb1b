//! Both published FramePack models in every layout: recognised, completed, described; and every tensor of them.

use serde_json::json;

use crate::families::flux::tests::files::{framepack_shapes, shapes};
use crate::families::framepack::tests::files::{framepack_tree, transformer_in, write_folder};
use crate::families::framepack::{self, LANGUAGE};
use crate::job::{SamplerKind, SectionOrder};
use crate::model::{GuidanceMode, InputUse, ModelSpec};
use crate::networks::{
    ClipTextConfig, FramePackTransformerConfig, HunyuanVaeConfig, LanguageConfig,
    NetworkConfig as _, SiglipConfig,
};
use crate::testing::made_up::write;
use crate::testing::pipelines::edit_json;
use crate::testing::published::{
    assert_changes_refused, assert_described, assert_is_read, assert_is_read_but, assert_needs_all,
    assert_needs_all_read, assert_needs_parts, behind, faultless_catalog, json_of, shipped,
};

#[test]
fn no_tensor_of_a_published_file_is_missing_or_unexpected_in_any_dialect() {
    for (prefix, name) in [
        ("", "vae diffusers"),
        ("", "vae comfy"),
        ("vae.", "vae comfy"),
    ] {
        assert_is_read::<HunyuanVaeConfig>(&behind(prefix, &framepack_shapes(name)), name);
    }
    // The last two layers, the last norm and the pooling head are not read.
    let spare = ["layers.30.", "layers.31.", "model.norm."];
    for prefix in ["", "language_model."] {
        let llama = behind(prefix, &framepack_shapes("llama"));
        assert_is_read_but(|place| LANGUAGE.read(place), &llama, &spare, prefix);
    }
    assert_is_read::<ClipTextConfig>(&shapes("clip_l"), "CLIP");
    let siglip = framepack_shapes("siglip");
    assert_is_read_but(SiglipConfig::read, &siglip, &[".head."], "SigLIP");
    for dialect in ["diffusers", "hunyuan", "comfy"] {
        let bare = framepack_shapes(&format!("transformer {dialect}"));
        for prefix in ["", "model.model.", "model.diffusion_model.", "transformer."] {
            assert_is_read::<FramePackTransformerConfig>(&behind(prefix, &bare), dialect);
        }
    }
}

#[test]
fn a_part_without_any_one_of_its_tensors_or_of_another_shape_is_refused_by_its_name() {
    // Without its mark it is another network.
    let is_looked_at = |key: &str| {
        let is_later = key.contains("blocks.1") || key.contains("layers.1");
        let marks = [
            "clean_x_embedder.proj.weight",
            "model.layers.0.input_layernorm.weight",
        ];
        !is_later && !marks.contains(&key)
    };
    let own = framepack_shapes;
    assert_needs_all::<FramePackTransformerConfig>(&own("transformer comfy"), is_looked_at);
    assert_needs_all::<HunyuanVaeConfig>(&own("vae diffusers"), is_looked_at);
    assert_needs_all_read(|place| LANGUAGE.read(place), &own("llama"), is_looked_at);
    assert_needs_all::<SiglipConfig>(&own("siglip"), is_looked_at);
}

#[test]
fn both_published_models_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = framepack_tree(&root.path().join("models"));
    transformer_in(&models, "FramePackI2V_HY_bf16");
    transformer_in(&models, "FramePack_F1_I2V_HY_20250503_fp8_e4m3fn");
    let catalog = faultless_catalog(&models, 2);
    let (original, f1) = (SectionOrder::Original, SectionOrder::F1);
    for (id, variant, order, end) in [
        ("framepack-i2v", "I2V", original, InputUse::Optional),
        ("framepack-f1", "F1", f1, InputUse::No),
    ] {
        let spec = catalog.find(id).unwrap();
        let kind = (spec.family, &spec.variant[..]);
        assert_eq!(kind, (framepack::FAMILY, variant));
        assert_eq!((spec.section_order, spec.end_image), (Some(order), end));
        assert_eq!(spec.start_image, InputUse::Required);
        assert_eq!(spec.guidance, GuidanceMode::Distilled);
        assert!(spec.licence.contains("Tencent Hunyuan") && spec.licence.contains("Llama 3"));
        let (defaults, sampling) = (&spec.defaults, &spec.defaults.sampling);
        assert_eq!((sampling.num_steps, sampling.guidance_scale), (25, 10.0));
        let found = (sampling.sampler, sampling.shift);
        assert_eq!(found, (SamplerKind::UniPcBh1, None));
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
        assert_eq!((&spec.name[..], &spec.variant[..]), ("any name", "I2V"));
        assert_eq!(spec.defaults.sampling.num_steps, 25);
        let config = FramePackTransformerConfig::read(&place).unwrap();
        assert_eq!(config, FramePackTransformerConfig::default(), "{name}");
    }
    let vae = models.join("vae/hunyuan_video_vae_bf16.safetensors");
    let vae = HunyuanVaeConfig::read(&vae).unwrap();
    assert_eq!(vae, HunyuanVaeConfig::default());
    let llama = models.join("text_encoders/llava_llama3_fp16.safetensors");
    let read = serde_json::to_value(LANGUAGE.read(&llama).unwrap()).unwrap();
    let llama = serde_json::to_value(LanguageConfig::llama3(LANGUAGE.tap)).unwrap();
    let sizes = "vocab_size hidden_size intermediate_size num_hidden_layers num_attention_heads num_key_value_heads";
    for key in sizes.split(' ') {
        assert_eq!(read[key], llama[key], "{key}");
    }
    let siglip = models.join("clip_vision/sigclip_vision_patch14_384.safetensors");
    let found = json_of::<SiglipConfig>(&siglip);
    assert_eq!(found, json!(SiglipConfig::default()));
}

#[test]
fn a_diffusers_folder_is_a_model_with_its_own_schedule_and_refused_where_a_part_does_not_fit() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("my-framepack");
    write_folder(&folder);
    let spec = ModelSpec::open(&folder).unwrap();
    let sampling = &spec.defaults.sampling;
    let found = (sampling.sampler, sampling.shift);
    assert_eq!(found, (SamplerKind::Euler, Some(7.0)));
    let processor = folder.join("feature_extractor");
    assert_eq!(spec.files.image_processor, Some(processor));
    assert_described(&folder, "framepack", "I2V", "a FramePack I2V model");
    let scheduler = folder.join("scheduler/scheduler_config.json");
    edit_json(&scheduler, |config| {
        config["use_dynamic_shifting"] = json!(true);
    });
    let spec = ModelSpec::open(&folder).unwrap();
    assert_eq!(spec.defaults.sampling.shift, None);
    assert_changes_refused(
        &folder,
        "transformer/config num_layers 19 -> 19 layers
         transformer/config patch_size_t 2 -> patch_size_t
         transformer/config rope_axes_dim [16, 56, 54] -> rope_axes_dim
         transformer/config has_clean_x_embedder false -> clean_x_embedder
         transformer/config image_proj_dim 1280 -> 1280
         vae/config latent_channels 8 -> one of 8
         vae/config temporal_compression_ratio 8 -> temporal_compression_ratio 4
         text_encoder/config model_type \"qwen2\" -> qwen2
         text_encoder/config vocab_size 32000 -> 32000
         text_encoder_2/config hidden_size 960 -> one of 960
         image_encoder/config hidden_size 768 -> 768
         scheduler/scheduler_config _class_name \"DDIM\" -> DDIM",
    );
    let parts = ["feature_extractor", "image_encoder", "tokenizer", "vae"];
    assert_needs_parts(&folder, &parts);
}
