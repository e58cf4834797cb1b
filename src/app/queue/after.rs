//! What happens when the queue is through: nothing, the window closes, or the machine is sent to sleep.
//!
//! There is always time to say no. It never happens while anything is still on its way to the disk.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use egui::{Context, ViewportCommand};
use safelight_core::job::{JobError, JobErrorKind};

use crate::app::App;
use crate::app::background::Answer;
use crate::app::fetching::Fetch;

/// How long there is to say no.
const COUNTDOWN_SECS: f64 = 30.0;

/// Sends the machine to sleep, or says why it stays awake.
pub type Suspend = Arc<dyn Fn() -> Result<(), JobError> + Send + Sync>;

/// What happens when the last job has ended. It counts for this run of the program alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterQueue {
    #[default]
    Nothing,
    Quit,
    Suspend,
}

impl AfterQueue {
    pub const ALL: [Self; 3] = [Self::Nothing, Self::Quit, Self::Suspend];

    /// The name in the interface.
    pub fn label(self) -> &'static str {
        match self {
            Self::Nothing => "Do nothing",
            Self::Quit => "Quit Safelight",
            Self::Suspend => "Suspend the computer",
        }
    }
}

/// The time that is left to say no.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Countdown {
    pub action: AfterQueue,
    /// On the window's clock.
    ends_at: f64,
    /// Whole seconds that are left.
    pub secs_left: u32,
}

impl App {
    /// Begins to count when the last job has ended, counts, and does what was chosen.
    pub(in crate::app) fn watch_end(&mut self, ctx: &Context) {
        if self.session.queue.after == AfterQueue::Nothing {
            return;
        }
        if !self.is_through() {
            self.session.queue.countdown = None;
            return;
        }
        let now = self.now_secs;
        let action = self.session.queue.after;
        let ends_at = match self.session.queue.countdown {
            Some(countdown) => countdown.ends_at,
            None => now + COUNTDOWN_SECS,
        };
        let secs_left = (ends_at - now).max(0.0);
        self.session.queue.countdown = Some(Countdown {
            action,
            ends_at,
            secs_left: secs_left.ceil() as u32,
        });
        if secs_left > 0.0 {
            let wait = secs_left - (secs_left.ceil() - 1.0);
            let wait = Duration::try_from_secs_f64(wait).unwrap_or(Duration::from_secs(1));
            ctx.request_repaint_after(wait);
        } else if self.is_queue_kept() {
            let desk = &mut self.session.queue;
            (desk.after, desk.countdown) = (AfterQueue::Nothing, None);
            self.do_after(ctx, action);
        }
    }

    /// Whether jobs have run, and no other will by itself.
    fn is_through(&self) -> bool {
        let desk = &self.session.queue;
        desk.has_worked
            && self.queue.running.is_none()
            && !self.queue.is_paused
            && desk.editing.is_none()
            && desk.opening.is_empty()
            && self.queue.next(None).is_none()
            // A model on its way counts as work.
            && !self.session.fetch.as_ref().is_some_and(Fetch::is_busy)
    }

    fn do_after(&self, ctx: &Context, action: AfterQueue) {
        match action {
            AfterQueue::Nothing => {}
            AfterQueue::Quit => ctx.send_viewport_cmd(ViewportCommand::Close),
            AfterQueue::Suspend => {
                let suspend = Arc::clone(&self.session.queue.suspend);
                self.background.spawn("suspend", move |postbox| {
                    if let Err(err) = suspend() {
                        postbox.post(Answer::Problem(err));
                    }
                });
            }
        }
    }
}

/// Asks the machine's service manager, which asks whoever may forbid it.
pub(super) fn suspend() -> Result<(), JobError> {
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
