//! Download speed over the last seconds.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Long enough that the number can be read, short enough that it is true.
const WINDOW: Duration = Duration::from_secs(5);

/// The last moments, oldest first.
pub(super) struct DownloadSpeed {
    moments: VecDeque<(Instant, u64)>,
}

impl DownloadSpeed {
    pub(super) fn new(now: Instant, bytes: u64) -> Self {
        Self {
            moments: VecDeque::from([(now, bytes)]),
        }
    }

    /// Bytes per second after a total of `bytes`.
    pub(super) fn after(&mut self, now: Instant, bytes: u64) -> f64 {
        self.moments.push_back((now, bytes));
        while self.moments.len() > 2 && now.duration_since(self.moments[0].0) > WINDOW {
            self.moments.pop_front();
        }
        let (then, before) = self.moments[0];
        let secs = now.duration_since(then).as_secs_f64();
        if secs > 0.0 {
            bytes.saturating_sub(before) as f64 / secs
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_seconds_count() {
        let start = Instant::now();
        let at = |secs: u64| start + Duration::from_secs(secs);
        let mut speed = DownloadSpeed::new(start, 1000);
        assert_eq!(speed.after(start, 1000), 0.0);
        assert_eq!(speed.after(at(2), 3000), 1000.0);
        for secs in 3..=20 {
            speed.after(at(secs), 3000 + 50 * (secs - 2));
        }
        assert_eq!(speed.after(at(21), 3950), 50.0);
    }
}
