//! Downloads of models' missing files and of members of wheels: resumable, over several connections, verified by the
//! server's checksum, and complete or absent.
//!
//! Downloads only on request. The catalogue lists a model's files; the window and the command line choose them. Blocks:
//! call it from a separate thread.

mod check;
mod error;
mod hub;
mod item;
mod partial;
mod remote_parts;
mod server;
mod speed;
#[cfg(test)]
pub(crate) mod tests;
mod transfer;
mod trust;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, bounded};
use safelight_core::job::CancelToken;

pub use error::{DownloadError, DownloadErrorKind};
pub use hub::ModelHub;
pub use item::{DownloadItem, orders};
use partial::PartialFile;
pub use remote_parts::{RemoteParts, ensure_room, page};
use server::{RemoteFile, RemoteServer};
use speed::DownloadSpeed;

/// Options of a download.
#[derive(Clone, Debug)]
pub struct DownloadOptions {
    /// At once for one file.
    pub connections: usize,
    /// Sent to the first host alone, never to one that it leads on to.
    pub token: Option<String>,
    /// Bytes per request: large enough that requests cost little, small enough that little is lost.
    pub piece_bytes: u64,
    /// Timeout of a silent connection.
    pub patience: Duration,
    /// Number of consecutive failures of a piece without any byte.
    pub retries: u32,
    /// Before the first retry; doubled for each further one.
    pub pause: Duration,
}

impl Default for DownloadOptions {
    fn default() -> Self {
        Self {
            connections: 4,
            token: None,
            piece_bytes: 32 << 20,
            patience: Duration::from_secs(30),
            retries: 5,
            pause: Duration::from_secs(1),
        }
    }
}

impl DownloadOptions {
    /// Delay after this number of consecutive failures.
    fn pause_after(&self, failures: u32) -> Duration {
        self.pause * 2_u32.pow(failures.saturating_sub(1).min(6))
    }

    /// Waits for that delay, or until stopped.
    fn wait_after(&self, failures: u32, is_stopped: impl Fn() -> bool) {
        let until = Instant::now() + self.pause_after(failures);
        while Instant::now() < until && !is_stopped() {
            thread::sleep(LOOK_EVERY.min(self.pause));
        }
    }
}

/// Current phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DownloadPhase {
    /// Asking servers for sizes.
    Asking,
    Fetching,
    /// Reading what has come, for its checksum.
    Checking,
}

/// Progress. Bytes are those of all files together.
#[derive(Clone, Debug, PartialEq)]
pub struct DownloadStatus {
    pub phase: DownloadPhase,
    /// The name of the file in hand.
    pub name: String,
    pub done_bytes: u64,
    pub total_bytes: u64,
    /// Over the last seconds; 0 while nothing comes.
    pub bytes_per_sec: f64,
}

impl DownloadStatus {
    /// Seconds left at this speed, while there is one.
    pub fn secs_left(&self) -> Option<f64> {
        let left = self.total_bytes.saturating_sub(self.done_bytes);
        (self.bytes_per_sec > 0.0).then(|| left as f64 / self.bytes_per_sec)
    }
}

/// Size of an item on the server, and of its local part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteQuote {
    pub bytes: u64,
    /// Bytes of earlier attempts; all of them if the file exists.
    pub here_bytes: u64,
}

impl RemoteQuote {
    pub fn left_bytes(self) -> u64 {
        self.bytes.saturating_sub(self.here_bytes)
    }
}

/// One order, and what its server says of it.
struct ResolvedItem {
    order: DownloadItem,
    remote: RemoteFile,
    /// Bytes that an earlier attempt left.
    here: u64,
    is_done: bool,
}

/// Cancellation poll interval.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Asks for the size of each file, and fetches nothing; `None` when cancelled.
pub fn quote(
    orders: &[DownloadItem],
    options: &DownloadOptions,
    cancel: &CancelToken,
) -> Result<Option<Vec<RemoteQuote>>, DownloadError> {
    let remote = Arc::new(RemoteServer::new(options));
    let mut quotes = Vec::with_capacity(orders.len());
    for order in orders {
        let Some(one) = ask(order, &remote, options, cancel)? else {
            return Ok(None);
        };
        let bytes = one.remote.bytes;
        quotes.push(RemoteQuote {
            bytes,
            here_bytes: if one.is_done { bytes } else { one.here },
        });
    }
    Ok(Some(quotes))
}

/// Refuses where the disks have no room for what is left to fetch.
pub fn ensure_space(orders: &[DownloadItem], quotes: &[RemoteQuote]) -> Result<(), DownloadError> {
    let pairs = orders.iter().zip(quotes);
    check::space(pairs.map(|(order, quote)| (order.to.as_path(), quote.left_bytes())))
}

