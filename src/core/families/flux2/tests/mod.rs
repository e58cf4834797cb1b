//! The four kleins in every layout, from names and shapes alone: recognised, completed, described; every tensor of them;
//! and relatives, which are named and refused.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::families::flux::tests::files::shapes;
use crate::families::flux2;
use crate::formats::weights::WeightSet;
use crate::job::Sampler;
use crate::model::ModelSpec;
use crate::networks::{Flux2TransformerConfig, KlVaeConfig, NetworkConfig as _};
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::{
    Folder, Offered, assert_all_in_one, assert_configs_refused, assert_described,
    assert_file_unsupported, assert_is_whole_behind_prefixes, assert_lacks, assert_needs_all,
    assert_pipelines_unsupported, assert_refused_with, behind, count_numbers, edited,
    faultless_catalog, origin_of_lora, qwen3_config, shapes_of, shipped, transformer_in,
    with_text_encoder, with_vae,
};
use crate::tokens::TextTokenizer;

/// One of the files in `tests/fixtures/headers/flux2.json`, and Z-Image's Qwen 3 4B.
pub(crate) fn own(name: &str) -> Shapes {
    if name == "qwen_3_4b" {
        return shapes_of("z_image", name);
    }
    shapes_of("flux2", name)
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

/// A diffusers folder of the smaller published size.
fn folder(is_distilled: bool) -> Folder {
    Folder {
        classes: [
            "Flux2KleinPipeline",
            "Flux2Transformer2DModel",
            "AutoencoderKLFlux2",
            "Qwen3ForCausalLM",
            "Qwen2TokenizerFast",
        ],
        marks: json!({ "is_distilled": is_distilled }),
        scheduler: json!({"shift": 3.0, "use_dynamic_shifting": true}),
        configs: [
            json!({
                "num_layers": 5, "num_single_layers": 20, "num_attention_heads": 24, "joint_attention_dim": 7680,
                "guidance_embeds": false, "rope_theta": 2000,
            }),
            json!({
                "block_out_channels": [128, 256, 512, 512], "layers_per_block": 2, "latent_channels": 32,
                "norm_num_groups": 32, "batch_norm_eps": 1e-4, "patch_size": [2, 2],
            }),
            qwen3_config(),
        ],
        shapes: ["transformer 4b diffusers", "vae diffusers", "qwen_3_4b"].map(own),
        tokenizer: "qwen",
    }
}

#[test]
fn no_tensor_of_a_published_transformer_is_missing_or_unexpected_in_any_dialect() {
    for (size, published, count) in [
        ("4b", Flux2TransformerConfig::klein_4b(), 3_875_544_576),
        ("9b", Flux2TransformerConfig::klein_9b(), 9_078_581_248),
    ] {
        let published = Flux2TransformerConfig {
            out_channels: Some(128),
            ..published
        };
        for end in ["", " diffusers"] {
            let shapes = own(&format!("transformer {size}{end}"));
            assert_is_whole_behind_prefixes(&shapes, &published);
            assert_eq!(count_numbers(&shapes), count);
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
    let is_looked_at = |key: &str| !key.contains("blocks.1");
    assert_needs_all::<Flux2TransformerConfig>(&own("transformer 4b"), is_looked_at);
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
        transformer_in(&models, name, &own(&format!("transformer {size}")));
    }
    let catalog = faultless_catalog(&models, 4);
    let small = Offered {
        family: flux2::FAMILY,
        variant: "klein 4B",
        licence: "Apache-2.0",
        num_steps: 4,
        guidance_scale: 1.0,
        shift: None,
        sampler: Sampler::Euler,
        edge: 1024,
        latent_channels: 32,
        tokenizer: "qwen",
        reader: ("Qwen 3", 512),
        is_guided: false,
    };
    let large = Offered {
        variant: "klein 9B",
        licence: "FLUX Non-Commercial License",
        ..small
    };
    let [small_base, large_base] =
        [(small, "klein 4B base"), (large, "klein 9B base")].map(|(distilled, variant)| Offered {
            variant,
            num_steps: 50,
            guidance_scale: 4.0,
            is_guided: true,
            ..distilled
        });
    for (id, offered, text) in [
        ("flux2-klein-4b", small, "qwen_3_4b"),
        ("flux2-klein-4b-base", small_base, "qwen_3_4b"),
        ("flux2-klein-9b", large, "qwen_3_8b"),
        ("flux2-klein-9b-base", large_base, "qwen_3_8b"),
    ] {
        let spec = catalog.find(id).unwrap();
        offered.assert(&spec);
        let text = models.join(format!("text_encoders/{text}.safetensors"));
        assert_eq!(spec.files.text_encoder, text);
        assert_eq!(spec.files.vae, models.join("vae/flux2-vae.safetensors"));
    }
}

#[test]
fn a_diffusers_folder_says_its_variant_whatever_it_is_called() {
    let root = tempfile::tempdir().unwrap();
    for (name, is_distilled, variant, steps) in [
        ("FLUX.2-klein-base-4B", true, "klein 4B", 4),
        ("my-finetune", false, "klein 4B base", 50),
    ] {
        let place = root.path().join(name);
        folder(is_distilled).write(&place);
        let spec = ModelSpec::open(&place).unwrap();
        assert_eq!(spec.variant, variant);
        assert_eq!(spec.defaults.sampling.num_steps, steps);
        assert_eq!(spec.defaults.sampling.shift, None);
        assert_eq!(spec.files.tokenizer, place.join("tokenizer"));
    }
}

#[test]
fn a_checkpoint_with_all_parts_needs_nothing_around_it() {
    let parts = [
        ("model.diffusion_model.", own("transformer 4b")),
        ("vae.", own("vae")),
        ("text_encoders.qwen3_4b.transformer.", own("qwen_3_4b")),
    ];
    assert_all_in_one("klein_all-in-one", &parts);
}

#[test]
fn a_card_says_what_a_file_is_and_what_it_lacks() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let place = transformer_in(&models, "flux-2-klein-9b", &own("transformer 9b"));
    assert_described(&place, "flux2", "klein 9B", "FLUX.2 klein 9B");
    // What is left is of other models.
    let (vae, text) = ("flux2-vae.safetensors", "qwen_3_8b_fp8mixed.safetensors");
    let gone = ["vae/flux2-vae.safetensors"];
    assert_lacks(&place, &models, &gone, &[vae, "16 latent channels"]);
    let gone = [
        "vae/ae.safetensors",
        "text_encoders/qwen_3_4b.safetensors",
        "text_encoders/qwen_3_8b.safetensors",
    ];
    assert_lacks(&place, &models, &gone, &[vae, text]);
}

#[test]
fn a_part_of_another_model_is_refused_with_the_right_one() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let [small, large] = ["4b", "9b"].map(|size| {
        let shapes = own(&format!("transformer {size}"));
        transformer_in(&models, &format!("flux-2-klein-{size}"), &shapes)
    });
    let text = |name: &str| {
        let place = models.join(format!("text_encoders/{name}.safetensors"));
        with_text_encoder(place)
    };
    let vae = with_vae(models.join("vae/ae.safetensors"));
    for (place, companions, parts) in [
        (
            &small,
            text("qwen_3_8b"),
            ["qwen_3_4b.safetensors", "one of 4096"],
        ),
        (&large, text("qwen_3_4b"), ["qwen_3_8b", "one of 2560"]),
        (&small, vae, ["flux2-vae.safetensors", "16 latent channels"]),
    ] {
        assert_refused_with(&models, place, &companions, parts);
    }
}

