//! Header of one weight file, safetensors or GGUF, distinguished by its first bytes.
//!
//! Gives names, shapes, types and byte ranges for both. [`safetensors`] and [`gguf`] read the formats.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::{fmt, io};

use ::safetensors::Dtype;
use thiserror::Error;

use super::gguf::{self, BlockType};
use super::quant::{self, QuantFormat};
use super::safetensors;
use crate::files::open_regular;

/// Error of a header. The caller knows the path.
#[derive(Debug, Error)]
pub enum HeaderError {
    #[error("{0}")]
    Io(#[from] io::Error),
    #[error("{0}")]
    Unsound(String),
    /// Sound, and stored in a way that cannot be read.
    #[error("{reason}")]
    Unsupported {
        reason: String,
        advice: &'static str,
    },
}

/// Advice for a header beyond a limit, which a new download does not change.
pub(super) const TOO_LARGE: &str = "Safelight's limits are far beyond every known model: get the file from another source, or another file of the model";

/// Storage of a tensor's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorType {
    /// Each element separately.
    Plain(Dtype),
    /// In GGUF's blocks, which share a scale.
    Blocks(BlockType),
    /// Codes with scales in tensors next to them.
    Quant(QuantFormat),
    /// In blocks of GGUF, by name, that this version cannot expand.
    Foreign(&'static str),
}

impl TensorType {
    pub fn plain(self) -> Option<Dtype> {
        match self {
            Self::Plain(dtype) => Some(dtype),
            _ => None,
        }
    }

    pub fn blocks(self) -> Option<BlockType> {
        match self {
            Self::Blocks(block) => Some(block),
            _ => None,
        }
    }

    pub fn quant(self) -> Option<QuantFormat> {
        match self {
            Self::Quant(format) => Some(format),
            _ => None,
        }
    }
}

impl PartialEq<Dtype> for TensorType {
    fn eq(&self, dtype: &Dtype) -> bool {
        self.plain() == Some(*dtype)
    }
}

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(dtype) => dtype.fmt(f),
            Self::Blocks(block) => f.write_str(block.name()),
            Self::Quant(format) => f.write_str(format.codes.label()),
            Self::Foreign(name) => f.write_str(name),
        }
    }
}

/// One tensor: its numbers' type, its sizes as PyTorch has them, and its bytes in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorInfo {
    pub dtype: TensorType,
    pub shape: Vec<u64>,
    /// From the start of the file.
    pub start: u64,
    pub bytes: u64,
}

/// The checked header of one file: every tensor is within the file, and none overlaps another.
#[derive(Debug)]
pub struct WeightHeader {
    /// By name; types that this version cannot expand are among them.
    pub(super) tensors: BTreeMap<String, TensorInfo>,
    /// Short texts of the file about itself.
    pub notes: BTreeMap<String, String>,
    pub file_bytes: u64,
    /// Noun phrases for quantized matrices that cannot be read, by name.
    pub faults: BTreeMap<String, String>,
    pub gguf: Option<gguf::GgufMetadata>,
}

impl WeightHeader {
    /// Opens `path`, which must be a regular file, and reads its header.
    pub fn open(path: &Path) -> Result<(File, Self), HeaderError> {
        let file = open_regular(path)?;
        let mut magic = [0; 4];
        let is_gguf = file.read_exact_at(&mut magic, 0).is_ok() && magic == gguf::MAGIC;
        let header = if is_gguf {
            gguf::read_header(&file)?
        } else {
            let mut header = safetensors::read_header(&file)?;
            quant::mark(&file, &mut header);
            header
        };
        Ok((file, header))
    }

    /// All tensors, sorted by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &TensorInfo)> + Clone {
        self.tensors
            .iter()
            .map(|(name, info)| (name.as_str(), info))
    }

    pub fn info(&self, name: &str) -> Option<&TensorInfo> {
        self.tensors.get(name)
    }

    pub fn data_bytes(&self) -> u64 {
        self.tensors.values().map(|info| info.bytes).sum()
    }
}
