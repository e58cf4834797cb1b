//! Every published Wan model as single files of its real shapes: recognised, completed, described.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::catalog::IdentityCard;
use crate::job::SamplerKind;
use crate::model::ModelSpec;
use crate::networks::{
    ClipVisionConfig, NetworkConfig as _, T5Config, TransformerKeys, WanTransformerConfig,
    WanVaeConfig,
};
use crate::testing::made_up::{
    Dims, FLF2V_14B, I2V_14B, I2V_EXPERT, T2V_1_3B, T2V_14B, TI2V_5B, VACE_1_3B, VACE_14B,
    comfy_tree, in_dialect, shard_name, transformer, vae, write, write_shards,
};
use crate::testing::pipelines::{catalog_in, write_json};
use crate::testing::published::json_of;

/// Name, shape and storage of a transformer's file.
type TransformerFile = (&'static str, Dims, &'static str);

/// Those of image to video.
pub(super) const I2V_FILES: [TransformerFile; 4] = [
    ("wan2.1_i2v_480p_14B_fp16", I2V_14B, "F16"),
    ("Wan2_1-I2V-14B-720P_fp32", I2V_14B, "F32"),
    ("Wan2_2-I2V-A14B-HIGH_bf16", I2V_EXPERT, "BF16"),
    ("Wan2_2-I2V-A14B-LOW_bf16", I2V_EXPERT, "BF16"),
];

fn write_all(models: &Path) {
    write_models(models, &I2V_FILES);
    let others = [
        ("wan2.1_t2v_1.3B_fp16", T2V_1_3B, "F16"),
        ("wan2.1_t2v_14B_bf16", T2V_14B, "BF16"),
        ("wan2.1_flf2v_720p_14B_fp16", FLF2V_14B, "F16"),
        ("wan2.1_vace_1.3B_fp16", VACE_1_3B, "F16"),
        ("wan2.1_vace_14B_fp16", VACE_14B, "F16"),
        ("wan2.2_fun_vace_high_noise_14B_bf16", VACE_14B, "BF16"),
        ("wan2.2_fun_vace_low_noise_14B_bf16", VACE_14B, "BF16"),
        ("wan2.2_t2v_high_noise_14B_fp16", T2V_14B, "F16"),
        ("wan2.2_t2v_low_noise_14B_fp16", T2V_14B, "F16"),
        ("wan2.2_ti2v_5B_fp16", TI2V_5B, "F16"),
    ];
    write_transformers(models, &others);
}

/// Writes a tree as ComfyUI's with all components and these transformers.
pub(super) fn write_models(models: &Path, files: &[TransformerFile]) {
    comfy_tree(models);
    write_transformers(models, files);
}

fn write_transformers(models: &Path, files: &[TransformerFile]) {
    for (name, dims, dtype) in files {
        let file = models.join(format!("diffusion_models/{name}.safetensors"));
        write(&file, &transformer(*dims), dtype);
    }
}

#[test]
fn every_published_model_is_offered_from_a_comfyui_folder_with_its_official_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    write_all(&models);
    let catalog = catalog_in(&[&models]);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    assert_eq!(catalog.available.len(), 11);
    for (id, expected) in crate::testing::table(
        "wan2.1-t2v-1.3b -> T2V No No No 832x480 81 at 16, 50 steps 5 None 5 []
         wan2.1-t2v-14b -> T2V No No No 1280x720 81 at 16, 50 steps 5 None 5 [fast-4, causvid-8, accvid-10]
         wan2.1-i2v-14b-480p -> I2V Required No Optional 832x480 81 at 16, 40 steps 5 None 3 [fast-4, causvid-8, accvid-10]
         wan2.1-i2v-14b-720p -> I2V Required No Optional 1280x720 81 at 16, 40 steps 5 None 5 [fast-4, causvid-8, accvid-10]
         wan2.1-flf2v-14b-720p -> FLF2V Required Required No 1280x720 81 at 16, 50 steps 5 None 16 [fast-4, causvid-8, accvid-10]
         wan2.1-vace-1.3b -> VACE Optional Optional No 832x480 81 at 16, 50 steps 5 None 3 []
         wan2.1-vace-14b -> VACE Optional Optional No 1280x720 81 at 16, 50 steps 5 None 3 [fast-4, causvid-8, accvid-10]
         wan2.2-vace-fun-a14b -> VACE-A14B Optional Optional No 832x480 81 at 16, 50 steps 5 Some(5.0) 12 [fast-4, causvid-8, accvid-10]
         wan2.2-t2v-a14b -> T2V-A14B No No No 1280x720 81 at 16, 40 steps 4 Some(3.0) 12 [fast-4, causvid-8, accvid-10]
         wan2.2-i2v-a14b -> I2V-A14B Required Optional Optional 1280x720 81 at 16, 40 steps 3.5 Some(3.5) 5 [fast-4, causvid-8, accvid-10]
         wan2.2-ti2v-5b -> TI2V Optional No Optional 1280x704 121 at 24, 50 steps 5 None 5 [fast-3]",
    ) {
        assert_eq!(summary(&catalog.find(id).unwrap()), expected, "{id}");
    }
    let fast = &catalog.find("wan2.2-t2v-a14b").unwrap().presets[0].sampling;
    let steps = (fast.num_steps, fast.guidance_scale);
    assert_eq!(steps, (Some(4), Some(1.0)));
    let schedule = (fast.shift, fast.sampler);
    assert_eq!(schedule, (Some(5.0), Some(SamplerKind::UniPc)));
}

