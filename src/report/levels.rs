//! What is held behind each of many small jobs: resident memory of both processes, and the device's.
//!
//! Reads `/proc`; knows no jobs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};

use safelight_core::job::MemorySample;

/// How many jobs at either end are looked at: single ones differ by what the allocators happen to keep.
const ENDS: usize = 10;

/// Bytes that are held when no job runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    pub engine_rss: u64,
    pub app_rss: u64,
    pub allocated: u64,
    pub reserved: u64,
}

impl Level {
    /// By what it is of, in bytes.
    pub fn fields(&self) -> [(&'static str, u64); 4] {
        [
            ("engine, resident", self.engine_rss),
            ("app, resident", self.app_rss),
            ("device, tensors", self.allocated),
            ("device, held", self.reserved),
        ]
    }

    /// What has to come back: the host's memory, and the device's.
    fn pools(&self) -> [u64; 3] {
        [
            self.engine_rss + self.app_rss,
            self.allocated,
            self.reserved,
        ]
    }

    /// The largest part by which anything grew.
    pub fn growth(&self, before: &Self) -> f64 {
        let pairs = self.pools().into_iter().zip(before.pools());
        let grown = pairs.map(|(after, before)| {
            // A device that held next to nothing may hold a little.
            let base = (before as f64).max(f64::from(1 << 20));
            (after as f64 - before as f64) / base
        });
        grown.fold(0.0, f64::max)
    }
}

/// The levels behind all jobs so far.
#[derive(Debug, Default)]
pub struct Levels {
    warm: Vec<Level>,
    num_jobs: u32,
    engines: BTreeSet<u32>,
}

impl Levels {
    /// Measures behind a job; `is_warm_up`: one of those that meet everything once; `last`: what the engine last said of its device.
    pub fn take(&mut self, is_warm_up: bool, last: &MemorySample) {
        self.num_jobs += 1;
        let engine = child();
        self.engines.extend(engine);
        let level = Level {
            engine_rss: engine.and_then(resident).unwrap_or(0),
            app_rss: resident(std::process::id()).unwrap_or(0),
            allocated: last.allocated_bytes,
            reserved: last.reserved_bytes,
        };
        tracing::info!("job {}: {level:?}", self.num_jobs);
        // A job that ended in the middle of a stage has told of the middle.
        if !is_warm_up {
            self.warm.push(level);
        }
    }

    /// A line now and then.
    pub fn tell_progress(&self, count: u32) {
        if self.num_jobs.is_multiple_of(10) || self.num_jobs == count {
            let last = self.warm.last().copied().unwrap_or_default();
            let [engine, app] = [last.engine_rss, last.app_rss].map(mib);
            let text = format!(
                "{} of {count}: engine {engine:.1} MiB, app {app:.1} MiB",
                self.num_jobs
            );
            // Nobody is left to tell when standard error is closed.
            writeln!(io::stderr(), "{text}").ok();
        }
    }

    /// How many engines there were: more than one means that a level begins anew.
    pub fn num_engines(&self) -> usize {
        self.engines.len()
    }

    /// The least that was held behind the first and behind the last jobs after the warm-up: what the C library happens
    /// to keep of a job comes and goes, a leak stays.
    pub fn ends(&self) -> Option<(Level, Level)> {
        let count = ENDS.min(self.warm.len() / 2);
        if count < 2 {
            return None;
        }
        let (first, last) = (&self.warm[..count], &self.warm[self.warm.len() - count..]);
        Some((least(first), least(last)))
    }
}

fn least(levels: &[Level]) -> Level {
    let of = |field: fn(&Level) -> u64| levels.iter().map(field).min().unwrap_or(0);
    Level {
        engine_rss: of(|level| level.engine_rss),
        app_rss: of(|level| level.app_rss),
        allocated: of(|level| level.allocated),
        reserved: of(|level| level.reserved),
    }
}

/// Both ends, for people.
pub fn table(before: &Level, after: &Level) -> String {
    let rows = before.fields().into_iter().zip(after.fields());
    rows.fold(String::new(), |mut text, ((name, before), (_, after))| {
        let [before, after] = [before, after].map(mib);
        // Writing to a string cannot fail.
        writeln!(text, "{name:18} {before:>10.1} MiB -> {after:>10.1} MiB").ok();
        text
    })
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// The engine: the last process that this one started.
fn child() -> Option<u32> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").ok()?;
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter(|&pid| parent(pid) == Some(own))
        .max()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything, brackets too.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Memory of a process that is its own and in RAM. Pages of files, such as libraries, come and go as the system likes.
fn resident(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kib: u64 = value.split_ascii_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_of_what_grew_most_and_shrinking_is_none() {
        let before = Level {
            engine_rss: 100 << 20,
            app_rss: 50 << 20,
            allocated: 0,
            reserved: 0,
        };
        let after = Level {
            app_rss: 59 << 20,
            engine_rss: 97 << 20,
            ..before
        };
        assert!((after.growth(&before) - 0.04).abs() < 1e-9);
        assert_eq!(before.growth(&before), 0.0);
        let leaked = Level {
            allocated: 1 << 20,
            ..before
        };
        assert_eq!(leaked.growth(&before), 1.0);
    }

    #[test]
    fn what_comes_and_goes_is_no_growth_and_what_stays_is() {
        let level = |engine_rss| Level {
            engine_rss,
            ..Level::default()
        };
        let of = |levels: [u64; 4]| Levels {
            warm: levels.map(level).to_vec(),
            ..Levels::default()
        };
        assert_eq!(of([5, 7, 7, 5]).ends(), Some((level(5), level(5))));
        assert_eq!(of([5, 5, 6, 7]).ends(), Some((level(5), level(6))));
        assert_eq!(Levels::default().ends(), None);
    }

    #[test]
    fn this_process_has_memory_of_its_own_and_a_parent() {
        assert!(resident(std::process::id()).is_some_and(|bytes| bytes > 1 << 16));
        assert!(parent(std::process::id()).is_some_and(|pid| pid > 0));
    }
}
