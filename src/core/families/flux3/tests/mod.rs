//! FLUX.3 klein in every layout, from names and shapes alone: recognised, completed, described; every tensor of it; and
//! relatives, which are named and refused.

use std::fs;

use serde_json::{Value, json};

use crate::families::flux::tests::files::shapes;
use crate::families::table::SingleTransformerFamily as _;
use crate::families::tests::FamilyCase;
use crate::families::{flux2, flux3, krea2};
use crate::job::SamplerKind;
use crate::model::ModelSpec;
use crate::networks::Flux3TransformerConfig;
use crate::testing::made_up::Shapes;
use crate::testing::published::{Folder, Offered, assert_published, edited, resized, shapes_of};

/// One of the files in `tests/fixtures/headers/flux3.json`, FLUX.2's autoencoder, and Krea 2's Qwen 3 VL 4B.
pub(crate) fn own(name: &str) -> Shapes {
    match name {
        "qwen3vl_4b" => krea2::tests::own(name),
        vae if vae.starts_with("vae") => flux2::tests::own(vae),
        transformer => shapes_of("flux3", transformer),
    }
}

fn folder(is_distilled: bool) -> Folder {
    let (class, name) = if is_distilled {
        ("Flux3DistilledModularPipeline", "klein")
    } else {
        ("Flux3ModularPipeline", "klein base")
    };
    let text = json!({"model_type": "qwen3_vl", "text_config": {
        "model_type": "qwen3_vl_text", "vocab_size": 151_936, "hidden_size": 2560, "intermediate_size": 9728,
        "num_hidden_layers": 36, "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
        "rms_norm_eps": 1e-6, "rope_theta": 5_000_000,
        "rope_scaling": {"mrope_section": [24, 20, 20], "rope_type": "default"},
    }});
    let vae = json!({
        "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "latent_channels": 32,
        "norm_num_groups": 32, "batch_norm_eps": 1e-4, "patch_size": [2, 2],
    });
    Folder {
        classes: [
            class,
            "Flux3Transformer2DModel",
            "AutoencoderKLFlux2",
            "Qwen3VLForConditionalGeneration",
            "Qwen3VLProcessor",
        ],
        marks: json!({}),
        scheduler: json!({"shift": 6.93}),
        configs: [json!({ "flow_map": is_distilled }), vae, text],
        shapes: [
            own(&format!("transformer {name} diffusers")),
            own("vae diffusers"),
            own("qwen3vl_4b"),
        ],
        tokenizer: "qwen",
    }
}

