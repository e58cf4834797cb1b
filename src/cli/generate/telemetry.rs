//! `--telemetry FILE`: what was measured while the jobs ran, of one after the other in one file.
//!
//! The worker keeps a record of each job; here they are read and written out again.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::job::{JobError, JobErrorKind, JobId};

use crate::cli::CliEnvironment;
use crate::telemetry::record::{TelemetryRecord, write_all};

/// The file and its content so far.
pub(super) struct TelemetryOutput {
    file: PathBuf,
    records: PathBuf,
    written: Vec<TelemetryRecord>,
}

impl TelemetryOutput {
    /// Tries the file before any job begins.
    pub(super) fn to(file: PathBuf, environment: &CliEnvironment) -> Result<Self, JobError> {
        tried(&file).map_err(|err| {
            let what = sentence(&err, &file);
            JobError::new(JobErrorKind::Disk, what).advise("Choose another file")
        })?;
        Ok(Self {
            file,
            records: environment.paths.telemetry(),
            written: Vec::new(),
        })
    }

    /// Adds a job that has ended; the error is a sentence.
    pub(super) fn add(&mut self, job: JobId) -> Result<(), String> {
        let file = &self.file;
        let record =
            TelemetryRecord::load(&self.records, job).map_err(|err| sentence(&err, file))?;
        self.written.push(record);
        write_all(file, &self.written).map_err(|err| sentence(&err, file))
    }
}

/// Returns true if a file can be written there. What is in it stays until there is something to write.
fn tried(file: &Path) -> io::Result<()> {
    // Opening a pipe would wait for its reader, and in the end a file would take a device's place.
    if fs::metadata(file).is_ok_and(|meta| !meta.is_file()) {
        let reason = "this is not a file";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
    }
    let mut options = File::options();
    options.append(true).create(true).open(file).map(drop)
}

fn sentence(err: &io::Error, file: &Path) -> String {
    format!(
        "the telemetry file cannot be written: {err}: {}",
        file.display()
    )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use safelight_core::settings::{AppPaths, LoadedSettings};

    use super::*;

    #[test]
    fn telemetry_path_that_is_not_a_regular_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let environment = CliEnvironment {
            paths: AppPaths::under(folder.path()),
            loaded: LoadedSettings::default(),
        };
        let pipe = folder.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [&pipe, Path::new("/dev/null"), folder.path()] {
            let refused = TelemetryOutput::to(path.into(), &environment)
                .err()
                .unwrap();
            assert_eq!(refused.kind, JobErrorKind::Disk);
            let what = "the telemetry file cannot be written: this is not a file: ";
            assert!(refused.summary.starts_with(what), "{refused:?}");
        }
        let file = folder.path().join("a.csv");
        fs::write(&file, "kept").unwrap();
        assert!(TelemetryOutput::to(file.clone(), &environment).is_ok());
        assert_eq!(fs::read(&file).unwrap(), b"kept");
    }
}
