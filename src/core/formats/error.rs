//! Errors of model files and of the catalogue.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::weights::HeaderError;
use crate::files::{FileError, has_ending};
use crate::units::size_text;

#[derive(Debug, Error)]
pub enum CatalogError {
    /// Neither an id nor something on the disk.
    #[error("there is no model '{name}'; available: {known}")]
    Unknown { name: String, known: String },
    /// No network for something else than making, by this name. `what`: networks of which kind.
    #[error("none of the {what} here is called '{name}'; available: {known}")]
    UnknownNetwork {
        what: &'static str,
        name: String,
        known: String,
    },
    /// Known, but not on the disk.
    #[error("{name} is not downloaded: it needs {what}{}", and_size(*bytes))]
    NotHere {
        name: String,
        what: String,
        /// 0 where it is not known.
        bytes: u64,
    },
    #[error("there is no file or folder here: {}", path.display())]
    NoSuchPath { path: PathBuf },
    #[error("this folder has no model_index.json and no transformer's file: {}", path.display())]
    NoModel { path: PathBuf },
    #[error("{what} is missing: {}", path.display())]
    Missing { what: String, path: PathBuf },
    /// A file that only goes with a transformer.
    #[error("this is {what} alone: choose the transformer that it goes with: {}", path.display())]
    PartAlone { what: String, path: PathBuf },
    /// A component that a single file does not contain was not found in any searched folder.
    #[error("{what} is missing, such as {example}; looked in {looked}: {}", path.display())]
    MissingCompanion {
        what: String,
        example: &'static str,
        looked: String,
        path: PathBuf,
    },
    /// Several of them.
    #[error("missing beside this model: {} looked in {looked}: {}", listed(parts), path.display())]
    MissingCompanions {
        /// Each with the file to get.
        parts: Vec<(String, &'static str)>,
        looked: String,
        path: PathBuf,
    },
    /// A component that is of another model.
    #[error("the model needs {what}, such as {example}, not {found}: {}", path.display())]
    WrongCompanion {
        what: String,
        example: &'static str,
        found: String,
        path: PathBuf,
    },
    /// One of two experts is not there, or is of another kind.
    #[error("{reason}: {}", path.display())]
    Expert { reason: String, path: PathBuf },
    #[error("cannot read: {source}: {}", path.display())]
    Io { source: io::Error, path: PathBuf },
    /// A file that says something about a model, not its weights.
    #[error("{reason}: {}", path.display())]
    Config { reason: String, path: PathBuf },
    #[error("this {} file is damaged: {reason}: {}", format_name(path), path.display())]
    Weights { reason: String, path: PathBuf },
    /// A sound file that is not weights, or is stored in a way that cannot be read.
    #[error("{reason}: {}", path.display())]
    WrongFile {
        reason: String,
        advice: &'static str,
        path: PathBuf,
    },
    #[error(
        "this is a pickle file, which can run code when opened: use {instead} instead: {}",
        path.display()
    )]
    Pickle { instead: String, path: PathBuf },
    #[error("tensor '{key}' is missing, expected the shape {expected:?}: {}", path.display())]
    MissingTensor {
        key: String,
        expected: Vec<u64>,
        path: PathBuf,
    },
    #[error(
        "tensor '{key}' has the wrong shape, expected {expected:?}, found {found:?}: {}",
        path.display()
    )]
    WrongShape {
        key: String,
        expected: Vec<u64>,
        found: Vec<u64>,
        path: PathBuf,
    },
    /// A LoRA that is none, or that is for another model.
    #[error("{reason}: {}", path.display())]
    Lora { reason: String, path: PathBuf },
    /// Sound as far as anyone knows, but not for this version.
    #[error("Safelight cannot run {what}: {}", path.display())]
    Unsupported { what: String, path: PathBuf },
    /// A catalogue file that is not right.
    #[error(transparent)]
    Catalogue(FileError),
}

impl CatalogError {
    pub fn config(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (reason, path) = (reason.into(), path.into());
        Self::Config { reason, path }
    }

    /// Of a file that says something about a model, and is to be downloaded again.
    pub fn damaged(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::WrongFile {
            reason: reason.into(),
            advice: "The download may be incomplete: download this file again",
            path: path.into(),
        }
    }

    pub fn missing(what: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (what, path) = (what.into(), path.into());
        Self::Missing { what, path }
    }

    pub fn unsupported(what: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (what, path) = (what.into(), path.into());
        Self::Unsupported { what, path }
    }

    pub fn expert(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (reason, path) = (reason.into(), path.into());
        Self::Expert { reason, path }
    }

    pub fn lora(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let (reason, path) = (reason.into(), path.into());
        Self::Lora { reason, path }
    }

    pub fn io(source: io::Error, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self::Io { source, path }
    }

    /// Error of a weight file's header.
    pub fn of_header(err: HeaderError, path: &Path) -> Self {
        match err {
            HeaderError::Io(source) => Self::io(source, path),
            HeaderError::Unsound(reason) => Self::Weights {
                reason,
                path: path.to_owned(),
            },
            HeaderError::Unsupported { reason, advice } => Self::WrongFile {
                reason,
                advice,
                path: path.to_owned(),
            },
        }
    }

    /// Of a place whose reading failed: `what` is missing where nothing is there.
    pub(crate) fn unread(what: &str, source: io::Error, path: &Path) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::missing(what, path),
            _ => Self::io(source, path),
        }
    }
}

impl CatalogError {
    /// Path of the error.
    pub(crate) fn path(&self) -> Option<&Path> {
        match self {
            Self::Unknown { .. } | Self::UnknownNetwork { .. } | Self::NotHere { .. } => None,
            Self::NoSuchPath { path }
            | Self::NoModel { path }
            | Self::Missing { path, .. }
            | Self::PartAlone { path, .. }
            | Self::MissingCompanion { path, .. }
            | Self::MissingCompanions { path, .. }
            | Self::WrongCompanion { path, .. }
            | Self::Expert { path, .. }
            | Self::Io { path, .. }
            | Self::Config { path, .. }
            | Self::Weights { path, .. }
            | Self::WrongFile { path, .. }
            | Self::Pickle { path, .. }
            | Self::MissingTensor { path, .. }
            | Self::WrongShape { path, .. }
            | Self::Lora { path, .. }
            | Self::Unsupported { path, .. } => Some(path),
            Self::Catalogue(err) => Some(err.path()),
        }
    }
}

/// Parts with the file to get for each, as people list them.
fn listed(parts: &[(String, &'static str)]) -> String {
    let one = |(what, example): &(String, &str)| format!("{what}, such as {example}");
    let all: Vec<String> = parts.iter().map(one).collect();
    match &all[..] {
        [rest @ .., last] if !rest.is_empty() => format!("{}; and {last};", rest.join("; ")),
        _ => all.concat(),
    }
}

/// The format that a weight file is by its name.
fn format_name(path: &Path) -> &'static str {
    if has_ending(path, &["gguf"]) {
        "GGUF"
    } else {
        "safetensors"
    }
}

fn and_size(bytes: u64) -> String {
    if bytes == 0 {
        String::new()
    } else {
        format!(", {}", size_text(bytes))
    }
}
