//! The order of the waiting jobs and the ways between waiting and stopped: plain moves in two lists.
//!
//! What they mean for the worker and the disk is the app's.

use safelight_core::job::{JobId, JobRequest};

use crate::app::queue::JobQueue;
use crate::app::queue::choices::Place;
use crate::app::queue::jobs::{Removed, Stopped, StoppedJob, WaitingJob, may_be_of_place};

impl JobQueue {
    /// To be said after each change of what is kept on disk.
    pub fn touch(&mut self) {
        self.revision += 1;
    }

    pub fn revision(&self) -> u64 {
        self.revision
    }

    pub fn waiting_job(&self, id: JobId) -> Option<&WaitingJob> {
        self.waiting.iter().find(|job| job.id == id)
    }

    pub fn idle_job(&self, id: JobId) -> Option<&WaitingJob> {
        let stopped = self.stopped.iter().map(|stopped| &stopped.job);
        self.waiting.iter().chain(stopped).find(|job| job.id == id)
    }

    /// What is asked for by all jobs that run, wait or have stopped.
    pub fn unfinished(&self) -> impl Iterator<Item = &JobRequest> {
        let running = self.running.iter().map(|job| &job.request);
        let stopped = self.stopped.iter().map(|stopped| &stopped.job);
        let idle = self.waiting.iter().chain(stopped);
        running.chain(idle.map(|job| &job.request))
    }

    /// The jobs of an earlier run that nobody has let go on: those that were interrupted stand first.
    pub fn held(&self) -> impl Iterator<Item = JobId> {
        let unfinished = self.stopped.iter().filter(|it| it.is_interrupted());
        let waiting = self.waiting.iter().filter(|job| job.is_held);
        unfinished
            .map(|it| it.job.id)
            .chain(waiting.map(|job| job.id))
    }

    /// Lets the jobs of an earlier run go on.
    pub fn release_held(&mut self) {
        let held: Vec<JobId> = self.held().collect();
        for job in &mut self.waiting {
            job.is_held = false;
        }
        // The first of them comes to stand before the others.
        for id in held.into_iter().rev() {
            self.restart(id);
        }
        self.touch();
    }

    /// The next job that may start, whether or not it is ready; never the one that is `edited`.
    pub fn next(&self, edited: Option<JobId>) -> Option<usize> {
        let may_start = |job: &WaitingJob| !job.is_held && Some(job.id) != edited;
        self.waiting.iter().position(may_start)
    }

    pub fn move_job(&mut self, id: JobId, place: Place) {
        let Some(from) = self.waiting.iter().position(|job| job.id == id) else {
            return;
        };
        let to = match place {
            Place::Up => from.saturating_sub(1),
            Place::Down => from + 1,
            Place::Top => 0,
            // It leaves a gap behind itself.
            Place::Before(at) if at > from => at - 1,
            Place::Before(at) => at,
        };
        let to = to.min(self.waiting.len() - 1);
        if let Some(job) = self.waiting.remove(from) {
            self.waiting.insert(to, job);
        }
        self.touch();
    }

    /// Takes a job out that waits or has stopped. Its folder may be found later and then counts no more.
    pub fn remove(&mut self, id: JobId) -> Option<Removed> {
        self.touch();
        if let Some(at) = self.waiting.iter().position(|job| job.id == id) {
            let job = self.waiting.remove(at)?;
            self.forgotten.insert(id);
            return Some(Removed::Waiting(at, job));
        }
        let at = self.stopped.iter().position(|it| it.job.id == id)?;
        let stopped = self.stopped.remove(at);
        self.forgotten.insert(id);
        Some(Removed::Stopped(at, stopped))
    }

    /// Puts jobs back where they stood, in a queue that is paused again if it was.
    pub fn put_all_back(&mut self, removed: Vec<Removed>, was_paused: bool) {
        self.is_paused |= was_paused;
        for removed in removed.into_iter().rev() {
            self.put_back(removed);
        }
    }

    /// Puts a job back where it stood, unless it is there.
    fn put_back(&mut self, removed: Removed) {
        let id = removed.job().id;
        if self.idle_job(id).is_some() {
            return;
        }
        self.touch();
        self.forgotten.remove(&id);
        match removed {
            Removed::Waiting(at, job) => self.waiting.insert(at.min(self.waiting.len()), job),
            Removed::Cancelled(job) => self.waiting.push_front(job),
            Removed::Stopped(at, job) => self.stopped.insert(at.min(self.stopped.len()), job),
        }
    }

    /// Lets a stopped job run again: from where it stopped, else anew. One that had not failed is the next.
    pub fn restart(&mut self, id: JobId) {
        let Some(at) = self.stopped.iter().position(|it| it.job.id == id) else {
            return;
        };
        let StoppedJob { mut job, why, .. } = self.stopped.remove(at);
        if job.resume.is_none() {
            // The old number has had its end, and what is left of it is not wanted.
            self.forgotten.insert(id);
            job.id = JobId::next();
        }
        job.is_held = false;
        if matches!(&why, Stopped::Failed(err) if may_be_of_place(err)) {
            job.forget_output();
        }
        match why {
            Stopped::Failed(_) => self.waiting.push_back(job),
            Stopped::Paused | Stopped::Unfinished => self.waiting.push_front(job),
        }
        self.touch();
    }

    pub fn stop(&mut self, stopped: StoppedJob) {
        self.stopped.push(stopped);
        self.touch();
    }
}
