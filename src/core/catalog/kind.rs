//! What the tensors of a weight file are, from their names and shapes.
//!
//! For people who ask what a file is: nothing is run because of what is said here.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use safetensors::Dtype;
use serde::Serialize;

use super::weights::{TensorEntry, WeightSet};
use super::{gguf, lora, storage};
use crate::media::{self, Kind};

/// As many bytes as tell kinds of files apart.
const HEAD_BYTES: u64 = 512;

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TensorKind {
    /// `wan`, `flux`, `flux2`, `chroma`, `framepack`, `hunyuan`, `umt5`, `t5`, `clip`, `llama`, `vision`, or empty.
    pub family: &'static str,
    /// `transformer`, `text_encoder`, `image_encoder`, `vae`, `tiny_decoder`, `adapter`, `lora`, or empty.
    pub role: &'static str,
    /// A noun phrase for people.
    pub text: String,
}

/// A family, a role, a phrase, and the ends of keys that all must be there.
type Rule = (
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
);

/// The first that fits wins, so the more special come first.
const RULES: &[Rule] = &[
    (
        "framepack",
        "transformer",
        "a FramePack transformer",
        &["clean_x_embedder.proj.weight"],
    ),
    (
        "hunyuan",
        "transformer",
        "a HunyuanVideo transformer",
        &["context_embedder.time_text_embed.timestep_embedder.linear_1.weight"],
    ),
    (
        "hunyuan",
        "transformer",
        "a HunyuanVideo transformer in the original layout",
        &["txt_in.individual_token_refiner.blocks.0.self_attn_qkv.weight"],
    ),
    (
        "wan",
        "transformer",
        "a Wan transformer",
        &[
            "condition_embedder.time_proj.weight",
            "patch_embedding.weight",
        ],
    ),
    (
        "wan",
        "transformer",
        "a Wan transformer in the original layout",
        &["blocks.0.self_attn.q.weight", "patch_embedding.weight"],
    ),
    (
        "chroma",
        "transformer",
        "a Chroma transformer",
        &["distilled_guidance_layer.in_proj.weight"],
    ),
    (
        "flux2",
        "transformer",
        "a Flux 2 transformer in the original layout",
        &["double_stream_modulation_img.lin.weight"],
    ),
    (
        "flux2",
        "transformer",
        "a Flux 2 transformer",
        &["double_stream_modulation_img.linear.weight"],
    ),
    (
        "flux",
        "adapter",
        "a Flux Redux adapter",
        &["redux_up.weight", "redux_down.weight"],
    ),
    (
        "flux",
        "transformer",
        "a Flux transformer in the original layout",
        &["double_blocks.0.img_attn.qkv.weight"],
    ),
    (
        "flux",
        "transformer",
        "a Flux transformer",
        &[
            "single_transformer_blocks.0.proj_mlp.weight",
            "x_embedder.weight",
        ],
    ),
    (
        "flux",
        "transformer",
        "a Flux transformer",
        &[
            "single_transformer_blocks.0.mlp_fc1.weight",
            "x_embedder.weight",
        ],
    ),
    (
        "umt5",
        "text_encoder",
        "a UMT5 text encoder",
        &["encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"],
    ),
    (
        "umt5",
        "text_encoder",
        "a UMT5 text encoder in the original layout",
        &["blocks.1.pos_embedding.embedding.weight"],
    ),
    (
        "umt5",
        "text_encoder",
        "a UMT5 text encoder",
        &["enc.blk.1.attn_rel_b.weight"],
    ),
    (
        "t5",
        "text_encoder",
        "a T5 text encoder",
        &["enc.blk.0.attn_rel_b.weight"],
    ),
    (
        "t5",
        "text_encoder",
        "a T5 text encoder",
        &["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
    ),
    (
        "clip",
        "text_encoder",
        "a CLIP text encoder",
        &[
            "embeddings.token_embedding.weight",
            "encoder.layers.0.mlp.fc1.weight",
        ],
    ),
    (
        "vision",
        "image_encoder",
        "an image encoder",
        &["vision_model.embeddings.patch_embedding.weight"],
    ),
    (
        "vision",
        "image_encoder",
        "an image encoder in OpenCLIP's layout",
        &["visual.patch_embedding.weight"],
    ),
    (
        "vision",
        "image_encoder",
        "an image encoder",
        &["embeddings.patch_embedding.weight", "pre_layrnorm.weight"],
    ),
    (
        "llama",
        "text_encoder",
        "a Llama text encoder",
        &["embed_tokens.weight", "layers.0.self_attn.q_proj.weight"],
    ),
    (
        "wan",
        "vae",
        "a Wan VAE",
        &[
            "decoder.conv_in.weight",
            "post_quant_conv.weight",
            "encoder.norm_out.gamma",
        ],
    ),
    (
        "wan",
        "vae",
        "a Wan VAE in the original layout",
        &["decoder.middle.0.residual.0.gamma"],
    ),
    (
        "flux",
        "vae",
        "an image VAE in the original layout",
        &["decoder.mid.block_1.conv1.weight"],
    ),
    (
        "hunyuan",
        "vae",
        "a HunyuanVideo VAE",
        &["decoder.conv_in.conv.weight"],
    ),
    (
        "",
        "tiny_decoder",
        "a tiny decoder of clips, for previews",
        &["decoder.22.weight", "decoder.7.conv.weight"],
    ),
    (
        "",
        "tiny_decoder",
        "a tiny decoder of pictures, for previews",
        &["decoder.layers.0.weight", "decoder.layers.18.weight"],
    ),
    (
        "",
        "tiny_decoder",
        "a tiny decoder of pictures, for previews",
        &["3.conv.0.weight", "18.conv.4.weight", "19.weight"],
    ),
    (
        "",
        "vae",
        "an image VAE",
        &["decoder.conv_in.weight", "encoder.conv_in.weight"],
    ),
];

/// What the tensors of a component or file are.
pub fn of_tensors(weights: &WeightSet) -> TensorKind {
    let keys: Vec<String> = weights
        .tensors
        .keys()
        .map(|key| storage::plain_name(key))
        .collect();
    let has = |end: &str| keys.iter().any(|key| ends_with_path(key, end));
    let is_lora = weights.tensors.keys().any(|key| lora::is_of_lora(key));
    if is_lora {
        return TensorKind {
            family: "",
            role: "lora",
            text: "a LoRA".to_owned(),
        };
    }
    let Some((family, role, text, _)) = RULES
        .iter()
        .find(|(_, _, _, ends)| ends.iter().all(|end| has(end)))
    else {
        return TensorKind {
            text: format!("{} tensors of no known model", weights.tensors.len()),
            ..Default::default()
        };
    };
    let mut text = (*text).to_owned();
    if let Some(variant) = wan_variant(weights, family, role) {
        text = text.replacen("a Wan transformer", &format!("a {variant} transformer"), 1);
    }
    if let Some(variant) = flux_variant(weights, family, role) {
        text = text.replacen("a Flux transformer", &format!("a {variant} transformer"), 1);
    }
    if is_scaled_fp8(weights) {
        text.push_str(", fp8 with scales");
    }
    TensorKind { family, role, text }
}

/// Whether `key` is `end`, bare or behind a prefix of whole names.
fn ends_with_path(key: &str, end: &str) -> bool {
    key.strip_suffix(end)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// The published Wan transformers differ in width and channels; two experts are told by name alone.
fn wan_variant(weights: &WeightSet, family: &str, role: &str) -> Option<&'static str> {
    if (family, role) != ("wan", "transformer") {
        return None;
    }
    let (_, entry) = weights
        .tensors
        .iter()
        .find(|(key, _)| ends_with_path(key, "patch_embedding.weight"))?;
    let has_image_embedding = weights
        .tensors
        .keys()
        .any(|key| key.contains("img_emb.") || key.contains("image_embedder."));
    Some(match (entry.shape.first()?, entry.shape.get(1)?) {
        (1536, 16) => "Wan 2.1 T2V 1.3B",
        (5120, 16) => "Wan T2V 14B",
        (5120, 36) if has_image_embedding => "Wan 2.1 I2V 14B",
        (5120, 36) => "Wan 2.2 I2V A14B",
        (3072, 48) => "Wan 2.2 TI2V 5B",
        _ => return None,
    })
}

/// The published Flux transformers of full size; dev and Kontext are told apart by name alone.
fn flux_variant(weights: &WeightSet, family: &str, role: &str) -> Option<&'static str> {
    if (family, role) != ("flux", "transformer") {
        return None;
    }
    let find = |names: [&str; 2]| {
        let mut tensors = weights.tensors.iter();
        tensors.find(|(key, _)| names.iter().any(|name| ends_with_path(key, name)))
    };
    let (_, entry) = find(["img_in.weight", "x_embedder.weight"])?;
    let is_told = find([
        "guidance_in.in_layer.weight",
        "time_text_embed.guidance_embedder.linear_1.weight",
    ])
    .is_some();
    Some(match (entry.shape.first()?, entry.shape.get(1)?) {
        (3072, 64) if is_told => "FLUX.1 dev",
        (3072, 64) => "FLUX.1 schnell",
        (3072, 384) => "FLUX.1 Fill",
        (3072, 128) => "FLUX.1 control (Canny or Depth)",
        (3072, 196) => "Flex.2",
        _ => return None,
    })
}

