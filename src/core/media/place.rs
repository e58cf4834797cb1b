//! Output paths: checks whether a file can be written there, and atomic writing.
//!
//! A file is written under a temporary name in the same folder and renamed when it is complete, so neither a full disk
//! nor a crash leaves half a file under its name. One missing folder is made; more count as a typing error.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tempfile::{Builder, TempPath};

use super::MediaError;
use crate::files::remove_partials;

/// Checks that a file could be written at `path` now, leaves nothing there, and removes files that a killed
/// program left half-written.
pub(super) fn check_place(path: &Path) -> Result<(), MediaError> {
    check_target(path)?;
    let folder = folder_of(path);
    let made = make_folder(folder)?;
    // Without a name where the system can: nothing stays of it, whoever is killed.
    let tried = tempfile::tempfile_in(folder).map_err(|err| not_created(&err, folder));
    if made {
        remove_made(Some(folder));
    } else {
        remove_partials(folder);
    }
    tried.map(drop)
}

/// Why a folder that is there takes no new file.
fn not_created(err: &io::Error, folder: &Path) -> MediaError {
    match err.kind() {
        // It is one that takes no files, as in /proc.
        io::ErrorKind::NotFound => MediaError::denied("write into the folder", folder),
        _ => MediaError::from_io("write into the folder", err, folder),
    }
}

/// Refuses what must not be replaced by a file.
pub fn check_target(path: &Path) -> Result<(), MediaError> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(MediaError::is_folder(path)),
        Ok(meta) if !meta.is_file() => Err(MediaError::not_a_file(path)),
        Ok(meta) if meta.permissions().readonly() => Err(MediaError::with_path(
            "this file is write-protected and cannot be replaced",
            path,
        )),
        Ok(_) => Ok(()),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Ok(()),
        // "Not a directory" is worded by the folder's own check.
        Err(err) if err.kind() == io::ErrorKind::NotADirectory => Ok(()),
        Err(err) => Err(MediaError::from_io("write there", &err, path)),
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
    let missing = || {
        MediaError::with_path(
            "this folder does not exist, nor does the one above it",
            folder,
        )
    };
    match fs::metadata(folder) {
        Ok(meta) if meta.is_dir() => return Ok(false),
        Ok(_) => {
            let sentence = "this is a file, not a folder to write to";
            return Err(MediaError::with_path(sentence, folder));
        }
        Err(err) if err.kind() == io::ErrorKind::NotADirectory => return Err(missing()),
        Err(err) if err.kind() != io::ErrorKind::NotFound => {
            return Err(MediaError::from_io("write into the folder", &err, folder));
        }
        Err(_) => {}
    }
    match fs::create_dir(folder) {
        Ok(()) => Ok(true),
        Err(err) if err.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(err) if err.kind() == io::ErrorKind::NotFound => Err(missing()),
        Err(err) => Err(MediaError::from_io("make the folder", &err, folder)),
    }
}

/// A file that appears under its name when it is complete; dropped before, nothing of it remains.
pub(super) struct AtomicFile {
    file: Option<File>,
    /// Temporary path until it has its name.
    partial: Option<TempPath>,
    path: PathBuf,
    /// The folder, when it was made for this file.
    made: Option<PathBuf>,
}

impl AtomicFile {
    /// Opens a temporary file next to `path`, making its folder when only that is missing.
    pub fn new(path: &Path) -> Result<Self, MediaError> {
        check_target(path)?;
        let folder = folder_of(path);
        let made = make_folder(folder)?.then(|| folder.to_path_buf());
        // Named as `partial_path` does it, so that what a killed program leaves is found.
        let created = Builder::new()
            .prefix(".safelight-")
            .suffix(&format!(".{}.partial", std::process::id()))
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(folder);
        let (file, partial) = created
            .map_err(|err| {
                remove_made(made.as_deref());
                not_created(&err, folder)
            })?
            .into_parts();
        Ok(Self {
            file: Some(file),
            partial: Some(partial),
            path: path.to_path_buf(),
            made,
        })
    }

    pub fn write(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        let written = self
            .file
            .as_mut()
            .map_or(Ok(()), |file| file.write_all(bytes));
        written.map_err(|err| self.failed(&err))
    }

    /// Makes sure that everything is on the disk, where a full one shows at the latest.
    pub fn complete(&mut self) -> Result<(), MediaError> {
        let synced = self.file.take().map_or(Ok(()), |file| file.sync_all());
        synced.map_err(|err| self.failed(&err))
    }

