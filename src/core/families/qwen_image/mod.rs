//! Qwen-Image: images from text, from an image, and inside a mask; Qwen-Image-Edit: as a text says of some images.

mod control;
#[cfg(test)]
pub(crate) mod tests;
mod variant;

use std::path::Path;
use std::sync::Arc;

use super::parts::{QWEN25_VL_7B, language_model};
use crate::families::prelude::*;
use crate::footprint::autoencoder::wan_encode;
use crate::footprint::text::language;
use crate::networks::{
    QwenImageControlConfig, QwenImageTransformerConfig, QwenVisionConfig, WanVaeConfig,
};

pub const FAMILY: ModelFamily = ModelFamily::QWEN_IMAGE;

/// The text encoder: Qwen 2.5 VL, whose last hidden state is read after its norm.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Qwen2,
    tap: LanguageTap::Last,
};

/// The template around a prompt.
/// After <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/qwenimage/pipeline_qwenimage.py>.
pub const PROMPT: PromptTemplate = PromptTemplate {
    before: "<|im_start|>system\nDescribe the image by detailing the color, shape, size, texture, quantity, text, \
             spatial relationships of the objects and background:<|im_end|>\n<|im_start|>user\n",
    behind: "<|im_end|>\n<|im_start|>assistant\n",
    dropped: 34,
    ids_behind: 5,
    room: 512,
    padding: PromptPadding::None,
    keeps_end: false,
    removed: "",
};

/// The template around a prompt about reference images, whose [`image_words`] come before it.
/// After <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/qwenimage/pipeline_qwenimage_edit_plus.py>.
pub const EDIT_PROMPT: PromptTemplate = PromptTemplate {
    before: "<|im_start|>system\nDescribe the key features of the input image (color, shape, size, texture, objects, \
             background), then explain how the user's text instruction should alter or modify the image. Generate a \
             new image that meets the user's requirements while maintaining consistency with the original input where \
             appropriate.<|im_end|>\n<|im_start|>user\n",
    dropped: 64,
    ..PROMPT
};

/// Placeholder of an image's tokens.
pub const IMAGE_MARK: &str = "<|image_pad|>";

/// Words before a prompt about a number of reference images.
pub fn image_words(images: usize) -> String {
    let words = |number| format!("Picture {number}: <|vision_start|>{IMAGE_MARK}<|vision_end|>");
    let all: Vec<String> = (1..=images).map(words).collect();
    all.concat()
}

/// Tokens that the text encoder sees of a reference image.
const SEEN_TOKENS: f64 = 210.0;

pub(super) struct QwenImageFamily;

