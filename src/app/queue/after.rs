//! What happens when the queue is through: nothing, the window closes, or the machine is sent to sleep.
//!
//! There is always time to say no. It never happens while anything is still on its way to the disk.

use std::process::Command;

use egui::ViewportCommand;
use safelight_core::job::{JobError, JobErrorKind};

use crate::app::cx::Cx;
use crate::app::queue::JobQueue;
use crate::app::queue::choices::{AfterQueue, Countdown};

/// How long there is to say no.
const COUNTDOWN_SECS: f64 = 30.0;

impl JobQueue {
    /// Begins to count when the last job has ended, counts, and does what was chosen. A model on its way counts as work.
    pub(super) fn watch_end(&mut self, is_fetching: bool, cx: &Cx) {
        if self.after == AfterQueue::Nothing {
            return;
        }
        if is_fetching || !self.is_through() {
            self.countdown = None;
            return;
        }
        let action = self.after;
        let ends_at = match self.countdown {
            Some(countdown) => countdown.ends_at,
            None => cx.now_secs + COUNTDOWN_SECS,
        };
        let secs_left = (ends_at - cx.now_secs).max(0.0);
        self.countdown = Some(Countdown {
            action,
            ends_at,
            secs_left: secs_left.ceil() as u32,
        });
        if secs_left > 0.0 {
            cx.wake_in(secs_left - (secs_left.ceil() - 1.0));
        } else if self.keeping.is_kept(self.revision()) {
            (self.after, self.countdown) = (AfterQueue::Nothing, None);
            self.do_after(action, cx);
        }
    }

    /// Whether jobs have run, and no other will by itself.
    fn is_through(&self) -> bool {
        self.has_worked
            && self.running.is_none()
            && !self.is_paused
            && self.editing.is_none()
            && self.opening.is_empty()
            && self.next(None).is_none()
    }

    fn do_after(&self, action: AfterQueue, cx: &Cx) {
        match action {
            AfterQueue::Nothing => {}
            AfterQueue::Quit => cx.ctx.send_viewport_cmd(ViewportCommand::Close),
            AfterQueue::Suspend => {
                let other = self.suspend.clone();
                let suspend = move || other.map_or_else(suspend, |suspend| suspend());
                cx.background.attempt("suspend", suspend);
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