/// Inputs, size, frames, steps, guidance of both experts, shift and presets.
fn summary(spec: &ModelSpec) -> String {
    let defaults = &spec.defaults;
    let presets: Vec<&str> = spec.presets.iter().map(|it| it.id.as_str()).collect();
    format!(
        "{} {:?} {:?} {:?} {}x{} {} at {}, {} steps {} {:?} {} [{}]",
        spec.variant,
        spec.start_image,
        spec.end_image,
        spec.mask,
        defaults.width,
        defaults.height,
        defaults.num_frames,
        defaults.fps,
        defaults.sampling.num_steps,
        defaults.sampling.guidance_scale,
        defaults.sampling.guidances()[1].1,
        defaults.shift_at(defaults.width, defaults.height).unwrap(),
        presets.join(", "),
    )
}

#[test]
fn every_published_model_comes_with_the_parts_that_it_was_trained_with() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    write_all(&models);
    for spec in catalog_in(&[&models]).available {
        let (files, variant) = (&spec.files, spec.variant.as_str());
        let channels = if variant == "TI2V" { 48 } else { 16 };
        assert_eq!(spec.latent_rgb.as_ref().unwrap().factors.len(), channels);
        let vae = ["wan_2.1_vae.safetensors", "wan2.2_vae.safetensors"];
        let vae = vae[usize::from(channels == 48)];
        assert_eq!(files.vae, models.join("vae").join(vae), "{variant}");
        assert_eq!(files.text_encoder, files.tokenizer);
        let sees = matches!(variant, "I2V" | "FLF2V");
        assert_eq!(files.image_encoder.is_some(), sees);
        assert_eq!(files.expand_timesteps, variant == "TI2V");
        assert_eq!(files.takes_control, variant.starts_with("VACE"));
        let boundary = match variant {
            "T2V-A14B" | "VACE-A14B" => Some(0.875),
            "I2V-A14B" => Some(0.9),
            _ => None,
        };
        assert_eq!(files.boundary_ratio, boundary);
        assert_eq!(files.transformer_2.is_some(), boundary.is_some());
        let negative = &spec.defaults.negative_prompt;
        assert_eq!(negative.starts_with("镜头切换，色调"), variant == "FLF2V");
        assert!(negative.ends_with("倒着走"));
        assert_eq!(spec.defaults.sampling.sampler, SamplerKind::UniPc);
        assert!(spec.name.starts_with("Wan 2.") && !spec.example_prompts.is_empty());
        assert_eq!(spec.licence, "Apache-2.0");
    }
}

