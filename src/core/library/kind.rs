//! What the tensors of a weight file are, from their names and shapes.
//!
//! For people who ask what a file is: nothing is run because of what is said here.

use safetensors::Dtype;
use serde::Serialize;

use crate::families::{Family, KindRule};
use crate::formats::weights::{TensorEntry, WeightSet, ends_with_path, keys};
use crate::lora;

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
        .map(|key| keys::plain_name(key))
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

fn is_scaled_fp8(weights: &WeightSet) -> bool {
    let mut entries = weights.tensors.values();
    let is_fp8 =
        |entry: &TensorEntry| entry.dtype == Dtype::F8_E4M3 || entry.dtype == Dtype::F8_E5M2;
    entries.any(is_fp8) && weights.tensors.keys().any(|key| keys::is_aside(key))
}