    /// Gives the file its name, which is in the folder that it was opened for.
    pub fn finish_as(mut self, path: &Path) -> Result<PathBuf, MediaError> {
        self.complete()?;
        check_target(path)?;
        let named = self.partial.take().map_or(Ok(()), |it| it.persist(path));
        named.map_err(|err| {
            self.partial = Some(err.path);
            self.failed(&err.error)
        })?;
        Ok(path.to_path_buf())
    }

    /// Gives the file this name unless another file has it already: then it keeps waiting for one.
    pub fn finish_new(&mut self, path: &Path) -> Result<bool, MediaError> {
        self.complete()?;
        let Some(partial) = self.partial.take() else {
            return Ok(true);
        };
        // A link never replaces anything; where there are none, who makes the file owns the name.
        let named = match fs::hard_link(&partial, path) {
            Err(err) if err.kind() != io::ErrorKind::AlreadyExists => {
                File::create_new(path).and_then(|_| {
                    fs::rename(&partial, path).inspect_err(|_| {
                        // Empty. The first error is the one to report.
                        fs::remove_file(path).ok();
                    })
                })
            }
            linked => linked,
        };
        let Err(err) = named else {
            return Ok(true);
        };
        self.partial = Some(partial);
        match err.kind() {
            io::ErrorKind::AlreadyExists => Ok(false),
            _ => Err(self.failed(&err)),
        }
    }

    /// Makes the name that [`AtomicFile::finish_new`] gave a temporary one.
    pub fn unname(&mut self, path: &Path) {
        self.partial = TempPath::try_from_path(path).ok();
    }

    fn failed(&self, err: &io::Error) -> MediaError {
        MediaError::from_io("write", err, &self.path)
    }
}

impl Drop for AtomicFile {
    fn drop(&mut self) {
        if self.partial.take().is_some() {
            remove_made(self.made.as_deref());
        }
    }
}

/// Several files on their way. The last goes first when they are dropped: the first one may have made the folder, and
/// removes it when it is empty again.
#[derive(Default)]
pub(super) struct AtomicFiles(Vec<AtomicFile>);

impl AtomicFiles {
    pub fn push(&mut self, file: AtomicFile) {
        self.0.push(file);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn take(&mut self) -> impl Iterator<Item = AtomicFile> {
        std::mem::take(&mut self.0).into_iter()
    }

    /// Gives all of them these names, as [`AtomicFile::finish_new`], or none.
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

impl Drop for AtomicFiles {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::media::MediaErrorKind;

    #[test]
    fn check_place_removes_partial_files_of_dead_processes() {
        let folder = tempfile::tempdir().unwrap();
        // No process has this number.
        let left = folder.path().join(".safelight-2.4194305.partial");
        let pending = AtomicFile::new(&folder.path().join("b.png")).unwrap();
        fs::write(&left, b"half").unwrap();
        check_place(&folder.path().join("a.png")).unwrap();
        assert!(!left.exists());
        assert!(pending.partial.as_ref().is_some_and(|it| it.exists()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_dropped_file_leaves_nothing_and_the_old_one_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        fs::write(&path, b"old").unwrap();
        let mut pending = AtomicFile::new(&path).unwrap();
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
        AtomicFile::new(&path).unwrap().finish_as(&path).unwrap();
        assert!(path.exists());
        let deep = folder.path().join("x/y/a.png");
        let err = check_place(&deep).unwrap_err().to_string();
        assert!(err.starts_with("this folder does not exist, nor"), "{err}");
    }

    #[test]
    fn invalid_output_paths_return_specific_errors() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, b"").unwrap();
        let mut permissions = fs::metadata(&file).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(&file, permissions).unwrap();
        for (path, message) in [
            (file.join("a.png"), "this is a file, not a folder"),
            (file.join("b/a.png"), "this folder does not exist, nor"),
            (folder.path().to_owned(), "this is a folder, not a file"),
            (PathBuf::from("/dev/null"), "this is a device or pipe"),
            (file, "this file is write-protected"),
        ] {
            let err = check_place(&path).unwrap_err().to_string();
            assert!(err.starts_with(message), "{err}");
        }
    }

    #[test]
    fn full_disk_is_reported_and_leaves_no_partial_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.png");
        let mut pending = AtomicFile::new(&path).unwrap();
        // The device that is always full serves as the disk.
        pending.file = File::options().write(true).open("/dev/full").ok();
        let err = pending.write(b"pixels").unwrap_err();
        assert_eq!(err.kind, MediaErrorKind::DiskFull);
        drop(pending);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
