//! Brings weight files into the page cache before they are wanted, while something else computes.
//!
//! Keeps nothing itself, and stops where memory is short: the system may drop what was read at any time.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use super::folder;
use crate::runtime::meminfo_bytes;

/// Bytes read between two checks of the flag and the memory.
const PIECE_BYTES: usize = 16 << 20;
/// Stays free for whoever computes meanwhile.
const SPARE_BYTES: u64 = 4 << 30;

/// Reading in the background. It ends when this is dropped.
pub struct ReadAhead {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ReadAhead {
    /// Begins to read the weight files of a component, a folder or a file. What cannot be read is left: whoever
    /// wants the weights says why. `uses_cache`: weights in use are mapped files, or come from theirs again and again, so
    /// nothing may push those out.
    pub fn start(next: &Path, uses_cache: bool) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let next = next.to_owned();
        let room = if uses_cache {
            "MemFree"
        } else {
            "MemAvailable"
        };
        let flag = Arc::clone(&stop);
        let thread = thread::Builder::new().name("read-ahead".to_owned());
        let thread = thread.spawn(move || read(&next, room, &flag)).ok();
        Self { stop, thread }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok(); // It has no result, and a panic of it costs nothing.
        }
    }
}

fn read(place: &Path, room: &str, stop: &AtomicBool) {
    let mut piece = vec![0; PIECE_BYTES];
    // Cached bytes stay available by the system's count, so the room is the count at the start.
    let mut left = meminfo_bytes(room).unwrap_or(0).saturating_sub(SPARE_BYTES);
    for path in folder::files(place).unwrap_or_default() {
        // Opening a pipe would wait for its writer.
        if !path.is_file() {
            return;
        }
        let Ok(mut file) = File::open(&path) else {
            return;
        };
        loop {
            if stop.load(Ordering::Relaxed)
                || left == 0
                || meminfo_bytes(room).is_none_or(|free| free < SPARE_BYTES)
            {
                return;
            }
            match file.read(&mut piece) {
                Ok(0) => break,
                Ok(len) => left = left.saturating_sub(len as u64),
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_ahead_stops_when_dropped_and_ignores_missing_folders() {
        let folder = tempfile::tempdir().unwrap();
        drop(ReadAhead::start(folder.path(), true));
        drop(ReadAhead::start(&folder.path().join("gone"), true));
    }
}
