//! Errors of weight files. The caller adds what to do next.

use std::cell::Cell;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::formats::weights::header::HeaderError;
use safelight_core::model::CatalogError;
use thiserror::Error;

#[derive(Debug, Error)]
pub enum WeightsError {
    /// Error of a file in the catalogue's words.
    #[error(transparent)]
    File(#[from] CatalogError),
    #[error("tensor '{key}' is missing, expected shape {expected:?}, {found}: {}", path.display())]
    MissingKey {
        key: String,
        expected: Vec<i64>,
        found: String,
        path: PathBuf,
    },
    #[error("tensor '{key}' has the wrong shape, expected {expected:?}, found {found:?}: {}", path.display())]
    WrongShape {
        key: String,
        expected: Vec<i64>,
        found: Vec<i64>,
        path: PathBuf,
    },
    #[error("tensor '{key}' is stored as {dtype}, which cannot be used as a plain number: {}", path.display())]
    UnsupportedDtype {
        key: String,
        dtype: String,
        path: PathBuf,
    },
    #[error("tensor '{key}' is no scale of a matrix, expected one finite number: {}", path.display())]
    Scale { key: String, path: PathBuf },
    #[error("cannot load tensor '{key}': {source}: {}", path.display())]
    Tensor {
        key: String,
        source: tch::TchError,
        path: PathBuf,
    },
}

impl WeightsError {
    pub(crate) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        move |source| CatalogError::io(source, path).into()
    }

    pub(crate) fn header(reason: impl Into<String>, path: &Path) -> Self {
        CatalogError::of_header(HeaderError::Unsound(reason.into()), path).into()
    }

    pub(crate) fn tensor(key: &str, path: &Path) -> impl Fn(tch::TchError) -> Self {
        move |source| Self::Tensor {
            key: key.to_owned(),
            source,
            path: path.to_owned(),
        }
    }
}

/// A failure in the middle of a product, which has no other way to say so: [`Weights`](crate::weights::Weights) unwinds
/// with it. The first caller takes the error.
pub struct StreamFailure(pub(crate) Cell<Option<WeightsError>>);
