//! Tensor names of a language model: those of `transformers` after some prefix, or llama.cpp's.

use super::LanguageKind;
use crate::networks::prelude::*;

pub(super) const TOKENS: &str = "embed_tokens.weight";
/// Holds the bytes of Mistral's `tekken.json` (a habit of ComfyUI's files).
pub(crate) const TEKKEN_TENSOR: &str = "tekken_model";
/// By which a file is known: the table alone could be any model's.
const FIRST_NORM: &str = "layers.0.input_layernorm.weight";
pub(super) const QUERY_NORM: &str = "layers.0.self_attn.q_norm.weight";
const FEED_NORM: &str = "layers.0.pre_feedforward_layernorm.weight";
const QUERY_BIAS: &str = "layers.0.self_attn.q_proj.bias";

/// Names of a language model's tensors in one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LanguageKeys {
    pub prefix: String,
    /// The names of GGUF files; those of `transformers` otherwise.
    pub is_llama_cpp: bool,
    /// The kind that the tensors show.
    pub kind: LanguageKind,
}

impl LanguageKeys {
    /// `None` where no file key is that of a language model.
    pub fn of<'a>(keys: &(impl Iterator<Item = &'a str> + Clone)) -> Option<Self> {
        let prefix = prefix_before(keys.clone(), &[FIRST_NORM]);
        let mut found = Self {
            prefix: prefix.unwrap_or_default().to_owned(),
            is_llama_cpp: prefix.is_none(),
            kind: LanguageKind::default(),
        };
        let has = |name: &str| {
            let name = found.file_key(name);
            keys.clone().any(|key| key == name)
        };
        // Other models in llama.cpp's names have the first alone.
        if found.is_llama_cpp && !(has(FIRST_NORM) && has(TOKENS)) {
            return None;
        }
        let kind = if has(FEED_NORM) {
            LanguageKind::Gemma3
        } else if has(QUERY_NORM) {
            LanguageKind::Qwen3
        } else if has(QUERY_BIAS) {
            LanguageKind::Qwen2
        } else {
            LanguageKind::Llama
        };
        found.kind = kind;
        Some(found)
    }

    /// Returns whether the elements that RoPE rotates together are adjacent in queries and keys: llama.cpp stores Llama
    /// so, like Meta, and leaves Qwen's as in `transformers`, half a head apart.
    pub fn has_paired_heads(&self) -> bool {
        self.is_llama_cpp && self.kind == LanguageKind::Llama
    }

    /// The file's name of the tensor that `transformers` calls `name`.
    pub fn file_key(&self, name: &str) -> String {
        if self.is_llama_cpp {
            renamed(name, &[LLAMA_CPP], &[LLAMA_CPP_OUTER])
        } else {
            format!("{}{name}", self.prefix)
        }
    }
}

/// `layers.3.mlp.down_proj.weight` -> `blk.3.ffn_down.weight`
const LLAMA_CPP: BlockList = BlockList::shared("layers").named(
    "blk",
    &[names! {
        "input_layernorm" => "attn_norm",
        "self_attn.q_proj" => "attn_q",
        "self_attn.k_proj" => "attn_k",
        "self_attn.v_proj" => "attn_v",
        "self_attn.o_proj" => "attn_output",
        "self_attn.q_norm" => "attn_q_norm",
        "self_attn.k_norm" => "attn_k_norm",
        "post_attention_layernorm" => "ffn_norm",
        "mlp.gate_proj" => "ffn_gate",
        "mlp.up_proj" => "ffn_up",
        "mlp.down_proj" => "ffn_down",
    }],
);
const LLAMA_CPP_OUTER: &[NamePair] = names! {
    "embed_tokens" => "token_embd",
    "norm" => "output_norm",
    "lm_head" => "output",
};
