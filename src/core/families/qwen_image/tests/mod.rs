//! Qwen-Image in every layout, from names and shapes alone: recognised, completed, described; every tensor of it; and
//! relatives, which are named and refused.

use std::path::Path;

use serde_json::json;

use crate::families::flux::tests::files::shapes;
use crate::families::qwen_image;
use crate::families::tests::FamilyCase;
use crate::job::SamplerKind;
use crate::model::{InputUse, ModelSpec};
use crate::networks::{
    NetworkConfig as _, QwenImageControlConfig, QwenImageTransformerConfig, QwenVisionConfig,
    WanVaeConfig,
};
use crate::testing::made_up::{Shapes, vae, write};
use crate::testing::published::{
    Folder, Offered, assert_file_unsupported, assert_is_read, assert_is_read_but, assert_needs_all,
    assert_no_control_network, assert_published, catalog_of, control_network, edited, resized,
    shapes_of, transformer_in,
};

/// One of the files in `tests/fixtures/headers/qwen_image.json`.
pub(crate) fn own(name: &str) -> Shapes {
    shapes_of("qwen_image", name)
}

fn folder(class: &'static str) -> Folder {
    let text = json!({
        "model_type": "qwen2_5_vl", "vocab_size": 152_064, "hidden_size": 3584, "intermediate_size": 18_944,
        "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "rms_norm_eps": 1e-6,
        "rope_theta": 1_000_000, "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
        "vision_config": {"model_type": "qwen2_5_vl", "depth": 32, "hidden_size": 1280},
    });
    Folder {
        classes: [
            class,
            "QwenImageTransformer2DModel",
            "AutoencoderKLQwenImage",
            "Qwen2_5_VLForConditionalGeneration",
            "Qwen2Tokenizer",
        ],
        marks: json!({}),
        scheduler: json!({
            "shift": 1.0, "use_dynamic_shifting": true, "base_shift": 0.5, "max_shift": 0.9,
            "base_image_seq_len": 256, "max_image_seq_len": 8192, "shift_terminal": 0.02,
            "time_shift_type": "exponential",
        }),
        configs: [
            json!({"axes_dims_rope": [16, 56, 56]}),
            json!({"base_dim": 96, "z_dim": 16, "dropout": 0.0}),
            text,
        ],
        shapes: ["transformer", "vae diffusers", "qwen_2.5_vl_7b"].map(own),
        tokenizer: "qwen",
    }
}

