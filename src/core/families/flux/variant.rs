//! The variants of Flux: what tells them apart, and what they take in.

use crate::model::{Guidance, ImageRole, InputUse};
use crate::networks::FluxTransformerConfig;

/// Channels of a token that are noise.
const NOISE: i64 = 64;
/// Beside them, in models that fill: the picture, and the mask of all its pixels.
const CANVAS: i64 = 64 + 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variant {
    /// From a prompt, told a guidance.
    Dev,
    /// From a prompt in a few steps, told none.
    Schnell,
    /// Fills what a mask hides of a picture.
    Fill,
    /// Makes a picture anew as a prompt says. Its tensors are dev's.
    Kontext,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Schnell => "schnell",
            Self::Fill => "Fill",
            Self::Kontext => "Kontext",
        }
    }

    /// The variant of a transformer, or the sentence part for one of another kind. `is_kontext` is what a name or a
    /// pipeline's class says, as no header does.
    pub fn of(cfg: &FluxTransformerConfig, is_kontext: bool) -> Result<Self, String> {
        if cfg.out_channels() != NOISE {
            let found = cfg.out_channels();
            return Err(format!("a Flux transformer with {found} output channels"));
        }
        match cfg.in_channels {
            NOISE if is_kontext => Ok(Self::Kontext),
            NOISE if cfg.guidance_embeds => Ok(Self::Dev),
            NOISE => Ok(Self::Schnell),
            channels if channels == NOISE + CANVAS => Ok(Self::Fill),
            128 => Err("a Flux control model (Canny or Depth)".to_owned()),
            196 => Err("a Flex.2 model".to_owned()),
            other => Err(format!("a Flux transformer with {other} input channels")),
        }
    }

    /// Whether it takes a start picture, what becomes of that, and whether it takes a mask.
    pub fn inputs(self) -> (InputUse, ImageRole, InputUse) {
        use InputUse::{No, Optional, Required};
        match self {
            Self::Dev | Self::Schnell => (Optional, ImageRole::Base, Optional),
            Self::Fill => (Required, ImageRole::Canvas, Required),
            Self::Kontext => (Optional, ImageRole::Reference, No),
        }
    }

    pub fn guidance(self) -> Guidance {
        match self {
            Self::Dev | Self::Fill | Self::Kontext => Guidance::Distilled,
            Self::Schnell => Guidance::None,
        }
    }
}
