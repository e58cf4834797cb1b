//! What configs and headers say about a model, in the terms that all families share.
//!
//! The families find it out; names, entries of the catalogue and where the parts lie are others' business.

use serde::Deserialize;

use super::{Family, Guidance, ImageRole, InputUse, Limits};
use crate::job::{Sampler, SectionOrder};

/// What is known of a whole model once it has been checked.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    pub family: Family,
    /// The published variant's name, such as `TI2V`.
    pub variant: &'static str,
    pub shape: TransformerShape,
    pub start_image: InputUse,
    pub image_role: ImageRole,
    pub mask: InputUse,
    pub end_image: InputUse,
    pub guidance: Guidance,
    /// The order in which it makes the sections of a clip, if it does.
    pub section_order: Option<SectionOrder>,
    /// Channels of the latents.
    pub latent_channels: u64,
    pub limits: Limits,
    /// What the model's own scheduler says, where it has one.
    pub schedule: Option<Schedule>,
    /// Bytes of all weight files.
    pub bytes: u64,
}

/// The defaults that are a scheduler's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Schedule {
    pub sampler: Sampler,
    pub shift: Option<f64>,
}

/// What tells published models of one variant apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct TransformerShape {
    pub heads: u64,
    pub head_dim: u64,
    /// Blocks of all kinds.
    pub layers: u64,
    /// Of the input.
    pub channels: u64,
}
