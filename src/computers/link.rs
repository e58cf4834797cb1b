//! The two ends of a computer: one for the rest of the program, one for its thread.

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::job::JobError;

use super::ComputerInfo;
use crate::worker::{WorkerFarEnd, WorkerHandle};

/// States that may wait.
const STATE_ROOM: usize = 64;

/// State of a computer.
#[derive(Clone, Debug)]
pub enum ComputerState {
    Connecting,
    Connected(Box<ComputerInfo>),
    Failed(JobError),
}

/// A computer as the rest of the program sees it.
#[derive(Debug)]
pub struct ComputerLink {
    pub worker: WorkerHandle,
    pub states: Receiver<ComputerState>,
    retries: Sender<()>,
}

/// Other end of a link, for its thread or a test.
#[derive(Debug)]
pub struct ComputerFarEnd {
    pub worker: WorkerFarEnd,
    pub states: Sender<ComputerState>,
    pub retries: Receiver<()>,
}

impl ComputerLink {
    /// A link without a thread: a test is the computer at the far end.
    pub fn detached() -> (Self, ComputerFarEnd) {
        let (worker, far) = WorkerHandle::detached();
        let (state_sender, states) = bounded(STATE_ROOM);
        let (retries, retry_receiver) = bounded(1);
        let link = Self {
            worker,
            states,
            retries,
        };
        let far = ComputerFarEnd {
            worker: far,
            states: state_sender,
            retries: retry_receiver,
        };
        (link, far)
    }

    /// Tries to connect at once, where it is not connected.
    pub fn reconnect(&self) {
        self.retries.try_send(()).ok();
    }
}
