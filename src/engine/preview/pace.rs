//! Rate limit of previews.
//!
//! The caller passes the time, so tests need no clock.

use std::time::{Duration, Instant};

/// Nobody sees more.
const LEAST: Duration = Duration::from_millis(100);
/// Previews take at most 1 / `SHARE` of the time.
const SHARE: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct PreviewThrottle {
    next: Option<Instant>,
}

impl PreviewThrottle {
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next.is_none_or(|next| now >= next)
    }

    pub(super) fn record(&mut self, began: Instant, ended: Instant) {
        let cost = ended.saturating_duration_since(began);
        self.next = Some(ended + LEAST.max(cost * SHARE));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_come_at_most_ten_times_a_second_and_cost_at_most_a_tenth_of_the_time() {
        let mut pace = PreviewThrottle::default();
        let start = Instant::now();
        assert!(pace.is_due(start));
        let at = |millis: u64| start + Duration::from_millis(millis);
        pace.record(start, at(5));
        assert!(!pace.is_due(at(104)) && pace.is_due(at(105)));
        pace.record(at(200), at(500));
        assert!(!pace.is_due(at(3499)) && pace.is_due(at(3500)));
    }
}
