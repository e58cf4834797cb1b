//! Common imports for tests of the worker.

pub use std::fs;
pub use std::path::{Path, PathBuf};
pub use std::sync::atomic::{AtomicU32, Ordering};

pub use safelight_core::job::{DeviceChoice, GenerateRequest, JobErrorKind, JobFolder, Stage};
pub use safelight_core::job_update::{JobOutcome, JobUpdate};
pub use safelight_core::media;

pub(super) use super::fake_engine::Act;
pub(super) use super::{
    WorkerHarness, always, failed, finished, first, nth, only_job, paused, resumed, warnings,
};