/// The row of Qwen-Image in the suite of all image families.
pub(in crate::families) fn case() -> FamilyCase {
    let offered = Offered {
        family: qwen_image::FAMILY,
        variant: "Image",
        licence: "Apache-2.0",
        num_steps: 50,
        guidance_scale: 4.0,
        shift: None,
        sampler: SamplerKind::Euler,
        edge: 1328,
        preview_channels: Some(16),
        step: 16,
        tokenizer: "qwen",
        reader: ("Qwen 2.5 VL", 512),
        is_guided: true,
    };
    let narrow = resized(own("qwen_2.5_vl_7b"), 3584, 2048);
    let narrow = edited(narrow, "model.layers.0.self_attn.q_norm.weight", &[128]);
    const RIGHT: &str = "qwen_2.5_vl_7b_fp8_scaled.safetensors";
    let with = |key: &str, shape: &[u64]| edited(own("transformer"), key, shape);
    let added = "time_text_embed.addition_t_embedding.weight";
    let control = "controlnet_x_embedder.weight";
    FamilyCase {
        family: qwen_image::FAMILY,
        transformers: || {
            assert_published(
                &[own("transformer")],
                &QwenImageTransformerConfig::default(),
                20_430_401_088,
                |key| !key.contains("blocks.") || key.contains("blocks.59."),
            );
        },
        companions: vec![
            ("vae/qwen_image_vae", vae(16)),
            ("text_encoders/qwen_2.5_vl_7b", own("qwen_2.5_vl_7b")),
        ],
        offered: vec![
            (
                "qwen_image_2512_bf16",
                own("transformer"),
                "qwen-image-2512",
                offered,
            ),
            (
                "qwen_image_fp8_e4m3fn",
                own("transformer"),
                "qwen-image",
                offered,
            ),
        ],
        card: "Qwen-Image 20B",
        folders: vec![(
            "Qwen-Image-2512",
            folder("QwenImagePipeline"),
            "Image",
            50,
            None,
        )],
        all_in_one: None,
        missing: (
            &["vae/qwen_image_vae", "text_encoders/qwen_2.5_vl_7b"],
            &["qwen_image_vae", "qwen_2.5_vl_7b_fp8_scaled"],
        ),
        other_encoders: vec![
            ("clip", shapes("clip_l"), [RIGHT, "a CLIP text encoder"]),
            ("qwen_3", narrow, [RIGHT, "a Qwen 3 text encoder"]),
        ],
        other_vaes: Vec::new(),
        relatives: vec![
            ("x", with(added, &[2, 3072]), "Qwen-Image-Layered"),
            ("x", with(control, &[3072, 64]), "Qwen-Image ControlNet"),
            ("x", with("something_new.weight", &[3072]), "something_new"),
        ],
        pipelines: &[
            ("QwenImageLayeredPipeline", "Qwen-Image-Layered"),
            ("QwenImageControlNetPipeline", "Qwen-Image ControlNet"),
            ("QwenImageEditPipeline", "the first Qwen-Image-Edit"),
            ("QwenImageNewPipeline", "QwenImageNewPipeline"),
        ],
        configs: vec![
            ("num_attention_heads", json!(0), "num_attention_heads"),
            ("in_channels", json!(60), "in_channels"),
            ("patch_size", json!(4), "patch_size"),
            ("axes_dims_rope", json!([16, 56, 58]), "axes_dims_rope"),
            ("guidance_embeds", json!(true), "guidance_embeds"),
            ("num_layers", json!(59), "59 layers"),
            ("use_layer3d_rope", json!(true), "Layered"),
            ("quantization_config", json!({}), "quantised"),
        ],
        loras: [
            "lora_unet_transformer_blocks_0_img_mlp_net_0_proj",
            "diffusion_model.transformer_blocks.3.txt_mod.1",
            "transformer_blocks.59.attn.to_q",
            "transformer.transformer_blocks.0.txt_mlp.net.2",
        ]
        .map(|layer| (layer, [3072; 2], "qwen_image"))
        .to_vec(),
        variants: vec![
            (None, ["qwen_image_2512_bf16", ""], Ok("Image")),
            (None, ["qwen_image_edit_2509", ""], Ok("Edit")),
        ],
        variant: |hints| {
            let config = QwenImageTransformerConfig::default();
            super::variant::variant(&config, hints).map(|variant| variant.name)
        },
    }
}

#[test]
fn no_tensor_of_the_published_autoencoder_is_missing_or_unexpected() {
    for shapes in [own("vae diffusers"), vae(16)] {
        assert_is_read::<WanVaeConfig>(&shapes, "vae");
    }
}

#[test]
fn qwen_image_edit_is_detected_by_name_or_marker_and_needs_a_vision_encoder() {
    let root = tempfile::tempdir().unwrap();
    let models = case().tree(&root.path().join("models"));
    let open = |place: &Path| ModelSpec::open(place).unwrap();
    let in_folder = |name: &str| transformer_in(&models, name, &own("transformer"));
    in_folder("qwen_image_edit_2509_fp8_e4m3fn");
    let marked = edited(own("transformer"), "__index_timestep_zero__", &[0]);
    let place = transformer_in(&models, "qwen_image_edit_2511_bf16", &marked);
    let catalog = catalog_of(&models);
    assert!(catalog.unsupported.is_empty(), "{:?}", catalog.unsupported);
    for id in ["qwen-image-edit-2509", "qwen-image-edit-2511"] {
        let spec = catalog.find(id).unwrap();
        let variant = (spec.family, &spec.variant[..]);
        assert_eq!(variant, (qwen_image::FAMILY, "Edit"));
        assert_eq!((spec.start_image, spec.mask), (InputUse::No, InputUse::No));
        assert_eq!(spec.limits.max_references, 3);
        let defaults = &spec.defaults;
        assert_eq!((defaults.width, defaults.sampling.num_steps), (1024, 40));
    }
    let unnamed = models.join("diffusion_models/mine.safetensors");
    std::fs::rename(&place, &unnamed).unwrap();
    assert_eq!(open(&unnamed).variant, "Edit");
    let mine = root.path().join("mine");
    folder("QwenImageEditPlusPipeline").write(&mine);
    assert_eq!(open(&mine).variant, "Edit");
    let blind = models.join("text_encoders/qwen_2.5_vl_7b.safetensors");
    let mut shapes = own("qwen_2.5_vl_7b");
    shapes.retain(|key, _| !key.starts_with("visual."));
    write(&blind, &shapes, "BF16");
    let text = ModelSpec::open(&unnamed).unwrap_err().to_string();
    assert!(text.contains("looks at images"), "{text}");
    drop(open(&in_folder("qwen_image_2512_bf16")));
}

