//! Where files are written: whether a place can take them, and writing there as a whole or not at all.
//!
//! A file is written under a temporary name in the same folder and renamed when it is complete, so
//! neither a full disk nor a crash leaves half a file under the name that people look for. One missing
//! folder is made; more are taken for a typing error.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::MediaError;
use crate::files::{partial_path, remove_partials};

/// Tells whether a file could be written at `path` now, without leaving anything behind, and removes what a killed
/// program left half-written there.
pub(super) fn check_place(path: &Path) -> Result<(), MediaError> {
    check_target(path)?;
    let folder = folder_of(path);
    let made = make_folder(folder)?;
    // Without a name where the system can: nothing stays of it, whoever is killed.
    let tried = tempfile::tempfile_in(folder).map_err(|err| not_created(err, folder));
    if made {
        remove_made(Some(folder));
    } else {
        remove_partials(folder);
    }
    tried.map(drop)
}

/// Why a folder that is there takes no new file.
fn not_created(err: io::Error, folder: &Path) -> MediaError {
    match err.kind() {
        // It is one that takes no files, as in /proc.
        io::ErrorKind::NotFound => MediaError::Denied {
            action: "write into the folder",
            path: folder.to_path_buf(),
        },
        _ => MediaError::from_io("write into the folder", err, folder),
    }
}

/// Refuses what must not be replaced by a file.
pub fn check_target(path: &Path) -> Result<(), MediaError> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(MediaError::IsFolder {
            path: path.to_path_buf(),
        }),
        Ok(meta) if !meta.is_file() => Err(MediaError::NotAFile {
            path: path.to_path_buf(),
        }),
        Ok(meta) if meta.permissions().readonly() => Err(MediaError::WriteProtected {
            path: path.to_path_buf(),
        }),
        Ok(_) => Ok(()),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        // "Not a directory" is worded by the folder's own check.
        Err(err) if err.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(err) => Err(MediaError::from_io("write there", err, path)),
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Makes `folder` when only it is missing, and tells whether it did.
fn make_folder(folder: &Path) -> Result<bool, MediaError> {
    let path = || folder.to_path_buf();
    match fs::metadata(folder) {
        Ok(meta) if meta.is_dir() => return Ok(false),
        Ok(_) => return Err(MediaError::FolderIsFile { path: path() }),
        Err(err) if err.kind() == io::ErrorKind::NotADirectory => {
            return Err(MediaError::FolderMissing { path: path() });
        }
        Err(err) if err.kind() != io::ErrorKind::NotFound => {
            return Err(MediaError::from_io("write into the folder", err, folder));
        }
        Err(_) => {}
    }
    match fs::create_dir(folder) {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(err) if err.kind() == io::ErrorKind::NotFound => {
            Err(MediaError::FolderMissing { path: path() })
        }
        Err(err) => Err(MediaError::from_io("make the folder", err, folder)),
    }
}

/// A file on its way to `path`: dropped before [`Pending::finish`], nothing of it remains.
pub(super) struct Pending {
    file: Option<File>,
    partial: PathBuf,
    path: PathBuf,
    /// The folder, when it was made for this file.
    made: Option<PathBuf>,
}

impl Pending {
    /// Opens a temporary file beside `path`, making its folder when only that is missing.
    pub fn new(path: &Path) -> Result<Self, MediaError> {
        check_target(path)?;
        let folder = folder_of(path);
        let made = make_folder(folder)?.then(|| folder.to_path_buf());
        let (partial, file) = create_partial(folder).map_err(|err| {
            remove_made(made.as_deref());
            not_created(err, folder)
        })?;
        Ok(Self {
            file: Some(file),
            partial,
            path: path.to_path_buf(),
            made,
        })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        let written = self
            .file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(bytes));
        written.map_err(|err| self.failed(err))
    }

    /// Makes sure that everything is on the disk, where a full one shows at the latest.
    pub fn complete(&mut self) -> Result<(), MediaError> {
        let synced = self.file.take().map_or(Ok(()), |file| file.sync_all());
        synced.map_err(|err| self.failed(err))
    }

    /// Gives the file its name, which is in the folder that it was opened for.
    pub fn finish_as(mut self, path: &Path) -> Result<PathBuf, MediaError> {
        self.complete()?;
        check_target(path)?;
        fs::rename(&self.partial, path).map_err(|err| self.failed(err))?;
        self.partial = PathBuf::new();
        Ok(path.to_path_buf())
    }

    /// Gives the file this name unless another file has it already; then it goes on waiting for one.
    pub fn finish_new(&mut self, path: &Path) -> Result<bool, MediaError> {
        self.complete()?;
        // A link never replaces anything; where there are none, who makes the file owns the name.
        let placed = match fs::hard_link(&self.partial, path) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => {
                File::create_new(path).and_then(|_| {
                    fs::rename(&self.partial, path).inspect_err(|_| {
                        // Empty, and ours. The first error is the one that matters.
                        fs::remove_file(path).ok();
                    })
                })
            }
            linked => linked.and_then(|()| fs::remove_file(&self.partial)),
        };
        match placed {
            Ok(()) => {
                self.partial = PathBuf::new();
                Ok(true)
            }
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(err) => Err(self.failed(err)),
        }
    }

    /// Takes the name away again that [`Pending::finish_new`] gave.
    pub fn unname(&mut self, path: &Path) {
        let Ok((partial, _)) = create_partial(folder_of(path)) else {
            return;
        };
        if fs::rename(path, &partial).is_ok() {
            self.partial = partial;
        }
    }

    fn failed(&self, err: io::Error) -> MediaError {
        MediaError::from_io("write", err, &self.path)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.partial.as_os_str().is_empty() {
            // A leftover that cannot be removed changes nothing for whoever reads the error.
            fs::remove_file(&self.partial).ok();
            remove_made(self.made.as_deref());
        }
    }
}

