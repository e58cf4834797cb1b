//! LTX-2.3, video with sound: facts of its jobs. No table registers it yet, so no file counts as one of its models.

use crate::networks::{LanguageKind, LanguageTap, LanguageUse};

/// The text encoder: Gemma 3, all of whose hidden states are read.
pub const LANGUAGE: LanguageUse = LanguageUse {
    kind: LanguageKind::Gemma3,
    tap: LanguageTap::All,
};

/// Tokens that the transformer reads of a text, with the registers in the place of padding.
pub const TEXT_TOKENS: u32 = 1024;

/// Sigmas of the distilled model; fewer steps take the first of them.
pub const DISTILLED_SIGMAS: [f32; 8] = [
    1.0, 0.99375, 0.9875, 0.98125, 0.975, 0.909_375, 0.725, 0.421_875,
];

/// Sigmas of the second stage, at twice the edges.
pub const SECOND_STAGE_SIGMAS: [f32; 3] = [0.909_375, 0.725, 0.421_875];
