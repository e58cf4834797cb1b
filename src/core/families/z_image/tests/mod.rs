//! Both Z-Image models in every layout, from names and shapes alone: recognised, completed, described; every tensor of
//! them; and relatives, which are named and refused.

use serde_json::json;

use crate::families::flux::tests::files::shapes;
use crate::families::tests::FamilyCase;
use crate::families::z_image;
use crate::job::SamplerKind;
use crate::networks::{ControlRefiner, ZImageControlConfig, ZImageTransformerConfig};
use crate::testing::made_up::Shapes;
use crate::testing::published::{
    Folder, Offered, assert_is_read, assert_needs_all, assert_no_control_network, assert_published,
    control_network, edited, kl_vae_config, qwen3_config, resized, shapes_of,
};

/// One of the files in `tests/fixtures/headers/z_image.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("z_image", name)
}

fn folder(shift: f64) -> Folder {
    Folder {
        classes: [
            "ZImagePipeline",
            "ZImageTransformer2DModel",
            "AutoencoderKL",
            "Qwen3Model",
            "Qwen2Tokenizer",
        ],
        marks: json!({}),
        scheduler: json!({ "shift": shift }),
        configs: [
            json!({"axes_lens": [1536, 512, 512]}),
            kl_vae_config(),
            qwen3_config(),
        ],
        shapes: [
            own("transformer diffusers"),
            shapes("ae diffusers"),
            own("qwen_3_4b"),
        ],
        tokenizer: "qwen",
    }
}

