//! How a job shows itself while it develops.
//!
//! Only the choice; the engine makes the pictures.

use serde::{Deserialize, Serialize};

use crate::named::{named, parsed};

named! {
    /// What latents are made into after each step, for watching.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum PreviewChoice {
        /// By a tiny decoder where one lies on the disk, else linear.
        #[default]
        Auto = "auto", "Sharp where possible";
        /// The model's colours of latents: coarse, and free.
        Linear = "linear", "Coarse";
        /// Nothing, for callers that nobody watches.
        Off = "off", "None";
    }
}

parsed!(PreviewChoice, "a preview");
