//! One wheel on its way: where its bytes are, what of it is wanted, and what is said when it cannot be used.

use std::fs::File;
use std::io;
use std::path::Path;

use safelight_core::job::{JobError, JobErrorKind};
use safelight_wheels::{ListedWheel, WheelDirectory, WheelError, WheelMember};

use crate::download::{DownloadError, DownloadErrorKind, RemoteParts};

/// A wheel that is at least partly here.
pub(super) enum OpenedWheel {
    File(File, u64),
    Remote(RemoteParts),
}

/// One wheel with what is taken of it.
pub(super) struct RuntimeWheel {
    pub(super) listed: ListedWheel,
    pub(super) opened: OpenedWheel,
    pub(super) directory: WheelDirectory,
    pub(super) wanted: Vec<WheelMember>,
    /// Those of an earlier installation that need not come again, with their checksums.
    pub(super) sound: Vec<(String, String)>,
}

impl RuntimeWheel {
    /// The bytes that hold what is wanted, and the list of checksums.
    pub(super) fn spans(&self) -> Vec<(u64, u64)> {
        let wanted = self.wanted.iter().chain(self.directory.record());
        wanted.map(|member| (member.start, member.end)).collect()
    }

    pub(super) fn file(&self) -> io::Result<File> {
        match &self.opened {
            OpenedWheel::File(file, _) => file.try_clone(),
            OpenedWheel::Remote(parts) => parts.file().try_clone(),
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        match &self.opened {
            OpenedWheel::File(_, bytes) => *bytes,
            OpenedWheel::Remote(parts) => parts.bytes(),
        }
    }

    pub(super) fn parts(&self) -> Option<&RemoteParts> {
        match &self.opened {
            OpenedWheel::File(..) => None,
            OpenedWheel::Remote(parts) => Some(parts),
        }
    }

    pub(super) fn broken(&self, err: &WheelError) -> JobError {
        if let WheelError::Io(source) = err {
            return cannot_write(source, Path::new(&self.listed.name));
        }
        let what = format!("{} cannot be used: {err}", self.listed.name);
        let Some(parts) = self.parts() else {
            return JobError::new(JobErrorKind::Disk, what).advise("Get this file again");
        };
        // The server's data was wrong: the next attempt must not reuse it.
        parts.discard();
        JobError::new(JobErrorKind::Network, what)
            .advise("It is deleted: install it again, or take it from another place with --from")
    }
}

pub(super) fn cannot_write(err: &io::Error, place: &Path) -> JobError {
    let what = format!("cannot write the runtime ({err}): {}", place.display());
    JobError::new(JobErrorKind::Disk, what)
        .advise("What was downloaded is kept: free space and install it again")
}

/// In words for wheels: no server of theirs asks for a token.
pub(super) fn job_error(err: &DownloadError) -> JobError {
    match err.kind {
        DownloadErrorKind::Gated => {
            let what = format!("the server refuses to give the file: {}", err.place);
            JobError::new(JobErrorKind::Network, what)
                .advise("Try again later, or take the wheels from another place with --from")
        }
        _ => JobError::from(err),
    }
}

/// Why a table of contents was not read.
pub(super) enum DirectoryError {
    Cancelled,
    Wheel(WheelError),
    Download(DownloadError),
}

impl From<WheelError> for DirectoryError {
    fn from(err: WheelError) -> Self {
        Self::Wheel(err)
    }
}
