//! Writing the telemetry that was kept of a job to a file that its user chooses.

use std::path::PathBuf;

use safelight_core::job::{JobError, JobErrorKind, JobId};

use crate::app::background::BackgroundThreads;
use crate::app::pending::BackgroundTask;
use crate::telemetry::record::TelemetryRecord;

/// Asks for a file, and writes the telemetry that was kept of a job into it; gives its path, or why it is not written.
pub(super) fn export(
    background: &BackgroundThreads,
    records: PathBuf,
    job: JobId,
) -> BackgroundTask<Option<Result<PathBuf, JobError>>> {
    let instead = format!("Copy the record itself from {}", records.display());
    background.ask_or(instead, move || {
        let path = rfd::FileDialog::new()
            .set_title("Export the telemetry of this job")
            .set_file_name(format!("safelight-{job}.csv"))
            .add_filter("Tables", &["csv"])
            .add_filter("JSON", &["json"])
            .save_file()?;
        let written = TelemetryRecord::load(&records, job).and_then(|record| record.export(&path));
        Some(written.map(|()| path.clone()).map_err(|err| {
            JobError::new(
                JobErrorKind::Disk,
                format!(
                    "the telemetry could not be exported ({err}): {}",
                    path.display()
                ),
            )
        }))
    })
}
