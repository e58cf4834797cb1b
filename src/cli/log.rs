//! The log: a file in the user's data folder, shared by the window and the command line.
//!
//! Standard error belongs to what is said to people; log lines go there only on demand. Without a log the program works
//! all the same.

use std::fs::{self, File};
use std::io::{self, IsTerminal as _, Write};
use std::os::unix::fs::MetadataExt as _;
use std::panic;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;

use safelight_core::files::{make_private_folder, private};
use safelight_core::settings::AppPaths;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// Says which levels are logged, and that standard error gets the lines too.
const VARIABLE: &str = "SAFELIGHT_LOG";
/// The graphics libraries tell at length about every shader.
const DEFAULT_LEVELS: &str = "info,naga=warn,wgpu_core=warn,wgpu_hal=warn";
/// A log that has grown larger is renamed to `safelight.log.1`, in place of an older one, and begun again.
const MAX_LOG_BYTES: u64 = 1 << 20;

/// Starts the log: level info unless `SAFELIGHT_LOG` says otherwise, in the data folder's `safelight.log`; and on
/// standard error too when that variable is set.
pub fn start() {
    let wanted = std::env::var(VARIABLE)
        .ok()
        .filter(|levels| !levels.is_empty());
    let levels: Targets = wanted
        .as_deref()
        .and_then(|levels| levels.parse().ok())
        .unwrap_or_else(|| DEFAULT_LEVELS.parse().unwrap_or_default());
    let to_file = AppPaths::of_this_user()
        .and_then(|paths| LogFile::open(paths.log_file()).ok())
        .map(|file| {
            fmt::layer()
                .with_ansi(false)
                .log_internal_errors(false)
                .with_writer(Mutex::new(file))
        });
    let to_stderr = wanted.is_some().then(|| {
        fmt::layer()
            .with_ansi(io::stderr().is_terminal())
            .log_internal_errors(false)
            .with_writer(io::stderr)
    });
    let started = tracing_subscriber::registry()
        .with(levels)
        .with(to_file)
        .with(to_stderr)
        .try_init();
    if started.is_ok() {
        log_panics();
        tracing::info!("Safelight {} starts", env!("CARGO_PKG_VERSION"));
    }
}

/// Lets the log tell of a fault too: a window started from a menu has no standard error to read.
fn log_panics() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let thread = thread::current();
        tracing::error!(
            "thread {}: {info}",
            thread.name().unwrap_or("without a name")
        );
        usual(info);
    }));
}

/// The log, which several processes may write to.
struct LogFile {
    path: PathBuf,
    file: File,
}

impl LogFile {
    /// Opens the log for more lines and creates its folder.
    fn open(path: PathBuf) -> io::Result<Self> {
        if let Some(folder) = path.parent() {
            make_private_folder(folder)?;
        }
        let file = open_for_appending(&path)?;
        let mut log = Self { path, file };
        log.rotate()?;
        Ok(log)
    }

    /// Continues in a new file if this one is too large.
    fn rotate(&mut self) -> io::Result<()> {
        let own = self.file.metadata()?;
        if own.len() <= MAX_LOG_BYTES {
            return Ok(());
        }
        // Another process may have done it already.
        if fs::metadata(&self.path).is_ok_and(|found| found.ino() == own.ino()) {
            fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        self.file = open_for_appending(&self.path)?;
        Ok(())
    }
}

impl Write for LogFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // A log that cannot be renamed grows on: losing lines would be worse.
        self.rotate().ok();
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn open_for_appending(path: &Path) -> io::Result<File> {
    // Opening a pipe could block.
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    private(File::options().create(true).append(true)).open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn log_is_appended_to_until_it_exceeds_the_size_limit() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("data/safelight/safelight.log");
        let open = || LogFile::open(path.clone()).unwrap();
        writeln!(open(), "first").unwrap();
        writeln!(open(), "second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");

        fs::write(&path, vec![b'x'; MAX_LOG_BYTES as usize]).unwrap();
        open();
        assert_eq!(fs::metadata(&path).unwrap().len(), MAX_LOG_BYTES);
        fs::write(&path, vec![b'x'; MAX_LOG_BYTES as usize + 1]).unwrap();
        writeln!(open(), "third").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third\n");
    }

    #[test]
    fn a_log_that_grows_too_large_while_it_is_written_continues_in_a_new_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("safelight.log");
        let mut first = LogFile::open(path.clone()).unwrap();
        let mut second = LogFile::open(path.clone()).unwrap();
        first
            .write_all(&vec![b'x'; MAX_LOG_BYTES as usize + 1])
            .unwrap();
        first.write_all(b"first\n").unwrap();
        second.write_all(b"second\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\nsecond\n");
        let old = fs::metadata(folder.path().join("safelight.log.1")).unwrap();
        assert_eq!(old.len(), MAX_LOG_BYTES + 1);
    }

    #[test]
    fn log_path_that_is_not_a_regular_file_is_refused_without_blocking() {
        let folder = tempfile::tempdir().unwrap();
        assert!(LogFile::open(folder.path().to_owned()).is_err());
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert!(LogFile::open(file.join("safelight.log")).is_err());
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(LogFile::open(pipe).is_err());
    }

    #[test]
    fn the_default_levels_are_understood() {
        assert!(DEFAULT_LEVELS.parse::<Targets>().is_ok());
    }
}
