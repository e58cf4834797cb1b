//! The prepared libtorch: its folder in the cache, a check of its files, and the link that leads cargo to it.
//!
//! `fetch-libtorch` downloads it (`src/wheels/fetch`).

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cargo::{self, free_kb};
use crate::failure::{Doing as _, Failure, Result};
use crate::workspace::Workspace;

/// A libtorch that an engine is built for.
pub struct Version {
    /// Its folder in the cache.
    pub folder: &'static str,
    /// Its lock file in the repository.
    pub lock: &'static str,
}

/// The one that ships, and that cargo builds with.
pub const FIRST: Version = Version {
    folder: "libtorch-2.11.0-cpu",
    lock: "src/wheels/libtorch.lock",
};
/// The one that ROCm 10 has.
pub const SECOND: Version = Version {
    folder: "libtorch-2.13.0-cpu",
    lock: "src/wheels/libtorch-2.13.lock",
};

const STAMP: &str = "safelight-stamp.txt";
const LINK: &str = ".libtorch";
/// Packed and unpacked, with some to spare.
const NEEDED_MIB: u64 = 800;

/// Its folder in the user's cache, made whole if it is not. Quick when it is.
pub fn prepare(workspace: &Workspace, version: &Version) -> Result<PathBuf> {
    let lock_path = workspace.root().join(version.lock);
    let lock = fs::read_to_string(&lock_path).doing(|| lock_path.display().to_string())?;
    let cache = cache_folder_of_the_user()?;
    let folder = cache.join(version.folder);
    if problem(&folder, &lock).is_none() {
        return Ok(folder);
    }
    fs::create_dir_all(&cache).doing(|| cache.display().to_string())?;
    let path = cache.join(format!("{}.lock", version.folder));
    let name = || path.display().to_string();
    let guard = File::create(&path).doing(name)?;
    if matches!(guard.try_lock(), Err(TryLockError::WouldBlock)) {
        eprintln!("Waiting for another set-up to finish");
        guard.lock().doing(name)?;
    }
    if problem(&folder, &lock).is_some() {
        ensure_room(&cache)?;
        let fetch = cargo::build_fetch(workspace)?;
        let arguments = [&lock_path, &cache, Path::new(version.folder)];
        let status = Command::new(&fetch).args(arguments).status();
        if !status.doing(|| fetch.display().to_string())?.success() {
            return Err(Failure::new(
                "libtorch could not be prepared for the reason above",
            ));
        }
    }
    match problem(&folder, &lock) {
        None => Ok(folder),
        Some(problem) => Err(Failure::new(format!(
            "libtorch is still not whole: {problem}"
        ))),
    }
}

fn ensure_room(cache: &Path) -> Result<()> {
    match free_kb(cache) {
        Some(free) if free >> 10 < NEEDED_MIB => Err(Failure::new(format!(
            "libtorch needs {NEEDED_MIB} MiB in {}, which has {} MiB free: make room, or set SAFELIGHT_CACHE to a folder \
             on another disk",
            cache.display(),
            free >> 10
        ))),
        _ => Ok(()),
    }
}

/// Leads the repository's link to a folder, in one step: a build that runs at this moment finds the old or the new one.
pub fn lead_link(workspace: &Workspace, folder: &Path) -> Result<()> {
    let link = workspace.root().join(LINK);
    if fs::read_link(&link).is_ok_and(|to| to == folder) {
        return Ok(());
    }
    let new = link.with_extension(format!("new-{}", std::process::id()));
    let made = std::os::unix::fs::symlink(folder, &new).and_then(|()| fs::rename(&new, &link));
    if made.is_err() {
        fs::remove_file(&new).ok(); // The error below is the one to tell.
    }
    made.doing(|| format!("The link {} cannot be made", link.display()))
}

/// Tells a path that cargo's `[env]` set from one that the user did.
pub fn is_our_link(workspace: &Workspace, path: &Path) -> bool {
    path == workspace.root().join(LINK)
}

