//! The flag that stops a job, for good or for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

const RUNS: u8 = 0;
const IS_PAUSED: u8 = 1;
const IS_CANCELLED: u8 = 2;

/// Shared flag, checked between blocks and tiles.
///
/// It is not a queued message: a message would wait until after the work that it should stop.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<CancelFlags>);

#[derive(Debug, Default)]
struct CancelFlags {
    state: AtomicU8,
    waits_no_more: AtomicBool,
}

impl CancelToken {
    /// Asks the job to stop. Cannot be undone.
    pub fn cancel(&self) {
        self.0.state.store(IS_CANCELLED, Ordering::Relaxed);
    }

    /// Requests a stop from which the job can resume. A cancelled job stays cancelled.
    pub fn pause(&self) {
        // It fails only where it is stopped already.
        self.0
            .state
            .compare_exchange(RUNS, IS_PAUSED, Ordering::Relaxed, Ordering::Relaxed)
            .ok();
    }

    /// Asks the job to wait for no other program any more. Cannot be taken back.
    pub fn wait_no_more(&self) {
        self.0.waits_no_more.store(true, Ordering::Relaxed);
    }

    /// Returns whether the job continues regardless of other programs' memory.
    pub fn waits_no_more(&self) -> bool {
        self.0.waits_no_more.load(Ordering::Relaxed)
    }

    /// True if the job is to stop, temporarily or for good.
    pub fn is_cancelled(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) != RUNS
    }

    /// True if it stops only temporarily.
    pub fn is_paused(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == IS_PAUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paused_job_can_be_cancelled_but_a_cancelled_job_cannot_be_paused() {
        let token = CancelToken::default();
        token.pause();
        assert!(token.is_cancelled() && token.is_paused());
        token.cancel();
        token.pause();
        assert!(token.is_cancelled() && !token.is_paused());
    }
}
