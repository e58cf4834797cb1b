//! A safetensors file of any size, made to be loaded once and removed with its owner.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// As a layer of a large network.
pub(super) const LARGE_BYTES: u64 = 64 << 20;
pub(super) const TINY_BYTES: u64 = 256 << 10;

pub(super) struct File(PathBuf);

impl File {
    /// Numbers in bf16, `tensor_bytes` each but for the last.
    pub(super) fn make(bytes: u64, tensor_bytes: u64) -> io::Result<Self> {
        let mut header = String::from("{");
        let mut start = 0;
        while start < bytes {
            let end = bytes.min(start + tensor_bytes);
            let number = start / tensor_bytes;
            let comma = if number == 0 { "" } else { "," };
            let count = (end - start) / 2;
            write!(
                header,
                r#"{comma}"blocks.{number}.weight":{{"dtype":"BF16","shape":[{count}],"data_offsets":[{start},{end}]}}"#
            )
            .map_err(io::Error::other)?;
            start = end;
        }
        header.push('}');
        while header.len() % 8 != 0 {
            header.push(' ');
        }
        let name = format!(
            "safelight-bench-{}-{tensor_bytes}.safetensors",
            std::process::id()
        );
        #[expect(
            clippy::disallowed_methods,
            reason = "measured where the system keeps its own short-lived files, and removed when dropped"
        )]
        let path = std::env::temp_dir().join(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?;
        let made = Self(path);
        let mut file = BufWriter::with_capacity(16 << 20, file);
        file.write_all(&(header.len() as u64).to_le_bytes())?;
        file.write_all(header.as_bytes())?;
        // Numbers that no disk can pack: all differ.
        let mut piece = vec![0; 1 << 20];
        let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
        let mut left = bytes as usize;
        while left > 0 {
            for word in piece.chunks_exact_mut(8) {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                word.copy_from_slice(&seed.to_le_bytes());
            }
            let len = left.min(piece.len());
            file.write_all(&piece[..len])?;
            left -= len;
        }
        // What is not on the disk yet cannot be dropped from page cache.
        file.into_inner().map_err(io::Error::other)?.sync_all()?;
        Ok(made)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok(); // Nothing else can be done about it.
    }
}
