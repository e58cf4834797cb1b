//! Errors of model files and of the catalogue.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use super::weights::HeaderError;
use crate::files::{FileError, has_ending};

#[derive(Debug, Error)]
pub enum CatalogError {
    /// A request that no file is at fault for.
    #[error("{reason}")]
    Request {
        reason: String,
        advice: &'static str,
    },
    #[error("there is no file or folder here: {}", path.display())]
    NoSuchPath { path: PathBuf },
    #[error("this folder has no model_index.json and no transformer's file: {}", path.display())]
    NoModel { path: PathBuf },
    #[error("{what} is missing: {}", path.display())]
    Missing { what: String, path: PathBuf },
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
        /// Its storage cannot be read.
        is_unreadable: bool,
        path: PathBuf,
    },
    /// One of two experts is not there, or is of another kind.
    #[error("{reason}: {}", path.display())]
    Expert { reason: String, path: PathBuf },
    #[error("cannot read: {source}: {}", path.display())]
    Io { source: io::Error, path: PathBuf },
    /// A file that is damaged, of another kind, or stored in a way that cannot be read.
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
    /// Sound as far as anyone knows, but not for this version.
    #[error("Safelight cannot run {what}: {}", path.display())]
    Unsupported { what: String, path: PathBuf },
    /// A catalogue file that is not right.
    #[error(transparent)]
    Catalogue(FileError),
}

impl CatalogError {
    /// Error of a config or another file next to the weights, without advice.
    pub fn config(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::wrong_file(reason, "", path)
    }

    /// Error of a file that is to be downloaded again.
    pub fn damaged(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        let advice = "The download may be incomplete: download this file again";
        Self::wrong_file(reason, advice, path)
    }

    /// Error of a LoRA that is none, or that is for another model.
    pub fn lora(reason: impl Into<String>, path: impl Into<PathBuf>) -> Self {
        Self::wrong_file(reason, "Choose a LoRA of a model that Safelight runs", path)
    }

    /// Of a tensor that is missing or has another shape.
    pub(crate) fn tensor(reason: String, path: PathBuf) -> Self {
        let is_alone = path.is_file() && !path.with_file_name("config.json").exists();
        let advice = if is_alone {
            "This file is a part of a model, or of another version of it: get the whole model from where it was published"
        } else {
            "The weights and their config.json do not belong together: download both again from the same place"
        };
        Self::wrong_file(reason, advice, path)
    }

    pub(crate) fn wrong_file(
        reason: impl Into<String>,
        advice: &'static str,
        path: impl Into<PathBuf>,
    ) -> Self {
        let (reason, path) = (reason.into(), path.into());
        Self::WrongFile {
            reason,
            advice,
            path,
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

    pub fn io(source: io::Error, path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self::Io { source, path }
    }

    /// Error of a weight file's header.
    pub fn of_header(err: HeaderError, path: &Path) -> Self {
        match err {
            HeaderError::Io(source) => Self::io(source, path),
            HeaderError::Unsound(reason) => {
                let format = if has_ending(path, &["gguf"]) {
                    "GGUF"
                } else {
                    "safetensors"
                };
                Self::wrong_file(
                    format!("this {format} file is damaged: {reason}"),
                    "The download may be incomplete: download this file again. If that changes nothing, the published file is wrong: get another one",
                    path,
                )
            }
            HeaderError::Unsupported { reason, advice } => Self::wrong_file(reason, advice, path),
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
            Self::Request { .. } => None,
            Self::NoSuchPath { path }
            | Self::NoModel { path }
            | Self::Missing { path, .. }
            | Self::MissingCompanion { path, .. }
            | Self::MissingCompanions { path, .. }
            | Self::WrongCompanion { path, .. }
            | Self::Expert { path, .. }
            | Self::Io { path, .. }
            | Self::WrongFile { path, .. }
            | Self::Pickle { path, .. }
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
