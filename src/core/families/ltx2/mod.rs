//! LTX-2.3 distilled: videos with sound from text and from images, in one stage or in two.

mod memory;
mod parts;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use crate::families::prelude::*;
use crate::networks::ltx2::{Ltx2ConnectorsConfig, Ltx2TransformerConfig, Ltx2VaeConfig};

pub use crate::model::family::ltx2::{DISTILLED_SIGMAS, SECOND_STAGE_SIGMAS};

pub const FAMILY: ModelFamily = ModelFamily::LTX2;

/// The text encoder: Gemma 3, all of whose hidden states are read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Gemma3,
    tap: LanguageTap::All,
};

/// Tokens that the transformer reads of a text, with the registers in the place of padding.
pub const TEXT_TOKENS: u32 = 1024;

/// A prompt without a template. The reference pads before it, which changes roundings alone: positions are relative, and
/// registers take the place of padding.
pub const PROMPT: PromptTemplate = PromptTemplate {
    before: "",
    behind: "",
    dropped: 0,
    ids_behind: 0,
    room: TEXT_TOKENS as usize,
    padding: PromptPadding::None,
    keeps_end: true,
    removed: "",
};

const MAX_PIXELS: u64 = 1 << 22;
const MAX_EDGE: u32 = 4096;
/// 20 seconds, where rotary positions end, of 50 frames a second.
const MAX_FRAMES: u32 = 1001;

pub(super) struct Ltx2Family;

impl SingleTransformerFamily for Ltx2Family {
    type Config = Ltx2TransformerConfig;
    const FAMILY: ModelFamily = FAMILY;
    const TABLE: FamilyTable<Ltx2TransformerConfig> = FamilyTable {
        refused: &[
            (
                "LTX2",
                "an LTX-2 model in a diffusers folder (get ltx-2.3-22b-distilled-1.1.safetensors from Lightricks/LTX-2.3)",
            ),
            ("caption_projection", "an LTX-2 model"),
            ("keyframes_abs_pos_embedding", "an LTX-2.5 model"),
        ],
        mark: Some("audio_prompt_adaln_single.linear.weight"),
        variant: |_, hints| variant_by(hints.names),
        vae: FamilyVae {
            class: Some("AutoencoderKLLTX2Video"),
            wanted: parts::vae,
            published: |_| Arc::new(Ltx2VaeConfig::default()),
            is_published: |_, place| {
                Ltx2VaeConfig::read(place).is_ok_and(|config| config == Ltx2VaeConfig::default())
            },
            read: |place, reader| reader.autoencoder::<Ltx2VaeConfig>(place),
            sizes: |place| {
                let config = Ltx2VaeConfig::read(place)?;
                Ok((config.latent_channels, Ltx2VaeConfig::SPATIAL_FACTOR))
            },
        },
        text_encoders: &[TextEncoder {
            network: TextNetwork::Language(LANGUAGE),
            name: "Gemma 3",
            limit: |_| TEXT_TOKENS,
            rule: TextRule::Within(&PROMPT),
            wanted: |_| parts::gemma_3(),
            published: |_| Some(Arc::new(LanguageConfig::gemma3_12b(LANGUAGE.tap))),
            tokens: |_| f64::from(TEXT_TOKENS),
            weights: 12_000_000_000,
        }],
        more_parts: parts::more,
        read_more: memory::read_more,
        complete: |_, files, facts| complete(files, facts),
        needs: memory::needs,
        lora: LoraTable {
            // Its signs come before those of LTX-Video: see `library/other_models.txt`.
            accepts: |origin, _| origin == "ltx2",
            ..LoraTable::NONE
        },
        ..FamilyTable::DEFAULT
    };
}

/// The dev model has the layers of the distilled one; only its name says that it needs other steps and guidances.
fn variant_by(names: &[&str]) -> Result<ModelVariant, String> {
    let words = |name: &&str| model_words(name);
    let has = |word: &str| names.iter().flat_map(words).any(|own| own == word);
    if has("dev") && !has("distilled") {
        return Err("LTX-2.3 dev, whose guidance this version does not have (get ltx-2.3-22b-distilled-1.1.safetensors from Lightricks/LTX-2.3)".to_owned());
    }
    Ok(ModelVariant {
        guidance: GuidanceMode::None,
        image_role: ImageRole::FirstFrame,
        mask: InputUse::No,
        ..ModelVariant::new("distilled")
    })
}

/// The text connectors of a model, whose projections may be in another file.
///
/// Headers show the widths of connectors; that of the hidden states is the text encoder's.
pub fn read_connectors(files: &ModelFiles) -> Result<Ltx2ConnectorsConfig, CatalogError> {
    let missing = || {
        let what = "the text connectors of LTX-2.3".to_owned();
        CatalogError::missing(what, files.transformer.clone())
    };
    let component = ModelComponent::TextConnectors;
    let connectors = files.path(component).ok_or_else(missing)?;
    let language = LANGUAGE.read(&files.text_encoder)?;
    Ok(Ltx2ConnectorsConfig {
        caption_channels: language.hidden_size,
        text_proj_in_factor: language.num_hidden_layers + 1,
        ..Ltx2ConnectorsConfig::read(connectors)?
    })
}

/// Adds a video's limits, and checks that the text encoder is as wide as the projection of its states.
fn complete(files: &ModelFiles, facts: &mut ModelFacts) -> Result<(), CatalogError> {
    facts.limits = SizeLimits {
        size_multiple: Ltx2VaeConfig::SPATIAL_FACTOR as u32,
        max_edge: MAX_EDGE,
        max_pixels: MAX_PIXELS,
        frame_stride: Ltx2VaeConfig::TEMPORAL_FACTOR as u32,
        max_frames: MAX_FRAMES,
        ..facts.limits
    };
    let config = read_connectors(files)?;
    let projections = files.path(ModelComponent::TextProjection);
    let projections: &Path = projections.unwrap_or(&files.transformer);
    let weights = WeightSet::open(projections)?;
    let [video, audio] = config.connectors();
    let states = (config.caption_channels * config.text_proj_in_factor) as u64;
    for connector in [video, audio] {
        let name = format!("{}.weight", connector.projection);
        weights.expect(&name, &[connector.dim as u64, states])?;
    }
    Ok(())
}
