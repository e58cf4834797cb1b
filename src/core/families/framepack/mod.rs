//! FramePack and FramePack F1: videos of up to two minutes from an image, section by section.

mod parts;
#[cfg(test)]
pub(crate) mod tests;

use std::sync::Arc;

use super::parts::clip_l;
use crate::families::prelude::*;
use crate::footprint::autoencoder::{video_decode, video_encode};
use crate::job::SEEN_FRAMES;
use crate::model::choices::SectionOrder;
use crate::networks::{FramePackTransformerConfig, HunyuanVaeConfig};
use crate::tokens::HUNYUAN_PROMPT;

pub const FAMILY: ModelFamily = ModelFamily::FRAMEPACK;

/// The text encoder: LLaVA's Llama, of whose last two layers and last norm nothing is read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Llama,
    tap: LanguageTap::BeforeLast(2),
};

/// About twice each edge that the models were trained at.
const MAX_PIXELS: u64 = 1 << 21;
/// Positions are computed, so that any edge runs.
const MAX_EDGE: u32 = 4096;
/// Two minutes of 30 frames a second.
const MAX_FRAMES: u32 = 3601;
/// Pixels along an edge of one latent, and frames of one latent frame.
const VAE_FACTORS: (u32, u32) = (8, 4);
/// Latents along an edge of one token.
const PATCH: u32 = 2;

/// Tokens of a text, as many as are read.
const TEXT_LENGTH: f64 = HUNYUAN_PROMPT.room as f64;
/// Tokens that Llama reads, with the template around the text.
const READ_LENGTH: f64 = HUNYUAN_PROMPT.length() as f64;
/// Tokens of the start image.
const IMAGE_LENGTH: f64 = 729.0;
/// Length of the packed history in latent frames: two frames as they are, two packed by 8 and 16 by 64.
const HISTORY: f64 = 2.0 + 2.0 / 8.0 + 16.0 / 64.0;
/// Latent frames of a section where the request does not say.
const WINDOW: f64 = 9.0;

pub(super) struct FramePackFamily;

