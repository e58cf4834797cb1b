//! The near end of the worker: two bounded channels that never block their user.

use std::path::PathBuf;

use crossbeam_channel::{Receiver, Sender, TrySendError, bounded};
use safelight_core::job::{CancelToken, DeviceChoice, JobId, JobRequest};
use safelight_core::job_update::JobUpdate;

/// Events that may wait. Lossy ones are dropped beyond that, the others wait for room.
const EVENT_ROOM: usize = 256;

/// A job for the worker. It quits when the handle is dropped.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    pub id: JobId,
    pub request: JobRequest,
    pub device: DeviceChoice,
    pub cancel: CancelToken,
    /// Folder of the job, if an earlier program left it unfinished.
    pub resume: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct WorkerEvent {
    pub id: JobId,
    pub update: JobUpdate,
}

/// The worker as the rest of the program sees it.
#[derive(Debug)]
pub struct WorkerHandle {
    commands: Sender<WorkerCommand>,
    events: Receiver<WorkerEvent>,
    gone: CancelToken,
}

impl Drop for WorkerHandle {
    /// Cancels the running job, whose events would be lost.
    fn drop(&mut self) {
        self.gone.cancel();
    }
}

/// Other end of both channels, for the worker thread or a test.
#[derive(Debug)]
pub struct WorkerFarEnd {
    pub commands: Receiver<WorkerCommand>,
    pub events: Sender<WorkerEvent>,
    /// Set when the handle is dropped: only senders notice a closed channel.
    pub gone: CancelToken,
}

impl WorkerHandle {
    /// A handle without a thread: a test is the worker at the far end.
    pub fn detached() -> (Self, WorkerFarEnd) {
        let (command_sender, command_receiver) = bounded(1);
        let (event_sender, event_receiver) = bounded(EVENT_ROOM);
        let gone = CancelToken::default();
        (
            Self {
                commands: command_sender,
                events: event_receiver,
                gone: gone.clone(),
            },
            WorkerFarEnd {
                commands: command_receiver,
                events: event_sender,
                gone,
            },
        )
    }

    /// Sends a job; returns it when the worker is busy or gone.
    pub fn try_send(&self, command: WorkerCommand) -> Result<(), WorkerCommand> {
        self.commands
            .try_send(command)
            .map_err(TrySendError::into_inner)
    }

    pub fn drain(&self) -> impl Iterator<Item = WorkerEvent> + '_ {
        self.events.try_iter()
    }

    /// Waits for the next event; `None` when the worker is gone. Never called by the window.
    pub fn wait(&self) -> Option<WorkerEvent> {
        self.events.recv().ok()
    }
}
