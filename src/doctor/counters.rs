//! Checks of earlier jobs: how often memory ran out and what helped, and the chosen convolution backends.
//!
//! Reads files that other parts write, and says nothing where there are none or they are of another version.

use std::path::Path;

use safelight_core::compute::conv_backends::{
    ConvBackend, ConvBackendFile, ConvBackendVerdict, MiopenMode,
};
use safelight_core::memory::FallbackLevel;
use safelight_core::memory::counters::{DeviceCounters, FallbackCounters};
use safelight_core::settings::AppPaths;

use super::check::CheckResult;

const NAME: &str = "memory tiers";

pub(super) fn all(paths: &AppPaths) -> Vec<CheckResult> {
    let mut checks = ladder(&paths.memory_counters());
    let known = ConvBackendFile::load(&paths.conv_backends_file());
    checks.extend(known.verdicts.iter().map(chosen));
    checks
}

fn ladder(file: &Path) -> Vec<CheckResult> {
    let counters = FallbackCounters::load(file);
    let devices = counters.devices();
    devices
        .flat_map(|(device, counters)| {
            helped(device, counters)
                .into_iter()
                .chain(restarted(device, counters))
        })
        .collect()
}

/// `in tiles of 512 pixels 1 of 3`
fn worked(what: &str, successes: u64, attempts: u64) -> String {
    format!("{what} {successes} of {attempts}")
}

fn done_on(rung: FallbackLevel) -> &'static str {
    match rung {
        FallbackLevel::Ground | FallbackLevel::FreeAndRetry => "with all memory freed",
        FallbackLevel::StreamMore => "with streamed weights",
        FallbackLevel::Tiles512 => "in tiles of 512 pixels",
        FallbackLevel::Tiles256 => "in tiles of 256 pixels",
        FallbackLevel::OnCpu => "on the CPU",
    }
}

fn helped(device: &str, counters: &DeviceCounters) -> Option<CheckResult> {
    let rungs = counters.rungs.iter();
    let tried: Vec<String> = rungs
        .map(|(rung, tally)| worked(done_on(*rung), tally.successes, tally.attempts))
        .collect();
    let mut message = format!("{device}: some jobs ran out of memory or failed");
    if !tried.is_empty() {
        message = format!("{message}; retries that worked: {}", tried.join(", "));
    }
    Some(match counters.given_up {
        0 if tried.is_empty() => return None,
        0 => CheckResult::ok(NAME, message),
        failed => CheckResult::warn(NAME, format!("{message}; {failed}× nothing helped"))
            .advise("Choose a smaller size or a quantised model: `safelight plan` says what fits"),
    })
}

/// Says no cause: memory, a driver and whoever ends a process look alike from here.
fn restarted(device: &str, counters: &DeviceCounters) -> Option<CheckResult> {
    let restarts = counters.engine_restarts;
    let message = format!("{device}: the engine ended unexpectedly and was restarted {restarts}×");
    (restarts > 0).then(|| CheckResult::ok("restarts", message))
}

/// `frame by frame, with a search`
fn tried(backend: ConvBackend, mode: MiopenMode) -> String {
    if mode == MiopenMode::default() {
        return backend.label().to_owned();
    }
    format!("{}, {}", backend.label(), mode.label())
}

fn chosen(verdict: &ConvBackendVerdict) -> CheckResult {
    let ConvBackendVerdict {
        key,
        backend,
        mode,
        records,
        ..
    } = verdict;
    let records: Vec<String> = records
        .iter()
        .map(|record| {
            let what = tried(record.backend, record.mode);
            worked(&what, record.successes, record.attempts)
        })
        .collect();
    let shape = key.shape.name();
    let of = key.convolutions.name();
    let what = format!(
        "{}: {shape} convolutions of {of} in {}",
        key.device, key.dtype
    );
    let worked = records.join(", ");
    CheckResult::ok(
        NAME,
        format!("{what} run {} (worked: {worked})", tried(*backend, *mode)),
    )
}

#[cfg(test)]
mod tests {
    use safelight_core::memory::counters::FallbackCount;

    use super::*;
    use crate::doctor::CheckStatus;

    #[test]
    fn an_engine_that_ended_is_no_memory_that_ran_out() {
        let mut counters = DeviceCounters {
            engine_restarts: 1,
            ..DeviceCounters::default()
        };
        assert_eq!(helped("a GPU", &counters), None);
        let restarts = restarted("a GPU", &counters).unwrap();
        let said = "a GPU: the engine ended unexpectedly and was restarted 1×";
        assert_eq!(restarts.name, "restarts");
        assert_eq!(restarts.message.as_str(), said);

        let tally = FallbackCount {
            attempts: 3,
            successes: 1,
        };
        counters.rungs.insert(FallbackLevel::Tiles512, tally);
        counters.given_up = 2;
        let retries = helped("a GPU", &counters).unwrap();
        assert_eq!(retries.status, CheckStatus::Warn);
        let said = "in tiles of 512 pixels 1 of 3; 2× nothing helped";
        assert!(retries.message.ends_with(said), "{retries:?}");
    }
}
