//! The variants of Flux: recognition, and the inputs of each.

use crate::families::prelude::*;
use crate::model::{ControlBy, ControlKind};
use crate::networks::FluxTransformerConfig;

/// Channels of a token that are noise.
pub(super) const NOISE: i64 = 64;
/// Further channels of models that fill: the image, and the mask of all its pixels.
const CANVAS: i64 = 64 + 256;
/// Further channels of models that are controlled: a control image.
const CONTROL: i64 = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum FluxVariant {
    /// From a prompt, with distilled guidance.
    Dev,
    /// From a prompt in a few steps, without guidance.
    Schnell,
    /// Fills the masked part of an image.
    Fill,
    /// Edits an image by a prompt. Its tensors equal dev's.
    Kontext,
    /// Follows a depth map.
    Depth,
    /// Follows edges. Its tensors are those of the one for depth.
    Canny,
    /// One of these two, of which no name says which.
    Control,
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
    Ok(FluxVariant::of(config, is_kontext, hints.names)?.inputs())
}

impl FluxVariant {
    fn of(
        config: &FluxTransformerConfig,
        is_kontext: bool,
        names: &[&str],
    ) -> Result<Self, String> {
        if config.out_channels() != NOISE {
            let found = config.out_channels();
            return Err(format!("a Flux transformer with {found} output channels"));
        }
        match config.in_channels {
            NOISE if is_kontext => Ok(Self::Kontext),
            NOISE if config.guidance_embeds => Ok(Self::Dev),
            NOISE => Ok(Self::Schnell),
            channels if channels == NOISE + CANVAS => Ok(Self::Fill),
            channels if channels == NOISE + CONTROL => Ok(Self::of_control(names)),
            196 => Err("a Flex.2 model".to_owned()),
            other => Err(format!("a Flux transformer with {other} input channels")),
        }
    }

    /// The variant of a model that follows a control image, or of a LoRA that makes one, by the names of the file and of
    /// its folder.
    pub fn of_control(names: &[&str]) -> Self {
        let known = [("depth", Self::Depth), ("canny", Self::Canny)];
        let mut named = names.iter().filter_map(|name| {
            let name = name.to_lowercase();
            known.iter().find(|(word, _)| name.contains(word))
        });
        named.next().map_or(Self::Control, |(_, variant)| *variant)
    }

    pub fn inputs(self) -> ModelVariant {
        use InputUse::{No, Required};
        let of = |name, guidance| ModelVariant {
            guidance,
            ..ModelVariant::new(name)
        };
        let distilled = |name| of(name, GuidanceMode::Distilled);
        // By networks, which were trained with dev.
        let by_networks = |variant| ModelVariant {
            controls: ControlUse::NETWORKS,
            ..variant
        };
        let by_channels = |name, kind| ModelVariant {
            mask: No,
            controls: ControlUse {
                by: ControlBy::Channels,
                most: 1,
                is_required: true,
                kind,
                ..ControlUse::NONE
            },
            ..distilled(name)
        };
        match self {
            Self::Dev => by_networks(distilled("dev")),
            Self::Schnell => by_networks(of("schnell", GuidanceMode::None)),
            Self::Fill => ModelVariant {
                start_image: Required,
                image_role: ImageRole::Canvas,
                mask: Required,
                ..distilled("Fill")
            },
            // It sees the image that it edits, and begins from noise alone.
            Self::Kontext => ModelVariant {
                start_image: No,
                mask: No,
                max_references: 1,
                ..distilled("Kontext")
            },
            Self::Depth => by_channels("Depth", Some(ControlKind::Depth)),
            Self::Canny => by_channels("Canny", Some(ControlKind::Edges)),
            Self::Control => by_channels("Control", None),
        }
    }
}
