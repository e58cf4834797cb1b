//! Looks every second whether models have come or gone.

use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError};
use safelight_core::library::Watch;

use crate::app::background::{Answer, Postbox};

/// How often is looked whether models have come or gone; a change counts once it has lasted as long.
const WATCH_EVERY: Duration = Duration::from_secs(1);

/// Sleeps until there is something to watch, and draws nothing while it stays as it is.
pub(super) fn watch(watched: &Receiver<Watch>, postbox: &Postbox) {
    let mut now = Watch::default();
    loop {
        let next = if now.is_empty() {
            watched.recv().map_err(RecvTimeoutError::from)
        } else {
            watched.recv_timeout(WATCH_EVERY)
        };
        match next {
            Ok(next) => now = next,
            Err(RecvTimeoutError::Timeout) => {
                if now.has_settled_change() {
                    postbox.post(Answer::ModelsChanged);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
