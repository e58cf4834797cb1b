//! The worker's side of the event channel: certain and lossy updates, and the wake-up.

use crossbeam_channel::Sender;
use safelight_core::job::{CancelToken, JobId, JobUpdate};

use super::handle::WorkerEvent;

/// Called after each event, on the worker thread; the window's asks for a repaint.
pub type Wake = Box<dyn Fn() + Send>;

pub(super) struct Events {
    sender: Sender<WorkerEvent>,
    wake: Wake,
    gone: CancelToken,
}

impl Events {
    pub(super) fn new(sender: Sender<WorkerEvent>, wake: Wake, gone: CancelToken) -> Self {
        Self { sender, wake, gone }
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

/// Sends the updates of one job, and knows whether anybody still wants it.
pub(super) struct JobEvents<'a> {
    events: &'a Events,
    id: JobId,
    cancel: CancelToken,
}

impl JobEvents<'_> {
    /// Waits for room: for updates that must arrive. A receiver that is gone needs none.
    pub(super) fn certain(&self, update: JobUpdate) {
        self.events.sender.send(self.event(update)).ok();
        (self.events.wake)();
    }

    /// Dropped when there is no room: for updates that the next one replaces.
    pub(super) fn lossy(&self, update: JobUpdate) {
        if self.events.sender.try_send(self.event(update)).is_ok() {
            (self.events.wake)();
        }
    }

    /// Cancelled, or wanted by nobody because the other end of the worker is gone.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled() || self.events.gone.is_cancelled()
    }

    fn event(&self, update: JobUpdate) -> WorkerEvent {
        WorkerEvent {
            id: self.id,
            update,
        }
    }
}
