//! The configs of Wan's components from the names and shapes in their files, where no `config.json` says them.
//!
//! Gives diffusers' and transformers' own keys. What no header shows is what every published model has
//! (heads of 128 in the transformer and of 80 in the image encoder), and is said here alone.

use serde_json::{Value, json};

use super::keys::{TextEncoderKeys, TransformerKeys};
use crate::catalog::networks::t5;
use crate::catalog::shapes::{count, not_a, shape_of};
use crate::catalog::weights::WeightSet;

/// Width of one head in every published Wan transformer.
const TRANSFORMER_HEAD_DIM: u64 = 128;
/// Width of one head in CLIP ViT-H.
const VISION_HEAD_DIM: u64 = 80;

/// `transformer/config.json`. `num_heads` is what the authors' own config says, where there is one.
pub(super) fn transformer_config(
    weights: &WeightSet,
    num_heads: Option<u64>,
) -> Result<Value, String> {
    let keys = TransformerKeys::detect(|key| weights.has(key))
        .ok_or_else(|| not_a("Wan transformer", weights))?;
    let shape = |name: &str, rank: usize| shape_of(weights, &keys.file_key(name), rank);
    let patch = shape("patch_embedding.weight", 5)?;
    let [dim, in_channels, pt, ph, pw] = patch[..] else {
        return Err("patch_embedding.weight has no five sizes".to_owned());
    };
    let heads = match num_heads {
        Some(heads) if heads > 0 && dim % heads == 0 => heads,
        Some(heads) => {
            return Err(format!(
                "expected a num_heads that divides the width {dim}, found {heads}"
            ));
        }
        None if dim % TRANSFORMER_HEAD_DIM == 0 => dim / TRANSFORMER_HEAD_DIM,
        None => {
            return Err(format!(
                "expected a width that is a multiple of {TRANSFORMER_HEAD_DIM}, as no config.json says how wide a head is, found {dim}"
            ));
        }
    };
    let image_dim = shape("img_emb.proj.0.weight", 1).ok().map(|s| s[0]);
    let added = shape("blocks.0.cross_attn.k_img.weight", 2).ok();
    let positions = shape("img_emb.emb_pos", 3).ok();
    let head = shape("head.head.weight", 2)?[0];
    let patch_size = pt.saturating_mul(ph).saturating_mul(pw);
    if patch_size == 0 || head % patch_size != 0 {
        return Err(format!(
            "expected head.head.weight with a multiple of {patch_size} rows, found {head}"
        ));
    }
    let block = |end: &str| keys.file_key(&format!("blocks.0.{end}"));
    let qk_norm = weights.has(&block("self_attn.norm_q.weight"));
    Ok(json!({
        "_class_name": "WanTransformer3DModel",
        "patch_size": [pt, ph, pw],
        "num_attention_heads": heads,
        "attention_head_dim": dim / heads,
        "in_channels": in_channels,
        "out_channels": head / patch_size,
        "text_dim": shape("text_embedding.0.weight", 2)?[1],
        "freq_dim": shape("time_embedding.0.weight", 2)?[1],
        "ffn_dim": shape("blocks.0.ffn.0.weight", 2)?[0],
        "num_layers": count(weights, |n| keys.file_key(&format!("blocks.{n}.ffn.0.weight"))),
        "cross_attn_norm": weights.has(&block("norm3.weight")),
        "qk_norm": qk_norm.then_some("rms_norm_across_heads"),
        "eps": 1e-6,
        "image_dim": image_dim,
        "added_kv_proj_dim": added.map(|s| s[1]),
        "pos_embed_seq_len": positions.map(|s| s[1]),
        "rope_max_seq_len": 1024,
    }))
}

/// `text_encoder/config.json` of a UMT5 encoder.
pub(super) fn text_encoder_config(weights: &WeightSet) -> Result<Value, String> {
    let keys = TextEncoderKeys::detect(|key| weights.has(key))
        .ok_or_else(|| not_a("UMT5 text encoder", weights))?;
    t5::config_of_shapes(weights, "umt5", |name| keys.file_key(name))
}

/// `image_encoder/config.json` of the CLIP ViT-H that Wan 2.1 looks at pictures with.
pub(super) fn image_encoder_config(weights: &WeightSet) -> Result<Value, String> {
    let prefix = vision_prefix(weights).ok_or_else(|| not_a("CLIP image encoder", weights))?;
    let shape = |name: &str, rank: usize| shape_of(weights, &format!("{prefix}{name}"), rank);
    let patch = shape("embeddings.patch_embedding.weight", 4)?;
    let places = shape("embeddings.position_embedding.weight", 2)?[0];
    let (hidden, edge) = (patch[0], patch[2]);
    if hidden == 0 || hidden % VISION_HEAD_DIM != 0 {
        return Err(format!(
            "expected a width that is a multiple of {VISION_HEAD_DIM}, as in CLIP ViT-H, found {hidden}"
        ));
    }
    // One place is the class token's.
    let grid = places.saturating_sub(1).isqrt();
    if grid == 0 || grid * grid + 1 != places {
        return Err(format!(
            "expected a square of patches and one class token, found {places} places"
        ));
    }
    Ok(json!({
        "architectures": ["CLIPVisionModel"],
        "model_type": "clip_vision_model",
        "hidden_size": hidden,
        "intermediate_size": shape("encoder.layers.0.mlp.fc1.weight", 2)?[0],
        "num_hidden_layers": count(weights, |n| format!("{prefix}encoder.layers.{n}.mlp.fc1.weight")),
        "num_attention_heads": hidden / VISION_HEAD_DIM,
        "num_channels": patch[1],
        "image_size": grid.saturating_mul(edge),
        "patch_size": edge,
        "hidden_act": "gelu",
        "layer_norm_eps": 1e-5,
    }))
}

/// What stands before the names of a vision tower; transformers 5 leaves it out.
pub(super) fn vision_prefix(weights: &WeightSet) -> Option<&'static str> {
    ["vision_model.", ""]
        .into_iter()
        .find(|prefix| weights.has(&format!("{prefix}embeddings.patch_embedding.weight")))
}
