//! The desktop's trash: files move there on their own disk and come back.
//!
//! After the Trash specification of freedesktop.org, version 1.0. A file only changes its folder: nothing is copied or
//! removed, and a file on a disk without a trash stays.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use rustix::process::getuid;

use crate::files::FileError;
use crate::naming;
use crate::uri::encoded;

/// Files of one name in a trash.
const MAX_NAMESAKES: u32 = 10_000;
/// Mode of a folder in which everybody may create files and only their owners may remove them.
const STICKY: u32 = 0o1000;

/// Reason why a file did not move. It is where it was.
#[derive(Debug, thiserror::Error)]
pub enum TrashError {
    #[error("this file does not exist: {path}", path = path.display())]
    Gone { path: PathBuf },
    #[error(transparent)]
    Failed(#[from] FileError),
}

#[derive(Clone, Debug)]
pub struct TrashCan {
    /// The one in the home folder; other disks have their own.
    home: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrashedFile {
    /// Path before the file was moved.
    pub from: PathBuf,
    /// Path in the trash.
    pub file: PathBuf,
    info: PathBuf,
}

/// Trash folder of a disk.
struct TrashFolder {
    folder: PathBuf,
    /// Folder that paths in notes are relative to; empty for absolute ones.
    base: PathBuf,
}

impl TrashCan {
    /// `home` is `$XDG_DATA_HOME/Trash`.
    pub fn new(home: PathBuf) -> Self {
        Self { home }
    }

    pub fn put(&self, path: &Path) -> Result<TrashedFile, TrashError> {
        let put = fs::symlink_metadata(path).and_then(|stat| {
            let from = absolute(path)?;
            self.folder_for(&from, stat.dev())?.put(from)
        });
        put.map_err(|err| match err.kind() {
            ErrorKind::NotFound if fs::symlink_metadata(path).is_err() => TrashError::Gone {
                path: path.to_path_buf(),
            },
            _ => {
                let sentence = format!("the file cannot be moved to the trash ({err})");
                FileError::new(sentence, path).into()
            }
        })
    }

    /// The home's trash for files of its disk, else the one at the top of theirs.
    fn folder_for(&self, from: &Path, device: u64) -> io::Result<TrashFolder> {
        let home = prepare(&self.home).and_then(|()| fs::metadata(&self.home));
        if home.is_ok_and(|stat| stat.dev() == device) {
            return Ok(TrashFolder {
                folder: self.home.clone(),
                base: PathBuf::new(),
            });
        }
        let is_on_disk =
            |folder: &&Path| fs::metadata(folder).is_ok_and(|stat| stat.dev() == device);
        let above = from.ancestors().skip(1).take_while(is_on_disk);
        TrashFolder::at_top(above.last().unwrap_or(from))
    }
}

impl TrashFolder {
    /// The trash at the top of a disk: the one that all users share if it is safe, else this user's.
    fn at_top(top: &Path) -> io::Result<Self> {
        let user = getuid().as_raw();
        let shared = top.join(".Trash");
        let is_safe = fs::symlink_metadata(&shared)
            .is_ok_and(|stat| stat.is_dir() && stat.mode() & STICKY != 0);
        let mut folder = shared.join(user.to_string());
        if !is_safe || prepare(&folder).is_err() {
            folder = top.join(format!(".Trash-{user}"));
            prepare(&folder)
                .map_err(|err| io::Error::other(format!("its disk has no trash: {err}")))?;
        }
        Ok(Self {
            folder,
            base: top.to_owned(),
        })
    }

