//! The key dialects of Wan's transformer and text encoder: the authors' names, diffusers',
//! transformers' and llama.cpp's, bare or behind a prefix.
//!
//! Whoever reads a transformer asks with the authors' names, and whoever reads a text encoder with those
//! of `transformers`; these say what the file calls the same tensor. Knows no shapes.

use crate::catalog::networks::{t5::llama_cpp_from_t5, with_start_replaced};

/// What single files put before a transformer's names.
const TRANSFORMER_PREFIXES: [&str; 5] = [
    "",
    "model.diffusion_model.",
    "diffusion_model.",
    "model.",
    "transformer.",
];
/// What single files put before a text encoder's names.
const TEXT_ENCODER_PREFIXES: [&str; 4] = [
    "",
    "text_encoders.umt5xxl.transformer.",
    "transformer.",
    "text_encoder.",
];

/// Who named the tensors of a UMT5 encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextEncoderNames {
    Transformers,
    /// Wan's authors (`umt5-xxl-enc`).
    Authors,
    /// GGUF files.
    LlamaCpp,
}

/// How one file names the tensors of Wan's transformer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransformerKeys {
    pub prefix: &'static str,
    /// diffusers' names; the authors' own otherwise.
    pub is_diffusers: bool,
}

impl TransformerKeys {
    /// The dialect of a file, by whether it has a key; `None` for what is no Wan transformer.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        TRANSFORMER_PREFIXES.into_iter().find_map(|prefix| {
            let has = |key: &str| has(&format!("{prefix}{key}"));
            if !has("patch_embedding.weight") {
                return None;
            }
            let is_diffusers = has("condition_embedder.time_proj.weight");
            (is_diffusers || has("time_projection.1.weight")).then_some(Self {
                prefix,
                is_diffusers,
            })
        })
    }

    /// The file's name of the tensor that the authors call `original`.
    pub fn file_key(self, original: &str) -> String {
        let key = if self.is_diffusers {
            diffusers_from_original(original)
        } else {
            original.to_owned()
        };
        format!("{}{key}", self.prefix)
    }
}

/// How one file names the tensors of a UMT5 encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextEncoderKeys {
    pub prefix: &'static str,
    pub names: TextEncoderNames,
}

impl TextEncoderKeys {
    /// The dialect of a file, by whether it has a key; `None` for what is no UMT5 encoder. T5, which has
    /// one table of positions for all blocks, is none.
    pub fn detect(has: impl Fn(&str) -> bool) -> Option<Self> {
        TEXT_ENCODER_PREFIXES.into_iter().find_map(|prefix| {
            // A UMT5 of one block could be a T5; the published ones have 24.
            let names = [
                TextEncoderNames::Transformers,
                TextEncoderNames::Authors,
                TextEncoderNames::LlamaCpp,
            ];
            let keys = names.map(|names| Self { prefix, names });
            keys.into_iter().find(|keys| {
                let bias = "encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight";
                has(&keys.file_key(bias))
            })
        })
    }

    /// The file's name of the tensor that `transformers` calls `name`.
    pub fn file_key(self, name: &str) -> String {
        let key = match self.names {
            TextEncoderNames::Transformers => name.to_owned(),
            TextEncoderNames::Authors => original_from_umt5(name),
            TextEncoderNames::LlamaCpp => llama_cpp_from_t5(name),
        };
        format!("{}{key}", self.prefix)
    }
}

