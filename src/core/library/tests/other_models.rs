//! Models that no family runs: each is refused by its name, and each file that is no model with its own advice.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::catalog::IdentityCard;
use crate::library::{WeightFileRole, glance};
use crate::model::{CatalogError, ModelSpec, advice_for};
use crate::testing::made_up::{Shapes, write};
use crate::testing::published::catalog_of;

fn shapes(tensors: &[(&str, &[u64])]) -> Shapes {
    let each = tensors.iter();
    each.map(|(name, shape)| ((*name).to_owned(), shape.to_vec()))
        .collect()
}

type Tensors = &'static [(&'static str, &'static [u64])];

/// Tensors with their shapes, and the name of the model that they are of.
const KNOWN: &[(&str, Tensors)] = &[
    (
        "a Stable Diffusion XL model",
        &[
            (
                "model.diffusion_model.input_blocks.0.0.weight",
                &[8, 4, 3, 3],
            ),
            ("model.diffusion_model.label_emb.0.0.weight", &[8, 2816]),
            (
                "model.diffusion_model.input_blocks.4.1.transformer_blocks.0.attn2.to_k.weight",
                &[8, 2048],
            ),
            (
                "conditioner.embedders.0.transformer.text_model.encoder.layers.0.mlp.fc1.weight",
                &[8, 8],
            ),
            (
                "conditioner.embedders.0.transformer.text_model.embeddings.token_embedding.weight",
                &[8, 8],
            ),
            ("first_stage_model.decoder.mid.block_1.conv1.weight", &[8]),
        ],
    ),
    (
        "a Stable Diffusion 1.5 model",
        &[
            (
                "model.diffusion_model.input_blocks.0.0.weight",
                &[8, 4, 3, 3],
            ),
            (
                "model.diffusion_model.input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight",
                &[8, 768],
            ),
            (
                "cond_stage_model.transformer.text_model.encoder.layers.0.mlp.fc1.weight",
                &[8, 8],
            ),
            ("first_stage_model.decoder.mid.block_1.conv1.weight", &[8]),
        ],
    ),
    (
        "a Stable Diffusion 2 model",
        &[(
            "model.diffusion_model.input_blocks.1.1.transformer_blocks.0.attn2.to_k.weight",
            &[8, 1024],
        )],
    ),
    (
        "a Stable Diffusion 3.5 model",
        &[
            (
                "model.diffusion_model.joint_blocks.0.context_block.attn.qkv.weight",
                &[8],
            ),
            (
                "model.diffusion_model.joint_blocks.0.x_block.attn.ln_k.weight",
                &[8],
            ),
        ],
    ),
    (
        "an LTX-2 model",
        &[
            ("model.diffusion_model.patchify_proj.weight", &[8]),
            ("model.diffusion_model.audio_patchify_proj.weight", &[8]),
            ("vae.per_channel_statistics.mean-of-means", &[8]),
            ("vae.decoder.conv_in.conv.weight", &[8]),
        ],
    ),
    (
        "an LTX-Video model",
        &[("patchify_proj.weight", &[8]), ("scale_shift_table", &[8])],
    ),
    (
        "a HunyuanVideo 1.5 model",
        &[
            ("byt5_in.fc1.weight", &[8]),
            ("vision_in.proj.0.weight", &[8]),
            (
                "txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight",
                &[8],
            ),
        ],
    ),
    (
        "an Anima model",
        &[
            ("net.llm_adapter.blocks.0.cross_attn.q_proj.weight", &[8]),
            ("net.blocks.0.self_attn.q_proj.weight", &[8]),
            ("net.x_embedder.proj.1.weight", &[8]),
        ],
    ),
    (
        "a LongCat-Image model",
        &[
            ("time_embed.timestep_embedder.linear_1.weight", &[8]),
            ("context_embedder.weight", &[8, 3584]),
            ("x_embedder.weight", &[8]),
            ("single_transformer_blocks.0.proj_mlp.weight", &[8]),
        ],
    ),
    (
        "a MiniMax H3 model",
        &[
            ("condition_proj.weight", &[8]),
            ("token_refiner.final_norm.weight", &[8]),
        ],
    ),
    (
        "a HiDream model",
        &[
            (
                "model.diffusion_model.double_stream_blocks.0.block.attn1.to_q.weight",
                &[8],
            ),
            (
                "model.diffusion_model.p_embedder.pooled_embedder.linear_1.weight",
                &[8],
            ),
        ],
    ),
    (
        "a PixArt model",
        &[
            ("pos_embed.proj.weight", &[8]),
            ("adaln_single.linear.weight", &[8]),
            ("transformer_blocks.0.attn1.to_q.weight", &[8]),
        ],
    ),
    (
        "a Sana model",
        &[
            ("transformer_blocks.0.ff.conv_inverted.weight", &[8]),
            ("caption_norm.weight", &[8]),
        ],
    ),
    (
        "a FLUX.3 model",
        &[
            ("early_stream_modulations.image.lin.weight", &[8]),
            ("single_blocks.0.q_proj.weight", &[8]),
        ],
    ),
    (
        "an AuraFlow model",
        &[
            ("joint_transformer_blocks.0.attn.to_q.weight", &[8]),
            ("register_tokens", &[8]),
        ],
    ),
    (
        "a CogVideoX model",
        &[
            ("patch_embed.text_proj.weight", &[8]),
            ("time_embedding.linear_1.weight", &[8]),
        ],
    ),
    (
        "a Mochi model",
        &[
            ("blocks.0.attn.qkv_x.weight", &[8]),
            ("t5_yproj.weight", &[8]),
        ],
    ),
    (
        "a Cosmos Predict2 model",
        &[
            ("net.blocks.0.self_attn.q_proj.weight", &[8]),
            ("net.x_embedder.proj.1.weight", &[8]),
        ],
    ),
    (
        "a Stable Cascade model (stage C)",
        &[("clip_txt_mapper.weight", &[8])],
    ),
    (
        "a Helios model",
        &[
            ("patch_short.weight", &[8]),
            ("patch_embedding.weight", &[8]),
            ("condition_embedder.time_proj.weight", &[8]),
            ("blocks.0.attn1.to_q.weight", &[8]),
        ],
    ),
    (
        "a Wan Animate model",
        &[
            ("patch_embedding.weight", &[8]),
            ("pose_patch_embedding.weight", &[8]),
            ("blocks.0.self_attn.q.weight", &[8]),
            ("blocks.0.ffn.0.weight", &[8]),
        ],
    ),
    (
        "a Wan S2V model",
        &[
            ("patch_embedding.weight", &[8]),
            ("trainable_cond_mask.weight", &[8]),
            ("blocks.0.self_attn.q.weight", &[8]),
            ("blocks.0.ffn.0.weight", &[8]),
        ],
    ),
    (
        "a Wan Fun-Control model",
        &[
            ("patch_embedding.weight", &[8]),
            ("ref_conv.weight", &[8]),
            ("blocks.0.self_attn.q.weight", &[8]),
            ("blocks.0.ffn.0.weight", &[8]),
        ],
    ),
    (
        "a Nucleus-Image model",
        &[
            ("txt_norm.weight", &[8]),
            ("transformer_blocks.0.img_mod.1.weight", &[8]),
            ("transformer_blocks.0.encoder_proj.weight", &[8]),
        ],
    ),
];