/// The row of Z-Image in the suite of all image families.
pub(in crate::families) fn case() -> FamilyCase {
    let turbo = Offered {
        family: z_image::FAMILY,
        variant: "Turbo",
        licence: "Apache-2.0",
        num_steps: 8,
        guidance_scale: 1.0,
        shift: Some(3.0),
        sampler: SamplerKind::Euler,
        edge: 1024,
        preview_channels: Some(16),
        step: 16,
        tokenizer: "qwen",
        reader: ("Qwen 3", 512),
        is_guided: false,
    };
    let base = Offered {
        variant: "Base",
        num_steps: 28,
        guidance_scale: 5.0,
        shift: Some(6.0),
        is_guided: true,
        ..turbo
    };
    let published = || own("transformer");
    let with = |key: &str| edited(published(), key, &[1, 3840]);
    let mut lumina = published();
    lumina.retain(|key, _| !key.ends_with("pad_token"));
    let mut control = Shapes::new();
    for name in ["attention_norm1.weight", "after_proj.weight"] {
        control.insert(format!("control_layers.0.{name}"), vec![3840]);
    }
    let first_control = "control_layers.0.attention_norm1.weight";
    let text = "qwen_3_4b.safetensors";
    let large = resized(own("qwen_3_4b"), 2560, 4096);
    let sees = "model.visual.blocks.0.norm1.weight";
    let sees = edited(own("qwen_3_4b"), sees, &[1024]);
    FamilyCase {
        family: z_image::FAMILY,
        transformers: || {
            let all = ["transformer", "transformer diffusers"].map(own);
            let config = ZImageTransformerConfig::default();
            assert_published(&all, &config, 6_154_908_736, |key| {
                !key.contains("layers.1")
            });
        },
        companions: vec![
            ("vae/ae", shapes("ae")),
            ("text_encoders/qwen_3_4b", own("qwen_3_4b")),
        ],
        offered: vec![
            ("z_image_turbo_bf16", published(), "z-image-turbo", turbo),
            ("z_image_bf16", published(), "z-image", base),
        ],
        card: "Z-Image 6B",
        folders: vec![
            ("Z-Image-Turbo", folder(3.0), "Turbo", 8, Some(3.0)),
            ("my-finetune", folder(6.0), "Base", 28, Some(6.0)),
        ],
        all_in_one: Some([
            ("model.diffusion_model.", published()),
            ("vae.", shapes("ae")),
            ("text_encoders.qwen3_4b.transformer.", own("qwen_3_4b")),
        ]),
        missing: (&["vae/ae", "text_encoders/qwen_3_4b"], &["ae", "qwen_3_4b"]),
        other_encoders: vec![
            ("clip", shapes("clip_l"), [text, "a CLIP text encoder"]),
            ("qwen_3_8b", large, [text, "one of 4096"]),
            ("qwen_3_vl_4b", sees, [text, "a Qwen 3 VL"]),
        ],
        other_vaes: Vec::new(),
        relatives: vec![
            ("x", with("siglip_pad_token"), "Z-Image Omni"),
            ("x", with(first_control), "Z-Image ControlNet"),
            ("x", with("something_new.weight"), "something_new"),
            ("x", lumina, "Lumina 2"),
            ("x", control, "Z-Image ControlNet"),
        ],
        pipelines: &[
            ("ZImageOmniPipeline", "Z-Image Omni"),
            ("ZImageControlNetPipeline", "Z-Image ControlNet"),
            ("ZImageEditPipeline", "ZImageEditPipeline"),
            ("Lumina2Pipeline", "a Lumina model"),
        ],
        configs: vec![
            ("dim", json!(0), "dim"),
            ("n_heads", json!(7), "n_heads"),
            ("n_kv_heads", json!(10), "n_kv_heads"),
            ("axes_dims", json!([32, 48, 50]), "axes_dims"),
            ("all_patch_size", json!([4]), "all_patch_size"),
            ("qk_norm", json!(false), "qk_norm"),
            ("rope_theta", json!(0.0), "rope_theta"),
            ("n_layers", json!(29), "29 layers"),
            ("siglip_feat_dim", json!(1152), "Omni"),
            ("quantization_config", json!({}), "quantised"),
        ],
        loras: [
            "lora_unet_layers_0_attention_to_q",
            "diffusion_model.layers.3.attention.qkv",
            "transformer.noise_refiner.0.feed_forward.w1",
            "diffusion_model.context_refiner.1.attention.to_out.0",
        ]
        .map(|layer| (layer, [3840; 2], "z_image"))
        .to_vec(),
        variants: [
            (["z_image_turbo_bf16", ""], "Turbo"),
            (["z_image_bf16", ""], "Base"),
            (["z-image-Q8_0", ""], "Base"),
            (["zImageBase_v1", ""], "Base"),
            (["myFinetune_v2", "z-image-base"], "Base"),
            (["myFinetune_v2", "diffusion_models"], "Turbo"),
            (["transformer", "Z-Image-Turbo"], "Turbo"),
            (["transformer", "Z-Image"], "Base"),
        ]
        .map(|(names, variant)| (None, names, Ok(variant)))
        .to_vec(),
        variant: |hints| Ok(super::variant_by_names(hints)),
    }
}

#[test]
fn headers_of_published_z_image_controlnets_are_read_without_unused_keys() {
    let noise = Some(ControlRefiner::ControlNoiseRefiner);
    for (name, blocks, refiner, channels) in [
        ("control 1.0", 6, None, 16),
        ("control 2.1", 15, noise, 33),
        ("control lite", 3, noise, 33),
    ] {
        let config: ZImageControlConfig = assert_is_read(&own(name), name);
        let places = &config.control_layers_places;
        assert_eq!((places.len(), places[1]), (blocks, 30 / blocks as i64));
        assert_eq!(config.add_control_noise_refiner, refiner);
        assert_eq!(config.control_in_dim, channels);
        let found = control_network(&own(name));
        assert_eq!(found.family, z_image::FAMILY);
        assert_eq!(found.problem(z_image::FAMILY, None, false), None);
        let other = crate::families::flux::FAMILY;
        assert!(found.problem(other, None, false).is_some());
    }
    let is_looked_at = |key: &str| key.contains(".0.") || key.contains("embedder");
    assert_needs_all::<ZImageControlConfig>(&own("control 1.0"), is_looked_at);
    let mut wrong = own("control 1.0");
    let lost = "control_layers.3.after_proj.bias";
    wrong.remove(lost);
    assert_no_control_network(&wrong, lost);
}
