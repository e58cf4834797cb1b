//! Common imports for tests of whole jobs.

pub use std::fs;
pub use std::path::Path;
pub use std::process::{Command, Output, Stdio};

pub use safelight_core::media::{self, Picture};
pub use serde_json::Value;

pub(super) use super::{assert_finished, copy_folder, run, test_picture};
pub use crate::common::{Home, end, events};
