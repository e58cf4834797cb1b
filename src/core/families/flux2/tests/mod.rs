//! The four kleins in every layout, from names and shapes alone: recognised, completed, described; every tensor of them;
//! and relatives, which are named and refused.

mod dev;

use serde_json::json;

use crate::families::flux::tests::files::shapes;
use crate::families::flux2;
use crate::families::table::VariantHints;
use crate::families::tests::FamilyCase;
use crate::formats::weights::WeightSet;
use crate::job::SamplerKind;
use crate::model::ModelSpec;
use crate::networks::{Flux2TransformerConfig, KlVaeConfig, NetworkConfig as _};
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::{
    Folder, Offered, assert_is_read_but, assert_published, assert_refused_with, behind, edited,
    qwen3_config, shapes_of, shipped, transformer_in, with_text_encoder,
};
use crate::tokens::TextTokenizer;

/// One of the files in `tests/fixtures/headers/flux2.json`, and Z-Image's Qwen 3 4B.
pub(crate) fn own(name: &str) -> Shapes {
    if name == "qwen_3_4b" {
        return shapes_of("z_image", name);
    }
    shapes_of("flux2", name)
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

/// Published transformers, with their ids and defaults.
fn offered() -> Vec<(&'static str, Shapes, &'static str, Offered)> {
    let small = Offered {
        family: flux2::FAMILY,
        variant: "klein 4B",
        licence: "Apache-2.0",
        num_steps: 4,
        guidance_scale: 1.0,
        shift: None,
        sampler: SamplerKind::Euler,
        edge: 1024,
        preview_channels: Some(32),
        step: 16,
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
    [
        ("flux-2-klein-9b", "9b", "flux2-klein-9b", large),
        (
            "flux-2-klein-base-9b",
            "9b",
            "flux2-klein-9b-base",
            large_base,
        ),
        ("flux-2-klein-4b-fp8", "4b", "flux2-klein-4b", small),
        (
            "flux-2-klein-base-4b",
            "4b",
            "flux2-klein-4b-base",
            small_base,
        ),
    ]
    .map(|(name, size, id, offered)| (name, own(&format!("transformer {size}")), id, offered))
    .to_vec()
}

/// The row of FLUX.2 in the suite of all image families.
pub(in crate::families) fn case() -> FamilyCase {
    let [small_shapes, large_shapes] = ["4b", "9b"].map(|size| own(&format!("transformer {size}")));
    let with = |key: &str| edited(own("transformer 4b"), key, &[3072, 256]);
    let (axes, guidance) = ("axes_dims_rope", "timestep_guidance_channels");
    let single = "transformer.single_transformer_blocks.0.attn.to_qkv_mlp_proj";
    FamilyCase {
        family: flux2::FAMILY,
        transformers: || {
            for (size, published, count) in [
                ("4b", Flux2TransformerConfig::klein_4b(), 3_875_544_576),
                ("9b", Flux2TransformerConfig::klein_9b(), 9_078_581_248),
            ] {
                let published = Flux2TransformerConfig {
                    out_channels: Some(128),
                    ..published
                };
                let all = ["", " diffusers"].map(|end| own(&format!("transformer {size}{end}")));
                assert_published(&all, &published, count, |key| !key.contains("blocks.1"));
            }
        },
        companions: vec![
            ("vae/ae", shapes("ae")),
            ("vae/flux2-vae", own("vae")),
            ("text_encoders/qwen_3_4b", own("qwen_3_4b")),
            ("text_encoders/qwen_3_8b", own("qwen_3_8b")),
        ],
        offered: offered(),
        card: "FLUX.2 klein 9B",
        folders: vec![
            ("FLUX.2-klein-base-4B", folder(true), "klein 4B", 4, None),
            ("my-finetune", folder(false), "klein 4B base", 50, None),
        ],
        all_in_one: Some([
            ("model.diffusion_model.", small_shapes),
            ("vae.", own("vae")),
            ("text_encoders.qwen3_4b.transformer.", own("qwen_3_4b")),
        ]),
        missing: (
            &[
                "vae/flux2-vae",
                "vae/ae",
                "text_encoders/qwen_3_4b",
                "text_encoders/qwen_3_8b",
            ],
            &["flux2-vae", "qwen_3_8b_fp8mixed"],
        ),
        other_encoders: vec![("small", own("qwen_3_4b"), ["qwen_3_8b", "one of 2560"])],
        other_vaes: vec![(
            "ae",
            shapes("ae"),
            ["flux2-vae.safetensors", "16 latent channels"],
        )],
        relatives: vec![
            ("x", with("control_img_in.weight"), "FLUX.2 ControlNet"),
            ("x", with("something_new.weight"), "something_new"),
            ("flux-2-klein-9b-kv", large_shapes, "FLUX.2 klein KV"),
        ],
        pipelines: &[
            ("Flux2KleinKVPipeline", "FLUX.2 klein KV"),
            ("Flux2SomethingPipeline", "Flux2SomethingPipeline"),
        ],
        configs: vec![
            ("patch_size", json!(2), "patch_size"),
            ("num_attention_heads", json!(0), "num_attention_heads"),
            ("in_channels", json!(126), "in_channels"),
            (axes, json!([32, 32, 32, 33]), "4 even numbers"),
            ("mlp_ratio", json!(0.0), "mlp_ratio"),
            ("rope_theta", json!(0), "rope_theta"),
            ("eps", json!(1e-5), "eps"),
            (guidance, json!(128), guidance),
            ("num_layers", json!(4), "4 layers"),
            ("guidance_embeds", json!(true), "FLUX.2 dev"),
            ("quantization_config", json!({}), "quantised"),
        ],
        // LoRAs that only shapes would distinguish count as LoRAs for FLUX.1.
        loras: [
            ("lora_unet_double_stream_modulation_img_lin", "flux2"),
            (single, "flux2"),
            ("transformer.transformer_blocks.3.ff.linear_in", "flux2"),
            ("lora_unet_double_blocks_0_img_attn_qkv", "flux"),
        ]
        .map(|(layer, family)| (layer, [3072, 9216], family))
        .to_vec(),
        variants: vec![
            (None, ["flux-2-klein-4b", ""], Ok("klein 4B")),
            (None, ["flux-2-klein-base-4b-fp8", ""], Ok("klein 4B base")),
            (None, ["myFinetune_v2", ""], Ok("klein 4B")),
            (Some(false), ["myFinetune_v2", ""], Ok("klein 4B base")),
            (Some(true), ["base", ""], Ok("klein 4B")),
            (None, ["flux-2-klein-9b-kv", ""], Err(super::KV)),
        ],
        variant: |hints| variant_of(&Flux2TransformerConfig::klein_4b(), hints),
    }
}

fn variant_of(
    config: &Flux2TransformerConfig,
    hints: &VariantHints<'_>,
) -> Result<&'static str, String> {
    super::variant(config, hints).map(|variant| variant.name)
}

#[test]
fn the_size_is_the_width_and_a_model_with_guidance_is_dev() {
    let of = |config: &Flux2TransformerConfig, name| {
        let hints = VariantHints {
            class: None,
            is_distilled: None,
            names: &[name],
        };
        variant_of(config, &hints)
    };
    let large = Flux2TransformerConfig::klein_9b();
    assert_eq!(of(&large, "flux-2-klein-9b-Q4_K_M"), Ok("klein 9B"));
    assert_eq!(of(&large, "flux-2-klein-base-9b"), Ok("klein 9B base"));
    let dev = of(&Flux2TransformerConfig::default(), "");
    assert_eq!(dev, Err(super::DEV.to_owned()));
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
        // A count that is not read.
        let spare = ["bn.num_batches_tracked"];
        let shapes = behind(prefix, &own(name));
        let config = assert_is_read_but(KlVaeConfig::read, &shapes, &spare, name);
        assert!(config.is_normed() && config.latent_channels == 32, "{name}");
        let small = config.decoder_block_out_channels.is_some();
        assert_eq!(small, name == "vae small decoder");
        for key in ["bn.running_var", "encoder.conv_in.weight"] {
            let mut less = behind(prefix, &own(name));
            less.remove(&format!("{prefix}{key}"));
            write(&place, &less, "F32");
            let weights = WeightSet::open(&place).unwrap();
            let text = config.check_weights(&weights).unwrap_err().to_string();
            assert!(text.contains(key), "{text}");
        }
    }
}

