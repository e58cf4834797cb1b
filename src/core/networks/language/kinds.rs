//! The language models that images and videos are made with: by what they differ, and how their files are known.

use crate::model::{DetectionRule, detection_rules};

/// The decoders, as tensors and `model_type` show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LanguageKind {
    #[default]
    Llama,
    /// Mistral Small 3: a Llama by its tensors.
    Mistral,
    /// Qwen 2 and 2.5, and the text part of their VL models: with biases of queries, keys and values.
    Qwen2,
    /// Qwen 3 and the text part of Qwen 3 VL: with norms of queries and keys.
    Qwen3,
    /// Gemma 3: with these norms too, others around each part of a layer, and local layers between global ones.
    Gemma3,
}

/// Rules for files of Gemma, which has the norms of Qwen 3, and may have a vision tower with it.
pub(in crate::networks) const GEMMA: &[DetectionRule] = detection_rules! {
    "gemma" "text_encoder" "a Gemma text encoder" as Gemma: "layers.0.pre_feedforward_layernorm.weight";
    "gemma" "text_encoder" "a Gemma text encoder" as Gemma: "token_embd.weight", "blk.0.post_ffw_norm.weight";
};

/// Rules for the files of the others, including llama.cpp's. Llama has no norms of queries and keys.
pub(in crate::networks) const RULES: &[DetectionRule] = detection_rules! {
    "qwen" "text_encoder" "a Qwen 3 text encoder" as Qwen: "embed_tokens.weight", "layers.0.self_attn.q_norm.weight";
    "qwen" "text_encoder" "a Qwen 3 text encoder" as Qwen: "token_embd.weight", "blk.0.attn_q_norm.weight";
    "qwen" "text_encoder" "a Qwen 2.5 text encoder" as Qwen: "embed_tokens.weight", "layers.0.self_attn.q_proj.bias";
    "qwen" "text_encoder" "a Qwen 2.5 text encoder" as Qwen: "token_embd.weight", "blk.0.attn_q.bias";
    "mistral" "text_encoder" "a Mistral text encoder" as Llama: "embed_tokens.weight", "tekken_model";
    "llama" "text_encoder" "a Llama text encoder" as Llama: "embed_tokens.weight", "layers.0.input_layernorm.weight";
    "llama" "text_encoder" "a Llama text encoder" as Llama: "token_embd.weight", "blk.0.attn_norm.weight";
};

impl LanguageKind {
    /// Of a `config.json`; one that does not say it is a Llama's.
    pub(super) fn of_model_type(name: &str) -> Option<Self> {
        Some(match name {
            "" | "llama" => Self::Llama,
            "mistral" | "mistral3" => Self::Mistral,
            "qwen2" | "qwen2_vl" | "qwen2_vl_text" | "qwen2_5_vl" | "qwen2_5_vl_text" => {
                Self::Qwen2
            }
            "qwen3" | "qwen3_vl" | "qwen3_vl_text" => Self::Qwen3,
            "gemma3" | "gemma3_text" => Self::Gemma3,
            _ => return None,
        })
    }

    /// `model_type` of a `config.json`; `sees`: of a model with a vision transformer.
    pub(super) fn model_type(self, sees: bool) -> &'static str {
        match (self, sees) {
            (Self::Llama, _) => "llama",
            (Self::Mistral, _) => "mistral",
            (Self::Qwen2, false) => "qwen2",
            (Self::Qwen2, true) => "qwen2_5_vl_text",
            (Self::Qwen3, false) => "qwen3",
            (Self::Qwen3, true) => "qwen3_vl_text",
            (Self::Gemma3, _) => "gemma3_text",
        }
    }

    pub fn label(self) -> &'static str {
        match self {
            Self::Llama => "Llama 3",
            Self::Mistral => "Mistral Small 3",
            Self::Qwen2 => "Qwen 2.5",
            Self::Qwen3 => "Qwen 3",
            Self::Gemma3 => "Gemma 3",
        }
    }

    /// Returns true if queries and keys are normed, head by head, before they are turned.
    pub fn has_head_norms(self) -> bool {
        matches!(self, Self::Qwen3 | Self::Gemma3)
    }

    /// Returns true if each part of a layer has a norm before and after it, with weights stored as offsets from 1.
    pub fn has_norms_around(self) -> bool {
        self == Self::Gemma3
    }

    /// Returns true if queries, keys and values have biases.
    pub fn has_biases(self) -> bool {
        self == Self::Qwen2
    }

    /// Positions in time and space, which for words alone are those of a line; Gemma's divided by a number.
    pub(super) fn has_rope_type(self, name: &str) -> bool {
        match self {
            Self::Qwen2 | Self::Qwen3 => name == "mrope",
            Self::Gemma3 => name == "linear",
            Self::Llama | Self::Mistral => false,
        }
    }

    /// Of published models; files without a config do not say it.
    pub(super) fn rope_theta(self, sees: bool) -> f64 {
        match self {
            Self::Llama => 500_000.0,
            Self::Mistral => 1e9,
            Self::Qwen3 if sees => 5_000_000.0,
            Self::Qwen2 | Self::Qwen3 | Self::Gemma3 => 1_000_000.0,
        }
    }

    /// Published epsilon of the norms.
    pub(super) fn epsilon(self) -> f64 {
        match self {
            Self::Llama | Self::Mistral => 1e-5,
            Self::Qwen2 | Self::Qwen3 | Self::Gemma3 => 1e-6,
        }
    }
}
