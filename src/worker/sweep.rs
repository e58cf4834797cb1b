//! Folders of jobs that ended without success are kept for a while and then removed.
//!
//! Only folders of our own shape go, and never one whose job still runs, be it in another process, or stands in the
//! queue.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use safelight_core::files::write_private;
use safelight_core::job::{JobFolder, JobId, QueueFile};
use safelight_core::settings::AppPaths;

use super::unfinished_jobs::number_of;

/// An old folder gets this file first, and goes when that is a day old: a clock that is wrong for once costs no work.
const MARK: &str = "old";
const MARKED_FOR: Duration = Duration::from_hours(24);
/// Retention of a failed job's folder.
const KEEP: Duration = Duration::from_hours(7 * 24);

/// Removes what is older than [`KEEP`] from the folder of all jobs.
pub(super) fn sweep(paths: &AppPaths) {
    let Ok(entries) = fs::read_dir(paths.jobs()) else {
        // There has been no job yet.
        return;
    };
    let Some(queued) = queued(&paths.queue_file()) else {
        return;
    };
    for entry in entries.flatten() {
        let path = entry.path();
        let is_queued = number_of(&path).is_some_and(|id| queued.contains(&id));
        if is_queued || !is_ours(&path) || !is_old(&path) || !is_marked(&path) {
            continue;
        }
        let folder = JobFolder::open(&path);
        let Ok(_held) = folder.hold() else {
            continue;
        };
        match folder.remove() {
            Ok(()) => tracing::info!("removed an old job's folder: {}", path.display()),
            Err(err) => tracing::warn!("an old job's folder stays ({err}): {}", path.display()),
        }
    }
}

/// Jobs in the queue; `None` if it cannot be read.
fn queued(file: &Path) -> Option<BTreeSet<JobId>> {
    match QueueFile::load(file) {
        Ok(file) => Some(file.jobs.iter().map(|job| job.id).collect()),
        Err(err) => {
            tracing::warn!("old jobs' folders stay: {err}");
            None
        }
    }
}

/// A real folder named by a job's number, with a request in it.
fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let is_number = name.is_some_and(|name| {
        name.parse::<u64>()
            .is_ok_and(|number| number.to_string() == name)
    });
    let is_folder = fs::symlink_metadata(path).is_ok_and(|meta| meta.is_dir());
    let has_request = JobFolder::open(path).request_file().is_file();
    is_number && is_folder && has_request
}

/// Returns whether it was old a day ago; otherwise marks it.
fn is_marked(path: &Path) -> bool {
    let mark = path.join(MARK);
    let written = fs::metadata(&mark).and_then(|meta| meta.modified());
    let age = written.map(|written| SystemTime::now().duration_since(written));
    if let Ok(Ok(age)) = age {
        age > MARKED_FOR
    } else {
        // None, or of a clock that was ahead. Where it cannot be written, the folder stays.
        write_private(&mark, b"").ok();
        false
    }
}

/// Returns whether no file in the folder is recent. Unknown times count as recent.
fn is_old(path: &Path) -> bool {
    let Ok(entries) = fs::read_dir(path) else {
        return false;
    };
    let now = SystemTime::now();
    let mut entries = entries.flatten().filter(|entry| entry.file_name() != MARK);
    entries.all(|entry| {
        entry
            .metadata()
            .and_then(|meta| meta.modified())
            .is_ok_and(|written| now.duration_since(written).is_ok_and(|age| age > KEEP))
    })
}
