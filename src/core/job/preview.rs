//! How a job shows itself while it develops.
//!
//! Only the choice; the engine makes the pictures.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::named::{named, parsed};

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

named!(PreviewChoice {
    Auto: "auto", "Sharp where possible";
    Linear: "linear", "Coarse";
    Off: "off", "None";
});
parsed!(PreviewChoice, "a preview");

impl fmt::Display for PreviewChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
