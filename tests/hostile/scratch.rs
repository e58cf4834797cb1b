//! Temporary folder for the files that readers open.

use std::cell::Cell;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::cost::{self, Cost};

/// Largest sparse file.
const MAX_SPARSE_BYTES: u64 = 1 << 40;

pub struct Scratch {
    folder: TempDir,
    /// Largest costs of a call since the last [`Scratch::take_cost`].
    cost: Cell<Cost>,
}

impl Scratch {
    /// In memory where the system has that.
    pub fn new() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        Ok(Self {
            folder: tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir())?,
            cost: Cell::default(),
        })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Calls one function of the program and records its cost.
    pub fn call<T>(&self, function: impl FnOnce() -> T) -> T {
        let (answer, cost) = cost::of(function);
        self.cost.set(self.cost.get().max(cost));
        answer
    }

    /// Returns the largest costs since the last call and resets them.
    pub fn take_cost(&self) -> Cost {
        self.cost.take()
    }

    /// Writes a file, with the folders in its name.
    pub fn file(&self, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
        self.sparse_file(name, bytes, 0)
    }

    /// Writes a file with zeros appended that use no disk space.
    pub fn sparse_file(&self, name: &str, bytes: &[u8], zeros: u64) -> io::Result<PathBuf> {
        let path = self.path().join(name);
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

    /// Writes a folder of the files in `text`, each after a line such as `=== vae/config.json`. Other names than `names`
    /// are ignored.
    pub fn tree(&self, text: &[u8], names: &[&str]) -> io::Result<PathBuf> {
        let folder = self.path().join("tree");
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

const MARK: &[u8] = b"=== ";

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
