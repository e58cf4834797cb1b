//! The published variants of Wan: what tells them, what they take in, and which files go with them.

use InputUse::{No, Optional, Required};

use super::WanFamily;
use crate::families::foreign::refusal;
use crate::families::prelude::*;
use crate::model::ControlBy;
use crate::model::configs::ModelIndex;
use crate::networks::WanTransformerConfig;

/// A published variant, and the change of its experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct WanVariant {
    pub model: ModelVariant,
    /// Share of the timesteps at which the published low-noise expert takes over; none where one transformer makes all.
    pub boundary_ratio: Option<f64>,
}

/// `inputs`: use of a start image, of a mask that keeps the rest of it in every frame, and of an end image.
const fn variant(name: &'static str, inputs: [InputUse; 3], boundary: Option<f64>) -> WanVariant {
    let [start_image, mask, end_image] = inputs;
    WanVariant {
        model: ModelVariant {
            start_image,
            image_role: ImageRole::FirstFrame,
            mask,
            end_image,
            ..ModelVariant::new(name)
        },
        boundary_ratio: boundary,
    }
}

/// A variant with a control video, a mask of that, and reference images, each of which costs the time and memory of four
/// frames.
const fn controlled(name: &'static str, boundary: Option<f64>) -> WanVariant {
    let plain = variant(name, [Optional, No, Optional], boundary);
    WanVariant {
        model: ModelVariant {
            max_references: 4,
            controls: ControlUse {
                by: ControlBy::Layers,
                most: 1,
                takes_videos: true,
                takes_masks: true,
                ..ControlUse::NONE
            },
            ..plain.model
        },
        ..plain
    }
}

impl WanVariant {
    /// Wan 2.1, text to video.
    pub const T2V: Self = variant("T2V", [No, No, No], None);
    /// Wan 2.1, a start image seen by an image encoder.
    pub const I2V: Self = variant("I2V", [Required, Optional, Optional], None);
    /// Wan 2.1, first and last frame.
    pub const FLF2V: Self = variant("FLF2V", [Required, No, Required], None);
    /// Wan 2.2, text to video with two experts.
    pub const T2V_A14B: Self = variant("T2V-A14B", [No, No, No], Some(0.875));
    /// Wan 2.2, a start image with two experts and no image encoder.
    pub const I2V_A14B: Self = variant("I2V-A14B", [Required, Optional, Optional], Some(0.9));
    /// Wan 2.2, text or a start image, 48 channels.
    pub const TI2V: Self = variant("TI2V", [Optional, Optional, No], None);
    /// Wan 2.1, a control video with a mask, and reference images.
    pub const VACE: Self = controlled("VACE", None);
    /// VACE on Wan 2.2, with two experts.
    pub const VACE_A14B: Self = controlled("VACE-A14B", Some(0.875));

    pub fn name(self) -> &'static str {
        self.model.name
    }

    pub fn takes_control(self) -> bool {
        self.model.controls.is_possible()
    }

    /// diffusers' class of the transformer.
    pub fn transformer_class(self) -> &'static str {
        if self.takes_control() {
            "WanVACETransformer3DModel"
        } else {
            "WanTransformer3DModel"
        }
    }

    /// Returns true if images are next to the noise in the transformer's input.
    pub fn is_image_to_video(self) -> bool {
        self.model.start_image == Required
    }

    /// Checks that two experts have a timestep at which they change.
    pub(super) fn check_boundary(self, files: &ModelFiles) -> Result<(), CatalogError> {
        let is_sound = files
            .boundary_ratio
            .is_some_and(|ratio| ratio > 0.0 && ratio < 1.0);
        if files.transformer_2.is_none() || is_sound {
            return Ok(());
        }
        let found = files
            .boundary_ratio
            .map_or_else(|| "none".to_owned(), |ratio| ratio.to_string());
        Err(CatalogError::config(
            format!(
                "expected a boundary_ratio between 0 and 1 for two experts, such as {}, found {found}",
                self.boundary_ratio.unwrap_or(0.9)
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
            Ok(WanVariant::TI2V)
        }
        "WanPipeline" if has_two => Ok(WanVariant::T2V_A14B),
        "WanPipeline" => Ok(WanVariant::T2V),
        "WanImageToVideoPipeline" if has_two => Ok(WanVariant::I2V_A14B),
        "WanImageToVideoPipeline" if has_places => Ok(WanVariant::FLF2V),
        "WanImageToVideoPipeline" => Ok(WanVariant::I2V),
        "WanVACEPipeline" if has_two => Ok(WanVariant::VACE_A14B),
        "WanVACEPipeline" => Ok(WanVariant::VACE),
        other => Err(refusal::<WanFamily>(other).unwrap_or_default()),
    }
}
