//! Download of one file's pieces over several connections; each resumes after an error.

use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use safelight_core::job::CancelToken;

use super::partial::PartialFile;
use super::server::RemoteServer;
use super::{DownloadError, DownloadOptions, LOOK_EVERY, ResolvedItem};

/// Interval of writing the note: later bytes are downloaded again after a crash.
const NOTE_EVERY: Duration = Duration::from_secs(5);
/// Time for connections to end; silent ones run into their timeout.
const GRACE: Duration = Duration::from_millis(100);
const BUFFER_BYTES: usize = 256 << 10;
const EARLY: &str = "it ended early";

struct SharedTransfer {
    partial: Arc<PartialFile>,
    one: Arc<ResolvedItem>,
    remote: Arc<RemoteServer>,
    options: DownloadOptions,
    cancel: CancelToken,
    /// Those that are fetched, in this order.
    pieces: Vec<u64>,
    next: AtomicUsize,
    /// Set when one connection gave up, so that the others do too.
    is_over: AtomicBool,
}

/// Fetches what is missing of these pieces; `None` when cancelled. `report` hears how many bytes are there.
pub(super) fn run(
    partial: &Arc<PartialFile>,
    one: &Arc<ResolvedItem>,
    remote: &Arc<RemoteServer>,
    options: &DownloadOptions,
    pieces: Vec<u64>,
    cancel: &CancelToken,
    report: &mut dyn FnMut(u64),
) -> Result<Option<()>, DownloadError> {
    let shared = Arc::new(SharedTransfer {
        partial: Arc::clone(partial),
        one: Arc::clone(one),
        remote: Arc::clone(remote),
        options: options.clone(),
        cancel: cancel.clone(),
        pieces,
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
    });
    let disk = |source| DownloadError::disk(&source, &one.order.to);
    let connections = if one.remote.has_pieces {
        options.connections.max(1).min(shared.pieces.len().max(1))
    } else {
        1
    };
    let (ended, ends) = bounded(connections);
    for _ in 0..connections {
        let (of_thread, ended) = (Arc::clone(&shared), ended.clone());
        let spawned = thread::Builder::new()
            .name("download".to_owned())
            .spawn(move || work(&of_thread, &ended));
        if let Err(source) = spawned {
            shared.is_over.store(true, Ordering::Relaxed);
            return Err(disk(source));
        }
    }
    drop(ended);
    let result = watch(&shared, &ends, report);
    let mut pieces = shared.pieces.iter();
    let is_whole = pieces.all(|&piece| partial.missing(piece).is_none());
    if result.is_ok() && is_whole {
        // The next attempt continues from here if there is no time for the checksum.
        partial.save().map_err(disk)?;
        return Ok(Some(()));
    }
    partial.close().map_err(disk)?;
    result?;
    if cancel.is_cancelled() {
        return Ok(None);
    }
    Err(shared.broken(EARLY))
}

/// Reports until all connections have ended, or until those that are left do not count any more. The first error is
/// the one that counts.
fn watch(
    shared: &SharedTransfer,
    ends: &Receiver<Result<(), DownloadError>>,
    report: &mut dyn FnMut(u64),
) -> Result<(), DownloadError> {
    let mut result = Ok(());
    let mut noted = Instant::now();
    let mut stopped: Option<Instant> = None;
    loop {
        match ends.recv_timeout(LOOK_EVERY) {
            Ok(Ok(())) | Err(RecvTimeoutError::Timeout) => {}
            Ok(Err(err)) => {
                shared.is_over.store(true, Ordering::Relaxed);
                result = result.and(Err(err));
            }
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if shared.is_stopped() && stopped.get_or_insert_with(Instant::now).elapsed() > GRACE {
            break;
        }
        report(shared.partial.bytes());
        if noted.elapsed() > NOTE_EVERY {
            // A note that cannot be written costs what it tells of; a full disk is seen by the writers.
            shared.partial.save().ok();
            noted = Instant::now();
        }
    }
    report(shared.partial.bytes());
    result
}

fn work(shared: &SharedTransfer, ended: &Sender<Result<(), DownloadError>>) {
    let mut result = Ok(());
    while result.is_ok() && !shared.is_stopped() {
        let next = shared.next.fetch_add(1, Ordering::Relaxed);
        let Some(&piece) = shared.pieces.get(next) else {
            break;
        };
        result = shared.fetch_piece(piece);
    }
    ended.send(result).ok(); // Nobody listens any more only when all is over.
}

impl SharedTransfer {
    fn is_stopped(&self) -> bool {
        self.cancel.is_cancelled() || self.is_over.load(Ordering::Relaxed)
    }

    fn broken(&self, reason: &str) -> DownloadError {
        DownloadError::broken(reason, &self.one.order.url)
    }

    /// Fetches a piece, again and again while something of it comes.
    fn fetch_piece(&self, piece: u64) -> Result<(), DownloadError> {
        let mut failures = 0;
        while let Some((start, end)) = self.partial.missing(piece) {
            if self.is_stopped() {
                return Ok(());
            }
            let before = start;
            let tried = self.try_piece(piece, (start, end));
            let is_stuck = self
                .partial
                .missing(piece)
                .is_some_and(|(now, _)| now == before);
            failures = if is_stuck { failures + 1 } else { 0 };
            match tried {
                Ok(()) if !is_stuck => {}
                Err(err) if err.retry_reason().is_none() => return Err(err),
                tried if failures > self.options.retries => {
                    let err = tried.err();
                    let reason = err.as_ref().and_then(DownloadError::retry_reason);
                    return Err(self.broken(reason.unwrap_or(EARLY)));
                }
                _ => self.options.wait_after(failures, || self.is_stopped()),
            }
        }
        Ok(())
    }

    fn try_piece(&self, piece: u64, (start, end): (u64, u64)) -> Result<(), DownloadError> {
        let url = &self.one.order.url;
        // A server without pieces begins at the beginning; what is there already is passed over.
        let (from, to) = match &self.one.remote {
            remote if remote.has_pieces => (start, end),
            remote => (0, remote.bytes),
        };
        let mut reader = self.remote.read(url, &self.one.remote, (from, to))?;
        let mut buffer = vec![0; BUFFER_BYTES];
        let mut at = from;
        while at < end && !self.is_stopped() {
            let wanted = BUFFER_BYTES.min((end - at) as usize);
            let len = match reader.read(&mut buffer[..wanted]) {
                // It ended early: the next attempt says whether that is a habit.
                Ok(0) => return Ok(()),
                Ok(len) => len,
                Err(err) => return Err(DownloadError::unreachable(err.to_string(), url)),
            };
            let new = (start.saturating_sub(at) as usize).min(len);
            let bytes = &buffer[new..len];
            let written = self.partial.write(piece, at + new as u64, bytes);
            written.map_err(|source| DownloadError::disk(&source, &self.one.order.to))?;
            at += len as u64;
        }
        Ok(())
    }
}
