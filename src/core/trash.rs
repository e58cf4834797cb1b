//! Throwing files away as desktops do, into a trash on the same disk, from where they come back.
//!
//! After the Trash specification of freedesktop.org, version 1.0. A file only changes its folder: nothing is copied,
//! nothing is ever removed, and where there is no trash on a file's disk the file stays.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use crate::files::FileError;
use crate::naming;
use crate::uri::encoded;

/// So many files of one name are told apart.
const MAX_NAMESAKES: usize = 10_000;
/// Set on a folder in which everybody may put files and only their owners may remove them.
const STICKY: u32 = 0o1000;

/// Why a file was not thrown away, or did not come back. It is where it was.
#[derive(Debug, thiserror::Error)]
pub enum TrashError {
    #[error("this file does not exist: {path}", path = path.display())]
    Gone { path: PathBuf },
    #[error(transparent)]
    Failed(#[from] FileError),
}

#[derive(Clone, Debug)]
pub struct Trash {
    /// The one in the home folder; other disks have their own.
    home: PathBuf,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trashed {
    /// Where it was.
    pub from: PathBuf,
    /// Where it is.
    pub file: PathBuf,
    info: PathBuf,
}

/// A trash that a file can go to, and from where its paths are counted.
struct Place {
    folder: PathBuf,
    top: Option<PathBuf>,
}

impl Trash {
    /// `home` is `$XDG_DATA_HOME/Trash`.
    pub fn new(home: PathBuf) -> Self {
        Self { home }
    }

    pub fn put(&self, path: &Path) -> Result<Trashed, TrashError> {
        let unmovable = |err| unmovable(&err, path);
        let stat = fs::symlink_metadata(path).map_err(|err| match err.kind() {
            io::ErrorKind::NotFound => TrashError::Gone {
                path: path.to_path_buf(),
            },
            _ => unmovable(err),
        })?;
        let from = absolute(path).map_err(unmovable)?;
        let place = self.place_for(&from, stat.dev())?;
        put_into(&place, path, from)
    }