#[test]
fn a_model_of_one_size_refuses_the_text_encoder_of_the_other() {
    let root = tempfile::tempdir().unwrap();
    let models = case().tree(root.path());
    let [small, large] = ["4b", "9b"].map(|size| {
        let shapes = own(&format!("transformer {size}"));
        transformer_in(&models, &format!("flux-2-klein-{size}"), &shapes)
    });
    let text = |name: &str| {
        let place = models.join(format!("text_encoders/{name}.safetensors"));
        with_text_encoder(place)
    };
    for (place, own, other, width) in [
        (&small, "qwen_3_4b", "qwen_3_8b", "one of 4096"),
        (&large, "qwen_3_8b", "qwen_3_4b", "one of 2560"),
    ] {
        assert_refused_with(&models, place, &text(other), [own, width]);
        let files = ModelSpec::open(place).unwrap().files;
        assert_eq!(text(own).text_encoder, Some(files.text_encoder));
        assert_eq!(files.vae, models.join("vae/flux2-vae.safetensors"));
    }
}

#[test]
fn the_words_around_a_prompt_are_those_of_an_answer_without_a_thought() {
    let tokenizer = TextTokenizer::open(&shipped("qwen"), None, flux2::PROMPT.length()).unwrap();
    let count = |text: &str| {
        let tokens = tokenizer.encode(text).unwrap();
        tokens.mask().iter().filter(|it| **it != 0).count()
    };
    let bare = count(&format!("{}a fox", flux2::PROMPT.before));
    let found = count(&flux2::PROMPT.around("a fox")) - bare;
    assert_eq!(found, flux2::PROMPT.ids_behind);
}
