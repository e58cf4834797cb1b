//! Changes of the queue's list: move, remove, restore, results kept in memory, grids with their contact sheets, and the
//! action at its end.

use std::process::Command;

use egui::ViewportCommand;
use safelight_core::job::{DeviceChoice, GridId, GridRecord, JobGrid, write_sheet};
use safelight_core::naming;

use crate::window::background::survived;
use crate::window::create::choices::{MoveTarget, QueueEndAction, StripResult};
use crate::window::inputs::InputSlots;
use crate::window::prelude::*;
use crate::window::queue::JobQueue;
use crate::window::queue::jobs::{RemovedJob, ResultItem, StopReason, StoppedJob, WaitingJob};

const COUNTDOWN_SECS: f64 = 30.0;
/// So many can come back into the strip; of older ones the files alone come back.
const MAX_GONE: usize = 20;
/// Finished videos beyond this many bytes of pixels are forgotten, oldest first. Their files stay.
const MAX_RESULT_BYTES: usize = 512 << 20;
/// More than anybody looks for in the strip; the gallery has them all.
const MAX_RESULTS: usize = 200;
/// Grids of this session that are remembered when all is done: an undo may bring a job of one back.
const MAX_DONE_GRIDS: usize = 100;
/// Results that come back after a restart.
const MAX_SAVED_RESULTS: usize = 20;