#[test]
fn wan_transformer_config_is_the_same_for_every_key_layout_and_prefix() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(&root.path().join("models"));
    let plain = transformer(FLF2V_14B);
    let place = models.join("unet/a/b/x.safetensors");
    let mut configs = Vec::new();
    for (prefix, is_diffusers) in [
        ("", false),
        ("model.diffusion_model.", false),
        ("diffusion_model.", false),
        ("", true),
        ("transformer.", true),
    ] {
        let keys = TransformerKeys::behind(prefix, is_diffusers);
        write(&place, &in_dialect(&plain, keys), "BF16");
        let spec = ModelSpec::open(&place).unwrap();
        let found = (&spec.variant[..], &spec.files.transformer);
        assert_eq!(found, ("FLF2V", &place));
        configs.push(WanTransformerConfig::read(&place).unwrap());
    }
    let published = json!({
        "patch_size": [1, 2, 2], "num_attention_heads": 40, "attention_head_dim": 128, "in_channels": 36,
        "out_channels": 16, "text_dim": 4096, "freq_dim": 256, "ffn_dim": 13824, "num_layers": 40,
        "cross_attn_norm": true, "qk_norm": "rms_norm_across_heads", "eps": 1e-6, "image_dim": 1280,
        "added_kv_proj_dim": 5120, "pos_embed_seq_len": 514, "rope_max_seq_len": 1024,
    });
    let published: WanTransformerConfig = serde_json::from_value(published).unwrap();
    assert!(configs.iter().all(|config| *config == published));
}

#[test]
fn the_configs_of_companions_are_the_published_ones() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let old = json_of::<WanVaeConfig>(&models.join("vae/wan_2.1_vae.safetensors"));
    let new = json_of::<WanVaeConfig>(&models.join("vae/wan2.2_vae.safetensors"));
    for (config, key, place, value) in [
        (&old, "latents_mean", 7, 1.5508),
        (&old, "latents_std", 15, 1.916),
        (&new, "latents_mean", 47, -0.0667),
        (&new, "latents_std", 39, 1.6887),
    ] {
        assert_eq!(config[key][place], json!(value), "{key}");
    }
    let assert_says = |config: &Value, expected: Value| {
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(config[key], *value, "{key}");
        }
    };
    let of_old = json!({
        "base_dim": 96, "decoder_base_dim": 96, "z_dim": 16, "dim_mult": [1, 2, 4, 4],
        "num_res_blocks": 2, "temperal_downsample": [false, true, true], "is_residual": false,
        "in_channels": 3, "out_channels": 3, "patch_size": null,
        "scale_factor_spatial": 8, "scale_factor_temporal": 4,
    });
    assert_says(&old, of_old);
    let of_new = json!({
        "base_dim": 160, "decoder_base_dim": 256, "z_dim": 48, "dim_mult": [1, 2, 4, 4],
        "num_res_blocks": 2, "temperal_downsample": [false, true, true], "is_residual": true,
        "in_channels": 12, "out_channels": 12, "patch_size": 2,
        "scale_factor_spatial": 16, "scale_factor_temporal": 4,
    });
    assert_says(&new, of_new);
    let of_text = json!({
        "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64,
        "vocab_size": 256_384, "relative_attention_num_buckets": 32,
    });
    let text = models.join("text_encoders/umt5_xxl_fp16.safetensors");
    assert_says(&json_of::<T5Config>(&text), of_text);
    let of_vision = json!({
        "hidden_size": 1280, "num_attention_heads": 16, "num_hidden_layers": 32,
        "intermediate_size": 5120, "patch_size": 14, "image_size": 224, "hidden_act": "gelu",
    });
    let vision = models.join("clip_vision/clip_vision_h.safetensors");
    assert_says(&json_of::<ClipVisionConfig>(&vision), of_vision);
}

/// The authors' own folder: their config, shards with an index, a tokenizer; the parts as pickles.
fn write_authors(root: &Path, experts: &[&str], dims: Dims, heads: u64) -> PathBuf {
    for expert in experts {
        let folder = root.join(expert);
        write_shards(&folder, transformer(dims), 2, "F32");
        write_json(
            &folder.join("config.json"),
            &json!({
                "_class_name": "WanModel", "dim": dims.dim, "ffn_dim": dims.ffn, "freq_dim": 256,
                "in_dim": dims.input, "model_type": "t2v", "num_heads": heads,
                "num_layers": dims.layers, "out_dim": dims.output, "text_len": 512,
            }),
        );
    }
    for name in ["Wan2.1_VAE.pth", "models_t5_umt5-xxl-enc-bf16.pth"] {
        fs::write(root.join(name), b"\x80\x02").unwrap();
    }
    root.to_owned()
}

