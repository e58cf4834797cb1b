//! Files by their content, in parts: the receiver requests one part after the other, so that a transfer resumes after a lost
//! connection.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use safelight_core::files::{open_regular, partial_path, private};
use safelight_core::job::{JobError, JobErrorKind, JobId};
use safelight_wheels::hex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Bytes of a part.
const PART: u64 = 1 << 20;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileContent {
    pub(super) size: u64,
    /// Lower-case hexadecimal.
    pub(super) sha256: String,
}

impl FileContent {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let (mut file, mut hash, mut size) = (open_regular(path)?, Sha256::new(), 0);
        let mut buffer = vec![0; PART as usize];
        loop {
            let count = file.read(&mut buffer)?;
            if count == 0 {
                let sha256 = hex(&hash.finalize());
                return Ok(Self { size, sha256 });
            }
            hash.update(&buffer[..count]);
            size += count as u64;
        }
    }
}

/// Place in a file of a job: its inputs in one direction, its results in the other, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FilePart {
    pub(super) id: JobId,
    pub(super) file: usize,
    pub(super) offset: u64,
}

impl FilePart {
    /// Bytes of the part; none where the file cannot be read.
    pub(super) fn read(self, path: Option<&PathBuf>) -> Vec<u8> {
        let read = |path: &PathBuf| -> io::Result<Vec<u8>> {
            let mut file = open_regular(path)?;
            file.seek(SeekFrom::Start(self.offset))?;
            let mut bytes = Vec::new();
            file.take(PART).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        path.and_then(|path| read(path).ok()).unwrap_or_default()
    }
}

/// Files that are being fetched from the other computer.
#[derive(Clone, Debug)]
pub(super) struct FileDownload {
    files: Vec<(FileContent, PathBuf)>,
    /// A file that is there already is not requested.
    reuses: bool,
    next: FilePart,
}

impl FileDownload {
    /// Each file with the path that it gets.
    pub(super) fn new(id: JobId, files: Vec<(FileContent, PathBuf)>, reuses: bool) -> Self {
        let next = FilePart {
            id,
            file: 0,
            offset: 0,
        };
        let mut download = Self {
            files,
            reuses,
            next,
        };
        download.skip_present();
        download
    }

    fn skip_present(&mut self) {
        let mut rest = self.files.iter().skip(self.next.file);
        let is_wanted = |(_, target): &(_, PathBuf)| !self.reuses || !target.exists();
        let num_skipped = rest
            .position(is_wanted)
            .unwrap_or(self.files.len() - self.next.file);
        self.next.file += num_skipped;
    }

    /// Bytes of the files to ask for.
    pub(super) fn size(&self) -> u64 {
        let rest = self.files.iter().skip(self.next.file);
        rest.map(|(content, _)| content.size).sum()
    }

    /// The part to ask for; `None` when all files are there.
    pub(super) fn next(&self) -> Option<FilePart> {
        (self.next.file < self.files.len()).then_some(self.next)
    }

    pub(super) fn targets(&self) -> impl Iterator<Item = &PathBuf> {
        self.files.iter().map(|(_, target)| target)
    }

    /// Appends a part to its file, which gets its name when it is complete.
    pub(super) fn take(&mut self, part: FilePart, bytes: &[u8]) -> Result<(), JobError> {
        let Some((content, target)) = self.files.get(part.file).filter(|_| part == self.next)
        else {
            return Ok(());
        };
        let failed = |what: &str| {
            let name = target.file_name().unwrap_or_default().display();
            let err = JobError::new(JobErrorKind::Network, format!("{what}: {name}"));
            err.advise("Run the job again")
        };
        if bytes.is_empty() && part.offset < content.size {
            return Err(failed("a file is no longer there or cannot be read"));
        }
        let disk = |err| JobError::disk(format!("cannot store {}", target.display()), &err);
        let partial = partial_path(target);
        let written = || {
            let mut file =
                private(File::options().write(true).create(true).truncate(false)).open(&partial)?;
            file.set_len(part.offset)?;
            file.seek(SeekFrom::Start(part.offset))?;
            file.write_all(bytes)
        };
        written().map_err(disk)?;
        self.next.offset += bytes.len() as u64;
        if self.next.offset >= content.size {
            if FileContent::of(&partial).map_err(disk)? != *content {
                // Nothing of it is of use.
                fs::remove_file(&partial).ok();
                return Err(failed("a file changed while it was sent"));
            }
            fs::rename(&partial, target).map_err(disk)?;
            (self.next.file, self.next.offset) = (part.file + 1, 0);
            self.skip_present();
        }
        Ok(())
    }
}