/// Downloads all files; `None` when cancelled, and the downloaded parts stay for the next attempt.
///
/// An existing file of the right size is kept. Space for all files is checked first.
/// Cancelling takes effect within a fraction of a second, even if a server is silent.
pub fn download(
    orders: &[DownloadItem],
    options: &DownloadOptions,
    cancel: &CancelToken,
    report: &mut dyn FnMut(&DownloadStatus),
) -> Result<Option<Vec<PathBuf>>, DownloadError> {
    let remote = Arc::new(RemoteServer::new(options));
    let mut progress = DownloadStatus {
        phase: DownloadPhase::Asking,
        name: String::new(),
        done_bytes: 0,
        total_bytes: 0,
        bytes_per_sec: 0.0,
    };
    let mut items = Vec::with_capacity(orders.len());
    for order in orders {
        progress.name = name_of(&order.to);
        report(&progress);
        let Some(one) = ask(order, &remote, options, cancel)? else {
            return Ok(None);
        };
        progress.total_bytes = progress.total_bytes.saturating_add(one.remote.bytes);
        if one.is_done {
            progress.done_bytes = progress.done_bytes.saturating_add(one.remote.bytes);
        }
        items.push(Arc::new(one));
    }
    check::space(items.iter().filter(|one| !one.is_done).map(|one| {
        let left = one.remote.bytes.saturating_sub(one.here);
        (one.order.to.as_path(), left)
    }))?;
    for one in items.iter().filter(|one| !one.is_done) {
        progress.name = name_of(&one.order.to);
        let before = progress.done_bytes;
        if fetch(one, &remote, options, cancel, &mut progress, report)?.is_none() {
            return Ok(None);
        }
        progress.done_bytes = before + one.remote.bytes;
    }
    Ok(Some(orders.iter().map(|order| order.to.clone()).collect()))
}

/// Sizes of the files; `None` when cancelled.
fn ask(
    order: &DownloadItem,
    remote: &Arc<RemoteServer>,
    options: &DownloadOptions,
    cancel: &CancelToken,
) -> Result<Option<ResolvedItem>, DownloadError> {
    let mut failures = 0;
    let facts = loop {
        match ask_once(order, remote, cancel) {
            None => return Ok(None),
            Some(Err(err)) if err.retry_reason().is_some() && failures < options.retries => {
                failures += 1;
                options.wait_after(failures, || cancel.is_cancelled());
            }
            Some(answer) => break answer?,
        }
    };
    if let Some(expected) = order.bytes.filter(|bytes| *bytes != facts.bytes) {
        let found = facts.bytes;
        let sentence = format!("the server has another file: {found} bytes instead of {expected}");
        return Err(DownloadError::refused(sentence, &order.url));
    }
    let is_done = match fs::metadata(&order.to) {
        Ok(stat) if stat.is_file() && stat.len() == facts.bytes => true,
        Ok(stat) => {
            let (expected, found) = (facts.bytes, stat.len());
            let sentence = format!(
                "another file of this name is here, with {found} bytes instead of {expected}; move it away to download this one"
            );
            return Err(DownloadError::on_disk(sentence, &order.to));
        }
        Err(_) => false,
    };
    Ok(Some(ResolvedItem {
        here: PartialFile::bytes_here(&order.to, &facts, options.piece_bytes),
        remote: facts,
        order: order.clone(),
        is_done,
    }))
}

/// One request, by a thread that is left to itself when it is cancelled.
fn ask_once(
    order: &DownloadItem,
    remote: &Arc<RemoteServer>,
    cancel: &CancelToken,
) -> Option<Result<RemoteFile, DownloadError>> {
    if cancel.is_cancelled() {
        return None;
    }
    let (sender, answers) = bounded(1);
    let (remote, url) = (Arc::clone(remote), order.url.clone());
    let asking = thread::Builder::new()
        .name("download".to_owned())
        .spawn(move || sender.send(remote.ask(&url)).ok());
    if let Err(source) = asking {
        return Some(Err(DownloadError::disk(&source, &order.to)));
    }
    loop {
        match answers.recv_timeout(LOOK_EVERY) {
            Ok(answer) => return Some(answer),
            Err(_) if cancel.is_cancelled() => return None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                let reason = "the request ended without a word";
                return Some(Err(DownloadError::broken(reason, &order.url)));
            }
        }
    }
}

/// One file: its pieces, its checksum, its name.
fn fetch(
    one: &Arc<ResolvedItem>,
    remote: &Arc<RemoteServer>,
    options: &DownloadOptions,
    cancel: &CancelToken,
    progress: &mut DownloadStatus,
    report: &mut dyn FnMut(&DownloadStatus),
) -> Result<Option<()>, DownloadError> {
    let before = progress.done_bytes;
    let partial = PartialFile::open(&one.order.to, &one.remote, options.piece_bytes)?;
    let partial = Arc::new(partial);
    let mut speed = DownloadSpeed::new(Instant::now(), partial.bytes());
    progress.phase = DownloadPhase::Fetching;
    let all = (0..partial.pieces()).collect();
    let is_whole = transfer::run(&partial, one, remote, options, all, cancel, &mut |bytes| {
        progress.done_bytes = before + bytes;
        progress.bytes_per_sec = speed.after(Instant::now(), bytes);
        report(progress);
    });
    progress.bytes_per_sec = 0.0;
    if is_whole?.is_none() {
        return Ok(None);
    }
    progress.phase = DownloadPhase::Checking;
    report(progress);
    if let Some(expected) = &one.remote.sha256 {
        let Some(found) = check::sha256(partial.file(), cancel)
            .map_err(|source| DownloadError::disk(&source, &one.order.to))?
        else {
            return Ok(None);
        };
        if found != *expected {
            partial.discard();
            return Err(DownloadError::damaged(&found, expected, &one.order.url));
        }
    }
    partial.finish()?;
    Ok(Some(()))
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}
