//! Imports shared by most of the window's logic; modules re-exported here must not use it.

pub use std::path::{Path, PathBuf};
pub use std::sync::Arc;
pub use std::time::{Duration, Instant};

pub use egui::Context;
pub use safelight_core::files::file_name;
pub use safelight_core::job::{
    CancelToken, FieldError, FormInputs, GenerateForm, GenerateRequest, InputMedia, JobError,
    JobErrorKind, JobId, JobRequest, StartImage,
};
pub use safelight_core::media::{MediaError, RgbPixels};
pub use safelight_core::model::ModelSpec;
pub use safelight_core::settings::{AppPaths, Settings};

pub use crate::window::background::{BackgroundTask, LongTask, TaskChannel};
pub use crate::window::commands::*;
pub use crate::window::context::AppContext;
pub use crate::window::create::choices::{InputSlot, MaskOf, SlotTarget};
pub use crate::window::notices::{NoticeCause, NoticeSeverity, UserNotice, counted};
pub use crate::window::state::MainPage;
