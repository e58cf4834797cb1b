//! All Chroma models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and relatives, which are named and refused.

use serde_json::json;

use crate::families::chroma;
use crate::families::flux::tests::files::{shapes, t5_config};
use crate::families::tests::FamilyCase;
use crate::job::{GenerateForm, SamplerKind};
use crate::model::ModelSpec;
use crate::networks::ChromaTransformerConfig;
use crate::testing::made_up::Shapes;
use crate::testing::published::{
    Folder, Offered, assert_published, edited, kl_vae_config, resized, shapes_of, transformer_in,
};

/// One of the files in `tests/fixtures/headers/chroma.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("chroma", name)
}

fn folder() -> Folder {
    Folder {
        classes: [
            "ChromaPipeline",
            "ChromaTransformer2DModel",
            "AutoencoderKL",
            "T5EncoderModel",
            "T5TokenizerFast",
        ],
        marks: json!({"feature_extractor": [null, null], "image_encoder": [null, null]}),
        scheduler: json!({"shift": 1.0}),
        configs: [json!({}), kl_vae_config(), t5_config()],
        shapes: [
            own("transformer diffusers"),
            shapes("ae diffusers"),
            shapes("t5xxl"),
        ],
        tokenizer: "t5-xxl",
    }
}

/// The row of Chroma in the suite of all image families.
pub(in crate::families) fn case() -> FamilyCase {
    let hd = Offered {
        family: chroma::FAMILY,
        variant: "HD",
        licence: "Apache-2.0",
        num_steps: 35,
        guidance_scale: 5.0,
        shift: Some(1.0),
        sampler: SamplerKind::Euler,
        edge: 1024,
        preview_channels: Some(16),
        step: 16,
        tokenizer: "t5-xxl",
        reader: ("T5", 512),
        is_guided: true,
    };
    let base = Offered {
        variant: "Base",
        ..hd
    };
    let flash = Offered {
        variant: "Flash",
        num_steps: 8,
        guidance_scale: 1.0,
        sampler: SamplerKind::Heun,
        is_guided: false,
        ..hd
    };
    let published = || own("transformer");
    let with = |key: &str| edited(published(), key, &[1, 3072]);
    let mut radiance = published();
    radiance.retain(|key, _| !key.starts_with("img_in") && !key.starts_with("final_layer"));
    radiance.insert("img_in_patch.weight".to_owned(), vec![3072, 3, 16, 16]);
    let nerf = "nerf_image_embedder.embedder.0.weight";
    radiance.insert(nerf.to_owned(), vec![64, 67]);
    let text = "t5xxl_fp16.safetensors";
    let narrow = resized(shapes("t5xxl"), 4096, 2048);
    let channels = "approximator_num_channels";
    let guidance = "lora_unet_distilled_guidance_layer_layers_0_in_layer";
    FamilyCase {
        family: chroma::FAMILY,
        transformers: || {
            let all = ["transformer", "transformer diffusers"].map(own);
            let config = ChromaTransformerConfig::default();
            assert_published(&all, &config, 8_899_983_424, |key| {
                !key.contains("blocks.1")
            });
        },
        companions: vec![
            ("vae/ae", shapes("ae")),
            ("text_encoders/t5xxl_fp16", shapes("t5xxl")),
        ],
        offered: vec![
            ("Chroma1-HD", published(), "chroma1-hd", hd),
            ("Chroma1-Base", published(), "chroma1-base", base),
            ("Chroma1-Flash", published(), "chroma1-flash", flash),
        ],
        card: "Chroma 8.9B",
        folders: vec![("Chroma1-HD", folder(), "HD", 35, Some(1.0))],
        all_in_one: None,
        missing: (
            &["vae/ae", "text_encoders/t5xxl_fp16"],
            &["ae", "t5xxl_fp16"],
        ),
        other_encoders: vec![
            ("clip", shapes("clip_l"), [text, "a CLIP text encoder"]),
            ("t5_xl", narrow, [text, "one of 2048"]),
        ],
        other_vaes: Vec::new(),
        relatives: vec![
            ("x", radiance, "Chroma Radiance"),
            ("x", with("nerf_blocks.0.norm.scale"), "Chroma Radiance"),
            ("x", with("controlnet_blocks.0.weight"), "Chroma ControlNet"),
            ("x", with("something_new.weight"), "something_new"),
            ("x", with("time_in.in_layer.weight"), "time_in"),
        ],
        pipelines: &[
            ("ChromaRadiancePipeline", "Chroma Radiance"),
            ("Chroma2Pipeline", "Chroma 2"),
            ("ZetaChromaPipeline", "Chroma 2"),
            ("ChromaEditPipeline", "ChromaEditPipeline"),
        ],
        configs: vec![
            ("num_attention_heads", json!(0), "num_attention_heads"),
            ("patch_size", json!(2), "patch_size"),
            ("out_channels", json!(32), "out_channels"),
            ("axes_dims_rope", json!([16, 56, 58]), "axes_dims_rope"),
            (channels, json!(60), channels),
            ("approximator_layers", json!(4), "distilled_guidance_layer"),
            ("num_layers", json!(18), "18"),
            ("quantization_config", json!({}), "quantised"),
        ],
        loras: [
            (guidance, "chroma"),
            ("diffusion_model.distilled_guidance_layer.in_proj", "chroma"),
            ("lora_unet_double_blocks_0_img_attn_qkv", "flux"),
            ("transformer.single_transformer_blocks.3.attn.to_q", "flux"),
        ]
        .map(|(layer, family)| (layer, [3072; 2], family))
        .to_vec(),
        variants: [
            (["Chroma1-HD", ""], "HD"),
            (["Chroma1-HD-fp8mixed", ""], "HD"),
            (["Chroma1-Base", ""], "Base"),
            (["Chroma1-Flash", ""], "Flash"),
            (["Chroma1-HD-Flash_float8_e4m3fn_scaled", ""], "Flash"),
            (["chroma-unlocked-v29.5", ""], "HD"),
            (["chroma-unlocked-v46-flash", ""], "Flash"),
            (["chroma-unlocked-v48-Q4_0", ""], "Base"),
            (["chroma-unlocked-v48-detail-calibrated", ""], "HD"),
            (["chroma-unlocked-v50", "Base models"], "HD"),
            (["transformer", "Chroma1-Base"], "Base"),
            (["myFinetune_v2", "diffusion_models"], "HD"),
        ]
        .map(|(names, variant)| (None, names, Ok(variant)))
        .to_vec(),
        variant: |hints| Ok(super::variant_by_names(hints)),
    }
}

#[test]
fn chroma_unlocked_checkpoints_get_variant_and_steps_from_their_name() {
    let root = tempfile::tempdir().unwrap();
    let models = case().tree(root.path());
    for (name, variant, steps) in [
        ("chroma-unlocked-v29", "HD", 35),
        ("chroma-unlocked-v48", "Base", 35),
        ("chroma-unlocked-v50-annealed", "HD", 35),
        ("chroma-unlocked-v47-flash", "Flash", 8),
    ] {
        let place = transformer_in(&models, name, &own("transformer"));
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(spec.variant, variant, "{name}");
        assert_eq!(spec.defaults.sampling.num_steps, steps, "{name}");
        let form = GenerateForm {
            prompt: "a fox".to_owned(),
            out: "a.png".into(),
            ..GenerateForm::default()
        };
        let request = form.validate(&spec).unwrap().request;
        assert_eq!(request.negative_prompt.is_empty(), variant == "Flash");
    }
}