#[test]
fn models_like_klein_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = tree(root.path());
    let with = |key: &str| edited(own("transformer 4b"), key, &[3072, 256]);
    let kv = "flux-2-klein-9b-kv";
    for (name, shapes, part) in [
        ("x", with("guidance_in.in_layer.weight"), "FLUX.2 dev"),
        ("x", with("control_img_in.weight"), "FLUX.2 ControlNet"),
        ("x", with("something_new.weight"), "something_new"),
        (kv, own("transformer 9b"), "FLUX.2 klein KV"),
    ] {
        assert_file_unsupported(&models, name, &shapes, part);
    }
    assert_pipelines_unsupported(&[
        (
            "Flux2Pipeline",
            "FLUX.2 dev model (get FLUX.2 klein 4B or 9B)",
        ),
        ("Flux2KleinKVPipeline", "FLUX.2 klein KV"),
        ("Flux2SomethingPipeline", "Flux2SomethingPipeline"),
    ]);
}

#[test]
fn a_config_that_nobody_can_run_is_refused_with_what_was_expected() {
    let (axes, guidance) = ("axes_dims_rope", "timestep_guidance_channels");
    let refused = [
        ("patch_size", json!(2), "patch_size"),
        ("num_attention_heads", json!(0), "num_attention_heads"),
        ("in_channels", json!(126), "in_channels"),
        (
            axes,
            json!([32, 32, 32, 33]),
            "axes_dims_rope of 4 even numbers",
        ),
        ("mlp_ratio", json!(0.0), "mlp_ratio"),
        ("rope_theta", json!(0), "rope_theta"),
        ("eps", json!(1e-5), "eps"),
        (guidance, json!(128), guidance),
        ("num_layers", json!(4), "4 layers"),
        ("guidance_embeds", json!(true), "FLUX.2 dev"),
        ("quantization_config", json!({}), "quantised"),
    ];
    assert_configs_refused(folder(true), &refused);
}

#[test]
fn a_lora_is_known_by_its_layers_and_counts_where_only_shapes_could_tell() {
    let single = "transformer.single_transformer_blocks.0.attn.to_qkv_mlp_proj";
    for (layer, family) in [
        ("lora_unet_double_stream_modulation_img_lin", "flux2"),
        (single, "flux2"),
        ("transformer.transformer_blocks.3.ff.linear_in", "flux2"),
        ("lora_unet_double_blocks_0_img_attn_qkv", "flux"),
    ] {
        let origin = origin_of_lora(layer, [3072, 9216]);
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
