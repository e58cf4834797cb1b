//! Download items of a catalogue model, and conversion of download errors to job errors.

use std::path::{Path, PathBuf};

use safelight_core::catalog::CatalogEntry;
use safelight_core::job::{JobError, JobErrorKind};

use super::{DownloadError, DownloadErrorKind, ModelHub};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DownloadItem {
    pub url: String,
    /// Destination. Folders are created.
    pub to: PathBuf,
    /// Size in the catalogue: a server's file of another size is not this one.
    pub bytes: Option<u64>,
}

/// The files of a model that are not here in any form, below a folder for models.
pub fn orders(entry: &CatalogEntry, hub: &ModelHub, models: &Path) -> Vec<DownloadItem> {
    let orders = entry.to_fetch().map(|source| DownloadItem {
        url: hub.url(&source.repository, &source.path),
        to: source.place_below(models),
        bytes: source.bytes,
    });
    orders.collect()
}

impl From<&DownloadError> for JobError {
    fn from(err: &DownloadError) -> Self {
        let (kind, advice) = match err.kind {
            DownloadErrorKind::Unreachable(_) => (
                JobErrorKind::Network,
                "Check that this computer is online, and try again",
            ),
            DownloadErrorKind::NoSpace => (
                JobErrorKind::Disk,
                "Free some space there, or choose another folder",
            ),
            DownloadErrorKind::Disk => (JobErrorKind::Disk, ""),
            _ => (JobErrorKind::Network, ""),
        };
        Self::from_error(kind, err).advise(advice)
    }
}
