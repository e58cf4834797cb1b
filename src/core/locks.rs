//! Lock files between programs, also on network shares without locks.
//!
//! There the file names the process that holds it. A holder on another machine cannot be checked.

use std::fs::{File, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::Path;

use crate::files::open_lock;

/// `ENOLCK`: what a share says whose server keeps no locks.
const NO_LOCKS: i32 = 37;
/// More than a note has.
const MAX_NOTE_BYTES: u64 = 200;

/// A lock that this program has, until it is dropped or the program ends.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    /// By its note alone.
    is_noted: bool,
}

impl FileLock {
    /// Takes the lock in this file, which is created if missing; `WouldBlock` if it is held.
    pub fn take(path: &Path) -> io::Result<Self> {
        let file = open_lock(path)?;
        match file.try_lock() {
            Ok(()) => Ok(Self {
                file,
                is_noted: false,
            }),
            Err(TryLockError::Error(err)) if are_unknown(&err) => Self::noted(file),
            Err(err) => Err(err.into()),
        }
    }

    /// Like [`Self::take`], but waits; without lock support it returns at once.
    pub fn wait(path: &Path) -> io::Result<Self> {
        let file = open_lock(path)?;
        match file.lock() {
            Err(err) if !are_unknown(&err) => Err(err),
            _ => Ok(Self {
                file,
                is_noted: false,
            }),
        }
    }

    fn noted(mut file: File) -> io::Result<Self> {
        let mut note = String::new();
        // Invalid text was not written by this program.
        (&file).take(MAX_NOTE_BYTES).read_to_string(&mut note).ok();
        if lives(&note) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(note_of("self").unwrap_or_default().as_bytes())?;
        Ok(Self {
            file,
            is_noted: true,
        })
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.is_noted {
            // The note of a process that ended blocks no other.
            self.file.set_len(0).ok();
        }
        // A child process that is being started may inherit this file for a moment, and would keep it locked.
        self.file.unlock().ok();
    }
}

/// Returns whether another program has locked this file; `false` without lock support.
pub fn is_taken(file: &File) -> bool {
    match file.try_lock() {
        Ok(()) => false,
        Err(TryLockError::WouldBlock) => true,
        Err(TryLockError::Error(err)) => !are_unknown(&err),
    }
}

fn are_unknown(err: &io::Error) -> bool {
    err.kind() == io::ErrorKind::Unsupported || err.raw_os_error() == Some(NO_LOCKS)
}

/// `BOOT PID START`: a process as no other one was or will be on this machine.
fn note_of(process: &str) -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in brackets may contain anything; the start time is the 20th field after it.
    let (number, rest) = (stat.split(' ').next()?, stat.rsplit_once(") ")?.1);
    let start = rest.split(' ').nth(19)?;
    Some(format!("{} {number} {start}", boot.trim()))
}

fn lives(note: &str) -> bool {
    let number = note.split(' ').nth(1);
    let number = number.filter(|number| number.parse::<u32>().is_ok());
    number.is_some_and(|number| note_of(number).as_deref() == Some(note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_is_had_by_one_and_given_back_when_it_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let held = FileLock::take(&path).unwrap();
        let err = FileLock::take(&path).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::WouldBlock);
        assert!(is_taken(&File::open(&path).unwrap()));
        drop(held);
        assert!(!is_taken(&File::open(&path).unwrap()));
        drop(FileLock::wait(&path).unwrap());
        drop(FileLock::take(&path).unwrap());
    }

    #[test]
    fn a_lock_is_given_back_also_while_a_program_that_is_being_started_has_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        let held = FileLock::take(&path).unwrap();
        // What a new process has of it until it runs its program.
        let _of_child = held.file.try_clone().unwrap();
        drop(held);
        drop(FileLock::take(&path).unwrap());
    }

    #[test]
    fn where_locks_are_unknown_the_file_names_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        for (code, expected) in [(NO_LOCKS, true), (95, true), (5, false)] {
            assert_eq!(are_unknown(&io::Error::from_raw_os_error(code)), expected);
        }
        let open = || open_lock(&path).unwrap();
        let held = FileLock::noted(open()).unwrap();
        let err = FileLock::noted(open()).unwrap_err();
        assert_eq!(err.kind(), io::ErrorKind::WouldBlock);
        drop(held);
        // Of a process that ended, of another start of the machine, of nobody.
        let own = note_of("self").unwrap();
        for left in [format!("{own}0"), format!("x{own}"), "  ".to_owned()] {
            std::fs::write(&path, &left).unwrap();
            drop(FileLock::noted(open()).unwrap());
            assert_eq!(std::fs::read(&path).unwrap(), b"", "{left}");
        }
    }
}