impl SingleTransformerFamily for FramePackFamily {
    type Config = FramePackTransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<FramePackTransformerConfig> = FamilyTable {
        pipelines: &["HunyuanVideoFramepackPipeline"],
        variant: |config, hints| {
            let guidance = if config.guidance_embeds {
                GuidanceMode::Distilled
            } else {
                GuidanceMode::None
            };
            Ok(ModelVariant {
                guidance,
                start_image: InputUse::Required,
                image_role: ImageRole::FirstFrame,
                mask: InputUse::No,
                ..ModelVariant::new(name(order_by_names(hints.names)))
            })
        },
        vae: FamilyVae {
            class: Some("AutoencoderKLHunyuanVideo"),
            wanted: parts::vae,
            published: |_| Arc::new(HunyuanVaeConfig::default()),
            is_published: |_, place| {
                let published = HunyuanVaeConfig::default().block_out_channels;
                let found = HunyuanVaeConfig::read(place);
                found.is_ok_and(|config| config.block_out_channels == published)
            },
            read: |place, reader| reader.autoencoder::<HunyuanVaeConfig>(place),
            sizes: |place| {
                let config = HunyuanVaeConfig::read(place)?;
                Ok((config.latent_channels, config.spatial_factor()))
            },
        },
        text_encoders: &[
            TextEncoder {
                network: TextNetwork::Language(LANGUAGE),
                name: "Llama",
                limit: |_| HUNYUAN_PROMPT.room as u32,
                rule: TextRule::Within(&HUNYUAN_PROMPT),
                wanted: |config| parts::llava_llama3(config.text_embed_dim),
                published: |_| Some(Arc::new(LanguageConfig::llama3(LANGUAGE.tap))),
                tokens: |_| READ_LENGTH,
                weights: 8_000_000_000,
            },
            TextEncoder::clip_l(
                |config| clip_l(ModelComponent::TextEncoder2, config.pooled_projection_dim),
                |_| None,
            ),
        ],
        image_encoder: |config| Some(parts::siglip_384(config.image_proj_dim)),
        complete: |_, _, facts| {
            complete(facts);
            Ok(())
        },
        needs: |job, stage| match stage {
            Stage::EncodeImage => Some([encode_image(job), None]),
            Stage::Denoise => Some([transformer_need(job), None]),
            Stage::Decode => Some([decode(job), None]),
            _ => None,
        },
        lora: LoraTable {
            signs: lora_signatures! {
                "framepack" "FramePack": "clean_x_embedder", "image_projection";
                "hunyuan" "HunyuanVideo": "txt_in_individual_token_refiner", "context_embedder_token_refiner";
            },
            accepts: accepts_lora,
            has_musubi: true,
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// LoRAs for HunyuanVideo act here, too. Names that Flux has as well tell the two apart only where there are more blocks
/// than in Flux.
fn accepts_lora(origin: &str, tables: &[LayerTable]) -> bool {
    let layers = tables.iter().flat_map(LayerTable::layers);
    let mut beyond = layers.filter(|layer| layer.name.starts_with("double_blocks.19."));
    let is_small = beyond.next().is_none();
    matches!(origin, "framepack" | "hunyuan") || (origin == "flux" && is_small)
}

fn name(order: SectionOrder) -> &'static str {
    match order {
        SectionOrder::Original => "I2V",
        SectionOrder::F1 => "F1",
    }
}

/// The order of sections that names show: that of the first FramePack where they show none.
fn order_by_names(names: &[&str]) -> SectionOrder {
    let is_f1 = |name: &&str| {
        let name = name.to_lowercase();
        let mut words = name.split(|letter: char| !letter.is_ascii_alphanumeric());
        words.any(|word| word == "f1" || word.starts_with("framepackf1"))
    };
    if names.iter().any(is_f1) {
        SectionOrder::F1
    } else {
        SectionOrder::Original
    }
}

/// Adds the section order, which is named by the variant, and a video's limits.
fn complete(facts: &mut ModelFacts) {
    let orders = [SectionOrder::F1, SectionOrder::Original];
    let order = orders
        .into_iter()
        .find(|order| name(*order) == facts.variant.name);
    facts.section_order = order;
    facts.variant.end_image = order.map_or(InputUse::No, SectionOrder::end_image);
    let (spatial, temporal) = VAE_FACTORS;
    facts.limits = SizeLimits {
        size_multiple: spatial * PATCH,
        max_edge: MAX_EDGE,
        max_pixels: MAX_PIXELS,
        frame_stride: temporal,
        max_frames: MAX_FRAMES,
        fixed_size: false,
        max_batch: 1,
        max_references: 0,
        controls: ControlUse::NONE,
    };
}

fn encode_image(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let bytes = |widths: &[i64]| video_encode(widths, &PixelVolume::of(job, 1), seen(job), job);
    vae_need(job, PlannedNetwork::VaeEncoder, &bytes)
}

fn decode(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let latents = 2.0 * window(job);
    let bytes = |widths: &[i64]| video_decode(widths, &PixelVolume::of(job, 1), latents, job);
    vae_need(job, PlannedNetwork::VaeDecoder, &bytes)
}

fn vae_need(
    job: &PlannedJob<'_>,
    part: PlannedNetwork,
    bytes: &dyn Fn(&[i64]) -> f64,
) -> Option<StageFootprint> {
    let (_, config) = job.configured::<HunyuanVaeConfig>(part)?;
    Some(job.vae_need(part, bytes(&config.block_out_channels)))
}

fn window(job: &PlannedJob<'_>) -> f64 {
    let sections = job.request.sections;
    sections.map_or(WINDOW, |sections| f64::from(sections.window))
}

/// Latent frames that are encoded at once: of an image, or of the video that is continued.
fn seen(job: &PlannedJob<'_>) -> f64 {
    let lead = job.request.sections.map_or(1, |sections| sections.lead);
    match lead {
        0 | 1 => 1.0,
        _ => f64::from(SEEN_FRAMES / 4 + 1),
    }
}

fn transformer_need(job: &PlannedJob<'_>) -> Option<StageFootprint> {
    let (network, config) =
        job.configured::<FramePackTransformerConfig>(PlannedNetwork::Transformer)?;
    let a_frame = job.image_tokens(0.0);
    let made = window(job) * a_frame;
    let sequence = TokenSequence {
        text: TEXT_LENGTH + IMAGE_LENGTH,
        image: made + HISTORY * a_frame,
        images: 1.0,
        channels: 4.0 * config.in_channels as f64,
        shape: config.streams(),
    };
    Some(streams(job, network, &sequence))
}
