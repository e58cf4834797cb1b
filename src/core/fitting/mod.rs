//! LoRAs and ControlNets for a model: what their files are for, whether they fit, and where they are.

mod card;
mod check;
mod controls;
mod embeddings;
mod listing;
mod origin;
mod prompt_loras;
mod prompt_tags;

pub use card::LoraInfo;
pub use check::{check, fitting_plan, model_with};
pub use controls::{control_named, find_controls, read_control};
pub use embeddings::{FoundEmbedding, installed_embeddings};
pub(crate) use listing::fit_with;
pub use listing::{FoundLora, LoraFit, LoraMatcher, find};
pub use origin::LoraOrigin;
pub use prompt_tags::{LoraIndex, fitting_test};
pub(crate) use prompt_tags::{ambiguity, comparable, files_named};
