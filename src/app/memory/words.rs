//! What the export of a job's telemetry says, as whole sentences.
//!
//! What the memory panel says is in `ui/memory/words.rs`.

use std::fmt::Display;
use std::path::Path;

pub(super) const EXPORT: &str = "Export the telemetry of this job";
pub(super) const TABLES: &str = "Tables";

pub(super) fn take_record(records: &Path) -> String {
    format!("Copy the record itself from {}", records.display())
}

pub(super) fn exported(path: &Path) -> String {
    format!("Telemetry exported: {}", path.display())
}

pub(super) fn not_exported(why: &dyn Display, path: &Path) -> String {
    format!(
        "the telemetry could not be exported ({why}): {}",
        path.display()
    )
}
