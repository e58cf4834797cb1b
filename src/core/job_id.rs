//! Job numbers.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// A job's number: unique, and later jobs have larger ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u64);

impl JobId {
    /// New unique id: microseconds since 1970, never used twice by this program, and three more digits, because clocks
    /// stop and programs run in parallel.
    pub fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |since| since.as_micros() as u64);
        let previous = LAST
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |last| {
                Some(now.max(last + 1))
            })
            .unwrap_or(now);
        Self::from_parts(now.max(previous + 1), std::process::id())
    }

    fn from_parts(micros: u64, process: u32) -> Self {
        Self(micros * 1000 + u64::from(process % 1000))
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn job_numbers_grow_and_never_repeat() {
        let ids: Vec<JobId> = (0..1000).map(|_| JobId::next()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn job_ids_of_different_processes_differ_at_the_same_clock_time() {
        let jobs_of = |process| {
            (0..100).map(move |job| JobId::from_parts(1_795_000_000_000_000 + job, process))
        };
        let programs = 4_194_200..4_194_304;
        let ids: HashSet<JobId> = programs.clone().flat_map(jobs_of).collect();
        assert_eq!(ids.len(), programs.count() * 100);
        let own = u64::from(std::process::id() % 1000);
        assert!((0..100).all(|_| JobId::next().0 % 1000 == own));
    }
}
