//! `safelight worker --stdio`: connects standard streams with the host process on this computer, which it starts where
//! there is none.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use safelight_core::files::make_private_folder;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::protocol::write_frame;

use super::HostMessage;

/// Exit code of a relay whose host process ended.
pub const WORKER_ENDED: u8 = 7;
/// Line that the host process prints when clients can connect.
pub(super) const READY: &str = "ready";
const START_WITHIN: Duration = Duration::from_secs(10);

/// Socket of the host process. In the data folder: the session's runtime folder goes when ssh disconnects.
pub(super) fn socket_in(folder: &Path) -> PathBuf {
    folder.join("worker.sock")
}

/// Relays until one side ends; returns the exit code.
pub fn run(folder: &Path) -> u8 {
    let mut output = match rustix::stdio::stdout().try_clone_to_owned() {
        // Not line by line, as the standard library's is.
        Ok(output) => File::from(output),
        Err(err) => {
            tracing::error!("there is no standard output: {err}");
            return 1;
        }
    };
    let stream = match connect(folder) {
        Ok(stream) => stream,
        Err(err) => {
            let written = write_frame(&mut output, &HostMessage::Refused(err), &[]);
            return u8::from(written.is_err());
        }
    };
    let Ok(mut to_host) = stream.try_clone() else {
        return 1;
    };
    let from_client = thread::Builder::new().name("client".to_owned());
    let from_client = from_client.spawn(move || {
        // Either end may be gone.
        pass_on(&mut io::stdin().lock(), &mut to_host).ok();
        to_host.shutdown(Shutdown::Both).ok();
    });
    let Ok(from_client) = from_client else {
        return 1;
    };
    let mut from_host = stream;
    let copied = pass_on(&mut from_host, &mut output);
    if copied.is_err() || from_client.is_finished() {
        return 0;
    }
    WORKER_ENDED
}

/// As `io::copy`, which would splice: that locks the pipe to ssh until there is something to read.
fn pass_on(from: &mut impl Read, to: &mut impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        match from.read(&mut buffer)? {
            0 => return Ok(()),
            count => to.write_all(&buffer[..count])?,
        }
        to.flush()?;
    }
}

/// Connects to the host process, and starts it where it does not run.
fn connect(folder: &Path) -> Result<UnixStream, JobError> {
    make_private_folder(folder)
        .map_err(|err| JobError::disk("the folder for jobs of other computers", &err))?;
    let socket = socket_in(folder);
    let began = Instant::now();
    loop {
        match UnixStream::connect(&socket) {
            Ok(stream) => return Ok(stream),
            Err(err) if began.elapsed() > START_WITHIN => {
                return Err(JobError::disk("the worker cannot be reached", &err));
            }
            // Of two that are started at a time one stays.
            Err(_) => start_host()?,
        }
    }
}

fn start_host() -> Result<(), JobError> {
    let failed = |err: io::Error| JobError::disk("the worker cannot be started", &err);
    let program = std::env::current_exe().map_err(failed)?;
    // The end of the session must not end it: an ignored signal stays ignored.
    let mut child = Command::new("/bin/sh")
        .args(["-c", r#"trap "" HUP; exec "$0" worker --host"#])
        .arg(program)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(failed)?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        BufReader::new(output)
            .read_line(&mut line)
            .map_err(failed)?;
    }
    match line.trim() {
        READY => Ok(()),
        // Another one was quicker.
        "" => {
            thread::sleep(START_WITHIN / 100);
            Ok(())
        }
        problem => Err(JobError::new(JobErrorKind::Disk, problem)
            .advise("Correct this on that computer, then connect again")),
    }
}
