//! `--telemetry FILE`: what was measured while the jobs ran, of one after the other in one file.
//!
//! The worker keeps a record of each job; here they are read and written out again.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::job::{JobError, JobErrorKind, JobId};

use crate::cli::Surroundings;
use crate::telemetry::record::{Record, write_all};

/// Where it goes, if anywhere, and what is there already.
pub(super) struct Telemetry {
    file: Option<PathBuf>,
    records: PathBuf,
    written: Vec<Record>,
}

impl Telemetry {
    /// Tries the file before any job begins.
    pub(super) fn to(file: Option<&Path>, surroundings: &Surroundings) -> Result<Self, JobError> {
        if let Some(file) = file {
            // What is in it stays until there is something to write.
            let tried = File::options().append(true).create(true).open(file);
            tried.map_err(|err| {
                let what = sentence(&err, file);
                JobError::new(JobErrorKind::Disk, what).advise("Choose another file")
            })?;
        }
        Ok(Self {
            file: file.map(Path::to_owned),
            records: surroundings.paths.telemetry(),
            written: Vec::new(),
        })
    }

    /// Adds a job that has ended; the error is a sentence.
    pub(super) fn add(&mut self, job: JobId) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let record = Record::load(&self.records, job).map_err(|err| sentence(&err, file))?;
        self.written.push(record);
        write_all(file, &self.written).map_err(|err| sentence(&err, file))
    }
}

fn sentence(err: &io::Error, file: &Path) -> String {
    format!(
        "the telemetry file cannot be written: {err}: {}",
        file.display()
    )
}