/// `blocks.0.self_attn.q.weight` -> `blocks.0.attn1.to_q.weight`
fn diffusers_from_original(key: &str) -> String {
    let whole = [
        (
            "text_embedding.0.",
            "condition_embedder.text_embedder.linear_1.",
        ),
        (
            "text_embedding.2.",
            "condition_embedder.text_embedder.linear_2.",
        ),
        (
            "time_embedding.0.",
            "condition_embedder.time_embedder.linear_1.",
        ),
        (
            "time_embedding.2.",
            "condition_embedder.time_embedder.linear_2.",
        ),
        ("time_projection.1.", "condition_embedder.time_proj."),
        (
            "img_emb.proj.0.",
            "condition_embedder.image_embedder.norm1.",
        ),
        (
            "img_emb.proj.1.",
            "condition_embedder.image_embedder.ff.net.0.proj.",
        ),
        (
            "img_emb.proj.3.",
            "condition_embedder.image_embedder.ff.net.2.",
        ),
        (
            "img_emb.proj.4.",
            "condition_embedder.image_embedder.norm2.",
        ),
        (
            "img_emb.emb_pos",
            "condition_embedder.image_embedder.pos_embed",
        ),
        ("head.head.", "proj_out."),
        ("head.modulation", "scale_shift_table"),
    ];
    if let Some(renamed) = with_start_replaced(key, &whole) {
        return renamed;
    }
    let Some((block, rest)) = split_block(key) else {
        return key.to_owned();
    };
    let parts = [
        ("modulation", "scale_shift_table"),
        ("norm3.", "norm2."),
        ("ffn.0.", "ffn.net.0.proj."),
        ("ffn.2.", "ffn.net.2."),
        ("self_attn.", "attn1."),
        ("cross_attn.", "attn2."),
    ];
    let rest = with_start_replaced(rest, &parts).unwrap_or_else(|| rest.to_owned());
    let leaves = [
        ("q.", "to_q."),
        ("k.", "to_k."),
        ("v.", "to_v."),
        ("o.", "to_out.0."),
        ("k_img.", "add_k_proj."),
        ("v_img.", "add_v_proj."),
        ("norm_k_img.", "norm_added_k."),
    ];
    if let Some((attention, leaf)) = rest.split_once('.')
        && attention.starts_with("attn")
        && let Some(leaf) = with_start_replaced(leaf, &leaves)
    {
        return format!("{block}.{attention}.{leaf}");
    }
    format!("{block}.{rest}")
}

/// `encoder.block.3.layer.1.DenseReluDense.wo.weight` -> `blocks.3.ffn.fc2.weight`
fn original_from_umt5(key: &str) -> String {
    let whole = [
        ("shared.", "token_embedding."),
        ("encoder.embed_tokens.", "token_embedding."),
        ("encoder.final_layer_norm.", "norm."),
    ];
    if let Some(renamed) = with_start_replaced(key, &whole) {
        return renamed;
    }
    let parts = [
        ("layer.0.layer_norm.", "norm1."),
        ("layer.1.layer_norm.", "norm2."),
        (
            "layer.0.SelfAttention.relative_attention_bias.",
            "pos_embedding.embedding.",
        ),
        ("layer.0.SelfAttention.", "attn."),
        ("layer.1.DenseReluDense.wi_0.", "ffn.gate.0."),
        ("layer.1.DenseReluDense.wi_1.", "ffn.fc1."),
        ("layer.1.DenseReluDense.wo.", "ffn.fc2."),
    ];
    key.strip_prefix("encoder.block.")
        .and_then(|rest| rest.split_once('.'))
        .and_then(|(number, rest)| {
            let rest = with_start_replaced(rest, &parts)?;
            Some(format!("blocks.{number}.{rest}"))
        })
        .unwrap_or_else(|| key.to_owned())
}