/// Several files on their way. The last goes first when they are dropped: the first one may have made
/// the folder, and removes it when it is empty again.
#[derive(Default)]
pub(super) struct PendingFiles(Vec<Pending>);

impl PendingFiles {
    pub fn push(&mut self, file: Pending) {
        self.0.push(file);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn take(&mut self) -> impl Iterator<Item = Pending> {
        std::mem::take(&mut self.0).into_iter()
    }

    /// Gives all of them these names, as [`Pending::finish_new`], or none.
    pub fn finish_new(&mut self, paths: &[PathBuf]) -> Result<bool, MediaError> {
        for index in 0..paths.len() {
            let placed = self.0[index].finish_new(&paths[index]);
            if !matches!(placed, Ok(true)) {
                for (file, path) in self.0.iter_mut().zip(&paths[..index]) {
                    file.unname(path);
                }
                return placed;
            }
        }
        Ok(true)
    }
}

impl Drop for PendingFiles {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

/// Removes a folder made for a file that did not come about, unless something else is in it by now.
fn remove_made(folder: Option<&Path>) {
    if let Some(folder) = folder {
        fs::remove_dir(folder).ok();
    }
}

/// A new file with a name of its own, short whatever the target is called.
fn create_partial(folder: &Path) -> io::Result<(PathBuf, File)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let partial = partial_path(&folder.join(format!("safelight-{number}")));
        match File::create_new(&partial) {
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => {}
            created => return created.map(|file| (partial, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_that_is_checked_is_rid_of_what_a_killed_program_left() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this number.
        let left = folder.path().join(".safelight-2.4194305.partial");
        let pending = Pending::new(&folder.path().join("b.png")).unwrap();
        fs::write(&left, b"half").unwrap();
        check_place(&folder.path().join("a.png")).unwrap();
        assert!(!left.exists());
        assert!(pending.partial.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_dropped_file_leaves_nothing_and_the_old_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        fs::write(&path, b"old").unwrap();
        let mut pending = Pending::new(&path).unwrap();
        pending.write(b"half of the n").unwrap();
        drop(pending);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_missing_folder_is_made_and_two_are_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/a.png");
        check_place(&path).unwrap();
        assert!(
            !folder.path().join("new").exists(),
            "a check leaves nothing behind"
        );
        Pending::new(&path).unwrap().finish_as(&path).unwrap();
        assert!(path.exists());
        let deep = folder.path().join("x/y/a.png");
        let err = check_place(&deep).unwrap_err().to_string();
        assert!(err.starts_with("this folder does not exist, nor"), "{err}");
    }

    #[test]
    fn places_that_cannot_take_a_file_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        let told = |path: &Path| check_place(path).unwrap_err();
        assert!(matches!(
            told(&file.join("a.png")),
            MediaError::FolderIsFile { .. }
        ));
        assert!(matches!(
            told(&file.join("b/a.png")),
            MediaError::FolderMissing { .. }
        ));
        assert!(matches!(told(folder.path()), MediaError::IsFolder { .. }));
        assert!(matches!(
            told(Path::new("/dev/null")),
            MediaError::NotAFile { .. }
        ));
        let mut permissions = fs::metadata(&file).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&file, permissions).unwrap();
        assert!(matches!(told(&file), MediaError::WriteProtected { .. }));
    }

    #[test]
    fn a_full_disk_is_told_and_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let mut pending = Pending::new(&path).unwrap();
        // The device that is always full stands in for the disk.
        pending.file = File::options().write(true).open("/dev/full").ok();
        assert!(matches!(
            pending.write(b"pixels"),
            Err(MediaError::DiskFull { .. })
        ));
        drop(pending);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