    fn put(&self, from: PathBuf) -> io::Result<TrashedFile> {
        let name = from.file_name().unwrap_or_default();
        let note = format!(
            "[Trash Info]\nPath={}\nDeletionDate={}\n",
            encoded(from.strip_prefix(&self.base).unwrap_or(&from)),
            naming::local_time("%Y-%m-%dT%H:%M:%S")
        );
        for number in 1..=MAX_NAMESAKES {
            let mut free = OsString::new();
            if number > 1 {
                free.push(format!("{number}."));
            }
            free.push(name);
            let file = self.folder.join("files").join(&free);
            free.push(".trashinfo");
            let info = self.folder.join("info").join(free);
            // The program that creates the note owns the name.
            let mut options = OpenOptions::new();
            let mut written = match options.write(true).create_new(true).open(&info) {
                Err(err) if err.kind() == ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            let moved = if fs::symlink_metadata(&file).is_ok() {
                Err(ErrorKind::AlreadyExists.into())
            } else {
                written
                    .write_all(note.as_bytes())
                    .and_then(|()| fs::rename(&from, &file))
            };
            match moved {
                Ok(()) => return Ok(TrashedFile { from, file, info }),
                Err(err) => {
                    fs::remove_file(&info).ok(); // The first error is the one that matters.
                    if err.kind() != ErrorKind::AlreadyExists {
                        return Err(err);
                    }
                }
            }
        }
        Err(io::Error::other("it is full of files of this name"))
    }
}

impl TrashedFile {
    pub fn restore(&self) -> Result<(), FileError> {
        let restored = if fs::symlink_metadata(&self.from).is_ok() {
            Err(io::Error::other("another file has its name"))
        } else {
            let folder = self.from.parent().unwrap_or(&self.from);
            fs::create_dir_all(folder).and_then(|()| fs::rename(&self.file, &self.from))
        };
        restored.map_err(|err| {
            FileError::new(format!("the file cannot be moved back ({err})"), &self.from)
        })?;
        fs::remove_file(&self.info).ok(); // Without its file it says nothing.
        Ok(())
    }
}

/// Resolves links in the folders of a path, but not the file itself.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    match (whole.parent(), whole.file_name()) {
        (Some(folder), Some(name)) => Ok(fs::canonicalize(folder)?.join(name)),
        _ => Err(ErrorKind::InvalidInput.into()),
    }
}

/// Creates the two folders of a trash, for its user only.
fn prepare(folder: &Path) -> io::Result<()> {
    for name in ["files", "info"] {
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(folder.join(name))?;
    }
    // A link could lead anywhere, and another user's trash is not ours to fill.
    let stat = fs::symlink_metadata(folder)?;
    if stat.is_dir() && stat.uid() == getuid().as_raw() {
        Ok(())
    } else {
        Err(io::Error::other("the trash there belongs to somebody else"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn trash(root: &Path) -> TrashCan {
        TrashCan::new(root.join("data/Trash"))
    }

    #[test]
    fn a_file_goes_to_the_trash_with_a_note_and_comes_back() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a grün.png");
        fs::write(&path, "one").unwrap();
        let trashed = trash(root.path()).put(&path).unwrap();
        assert!(!path.exists());
        assert_eq!(fs::read(&trashed.file).unwrap(), b"one");
        let note = fs::read_to_string(root.path().join("data/Trash/info/a grün.png.trashinfo"));
        let note = note.unwrap();
        assert!(note.starts_with("[Trash Info]\nPath=/"), "{note}");
        let holds = note.contains("/a%20gr%C3%BCn.png\nDeletionDate=20");
        assert!(holds, "{note}");
        trashed.restore().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let left = fs::read_dir(root.path().join("data/Trash/info")).unwrap();
        assert_eq!(left.count(), 0);
    }

    #[test]
    fn two_files_of_one_name_are_both_kept_and_neither_overwrites_a_new_one() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.tar.png");
        let trash = trash(root.path());
        let trashed: Vec<TrashedFile> = ["one", "two", "three"]
            .iter()
            .map(|text| {
                fs::write(&path, text).unwrap();
                trash.put(&path).unwrap()
            })
            .collect();
        let names: Vec<_> = trashed
            .iter()
            .map(|one| one.file.file_name().unwrap())
            .collect();
        assert_eq!(names, ["a.tar.png", "2.a.tar.png", "3.a.tar.png"]);
        fs::write(&path, "new").unwrap();
        let err = trashed[0].restore().unwrap_err().to_string();
        assert!(err.contains("another file has its name"), "{err}");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read(&trashed[0].file).unwrap(), b"one");
    }

    #[test]
    fn trash_on_another_disk_is_at_its_top_and_stores_relative_paths() {
        let disk = tempfile::tempdir().unwrap();
        let top = fs::canonicalize(disk.path()).unwrap();
        fs::create_dir(top.join("inner")).unwrap();
        let path = top.join("inner/a.png");
        // A shared trash in which everybody could remove everything is not used.
        fs::create_dir(top.join(".Trash")).unwrap();
        for (mode, folder) in [(0o777, ".Trash-USER"), (0o1777, ".Trash/USER")] {
            fs::write(&path, "one").unwrap();
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(top.join(".Trash"), permissions).unwrap();
            let trash = TrashFolder::at_top(&top).unwrap();
            let trashed = trash.put(path.clone()).unwrap();
            let user = getuid().as_raw().to_string();
            let folder = top.join(folder.replace("USER", &user));
            assert_eq!(trashed.file, folder.join("files/a.png"));
            let note = fs::read_to_string(folder.join("info/a.png.trashinfo")).unwrap();
            assert!(note.contains("\nPath=inner/a.png\n"), "{note}");
            trashed.restore().unwrap();
            assert!(path.exists());
        }
    }

    #[test]
    fn without_a_trash_nothing_is_deleted() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a.png");
        fs::write(&path, "one").unwrap();
        let own = format!(".Trash-{}", getuid().as_raw());
        fs::write(root.path().join(own), "").unwrap();
        let at_top = TrashFolder::at_top(root.path());
        assert!(at_top.is_err(), "a file has the name of the trash");
        let missing = TrashFolder {
            folder: root.path().join("none"),
            base: PathBuf::new(),
        };
        assert!(missing.put(path.clone()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let none = root.path().join("none.png");
        assert!(matches!(
            trash(root.path()).put(&none),
            Err(TrashError::Gone { .. })
        ));
    }
}
