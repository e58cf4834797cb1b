//! Desktop notifications, and the D-Bus calls that send them.

use std::collections::HashMap;
use std::future::Future;
use std::thread;

use async_io::Timer;
use futures_lite::{StreamExt as _, future};
use safelight_core::job_update::JobOutcome;
use safelight_core::units::duration_text;
use zbus::zvariant::Value;
use zbus::{Connection, MatchRule, MessageStream, message};

use crate::window::desktop::{APP_ID, DesktopState, is_looked_at, short};
use crate::window::notices::sentence;
use crate::window::prelude::*;
use crate::window::queue::RunningJob;

const NAME: &str = "org.freedesktop.Notifications";
const PATH: &str = "/org/freedesktop/Notifications";
/// Somebody who comes back later than this finds the window without it.
const CLICKED_WITHIN: Duration = Duration::from_mins(30);

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesktopMessage {
    pub summary: String,
    pub body: String,
}

/// Shows a notification from a separate thread; `clicked` runs when it is clicked.
pub(super) fn send(message: DesktopMessage, clicked: Box<dyn FnOnce() + Send>) {
    let spawned = thread::Builder::new()
        .name("notification".to_owned())
        .spawn(move || match wait_at_most(CLICKED_WITHIN, show(&message)) {
            Some(Ok(true)) => clicked(),
            Some(Ok(false)) | None => {}
            Some(Err(err)) => tracing::debug!("no notification could be shown: {err}"),
        });
    if let Err(err) = spawned {
        tracing::debug!("no notification could be sent: {err}");
    }
}

/// Returns whether it was clicked, once it is closed.
async fn show(message: &DesktopMessage) -> zbus::Result<bool> {
    let connection = session().await?;
    // Before the message, so that no click is missed.
    let mut signals = signals(&connection, NAME).await?;
    let hints = HashMap::from([
        ("desktop-entry", Value::from(APP_ID)),
        ("urgency", Value::from(1_u8)),
    ]);
    let actions = ["default", "Show"];
    let body = escaped(&message.body);
    let content = (
        "Safelight",
        0_u32,
        APP_ID,
        message.summary.as_str(),
        body.as_str(),
        actions.as_slice(),
        hints,
        -1_i32,
    );
    let reply = connection
        .call_method(Some(NAME), PATH, Some(NAME), "Notify", &content)
        .await?;
    let id: u32 = reply.body().deserialize()?;
    while let Some(signal) = signals.next().await {
        let signal = signal?;
        let header = signal.header();
        let Some(member) = header.member() else {
            continue;
        };
        match member.as_str() {
            "ActionInvoked" => {
                let (of, _action): (u32, String) = signal.body().deserialize()?;
                if of == id {
                    return Ok(true);
                }
            }
            "NotificationClosed" => {
                let (of, _reason): (u32, u32) = signal.body().deserialize()?;
                if of == id {
                    return Ok(false);
                }
            }
            _ => {}
        }
    }
    Ok(false)
}

/// The body may hold markup: what looks like it in a prompt is none.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

pub(super) async fn session() -> zbus::Result<Connection> {
    Connection::session().await
}

pub(super) async fn signals(
    connection: &Connection,
    interface: &'static str,
) -> zbus::Result<MessageStream> {
    let rule = MatchRule::builder()
        .msg_type(message::Type::Signal)
        .interface(interface)?
        .build();
    MessageStream::for_match_rule(rule, connection, None).await
}

/// Blocks until the future ends.
pub(super) fn wait<T>(work: impl Future<Output = T>) -> T {
    async_io::block_on(work)
}

/// Like [`wait`]; `None` when it takes longer.
pub(super) fn wait_at_most<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    let late = async {
        Timer::after(limit).await;
        None
    };
    wait(future::or(async { Some(work.await) }, late))
}

/// Results that ended since the window was last looked at.
#[derive(Debug, Default)]
pub(super) struct UnseenResults {
    /// When the first of these jobs began.
    since: Option<Instant>,
    num_done: u32,
    num_failed: u32,
    num_videos: u32,
    num_images: u32,
}

impl UnseenResults {
    fn count(&mut self, job: &RunningJob) {
        self.num_done += 1;
        if job.request.makes_images() {
            self.num_images += job.request.batch_size().max(1);
        } else {
            self.num_videos += 1;
        }
    }

    /// `last` is the job that has just ended.
    fn message(&self, last: &RunningJob, outcome: &JobOutcome, after: &str) -> DesktopMessage {
        let prompt = short(&last.request.title());
        if let (1, 0, JobOutcome::Finished(output)) = (self.num_done, self.num_failed, outcome) {
            let name = output.path().file_name().unwrap_or_default();
            return DesktopMessage {
                summary: format!("Done in {after}"),
                body: format!("{prompt}\n{}", name.to_string_lossy()),
            };
        }
        let done = done_text(self.num_videos, self.num_images);
        let failed = counted(self.num_failed as usize, "1 job failed", "{} jobs failed");
        let last = format!("After {after}. The last job: {prompt}");
        let (summary, body) = match (self.num_done, self.num_failed) {
            (_, 0) => (done, last),
            (0, _) => (failed, last),
            _ => (done, format!("{failed}\n{last}")),
        };
        DesktopMessage { summary, body }
    }
}

fn done_text(num_videos: u32, num_images: u32) -> String {
    let videos = counted(num_videos as usize, "1 video", "{} videos");
    let images = counted(num_images as usize, "1 image", "{} images");
    let made = match (num_videos, num_images) {
        (_, 0) => videos,
        (0, _) => images,
        _ => format!("{videos} and {images}"),
    };
    let verb = if num_videos + num_images == 1 {
        "is"
    } else {
        "are"
    };
    format!("{made} {verb} done")
}

impl DesktopState {
    /// Notifies of a job's end when the window is not looked at; `goes_on`: another job follows.
    pub(crate) fn notify_ended(
        &mut self,
        job: &RunningJob,
        outcome: &JobOutcome,
        goes_on: bool,
        cx: &AppContext,
    ) {
        if !cx.settings.interface.notifications || is_looked_at(&cx.ctx) {
            return;
        }
        let since = *self.unseen.since.get_or_insert(job.began);
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
        let is_announced = self.unseen.num_done == 0 && self.unseen.num_failed <= 1;
        if is_announced || goes_on || took < self.links.notify_after {
            return;
        }
        let unseen = std::mem::take(&mut self.unseen);
        let after = duration_text(took.as_secs_f64());
        self.tell(unseen.message(job, outcome, &after), cx);
    }

    fn tell(&mut self, message: DesktopMessage, cx: &AppContext) {
        let (postbox, click) = BackgroundTask::new(&cx.ctx);
        self.clicks.add(click);
        let clicked = move || {
            postbox.post(());
        };
        (self.links.notify)(message, Box::new(clicked));
    }
}

fn failure(job: &RunningJob, err: &JobError) -> DesktopMessage {
    let prompt = short(&job.request.title());
    DesktopMessage {
        summary: "A job failed".to_owned(),
        body: format!("{prompt}\n{}", sentence(&err.summary)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_with_brackets_is_no_markup() {
        assert_eq!(escaped("<lora:a:1> & more"), "&lt;lora:a:1&gt; &amp; more");
    }
}
