//! The variants of Flux: recognition, and the inputs of each.

use InputUse::{No, Required};

use crate::families::prelude::*;
use crate::model::{ControlBy, ControlKind};
use crate::networks::FluxTransformerConfig;

/// Channels of a token that are noise.
pub(super) const NOISE: i64 = 64;
/// Further channels of models that fill: the image, and the mask of all its pixels.
const CANVAS: i64 = 64 + 256;
/// Further channels of models that are controlled: a control image.
const CONTROL: i64 = 64;

/// From a prompt, with distilled guidance; ControlNets were trained with it.
pub(super) const DEV: ModelVariant = ModelVariant {
    controls: ControlUse::NETWORKS,
    ..distilled("dev")
};
/// From a prompt in a few steps, without guidance.
pub(super) const SCHNELL: ModelVariant = ModelVariant {
    guidance: GuidanceMode::None,
    controls: ControlUse::NETWORKS,
    ..ModelVariant::new("schnell")
};
/// Fills the masked part of an image.
const FILL: ModelVariant = ModelVariant {
    start_image: Required,
    image_role: ImageRole::Canvas,
    mask: Required,
    ..distilled("Fill")
};
/// Edits an image by a prompt, beginning from noise alone. Its tensors equal dev's.
const KONTEXT: ModelVariant = ModelVariant {
    start_image: No,
    mask: No,
    max_references: 1,
    ..distilled("Kontext")
};

const fn distilled(name: &'static str) -> ModelVariant {
    ModelVariant {
        guidance: GuidanceMode::Distilled,
        ..ModelVariant::new(name)
    }
}

/// The variant of a model that follows a control image, or of a LoRA that makes one, by the names of the file and of its
/// folder: the tensors are the same for a depth map and for edges.
pub(super) fn controlled(names: &[&str]) -> ModelVariant {
    let kinds = [("Depth", ControlKind::Depth), ("Canny", ControlKind::Edges)];
    let mut known = names.iter().filter_map(|name| {
        let name = name.to_lowercase();
        kinds
            .iter()
            .find(|(kind, _)| name.contains(&kind.to_lowercase()))
    });
    let (name, kind) = known
        .next()
        .map_or(("Control", None), |(name, kind)| (*name, Some(*kind)));
    ModelVariant {
        mask: No,
        controls: ControlUse {
            by: ControlBy::Channels,
            most: 1,
            is_required: true,
            kind,
            ..ControlUse::NONE
        },
        ..distilled(name)
    }
}

/// The variant of a transformer, or a noun phrase for one of another kind. Kontext differs from dev in its name alone.
pub(super) fn variant(
    config: &FluxTransformerConfig,
    hints: &VariantHints<'_>,
) -> Result<ModelVariant, String> {
    let is_kontext = match hints.class {
        Some(class) => class.starts_with("FluxKontext"),
        None => hints
            .names
            .iter()
            .any(|name| name.to_lowercase().contains("kontext")),
    };
    if config.out_channels() != NOISE {
        let found = config.out_channels();
        return Err(format!("a Flux transformer with {found} output channels"));
    }
    match config.in_channels - NOISE {
        0 if is_kontext => Ok(KONTEXT),
        0 if config.guidance_embeds => Ok(DEV),
        0 => Ok(SCHNELL),
        CANVAS => Ok(FILL),
        CONTROL => Ok(controlled(hints.names)),
        _ if config.in_channels == 196 => Err("a Flex.2 model".to_owned()),
        _ => {
            let found = config.in_channels;
            Err(format!("a Flux transformer with {found} input channels"))
        }
    }
}
