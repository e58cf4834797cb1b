//! The parts that a Qwen-Image transformer needs beside it.

use super::LANGUAGE;
use crate::families::parts::{WantedQwen, picture_wan_vae, qwen};
use crate::library::companions::wanted::Wanted;
use crate::networks::QwenImageTransformerConfig;

/// What to get where it is missing or wrong.
pub(super) const TEXT_ENCODER: &str =
    "qwen_2.5_vl_7b_fp8_scaled.safetensors from Comfy-Org/Qwen-Image_ComfyUI";

pub(super) fn parts(transformer: &QwenImageTransformerConfig) -> Vec<Wanted<'_>> {
    vec![
        picture_wan_vae(transformer.latent_channels()),
        qwen(WantedQwen {
            usage: LANGUAGE,
            names: [
                "a Qwen 2.5 VL 7B text encoder",
                "a Qwen 2.5 VL text encoder",
            ],
            example: TEXT_ENCODER,
            usual: &[
                "qwen_2.5_vl_7b",
                "qwen2.5_vl_7b",
                "Qwen2.5-VL-7B-Instruct",
                "text_encoder",
            ],
            width: (transformer.joint_attention_dim, "joint_attention_dim"),
            objection: |_| None,
        }),
    ]
}
