//! What is said of a Flux file: its numbers from the header alone, its identity card, and what it is where it is another.

use serde_json::json;

use crate::catalog::IdentityCard;
use crate::families::flux::tests::files::{all_in_one, flux_tree, shapes};
use crate::job::SamplerKind;
use crate::model::{GuidanceMode, ImageRole, InputUse, ModelSpec};
use crate::networks::{ClipTextConfig, FluxTransformerConfig, KlVaeConfig, T5Config};
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::{
    assert_described, assert_file_unsupported, assert_lacks, assert_pipelines_unsupported, edited,
    json_of,
};
use crate::testing::table;

#[test]
fn models_like_flux_are_named_and_refused() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = models.join("unet/x.safetensors");
    let dev = || shapes("transformer dev");
    for (channels, part) in [(196, "Flex.2"), (100, "100 input channels")] {
        let shapes = edited(dev(), "img_in.weight", &[3072, channels]);
        assert_file_unsupported(&models, "x", &shapes, part);
    }
    for (key, part) in table(
        "distilled_guidance_layer.in_proj.weight -> Chroma
         controlnet_blocks.0.weight -> ControlNet
         pulid_ca.0.norm1.weight -> PuLID
         something_new.weight -> something_new
         txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight -> Hunyuan
         double_blocks.0.img_attn.qkv.weight.quant_state.bitsandbytes__nf4 -> nf4",
    ) {
        assert_file_unsupported(&models, "x", &edited(dev(), key, &[8, 8]), part);
    }
    let mut redux = Shapes::new();
    redux.insert("redux_up.weight".into(), vec![12288, 1152]);
    redux.insert("redux_down.weight".into(), vec![4096, 12288]);
    write(&place, &redux, "F16");
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(text.contains("Flux Redux"), "{text}");
    assert_pipelines_unsupported(&[
        ("FluxControlInpaintPipeline", "FluxControlInpaintPipeline"),
        ("FluxControlNetPipeline", "ControlNet"),
        ("FluxPriorReduxPipeline", "Redux"),
        ("FluxSomethingPipeline", "FluxSomethingPipeline"),
    ]);
}

#[test]
fn configs_of_all_flux_components_are_inferred_from_headers() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = models.join("unet/flux1-fill-dev.safetensors");
    write(&place, &shapes("transformer fill"), "BF16");
    for (found, expected) in [
        (
            json_of::<FluxTransformerConfig>(&place),
            json!({"in_channels": 384, "out_channels": 64, "num_layers": 19, "num_single_layers": 38,
                "attention_head_dim": 128, "num_attention_heads": 24, "joint_attention_dim": 4096,
                "pooled_projection_dim": 768, "guidance_embeds": true, "axes_dims_rope": [16, 56, 56]}),
        ),
        (
            json_of::<KlVaeConfig>(&models.join("vae/ae.safetensors")),
            json!({"block_out_channels": [128, 256, 512, 512], "layers_per_block": 2,
                "latent_channels": 16, "norm_num_groups": 32, "scaling_factor": 0.3611,
                "shift_factor": 0.1159, "use_quant_conv": false, "mid_block_add_attention": true}),
        ),
        (
            json_of::<ClipTextConfig>(&models.join("text_encoders/clip_l.safetensors")),
            json!({"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
                "num_attention_heads": 12, "max_position_embeddings": 77, "vocab_size": 49408,
                "hidden_act": "quick_gelu", "eos_token_id": 2}),
        ),
        (
            json_of::<T5Config>(&models.join("text_encoders/t5xxl_fp16.safetensors")),
            json!({"model_type": "t5", "d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24,
                "num_heads": 64, "vocab_size": 32128, "relative_attention_num_buckets": 32}),
        ),
    ] {
        for (key, value) in expected.as_object().unwrap() {
            assert_eq!(found[key], *value, "{key}");
        }
    }
}

#[test]
fn pruned_flux_model_gets_the_defaults_of_its_variant_at_a_small_size() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let mut fewer = shapes("transformer schnell");
    fewer.retain(|key, _| !key.starts_with("double_blocks.18."));
    let place = write(&models.join("unet/pruned.safetensors"), &fewer, "BF16");
    let spec = ModelSpec::open(&place).unwrap();
    assert_eq!(spec.guidance, GuidanceMode::None);
    let inputs = (spec.image_role, spec.mask);
    assert_eq!(inputs, (ImageRole::Base, InputUse::Optional));
    let (defaults, sampling) = (&spec.defaults, &spec.defaults.sampling);
    assert_eq!((defaults.width, defaults.height), (256, 256));
    assert_eq!((sampling.num_steps, sampling.strength), (4, Some(0.6)));
    assert_eq!(defaults.num_frames, 1);
    assert_eq!(sampling.sampler, SamplerKind::Euler);
    assert!(spec.latent_rgb.is_some() && spec.presets.is_empty());
}

#[test]
fn inspect_report_of_a_flux_transformer_lists_components_and_missing_files() {
    let root = tempfile::tempdir().unwrap();
    let models = flux_tree(root.path());
    let place = models.join("unet/flux1-dev.safetensors");
    write(&place, &shapes("transformer dev"), "BF16");
    assert_described(&place, "flux", "dev", "FLUX.1 dev");
    let card = IdentityCard::read(&place).unwrap();
    let names = card.components.iter().map(|it| &it.name[..]);
    assert!(names.eq(["transformer", "vae", "text_encoder", "text_encoder_2"]));
    for (file, what) in [
        ("vae/ae.safetensors", "an image VAE in the original layout"),
        ("text_encoders/clip_l.safetensors", "a CLIP text encoder"),
        ("text_encoders/t5xxl_fp16.safetensors", "a T5 text encoder"),
    ] {
        let card = IdentityCard::read(&models.join(file)).unwrap();
        assert_eq!(card.what, what);
        let err = ModelSpec::open(&models.join(file)).unwrap_err();
        assert!(err.to_string().contains(" alone: choose"), "{err}");
    }
    let [clip, t5] = ["text_encoders/clip_l", "text_encoders/t5xxl_fp16"];
    let missing = ["ae", "clip_l", "t5xxl_fp16"];
    assert_lacks(&place, &models, &["vae/ae", clip, t5], &missing);
    let card = IdentityCard::read(&place).unwrap();
    assert_eq!((card.is_runnable, &card.variant[..]), (false, "dev"));
}

#[test]
fn a_card_of_a_checkpoint_names_the_parts_in_it_also_where_one_is_missing() {
    let root = tempfile::tempdir().unwrap();
    let place = root.path().join("flux1-dev-fp8.safetensors");
    let mut shapes = all_in_one("transformer dev");
    shapes.retain(|key, _| !key.starts_with("vae."));
    write(&place, &shapes, "F16");
    let card = IdentityCard::read(&place).unwrap();
    let parts = card.components.iter();
    let parts = parts.map(|part| (&part.name[..], part.bytes));
    assert!(parts.eq([
        ("text_encoder", 2 * (123_060_480 + 768 * 768 + 1)),
        ("text_encoder_2", 2 * (4_762_310_656 + 1)),
        ("transformer", 2 * 11_901_408_320),
    ]));
    assert!(card.problems[0].contains("ae.safetensors"));
}