/// The first fault of a folder, if any: the stamp is written last, and lists every file with its size.
fn problem(folder: &Path, lock: &str) -> Option<String> {
    let stamp = match fs::read_to_string(folder.join(STAMP)) {
        Ok(stamp) => stamp,
        Err(err) => return Some(format!("{}: {err}", folder.join(STAMP).display())),
    };
    let Some(files) = files_of_stamp(&stamp, lock) else {
        return Some("the stamp is of another version".to_owned());
    };
    let is_there = |(path, size): &(&str, u64)| {
        let found = fs::metadata(folder.join(path));
        found.is_ok_and(|found| found.is_file() && found.len() == *size)
    };
    let missing = files.into_iter().find(|file| !is_there(file));
    missing.map(|(path, _)| format!("{path} is missing or has another size"))
}

fn cache_folder_of_the_user() -> Result<PathBuf> {
    let cache = cache_folder(|name| std::env::var_os(name)).ok_or_else(|| {
        Failure::new("There is no home folder to keep libtorch in: set SAFELIGHT_CACHE")
    })?;
    std::path::absolute(&cache).doing(|| cache.display().to_string())
}

/// `SAFELIGHT_CACHE`, else the user's cache folder. An empty variable counts as none, and so does a relative
/// `XDG_CACHE_HOME`, as its specification says.
fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| {
        let value = variable(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    };
    let xdg = || set("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    set("SAFELIGHT_CACHE")
        .or_else(|| xdg().map(|path| path.join("safelight")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/safelight")))
}

/// The files of a stamp with their sizes; `None` for a stamp of another lock file and for a damaged one.
fn files_of_stamp<'a>(stamp: &'a str, lock: &str) -> Option<Vec<(&'a str, u64)>> {
    let lines = stamp.strip_prefix(lock)?.strip_prefix("files\n")?;
    let file = |line: &'a str| {
        let mut words = line.splitn(3, ' ');
        let size = words.next()?.parse().ok()?;
        let _sha256 = words.next()?;
        Some((words.next()?, size))
    };
    let files: Option<Vec<_>> = lines.lines().map(file).collect();
    files.filter(|files| !files.is_empty())
}
#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(pairs: &[(&str, &str)]) -> Option<PathBuf> {
        cache_folder(|name| {
            pairs
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn the_cache_folder_is_the_first_one_that_is_set() {
        let home = ("HOME", "/home/ada");
        let xdg = ("XDG_CACHE_HOME", "/big/cache");
        assert_eq!(
            folder_with(&[home, xdg, ("SAFELIGHT_CACHE", "/here")]),
            Some("/here".into())
        );
        assert_eq!(
            folder_with(&[home, xdg, ("SAFELIGHT_CACHE", "")]),
            Some("/big/cache/safelight".into())
        );
        assert_eq!(
            folder_with(&[home, ("XDG_CACHE_HOME", "cache")]),
            Some("/home/ada/.cache/safelight".into())
        );
        assert_eq!(folder_with(&[]), None);
    }

    #[test]
    fn a_stamp_lists_its_files_with_their_sizes() {
        let files = files_of_stamp(
            "wheel a 1\nfiles\n7 abc build-version\n12 def include/a b.h\n",
            "wheel a 1\n",
        );
        assert_eq!(
            files,
            Some(vec![("build-version", 7), ("include/a b.h", 12)])
        );
    }

    #[test]
    fn a_stamp_of_another_lock_file_or_a_damaged_one_counts_as_none() {
        for stamp in [
            "",
            "wheel a 2\nfiles\n7 abc x\n",
            "wheel a 1\n",
            "wheel a 1\nfiles\n",
            "wheel a 1\nfiles\nx",
        ] {
            assert_eq!(files_of_stamp(stamp, "wheel a 1\n"), None, "{stamp:?}");
        }
    }
}
