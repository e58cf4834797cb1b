//! Time limit for work that may hang in a driver or on a dead disk: it runs on a thread that is abandoned when it takes
//! too long.
//!
//! Ends no thread: that is impossible while it is in the kernel.

use std::thread;
use std::time::Duration;

use crossbeam_channel::bounded;

/// Result of `work`, or `None` if it did not end within `time_limit` (or panicked).
pub fn within<T: Send + 'static>(
    limit: Duration,
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = bounded(1);
    let thread = thread::Builder::new().name(name.to_owned());
    thread
        .spawn(move || {
            // Nobody waits any more when it took too long.
            sender.send(work()).ok();
        })
        .ok()?;
    receiver.recv_timeout(limit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hanging_call_times_out_and_a_finished_call_returns_its_value() {
        assert_eq!(within(Duration::from_mins(1), "quick", || 7), Some(7));
        let (release, held) = bounded::<()>(0);
        let hung = within(Duration::from_millis(20), "hangs", move || held.recv());
        assert_eq!(hung, None);
        drop(release);
    }
}