impl JobQueue {
    /// To be said after each change of what is kept on disk.
    pub fn touch(&mut self) {
        self.revision += 1;
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Jobs that wait, and those that have stopped.
    pub(super) fn idle_jobs(&self) -> impl Iterator<Item = &WaitingJob> {
        let stopped = self.stopped.iter().map(|stopped| &stopped.job);
        self.waiting.iter().chain(stopped)
    }

    pub fn idle_job(&self, id: JobId) -> Option<&WaitingJob> {
        self.idle_jobs().find(|job| job.id == id)
    }

    pub fn unfinished(&self) -> impl Iterator<Item = &JobRequest> {
        let running = self.running.iter().map(|job| &job.request);
        running.chain(self.idle_jobs().map(|job| &job.request))
    }

    /// Jobs of an earlier run that were not resumed: interrupted ones first.
    pub fn held_jobs(&self) -> impl Iterator<Item = JobId> {
        let unfinished = self.stopped.iter().filter(|it| it.is_interrupted());
        let waiting = self.waiting.iter().filter(|job| job.is_held);
        unfinished
            .map(|it| it.job.id)
            .chain(waiting.map(|job| job.id))
    }

    pub fn release_held(&mut self) {
        let held: Vec<JobId> = self.held_jobs().collect();
        for job in &mut self.waiting {
            job.is_held = false;
        }
        // The first of them becomes the first of all.
        for id in held.into_iter().rev() {
            self.restart(id);
        }
        self.touch();
    }

    /// Lets a waiting job of an earlier run start; `false` where it is none.
    pub fn release(&mut self, id: JobId) -> bool {
        let mut held = self.waiting.iter_mut().filter(|job| job.is_held);
        let Some(job) = held.find(|job| job.id == id) else {
            return false;
        };
        job.is_held = false;
        self.touch();
        true
    }

    /// The next job that may start, whether or not it is ready; never the one that is `edited`.
    pub fn next(&self, edited: Option<JobId>) -> Option<usize> {
        let may_start = |job: &WaitingJob| !job.is_held && Some(job.id) != edited;
        self.waiting.iter().position(may_start)
    }

    /// Sets the device that a job waits for; automatic is any.
    pub(crate) fn pin(&mut self, id: JobId, device: DeviceChoice) {
        let stopped = self.stopped.iter_mut().map(|stopped| &mut stopped.job);
        let mut jobs = self.waiting.iter_mut().chain(stopped);
        if let Some(job) = jobs.find(|job| job.id == id) {
            job.device = device;
            self.touch();
        }
    }

    pub fn move_job(&mut self, id: JobId, place: MoveTarget) {
        let Some(from) = self.waiting.iter().position(|job| job.id == id) else {
            return;
        };
        let to = match place {
            MoveTarget::Up => from.saturating_sub(1),
            MoveTarget::Down => from + 1,
            MoveTarget::Top => 0,
            // Its removal shifts the others.
            MoveTarget::Before(at) if at > from => at - 1,
            MoveTarget::Before(at) => at,
        };
        let to = to.min(self.waiting.len() - 1);
        if let Some(job) = self.waiting.remove(from) {
            self.waiting.insert(to, job);
        }
        self.touch();
    }

    /// Takes a job out that waits or has stopped. Its folder may be found later and then counts no more.
    pub fn remove(&mut self, id: JobId) -> Option<RemovedJob> {
        self.touch();
        if let Some(at) = self.waiting.iter().position(|job| job.id == id) {
            let job = self.waiting.remove(at)?;
            self.forgotten.insert(id);
            return Some(RemovedJob::Waiting(at, job));
        }
        let at = self.stopped.iter().position(|it| it.job.id == id)?;
        let stopped = self.stopped.remove(at);
        self.forgotten.insert(id);
        Some(RemovedJob::Stopped(at, stopped))
    }

    /// Puts jobs back where they stood, in a queue that is paused again if it was.
    pub fn put_all_back(&mut self, removed: Vec<RemovedJob>, was_paused: bool) {
        self.is_paused |= was_paused;
        for removed in removed.into_iter().rev() {
            self.put_back(removed);
        }
    }

    fn put_back(&mut self, removed: RemovedJob) {
        let id = removed.job().id;
        if self.idle_job(id).is_some() {
            return;
        }
        self.touch();
        self.forgotten.remove(&id);
        match removed {
            RemovedJob::Waiting(at, job) => self.waiting.insert(at.min(self.waiting.len()), job),
            RemovedJob::Cancelled(job) => self.waiting.push_front(job),
            RemovedJob::Stopped(at, job) => self.stopped.insert(at.min(self.stopped.len()), job),
        }
    }

    /// Lets a stopped job run again: from where it stopped, else anew. One that had not failed is the next. Returns its
    /// id, a new one if it restarts from its beginning; `None` if no such job has stopped.
    pub fn restart(&mut self, id: JobId) -> Option<JobId> {
        let at = self.stopped.iter().position(|it| it.job.id == id)?;
        let StoppedJob { mut job, why, .. } = self.stopped.remove(at);
        // Another computer knows by the number what it has of the job.
        if job.resume.is_none() && job.request.computer().is_none() {
            // The old number has had its end, and what is left of it is not wanted.
            self.forgotten.insert(id);
            job.id = JobId::next();
        }
        job.is_held = false;
        let id = job.id;
        match why {
            StopReason::Failed(_) => self.waiting.push_back(job),
            StopReason::Paused | StopReason::Unfinished => self.waiting.push_front(job),
        }
        self.touch();
        Some(id)
    }

    pub fn stop(&mut self, stopped: StoppedJob) {
        self.stopped.push(stopped);
        self.touch();
    }

    /// Begins to count when the last job has ended, counts, and does what was chosen. A model on its way counts as work.
    pub(super) fn watch_end(&mut self, is_fetching: bool, cx: &AppContext) {
        if self.after == QueueEndAction::Nothing {
            return;
        }
        if is_fetching || !self.is_through() {
            self.countdown = None;
            return;
        }
        let begun = self.countdown.map(|(ends_at, _)| ends_at);
        let ends_at = begun.unwrap_or(cx.now_secs + COUNTDOWN_SECS);
        let secs_left = (ends_at - cx.now_secs).max(0.0);
        self.countdown = Some((ends_at, secs_left.ceil() as u32));
        if secs_left > 0.0 {
            cx.wake_in(secs_left - (secs_left.ceil() - 1.0));
        } else if self.keeping.is_kept(self.revision()) {
            self.countdown = None;
            match std::mem::take(&mut self.after) {
                QueueEndAction::Nothing => {}
                QueueEndAction::Quit => cx.ctx.send_viewport_cmd(ViewportCommand::Close),
                QueueEndAction::Suspend => {
                    let other = self.suspend.clone();
                    let suspend = move || other.map_or_else(suspend, |suspend| suspend());
                    cx.background.attempt("suspend", suspend);
                }
            }
        }
    }

    /// Returns whether jobs have run, and none will start automatically.
    fn is_through(&self) -> bool {
        self.has_worked
            && self.running.is_empty()
            && !self.is_paused
            && self.editing.is_none()
            && self.opening.is_empty()
            && self.next(None).is_none()
    }

    /// Of the results that were thrown away, the files of these are not there now. Gives the place of the first one that
    /// left, and the last one that came back.
    pub fn follow_files(
        &mut self,
        gone: &[PathBuf],
        cx: &AppContext,
    ) -> (Option<usize>, Option<JobId>) {
        let (back, still) = std::mem::take(&mut self.gone)
            .into_iter()
            .partition::<Vec<_>, _>(|(_, item)| !is_gone(item, gone));
        self.gone = still;
        let last_back = back.last().map(|(_, item)| item.id);
        for (at, item) in back.into_iter().rev() {
            self.results.insert(at.min(self.results.len()), item);
        }
        let mut first = None;
        let mut at = 0;
        while let Some(item) = self.results.get(at) {
            if is_gone(item, gone) {
                first = first.or(Some(at));
                let item = self.results.remove(at);
                self.gone.push((at, item));
            } else {
                at += 1;
            }
        }
        let too_many = self.gone.len().saturating_sub(MAX_GONE);
        let forgotten: Vec<_> = self.gone.drain(..too_many).collect();
        cx.background.free(forgotten);
        (first, last_back)
    }

    /// The strip as the next run shows it.
    pub fn saved_results(&self) -> Vec<StripResult> {
        let made = self.results.iter().map(StripResult::new);
        let mut saved: Vec<StripResult> = self.saved_results.iter().cloned().chain(made).collect();
        saved.drain(..saved.len().saturating_sub(MAX_SAVED_RESULTS));
        saved
    }

    /// Brings the strip of the last run back.
    pub(crate) fn load_results(&mut self, saved: Vec<StripResult>, cx: &AppContext) {
        self.saved_results.clone_from(&saved);
        self.opening_results = cx.background.run("strip", move || {
            let opened = saved
                .into_iter()
                .map(|result| survived(|| Ok(result.open())));
            opened.filter_map(|opened| opened.ok().flatten()).collect()
        });
    }

    pub fn result(&self, id: JobId) -> Option<&ResultItem> {
        self.results.iter().find(|item| item.id == id)
    }

    /// Keeps a result. Gives the oldest ones, which are forgotten, when there are too many or too many pixels.
    #[must_use]
    pub fn keep(&mut self, item: ResultItem) -> Vec<ResultItem> {
        self.results.push(item);
        let bytes_of = |item: &ResultItem| -> usize {
            let frames = &item.output.video.frames;
            frames.iter().map(|frame| frame.rgb.len()).sum()
        };
        let mut room = MAX_RESULT_BYTES;
        let newest = self.results.iter().rev().take(MAX_RESULTS);
        let kept = newest.take_while(|item| {
            let bytes = bytes_of(item);
            let has_room = bytes <= room;
            room = room.saturating_sub(bytes);
            has_room
        });
        // The newest one stays, whatever its size.
        let num_forgotten = self.results.len() - kept.count().max(1);
        self.results.drain(..num_forgotten).collect()
    }
}

impl JobQueue {
    /// The grid that a job is a cell of, where it is known, and the cell's number from 0.
    pub fn grid_of(&self, request: &JobRequest) -> Option<(&JobGrid, usize)> {
        let (id, index) = request.cell()?;
        Some((&self.grids.get(id)?.grid, index))
    }