#[test]
fn a_model_of_another_family_is_refused_by_its_name() {
    let root = tempfile::tempdir().unwrap();
    for (number, (name, tensors)) in KNOWN.iter().enumerate() {
        let path = root.path().join(format!("{number}.safetensors"));
        write(&path, &shapes(tensors), "F16");
        assert_eq!(glance(&path), Some(WeightFileRole::Foreign), "{name}");
        let err = ModelSpec::open(&path).unwrap_err();
        assert!(matches!(err, CatalogError::Unsupported { .. }), "{err}");
        let start = format!("Safelight cannot run {name}: ");
        assert!(err.to_string().starts_with(&start), "{err}");
        let card = IdentityCard::read(&path).unwrap();
        assert_eq!((&*card.what, card.is_runnable), (*name, false));
    }
    let catalog = catalog_of(root.path());
    assert_eq!(catalog.unsupported.len(), KNOWN.len());
}

#[test]
fn encoders_and_autoencoders_alone_are_named_and_those_of_other_models_are_not_offered() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.safetensors");
    let fc1 = ("text_model.encoder.layers.0.mlp.fc1.weight", 8);
    let tokens = "text_model.embeddings.token_embedding.weight";
    let words = "model.embed_tokens.weight";
    let norm = ("model.layers.0.input_layernorm.weight", 8);
    let head = ("model.layers.0.self_attn.q_norm.weight", 8);
    for (tensors, what, is_supported) in [
        ([fc1, (tokens, 768)], "a CLIP text encoder", true),
        ([fc1, (tokens, 1280)], "a CLIP-G text encoder", false),
        ([head, (words, 2560)], "a Qwen 3 text encoder", true),
        (
            [head, (words, 1024)],
            "a Qwen 3 text encoder of 0.6B",
            false,
        ),
        ([norm, (words, 4096)], "a Llama text encoder", true),
        ([norm, (words, 5120)], "a Mistral text encoder", false),
        (
            [
                ("encoder.block.0.layer.0.SelfAttention.q.weight", 8),
                ("shared.weight", 8),
            ],
            "a T5 text encoder",
            true,
        ),
        (
            [
                ("decoder.norm_out.weight", 3),
                ("decoder.conv_in.weight", 4),
            ],
            "a Stable Diffusion VAE",
            false,
        ),
        (
            [
                ("encoder.project_in.conv.weight", 8),
                ("decoder.conv_out.weight", 8),
            ],
            "a Sana VAE",
            false,
        ),
    ] {
        let shapes = tensors.map(|(name, width)| (name.to_owned(), vec![8, width]));
        write(&path, &Shapes::from(shapes), "F16");
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
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n";
    let empty = |i: u32| format!(r#""{i}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}"#);
    let many = (0..140_000).map(empty).collect::<Vec<_>>().join(",");
    let many = format!("{{{many}}}");
    let many = [&(many.len() as u64).to_le_bytes()[..], many.as_bytes()].concat();
    // Its file is made as long below.
    let large = [&100_000_001_u64.to_le_bytes()[..], b"{"].concat();
    let cases: [(&str, Vec<u8>, &str); 23] = [
        ("n.safetensors", many, "another source"),
        ("o.safetensors", large, "another source"),
        ("a.safetensors", pointer.to_vec(), "git lfs pull"),
        (
            "b.safetensors",
            b"\n<!DOCTYPE html><html></html>".to_vec(),
            "accept its licence",
        ),
        (
            "c.safetensors",
            b"Invalid username or password.".to_vec(),
            "accept its licence",
        ),
        (
            "d.safetensors",
            b"PK\x03\x04..........".to_vec(),
            "get the .safetensors version",
        ),
        (
            "e.safetensors",
            b"\x80\x02}q\0.......".to_vec(),
            "get the .safetensors version",
        ),
        ("f.safetensors", whole(3), "download this file again"),
        (
            "s.onnx",
            b"\x08\x08\x12\x07pytorch".to_vec(),
            "Get the model as",
        ),
        (
            "t.safetensors",
            b"\x08\x0a\x12\x07pytorch".to_vec(),
            "Get the model as",
        ),
        ("u.plan", b"ftrt........".to_vec(), "one kind of GPU"),
        ("v.gguf", Vec::new(), "download this file again"),
        (
            "w-00001-of-00002.gguf",
            [&b"GGUF\x03\0\0\0"[..], &[0; 24]].concat(),
            "llama-gguf-split",
        ),
        ("g.safetensors", Vec::new(), "download this file again"),
        (
            "p.mp3",
            b"ID3\x04\0\0\0\0\x02\xffTSSE".to_vec(),
            "choose an image or a video",
        ),
        (
            "q.bin",
            b"lmgg\0\0\0\0....".to_vec(),
            "Get the model as GGUF",
        ),
        ("r.bin", vec![0; 4096], "Let the download finish"),
        ("h.safetensors.part", whole(3), "Let the download finish"),
        ("i.safetensors", vec![0; 4096], "Let the download finish"),
        (
            "j.safetensors",
            b"\0\0\0\x20ftypavif\0\0\0\0".to_vec(),
            "A model is a .safetensors",
        ),
        (
            "k.gguf",
            b"GGUF\x01\0\0\0........".to_vec(),
            "newer conversion",
        ),
        (
            "l-00001-of-00003.safetensors",
            whole(8),
            "Download all of these files",
        ),
        (
            "m.gguf",
            b"tjgg............".to_vec(),
            "GGUF or safetensors",
        ),
    ];
    for (name, bytes, advice) in cases {
        let path = root.path().join(name);
        fs::write(&path, bytes).unwrap();
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
    write(&path, &shapes(&[("a", &[8])]), "F16");
    fs::write(root.path().join("a.safetensors.aria2"), "").unwrap();
    let err = ModelSpec::open(&path).unwrap_err();
    assert!(err.to_string().contains("unfinished download"), "{err}");
}

#[test]
fn a_language_model_is_named_with_its_architecture() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("a.gguf");
    let tensors = shapes(&[
        ("token_embd.weight", &[8, 32]),
        ("blk.0.attn_norm.weight", &[32]),
    ]);
    super::gguf::write_gguf(&path, &tensors, super::gguf::F32, "phi3", 0);
    let text = ModelSpec::open(&path).unwrap_err().to_string();
    assert!(text.contains("a language model (phi3)"), "{text}");
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
    assert!(
        !advice.contains("Toy") && !advice.contains(", ,"),
        "{advice}"
    );
}

#[test]
fn a_link_to_a_file_of_the_kernel_is_refused_where_a_model_has_a_config() {
    let root = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/proc/kmsg", root.path().join("config.json")).unwrap();
    write(
        &root.path().join("model.safetensors"),
        &shapes(KNOWN[0].1),
        "F16",
    );
    assert!(ModelSpec::open(root.path()).is_err());
    std::os::unix::fs::symlink("/proc/kmsg", root.path().join("model_index.json")).unwrap();
    let err = ModelSpec::open(root.path()).unwrap_err();
    assert!(err.to_string().ends_with("model_index.json"), "{err}");
    assert!(IdentityCard::read(Path::new("/proc/self/status")).is_err());
}
