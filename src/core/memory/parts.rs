//! Which tensors of a file are whose, and what becomes of each: the rules by which the engine's networks ask for them.
//!
//! By names alone. A family whose networks keep something in f32 says so in [`is_exact`].

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::network::Use;
use crate::catalog::{
    Component, Family, FluxTransformerKeys, FramePackTransformerKeys, ModelFiles, TransformerKeys,
    WeightSet,
};

/// A network of a model; the halves of an autoencoder are two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PartName {
    Transformer,
    #[serde(rename = "transformer_2")]
    Transformer2,
    VaeEncoder,
    VaeDecoder,
    TextEncoder,
    #[serde(rename = "text_encoder_2")]
    TextEncoder2,
    ImageEncoder,
}

impl PartName {
    pub const ALL: [Self; 7] = [
        Self::Transformer,
        Self::Transformer2,
        Self::VaeEncoder,
        Self::VaeDecoder,
        Self::TextEncoder,
        Self::TextEncoder2,
        Self::ImageEncoder,
    ];

    /// What it is called in sentences.
    pub fn label(self) -> &'static str {
        match self {
            Self::Transformer => "transformer",
            Self::Transformer2 => "low-noise transformer",
            Self::VaeEncoder | Self::VaeDecoder => "VAE",
            Self::TextEncoder | Self::TextEncoder2 => "text encoder",
            Self::ImageEncoder => "image encoder",
        }
    }

    /// Where it lies, if the model has it.
    pub fn place(self, files: &ModelFiles) -> Option<(Component, &Path)> {
        let (component, place) = match self {
            Self::Transformer => (Component::Transformer, Some(files.transformer.as_path())),
            Self::Transformer2 => (Component::Transformer, files.transformer_2.as_deref()),
            Self::VaeEncoder | Self::VaeDecoder => (Component::Vae, Some(files.vae.as_path())),
            Self::TextEncoder => (Component::TextEncoder, Some(files.text_encoder.as_path())),
            Self::TextEncoder2 => (Component::TextEncoder2, files.text_encoder_2.as_deref()),
            Self::ImageEncoder => (Component::ImageEncoder, files.image_encoder.as_deref()),
        };
        place.map(|place| (component, place))
    }

    fn is_vae(self) -> bool {
        matches!(self, Self::VaeEncoder | Self::VaeDecoder)
    }

    fn is_transformer(self) -> bool {
        matches!(self, Self::Transformer | Self::Transformer2)
    }
}

/// Ends of keys by which a network is found in a file that may hold others; what is before is its prefix.
const T5_MARKS: &[&str] = &[
    "encoder.block.0.layer.0.SelfAttention.q.weight",
    "enc.blk.0.attn_q.weight",
    "blocks.0.attn.q.weight",
];
const CLIP_MARKS: &[&str] = &["text_model.embeddings.token_embedding.weight"];
const LLAMA_MARKS: &[&str] = &["layers.0.input_layernorm.weight", "blk.0.attn_norm.weight"];
/// Behind those whose hidden states are read.
const LLAMA_LAYERS_SKIPPED: u64 = 2;
const VISION_MARKS: &[&str] = &[
    "vision_model.embeddings.patch_embedding.weight",
    "embeddings.patch_embedding.weight",
];
const VAE_MARKS: &[&str] = &[
    "decoder.conv_in.weight",
    "encoder.conv_in.weight",
    "decoder.conv_in.conv.weight",
    "encoder.conv_in.conv.weight",
    "decoder.conv1.weight",
    "encoder.conv1.weight",
];

/// Which kind of network a text encoder is.
fn text_marks(family: Family, part: PartName) -> &'static [&'static str] {
    match (family, part) {
        (Family::Flux, PartName::TextEncoder) | (Family::FramePack, PartName::TextEncoder2) => {
            CLIP_MARKS
        }
        (Family::FramePack, _) => LLAMA_MARKS,
        _ => T5_MARKS,
    }
}