    /// Numbers of cells of a grid that are made, and that failed.
    pub fn grid_progress(&self, id: GridId) -> (usize, usize) {
        let num_failed = self.failed_cells().filter(|(of, _)| *of == id).count();
        let record = self.grids.get(id);
        (record.map_or(0, |record| record.made.len()), num_failed)
    }

    /// Cells whose jobs run, wait or can resume.
    fn open_cells(&self) -> impl Iterator<Item = (GridId, usize)> {
        let running = self.running.iter().map(|job| &job.request);
        let waiting = self.waiting.iter().map(|job| &job.request);
        let stopped = self.stopped.iter().filter(|it| !it.has_failed());
        let stopped = stopped.map(|stopped| &stopped.job.request);
        running
            .chain(waiting)
            .chain(stopped)
            .filter_map(JobRequest::cell)
    }

    fn failed_cells(&self) -> impl Iterator<Item = (GridId, usize)> {
        let failed = self.stopped.iter().filter(|it| it.has_failed());
        failed.filter_map(|stopped| stopped.job.request.cell())
    }

    /// Grids to save: those with pending cells.
    pub(super) fn kept_grids(&self) -> Vec<GridRecord> {
        let is_open = |record: &GridRecord| {
            let id = record.grid.id;
            let mut cells = self.open_cells().chain(self.failed_cells());
            record.lacks_sheet() || cells.any(|(of, _)| of == id)
        };
        let records = self.grids.records.iter().filter(|record| is_open(record));
        records.cloned().collect()
    }

