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
use crate::families::{Family, KindRule};
use crate::media::{self, Kind};

/// As many bytes as tell kinds of files apart.
const HEAD_BYTES: u64 = 512;

/// What a file holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TensorKind {
    /// The id of a family, the short name of a relative or of an encoder (`umt5`, `t5`, `clip`, `llama`, `vision`), or empty.
    pub family: &'static str,
    /// `transformer`, `text_encoder`, `image_encoder`, `vae`, `tiny_decoder`, `adapter`, `lora`, or empty.
    pub role: &'static str,
    /// A noun phrase for people.
    pub text: String,
}

/// Encoders, whichever models they are for. The first that fits wins, so the more special come first.
const ENCODERS: &[KindRule] = &[
    rule(
        "umt5",
        "text_encoder",
        "a UMT5 text encoder",
        &["encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"],
    ),
    rule(
        "umt5",
        "text_encoder",
        "a UMT5 text encoder in the original layout",
        &["blocks.1.pos_embedding.embedding.weight"],
    ),
    rule(
        "umt5",
        "text_encoder",
        "a UMT5 text encoder",
        &["enc.blk.1.attn_rel_b.weight"],
    ),
    rule(
        "t5",
        "text_encoder",
        "a T5 text encoder",
        &["enc.blk.0.attn_rel_b.weight"],
    ),
    rule(
        "t5",
        "text_encoder",
        "a T5 text encoder",
        &["encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"],
    ),
    rule(
        "clip",
        "text_encoder",
        "a CLIP text encoder",
        &[
            "embeddings.token_embedding.weight",
            "encoder.layers.0.mlp.fc1.weight",
        ],
    ),
    rule(
        "vision",
        "image_encoder",
        "an image encoder",
        &["vision_model.embeddings.patch_embedding.weight"],
    ),
    rule(
        "vision",
        "image_encoder",
        "an image encoder in OpenCLIP's layout",
        &["visual.patch_embedding.weight"],
    ),
    rule(
        "vision",
        "image_encoder",
        "an image encoder",
        &["embeddings.patch_embedding.weight", "pre_layrnorm.weight"],
    ),
    rule(
        "llama",
        "text_encoder",
        "a Llama text encoder",
        &["embed_tokens.weight", "layers.0.self_attn.q_proj.weight"],
    ),
];

/// What is left when no family knows it.
const OTHERS: &[KindRule] = &[
    rule(
        "",
        "tiny_decoder",
        "a tiny decoder of clips, for previews",
        &["decoder.22.weight", "decoder.7.conv.weight"],
    ),
    rule(
        "",
        "tiny_decoder",
        "a tiny decoder of pictures, for previews",
        &["decoder.layers.0.weight", "decoder.layers.18.weight"],
    ),
    rule(
        "",
        "tiny_decoder",
        "a tiny decoder of pictures, for previews",
        &["3.conv.0.weight", "18.conv.4.weight", "19.weight"],
    ),
    rule(
        "",
        "vae",
        "an image VAE",
        &["decoder.conv_in.weight", "encoder.conv_in.weight"],
    ),
];

const fn rule(
    family: &'static str,
    role: &'static str,
    text: &'static str,
    ends: &'static [&'static str],
) -> KindRule {
    KindRule {
        family,
        role,
        text,
        ends,
    }
}

/// All rules in the order in which they are tried: a file that has a transformer may have the other parts, too.
fn rules() -> impl Iterator<Item = &'static KindRule> {
    let of_families = |is_vae: bool| {
        let kinds = Family::all().flat_map(|family| family.files.kinds);
        kinds.filter(move |rule| (rule.role == "vae") == is_vae)
    };
    of_families(false)
        .chain(ENCODERS)
        .chain(of_families(true))
        .chain(OTHERS)
}

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
    let Some(rule) = rules().find(|rule| rule.ends.iter().all(|end| has(end))) else {
        return TensorKind {
            text: format!("{} tensors of no known model", weights.tensors.len()),
            ..Default::default()
        };
    };
    let mut text = rule.text.to_owned();
    if let Some(family) = Family::of_id(rule.family)
        && rule.role == "transformer"
        && let Some(name) = (family.files.published_name)(weights)
    {
        let plain = format!("a {} transformer", family.label);
        text = text.replacen(&plain, &format!("a {name} transformer"), 1);
    }
    if is_scaled_fp8(weights) {
        text.push_str(", fp8 with scales");
    }
    TensorKind {
        family: rule.family,
        role: rule.role,
        text,
    }
}

/// Whether `key` is `end`, bare or behind a prefix of whole names.
pub(crate) fn ends_with_path(key: &str, end: &str) -> bool {
    key.strip_suffix(end)
        .is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

fn is_scaled_fp8(weights: &WeightSet) -> bool {
    let mut entries = weights.tensors.values();
    let is_fp8 =
        |entry: &TensorEntry| entry.dtype == Dtype::F8_E4M3 || entry.dtype == Dtype::F8_E5M2;
    entries.any(is_fp8) && weights.tensors.keys().any(|key| storage::is_aside(key))
}

/// Whether a file begins as GGUF does.
pub(crate) fn is_gguf(path: &Path) -> bool {
    head(path).starts_with(&gguf::MAGIC)
}

/// What a file without a sound header is by its first bytes, in words that fit behind "found"; `None` where
/// it may be a weight file that is cut off or damaged.
pub(crate) fn other_than_weights(path: &Path) -> Option<&'static str> {
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
