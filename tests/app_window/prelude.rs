//! Common imports for tests of the window.

pub use std::fs;
pub use std::path::{Path, PathBuf};
pub use std::sync::Arc;
pub use std::sync::atomic::Ordering;
pub use std::time::Duration;

pub use egui::accesskit::Role;
pub use egui::{Key, Modifiers};
pub use egui_kittest::kittest::{NodeT as _, Queryable as _};
pub use safelight::window::commands::{
    AppCommand, InputsCommand, LibraryCommand, PlayerCommand, QueueCommand, TabsCommand,
};
pub use safelight::window::create::choices::InputSlot;
pub use safelight::window::library::models::FoundModels;
pub use safelight::window::state::MainPage;
pub use safelight::window::viewer::ViewerMode;
pub use safelight_core::job::{
    GenerateRequest, JobError, JobErrorKind, JobFolder, JobId, SamplerKind, SeedMode, SizeChoice,
    Stage,
};
pub use safelight_core::job_update::{JobOutcome, JobUpdate};
pub use safelight_core::media::RgbPixels;
pub use safelight_core::model::{InputUse, ModelSpec};
pub use safelight_core::settings::AppPaths;

pub use crate::app_window::harness::{
    Bench, SentJob, experts_spec, flux_spec, found, framepack_spec, image, key_event, made_with,
    output, output_file, pair_spec, primary_button, sample, spec, stage_update, step_update,
    write_made,
};