#[test]
fn original_qwen_image_edit_is_refused_by_name_unlike_2509_and_2511() {
    let root = tempfile::tempdir().unwrap();
    let models = case().tree(&root.path().join("models"));
    let sentence = "the first Qwen-Image-Edit model (2509 and 2511 run; if it is one of them, put that number in its name)";
    let first =
        "qwen_image_edit_fp8_e4m3fn qwen_image_edit_bf16 Qwen_Image_Edit-Q4_K_M Qwen-Image-Edit";
    for name in first.split(' ') {
        assert_file_unsupported(&models, name, &own("transformer"), sentence);
    }
    let later = "Qwen-Image-Edit-2509-Q4_K_M qwen_image_edit_plus_fp8_e4m3fn qwen-image-edit-mine qwen_edit";
    for name in later.split(' ') {
        let place = transformer_in(&models, name, &own("transformer"));
        assert_eq!(ModelSpec::open(&place).unwrap().variant, "Edit", "{name}");
    }
    // The folder's name stands for the file's, and the mark of 2511 for both.
    let place =
        models.join("diffusion_models/Qwen-Image-Edit-2509/qwen_image_edit_bf16.safetensors");
    write(&place, &own("transformer"), "BF16");
    assert_eq!(ModelSpec::open(&place).unwrap().variant, "Edit");
    let marked = edited(own("transformer"), "__index_timestep_zero__", &[0]);
    let place = transformer_in(&models, "qwen_image_edit_bf16", &marked);
    assert_eq!(ModelSpec::open(&place).unwrap().variant, "Edit");
}

#[test]
fn no_tensor_of_the_published_part_that_looks_at_images_is_missing_or_unexpected() {
    let shapes = own("qwen_2.5_vl_7b");
    let spare = ["model.", "lm_head."];
    let config = assert_is_read_but(QwenVisionConfig::read, &shapes, &spare, "vision");
    assert_eq!(config, QwenVisionConfig::default());
}

#[test]
fn variant_name_is_not_repeated_in_the_kind_text() {
    let kind = |variant| qwen_image::FAMILY.kind_text(variant);
    assert_eq!(kind("Image"), "Qwen-Image");
    assert_eq!(kind("Edit"), "Qwen-Image Edit");
}

#[test]
fn wan_s_autoencoder_will_do_where_qwen_image_s_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let models = case().tree(root.path());
    let place = transformer_in(&models, "qwen_image_2512_bf16", &own("transformer"));
    let own = models.join("vae/qwen_image_vae.safetensors");
    let wan = models.join("vae/wan_2.1_vae.safetensors");
    std::fs::copy(&own, &wan).unwrap();
    assert_eq!(ModelSpec::open(&place).unwrap().files.vae, own);
    std::fs::remove_file(&own).unwrap();
    assert_eq!(ModelSpec::open(&place).unwrap().files.vae, wan);
}

#[test]
fn published_qwen_image_controlnets_are_recognised_and_other_layouts_refused() {
    for (name, blocks, takes_masks) in
        [("control union", 5, false), ("control inpainting", 6, true)]
    {
        let config: QwenImageControlConfig = assert_is_read(&own(name), name);
        assert_eq!(config.blocks.num_layers, blocks);
        let found = control_network(&own(name));
        let kind = (found.family, found.takes_masks);
        assert_eq!(kind, (qwen_image::FAMILY, takes_masks));
        let problem = |has_mask| found.problem(qwen_image::FAMILY, None, has_mask);
        assert_eq!(problem(takes_masks), None);
        assert!(problem(!takes_masks).is_some_and(|text| text.contains("mask")));
    }
    let is_looked_at = |key: &str| !key.contains("blocks.");
    assert_needs_all::<QwenImageControlConfig>(&own("control union"), is_looked_at);
    let blockwise = edited(Shapes::new(), "controlnet_blocks.0.x_rms.weight", &[3072]);
    assert_no_control_network(&blockwise, "DiffSynth");
    let lost = "controlnet_blocks.4.bias";
    let mut broken = own("control union");
    broken.remove(lost);
    assert_no_control_network(&broken, lost);
}