/// What stands before all names of a network.
pub(super) fn prefix(family: Family, part: PartName, weights: &WeightSet) -> &str {
    let has = |key: &str| weights.has(key);
    if part.is_transformer() {
        return match family {
            Family::Wan => TransformerKeys::detect(has).map_or("", |keys| keys.prefix),
            Family::Flux => FluxTransformerKeys::detect(has).map_or("", |keys| keys.prefix),
            Family::FramePack => {
                FramePackTransformerKeys::detect(has).map_or("", |keys| keys.prefix)
            }
        };
    }
    let marks = match part {
        PartName::ImageEncoder => VISION_MARKS,
        PartName::VaeEncoder | PartName::VaeDecoder => VAE_MARKS,
        _ => text_marks(family, part),
    };
    let before = |key: &str| {
        let mut ends = marks.iter();
        ends.find_map(|mark| key.strip_suffix(mark).map(str::len))
    };
    let keys = weights.tensors.keys();
    let found = keys.filter_map(|key| before(key).map(|len| &key[..len]));
    found
        .filter(|prefix| prefix.is_empty() || prefix.ends_with('.'))
        .min_by_key(|prefix| prefix.len())
        .unwrap_or("")
}

/// Whether the network asks for a tensor of the file. `own`: its name behind the prefix.
pub(super) fn is_read(
    family: Family,
    part: PartName,
    own: &str,
    weights: &WeightSet,
    prefix: &str,
) -> bool {
    if WeightSet::is_aside(own) {
        return false;
    }
    let starts = |names: &[&str]| names.iter().any(|name| own.starts_with(name));
    match part {
        PartName::VaeDecoder => starts(&["decoder.", "post_quant_conv.", "conv2."]),
        PartName::VaeEncoder => starts(&["encoder.", "quant_conv.", "conv1."]),
        PartName::ImageEncoder => starts(&[
            "vision_model.",
            "embeddings.",
            "encoder.",
            "pre_layrnorm.",
            "post_layernorm.",
        ]),
        PartName::TextEncoder | PartName::TextEncoder2 => match text_marks(family, part) {
            CLIP_MARKS => starts(&["text_model."]),
            // The last norm and the head are not read.
            LLAMA_MARKS => {
                starts(&["embed_tokens.", "token_embd."]) || is_in_read_layer(own, weights, prefix)
            }
            _ => {
                let is_twin = own == "encoder.embed_tokens.weight"
                    && weights.has(&format!("{prefix}shared.weight"));
                let others = [
                    "decoder.",
                    "lm_head.",
                    "dec.",
                    "output.",
                    "spiece_model",
                    "logit_scale",
                ];
                !is_twin && !starts(&others)
            }
        },
        // A file without a prefix is the transformer's alone, or one of a pipeline whose other parts have one.
        PartName::Transformer | PartName::Transformer2 => {
            !prefix.is_empty()
                || !starts(&[
                    "vae.",
                    "first_stage_model.",
                    "text_encoders.",
                    "cond_stage_model.",
                ])
        }
    }
}

/// Whether a Llama's tensor is in a layer that is read: the last ones' hidden states are not.
fn is_in_read_layer(own: &str, weights: &WeightSet, prefix: &str) -> bool {
    let lists = [
        ("layers.", "input_layernorm.weight"),
        ("blk.", "attn_norm.weight"),
    ];
    lists.iter().any(|(list, norm)| {
        let number = own
            .strip_prefix(list)
            .and_then(|rest| rest.split('.').next());
        let number = number.and_then(|number| number.parse::<u64>().ok());
        number.is_some_and(|number| {
            let later = number.saturating_add(LLAMA_LAYERS_SKIPPED);
            weights.has(&format!("{prefix}{list}{later}.{norm}"))
        })
    })
}

/// Whether a tensor is the matrix of a product, which keeps its storage and can stream, a table, or what stays as it is.
pub(super) fn use_of(part: PartName, own: &str, shape: &[u64]) -> Use {
    const TENSORS: [&str; 5] = [
        "relative_attention_bias",
        "pos_embedding",
        "attn_rel_b",
        "position_embedding",
        "embeddings.patch_embedding",
    ];
    const TABLES: [&str; 4] = [
        "shared.weight",
        "embed_tokens.weight",
        "token_embd.weight",
        "token_embedding.weight",
    ];
    /// What makes modulations, of many timesteps at once.
    const SELDOM: [&str; 7] = [
        "img_mod.lin.",
        "txt_mod.lin.",
        "modulation.lin.",
        ".norm1.linear.",
        ".norm1_context.linear.",
        ".norm.linear.",
        "adaLN_modulation.",
    ];
    let has = |names: &[&str]| names.iter().any(|name| own.contains(name));
    if shape.len() != 2 || part.is_vae() || has(&TENSORS) {
        Use::Fixed
    } else if !part.is_transformer() && has(&TABLES) {
        Use::Table
    } else if part.is_transformer() && has(&SELDOM) {
        Use::Seldom
    } else {
        Use::Often
    }
}