#[test]
fn the_authors_own_folders_are_read_with_their_number_of_heads() {
    let root = tempfile::tempdir().unwrap();
    let folder = write_authors(&root.path().join("Wan2.1-T2V-1.3B"), &[""], T2V_1_3B, 24);
    let text = ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(text.contains("pickle") && text.contains("wan_2.1_vae.safetensors"));
    assert!(text.ends_with("Wan2.1_VAE.pth"), "{text}");
    write(&folder.join("wan_2.1_vae.safetensors"), &vae(16), "F32");
    let text = ModelSpec::open(&folder).unwrap_err().to_string();
    assert!(text.contains("umt5_xxl_fp16.safetensors") && text.ends_with("enc-bf16.pth"));
    let models = comfy_tree(&root.path().join("models"));
    fs::rename(models.join("text_encoders"), folder.join("text_encoders")).unwrap();
    let config = WanTransformerConfig::read(&folder).unwrap();
    let heads = (config.num_attention_heads, config.attention_head_dim);
    assert_eq!(heads, (24, 64));
    let spec = ModelSpec::open(&folder).unwrap();
    let found = (&spec.files.transformer, &spec.variant[..]);
    assert_eq!(found, (&folder, "T2V"));
    // One of its files is as good as the folder.
    let shard = folder.join(shard_name(1, 2));
    assert_eq!(ModelSpec::open(&shard).unwrap().files, spec.files);

    let experts = ["high_noise_model", "low_noise_model"];
    let pair = root.path().join("Wan2.2-I2V-A14B");
    let pair = write_authors(&pair, &experts, I2V_EXPERT, 40);
    comfy_tree(&models);
    let [high, low] = experts.map(|expert| pair.join(expert));
    let catalog = catalog_in(&[root.path()]);
    for path in [&pair, &low, &high] {
        let spec = catalog.find(&path.to_string_lossy()).unwrap();
        assert_eq!(spec.files.transformer, high);
        assert_eq!(spec.files.transformer_2.as_ref(), Some(&low));
        assert_eq!((&spec.variant[..], &spec.folder), ("I2V-A14B", &pair));
        assert!(catalog.find("wan2.2-i2v-a14b").is_ok());
    }
}

#[test]
fn a_file_of_no_published_shape_takes_plain_defaults_and_one_of_known_shape_its_own() {
    let root = tempfile::tempdir().unwrap();
    let models = comfy_tree(root.path());
    let narrow = Dims {
        dim: 256,
        ffn: 512,
        layers: 2,
        ..T2V_1_3B
    };
    let written = |name: &str, dims| {
        let place = models.join(format!("{name}.safetensors"));
        ModelSpec::open(&write(&place, &transformer(dims), "F16")).unwrap()
    };
    let spec = written("mine", narrow);
    let defaults = (spec.defaults.sampling.num_steps, spec.defaults.width);
    assert_eq!((&spec.name[..], defaults), ("mine", (20, 256)));
    assert!(spec.latent_rgb.is_none() && spec.defaults.negative_prompt.is_empty());
    let spec = written("my_own_720p_finetune", I2V_14B);
    assert_eq!(spec.name, "my_own_720p_finetune");
    assert_eq!(spec.defaults.width, 1280);
    assert_eq!(written("another", I2V_14B).defaults.width, 832);
}

#[test]
fn inspect_report_of_a_transformer_names_its_model_and_missing_components() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    let place = models.join("diffusion_models/wan2.2_t2v_low_noise_14B_fp16.safetensors");
    write(&place, &transformer(T2V_14B), "F16");
    let card = || IdentityCard::read(&place).unwrap();
    let assert_lacks = |name: &str| {
        let card = card();
        let holds = !card.is_runnable && card.problems[0].contains(name);
        assert!(holds, "{card:?}");
    };
    assert!(card().what.contains("Wan T2V 14B"));
    let high = "wan2.2_t2v_high_noise_14B_fp16.safetensors";
    assert_lacks(high);
    write(&place.with_file_name(high), &transformer(T2V_14B), "F16");
    assert_lacks("wan_2.1_vae.safetensors");
    comfy_tree(&models);
    let card = card();
    assert!(card.is_runnable && card.problems.is_empty());
    assert_eq!((&card.variant[..], card.components.len()), ("T2V-A14B", 4));
    assert!(card.what.contains("high-noise and a low-noise expert"));
    let card = IdentityCard::read(&models.join("vae/wan2.2_vae.safetensors")).unwrap();
    assert!(!card.is_runnable && card.problems.is_empty() && card.what.contains("Wan VAE"));
}
