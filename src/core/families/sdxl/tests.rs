//! SDXL in every layout, from names and shapes alone: recognised, completed, described; every tensor of it; and relatives,
//! which are named and refused.

mod controls;

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::families::flux::tests::catalogued::summary;
use crate::families::sdxl;
use crate::fitting::LoraOrigin;
use crate::job::SamplerKind;
use crate::lora::{LayerTable, LoraFile, LoraPlan};
use crate::model::{ModelComponent, ModelSpec};
use crate::networks::{
    ClipGTextConfig, ClipTextConfig, KlVaeConfig, NetworkConfig as _, SdxlUnetConfig,
};
use crate::testing::made_up::{Shapes, write};
use crate::testing::pipelines::{edit_json, write_json};
use crate::testing::published::{
    assert_file_unsupported, assert_is_read, assert_is_read_but, assert_pipelines_unsupported,
    assert_published, behind, edited, faultless_catalog, shapes_of, shipped,
};

/// One of the files in `tests/fixtures/headers/sdxl.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("sdxl", name)
}

/// A checkpoint with all parts, as A1111 and ComfyUI save it, besides `more`.
fn checkpoint(unet: &Shapes, more: &[&str]) -> Shapes {
    let mut all = behind("model.diffusion_model.", unet);
    all.extend(behind("first_stage_model.", &own("vae")));
    let clip = "conditioner.embedders.0.transformer.";
    all.extend(behind(clip, &own("clip_l")));
    all.insert(
        format!("{clip}text_model.embeddings.position_ids"),
        vec![1, 77],
    );
    let open_clip = "conditioner.embedders.1.model.";
    all.extend(behind(open_clip, &own("clip_g open_clip")));
    all.insert(format!("{open_clip}logit_scale"), Vec::new());
    all.insert("denoiser.sigmas".to_owned(), vec![1000]);
    all.extend(more.iter().map(|name| ((*name).to_owned(), vec![0])));
    all
}

fn inpainting() -> Shapes {
    edited(own("unet"), "input_blocks.0.0.weight", &[320, 9, 3, 3])
}

fn checkpoint_in(models: &Path, name: &str, shapes: &Shapes, dtype: &'static str) -> PathBuf {
    let place = models.join(format!("checkpoints/{name}.safetensors"));
    write(&place, shapes, dtype)
}

