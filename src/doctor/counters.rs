//! The checks on what earlier jobs met: how often memory ran out and what helped, and which way of convolving was
//! chosen.
//!
//! Reads files that other parts write, and says nothing where there are none or they are of another version.

use std::path::Path;

use safelight_core::memory::counters::{Counters, DeviceCounters};
use safelight_core::memory::tiers::{TierFile, Verdict};
use safelight_core::settings::Paths;

use super::Check;

const NAME: &str = "memory tiers";

pub(super) fn all(paths: &Paths) -> Vec<Check> {
    let mut checks = ladder(&paths.memory_counters());
    let known = TierFile::load(&paths.tiers_file());
    checks.extend(known.verdicts.iter().map(chosen));
    checks
}

fn ladder(file: &Path) -> Vec<Check> {
    let counters = Counters::load(file);
    let devices = counters.devices();
    devices
        .filter_map(|(device, counters)| helped(device, counters))
        .collect()
}

/// `tiles512` 1 of 3
fn worked(name: &str, successes: u64, attempts: u64) -> String {
    format!("{} {successes} of {attempts}", name.replace('_', " "))
}

fn helped(device: &str, counters: &DeviceCounters) -> Option<Check> {
    let (restarts, given_up) = (counters.engine_restarts, counters.given_up);
    let rungs = counters.rungs.iter();
    let mut parts: Vec<String> = rungs
        .map(|(rung, tally)| worked(rung.name(), tally.successes, tally.attempts))
        .collect();
    if restarts > 0 {
        parts.push(format!("the engine was replaced {restarts} times"));
    }
    if parts.is_empty() && given_up == 0 {
        return None;
    }
    let message = format!(
        "{device}: where memory ran out, these helped: {}",
        parts.join(", ")
    );
    Some(if given_up > 0 {
        Check::warn(
            NAME,
            format!("{message}; {given_up} jobs could not be saved"),
        )
        .advise("Choose a smaller size or a quantised model: `safelight plan` says what fits")
    } else {
        Check::ok(NAME, message)
    })
}

fn chosen(verdict: &Verdict) -> Check {
    let Verdict { key, tier, records } = verdict;
    let records: Vec<String> = records
        .iter()
        .map(|record| worked(record.tier.name(), record.successes, record.attempts))
        .collect();
    let (shape, tier) = (key.shape.name(), tier.name().replace('_', " "));
    let what = format!("{}: {shape} convolutions in {}", key.device, key.dtype);
    let worked = records.join(", ");
    Check::ok(
        NAME,
        format!("{what} take the way '{tier}' (worked: {worked})"),
    )
}
