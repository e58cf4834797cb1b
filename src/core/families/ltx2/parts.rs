//! Parts next to an LTX-2.3 transformer, which its published bundle contains but for the text encoder and the upscaler.

use super::LANGUAGE;
use crate::families::parts::{LanguageModel, language_model};
use crate::families::prelude::*;
use crate::networks::ltx2::{
    LatentUpscalerConfig, Ltx2AudioVaeConfig, Ltx2ConnectorsConfig, Ltx2TransformerConfig,
    Ltx2VaeConfig, Ltx2VocoderConfig,
};

/// Files to get where a part is missing or wrong.
const BUNDLE: &str = "ltx-2.3-22b-distilled-1.1.safetensors from Lightricks/LTX-2.3";
const VIDEO_VAE: &str = "LTX23_video_vae_bf16.safetensors from Kijai/LTX2.3_comfy";
const AUDIO_VAE: &str = "LTX23_audio_vae_bf16.safetensors from Kijai/LTX2.3_comfy";
const PROJECTION: &str = "ltx-2.3_text_projection_bf16.safetensors from Kijai/LTX2.3_comfy";
const UPSCALER: &str = "ltx-2.3-spatial-upscaler-x2-1.1.safetensors from Lightricks/LTX-2.3";

const GEMMA3_12B: LanguageModel = LanguageModel {
    names: ["a Gemma 3 12B text encoder", "a Gemma 3 text encoder"],
    example: "gemma_3_12B_it_fp8_scaled.safetensors from Comfy-Org/ltx-2",
    usual: &[
        "gemma_3_12B_it",
        "gemma_3_12B_it_fp8_scaled",
        "gemma-3-12b-it",
        "text_encoder",
    ],
    word: "gemma",
    part: PartKind::Gemma,
    tokenizer: ("the tokenizer of Gemma 3", None, TokenizerForm::Pairs),
    objection: |_| None,
};

/// Its width is checked with that of the text projection.
pub(super) fn gemma_3() -> ComponentQuery<'static> {
    ComponentQuery {
        fits: Box::new(|weights, place| LANGUAGE.read(place)?.check_weights(weights)),
        ..language_model(GEMMA3_12B, LANGUAGE, (0, ""))
    }
}
/// The video autoencoder, for latents of `expected` channels.
pub(super) fn vae(expected: i64) -> ComponentQuery<'static> {
    ComponentQuery {
        part: PartKind::Ltx2Vae,
        usual: &["LTX23_video_vae_bf16", "ltx-2.3-22b-distilled_video_vae"],
        is_in: |weights| {
            has(
                weights,
                "decoder.up_blocks.8.res_blocks.0.conv1.conv.weight",
            )
        },
        fits: Box::new(move |weights, place| {
            let config = Ltx2VaeConfig::read(place)?;
            let found = config.latent_channels;
            fits_transformer(
                expected == found,
                "an LTX-2.3 video VAE",
                VIDEO_VAE,
                place,
                || format!("one of {found} latent channels"),
            )?;
            config.check_weights(weights)
        }),
        ..part(ModelComponent::Vae, "an LTX-2.3 video VAE", VIDEO_VAE)
    }
}

/// Connectors, projections, and what makes the sound; the upscaler may be missing.
pub(super) fn more(config: &Ltx2TransformerConfig) -> Vec<ComponentQuery<'static>> {
    let widths = config.streams().map(|stream| stream.dim);
    let connectors = "the text connectors of LTX-2.3";
    let projection = "the text projection of LTX-2.3";
    vec![
        ComponentQuery {
            part: PartKind::Ltx2Text,
            usual: &["ltx-2.3-22b-distilled_embeddings_connectors"],
            is_in: |weights| has(weights, "video_embeddings_connector.learnable_registers"),
            fits: Box::new(move |weights, place| {
                let found =
                    weights.shape_by_end(&["video_embeddings_connector.learnable_registers"]);
                let found = found.and_then(|shape| shape.last()).copied().unwrap_or(0);
                fits_transformer(found == widths[0] as u64, connectors, BUNDLE, place, || {
                    format!("those of another LTX-2, which are {found} wide")
                })?;
                let config = Ltx2ConnectorsConfig::read(place)?;
                let tensors = config.tensors(weights).into_iter();
                let mut own = tensors.filter(|it| it.name.contains("embeddings_connector."));
                own.try_for_each(|it| weights.expect(&it.name, &it.shape))
            }),
            ..part(ModelComponent::TextConnectors, connectors, BUNDLE)
        },
        ComponentQuery {
            part: PartKind::Ltx2Text,
            usual: &["ltx-2.3_text_projection_bf16"],
            is_in: |weights| {
                has(
                    weights,
                    "text_embedding_projection.video_aggregate_embed.weight",
                )
            },
            ..part(ModelComponent::TextProjection, projection, PROJECTION)
        },
        ComponentQuery {
            is_in: |weights| has(weights, "decoder.up.0.block.0.conv1.conv.weight"),
            fits: Box::new(|weights, place| {
                Ltx2AudioVaeConfig::read(place)?.check_weights(weights)
            }),
            ..part(ModelComponent::AudioVae, "an LTX-2.3 audio VAE", AUDIO_VAE)
        },
        ComponentQuery {
            is_in: |weights| has(weights, "bwe_generator.conv_pre.weight"),
            fits: Box::new(|weights, place| Ltx2VocoderConfig::read(place)?.check_weights(weights)),
            ..part(ModelComponent::Vocoder, "an LTX-2.3 vocoder", AUDIO_VAE)
        },
        ComponentQuery {
            part: PartKind::LatentUpscaler,
            usual: &[
                "ltx-2.3-spatial-upscaler-x2-1.1",
                "ltx-2.3-spatial-upscaler-x2-1.0",
            ],
            is_in: |weights| has(weights, "upsampler.0.weight"),
            fits: Box::new(|weights, place| {
                LatentUpscalerConfig::read(place)?.check_weights(weights)
            }),
            ..part(
                ModelComponent::LatentUpscaler,
                "a spatial latent upscaler ×2 of LTX-2.3",
                UPSCALER,
            )
        },
    ]
}

fn has(weights: &WeightSet, end: &str) -> bool {
    weights.shape_by_end(&[end]).is_some()
}

/// A part that any file of the kind of an audio VAE may have.
fn part(
    component: ModelComponent,
    what: &'static str,
    example: &'static str,
) -> ComponentQuery<'static> {
    ComponentQuery {
        component,
        part: PartKind::Ltx2Audio,
        what: what.to_owned(),
        kind: what,
        example,
        usual: &["LTX23_audio_vae_bf16", "ltx-2.3-22b-distilled_audio_vae"],
        word: "ltx",
        is_in: |_| false,
        fits: Box::new(|_, _| Ok(())),
        tokenizer: None,
    }
}
