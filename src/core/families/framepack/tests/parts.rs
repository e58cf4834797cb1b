//! The parts beside a FramePack transformer: FramePack's own downloads, missing and wrong ones, other models', LoRAs.

use std::fs;
use std::path::Path;

use crate::families::flux::tests::files::{framepack_shapes, shapes};
use crate::families::framepack;
use crate::families::framepack::tests::files::{
    framepack_tree, transformer_in, write_parts, write_siglip, write_transformer,
};
use crate::fitting;
use crate::job::LoraChoice;
use crate::model::{CatalogError, ComponentOverrides, ModelFiles, ModelSpec};
use crate::testing::made_up::{I2V_14B, Shapes, clip_vision, comfy_tree, transformer, write};
use crate::testing::published::{
    assert_refused_with, catalog_of, edited, other_in, with_text_encoder, with_vae,
};
use crate::testing::table;

/// A LoRA of rank 4 with these layers. A row: name -> outputs and inputs.
fn write_lora(path: &Path, [down, up]: [&str; 2], layers: &str) -> LoraChoice {
    let mut shapes = Shapes::new();
    for (layer, sizes) in table(layers) {
        let (outputs, inputs) = sizes.split_once(' ').unwrap();
        let [outputs, inputs] = [outputs, inputs].map(|size| size.parse().unwrap());
        shapes.insert(format!("{layer}.{down}.weight"), vec![4, inputs]);
        shapes.insert(format!("{layer}.{up}.weight"), vec![outputs, 4]);
    }
    write(path, &shapes, "F32");
    path.to_string_lossy().parse().unwrap()
}

const HUNYUAN_LAYERS: &str = "\
diffusion_model.double_blocks.19.img_attn_qkv -> 9216 3072
diffusion_model.double_blocks.0.txt_mlp.fc2 -> 3072 12288
diffusion_model.double_blocks.0.img_mod.linear -> 18432 3072
diffusion_model.single_blocks.39.linear1 -> 21504 3072
diffusion_model.txt_in.individual_token_refiner.blocks.1.self_attn_qkv -> 9216 3072";

const PEFT_LAYERS: &str = "\
transformer.transformer_blocks.19.attn.add_k_proj -> 3072 3072
transformer.transformer_blocks.0.ff_context.net.0.proj -> 12288 3072
transformer.single_transformer_blocks.39.proj_mlp -> 12288 3072
transformer.norm_out.linear -> 6144 3072
transformer.clean_x_embedder.proj_2x -> 3072 512";

const MUSUBI_LAYERS: &str = "\
lora_unet_transformer_blocks_19_attn_to_out_0 -> 3072 3072
lora_unet_single_transformer_blocks_39_attn_to_k -> 3072 3072
lora_unet_transformer_blocks_3_norm1_context_linear -> 18432 3072";

const FLUX_LAYERS: &str = "\
transformer.transformer_blocks.18.attn.to_q -> 3072 3072
transformer.single_transformer_blocks.37.attn.to_q -> 3072 3072";

#[test]
fn framepacks_own_downloads_make_both_models() {
    let root = tempfile::tempdir().unwrap();
    let hub = root.path().join("FramePack/hf_download/hub");
    let snapshot = |repository: &str| hub.join(format!("models--{repository}/snapshots/abc"));
    let own_class = "HunyuanVideoTransformer3DModelPacked";
    for repository in [
        "lllyasviel--FramePackI2V_HY",
        "lllyasviel--FramePack_F1_I2V_HY_20250503",
    ] {
        write_transformer(&snapshot(repository), own_class);
    }
    let hunyuan = snapshot("hunyuanvideo-community--HunyuanVideo");
    write_parts(&hunyuan);
    let redux = snapshot("lllyasviel--flux_redux_bfl");
    write_siglip(&redux);
    let catalog = catalog_of(&hub);
    assert!(catalog.problems.is_empty(), "{:?}", catalog.problems);
    for id in ["framepack-i2v", "framepack-f1"] {
        let files = catalog.find(id).unwrap().files;
        assert_eq!(files.text_encoder, hunyuan.join("text_encoder"), "{id}");
        assert_eq!(files.tokenizer, hunyuan.join("tokenizer"));
        assert_eq!(files.text_encoder_2, Some(hunyuan.join("text_encoder_2")));
        assert_eq!(files.tokenizer_2, Some(hunyuan.join("tokenizer_2")));
        assert_eq!(files.vae, hunyuan.join("vae"));
        assert_eq!(files.image_encoder, Some(redux.join("image_encoder")));
    }
    // Repositories in folders of their own, which the user names.
    let place = snapshot("lllyasviel--FramePack_F1_I2V_HY_20250503");
    let companions = ComponentOverrides {
        text_encoder_2: Some(hunyuan.join("text_encoder_2")),
        image_encoder: Some(redux.join("image_encoder")),
        ..ComponentOverrides::default()
    };
    let spec = catalog.open_with(&place.to_string_lossy(), &companions);
    assert_eq!(spec.unwrap().variant, "F1");
}