fn is_scaled_fp8(weights: &WeightSet) -> bool {
    let mut entries = weights.tensors.values();
    let is_fp8 =
        |entry: &TensorEntry| entry.dtype == Dtype::F8_E4M3 || entry.dtype == Dtype::F8_E5M2;
    entries.any(is_fp8) && weights.tensors.keys().any(|key| storage::is_aside(key))
}

/// Whether a file begins as GGUF does.
pub(super) fn is_gguf(path: &Path) -> bool {
    head(path).starts_with(&gguf::MAGIC)
}

/// What a file without a sound header is by its first bytes, in words that fit behind "found"; `None` where
/// it may be a weight file that is cut off or damaged.
pub(super) fn other_than_weights(path: &Path) -> Option<&'static str> {
    let head = head(path);
    let is_gguf_by_name = path
        .extension()
        .is_some_and(|end| end.eq_ignore_ascii_case("gguf"));
    // The length of a header, which may begin as another format does, and the header.
    let is_safetensors = head.get(5..9) == Some(b"\0\0\0{");
    if is_gguf_by_name && (is_safetensors || head.is_empty()) {
        return Some("a file that is named .gguf and does not begin as one");
    }
    if is_safetensors || head.len() < 8 || head.starts_with(&gguf::MAGIC) {
        return None;
    }
    if head.starts_with(b"version https://git-lfs") {
        return Some("the pointer of Git LFS that stands for a file, not the file");
    }
    match media::sniff(&head) {
        Kind::Other("a file of another kind") if is_gguf_by_name => {
            Some("a file that is named .gguf and does not begin as one")
        }
        Kind::Other("a file of another kind") => None,
        kind => Some(kind.described()),
    }
}

/// The first bytes of a plain file; none where it cannot be read.
fn head(path: &Path) -> Vec<u8> {
    let mut head = Vec::new();
    // Opening a pipe would wait for its writer.
    if path.is_file()
        && let Ok(file) = File::open(path)
    {
        // What was read before an error is as good as a short file.
        file.take(HEAD_BYTES).read_to_end(&mut head).ok();
    }
    head
}