impl SingleTransformerFamily for QwenImageFamily {
    type Config = QwenImageTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<QwenImageTransformerConfig> = FamilyTable {
        pipelines: &[
            "QwenImagePipeline",
            "QwenImageImg2ImgPipeline",
            "QwenImageInpaintPipeline",
            "QwenImageEditPlusPipeline",
        ],
        refused: &[
            ("QwenImageLayeredPipeline", variant::LAYERED),
            ("QwenImageEditPipeline", variant::FIRST_EDIT),
            ("QwenImageEditInpaintPipeline", variant::FIRST_EDIT),
            ("QwenImageControlNet", "a Qwen-Image ControlNet"),
            ("QwenImage", OTHER_PIPELINE),
            ("controlnet_", "a Qwen-Image ControlNet"),
            ("addition_t_embedding", variant::LAYERED),
        ],
        variant: variant::variant,
        vae: FamilyVae::QWEN_IMAGE,
        text_encoders: &[TextEncoder {
            network: TextNetwork::VisionLanguage(LANGUAGE),
            name: "Qwen 2.5 VL",
            limit: |_| PROMPT.room as u32,
            rule: TextRule::Within(&PROMPT),
            wanted: |config| {
                let width = (config.joint_attention_dim, "joint_attention_dim");
                language_model(QWEN25_VL_7B, LANGUAGE, width)
            },
            published: |_| Some(Arc::new(LanguageConfig::qwen25_vl_7b(LANGUAGE.tap))),
            tokens: text_length,
            // Without its head and its vision transformer.
            weights: 7_070_000_000,
        }],
        complete: |config, files, facts| {
            if facts.variant.name == variant::EDIT {
                return check_sees(&files.text_encoder, config);
            }
            Ok(())
        },
        needs: |job, stage| match stage {
            Stage::EncodeText => Some(encode_text(job)),
            Stage::EncodeImage if references(job) > 0.0 => Some([encode_references(job), None]),
            Stage::Denoise => Some([transformer_need(job), None]),
            _ => None,
        },
        control_nets: Some(ControlNets {
            find: control::find,
            footprint: NetworkFootprint::read::<QwenImageControlConfig>,
        }),
        lora: LoraTable {
            signs: lora_signatures! {
                "qwen_image" "Qwen-Image": "transformer_blocks_#_img_m", "transformer_blocks_#_txt_m";
                // Names of attentions alone could be Flux's, which has fewer blocks, as every other model has.
                "qwen_image" "Qwen-Image": "transformer_blocks_#_attn_" from 40;
            },
            accepts: |origin, _| origin == "qwen_image",
            has_musubi: true,
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// Checks that a text encoder has a vision transformer, as wide as the transformer reads.
fn check_sees(place: &Path, config: &QwenImageTransformerConfig) -> Result<(), CatalogError> {
    let weights = WeightSet::open(place)?;
    let what = "a Qwen 2.5 VL 7B text encoder with the part that looks at images";
    let fits = |fits: bool, found: &str| {
        fits_transformer(fits, what, QWEN25_VL_7B.example, place, || found.to_owned())
    };
    fits(QwenVisionConfig::is_in(&weights), "one without it")?;
    let sees = QwenVisionConfig::read(place)?;
    let is_wide = sees.out_hidden_size == config.joint_attention_dim;
    fits(is_wide, "one of another width")?;
    sees.check_weights(&weights)
}

fn references(job: &PlannedJob<'_>) -> f64 {
    job.request.references.len() as f64
}

fn text_length(job: &PlannedJob<'_>) -> f64 {
    EDIT_PROMPT.length() as f64 + references(job) * SEEN_TOKENS
}

/// Reads reference images first, where there are any, and the texts after them.
fn encode_text(job: &PlannedJob<'_>) -> StageNeeds {
    let seen = references(job) * SEEN_TOKENS;
    let texts = language(job, PlannedNetwork::TextEncoder, text_length(job));
    let looks = job
        .configured::<QwenVisionConfig>(PlannedNetwork::ImageEncoder)
        .filter(|_| seen > 0.0)
        .map(|(_, config)| {
            let size = job.number_bytes() as f64;
            let [width, wide] = [config.hidden_size, config.intermediate_size].map(|it| it as f64);
            let patches = seen * config.merged() as f64;
            // Turned in f32.
            let numbers = patches * (8.0 * width + 3.0 * wide);
            job.need(
                PlannedNetwork::ImageEncoder,
                numbers * size + patches * width * 16.0,
            )
        });
    [looks, texts]
}

/// Encodes each reference image alone, at its size.
fn encode_references(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (_, config) = job.configured::<WanVaeConfig>(PlannedNetwork::VaeEncoder)?;
    let edge = REFERENCE_PIXELS.sqrt();
    let video = PixelVolume {
        width: edge,
        height: edge,
        ..PixelVolume::of(job, 1)
    };
    let bytes = wan_encode(config, &video, job.number_bytes() as f64);
    Some(job.vae_need(PlannedNetwork::VaeEncoder, bytes))
}

fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<QwenImageTransformerConfig>(PlannedNetwork::Transformer)?;
    let text = PROMPT.room as f64 + references(job) * SEEN_TOKENS;
    let tokens = [text, job.image_tokens(references(job) * REFERENCE_PIXELS)];
    let sequence = TokenSequence::of_images(job, tokens, config.in_channels, config.streams());
    let mut need = streams(job, network, &sequence);
    let controls = job.weights.controls::<QwenImageControlConfig>();
    let controls = controls.map(|(_, control)| control.blocks.streams());
    add_controls(job, &sequence, controls, &mut need);
    Some(need)
}