    /// Takes all jobs of a grid out; the running ones are cancelled.
    pub(super) fn cancel_grid(&mut self, id: GridId, inputs: &mut InputSlots, cx: &mut AppContext) {
        let is_of_it = |request: &JobRequest| request.cell().is_some_and(|it| it.0 == id);
        let idle = self.idle_jobs().filter(|job| is_of_it(&job.request));
        let ids: Vec<JobId> = idle.map(|job| job.id).collect();
        for job in self.running.iter().filter(|job| is_of_it(&job.request)) {
            job.cancel.cancel();
        }
        self.remove_all(&ids, inputs, cx);
    }

    /// Has the sheets made of grids of which no cell is to come any more, one at a time.
    pub(super) fn tend_grids(&mut self, cx: &mut AppContext) {
        if let Some((id, written)) = self.grids.making.take() {
            self.take_sheet(id, written, cx);
        }
        if self.grids.making.is_busy() || self.grids.looked == Some(self.revision()) {
            return;
        }
        self.grids.looked = Some(self.revision());
        let is_due = |record: &&GridRecord| {
            let id = record.grid.id;
            record.lacks_sheet() && !self.open_cells().any(|(of, _)| of == id)
        };
        let Some(record) = self.grids.records.iter().find(is_due).cloned() else {
            let too_many = self.grids.records.len().saturating_sub(MAX_DONE_GRIDS);
            self.grids.records.drain(..too_many);
            return;
        };
        let id = record.grid.id;
        let failed: Vec<usize> = self
            .failed_cells()
            .filter(|(of, _)| *of == id)
            .map(|(_, index)| index)
            .collect();
        self.grids.making = cx.background.on_files(move || {
            let folder = record.folder().unwrap_or_else(|| Path::new(""));
            let out = folder.join(format!("{}_{}.png", naming::timestamp(), record.stem()));
            let written = write_sheet(&record, &|index| failed.contains(&index), &out);
            (id, written)
        });
        if !self.grids.making.is_busy() {
            // The thread is busy: tried again soon.
            self.grids.looked = None;
            cx.wake_in(1.0);
        }
    }

    fn take_sheet(
        &mut self,
        id: GridId,
        written: Result<PathBuf, MediaError>,
        cx: &mut AppContext,
    ) {
        // A failed sheet is not retried for ever: the next finished cell tries again.
        let Some(record) = self.grids.get_mut(id) else {
            return;
        };
        record.on_sheet = record.made.len();
        let name = record.grid.to_string();
        self.touch();
        match written {
            Ok(path) => {
                let text = format!("the contact sheet of the {name} is saved beside the results");
                let notice = UserNotice::info(text, "Click a cell to open that result");
                let show = PlayerCommand::PlayFile(path.clone());
                cx.notices
                    .show(notice.offer("Show", "Look at the contact sheet", show));
                cx.push(PlayerCommand::ShowSheet(path));
            }
            Err(err) => {
                let notice = JobError::from_error(JobErrorKind::Disk, &err).advise(format!(
                    "The {name} has no contact sheet. Its results are saved"
                ));
                cx.notify(NoticeSeverity::Warning, notice);
            }
        }
    }
}

/// Asks the machine's service manager, which asks whoever may forbid it.
fn suspend() -> Result<(), JobError> {
    let mut reasons = Vec::new();
    for program in ["systemctl", "loginctl"] {
        match Command::new(program).arg("suspend").output() {
            Ok(output) if output.status.success() => return Ok(()),
            Ok(output) => {
                let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                reasons.push(format!("{program} suspend: {why}"));
            }
            Err(err) => reasons.push(format!("{program}: {err}")),
        }
    }
    let err = JobError::new(JobErrorKind::Device, "the computer could not be suspended");
    Err(err
        .advise("All results are saved")
        .detail(reasons.join("\n")))
}

/// A batch is there as long as one of its images is.
fn is_gone(item: &ResultItem, gone: &[PathBuf]) -> bool {
    if item.is_batch() {
        let paths = &item.output.paths;
        !paths.is_empty() && paths.iter().all(|path| gone.contains(path))
    } else {
        gone.contains(&item.output.path().to_path_buf())
    }
}
