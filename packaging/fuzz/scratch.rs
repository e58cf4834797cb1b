//! The folder that files are written to so that the program's own readers can open them.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::cost::{self, Cost};

/// Zeros that take no room on the disk.
const MAX_SPARSE_BYTES: u64 = 1 << 40;

/// A folder of its own, gone with this value.
pub struct Scratch {
    folder: PathBuf,
    /// The most of each kind that one call took since this was asked.
    cost: Cell<Cost>,
}

impl Scratch {
    pub fn new() -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = home().join(format!("safelight-fuzz-{}-{number}", process::id()));
        Self::at(folder)
    }

    pub fn at(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        Ok(Self {
            folder,
            cost: Cell::default(),
        })
    }

    pub fn path(&self) -> &Path {
        &self.folder
    }

    /// Calls one function of the program, whose answer is no matter; what it costs is kept.
    pub fn call<T>(&self, function: impl FnOnce() -> T) -> T {
        let (answer, cost) = cost::of(function);
        self.cost.set(self.cost.get().max(cost));
        answer
    }

    /// What the dearest calls have cost since the last time.
    pub fn take_cost(&self) -> Cost {
        self.cost.take()
    }

    /// A file with these bytes; folders in its name are made.
    pub fn file(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        self.sparse_file(name, bytes, 0)
    }

    /// The same with zeros behind them.
    pub fn sparse_file(&self, name: &str, bytes: &[u8], zeros: u64) -> io::Result<PathBuf> {
        let path = self.folder.join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::create(&path)?;
        file.write_all(bytes)?;
        if zeros > 0 {
            file.set_len(bytes.len() as u64 + zeros.min(MAX_SPARSE_BYTES))?;
        }
        Ok(path)
    }

    /// A folder with the files that a text holds, each behind a line such as `=== vae/config.json`. Only names that are
    /// expected are taken.
    pub fn tree(&self, text: &[u8], names: &[&str]) -> io::Result<PathBuf> {
        let folder = self.folder.join("tree");
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let mut rest = text;
        while let Some((name, content, behind)) = next_file(rest) {
            rest = behind;
            if let Some(name) = names.iter().find(|known| known.as_bytes() == name) {
                self.file(&format!("tree/{name}"), content)?;
            }
        }
        Ok(folder)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // A folder in memory that stays behind is told of by its name.
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// In memory where the system has that.
pub fn home() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        memory.to_owned()
    } else {
        crate::corpus::package()
    }
}

const MARK: &[u8] = b"=== ";

/// The name, the content and what follows of the first file in a text.
fn next_file(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let text = text.strip_prefix(MARK)?;
    let end = text.iter().position(|byte| *byte == b'\n')?;
    let (name, content) = (&text[..end], &text[end + 1..]);
    let next = content
        .windows(MARK.len() + 1)
        .position(|window| window[0] == b'\n' && &window[1..] == MARK);
    match next {
        Some(at) => Some((name, &content[..at], &content[at + 1..])),
        None => Some((name, content, &[])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_a_folder_and_strange_names_are_left_out() {
        let scratch = Scratch::new().unwrap();
        let text = b"=== a.json\n{}\n=== ../b\nx\n=== c/d.txt\none\ntwo";
        let folder = scratch.tree(text, &["a.json", "c/d.txt", "e"]).unwrap();
        assert_eq!(fs::read(folder.join("a.json")).unwrap(), b"{}");
        assert_eq!(fs::read(folder.join("c/d.txt")).unwrap(), b"one\ntwo");
        assert!(!scratch.path().join("b").exists());
    }
}