/// The row of FLUX.3 in the suite of all image families.
pub(in crate::families) fn case() -> FamilyCase {
    let distilled = Offered {
        family: flux3::FAMILY,
        variant: "klein",
        licence: "FLUX Kommunity License v1.0",
        num_steps: 16,
        guidance_scale: 1.0,
        shift: Some(6.93),
        sampler: SamplerKind::Euler,
        edge: 1024,
        preview_channels: Some(32),
        step: 16,
        tokenizer: "qwen",
        reader: ("Qwen 3 VL", 8192),
        is_guided: false,
    };
    let base = Offered {
        variant: "klein base",
        num_steps: 50,
        guidance_scale: 3.5,
        is_guided: true,
        ..distilled
    };
    let with = |key: &str| edited(own("transformer klein"), key, &[3072, 128]);
    let large = resized(own("qwen3vl_4b"), 2560, 4096);
    let mut no_images = own("transformer klein");
    no_images.retain(|key, _| !key.contains(".image."));
    FamilyCase {
        family: flux3::FAMILY,
        transformers: || {
            for (name, flow_map, count) in [
                ("klein", true, 5_548_681_984),
                ("klein base", false, 5_538_458_368),
            ] {
                let all = ["", " diffusers"].map(|end| own(&format!("transformer {name}{end}")));
                let published = Flux3TransformerConfig {
                    flow_map,
                    ..Flux3TransformerConfig::default()
                };
                assert_published(&all, &published, count, |key| {
                    !key.contains("blocks.") || key.contains(".3.")
                });
            }
        },
        companions: vec![
            ("vae/flux2-vae", own("vae")),
            ("text_encoders/qwen3vl_4b_bf16", own("qwen3vl_4b")),
        ],
        offered: vec![
            (
                "flux3_image_klein_bf16",
                own("transformer klein"),
                "flux3-klein",
                distilled,
            ),
            (
                "flux3-image-klein-base",
                with_training_heads(own("transformer klein base")),
                "flux3-klein-base",
                base,
            ),
        ],
        card: "FLUX.3 klein 5.6B",
        folders: vec![
            ("mine", folder(true), "klein", 16, Some(6.93)),
            ("other", folder(false), "klein base", 50, Some(6.93)),
        ],
        all_in_one: None,
        missing: (
            &["vae/flux2-vae", "text_encoders/qwen3vl_4b_bf16"],
            &["flux2-vae", "qwen3vl_4b_fp8_scaled"],
        ),
        other_encoders: vec![("qwen3vl_8b", large, ["qwen3vl_4b", "one of 4096"])],
        other_vaes: vec![(
            "ae",
            shapes("ae"),
            ["flux2-vae.safetensors", "16 latent channels"],
        )],
        relatives: vec![
            ("x", with("emb_in.video.weight"), "FLUX.3 video model"),
            ("x", with("something_new.weight"), "something_new"),
            ("x", no_images, "a FLUX.3 model without images"),
        ],
        pipelines: &[("Flux3SomethingPipeline", "Flux3SomethingPipeline")],
        configs: vec![
            ("num_attention_heads", json!(0), "num_attention_heads"),
            ("in_channels", json!(126), "in_channels"),
            ("axes_dims_rope", json!([32, 32, 32, 33]), "4 even numbers"),
            ("mlp_ratio", json!(0.0), "mlp_ratio"),
            ("num_layers", json!(4), "4 layers"),
            ("quantization_config", json!({}), "quantised"),
        ],
        loras: [
            "diffusion_model.content_mode_blocks.image.0.q_proj",
            "lora_unet_single_blocks_0_mlp_in",
            "transformer.mode_blocks.image.0.attn.to_q",
            "transformer.single_transformer_blocks.3.ff.linear_in",
        ]
        .map(|layer| (layer, [3072; 2], "flux3"))
        .to_vec(),
        variants: vec![(None, ["flux3_image_klein", ""], Ok("klein base"))],
        variant: |hints| {
            let variant = super::Flux3Family::TABLE.variant;
            Ok(variant(&Flux3TransformerConfig::default(), hints)?.name)
        },
    }
}

/// With layers that only training reads.
fn with_training_heads(shapes: Shapes) -> Shapes {
    edited(shapes, "repa_projectors.0.weight", &[1024, 3072])
}

#[test]
fn a_modular_folder_that_names_repositories_and_has_no_scheduler_is_a_model() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("flux-3-image-klein");
    folder(true).write(&place);
    let index = place.join("model_index.json");
    let mut fields: Value = serde_json::from_str(&fs::read_to_string(&index).unwrap()).unwrap();
    for value in fields.as_object_mut().unwrap().values_mut() {
        if let Some(class) = value.as_array_mut() {
            class.push(json!({"pretrained_model_name_or_path": "someone/something"}));
        }
    }
    fs::write(place.join("modular_model_index.json"), fields.to_string()).unwrap();
    fs::remove_file(index).unwrap();
    fs::remove_dir_all(place.join("scheduler")).unwrap();
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(spec.files.scheduler, None);
    assert_eq!(spec.defaults.sampling.shift, Some(6.93));
    let again = ModelSpec::open(&place.join("modular_model_index.json")).unwrap();
    assert_eq!(again.files, spec.files);
}
