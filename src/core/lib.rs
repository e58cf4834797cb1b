//! Safelight's plain data and files.
//!
//! What a job is, which models there are, the settings, pictures and clips, and the messages
//! between the app and its engine process.
//! Nothing here knows a tensor (`tch`) or a widget (`egui`), and nothing here starts threads.

pub mod catalog;
pub mod families;
pub mod files;
pub mod finish;
pub mod formats;
pub mod gallery;
pub mod job;
pub mod library;
pub mod locks;
pub mod lora;
pub mod machine;
pub mod measured;
pub mod media;
pub mod memory;
pub mod model;
mod named;
pub mod naming;
pub mod networks;
pub mod presets;
pub mod prompts;
pub mod protocol;
pub mod restore;
pub mod settings;
pub mod shown;
pub mod speed;
#[cfg(test)]
mod testing;
pub mod tokens;
pub mod trash;
pub mod trial;
pub mod units;
pub mod uri;
