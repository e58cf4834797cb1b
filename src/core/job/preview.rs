//! How a job shows itself while it develops.
//!
//! Only the choice; the engine makes the pictures.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What latents are made into after each step, for watching.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PreviewChoice {
    /// By a tiny decoder where one lies on the disk, else linear.
    #[default]
    Auto,
    /// The model's colours of latents: coarse, and free.
    Linear,
    /// Nothing, for callers that nobody watches.
    Off,
}

impl PreviewChoice {
    pub const ALL: [Self; 3] = [Self::Auto, Self::Linear, Self::Off];

    /// The name in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Linear => "linear",
            Self::Off => "off",
        }
    }

    /// The name in the interface.
    pub fn label(self) -> &'static str {
        match self {
            Self::Auto => "Sharp where possible",
            Self::Linear => "Coarse",
            Self::Off => "None",
        }
    }
}

impl fmt::Display for PreviewChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PreviewChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|choice| choice.name() == text)
            .ok_or_else(|| format!("expected a preview (auto, linear, off), found {text:?}"))
    }
}
