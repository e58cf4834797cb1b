//! Partially downloaded file: the bytes next to its final name, and a note of the downloaded pieces.
//!
//! The note is written after the bytes that it lists, so that a crash at any moment only loses pieces.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use safelight_core::files::{MAX_JSON_BYTES, read_bounded, write_atomically};
use safelight_core::locks::is_taken;
use serde::{Deserialize, Serialize};

use super::DownloadError;
use super::server::RemoteFile;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct PartialNote {
    /// Version of the server's file.
    version: String,
    bytes: u64,
    piece_bytes: u64,
    /// Downloaded length of each piece, from its beginning.
    pieces: Vec<u64>,
}

impl PartialNote {
    fn new(remote: &RemoteFile, piece_bytes: u64) -> Self {
        let piece_bytes = if remote.has_pieces {
            piece_bytes.max(1)
        } else {
            remote.bytes.max(1)
        };
        let pieces = remote.bytes.div_ceil(piece_bytes);
        Self {
            version: remote.version.clone(),
            bytes: remote.bytes,
            piece_bytes,
            pieces: vec![0; pieces as usize],
        }
    }

    /// Reads the note next to a file, if it belongs to this version of the server's file and is consistent.
    fn read(to: &Path, remote: &RemoteFile, piece_bytes: u64) -> Option<Self> {
        let note: Self =
            serde_json::from_slice(&read_bounded(&note_path(to), MAX_JSON_BYTES).ok()?).ok()?;
        let empty = Self::new(remote, piece_bytes);
        let is_same = (&note.version, note.bytes, note.piece_bytes)
            == (&empty.version, empty.bytes, empty.piece_bytes);
        let is_sound = note.pieces.len() == empty.pieces.len()
            && (0..)
                .zip(&note.pieces)
                .all(|(at, &len)| len <= note.len_of(at));
        let stat = fs::metadata(part_path(to)).ok()?;
        (is_same && is_sound && stat.len() == note.bytes).then_some(note)
    }

    fn len_of(&self, piece: u64) -> u64 {
        let start = piece.saturating_mul(self.piece_bytes);
        self.piece_bytes.min(self.bytes.saturating_sub(start))
    }

    fn here(&self) -> u64 {
        self.pieces.iter().sum()
    }
}

pub(super) struct PartialFile {
    to: PathBuf,
    file: File,
    note: Mutex<PartialNote>,
    /// Nothing more is written: another may be at it.
    is_closed: RwLock<bool>,
}

impl PartialFile {
    /// Continues the file next to `to` if it belongs to this version of the server's file, otherwise starts a new one.
    pub(super) fn open(
        to: &Path,
        remote: &RemoteFile,
        piece_bytes: u64,
    ) -> Result<Self, DownloadError> {
        let disk = |source| DownloadError::disk(&source, to);
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder).map_err(disk)?;
        }
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(part_path(to))
            .map_err(disk)?;
        if is_taken(&file) {
            let sentence = "another window or program is downloading this file";
            return Err(DownloadError::on_disk(sentence, to));
        }
        let note = PartialNote::read(to, remote, piece_bytes)
            .unwrap_or_else(|| PartialNote::new(remote, piece_bytes));
        file.set_len(note.bytes).map_err(disk)?;
        let partial = Self {
            to: to.to_owned(),
            file,
            note: Mutex::new(note),
            is_closed: RwLock::new(false),
        };
        partial.save().map_err(disk)?;
        Ok(partial)
    }

    /// Bytes left by an earlier attempt.
    pub(super) fn bytes_here(to: &Path, remote: &RemoteFile, piece_bytes: u64) -> u64 {
        PartialNote::read(to, remote, piece_bytes).map_or(0, |note| note.here())
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn bytes(&self) -> u64 {
        self.note().here()
    }

    pub(super) fn pieces(&self) -> u64 {
        self.note().pieces.len() as u64
    }

    /// Pieces of a span of the file.
    pub(super) fn pieces_between(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        let note = self.note();
        let last = note.pieces.len() as u64;
        let piece_bytes = note.piece_bytes.max(1);
        (start / piece_bytes).min(last)..end.div_ceil(piece_bytes).min(last)
    }

    /// Missing span of a piece; `None` if it is complete.
    pub(super) fn missing(&self, piece: u64) -> Option<(u64, u64)> {
        let note = self.note();
        let start = piece * note.piece_bytes;
        let here = *note.pieces.get(piece as usize)?;
        let end = start + note.len_of(piece);
        (start + here < end).then_some((start + here, end))
    }

    /// Writes bytes after those already downloaded of a piece, and notes them.
    pub(super) fn write(&self, piece: u64, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let is_closed = self
            .is_closed
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        if *is_closed {
            return Ok(());
        }
        self.file.write_all_at(bytes, offset)?;
        if let Some(here) = self.note().pieces.get_mut(piece as usize) {
            *here += bytes.len() as u64;
        }
        Ok(())
    }

    /// Refuses further writes, and lets the next attempt begin while a connection of this one still waits.
    pub(super) fn close(&self) -> io::Result<()> {
        *self
            .is_closed
            .write()
            .unwrap_or_else(PoisonError::into_inner) = true;
        self.save()?;
        self.file.unlock()
    }

    /// Writes the note. What it tells of may still be on its way to the disk, so it is brought there first.
    pub(super) fn save(&self) -> io::Result<()> {
        // The state before the bytes are brought: more may come meanwhile.
        let note = self.note().clone();
        self.file.sync_data()?;
        write_atomically(
            &note_path(&self.to),
            &serde_json::to_vec(&note).map_err(io::Error::other)?,
        )
    }

    /// Gives the whole file its name.
    pub(super) fn finish(&self) -> Result<(), DownloadError> {
        let disk = |source| DownloadError::disk(&source, &self.to);
        self.file.sync_all().map_err(disk)?;
        // Nobody's file is written over, not even one that appeared meanwhile.
        fs::hard_link(part_path(&self.to), &self.to)
            .or_else(|err| match err.kind() {
                io::ErrorKind::AlreadyExists => Err(err),
                // Not every file system has links.
                _ => fs::rename(part_path(&self.to), &self.to),
            })
            .map_err(disk)?;
        fs::remove_file(part_path(&self.to)).ok(); // Gone already where it was renamed.
        fs::remove_file(note_path(&self.to)).ok(); // Of no use without its file, and harmless.
        Ok(())
    }

    pub(super) fn discard(&self) {
        fs::remove_file(note_path(&self.to)).ok(); // Without the note the next attempt starts anew.
        fs::remove_file(part_path(&self.to)).ok();
    }

    fn note(&self) -> MutexGuard<'_, PartialNote> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(super) fn part_path(to: &Path) -> PathBuf {
    beside(to, ".part")
}

pub(super) fn note_path(to: &Path) -> PathBuf {
    beside(to, ".part.json")
}

fn beside(to: &Path, end: &str) -> PathBuf {
    let mut name = to.file_name().unwrap_or_default().to_owned();
    name.push(end);
    to.with_file_name(name)
}