#[test]
fn missing_or_mismatched_framepack_components_name_the_file_to_get() {
    let root = tempfile::tempdir().unwrap();
    let models = root.path().join("models");
    let place = transformer_in(&models, "FramePackI2V_HY_fp8_e4m3fn");
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    for name in [
        "hunyuan_video_vae_bf16.safetensors",
        "llava_llama3_fp8_scaled.safetensors",
        "clip_l.safetensors",
        "sigclip_vision_patch14_384.safetensors",
    ] {
        assert!(text.contains(name), "{text}");
    }
    framepack_tree(&models);
    ModelSpec::open(&place).unwrap();
    let other = |name: &str, shapes: &Shapes| other_in(&models, name, shapes);
    let key = "model.embed_tokens.weight";
    let qwen = edited(framepack_shapes("llama"), key, &[152_064, 4096]);
    let image_encoder = ComponentOverrides {
        image_encoder: Some(other("clip_h", &clip_vision())),
        ..ComponentOverrides::default()
    };
    let text_encoder = with_text_encoder(other("qwen", &qwen));
    let vae = with_vae(other("ae", &shapes("ae")));
    for (companions, parts) in [
        (text_encoder, ["llava_llama3", "152064 words"]),
        (image_encoder, ["sigclip_vision", "an image encoder"]),
        (vae, ["hunyuan_video_vae", "an image VAE"]),
    ] {
        assert_refused_with(root.path(), &place, &companions, parts);
    }
    fs::remove_dir_all(models.join("text_encoders/llama-3")).unwrap();
    let text = ModelSpec::open(&place).unwrap_err().to_string();
    assert!(text.contains("the tokenizer of Llama 3"), "{text}");
}

#[test]
fn hunyuanvideo_itself_is_named_and_refused_and_wan_does_not_take_framepacks_parts() {
    let root = tempfile::tempdir().unwrap();
    let models = framepack_tree(&root.path().join("models"));
    comfy_tree(&models);
    for name in ["diffusers", "hunyuan", "comfy"] {
        let mut shapes = framepack_shapes(&format!("transformer {name}"));
        shapes.retain(|key, _| !key.contains("clean_x_embedder") && !key.contains("image_proj"));
        let place = models.join(format!("unet/{name}.safetensors"));
        write(&place, &shapes, "BF16");
        let err = ModelSpec::open(&place).unwrap_err();
        assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
        assert!(err.to_string().contains("HunyuanVideo"), "{err}");
    }
    let wan = models.join("unet/wan2.1_i2v_480p_14B_fp16.safetensors");
    write(&wan, &transformer(I2V_14B), "F16");
    let files = ModelSpec::open(&wan).unwrap().files;
    let clip_h = models.join("clip_vision/clip_vision_h.safetensors");
    assert_eq!(files.image_encoder, Some(clip_h));
}

#[test]
fn loras_of_hunyuanvideo_and_framepack_fit_in_every_tools_names_and_those_of_flux_do_not() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("lora.safetensors");
    let files = |dialect: &str| {
        let place = root.path().join(format!("{dialect}.safetensors"));
        let shapes = framepack_shapes(&format!("transformer {dialect}"));
        write(&place, &shapes, "BF16");
        ModelFiles {
            transformer: place,
            ..ModelFiles::default()
        }
    };
    let (peft_ends, kohya_ends) = (["lora_A", "lora_B"], ["lora_down", "lora_up"]);
    for dialect in ["diffusers", "hunyuan", "comfy"] {
        let files = files(dialect);
        for (ends, layers) in [
            (peft_ends, HUNYUAN_LAYERS),
            (peft_ends, PEFT_LAYERS),
            (kohya_ends, MUSUBI_LAYERS),
        ] {
            let lora = write_lora(&path, ends, layers);
            let checked = fitting::check(&[lora], framepack::FAMILY, &files).unwrap();
            let coverage = &checked[0].coverage;
            let all = 2 * layers.lines().count();
            assert_eq!((coverage.applied, coverage.total), (all, all), "{dialect}");
        }
    }
    let lora = write_lora(&path, peft_ends, FLUX_LAYERS);
    let err = fitting::check(&[lora], framepack::FAMILY, &files("diffusers")).unwrap_err();
    let text = err.to_string();
    assert!(text.contains("this LoRA is for Flux, not for FramePack"));
}
