//! What the queue's panel may ask for, and how it is carried out.

use std::path::PathBuf;

use safelight_core::job::JobId;

use crate::app::App;
use crate::app::queue::PauseWish;
use crate::app::queue::after::AfterQueue;
use crate::app::queue::desk::PanelPlace;
use crate::app::queue::list::Place;
use crate::app::queue::several::Choice;

/// One wish about the queue.
#[derive(Clone, Debug)]
pub enum QueueCommand {
    /// Show the panel or hide it.
    Open(bool),
    /// Show it when it is not on the screen, else hide it.
    Toggle,
    Move(JobId, Place),
    /// Put a job's settings into the form.
    Edit(JobId),
    CancelEdit,
    /// The same once more, right behind it.
    Duplicate(JobId),
    Remove(JobId),
    /// Put back what was taken out last.
    Undo,
    /// Let a stopped job go on, or try it again.
    Restart(JobId),
    /// Let the jobs of the last run go on.
    ReleaseHeld,
    /// Take the jobs of the last run out.
    ClearHeld,
    /// Stop the running job so that it can go on, and start no other.
    PauseAll,
    /// Start no other job behind the running one.
    PauseAfter(bool),
    /// Stop the running job so that it can go on; others start.
    PauseRunning,
    /// Start jobs again.
    GoOn,
    /// Open a row's picture.
    WantThumb(PathBuf),
    /// What the files are for that came together.
    Take(Choice),
    /// Open no more of several files.
    StopOpening(u64),
    After(AfterQueue),
    /// Neither quit nor suspend.
    StopCountdown,
}

impl App {
    pub(in crate::app) fn run_queue_command(&mut self, command: QueueCommand) {
        match command {
            QueueCommand::Open(is_open) => self.open_queue(is_open),
            QueueCommand::Toggle => {
                self.open_queue(self.session.queue.place == PanelPlace::Nowhere);
            }
            QueueCommand::Move(id, place) => self.queue.move_job(id, place),
            QueueCommand::Edit(id) => self.edit_job(id),
            QueueCommand::CancelEdit => self.end_edit(),
            QueueCommand::Duplicate(id) => self.duplicate_job(id),
            QueueCommand::Remove(id) => self.remove_jobs(&[id]),
            QueueCommand::Undo => {
                for removed in std::mem::take(&mut self.session.queue.removed)
                    .into_iter()
                    .rev()
                {
                    self.queue.put_back(removed);
                }
            }
            QueueCommand::Restart(id) => {
                if self.session.queue.edited() == Some(id) {
                    // It runs as it was.
                    self.end_edit();
                }
                self.queue.restart(id);
                self.forget_failure(id);
            }
            QueueCommand::ReleaseHeld => self.queue.release_held(),
            QueueCommand::ClearHeld => {
                let ids: Vec<JobId> = self.queue.held().collect();
                self.remove_jobs(&ids);
            }
            QueueCommand::PauseAll => {
                self.queue.is_paused = true;
                self.pause_running(PauseWish::Queue);
            }
            QueueCommand::PauseAfter(pauses) => self.queue.pauses_after = pauses,
            QueueCommand::PauseRunning => self.pause_running(PauseWish::Job),
            QueueCommand::GoOn => {
                self.queue.is_paused = false;
                self.queue.pauses_after = false;
            }
            QueueCommand::WantThumb(path) => self.session.queue.thumbs.want(path),
            QueueCommand::Take(choice) => self.take_several(choice),
            QueueCommand::StopOpening(number) => {
                let openings = &self.session.queue.opening;
                if let Some(opening) = openings.iter().find(|it| it.number == number) {
                    opening.stop.cancel();
                }
            }
            QueueCommand::After(after) => {
                let desk = &mut self.session.queue;
                (desk.after, desk.countdown, desk.has_worked) = (after, None, false);
            }
            QueueCommand::StopCountdown => {
                let desk = &mut self.session.queue;
                (desk.after, desk.countdown) = (AfterQueue::Nothing, None);
            }
        }
    }

    fn remove_jobs(&mut self, ids: &[JobId]) {
        if self
            .session
            .queue
            .edited()
            .is_some_and(|id| ids.contains(&id))
        {
            self.end_edit();
        }
        for id in ids {
            self.forget_failure(*id);
        }
        let removed = ids.iter().filter_map(|id| self.queue.remove(*id));
        let removed: Vec<_> = removed.collect();
        if !removed.is_empty() {
            self.session.queue.removed = removed;
        }
    }

    fn open_queue(&mut self, is_open: bool) {
        self.state.queue.is_open = is_open;
        self.session.queue.is_over = is_open;
        self.session.queue.was_closed = !is_open;
        // Where form and view take turns, it stands in the view; no panel stands beside a picture in the whole window.
        self.session.is_view_shown |= is_open;
        self.session.watch.is_full &= !is_open;
    }

    /// A card about a job that is not among the stopped ones any more.
    fn forget_failure(&mut self, id: JobId) {
        self.session
            .notices
            .retain(|notice| !notice.offers_restart_of(id));
    }

    fn pause_running(&mut self, wish: PauseWish) {
        if let Some(job) = &mut self.queue.running
            && !job.cancel.is_cancelled()
        {
            job.pause = Some(wish);
            job.cancel.pause();
        }
    }
}
