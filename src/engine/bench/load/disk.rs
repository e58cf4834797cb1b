//! What a disk gives when files are read from it and nothing else is done.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use rustix::fs::{Advice, OFlags, fadvise};

/// Enough to keep any disk busy.
const READERS: usize = 4;
const PIECE_BYTES: usize = 8 << 20;
/// The largest block that a disk may insist on.
const BLOCK_BYTES: usize = 4096;

/// Lets the system forget what it keeps of files. What is mapped stays.
pub(super) fn drop_cached(files: &[PathBuf]) -> io::Result<()> {
    for path in files {
        fadvise(File::open(path)?, 0, None, Advice::DontNeed)?;
    }
    Ok(())
}

/// Bytes a second, read in order past the page cache.
pub(super) fn direct_speed(files: &[PathBuf]) -> io::Result<f64> {
    let mut bytes = 0;
    let started = Instant::now();
    for path in files {
        let flags = OFlags::DIRECT.bits().cast_signed();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(path)?;
        bytes += read_whole(&file)?;
    }
    if bytes == 0 {
        return Err(io::Error::other("there is nothing to read"));
    }
    Ok(bytes as f64 / started.elapsed().as_secs_f64())
}

fn read_whole(file: &File) -> io::Result<usize> {
    let next = AtomicUsize::new(0);
    let read = || -> io::Result<usize> {
        let mut buffer = vec![0; PIECE_BYTES + BLOCK_BYTES];
        let skipped = buffer.as_ptr().align_offset(BLOCK_BYTES);
        let buffer = &mut buffer[skipped..skipped + PIECE_BYTES];
        let mut bytes = 0;
        loop {
            let offset = next.fetch_add(PIECE_BYTES, Ordering::Relaxed);
            let found = file.read_at(buffer, offset as u64)?;
            bytes += found;
            if found < PIECE_BYTES {
                return Ok(bytes);
            }
        }
    };
    thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS).map(|_| scope.spawn(read)).collect();
        let results = readers.into_iter().map(|reader| {
            let joined = reader.join();
            joined.unwrap_or_else(|_| Err(io::Error::other("a reader panicked")))
        });
        results.sum()
    })
}
