//! Inputs and guidance that a model supports.

use serde::{Deserialize, Serialize};

/// Support of an input: unsupported, optional or required.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputUse {
    #[default]
    No,
    Optional,
    Required,
}

impl InputUse {
    pub fn is_possible(self) -> bool {
        self != Self::No
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageRole {
    #[default]
    FirstFrame,
    /// The walk begins on the way to it, as far as `strength` says.
    Base,
    /// The model sees it, and what the mask hides of it, at every step (Fill).
    Canvas,
}

/// Meaning of a model's `guidance_scale`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GuidanceMode {
    /// Classifier-free guidance, by a second pass with the negative prompt.
    #[default]
    Cfg,
    /// Embedded value of a guidance-distilled model; classifier-free guidance is separate (`true_cfg_scale`).
    Distilled,
    /// The model takes none; classifier-free guidance is apart (`true_cfg_scale`).
    None,
}
