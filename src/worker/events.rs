//! The worker's side of the event channel: certain and lossy updates, and the wake-up.

use crossbeam_channel::{Sender, TrySendError};
use safelight_core::job::{CancelToken, JobId, JobUpdate};

use super::handle::WorkerEvent;

/// Called after each event, on the worker thread; the window's asks for a repaint.
pub type Wake = Box<dyn Fn() + Send>;

pub(super) struct Events {
    sender: Sender<WorkerEvent>,
    wake: Wake,
}

impl Events {
    pub(super) fn new(sender: Sender<WorkerEvent>, wake: Wake) -> Self {
        Self { sender, wake }
    }

    /// The events of one job.
    pub(super) fn of(&self, id: JobId, cancel: CancelToken) -> JobEvents<'_> {
        JobEvents {
            events: self,
            id,
            cancel,
        }
    }
}

/// Sends the updates of one job. A receiver that is gone cancels it: nobody waits for the result.
pub(super) struct JobEvents<'a> {
    events: &'a Events,
    id: JobId,
    cancel: CancelToken,
}

impl JobEvents<'_> {
    /// Waits for room: for updates that must arrive.
    pub(super) fn certain(&self, update: JobUpdate) {
        if self
            .events
            .sender
            .send(WorkerEvent {
                id: self.id,
                update,
            })
            .is_err()
        {
            self.cancel.cancel();
        }
        (self.events.wake)();
    }

    /// Dropped when there is no room: for updates that the next one replaces.
    pub(super) fn lossy(&self, update: JobUpdate) {
        match self.events.sender.try_send(WorkerEvent {
            id: self.id,
            update,
        }) {
            Ok(()) => (self.events.wake)(),
            Err(TrySendError::Full(_)) => {}
            Err(TrySendError::Disconnected(_)) => self.cancel.cancel(),
        }
    }
}
