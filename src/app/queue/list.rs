//! The order of the waiting jobs and the ways between waiting and stopped: plain moves in two lists.
//!
//! What they mean for the worker and the disk is the app's.

use std::path::PathBuf;

use safelight_core::job::{DeviceChoice, GenerateRequest, JobId};

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
}

impl Removed {
    pub fn job(&self) -> &WaitingJob {
        match self {
            Self::Waiting(_, job) => job,
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
            resume: None,
            is_held: false,
            missing: Vec::new(),
        }
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

    /// How many of the waiting jobs are of an earlier run.
    pub fn num_held(&self) -> usize {
        self.waiting.iter().filter(|job| job.is_held).count()
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
            Removed::Stopped(at, job) => self.stopped.insert(at.min(self.stopped.len()), job),
        }
    }

    /// Lets a stopped job run again: from where it stopped, else anew. A paused one is the next.
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
        if matches!(why, Stopped::Paused) {
            self.waiting.push_front(job);
        } else {
            self.waiting.push_back(job);
        }
        self.touch();
    }

    pub fn stop(&mut self, stopped: StoppedJob) {
        self.stopped.push(stopped);
        self.touch();
    }
}
