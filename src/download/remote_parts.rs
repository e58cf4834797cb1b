//! Parts of one file, such as members of an archive: only their pieces are downloaded, and stay for the next attempt.
//!
//! The file is next to its final name, with holes; it is complete only if its server supports no ranges.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::sync::Arc;

use safelight_core::job::CancelToken;

use super::partial::PartialFile;
use super::server::RemoteServer;
use super::{DownloadError, DownloadItem, DownloadOptions, ResolvedItem, ask, check, transfer};

/// A file of which some parts are here.
pub struct RemoteParts {
    one: Arc<ResolvedItem>,
    remote: Arc<RemoteServer>,
    partial: Arc<PartialFile>,
    options: DownloadOptions,
}

impl RemoteParts {
    /// Requests the file's size and continues an earlier attempt; `None` when cancelled.
    pub fn open(
        order: &DownloadItem,
        options: &DownloadOptions,
        cancel: &CancelToken,
    ) -> Result<Option<Self>, DownloadError> {
        let remote = Arc::new(RemoteServer::new(options));
        let Some(one) = ask(order, &remote, options, cancel)? else {
            return Ok(None);
        };
        let partial = PartialFile::open(&order.to, &one.remote, options.piece_bytes)?;
        Ok(Some(Self {
            one: Arc::new(one),
            remote,
            partial: Arc::new(partial),
            options: options.clone(),
        }))
    }

    /// Of the whole file.
    pub fn bytes(&self) -> u64 {
        self.one.remote.bytes
    }

    /// Of the pieces that are here.
    pub fn here_bytes(&self) -> u64 {
        self.partial.bytes()
    }

    /// Bytes to download for these spans.
    pub fn missing_bytes(&self, spans: &[(u64, u64)]) -> u64 {
        let missing = self.pieces_of(spans).into_iter();
        let spans = missing.filter_map(|piece| self.partial.missing(piece));
        spans.map(|(start, end)| end - start).sum()
    }

    /// Downloads the pieces of these spans; `None` when cancelled. `report` receives the number of downloaded bytes of
    /// the file.
    pub fn bring(
        &self,
        spans: &[(u64, u64)],
        cancel: &CancelToken,
        report: &mut dyn FnMut(u64),
    ) -> Result<Option<()>, DownloadError> {
        let mut wanted = self.pieces_of(spans);
        wanted.retain(|piece| self.partial.missing(*piece).is_some());
        if wanted.is_empty() {
            return Ok(Some(()));
        }
        transfer::run(
            &self.partial,
            &self.one,
            &self.remote,
            &self.options,
            wanted,
            cancel,
            report,
        )
    }

    /// The bytes of a span that was brought.
    pub fn read(&self, start: u64, end: u64) -> Result<Vec<u8>, DownloadError> {
        let mut bytes = vec![0; end.saturating_sub(start) as usize];
        let read = self.partial.file().read_exact_at(&mut bytes, start);
        read.map_err(|source| DownloadError::disk(&source, self.path()))?;
        Ok(bytes)
    }

    /// Has holes where nothing was brought.
    pub fn file(&self) -> &File {
        self.partial.file()
    }

    /// Compares a file that came as a whole with its checksum; one with holes passes. A damaged one is thrown away.
    /// `None` when cancelled.
    pub fn compare(
        &self,
        expected: &str,
        cancel: &CancelToken,
    ) -> Result<Option<()>, DownloadError> {
        if self.partial.bytes() < self.bytes() {
            return Ok(Some(()));
        }
        let sum = check::sha256(self.partial.file(), cancel);
        let sum = sum.map_err(|source| DownloadError::disk(&source, self.path()))?;
        match sum {
            None => Ok(None),
            Some(found) if found == expected => Ok(Some(())),
            Some(found) => {
                self.discard();
                Err(DownloadError::damaged(
                    &found,
                    expected,
                    &self.one.order.url,
                ))
            }
        }
    }

    /// Throws away what has come.
    pub fn discard(&self) {
        self.partial.discard();
    }

    fn path(&self) -> &Path {
        &self.one.order.to
    }

    /// Each once, in order.
    fn pieces_of(&self, spans: &[(u64, u64)]) -> Vec<u64> {
        let mut pieces: Vec<u64> = spans
            .iter()
            .flat_map(|&(start, end)| self.partial.pieces_between(start, end))
            .collect();
        pieces.sort_unstable();
        pieces.dedup();
        pieces
    }
}

/// A page of text, such as a list of files; `None` when cancelled.
pub fn page(
    url: &str,
    options: &DownloadOptions,
    cancel: &CancelToken,
) -> Result<Option<String>, DownloadError> {
    let remote = RemoteServer::new(options);
    let mut failures = 0;
    loop {
        if cancel.is_cancelled() {
            return Ok(None);
        }
        match remote.page(url) {
            Err(err) if err.retry_reason().is_some() && failures < options.retries => {
                failures += 1;
                options.wait_after(failures, || cancel.is_cancelled());
            }
            answer => return answer.map(Some),
        }
    }
}

/// Fails if a disk lacks room for these additional bytes below a folder.
pub fn ensure_room(folder: &Path, bytes: u64) -> Result<(), DownloadError> {
    check::space(std::iter::once((folder.join("file").as_path(), bytes)))
}
