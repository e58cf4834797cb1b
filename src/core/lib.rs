//! Safelight's plain data and files.
//!
//! Jobs, models, settings, images and videos, and the messages between the app and its engine process.
//! Independent of tensors (`tch`) and widgets (`egui`); starts no threads.

pub mod catalog;
pub mod compute;
mod enum_macros;
pub mod families;
pub mod files;
pub mod finish;
pub mod fitting;
pub mod footprint;
pub mod formats;
pub mod gallery;
pub mod job;
pub mod job_id;
pub mod job_update;
pub mod library;
pub mod locks;
pub mod lora;
pub mod machine;
pub mod measured;
pub mod media;
pub mod memory;
pub mod model;
pub mod naming;
pub mod networks;
pub mod plan;
pub mod presets;
pub mod prompts;
pub mod protocol;
pub mod restore;
pub mod sanitize;
pub mod self_test;
pub mod settings;
pub mod speed;
#[cfg(test)]
mod testing;
pub mod token_count;
pub mod tokens;
pub mod trash;
pub mod units;
pub mod uri;
