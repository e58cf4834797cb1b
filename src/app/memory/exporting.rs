//! Writing the telemetry that was kept of a job to a file that its user chooses.
//!
//! Reads and writes on a thread of its own, because the dialog waits for a person.

use std::path::PathBuf;
use std::time::Instant;

use safelight_core::job::{JobError, JobErrorKind, JobId};

use crate::app::background::dialogs::{NO_DIALOG_WITHIN, no_dialog};
use crate::app::background::{Answer, Background};
use crate::telemetry::record::Record;

impl Background {
    /// Asks for a file, and writes the telemetry that was kept of a job into it.
    pub fn export_telemetry(&self, records: PathBuf, job: JobId) {
        self.spawn("export", move |postbox| {
            let begin = Instant::now();
            let chosen = rfd::FileDialog::new()
                .set_title("Write the telemetry of this job")
                .set_file_name(format!("safelight-{job}.csv"))
                .add_filter("Tables", &["csv"])
                .add_filter("JSON", &["json"])
                .save_file();
            let Some(path) = chosen else {
                if begin.elapsed() < NO_DIALOG_WITHIN {
                    postbox.post(Answer::Problem(no_dialog(&format!(
                        "Take the record as it is, from {}",
                        records.display()
                    ))));
                }
                return;
            };
            let written = Record::load(&records, job).and_then(|record| record.export(&path));
            postbox.post(match written {
                Ok(()) => Answer::Exported(path),
                Err(err) => Answer::Problem(JobError::new(
                    JobErrorKind::Disk,
                    format!("the telemetry cannot be written: {err}: {}", path.display()),
                )),
            });
        });
    }
}
