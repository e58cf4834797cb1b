//! Moves results to the trash and back, and reports to the viewer and the strip which are gone or restored.

use std::collections::{BTreeMap, HashSet};

use egui::mutex::Mutex;
use safelight_core::gallery::files_of;
use safelight_core::trash::{TrashCan, TrashError, TrashedFile};

use crate::window::create::choices::TrashRequest;
use crate::window::create::undo::UndoAction;
use crate::window::gallery::GalleryState;
use crate::window::gallery::index_thread::{IndexCommand, ScanCommand};
use crate::window::prelude::*;
use crate::window::queue::JobQueue;

/// So many deletions are followed; more cannot be taken back anyway.
const MAX_FOLLOWED: usize = 500;

#[derive(Debug)]
pub struct TrashedResult {
    /// The name by which it was listed.
    path: PathBuf,
    files: Vec<TrashedFile>,
}

#[derive(Default)]
pub struct TrashedResults {
    /// Results that went to the trash, under the names by which they are listed.
    paths: Vec<PathBuf>,
    /// Files that are not there any more, under the names by which they are listed.
    gone: Vec<PathBuf>,
    /// Reasons why other files stayed, a sentence each.
    problems: Vec<String>,
}

#[derive(Default)]
pub struct RestoredResults {
    /// Under the names by which they are listed.
    restored: Vec<PathBuf>,
    /// They are still in the trash.
    failed: Vec<TrashedResult>,
    problems: Vec<String>,
}

enum TrashEvent {
    /// With the deletion's number in the undo history.
    Trashed(u64, TrashedResults),
    Restored(RestoredResults),
}

/// Deletions and restorations, in order on the file thread.
#[derive(Default)]
pub struct TrashBin {
    /// By undo number: files deleted together are restored together. Never locked while files are moved.
    batches: Arc<Mutex<BTreeMap<u64, Vec<TrashedResult>>>>,
    /// Each with those of `requested` that are not there after it.
    working: BackgroundTask<(TrashEvent, Vec<PathBuf>)>,
    /// The last results that were to be deleted.
    requested: Vec<PathBuf>,
    /// Neighbour of the last ones in the list.
    pub(super) next: Option<PathBuf>,
}

impl TrashBin {
    pub(super) fn is_busy(&self) -> bool {
        self.working.is_busy()
    }
}

impl GalleryState {
    pub(super) fn trash(
        &mut self,
        requests: Vec<TrashRequest>,
        queue: &JobQueue,
        cx: &mut AppContext,
    ) {
        let id = cx.undo.push(
            counted(requests.len(), "delete a result", "delete {} results"),
            UndoAction::Results(requests.clone()),
        );
        let Some(trash) = cx.paths.as_ref().map(|paths| TrashCan::new(paths.trash())) else {
            return;
        };
        let requested = &mut self.bin.requested;
        requested.retain(|path| requests.iter().all(|it| it.path != *path));
        requested.extend(requests.iter().map(|it| it.path.clone()));
        requested.drain(..requested.len().saturating_sub(MAX_FOLLOWED));
        let mut results = TrashedResults::default();
        let is_being_written = |request: &TrashRequest| {
            let mut running = queue.running.iter();
            running.any(|job| is_written(job.request.out(), &request.path))
        };
        let (written, free): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_being_written);
        for TrashRequest { path, .. } in written {
            let problem = format!("a running job writes this file: {}", path.display());
            results.problems.push(problem);
        }
        let needed = queue.unfinished().flat_map(JobRequest::inputs);
        let needed: HashSet<PathBuf> = needed.cloned().collect();
        self.moves_on = true;
        let batches = Arc::clone(&self.bin.batches);
        self.move_files("nothing was deleted", cx, move || {
            let put = |request| results.put(&trash, request, &needed);
            let batch: Vec<TrashedResult> = free.into_iter().filter_map(put).collect();
            if !batch.is_empty() {
                results.paths = batch.iter().map(|it| it.path.clone()).collect();
                batches.lock().insert(id, batch);
            }
            TrashEvent::Trashed(id, results)
        });
    }

    /// Has files moved on the file thread, which looks then which requested ones are not there.
    fn move_files(
        &mut self,
        undone: &str,
        cx: &mut AppContext,
        work: impl FnOnce() -> TrashEvent + Send + 'static,
    ) {
        let requested = self.bin.requested.clone();
        let working = cx.on_files(undone, move || {
            let event = work();
            let gone = requested.into_iter().filter(|path| !path.exists());
            (event, gone.collect())
        });
        self.bin.working.add(working);
    }

    /// Brings back what went with this entry of the window's history.
    pub(crate) fn bring_back(&mut self, id: u64, cx: &mut AppContext) {
        let batches = Arc::clone(&self.bin.batches);
        self.move_files("nothing was restored", cx, move || {
            let mut results = RestoredResults::default();
            let batch = batches.lock().remove(&id);
            for result in batch.into_iter().flatten() {
                results.bring_back(result);
            }
            TrashEvent::Restored(results)
        });
    }

    pub(super) fn poll_trash(&mut self, queue: &JobQueue, cx: &mut AppContext) {
        while let Some((event, gone)) = self.bin.working.take() {
            match event {
                TrashEvent::Trashed(id, results) => self.take_trashed(id, results, queue, cx),
                TrashEvent::Restored(results) => self.take_restored(results, cx),
            }
            cx.push(PlayerCommand::Gone(gone, self.bin.next.take()));
        }
    }

    fn take_trashed(
        &mut self,
        id: u64,
        results: TrashedResults,
        queue: &JobQueue,
        cx: &mut AppContext,
    ) {
        let num_results = results.paths.len();
        // Notices about their jobs are obsolete.
        let is_gone = |path: &PathBuf| results.paths.contains(path);
        let mut items = queue.results.iter();
        while let Some(item) = items.find(|item| item.output.paths.iter().any(is_gone)) {
            cx.notices.end(&NoticeCause::Job(item.id));
        }
        if num_results > 0 {
            cx.notices.show_undo(
                id,
                counted(
                    num_results,
                    "1 result is in the trash",
                    "{} results are in the trash",
                ),
            );
        } else {
            // It may be on its way back already, of which nothing comes.
            drop(cx.undo.take(Some(id)));
        }
        if !results.gone.is_empty() {
            self.moves_on = true;
            self.ask(|_| IndexCommand::Gone(results.gone));
            self.scan(ScanCommand::Look);
        }
        let what = match results.problems.as_slice() {
            [] => return,
            [one] => format!("not deleted: {one}"),
            [first, ..] => format!("{} files were not deleted: {first}", results.problems.len()),
        };
        let notice = notice_of(
            what,
            "Nothing else was changed",
            &results.problems,
            num_results,
        );
        cx.notices.show(notice);
    }

    fn take_restored(&mut self, results: RestoredResults, cx: &mut AppContext) {
        let num_results = results.restored.len();
        if num_results == 0 && results.problems.is_empty() {
            // Nothing had gone with it: what was done before is meant.
            cx.push(AppCommand::Undo(None));
            return;
        }
        let mut again = None;
        let mut advice = "The trash was emptied, or another program took the file";
        if !results.failed.is_empty() {
            // They can be retried, and do not precede earlier undo actions.
            let id = cx.undo.push_behind(
                counted(results.failed.len(), "delete a result", "delete {} results"),
                UndoAction::Results(Vec::new()),
            );
            self.bin.batches.lock().insert(id, results.failed);
            again = Some(id);
            advice = "It is still in the desktop's trash";
        }
        if num_results > 0 {
            self.selection.expect(results.restored);
            cx.say("Restored from the trash");
            self.scan(ScanCommand::Look);
        }
        if let Some(first) = results.problems.first() {
            let what = format!("not restored: {first}");
            let mut notice = notice_of(what, advice, &results.problems, num_results);
            if let Some(id) = again {
                let hover = "Bring it back from the trash";
                notice = notice.offer("Try again", hover, AppCommand::Undo(Some(id)));
            }
            cx.notices.show(notice);
        }
    }
}

