//! Models that no family runs: each is refused by its name, and each file that is no model with its own advice.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::catalog::IdentityCard;
use crate::library::{WeightFileRole, glance};
use crate::model::{CatalogError, ModelSpec, advice_for};
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::catalog_of;
use crate::testing::{assert_not_opened, table};

/// Each model with tensors that it is known by, in the form `name[shape]`; the shape is `[8]` where none is given.
const KNOWN: &str = "\
a CosXL model -> edm_vpred.sigma_max model.diffusion_model.input_blocks.0.0.weight[8,4,3,3] \
    model.diffusion_model.label_emb.0.0.weight[8,2816] \
    model.diffusion_model.input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight[8,2048] \
    conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight[8,8] \
    conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight[8,8] \
    first_stage_model.decoder.mid.block_1.conv1.weight
a Stable Diffusion 1.5 model -> model.diffusion_model.input_blocks.0.0.weight[8,4,3,3] \
    model.diffusion_model.input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight[8,768] \
    cond_stage_model.transformer.text_model.encoder.layers.0.mlp.fc1.weight[8,8] \
    first_stage_model.decoder.mid.block_1.conv1.weight
a Stable Diffusion 2 model -> \
    model.diffusion_model.input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight[8,1024]
a Stable Diffusion 3.5 model -> model.diffusion_model.joint_blocks.0.context_block.attn.qkv.weight \
    model.diffusion_model.joint_blocks.0.x_block.attn.ln_k.weight
an LTX-2 model -> model.diffusion_model.patchify_proj.weight model.diffusion_model.audio_patchify_proj.weight \
    model.diffusion_model.audio_caption_projection.linear_1.weight \
    vae.per_channel_statistics.mean-of-means vae.decoder.conv_in.conv.weight
an LTX-Video model -> patchify_proj.weight scale_shift_table
a HunyuanVideo 1.5 model -> byt5_in.fc1.weight vision_in.proj.0.weight \
    txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight
a LongCat-Image model -> time_embed.timestep_embedder.linear_1.weight context_embedder.weight[8,3584] \
    x_embedder.weight single_transformer_blocks.0.proj_mlp.weight
a MiniMax H3 model -> condition_proj.weight token_refiner.final_norm.weight
a HiDream model -> model.diffusion_model.double_stream_blocks.0.block.attn1.to_q.weight \
    model.diffusion_model.p_embedder.pooled_embedder.linear_1.weight
a PixArt model -> pos_embed.proj.weight adaln_single.linear.weight transformer_blocks.0.attn1.to_q.weight
a Sana model -> transformer_blocks.0.ff.conv_inverted.weight caption_norm.weight
a FLUX.3 model without images -> early_stream_modulations.txt.lin.weight single_blocks.0.q_proj.weight
an AuraFlow model -> joint_transformer_blocks.0.attn.to_q.weight register_tokens
a CogVideoX model -> patch_embed.text_proj.weight time_embedding.linear_1.weight
a Mochi model -> blocks.0.attn.qkv_x.weight t5_yproj.weight
a Cosmos Predict2 model -> net.blocks.0.self_attn.q_proj.weight net.x_embedder.proj.1.weight
a Stable Cascade model (stage C) -> clip_txt_mapper.weight
a Helios model -> patch_short.weight patch_embedding.weight condition_embedder.time_proj.weight \
    blocks.0.attn1.to_q.weight
a Wan Animate model -> patch_embedding.weight pose_patch_embedding.weight blocks.0.self_attn.q.weight \
    blocks.0.ffn.0.weight
a Wan S2V model -> patch_embedding.weight trainable_cond_mask.weight blocks.0.self_attn.q.weight \
    blocks.0.ffn.0.weight
a Wan Fun-Control model -> patch_embedding.weight ref_conv.weight blocks.0.self_attn.q.weight \
    blocks.0.ffn.0.weight
a Nucleus-Image model -> txt_norm.weight transformer_blocks.0.img_mod.1.weight \
    transformer_blocks.0.encoder_proj.weight";

fn tensors(text: &str) -> Shapes {
    let tensor = |text: &str| {
        let (name, shape) = text.split_once('[').unwrap_or((text, "8"));
        let shape = shape.trim_end_matches(']').split(',');
        (name.to_owned(), shape.map(|n| n.parse().unwrap()).collect())
    };
    text.split_whitespace().map(tensor).collect()
}

