//! What the desktop is told of jobs that end while nobody looks at the window: the first failure at once, and all the
//! rest in one message when no other job follows.

use std::time::Instant;

use egui::Context;
use safelight_core::job::{JobError, JobOutcome};
use safelight_core::units::duration_text;

use super::{DesktopAnswer, Message, is_looked_at, short};
use crate::app::App;
use crate::app::background::Answer;
use crate::app::queue::RunningJob;
use crate::ui::widgets::sentence;

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
            self.num_pictures += job.request.batch_size.max(1);
        } else {
            self.num_clips += 1;
        }
    }

    /// All of it in one message; `last` is the job that has just ended.
    fn message(&self, last: &RunningJob, outcome: &JobOutcome, after: &str) -> Message {
        let prompt = short(&last.request.prompt);
        if let (1, 0, JobOutcome::Finished(output)) = (self.num_done, self.num_failed, outcome) {
            let name = output.path().file_name().unwrap_or_default();
            return Message {
                summary: format!("Done in {after}"),
                body: format!("{prompt}\n{}", name.to_string_lossy()),
            };
        }
        let counted = [(self.num_clips, "clip"), (self.num_pictures, "picture")];
        let counted = counted.into_iter().filter(|(count, _)| *count > 0);
        let words = counted.map(|(count, noun)| match count {
            1 => format!("1 {noun}"),
            _ => format!("{count} {noun}s"),
        });
        let words: Vec<String> = words.collect();
        let verb = match self.num_clips + self.num_pictures {
            1 => "is",
            _ => "are",
        };
        let done = format!("{} {verb} done", words.join(" and "));
        let failed = match self.num_failed {
            1 => "1 job failed".to_owned(),
            count => format!("{count} jobs failed"),
        };
        let last = format!("After {after}. The last job: {prompt}");
        let (summary, body) = match (self.num_done, self.num_failed) {
            (_, 0) => (done, last),
            (0, _) => (failed, last),
            _ => (done, format!("{failed}\n{last}")),
        };
        Message { summary, body }
    }
}

impl App {
    /// Tells of a job's end when nobody looks at the window.
    pub(in crate::app) fn notify_ended(
        &mut self,
        ctx: &Context,
        job: &RunningJob,
        outcome: &JobOutcome,
    ) {
        if !self.settings.interface.notifications || is_looked_at(ctx) {
            return;
        }
        let desktop = &mut self.session.desktop;
        let Some((_, begin)) = desktop.running.filter(|(id, _)| *id == job.id) else {
            return;
        };
        let since = *desktop.unseen.since.get_or_insert(begin);
        match outcome {
            JobOutcome::Finished(_) => desktop.unseen.count(job),
            JobOutcome::Failed(err) => {
                desktop.unseen.num_failed += 1;
                if desktop.unseen.num_failed == 1 {
                    self.tell(failure(job, err));
                }
            }
            // Whoever cancels knows it.
            JobOutcome::Cancelled | JobOutcome::Kept(_) | JobOutcome::Paused => {}
        }
        let took = since.elapsed();
        let unseen = &self.session.desktop.unseen;
        let is_told = unseen.num_done == 0 && unseen.num_failed <= 1;
        if is_told || self.will_go_on() || took < self.desktop.notify_after {
            return;
        }
        let unseen = std::mem::take(&mut self.session.desktop.unseen);
        let after = duration_text(took.as_secs_f64());
        self.tell(unseen.message(job, outcome, &after));
    }

    /// Whether another job follows by itself.
    fn will_go_on(&self) -> bool {
        let (queue, desk) = (&self.queue, &self.session.queue);
        let has_more = queue.next(desk.edited()).is_some() || !desk.opening.is_empty();
        has_more && !queue.is_paused && !queue.pauses_after
    }

    fn tell(&self, message: Message) {
        let postbox = self.background.postbox();
        let raise = move || postbox.post(Answer::Desktop(DesktopAnswer::Raise));
        (self.desktop.notify)(message, Box::new(raise));
    }
}

fn failure(job: &RunningJob, err: &JobError) -> Message {
    let prompt = short(&job.request.prompt);
    Message {
        summary: "A job failed".to_owned(),
        body: format!("{prompt}\n{}", sentence(&err.summary)),
    }
}
