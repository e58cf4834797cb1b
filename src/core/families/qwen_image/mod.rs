//! Qwen-Image: pictures from text, from a picture, and inside a mask; Qwen-Image-Edit: as a text says of some pictures.

mod control;
mod files;
pub mod lora;
mod memory;
mod parts;
#[cfg(test)]
pub(crate) mod tests;
mod variant;

use super::def::recipe_of_pictures;
use super::files::rules;
use super::{Family, FamilyDef, FileRules, TimeConvolutions, TinyDecoderRules};
use crate::formats::weights::WeightSet;
use crate::job::StepCacheKind;
use crate::networks::{KindRule, LanguageKind, LanguageTap, LanguageUse};
use crate::tokens::{PromptTemplate, TextReader, TextRule};
use files::QwenImage;

pub const FAMILY: Family = Family::new(&DEF);

/// The text encoder: Qwen 2.5 VL, whose last state is read behind its norm.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen2,
    tap: LanguageTap::Last,
};

/// What stands around a prompt.
/// After <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/qwenimage/pipeline_qwenimage.py>.
pub const PROMPT: PromptTemplate = PromptTemplate {
    before: "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, \
             spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n",
    behind: "<|im_end|>\n<|im_start|>assistant\n",
    dropped: 34,
    ids_behind: 5,
    room: 512,
    is_padded: false,
    keeps_end: false,
};

/// The same around a prompt that speaks of pictures, which stand before it as [`picture_words`] has them.
/// After <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/qwenimage/pipeline_qwenimage_edit_plus.py>.
pub const EDIT_PROMPT: PromptTemplate = PromptTemplate {
    before: "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, \
             background), then explain how the user's text instruction should alter or modify the image. Generate a \
             new image that meets the user's requirements while maintaining consistency with the original input where \
             appropriate.<|im_end|>\n<|im_start|>user\n",
    dropped: 64,
    ..PROMPT
};

/// In whose place a picture's tokens stand.
pub const PICTURE_MARK: &str = "<|image_pad|>";

/// What stands before a prompt that speaks of so many pictures.
pub fn picture_words(pictures: usize) -> String {
    let words = |number| format!("Picture {number}: <|vision_start|>{PICTURE_MARK}<|vision_end|>");
    let all: Vec<String> = (1..=pictures).map(words).collect();
    all.concat()
}

pub(super) static DEF: FamilyDef = FamilyDef {
    id: "qwen_image",
    label: "Qwen-Image",
    models: "Qwen-Image or Qwen-Image-Edit",
    makes_pictures: true,
    clip_strength: |_| None,
    has_second_pass: true,
    has_dynamic_shift: true,
    guidance_is_cfg: true,
    step_caches: |_| StepCacheKind::WITH_MAGNITUDES,
    token_limit: |_| None,
    time_convolutions: TimeConvolutions::Fastest,
    vae_in_f16: false,
    trained_sizes: &[],
    recipe: recipe_of_pictures,
    text_readers: |spec| {
        let (tokens, rule) = (PROMPT.room as u32, TextRule::Within(&PROMPT));
        vec![TextReader::first(spec, "Qwen 2.5 VL", tokens, rule)]
    },
    networks: memory::networks,
    needs: memory::needs,
    published: memory::published,
    // Qwen 2.5 VL of 7 billion, without its head and what sees.
    text_encoder_weights: [7_070_000_000, 0],
    matrices_a_block: |_| 36.1,
    is_named: |name| {
        let is_other = ["qwenimage21", "layered"]
            .iter()
            .any(|word| name.contains(word));
        (name.contains("qwenimage") || name.contains("qwenedit")) && !is_other
    },
    wan2gp_types: &["qwen_image"],
    files: FileRules {
        owns_pipeline: |class| class.starts_with("QwenImage"),
        kinds: &[
            KindRule::new(
                "qwen_image",
                "controlnet",
                "a Qwen-Image ControlNet",
                &["controlnet_x_embedder.weight", "txt_norm.weight"],
            ),
            KindRule::new(
                "qwen_image",
                "controlnet",
                "a Qwen-Image ControlNet",
                &["controlnet_blocks.0.x_rms.weight"],
            ),
            KindRule::transformer(
                "qwen_image",
                "a Qwen-Image transformer",
                &["txt_norm.weight", "transformer_blocks.0.img_mod.1.weight"],
            ),
        ],
        published_name,
        instead: |kind| {
            Some(match kind.role {
                "transformer" if kind.family == "qwen_image" => {
                    "qwen_image_2512_fp8_e4m3fn.safetensors from Comfy-Org/Qwen-Image_ComfyUI"
                }
                _ => return None,
            })
        },
        // Wan 2.1's, whose latents these are.
        tiny_decoder: TinyDecoderRules {
            words: &["taew", "wan"],
            is_f16: false,
        },
        control_network: control::network,
        control_weights: Some(control::weights),
        ..rules::<QwenImage>()
    },
    lora: lora::RULES,
};

/// The published transformers of full size, which are told apart by name alone.
fn published_name(weights: &WeightSet) -> Option<&'static str> {
    let shape = weights.shape_by_end(&["img_in.weight"])?;
    (shape.first()? == &3072).then_some("Qwen-Image 20B")
}
