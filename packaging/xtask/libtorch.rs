//! The prepared libtorch: where it is kept, whether it is whole, and the link that leads cargo to it.
//!
//! It does not fetch: that is `fetch.py`, started when the folder is not whole.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Doing as _, Failure, Result};
use crate::workspace::Workspace;

/// A libtorch that an engine is built for.
pub struct Version {
    /// Its folder in the cache.
    pub folder: &'static str,
    /// What it is made of.
    pub lock: &'static str,
    /// Where the repository's link to it stands; cargo builds with it unless it is told of another one.
    link: Option<&'static str>,
}

/// The one that ships.
pub const FIRST: Version = Version {
    folder: "libtorch-2.11.0-cpu",
    lock: "libtorch.lock",
    link: Some(LINK),
};
/// The one that ROCm 10 has.
pub const SECOND: Version = Version {
    folder: "libtorch-2.13.0-cpu",
    lock: "libtorch-2.13.lock",
    link: None,
};

const STAMP: &str = "safelight-stamp.txt";
const LINK: &str = ".libtorch";

pub struct Libtorch {
    cache: PathBuf,
    folder: PathBuf,
    lock_path: PathBuf,
    lock: String,
    script: PathBuf,
    link: Option<PathBuf>,
}

impl Libtorch {
    pub fn locate(workspace: &Workspace, version: &Version) -> Result<Self> {
        let lock_path = workspace.tool().join(version.lock);
        let lock = fs::read_to_string(&lock_path).doing(|| lock_path.display().to_string())?;
        let cache = cache_folder_of_the_user()?;
        Ok(Self {
            folder: cache.join(version.folder),
            cache,
            lock_path,
            lock,
            script: workspace.tool().join("fetch.py"),
            link: version.link.map(|link| workspace.root().join(link)),
        })
    }

    pub fn is_complete(&self) -> bool {
        self.problem().is_none()
    }

    pub fn into_folder(self) -> PathBuf {
        self.folder
    }

    /// The text of its lock file.
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// Makes the folder whole and its link right. Quick when they are.
    pub fn prepare(&self) -> Result<()> {
        if !self.is_complete() {
            self.fetch()?;
            if let Some(problem) = self.problem() {
                return Err(Failure::new(format!(
                    "libtorch is still not whole: {problem}"
                )));
            }
        }
        self.lead_link()
    }

    /// What is wrong with the folder, if anything: the stamp is written last, and lists every file with its size.
    fn problem(&self) -> Option<String> {
        let stamp = match fs::read_to_string(self.folder.join(STAMP)) {
            Ok(stamp) => stamp,
            Err(err) => return Some(format!("{}: {err}", self.folder.join(STAMP).display())),
        };
        let Some(files) = files_of_stamp(&stamp, &self.lock) else {
            return Some("the stamp is of another version".to_owned());
        };
        files
            .into_iter()
            .find(|(path, size)| {
                fs::metadata(self.folder.join(path))
                    .map_or(true, |found| !found.is_file() || found.len() != *size)
            })
            .map(|(path, _)| format!("{path} is missing or has another size"))
    }

    fn fetch(&self) -> Result<()> {
        let python = python_with_pip()?;
        let name = self.folder.file_name().unwrap_or_default();
        let status = Command::new(python)
            // No compiled copies of our scripts in the repository.
            .args(["-B", "-u"])
            .arg(&self.script)
            .args([self.lock_path.as_os_str(), self.cache.as_os_str(), name])
            .status()
            .doing(|| format!("{python} cannot be started"))?;
        if status.success() {
            return Ok(());
        }
        if status.code().is_none() {
            return Err(Failure::new(
                "Fetching libtorch was stopped; the same command goes on from here",
            ));
        }
        Err(Failure::said(
            status
                .code()
                .and_then(|code| u8::try_from(code).ok())
                .unwrap_or(1),
        ))
    }

    /// Replaces the link in one step, so that a build that runs at this moment finds the old or the new folder.
    fn lead_link(&self) -> Result<()> {
        let Some(link) = &self.link else {
            return Ok(());
        };
        if fs::read_link(link).is_ok_and(|to| to == self.folder) {
            return Ok(());
        }
        let new = link.with_extension(format!("new-{}", std::process::id()));
        let made =
            std::os::unix::fs::symlink(&self.folder, &new).and_then(|()| fs::rename(&new, link));
        if made.is_err() {
            fs::remove_file(&new).ok(); // The error below is the one to tell.
        }
        made.doing(|| format!("The link {} cannot be made", link.display()))
    }
}

/// Where libtorch and other tools are kept.
pub fn cache_folder_of_the_user() -> Result<PathBuf> {
    let cache = cache_folder(|name| std::env::var_os(name)).ok_or_else(|| {
        Failure::new("There is no home folder to keep tools in: set SAFELIGHT_CACHE")
    })?;
    std::path::absolute(&cache).doing(|| cache.display().to_string())
}

/// `SAFELIGHT_CACHE`, else the user's cache folder. An empty variable counts as none, and so does a relative
/// `XDG_CACHE_HOME`, as its specification says.
fn cache_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let set = |name: &str| {
        variable(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    set("SAFELIGHT_CACHE")
        .or_else(|| {
            set("XDG_CACHE_HOME")
                .filter(|path| path.is_absolute())
                .map(|path| path.join("safelight"))
        })
        .or_else(|| set("HOME").map(|home| home.join(".cache/safelight")))
}

/// The files of a stamp with their sizes; none when it was made from another lock file or is damaged.
pub fn files_of_stamp<'a>(stamp: &'a str, lock: &str) -> Option<Vec<(&'a str, u64)>> {
    let lines = stamp.strip_prefix(lock)?.strip_prefix("files\n")?;
    let files: Option<Vec<_>> = lines
        .lines()
        .map(|line| {
            let mut words = line.splitn(3, ' ');
            let size = words.next()?.parse().ok()?;
            let _sha256 = words.next()?;
            Some((words.next()?, size))
        })
        .collect();
    files.filter(|files| !files.is_empty())
}

/// The first Python that has pip: inside a virtual environment made without pip, the system's one helps.
pub fn python_with_pip() -> Result<&'static str> {
    let has_pip = |python: &&str| {
        Command::new(python)
            .args(["-m", "pip", "--version"])
            .output()
            .is_ok_and(|output| output.status.success())
    };
    ["python3", "/usr/bin/python3", "python"].into_iter().find(has_pip).ok_or_else(|| {
        Failure::new("Fetching libtorch needs Python 3 with pip: install python3 and python3-pip, then run this again")
    })
}

pub fn pip_is_there() -> bool {
    python_with_pip().is_ok()
}

/// Whether a path is one that cargo's `[env]` gave us rather than the user.
pub fn is_our_link(workspace: &Workspace, path: &Path) -> bool {
    path == workspace.root().join(LINK)
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