#[test]
fn a_model_of_another_family_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    for (number, (name, known)) in table(KNOWN).enumerate() {
        let path = root.path().join(format!("{number}.safetensors"));
        write(&path, &tensors(known), "F16");
        assert_eq!(glance(&path), Some(WeightFileRole::Foreign), "{name}");
        let err = ModelSpec::open(&path).unwrap_err();
        assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
        let start = format!("Safelight cannot run {name}: ");
        assert!(err.to_string().starts_with(&start), "{err}");
        let card = IdentityCard::read(&path).unwrap();
        assert_eq!((&*card.what, card.is_runnable), (name, false));
    }
    let catalog = catalog_of(root.path());
    assert_eq!(catalog.unsupported.len(), table(KNOWN).count());
}

#[test]
fn encoders_and_autoencoders_alone_are_named_and_those_of_other_models_are_not_offered() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.safetensors");
    for (known, what) in table(
        "text_model.encoder.layers.0.mlp.fc1.weight[8,8] \
             text_model.embeddings.token_embedding.weight[8,768] -> a CLIP text encoder
         text_model.encoder.layers.0.mlp.fc1.weight[8,8] \
             text_model.embeddings.token_embedding.weight[8,1280] -> a CLIP-G text encoder
         model.layers.0.self_attn.q_norm.weight[8,8] model.embed_tokens.weight[8,2560] -> a Qwen 3 text encoder
         model.layers.0.self_attn.q_norm.weight[8,8] model.embed_tokens.weight[8,1024] -> a Qwen 3 text encoder of 0.6B: no
         model.layers.0.input_layernorm.weight[8,8] model.embed_tokens.weight[8,4096] -> a Llama text encoder
         model.layers.0.input_layernorm.weight[8,8] model.embed_tokens.weight[8,5120] -> a Mistral text encoder: no
         encoder.block.0.layer.0.SelfAttention.q.weight[8,8] shared.weight[8,8] -> a T5 text encoder
         decoder.norm_out.weight[8,3] decoder.conv_in.weight[8,4] -> an SDXL or Stable Diffusion VAE
         encoder.project_in.conv.weight[8,8] decoder.conv_out.weight[8,8] -> a Sana VAE: no",
    ) {
        let (what, is_supported) = what.strip_suffix(": no").map_or((what, true), |it| (it, false));
        write(&path, &tensors(known), "F16");
        let card = IdentityCard::read(&path).unwrap();
        assert_eq!((&*card.what, card.is_supported), (what, is_supported));
    }
}

