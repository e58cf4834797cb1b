//! Facts about a model from configs and headers, in terms shared by all families.
//!
//! Families determine them; names, catalogue entries and paths are handled elsewhere.

use serde::Deserialize;

use super::ModelFamily;
use crate::model::choices::{SamplerKind, SectionOrder};
use crate::model::{ControlUse, GuidanceMode, ImageRole, InputUse, SizeLimits};

/// Facts about a whole checked model.
#[derive(Clone, Debug)]
pub(crate) struct ModelFacts {
    pub family: ModelFamily,
    pub variant: ModelVariant,
    pub shape: TransformerShape,
    /// The order in which it makes the sections of a video, if it does.
    pub section_order: Option<SectionOrder>,
    /// Channels of the latents.
    pub latent_channels: u64,
    pub limits: SizeLimits,
    pub schedule: Option<SchedulerDefaults>,
    /// Bytes of all weight files.
    pub bytes: u64,
}

/// A published variant, and the inputs that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModelVariant {
    pub name: &'static str,
    pub guidance: GuidanceMode,
    pub start_image: InputUse,
    pub image_role: ImageRole,
    pub mask: InputUse,
    pub end_image: InputUse,
    pub max_references: u32,
    pub controls: ControlUse,
}

impl ModelVariant {
    /// With classifier-free guidance, an optional start image and a mask of it.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            guidance: GuidanceMode::Cfg,
            start_image: InputUse::Optional,
            image_role: ImageRole::Base,
            mask: InputUse::Optional,
            end_image: InputUse::No,
            max_references: 0,
            controls: ControlUse::NONE,
        }
    }
}

/// The defaults that are a scheduler's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SchedulerDefaults {
    pub sampler: SamplerKind,
    pub shift: Option<f64>,
}

/// Shape by which published models of one variant are distinguished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformerShape {
    pub heads: i64,
    pub head_dim: i64,
    /// Blocks of all kinds.
    pub layers: i64,
    /// Of the input.
    pub channels: i64,
}

impl TransformerShape {
    /// About how many numbers a transformer of this shape has: within a tenth for all published ones.
    pub(crate) fn numbers(&self, family: ModelFamily) -> u64 {
        let width = (self.heads * self.head_dim) as f64;
        // Matrices of width × width in a block: attentions, and a feed-forward of four to six times the width.
        let matrices = (family.matrices_a_block)(width);
        (self.layers as f64 * matrices * width * width) as u64
    }
}
