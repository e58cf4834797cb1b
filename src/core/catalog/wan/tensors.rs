//! Whether a component's file has every tensor that its config asks for, in the shape that it must have.
//!
//! All of the transformer's, the text encoder's and the image encoder's; the VAE's are `vae_tensors`'.
//! Knows nothing of how they are stored.

use super::headers::vision_prefix;
use super::keys::{TextEncoderKeys, TextEncoderNames, TransformerKeys};
use crate::catalog::CatalogError;
use crate::catalog::configs::{ClipVisionConfig, WanTransformerConfig};
use crate::catalog::networks::t5::{self, T5Config};
use crate::catalog::weights::WeightSet;

pub(super) fn check_transformer(
    weights: &WeightSet,
    cfg: &WanTransformerConfig,
) -> Result<(), CatalogError> {
    let keys = TransformerKeys::detect(|key| weights.has(key)).unwrap_or(TransformerKeys {
        prefix: "",
        is_diffusers: true,
    });
    let dim = cfg.dim();
    let [pt, ph, pw] = cfg.patch_size;
    let expect = |name: &str, shape: &[u64]| weights.expect(&keys.file_key(name), shape);
    let linear = |name: &str, output: u64, input: u64| {
        expect(&format!("{name}.weight"), &[output, input])?;
        expect(&format!("{name}.bias"), &[output])
    };
    expect(
        "patch_embedding.weight",
        &[dim, cfg.in_channels, pt, ph, pw],
    )?;
    expect("patch_embedding.bias", &[dim])?;
    linear("time_embedding.0", dim, cfg.freq_dim)?;
    linear("time_embedding.2", dim, dim)?;
    linear("time_projection.1", 6 * dim, dim)?;
    linear("text_embedding.0", dim, cfg.text_dim)?;
    linear("text_embedding.2", dim, dim)?;
    if let Some(image_dim) = cfg.image_dim {
        for end in ["weight", "bias"] {
            expect(&format!("img_emb.proj.0.{end}"), &[image_dim])?;
            expect(&format!("img_emb.proj.4.{end}"), &[dim])?;
        }
        linear("img_emb.proj.1", image_dim, image_dim)?;
        linear("img_emb.proj.3", dim, image_dim)?;
        if let Some(places) = cfg.pos_embed_seq_len {
            expect("img_emb.emb_pos", &[1, places, image_dim])?;
        }
    }
    for layer in 0..cfg.num_layers {
        check_block(&expect, &format!("blocks.{layer}"), cfg)?;
    }
    expect("head.modulation", &[1, 2, dim])?;
    linear("head.head", cfg.out_channels * pt * ph * pw, dim)?;
    let next = keys.file_key(&format!("blocks.{}.", cfg.num_layers));
    weights.no_more_layers(&next, cfg.num_layers)
}

fn check_block(
    expect: &impl Fn(&str, &[u64]) -> Result<(), CatalogError>,
    block: &str,
    cfg: &WanTransformerConfig,
) -> Result<(), CatalogError> {
    let dim = cfg.dim();
    let linear = |name: &str, output: u64, input: u64| {
        expect(&format!("{block}.{name}.weight"), &[output, input])?;
        expect(&format!("{block}.{name}.bias"), &[output])
    };
    let has_norm = cfg.qk_norm.as_deref() == Some("rms_norm_across_heads");
    for attention in ["self_attn", "cross_attn"] {
        for part in ["q", "k", "v", "o"] {
            linear(&format!("{attention}.{part}"), dim, dim)?;
        }
        if has_norm {
            expect(&format!("{block}.{attention}.norm_q.weight"), &[dim])?;
            expect(&format!("{block}.{attention}.norm_k.weight"), &[dim])?;
        }
    }
    if let Some(added) = cfg.added_kv_proj_dim {
        linear("cross_attn.k_img", dim, added)?;
        linear("cross_attn.v_img", dim, added)?;
        expect(&format!("{block}.cross_attn.norm_k_img.weight"), &[dim])?;
    }
    if cfg.cross_attn_norm {
        expect(&format!("{block}.norm3.weight"), &[dim])?;
        expect(&format!("{block}.norm3.bias"), &[dim])?;
    }
    linear("ffn.0", cfg.ffn_dim, dim)?;
    linear("ffn.2", dim, cfg.ffn_dim)?;
    expect(&format!("{block}.modulation"), &[1, 6, dim])
}

pub(super) fn check_text_encoder(weights: &WeightSet, cfg: &T5Config) -> Result<(), CatalogError> {
    let keys = TextEncoderKeys::detect(|key| weights.has(key)).unwrap_or(TextEncoderKeys {
        prefix: "",
        names: TextEncoderNames::Transformers,
    });
    t5::check(weights, cfg, t5::Tables::Each, |name| keys.file_key(name))
}

pub(super) fn check_image_encoder(
    weights: &WeightSet,
    cfg: &ClipVisionConfig,
) -> Result<(), CatalogError> {
    let prefix = vision_prefix(weights).unwrap_or("vision_model.");
    let hidden = cfg.hidden_size;
    let expect = |name: &str, shape: &[u64]| weights.expect(&format!("{prefix}{name}"), shape);
    let patch = [hidden, cfg.num_channels, cfg.patch_size, cfg.patch_size];
    expect("embeddings.patch_embedding.weight", &patch)?;
    expect("embeddings.class_embedding", &[hidden])?;
    expect(
        "embeddings.position_embedding.weight",
        &[cfg.num_tokens(), hidden],
    )?;
    // The one name has been misspelt since the first CLIP. Nothing of the other is read, but a file
    // without it is cut off or no whole vision tower, and the engine refuses it.
    for norm in ["pre_layrnorm", "post_layernorm"] {
        for end in ["weight", "bias"] {
            expect(&format!("{norm}.{end}"), &[hidden])?;
        }
    }
    for layer in 0..cfg.num_hidden_layers {
        let layer = format!("encoder.layers.{layer}");
        let linear = |name: &str, output: u64, input: u64| {
            expect(&format!("{layer}.{name}.weight"), &[output, input])?;
            expect(&format!("{layer}.{name}.bias"), &[output])
        };
        for part in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            linear(&format!("self_attn.{part}"), hidden, hidden)?;
        }
        linear("mlp.fc1", cfg.intermediate_size, hidden)?;
        linear("mlp.fc2", hidden, cfg.intermediate_size)?;
        for norm in ["layer_norm1", "layer_norm2"] {
            for end in ["weight", "bias"] {
                expect(&format!("{layer}.{norm}.{end}"), &[hidden])?;
            }
        }
    }
    let next = format!("{prefix}encoder.layers.{}.", cfg.num_hidden_layers);
    weights.no_more_layers(&next, cfg.num_hidden_layers)
}
