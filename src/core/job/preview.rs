//! Preview of a job while it runs.
//!
//! Only the choice; the engine makes the images.

use serde::{Deserialize, Serialize};

use crate::enum_macros::{named, parsed};

named! {
    /// Conversion of latents to a preview after each step.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PreviewChoice {
        /// A tiny decoder if one is installed, otherwise linear.
        #[default]
        Auto = "auto", "Sharp where possible";
        /// The model's colours of latents: coarse, and free.
        Linear = "linear", "Coarse";
        /// None, for callers that show no preview.
        Off = "off", "None";
    }
}

parsed!(PreviewChoice, "a preview");