/// Whether the engine keeps the tensor in f32 whatever it computes in.
pub(super) fn is_exact(family: Family, part: PartName, own: &str) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| own.contains(name));
    match (family, part) {
        // Computed in f32 as a whole, see the stage.
        (_, PartName::ImageEncoder) => true,
        (Family::Wan, PartName::Transformer | PartName::Transformer2) => {
            own.ends_with(".modulation")
                || own.ends_with("scale_shift_table")
                || has(&[
                    "time_embedding.",
                    "time_embedder.",
                    "norm3.",
                    "img_emb.proj.0.",
                    "img_emb.proj.4.",
                    "image_embedder.norm",
                ])
                || is_affine_norm_of_diffusers(own)
        }
        (Family::Flux, PartName::Transformer | PartName::Transformer2) => {
            has(&["time_in.", "vector_in.", "guidance_in.", "time_text_embed."])
        }
        (Family::FramePack, PartName::Transformer) => {
            has(&[
                "time_in.",
                "vector_in.",
                "guidance_in.",
                "time_text_embed.",
                "t_embedder.",
                "c_embedder.",
                "final_layer.",
                "norm_out.",
                "proj_out.weight",
                "proj_out.bias",
            ]) && !own.contains("blocks.")
        }
        (Family::Flux, PartName::TextEncoder) => has(&["layer_norm"]),
        _ => false,
    }
}

/// `blocks.3.norm2.weight`: the norm before the cross-attention, in diffusers' names.
fn is_affine_norm_of_diffusers(own: &str) -> bool {
    own.starts_with("blocks.") && own.contains(".norm2.")
}

/// How many numbers the engine makes of those in the file: doubling and convolving at once has four corners of 2 × 2
/// taps in the place of 3 × 3.
pub(super) fn held_numbers(part: PartName, own: &str, numbers: u64) -> u64 {
    const DOUBLED: [&str; 3] = [
        "resample.1.weight",
        "upsample.conv.weight",
        "upsamplers.0.conv.weight",
    ];
    if part == PartName::VaeDecoder && DOUBLED.iter().any(|end| own.ends_with(end)) {
        numbers.saturating_mul(16) / 9
    } else {
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_tables_and_what_stays_are_told_apart_in_every_dialect() {
        use PartName::{ImageEncoder, TextEncoder, Transformer, VaeDecoder};
        for (part, own, rank, used) in [
            (Transformer, "blocks.3.self_attn.q.weight", 2, Use::Often),
            (Transformer, "blocks.3.self_attn.q.bias", 1, Use::Fixed),
            (Transformer, "patch_embedding.weight", 5, Use::Fixed),
            (
                Transformer,
                "double_blocks.18.img_mod.lin.weight",
                2,
                Use::Seldom,
            ),
            (
                Transformer,
                "single_transformer_blocks.7.norm.linear.weight",
                2,
                Use::Seldom,
            ),
            (
                Transformer,
                "single_transformer_blocks.7.proj_mlp.weight",
                2,
                Use::Often,
            ),
            (TextEncoder, "shared.weight", 2, Use::Table),
            (TextEncoder, "token_embd.weight", 2, Use::Table),
            (TextEncoder, "enc.blk.2.ffn_up.weight", 2, Use::Often),
            (
                TextEncoder,
                "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
                2,
                Use::Fixed,
            ),
            (
                ImageEncoder,
                "vision_model.embeddings.position_embedding.weight",
                2,
                Use::Fixed,
            ),
            (VaeDecoder, "decoder.mid.attn_1.q.weight", 2, Use::Fixed),
        ] {
            assert_eq!(use_of(part, own, &vec![8; rank]), used, "{own}");
        }
    }
}