fn notice_of(what: String, advice: &str, problems: &[String], num_done: usize) -> UserNotice {
    let severity = if num_done == 0 {
        NoticeSeverity::Error
    } else {
        NoticeSeverity::Warning
    };
    let err = JobError::new(JobErrorKind::Disk, what).advise(advice);
    UserNotice::new(severity, err.detail(problems.join("\n")))
}

impl TrashedResults {
    fn put(
        &mut self,
        trash: &TrashCan,
        request: TrashRequest,
        needed: &HashSet<PathBuf>,
    ) -> Option<TrashedResult> {
        let files = files_of(&request.path, request.is_frame);
        if let Some(file) = files.iter().find(|file| needed.contains(*file)) {
            self.problems.push(format!(
                "a job in the queue uses this file: {}",
                file.display()
            ));
            return None;
        }
        let mut trashed = Vec::new();
        for file in files {
            match trash.put(&file) {
                Ok(one) => trashed.push(one),
                // Deleted twice, or by another program: as requested.
                Err(TrashError::Gone { .. }) => {}
                Err(err) => {
                    self.problems.push(err.to_string());
                    break;
                }
            }
            self.gone.push(file);
        }
        let (path, files) = (request.path, trashed);
        (!files.is_empty()).then_some(TrashedResult { path, files })
    }
}

impl RestoredResults {
    fn bring_back(&mut self, result: TrashedResult) {
        let TrashedResult { path, mut files } = result;
        let mut is_whole = true;
        files.retain(|file| {
            let Err(err) = file.restore() else {
                return false;
            };
            is_whole = false;
            // If the trash was emptied there is nothing to retry.
            let is_there = file.file.exists();
            let problem = if is_there {
                err.to_string()
            } else {
                format!(
                    "this file is not in the trash any more: {}",
                    file.from.display()
                )
            };
            self.problems.push(problem);
            is_there
        });
        if is_whole {
            self.restored.push(path);
        } else if !files.is_empty() {
            self.failed.push(TrashedResult { path, files });
        }
    }
}

/// Returns whether a job writes this file: its own, or a numbered one of it.
fn is_written(out: &Path, path: &Path) -> bool {
    let (Some(stem), Some(name)) = (out.file_stem(), path.file_stem()) else {
        return false;
    };
    let (stem, name) = (stem.to_string_lossy(), name.to_string_lossy());
    let rest = name.strip_prefix(stem.as_ref());
    let is_number = |rest: &str| {
        let digits = rest.strip_prefix('_').unwrap_or_default();
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    out.parent() == path.parent()
        && out.extension() == path.extension()
        && rest.is_some_and(|rest| rest.is_empty() || is_number(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_running_jobs_file_and_its_numbered_files_count_as_being_written() {
        let out = Path::new("/r/boat.png");
        for (path, expected) in [
            ("/r/boat.png", true),
            ("/r/boat_0003.png", true),
            ("/r/boat_x.png", false),
            ("/r/boat.mp4", false),
            ("/r/boats.png", false),
            ("/s/boat.png", false),
        ] {
            assert_eq!(is_written(out, Path::new(path)), expected, "{path}");
        }
    }
}
