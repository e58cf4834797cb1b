//! Job queue of this window: waiting, running, stopped and finished jobs, and actions on them.
//!
//! Order: `list`; scheduling: `scheduling`; file: `kept`. The worker computes.

pub mod jobs;
mod kept;
mod list;
pub mod panel;
mod running;
mod scheduling;
pub mod submit;

use std::collections::{BTreeSet, VecDeque};

use safelight_core::job::random_seed;

use crate::window::create::choices::{MultiFilePrompt, QueueEndAction, StripResult};
use crate::window::create::undo::UndoAction;
use crate::window::inputs::InputSlots;
use crate::window::loras::LoraLibrary;
use crate::window::memory::MemoryHistory;
use crate::window::prelude::*;
use crate::window::state::PanelPlace;
use crate::worker::UnfinishedJob;

use jobs::{GridSheets, SuspendMachine};
pub use jobs::{RemovedJob, ResultItem, StopReason, StoppedJob, WaitingJob};
use kept::{QueueStore, RestoredQueue};
pub use running::RunningJob;
pub use submit::EditedJob;
use submit::OpeningFiles;

/// All of them. Each device has one at a time; the others wait here.
#[derive(Default)]
pub struct JobQueue {
    pub waiting: VecDeque<WaitingJob>,
    /// In the order in which they began, each on another device.
    pub running: Vec<RunningJob>,
    /// Device whose job is shown, where there are several.
    pub watched: String,
    /// Jobs that failed, were paused, or whose program died.
    pub stopped: Vec<StoppedJob>,
    /// No further job starts.
    pub is_paused: bool,
    /// Jobs are submitted as soon as all files of the form are open.
    pub(super) submits_when_opened: bool,
    /// It is paused as soon as the running job has ended.
    pub pauses_after: bool,
    /// Dismissed jobs, although their folders exist.
    pub forgotten: BTreeSet<JobId>,
    /// Counts the changes to what is kept on disk.
    revision: u64,
    /// Oldest first.
    pub results: Vec<ResultItem>,
    /// Those of an earlier run that are being opened.
    saved_results: Vec<StripResult>,
    opening_results: BackgroundTask<Vec<ResultItem>>,
    /// Results whose files are in the trash, and the places that they had.
    gone: Vec<(usize, ResultItem)>,
    /// The graph of the last job, so that it can be read when the job has ended.
    pub last_memory: MemoryHistory,
    /// Job of the memory graph.
    pub last_job: Option<JobId>,
    /// The panel is shown where there is room for it.
    pub is_open: bool,
    /// True if the user has closed the panel: it does not open automatically.
    was_closed: bool,
    /// The job whose settings are in the form.
    pub editing: Option<EditedJob>,
    /// Files that were added together, whose purpose is to be chosen.
    pub several: Option<MultiFilePrompt>,
    /// Images on their way to become a job each.
    pub opening: Vec<OpeningFiles>,
    pub after: QueueEndAction,
    /// When `after` is done on the window's clock, and the seconds until then.
    pub countdown: Option<(f64, u32)>,
    /// A job has ended since `after` was chosen.
    has_worked: bool,
    /// Sends the machine to sleep in another way than its own.
    pub suspend: Option<SuspendMachine>,
    keeping: QueueStore,
    grids: GridSheets,
    restoring: BackgroundTask<RestoredQueue>,
    /// Jobs whose folders are there.
    leftovers: BackgroundTask<Vec<UnfinishedJob>>,
    pub device_line: String,
}

impl JobQueue {
    /// The running job that is shown: that of the chosen device, else the first.
    pub fn live(&self) -> Option<&RunningJob> {
        self.running.get(self.live_index())
    }

    pub fn live_mut(&mut self) -> Option<&mut RunningJob> {
        let index = self.live_index();
        self.running.get_mut(index)
    }

    fn live_index(&self) -> usize {
        let mut running = self.running.iter();
        let watched = running.position(|job| job.device_name == self.watched);
        watched.unwrap_or_default()
    }