#[test]
fn no_tensor_of_a_published_file_is_missing_or_unexpected_in_any_dialect() {
    let unets = ["unet", "unet diffusers"].map(own);
    // One block of each kind is looked at.
    let is_looked_at = |key: &str| {
        !key.contains("transformer_blocks")
            && (!key.contains("blocks.") || key.contains("blocks.5"))
    };
    let config = SdxlUnetConfig::default();
    assert_published(&unets, &config, 2_567_463_684, is_looked_at);
    for name in ["vae", "vae diffusers"] {
        let vae = assert_is_read::<KlVaeConfig>(&own(name), name);
        assert_eq!(vae.scaling_factor, 0.13025);
    }
    assert_is_read::<ClipTextConfig>(&own("clip_l"), "CLIP-L");
    for name in ["clip_g", "clip_g open_clip"] {
        let config = assert_is_read::<ClipGTextConfig>(&own(name), name);
        assert_eq!(
            (config.num_hidden_layers, config.pooled_width()),
            (32, 1280)
        );
    }
    // Each encoder of a checkpoint is read by itself.
    let all = checkpoint(&own("unet"), &[]);
    let spare = ["model.diffusion", "first_stage", "denoiser", "embedders"];
    assert_is_read_but(ClipTextConfig::read, &all, &spare, "CLIP-L");
    assert_is_read_but(ClipGTextConfig::read, &all, &spare, "CLIP-G");
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it() {
    let root = tempfile::tempdir().unwrap();
    for (name, shapes, dtype, expected) in [
        ("a", checkpoint(&own("unet"), &[]), "F16", [false, false]),
        (
            "b",
            checkpoint(&own("unet"), &["v_pred", "ztsnr"]),
            "F8_E4M3",
            [true, true],
        ),
        (
            "c",
            checkpoint(&own("unet"), &["v_pred"]),
            "F16",
            [true, false],
        ),
        (
            "noobai-XL-Vpred-1.0",
            checkpoint(&own("unet"), &[]),
            "F16",
            [true, true],
        ),
    ] {
        let place = checkpoint_in(root.path(), name, &shapes, dtype);
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!((spec.family, &spec.variant[..]), (sdxl::FAMILY, "Base"));
        let files = &spec.files;
        for component in [
            ModelComponent::Transformer,
            ModelComponent::Vae,
            ModelComponent::TextEncoder,
            ModelComponent::TextEncoder2,
        ] {
            assert_eq!(files.path(component), Some(&*place), "{component:?}");
        }
        assert_eq!(files.tokenizer, shipped("clip-l"));
        let found = [files.predicts_v, files.zero_terminal_snr];
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn split_files_are_offered_from_a_comfyui_folder_with_their_defaults() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    for (file, shapes) in [
        ("vae/sdxl_vae", own("vae")),
        ("text_encoders/clip_l", own("clip_l")),
        ("text_encoders/clip_g", own("clip_g")),
        ("diffusion_models/sd_xl_base_1.0", own("unet")),
        ("diffusion_models/sd_xl_inpainting_0.1", inpainting()),
    ] {
        write(&models.join(format!("{file}.safetensors")), &shapes, "F16");
    }
    let catalog = faultless_catalog(&models, 2);
    let presets = "[lcm-4, fast-4, fast-8, turbo-4]";
    for (id, expected) in [
        (
            "sdxl-base",
            "Base Optional Base, mask Optional, Cfg, 1024x1024, 30 steps, 6 Some(0.6)",
        ),
        (
            "sdxl-inpainting",
            "Inpainting Required Canvas, mask Required, Cfg, 1024x1024, 30 steps, 6 Some(1.0)",
        ),
    ] {
        let spec = catalog.find(id).unwrap();
        assert_eq!(summary(&spec), format!("{expected} {presets}"));
        assert_eq!(spec.defaults.sampling.sampler, SamplerKind::Euler);
        let encoder = models.join("text_encoders/clip_g.safetensors");
        assert_eq!(spec.files.text_encoder_2, Some(encoder));
    }
}

#[test]
fn models_that_are_distilled_by_their_names_have_few_steps_by_default() {
    use SamplerKind::{Euler, EulerAncestral, Lcm};
    let root = tempfile::tempdir().unwrap();
    for (name, expected) in [
        ("hyperrealXL_v5", (30, 6.0, Euler)),
        ("dreamshaperXL_lightningDPMSDE", (8, 1.0, Euler)),
        ("sdxl_lightning_4step", (4, 1.0, Euler)),
        ("Hyper-SDXL-8steps", (8, 1.0, Euler)),
        ("illustriousXL_dmd2", (4, 1.0, Lcm)),
        ("sd_xl_turbo_1.0_fp16", (4, 1.0, EulerAncestral)),
    ] {
        let place = checkpoint_in(root.path(), name, &checkpoint(&own("unet"), &[]), "F16");
        let found = ModelSpec::open(&place).unwrap().defaults.sampling;
        let found = (found.num_steps, found.guidance_scale, found.sampler);
        assert_eq!(found, expected, "{name}");
    }
}

/// Writes a diffusers folder of published size.
fn write_folder(folder: &Path) {
    let class = "StableDiffusionXLPipeline";
    let scheduler = json!({
        "_class_name": "EulerDiscreteScheduler", "beta_schedule": "scaled_linear", "beta_start": 0.00085,
        "beta_end": 0.012, "prediction_type": "epsilon", "timestep_spacing": "leading", "steps_offset": 1,
    });
    write_json(
        &folder.join("model_index.json"),
        &json!({
            "_class_name": class,
            "scheduler": ["diffusers", "EulerDiscreteScheduler"],
            "text_encoder": ["transformers", "CLIPTextModel"],
            "text_encoder_2": ["transformers", "CLIPTextModelWithProjection"],
            "tokenizer": ["transformers", "CLIPTokenizer"],
            "tokenizer_2": ["transformers", "CLIPTokenizer"],
            "unet": ["diffusers", "UNet2DConditionModel"],
            "vae": ["diffusers", "AutoencoderKL"],
        }),
    );
    write_json(&folder.join("scheduler/scheduler_config.json"), &scheduler);
    let unet = serde_json::to_value(SdxlUnetConfig::default()).unwrap();
    let vae = serde_json::to_value(KlVaeConfig::of_four_channels()).unwrap();
    let clip = |hidden: i64, inner: i64, layers: i64, heads: i64, act: &str| {
        json!({
            "model_type": "clip_text_model", "hidden_size": hidden, "intermediate_size": inner,
            "num_hidden_layers": layers, "num_attention_heads": heads, "hidden_act": act, "eos_token_id": 2,
            "projection_dim": hidden,
        })
    };
    let stem = "diffusion_pytorch_model";
    for (component, config, stem, shapes) in [
        ("unet", unet, stem, "unet diffusers"),
        ("vae", vae, stem, "vae diffusers"),
        (
            "text_encoder",
            clip(768, 3072, 12, 12, "quick_gelu"),
            "model",
            "clip_l",
        ),
        (
            "text_encoder_2",
            clip(1280, 5120, 32, 20, "gelu"),
            "model",
            "clip_g",
        ),
    ] {
        write_json(&folder.join(component).join("config.json"), &config);
        let file = format!("{component}/{stem}.safetensors");
        write(&folder.join(file), &own(shapes), "F16");
    }
    for tokenizer in ["tokenizer", "tokenizer_2"] {
        let to = folder.join(tokenizer);
        std::fs::create_dir_all(&to).unwrap();
        for entry in std::fs::read_dir(shipped("clip-l")).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

#[test]
fn a_diffusers_folder_is_read_and_what_it_cannot_be_is_refused_with_a_reason() {
    let root = tempfile::tempdir().unwrap();
    write_folder(root.path());
    let spec = ModelSpec::open(root.path()).unwrap();
    assert_eq!((spec.family, &spec.variant[..]), (sdxl::FAMILY, "Base"));
    assert_eq!(spec.files.transformer, root.path().join("unet"));
    assert_eq!(spec.files.scheduler, Some(root.path().join("scheduler")));
    for (file, key, value, part) in [
        (
            "unet/config",
            "block_out_channels",
            json!([384, 768, 1536, 1536]),
            "its refiner has not",
        ),
        ("unet/config", "in_channels", json!(8), "4 or 9 in_channels"),
        (
            "unet/config",
            "cross_attention_dim",
            json!(1280),
            "cross_attention_dim",
        ),
        (
            "unet/config",
            "mid_block_type",
            json!(null),
            "mid_block_type",
        ),
        (
            "scheduler/scheduler_config",
            "prediction_type",
            json!("sample"),
            "sample",
        ),
        (
            "vae/config",
            "latent_channels",
            json!(16),
            "one with 16 latent channels",
        ),
    ] {
        let path = root.path().join(file).with_extension("json");
        let before = std::fs::read(&path).unwrap();
        edit_json(&path, |config| config[key] = value.clone());
        let text = ModelSpec::open(root.path()).unwrap_err().to_string();
        assert!(text.contains(part), "{key}: {text}");
        std::fs::write(&path, before).unwrap();
    }
}

#[test]
fn relatives_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let with = |key: &str, shape: &[u64]| edited(own("unet"), key, shape);
    let mut refiner = with("input_blocks.11.0.in_layers.0.weight", &[1536]);
    refiner.insert("label_emb.0.0.weight".to_owned(), vec![1536, 2560]);
    for (name, shapes, part) in [
        ("a", with("edm_vpred.sigma_max", &[]), "a CosXL model"),
        ("b", refiner, "a Stable Diffusion XL refiner"),
        (
            "c",
            with("input_hint_block.0.weight", &[16, 3, 3, 3]),
            "an SDXL ControlNet",
        ),
        ("d", with("something_new.weight", &[4]), "something_new"),
    ] {
        assert_file_unsupported(root.path(), name, &shapes, part);
    }
    assert_pipelines_unsupported(&[
        (
            "StableDiffusionXLControlNetPipeline",
            "StableDiffusionXLControlNetPipeline",
        ),
        ("StableDiffusionPipeline", "a Stable Diffusion model"),
    ]);
}

/// Keys of a LoRA with one layer.
fn lora(layer: &str, [input, output]: [u64; 2]) -> [(String, Vec<u64>); 2] {
    [
        (format!("{layer}.lora_down.weight"), vec![4, input]),
        (format!("{layer}.lora_up.weight"), vec![output, 4]),
    ]
}

#[test]
fn loras_of_every_tool_change_the_unet_and_each_text_encoder() {
    let root = tempfile::tempdir().unwrap();
    let place = checkpoint_in(root.path(), "x", &checkpoint(&own("unet"), &[]), "F16");
    let spec = ModelSpec::open(&place).unwrap();
    let def = crate::families::def_of(sdxl::FAMILY);
    let tables: Vec<LayerTable> = def.lora_tables(&spec.files).unwrap();
    let conv = |layer: &str, [input, output]: [u64; 2]| {
        [
            (format!("{layer}.lora_down.weight"), vec![4, input, 3, 3]),
            (format!("{layer}.lora_up.weight"), vec![output, 4, 1, 1]),
        ]
    };
    let all: Vec<(String, Vec<u64>)> = [
        lora(
            "lora_unet_input_blocks_4_1_transformer_blocks_1_attn1_to_q",
            [640, 640],
        ),
        lora(
            "lora_unet_down_blocks_2_attentions_0_transformer_blocks_9_attn2_to_k",
            [2048, 1280],
        ),
        lora(
            "unet.up_blocks.0.attentions.2.transformer_blocks.0.attn1.to_out.0",
            [1280, 1280],
        ),
        lora("lora_unet_middle_block_1_proj_in", [1280, 1280]),
        lora(
            "lora_te1_text_model_encoder_layers_0_self_attn_k_proj",
            [768, 768],
        ),
        lora(
            "lora_te2_text_model_encoder_layers_31_self_attn_q_proj",
            [1280, 1280],
        ),
        lora(
            "text_encoder_2.text_model.encoder.layers.30.mlp.fc1",
            [1280, 5120],
        ),
        conv("lora_unet_input_blocks_1_0_in_layers_2", [320, 320]),
        conv("lora_unet_up_blocks_1_upsamplers_0_conv", [640, 640]),
    ]
    .into_iter()
    .flatten()
    .collect();
    let file = write(
        &root.path().join("lora.safetensors"),
        &all.into_iter().collect(),
        "F16",
    );
    let header = LoraFile::read(&file).unwrap();
    assert_eq!(LoraOrigin::from_file(&header).family, "sdxl");
    let plan = LoraPlan::new(&header, &tables);
    let coverage = &plan.coverage;
    assert_eq!(
        (coverage.applied, coverage.changed_layers),
        (18, 9),
        "{coverage}"
    );
    let of = |name: &str| {
        plan.updates
            .iter()
            .filter(|it| it.network.name == name)
            .count()
    };
    assert_eq!([of("sdxl"), of("clip"), of("clip_g")], [6, 1, 2]);
}