#[test]
fn each_kind_of_wrong_file_has_its_own_advice() {
    let root = tempfile::tempdir().unwrap();
    let whole = |length: u64| {
        let json = r#"{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#;
        let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
        bytes.extend(json.as_bytes());
        bytes.resize((bytes.len() as u64 + length) as usize, 0);
        bytes
    };
    let empty = |i: u32| format!(r#""{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let many = (0..140_000).map(empty).collect::<Vec<_>>().join(",");
    let many = format!("{{{many}}}");
    let bytes_of = |text: &str| match text {
        "many" => [&(many.len() as u64).to_le_bytes()[..], many.as_bytes()].concat(),
        // Its file is made as long below.
        "large" => [&100_000_001_u64.to_le_bytes()[..], b"{"].concat(),
        "pointer" => {
            b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n".to_vec()
        }
        "page" => b"\n<!DOCTYPE html><html></html>".to_vec(),
        "cut" => whole(3),
        "whole" => whole(8),
        "zeros" => vec![0; 4096],
        "onnx" => b"\x08\x0a\x12\x07pytorch".to_vec(),
        "split" => [&b"GGUF\x03\0\0\0"[..], &[0; 24]].concat(),
        text => text.chars().map(|c| c as u8).collect(),
    };
    for (row, advice) in table(
        "n.safetensors many -> another source
         o.safetensors large -> another source
         a.safetensors pointer -> git lfs pull
         b.safetensors page -> accept its licence
         c.safetensors Invalid username or password. -> accept its licence
         d.safetensors PK\x03\x04.......... -> get the .safetensors version
         e.safetensors \u{80}\x02}q\0....... -> get the .safetensors version
         f.safetensors cut -> download this file again
         s.onnx \x08\x08\x12\x07pytorch -> Get the model as
         t.safetensors onnx -> Get the model as
         u.plan ftrt........ -> one kind of GPU
         v.gguf  -> download this file again
         w-00001-of-00002.gguf split -> llama-gguf-split
         g.safetensors  -> download this file again
         p.mp3 ID3\x04\0\0\0\0\x02\u{ff}TSSE -> choose an image or a video
         q.bin lmgg\0\0\0\0.... -> Get the model as GGUF
         r.bin zeros -> Let the download finish
         h.safetensors.part cut -> Let the download finish
         i.safetensors zeros -> Let the download finish
         j.safetensors \0\0\0\x20ftypavif\0\0\0\0 -> A model is a .safetensors
         k.gguf GGUF\x01\0\0\0........ -> newer conversion
         l-00001-of-00003.safetensors whole -> Download all of these files
         m.gguf tjgg............ -> GGUF or safetensors",
    ) {
        let (name, text) = row.split_once(' ').unwrap();
        let path = root.path().join(name);
        fs::write(&path, bytes_of(text)).unwrap();
        if name.starts_with('o') {
            let file = fs::File::options().write(true).open(&path).unwrap();
            file.set_len(100_000_009).unwrap();
        }
        for err in [
            IdentityCard::read(&path).unwrap_err(),
            ModelSpec::open(&path).unwrap_err(),
        ] {
            assert!(
                advice_for(&err).contains(advice),
                "{name}: {err} {}",
                advice_for(&err)
            );
            assert!(err.to_string().ends_with(name), "{err}");
        }
    }
}

#[test]
fn a_file_that_aria2_still_downloads_is_not_opened() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.safetensors");
    write(&path, &tensors("a"), "F16");
    fs::write(root.path().join("a.safetensors.aria2"), "").unwrap();
    let err = ModelSpec::open(&path).unwrap_err();
    assert!(err.to_string().contains("unfinished download"), "{err}");
}

#[test]
fn a_language_model_is_named_with_its_architecture() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.gguf");
    let tensors = tensors("token_embd.weight[8,32] blk.0.attn_norm.weight[32]");
    super::gguf::write_gguf(&path, &tensors, super::gguf::F32, "phi3", 0);
    assert_not_opened(&path, &["a language model (phi3)"]);
}

#[test]
fn a_pipe_is_not_taken_for_a_folder_of_a_model() {
    let root = tempfile::tempdir().unwrap();
    let pipe = root.path().join("a.safetensors");
    let made = Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    for err in [
        IdentityCard::read(&pipe).unwrap_err(),
        ModelSpec::open(&pipe).unwrap_err(),
    ] {
        let text = err.to_string();
        assert!(text.starts_with("this is a pipe or a device"), "{text}");
        assert!(
            advice_for(&err).contains("weight file"),
            "{}",
            advice_for(&err)
        );
    }
}

#[test]
fn the_advice_for_a_model_that_does_not_run_lists_published_families() {
    let err = ModelSpec::open(tempfile::tempdir().unwrap().path()).unwrap_err();
    let advice = advice_for(&err);
    assert!(advice.contains("FLUX.2 klein 4B or 9B"), "{advice}");
    let is_clean = !advice.contains("Toy") && !advice.contains(", ,");
    assert!(is_clean, "{advice}");
}

#[test]
fn a_link_to_a_file_of_the_kernel_is_refused_where_a_model_has_a_config() {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/proc/kmsg", root.path().join("config.json")).unwrap();
    let (_, known) = table(KNOWN).next().unwrap();
    write(
        &root.path().join("model.safetensors"),
        &tensors(known),
        "F16",
    );
    assert!(ModelSpec::open(root.path()).is_err());
    std::os::unix::fs::symlink("/proc/kmsg", root.path().join("model_index.json")).unwrap();
    let err = ModelSpec::open(root.path()).unwrap_err();
    assert!(err.to_string().ends_with("model_index.json"), "{err}");
    assert!(IdentityCard::read(Path::new("/proc/self/status")).is_err());
}
