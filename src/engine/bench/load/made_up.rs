//! A safetensors file of any size, made to be loaded once and removed with its owner.

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// As a layer of a large network.
pub(super) const LARGE_BYTES: u64 = 64 << 20;
pub(super) const TINY_BYTES: u64 = 256 << 10;

/// What a piece of the numbers of a network has, and a little more: no two matrices are alike.
const NETWORK_PIECE_BYTES: usize = (32 << 20) + 2 * 1013;

pub struct File(PathBuf);

impl File {
    /// Numbers in bf16, `tensor_bytes` each but for the last.
    pub(super) fn make(bytes: u64, tensor_bytes: u64) -> io::Result<Self> {
        let starts = (0..bytes).step_by(tensor_bytes as usize).enumerate();
        let tensors = starts.map(|(number, start)| {
            let count = (bytes - start).min(tensor_bytes) / 2;
            (format!("blocks.{number}.weight"), vec![count as i64])
        });
        // Numbers that no disk can pack: all differ.
        let mut numbers = Numbers::new();
        let mut piece = vec![0; 1 << 20];
        let made = Self::write(&tensors.collect::<Vec<_>>(), bytes as usize, |file, len| {
            numbers.fill(&mut piece);
            file.write_all(&piece[..len.min(piece.len())])?;
            Ok(len.min(piece.len()))
        })?;
        // What is not on the disk yet cannot be dropped from page cache.
        fs::File::open(made.path())?.sync_all()?;
        Ok(made)
    }

    /// The tensors of a network in bf16, of small numbers of both signs.
    pub fn of_network(tensors: &[(String, Vec<i64>)]) -> io::Result<Self> {
        let mut piece = vec![0; NETWORK_PIECE_BYTES.next_multiple_of(8)];
        Numbers::new().fill(&mut piece);
        for number in piece.chunks_exact_mut(2) {
            // Sign and mantissa stay: from 1/128 to 1/64.
            number[1] = number[1] & 0x80 | 0x3c;
            number[0] &= 0x7f;
        }
        piece.truncate(NETWORK_PIECE_BYTES);
        let count: i64 = tensors
            .iter()
            .map(|(_, shape)| shape.iter().product::<i64>())
            .sum();
        Self::write(tensors, 2 * count as usize, |file, len| {
            file.write_all(&piece[..len.min(piece.len())])?;
            Ok(len.min(piece.len()))
        })
    }

    /// `fill` writes some of so many bytes and says how many.
    fn write(
        tensors: &[(String, Vec<i64>)],
        bytes: usize,
        mut fill: impl FnMut(&mut BufWriter<fs::File>, usize) -> io::Result<usize>,
    ) -> io::Result<Self> {
        let mut header = String::from("{");
        let mut start = 0;
        for (number, (name, shape)) in tensors.iter().enumerate() {
            let end = start + 2 * shape.iter().product::<i64>();
            let comma = if number == 0 { "" } else { "," };
            write!(
                header,
                r#"{comma}"{name}":{{"dtype":"BF16","shape":{shape:?},"data_offsets":[{start},{end}]}}"#
            )
            .map_err(io::Error::other)?;
            start = end;
        }
        header.push('}');
        while header.len() % 8 != 0 {
            header.push(' ');
        }
        let name = format!(
            "safelight-bench-{}-{}.safetensors",
            std::process::id(),
            tensors.len()
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
        let mut left = bytes;
        while left > 0 {
            left -= fill(&mut file, left)?;
        }
        file.flush()?;
        Ok(made)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for File {
    fn drop(&mut self) {
        fs::remove_file(&self.0).ok(); // Nothing else can be done about it.
    }
}

/// The same numbers in every run, none like the one before.
struct Numbers(u64);

impl Numbers {
    fn new() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for word in bytes.chunks_exact_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            word.copy_from_slice(&self.0.to_le_bytes());
        }
    }
}
