//! The flag that stops a job, for good or for a while.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

const RUNS: u8 = 0;
const IS_PAUSED: u8 = 1;
const IS_CANCELLED: u8 = 2;

/// A shared flag, looked at between blocks and tiles.
///
/// It is never a queued message: a message would wait behind the work that it should stop.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicU8>);

impl CancelToken {
    /// Asks the job to stop. Cannot be taken back.
    pub fn cancel(&self) {
        self.0.store(IS_CANCELLED, Ordering::Relaxed);
    }

    /// Asks the job to stop so that it can go on later. Who was cancelled stays so.
    pub fn pause(&self) {
        // It fails only where it is stopped already.
        self.0
            .compare_exchange(RUNS, IS_PAUSED, Ordering::Relaxed, Ordering::Relaxed)
            .ok();
    }

    /// Whether the job is to stop, be it for a while.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed) != RUNS
    }

    /// Whether it stops only for a while.
    pub fn is_paused(&self) -> bool {
        self.0.load(Ordering::Relaxed) == IS_PAUSED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_paused_job_can_be_cancelled_and_never_the_other_way() {
        let token = CancelToken::default();
        token.pause();
        assert!(token.is_cancelled() && token.is_paused());
        token.cancel();
        token.pause();
        assert!(token.is_cancelled() && !token.is_paused());
    }
}
