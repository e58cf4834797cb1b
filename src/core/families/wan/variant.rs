//! The published variants of Wan: what tells them, what they take in, and which files go with them.

use crate::model::configs::ModelIndex;
use crate::model::{CatalogError, ControlBy, ControlUse, InputUse, ModelFiles};
use crate::networks::WanTransformerConfig;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum WanVariant {
    /// Wan 2.1, text to video.
    T2v,
    /// Wan 2.1, a start image seen by an image encoder.
    I2v,
    /// Wan 2.1, first and last frame.
    Flf2v,
    /// Wan 2.2, text to video with two experts.
    T2vA14b,
    /// Wan 2.2, a start image with two experts and no image encoder.
    I2vA14b,
    /// Wan 2.2, text or a start image, 48 channels.
    Ti2v,
    /// Wan 2.1, a control video with a mask, and reference images.
    Vace,
    /// VACE on Wan 2.2, with two experts.
    VaceA14b,
}

impl WanVariant {
    pub fn name(self) -> &'static str {
        match self {
            Self::T2v => "T2V",
            Self::I2v => "I2V",
            Self::Flf2v => "FLF2V",
            Self::T2vA14b => "T2V-A14B",
            Self::I2vA14b => "I2V-A14B",
            Self::Ti2v => "TI2V",
            Self::Vace => "VACE",
            Self::VaceA14b => "VACE-A14B",
        }
    }

    /// diffusers' class of the transformer.
    pub fn transformer_class(self) -> &'static str {
        if self.takes_control() {
            "WanVACETransformer3DModel"
        } else {
            "WanTransformer3DModel"
        }
    }

    /// Returns true if it takes a control video, with a mask of it, and reference images.
    pub fn takes_control(self) -> bool {
        matches!(self, Self::Vace | Self::VaceA14b)
    }

    /// Control videos that it takes, with masks of them.
    pub fn controls(self) -> ControlUse {
        if !self.takes_control() {
            return ControlUse::NONE;
        }
        ControlUse {
            by: ControlBy::Layers,
            most: 1,
            takes_videos: true,
            takes_masks: true,
            ..ControlUse::NONE
        }
    }

    /// Reference images that it takes: each costs the time and memory of four frames.
    pub fn max_references(self) -> u32 {
        if self.takes_control() { 4 } else { 0 }
    }

    pub fn start_image(self) -> InputUse {
        match self {
            Self::T2v | Self::T2vA14b => InputUse::No,
            Self::I2v | Self::Flf2v | Self::I2vA14b => InputUse::Required,
            Self::Ti2v | Self::Vace | Self::VaceA14b => InputUse::Optional,
        }
    }

    /// Use of a mask, which keeps the rest of the start image in every frame; variants with an end image keep none.
    pub fn mask(self) -> InputUse {
        match self {
            Self::T2v | Self::T2vA14b | Self::Flf2v | Self::Vace | Self::VaceA14b => InputUse::No,
            Self::I2v | Self::I2vA14b | Self::Ti2v => InputUse::Optional,
        }
    }

    /// An image encoder without places for two images knows no last one.
    pub fn end_image(self, has_image_encoder: bool) -> InputUse {
        match self {
            Self::T2v | Self::T2vA14b | Self::Ti2v => InputUse::No,
            Self::I2v if has_image_encoder => InputUse::No,
            Self::Flf2v => InputUse::Required,
            Self::I2v | Self::I2vA14b | Self::Vace | Self::VaceA14b => InputUse::Optional,
        }
    }

    pub fn has_two_experts(self) -> bool {
        matches!(self, Self::T2vA14b | Self::I2vA14b | Self::VaceA14b)
    }

    /// Returns true if images are next to the noise in the transformer's input.
    pub fn is_image_to_video(self) -> bool {
        matches!(self, Self::I2v | Self::Flf2v | Self::I2vA14b)
    }

    /// Share of the timesteps at which the published low-noise expert takes over.
    pub fn boundary_ratio(self) -> Option<f64> {
        match self {
            Self::T2vA14b | Self::VaceA14b => Some(0.875),
            Self::I2vA14b => Some(0.9),
            _ => None,
        }
    }

    /// Checks that two experts have a timestep at which they change.
    pub(super) fn check_boundary(self, files: &ModelFiles) -> Result<(), CatalogError> {
        let is_sound = match files.boundary_ratio {
            Some(ratio) => ratio > 0.0 && ratio < 1.0,
            None => false,
        };
        if files.transformer_2.is_none() || is_sound {
            return Ok(());
        }
        let found = files
            .boundary_ratio
            .map_or_else(|| "none".to_owned(), |ratio| ratio.to_string());
        Err(CatalogError::config(
            format!(
                "expected a boundary_ratio between 0 and 1 for two experts, such as {}, found {found}",
                self.boundary_ratio().unwrap_or(0.9)
            ),
            files.transformer.clone(),
        ))
    }
}

/// The variant of a diffusers folder, or the sentence part for a Wan model of another kind.
pub(super) fn of_index(
    index: &ModelIndex,
    transformer: Option<&WanTransformerConfig>,
) -> Result<WanVariant, String> {
    let has_two = index.components.contains_key("transformer_2");
    let has_places = transformer.is_some_and(|cfg| cfg.pos_embed_seq_len.is_some());
    match index.class.as_str() {
        "WanPipeline" | "WanImageToVideoPipeline" if index.expand_timesteps && !has_two => {
            Ok(WanVariant::Ti2v)
        }
        "WanPipeline" if has_two => Ok(WanVariant::T2vA14b),
        "WanPipeline" => Ok(WanVariant::T2v),
        "WanImageToVideoPipeline" if has_two => Ok(WanVariant::I2vA14b),
        "WanImageToVideoPipeline" if has_places => Ok(WanVariant::Flf2v),
        "WanImageToVideoPipeline" => Ok(WanVariant::I2v),
        "WanVACEPipeline" if has_two => Ok(WanVariant::VaceA14b),
        "WanVACEPipeline" => Ok(WanVariant::Vace),
        "WanAnimatePipeline" => Err("a Wan Animate model".to_owned()),
        "WanSpeechToVideoPipeline" => Err("a Wan S2V model".to_owned()),
        other => Err(format!("a Wan model for {other}")),
    }
}
