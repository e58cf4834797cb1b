//! What the desktop is told of jobs that end while nobody looks at the window: the first failure at once, and all the
//! rest in one message when no other job follows.

use std::time::Instant;

use safelight_core::job::{JobError, JobOutcome};
use safelight_core::units::duration_text;

use super::{Desktop, Message, is_looked_at, short};
use crate::app::cx::Cx;
use crate::app::notices::sentence;
use crate::app::pending::Pending;
use crate::app::queue::RunningJob;

/// What ended since the window was looked at.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// When the first of these jobs began.
    since: Option<Instant>,
    num_done: u32,
    num_failed: u32,
    num_clips: u32,
    num_pictures: u32,
}

impl Unseen {
    fn count(&mut self, job: &RunningJob) {
        self.num_done += 1;
        if job.request.makes_pictures() {
            self.num_pictures += job.request.batch_size().max(1);
        } else {
            self.num_clips += 1;
        }
    }

    /// All of it in one message; `last` is the job that has just ended.
    fn message(&self, last: &RunningJob, outcome: &JobOutcome, after: &str) -> Message {
        let prompt = short(&last.request.title());
        if let (1, 0, JobOutcome::Finished(output)) = (self.num_done, self.num_failed, outcome) {
            let name = output.path().file_name().unwrap_or_default();
            return Message {
                summary: format!("Done in {after}"),
                body: format!("{prompt}\n{}", name.to_string_lossy()),
            };
        }
        let done = done_text(self.num_clips, self.num_pictures);
        let failed = failed_text(self.num_failed);
        let last = format!("After {after}. The last job: {prompt}");
        let (summary, body) = match (self.num_done, self.num_failed) {
            (_, 0) => (done, last),
            (0, _) => (failed, last),
            _ => (done, format!("{failed}\n{last}")),
        };
        Message { summary, body }
    }
}

fn done_text(num_clips: u32, num_pictures: u32) -> String {
    match (num_clips, num_pictures) {
        (1, 0) => "1 clip is done".to_owned(),
        (clips, 0) => format!("{clips} clips are done"),
        (0, 1) => "1 picture is done".to_owned(),
        (0, pictures) => format!("{pictures} pictures are done"),
        (1, 1) => "1 clip and 1 picture are done".to_owned(),
        (1, pictures) => format!("1 clip and {pictures} pictures are done"),
        (clips, 1) => format!("{clips} clips and 1 picture are done"),
        (clips, pictures) => format!("{clips} clips and {pictures} pictures are done"),
    }
}

fn failed_text(count: u32) -> String {
    match count {
        1 => "1 job failed".to_owned(),
        count => format!("{count} jobs failed"),
    }
}

impl Desktop {
    /// Tells of a job's end when nobody looks at the window; `goes_on`: another one follows by itself.
    pub(in crate::app) fn notify_ended(
        &mut self,
        job: &RunningJob,
        outcome: &JobOutcome,
        goes_on: bool,
        cx: &Cx,
    ) {
        if !cx.settings.interface.notifications || is_looked_at(&cx.ctx) {
            return;
        }
        let Some((_, begin)) = self.running.filter(|(id, _)| *id == job.id) else {
            return;
        };
        let since = *self.unseen.since.get_or_insert(begin);
        match outcome {
            JobOutcome::Finished(_) => self.unseen.count(job),
            JobOutcome::Failed(err) => {
                self.unseen.num_failed += 1;
                if self.unseen.num_failed == 1 {
                    self.tell(failure(job, err), cx);
                }
            }
            // Whoever cancels knows it.
            JobOutcome::Cancelled | JobOutcome::Kept(_) | JobOutcome::Paused => {}
        }
        let took = since.elapsed();
        let is_told = self.unseen.num_done == 0 && self.unseen.num_failed <= 1;
        if is_told || goes_on || took < self.links.notify_after {
            return;
        }
        let unseen = std::mem::take(&mut self.unseen);
        let after = duration_text(took.as_secs_f64());
        self.tell(unseen.message(job, outcome, &after), cx);
    }

    fn tell(&mut self, message: Message, cx: &Cx) {
        let (postbox, click) = Pending::new(&cx.ctx);
        self.clicks.add(click);
        let clicked = move || {
            postbox.post(());
        };
        (self.links.notify)(message, Box::new(clicked));
    }
}

fn failure(job: &RunningJob, err: &JobError) -> Message {
    let prompt = short(&job.request.title());
    Message {
        summary: "A job failed".to_owned(),
        body: format!("{prompt}\n{}", sentence(&err.summary)),
    }
}