    /// The home's own for files of its disk, else one at the top of the file's disk.
    fn place_for(&self, from: &Path, device: u64) -> Result<Place, TrashError> {
        let mut reason = String::new();
        match prepared(&self.home) {
            Ok(()) if device_of(&self.home) == Some(device) => {
                return Ok(Place {
                    folder: self.home.clone(),
                    top: None,
                });
            }
            Ok(()) => {}
            Err(err) => reason = err.to_string(),
        }
        let found = top_of(from, device).map(|top| place_at(top, this_user()));
        match found {
            Some(Ok(place)) => Ok(place),
            Some(Err(err)) => Err(no_trash(from, &err.to_string())),
            None => Err(no_trash(from, &reason)),
        }
    }
}

/// The trash at the top of a disk: the one that all users share when it is safe, else this user's own.
fn place_at(top: PathBuf, user: Option<u32>) -> io::Result<Place> {
    let user = user.ok_or_else(|| io::Error::other("its owner is not known"))?;
    let shared = top.join(".Trash");
    let is_safe =
        fs::symlink_metadata(&shared).is_ok_and(|stat| stat.is_dir() && stat.mode() & STICKY != 0);
    let in_shared = shared.join(user.to_string());
    let folder = if is_safe && prepared(&in_shared).is_ok() {
        in_shared
    } else {
        let own = top.join(format!(".Trash-{user}"));
        prepared(&own)?;
        own
    };
    Ok(Place {
        folder,
        top: Some(top),
    })
}

fn put_into(place: &Place, path: &Path, from: PathBuf) -> Result<Trashed, TrashError> {
    let named = place
        .top
        .as_deref()
        .and_then(|top| from.strip_prefix(top).ok());
    let text = format!(
        "[Trash Info]\nPath={}\nDeletionDate={}\n",
        encoded(named.unwrap_or(&from)),
        date()
    );
    for number in 1..=MAX_NAMESAKES {
        let name = name_in_trash(&from, number);
        let mut info_name = name.clone();
        info_name.push(".trashinfo");
        let info = place.folder.join("info").join(info_name);
        let file = place.folder.join("files").join(name);
        let mut options = OpenOptions::new();
        // Whoever makes this file owns the name.
        let mut written = match options.write(true).create_new(true).open(&info) {
            Ok(written) => written,
            Err(err) if err.kind() == io::ErrorKind::AlreadyExists => continue,
            Err(err) => return Err(unmovable(&err, path)),
        };
        if fs::symlink_metadata(&file).is_ok() {
            fs::remove_file(&info).ok(); // Somebody's leftover; the next name is free.
            continue;
        }
        let moved = written
            .write_all(text.as_bytes())
            .and_then(|()| fs::rename(&from, &file));
        return match moved {
            Ok(()) => Ok(Trashed { from, file, info }),
            Err(err) => {
                fs::remove_file(&info).ok(); // The first error is the one that matters.
                Err(match err.kind() {
                    io::ErrorKind::CrossesDevices => no_trash(path, &err.to_string()),
                    _ => unmovable(&err, path),
                })
            }
        };
    }
    Err(no_trash(path, "it is full of files of this name"))
}

impl Trashed {
    pub fn restore(&self) -> Result<(), TrashError> {
        let failed =
            |err| FileError::new(format!("the file cannot be moved back ({err})"), &self.from);
        if fs::symlink_metadata(&self.from).is_ok() {
            Err(FileError::new(
                "another file stands where this one was",
                &self.from,
            ))?;
        }
        if let Some(folder) = self.from.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        fs::rename(&self.file, &self.from).map_err(failed)?;
        fs::remove_file(&self.info).ok(); // Without its file it says nothing.
        Ok(())
    }
}

fn unmovable(err: &io::Error, path: &Path) -> TrashError {
    let sentence = format!("the file cannot be moved to the trash ({err})");
    FileError::new(sentence, path).into()
}

fn no_trash(path: &Path, reason: &str) -> TrashError {
    let reason = if reason.is_empty() {
        "it cannot be created"
    } else {
        reason
    };
    let sentence = format!("there is no trash on the disk of this file ({reason})");
    FileError::new(sentence, path).into()
}

/// The path without links in its folders, and with those of the file itself.
fn absolute(path: &Path) -> io::Result<PathBuf> {
    let whole = std::path::absolute(path)?;
    match (whole.parent(), whole.file_name()) {
        (Some(folder), Some(name)) => Ok(fs::canonicalize(folder)?.join(name)),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

/// `clip.mp4`, `clip.2.mp4` and so on.
fn name_in_trash(from: &Path, number: usize) -> OsString {
    let name = from.file_name().unwrap_or_default().to_os_string();
    if number == 1 {
        return name;
    }
    let mut other = from.file_stem().unwrap_or_default().to_os_string();
    other.push(format!(".{number}"));
    if let Some(extension) = from.extension() {
        other.push(".");
        other.push(extension);
    }
    other
}

/// Makes the two folders of a trash, for its user alone.
fn prepared(folder: &Path) -> io::Result<()> {
    for name in ["files", "info"] {
        let mut builder = DirBuilder::new();
        builder
            .recursive(true)
            .mode(0o700)
            .create(folder.join(name))?;
    }
    // A link could lead anywhere, and another user's is not ours to fill.
    let stat = fs::symlink_metadata(folder)?;
    let is_own = this_user().is_none_or(|user| user == stat.uid());
    if stat.is_dir() && is_own {
        Ok(())
    } else {
        Err(io::Error::other("the trash there belongs to somebody else"))
    }
}

fn device_of(path: &Path) -> Option<u64> {
    fs::metadata(path).ok().map(|stat| stat.dev())
}

/// The highest folder of the file's disk.
fn top_of(path: &Path, device: u64) -> Option<PathBuf> {
    let above = path.ancestors().skip(1);
    let on_it = above.take_while(|folder| device_of(folder) == Some(device));
    on_it.last().map(Path::to_path_buf)
}

fn this_user() -> Option<u32> {
    fs::metadata("/proc/self").ok().map(|stat| stat.uid())
}

/// `2026-11-20T10:15:02`.
fn date() -> String {
    let stamp = naming::timestamp();
    let (day, time) = stamp.split_once('_').unwrap_or((&stamp, "000000"));
    let part = |at: usize| time.get(at..at + 2).unwrap_or("00");
    format!("{day}T{}:{}:{}", part(0), part(2), part(4))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn trash(root: &Path) -> Trash {
        Trash::new(root.join("data/Trash"))
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
        assert!(
            note.contains("/a%20gr%C3%BCn.png\nDeletionDate=20"),
            "{note}"
        );
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
        let trashed: Vec<Trashed> = ["one", "two", "three"]
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
        assert_eq!(names, ["a.tar.png", "a.tar.2.png", "a.tar.3.png"]);
        fs::write(&path, "new").unwrap();
        let err = trashed[0].restore().unwrap_err().to_string();
        assert!(err.contains("another file stands"), "{err}");
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read(&trashed[0].file).unwrap(), b"one");
    }

    #[test]
    fn a_disk_of_its_own_has_a_trash_at_its_top_whose_notes_do_not_name_the_disk() {
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
            let place = place_at(top.clone(), this_user()).unwrap();
            let trashed = put_into(&place, &path, path.clone()).unwrap();
            let user = this_user().unwrap().to_string();
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
        fs::write(
            root.path().join(format!(".Trash-{}", this_user().unwrap())),
            "",
        )
        .unwrap();
        let place = place_at(root.path().to_path_buf(), this_user());
        assert!(place.is_err(), "a file stands where the trash would be");
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let place = Place {
            folder: root.path().join("none"),
            top: None,
        };
        assert!(put_into(&place, &path, path.clone()).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"one");
        let none = root.path().join("none.png");
        assert!(matches!(
            trash(root.path()).put(&none),
            Err(TrashError::Gone { .. })
        ));
    }
}