/// `blocks.12.norm3.bias` -> `blocks.12`, `norm3.bias`
fn split_block(key: &str) -> Option<(&str, &str)> {
    let number = key.strip_prefix("blocks.")?.split('.').next()?;
    let (block, rest) = key.split_at("blocks.".len() + number.len());
    Some((block, rest.strip_prefix('.')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_of_a_block_is_translated() {
        for (ours, theirs) in [
            ("self_attn.q.weight", "attn1.to_q.weight"),
            ("self_attn.norm_k.weight", "attn1.norm_k.weight"),
            ("cross_attn.o.bias", "attn2.to_out.0.bias"),
            ("cross_attn.k_img.weight", "attn2.add_k_proj.weight"),
            ("cross_attn.v_img.bias", "attn2.add_v_proj.bias"),
            ("cross_attn.norm_k_img.weight", "attn2.norm_added_k.weight"),
            ("norm3.bias", "norm2.bias"),
            ("ffn.0.weight", "ffn.net.0.proj.weight"),
            ("ffn.2.bias", "ffn.net.2.bias"),
            ("modulation", "scale_shift_table"),
        ] {
            let found = diffusers_from_original(&format!("blocks.11.{ours}"));
            assert_eq!(found, format!("blocks.11.{theirs}"));
        }
    }

    #[test]
    fn names_outside_of_blocks_are_translated() {
        let embedder = "condition_embedder";
        for (ours, theirs) in [
            ("patch_embedding.weight", "patch_embedding.weight".into()),
            ("head.head.bias", "proj_out.bias".into()),
            ("head.modulation", "scale_shift_table".into()),
            (
                "time_projection.1.weight",
                format!("{embedder}.time_proj.weight"),
            ),
            (
                "text_embedding.2.bias",
                format!("{embedder}.text_embedder.linear_2.bias"),
            ),
            (
                "img_emb.proj.4.bias",
                format!("{embedder}.image_embedder.norm2.bias"),
            ),
            (
                "img_emb.emb_pos",
                format!("{embedder}.image_embedder.pos_embed"),
            ),
        ] {
            assert_eq!(diffusers_from_original(ours), theirs);
        }
    }

    #[test]
    fn a_dialect_is_found_behind_every_prefix_and_in_nothing_else() {
        for prefix in TRANSFORMER_PREFIXES {
            for (second, is_diffusers) in [
                ("time_projection.1.weight", false),
                ("condition_embedder.time_proj.weight", true),
            ] {
                let names = ["patch_embedding.weight", second].map(|n| format!("{prefix}{n}"));
                let keys = TransformerKeys::detect(|key| names.contains(&key.to_owned())).unwrap();
                assert_eq!((keys.prefix, keys.is_diffusers), (prefix, is_diffusers));
                assert_eq!(keys.file_key("time_projection.1.weight"), names[1]);
            }
        }
        assert_eq!(
            TransformerKeys::detect(|key| key == "patch_embedding.weight"),
            None
        );
    }

    #[test]
    fn every_dialect_of_the_text_encoder_is_translated() {
        let keys = TextEncoderKeys::detect(|key| key == "blocks.1.pos_embedding.embedding.weight");
        let keys = keys.unwrap();
        for (ours, theirs) in [
            ("shared.weight", "token_embedding.weight"),
            ("encoder.final_layer_norm.weight", "norm.weight"),
            (
                "encoder.block.23.layer.0.SelfAttention.q.weight",
                "blocks.23.attn.q.weight",
            ),
            (
                "encoder.block.0.layer.1.layer_norm.weight",
                "blocks.0.norm2.weight",
            ),
            (
                "encoder.block.7.layer.1.DenseReluDense.wi_0.weight",
                "blocks.7.ffn.gate.0.weight",
            ),
        ] {
            assert_eq!(keys.file_key(ours), theirs);
        }
        let keys = TextEncoderKeys::detect(|key| key == "enc.blk.1.attn_rel_b.weight").unwrap();
        for (ours, theirs) in [
            ("encoder.embed_tokens.weight", "token_embd.weight"),
            ("encoder.final_layer_norm.weight", "enc.output_norm.weight"),
            (
                "encoder.block.23.layer.0.SelfAttention.o.weight",
                "enc.blk.23.attn_o.weight",
            ),
            (
                "encoder.block.0.layer.0.layer_norm.weight",
                "enc.blk.0.attn_norm.weight",
            ),
            (
                "encoder.block.7.layer.1.DenseReluDense.wi_1.weight",
                "enc.blk.7.ffn_up.weight",
            ),
        ] {
            assert_eq!(keys.file_key(ours), theirs);
        }
        let t5 = "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight";
        assert_eq!(TextEncoderKeys::detect(|key| key == t5), None);
    }
}