    /// The running job with this id; without one, the job that is shown.
    fn running_job(&mut self, id: Option<JobId>) -> Option<&mut RunningJob> {
        match id {
            Some(id) => self.running.iter_mut().find(|job| job.id == id),
            None => self.live_mut(),
        }
    }

    /// Returns whether a job runs on a device of this computer or on another computer.
    pub(super) fn is_busy(&self, name: &str) -> bool {
        self.running.iter().any(|job| job.device_name == name)
    }

    /// Returns whether a device of this computer has no job, nor a share in one.
    pub(super) fn is_free(&self, device_name: &str) -> bool {
        let is_shared =
            |job: &RunningJob| job.request.num_devices() > 1 && job.request.computer().is_none();
        !self.is_busy(device_name) && !self.running.iter().any(is_shared)
    }

    /// The graph to show: that of the job that is shown, else the last one's.
    pub fn memory(&self) -> &MemoryHistory {
        self.live().map_or(&self.last_memory, |job| &job.memory)
    }

    pub fn edited(&self) -> Option<JobId> {
        self.editing.as_ref().map(|editing| editing.id)
    }

    pub fn update(
        &mut self,
        command: QueueCommand,
        inputs: &mut InputSlots,
        loras: &LoraLibrary,
        cx: &mut AppContext,
    ) {
        match command {
            QueueCommand::Submit => {
                if self.running.is_empty() && self.waiting.is_empty() {
                    // The result being generated is the one to show.
                    cx.push(PlayerCommand::FollowJobs);
                }
                self.submit(inputs, loras, cx);
            }
            QueueCommand::SubmitOpened => self.submits_when_opened = true,
            QueueCommand::Add(requests) => {
                self.add(requests, cx);
                self.reveal(cx);
            }
            QueueCommand::Cancel(id) => {
                if let Some(job) = self.running_job(id) {
                    job.cancel.cancel();
                }
            }
            QueueCommand::RollSeed => {
                cx.form.set_seed(random_seed());
                cx.is_seed_used = false;
            }
            QueueCommand::Open(is_open) => self.open(is_open, cx),
            QueueCommand::Toggle => self.open(cx.drawn.queue == PanelPlace::Nowhere, cx),
            QueueCommand::Move(id, place) => self.move_job(id, place),
            QueueCommand::Edit(id) => self.edit(id, inputs, cx),
            QueueCommand::CancelEdit => self.end_edit(inputs, cx),
            QueueCommand::Duplicate(id) => self.duplicate(id, cx),
            QueueCommand::Remove(id) => self.remove_all(&[id], inputs, cx),
            QueueCommand::Restart(id) => {
                if self.edited() == Some(id) {
                    // It runs as it was.
                    self.end_edit(inputs, cx);
                }
                self.restart(id);
                cx.notices.end(&NoticeCause::Job(id));
            }
            QueueCommand::Clear => {
                let ids: Vec<JobId> = self.idle_jobs().map(|job| job.id).collect();
                self.remove_all(&ids, inputs, cx);
            }
            QueueCommand::PauseAll => {
                self.is_paused = true;
                self.running.iter_mut().for_each(|job| job.pause(false));
            }
            QueueCommand::SetAside(id) => {
                if let Some(job) = self.running_job(id) {
                    job.pause(true);
                }
            }
            QueueCommand::Pin(id, device) => self.pin(id, device),
            QueueCommand::GoOn => {
                self.is_paused = false;
                self.pauses_after = false;
            }
            QueueCommand::Ask(several) => self.several = Some(several),
        }
    }

    pub fn poll(&mut self, cx: &mut AppContext) {
        if let Some(restored) = self.restoring.take() {
            self.restore(restored, cx);
        }
        if let Some(left) = self.leftovers.take() {
            self.take_left(left, cx);
        }
        if let Some(results) = self.opening_results.take() {
            self.results.splice(0..0, results);
            self.saved_results.clear();
        }
        self.keeping.poll(cx);
        self.take_opened(cx);
        if let Some(editing) = &mut self.editing {
            editing.poll(cx);
        }
    }

