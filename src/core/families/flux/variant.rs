//! The variants of Flux: what tells them apart, and what they take in.

use crate::model::{ControlBy, ControlKind, ControlUse, Guidance, ImageRole, InputUse};
use crate::networks::FluxTransformerConfig;

/// Channels of a token that are noise.
const NOISE: i64 = 64;
/// Beside them, in models that fill: the picture, and the mask of all its pixels.
const CANVAS: i64 = 64 + 256;
/// Beside them, in models that are controlled: a control picture.
const CONTROL: i64 = 64;

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
    /// Follows a depth map.
    Depth,
    /// Follows edges. Its tensors are those of the one for depth.
    Canny,
    /// One of these two, of which no name says which.
    Control,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::Schnell => "schnell",
            Self::Fill => "Fill",
            Self::Kontext => "Kontext",
            Self::Depth => "Depth",
            Self::Canny => "Canny",
            Self::Control => "Control",
        }
    }

    /// The variant of a transformer, or the sentence part for one of another kind. `is_kontext` is what a name or a
    /// pipeline's class says, as no header does; `names`: those of the model and of its folder, the model's first.
    pub fn of(
        cfg: &FluxTransformerConfig,
        is_kontext: bool,
        names: &[&str],
    ) -> Result<Self, String> {
        if cfg.out_channels() != NOISE {
            let found = cfg.out_channels();
            return Err(format!("a Flux transformer with {found} output channels"));
        }
        match cfg.in_channels {
            NOISE if is_kontext => Ok(Self::Kontext),
            NOISE if cfg.guidance_embeds => Ok(Self::Dev),
            NOISE => Ok(Self::Schnell),
            channels if channels == NOISE + CANVAS => Ok(Self::Fill),
            channels if channels == NOISE + CONTROL => Ok(Self::of_control(names)),
            196 => Err("a Flex.2 model".to_owned()),
            other => Err(format!("a Flux transformer with {other} input channels")),
        }
    }

    /// Of a model that follows a picture, or a LoRA that makes one, by the names of the file and of its folder.
    pub fn of_control(names: &[&str]) -> Self {
        let known = [("depth", Self::Depth), ("canny", Self::Canny)];
        let mut named = names.iter().filter_map(|name| {
            let name = name.to_lowercase();
            known.iter().find(|(word, _)| name.contains(word))
        });
        named.next().map_or(Self::Control, |(_, variant)| *variant)
    }

    /// Which control pictures it takes.
    pub fn controls(self) -> ControlUse {
        let kind = match self {
            // By networks, which were trained with dev.
            Self::Dev | Self::Schnell => return ControlUse::NETWORKS,
            Self::Fill | Self::Kontext => return ControlUse::NONE,
            Self::Depth => Some(ControlKind::Depth),
            Self::Canny => Some(ControlKind::Edges),
            Self::Control => None,
        };
        ControlUse {
            by: ControlBy::Channels,
            most: 1,
            is_required: true,
            kind,
            ..ControlUse::NONE
        }
    }

    /// Whether it takes a start picture, what becomes of that, and whether it takes a mask.
    pub fn inputs(self) -> (InputUse, ImageRole, InputUse) {
        use InputUse::{No, Optional, Required};
        match self {
            Self::Dev | Self::Schnell => (Optional, ImageRole::Base, Optional),
            Self::Fill => (Required, ImageRole::Canvas, Required),
            // What it edits it sees, and begins from nothing.
            Self::Kontext => (No, ImageRole::Base, No),
            Self::Depth | Self::Canny | Self::Control => (Optional, ImageRole::Base, No),
        }
    }

    /// How many pictures it sees beside the one that it makes.
    pub fn max_references(self) -> u32 {
        u32::from(self == Self::Kontext)
    }

    pub fn guidance(self) -> Guidance {
        match self {
            Self::Schnell => Guidance::None,
            Self::Dev | Self::Fill | Self::Kontext | Self::Depth | Self::Canny | Self::Control => {
                Guidance::Distilled
            }
        }
    }
}
