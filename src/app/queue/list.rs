//! The order of the waiting jobs and the ways between waiting and stopped: plain moves in two lists.
//!
//! What they mean for the worker and the disk is the app's.

use std::path::PathBuf;

use safelight_core::job::{DeviceChoice, GenerateRequest, JobError, JobErrorKind, JobId};

use crate::app::queue::{JobQueue, Stopped, StoppedJob, WaitingJob};

/// Where a job is to stand in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Up,
    Down,
    Top,
    /// Before the job that stands at this number now, from 0.
    Before(usize),
}

/// A job that was taken out, and where it stood.
#[derive(Clone, Debug)]
pub enum Removed {
    Waiting(usize, WaitingJob),
    Stopped(usize, StoppedJob),
    /// It was running.
    Cancelled(WaitingJob),
}

impl Removed {
    pub fn job(&self) -> &WaitingJob {
        match self {
            Self::Waiting(_, job) | Self::Cancelled(job) => job,
            Self::Stopped(_, stopped) => &stopped.job,
        }
    }
}

impl WaitingJob {
    /// A new one, whose file has no name yet.
    pub fn new(request: GenerateRequest, device: DeviceChoice) -> Self {
        Self {
            id: JobId::next(),
            request,
            device,
            has_output: false,
            has_prompts: false,
            resume: None,
            is_held: false,
            missing: Vec::new(),
        }
    }

    /// Has its file named anew, in the folder for results of now. Its prompts stay as they were settled.
    pub fn forget_output(&mut self) {
        self.has_prompts |= self.has_output;
        self.has_output = false;
    }

    /// The picture or clip that it starts from.
    pub fn picture(&self) -> Option<&PathBuf> {
        picture_of(&self.request)
    }
}

/// The picture or clip that a job starts from.
pub fn picture_of(request: &GenerateRequest) -> Option<&PathBuf> {
    let given = [&request.image, &request.extend, &request.last_image];
    given.into_iter().flatten().next()
}

/// Whether it may be the file's place that a job failed for: the disk is full, or the folder is gone or protected.
fn may_be_of_place(err: &JobError) -> bool {
    matches!(err.kind, JobErrorKind::Disk | JobErrorKind::InvalidRequest)
}

impl StoppedJob {
    pub fn new(job: WaitingJob, why: Stopped) -> Self {
        Self {
            job,
            why,
            progress: String::new(),
        }
    }
}

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

    /// A job that waits or has stopped.
    pub fn idle_job(&self, id: JobId) -> Option<&WaitingJob> {
        let stopped = self.stopped.iter().map(|stopped| &stopped.job);
        self.waiting.iter().chain(stopped).find(|job| job.id == id)
    }

    /// The jobs of an earlier run that nobody has let go on: those that were interrupted stand first.
    pub fn held(&self) -> impl Iterator<Item = JobId> {
        let is_unfinished = |it: &&StoppedJob| matches!(it.why, Stopped::Unfinished);
        let unfinished = self.stopped.iter().filter(is_unfinished);
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

    /// Puts a job back where it stood, unless it is there.
    pub fn put_back(&mut self, removed: Removed) {
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