    /// Work between two frames, once all commands are known.
    pub(super) fn tend(&mut self, is_fetching: bool, cx: &mut AppContext) {
        self.tend_grids(cx);
        if self.keeping.is_due_now(self.revision, cx) {
            self.write(cx);
        }
        self.watch_end(is_fetching, cx);
    }

    /// Sets the action after the last job, which is not done for jobs that have ended already.
    pub fn set_after(&mut self, after: QueueEndAction) {
        (self.after, self.countdown, self.has_worked) = (after, None, false);
    }

    fn open(&mut self, is_open: bool, cx: &mut AppContext) {
        self.is_open = is_open;
        self.was_closed = !is_open;
        cx.is_queue_over = is_open;
        if is_open {
            // If form and view alternate, it is in the view; no panel is shown next to a full-window image.
            cx.is_view_shown = true;
            cx.push(PlayerCommand::LeaveFull);
        }
    }

    /// Opens the panel for what has come into the queue, wherever there is room.
    fn reveal(&mut self, cx: &mut AppContext) {
        self.is_open = true;
        cx.is_queue_over = true;
    }

    pub(crate) fn remove_all(
        &mut self,
        ids: &[JobId],
        inputs: &mut InputSlots,
        cx: &mut AppContext,
    ) {
        if self.edited().is_some_and(|id| ids.contains(&id)) {
            self.end_edit(inputs, cx);
        }
        for id in ids {
            cx.notices.end(&NoticeCause::Job(*id));
        }
        let jobs: Vec<_> = ids.iter().filter_map(|id| self.remove(*id)).collect();
        if jobs.is_empty() {
            return;
        }
        let was_paused = self.is_paused;
        // An empty queue has nothing to hold back: the next job is not to wait for no reason that is seen.
        self.is_paused &= !self.running.is_empty() || !self.waiting.is_empty();
        let name = counted(jobs.len(), "remove a job", "remove {} jobs");
        let done = match jobs.as_slice() {
            [one] => format!("Removed from the queue: {}", one.job().request.title()),
            several => format!("{} jobs were removed from the queue", several.len()),
        };
        cx.offer_undo(name, done, UndoAction::Jobs { jobs, was_paused });
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::job::GenerateRequest;

    use super::*;

    pub(super) fn request(prompt: &str) -> GenerateRequest {
        let json = serde_json::json!({
            "model": "m", "family": "wan", "prompt": prompt, "negative_prompt": "", "width": 8, "height": 8,
            "num_frames": 1, "fps": 8.0, "num_steps": 1, "guidance_scale": 1.0, "sampler": "euler", "seed": 1,
        });
        serde_json::from_value(json).unwrap()
    }

    fn put_back(queue: &mut JobQueue, cx: &mut AppContext) {
        match cx.undo.take(None).map(|entry| entry.what) {
            Some(UndoAction::Jobs { jobs, was_paused }) => queue.put_all_back(jobs, was_paused),
            _ => panic!("jobs can be put back"),
        }
    }

    #[test]
    fn removed_jobs_are_one_entry_of_the_history_and_come_back_where_they_stood() {
        let (mut queue, mut inputs) = (JobQueue::default(), InputSlots::default());
        let mut cx = AppContext::alone();
        queue.add(["a", "b", "c"].map(request).into(), &cx);
        let ids: Vec<JobId> = queue.waiting.iter().map(|job| job.id).collect();
        queue.remove_all(&ids[..2], &mut inputs, &mut cx);
        let expected = (1, Some("remove 2 jobs"));
        assert_eq!((queue.waiting.len(), cx.undo.last()), expected);
        let expected = "2 jobs were removed from the queue";
        assert_eq!(cx.notices.all()[0].summary, expected);
        put_back(&mut queue, &mut cx);
        let now: Vec<JobId> = queue.waiting.iter().map(|job| job.id).collect();
        assert_eq!(now, ids);
        // What is not there any more is nothing to take back.
        queue.remove_all(&[JobId(1)], &mut inputs, &mut cx);
        assert_eq!(cx.undo.last(), None);
    }
}
