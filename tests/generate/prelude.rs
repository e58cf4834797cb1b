//! Common imports for tests of whole jobs.

pub use std::fs;
pub use std::path::Path;
pub use std::process::{Command, Output, Stdio};

pub use safelight_core::media::{self, RgbPixels, VideoOptions};
pub use serde_json::Value;

pub(super) use super::{kept_job, makes, message, run, settings, strike, test_image};
pub use crate::common::{
    Home, assert_failed, assert_finished, assert_says, copy_folder, end, events, events_of,
};
