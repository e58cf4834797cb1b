//! Times a call and weighs its memory: warm-up, then runs with the device synchronised behind each.

use std::io::{self, Write};
use std::time::Instant;

use crate::error::EngineError;
use crate::runtime::{memory_counts, memory_peaks, reset_peaks, synchronize};
use serde::Serialize;
use tch::Device;

/// What a case took, in the terms of the comparison program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    pub median_s: f64,
    pub min_s: f64,
    /// The first run of all, with what libraries load, compile and search for on first use.
    pub first_s: f64,
    /// Timed runs.
    pub runs: usize,
    /// All that is allocated between two runs: weights, inputs, what is kept.
    pub weights_gib: f64,
    /// The most that was allocated in a run.
    pub peak_gib: f64,
    /// The most that the allocator held in a run.
    pub peak_reserved_gib: f64,
    /// The weights alone, exactly.
    pub weights_bytes: u64,
}

/// `call` gives `None` when it was cancelled, which nobody does here.
pub(super) fn timed(
    device: Device,
    warm_ups: usize,
    runs: usize,
    weights_bytes: u64,
    call: &mut dyn FnMut() -> Option<()>,
) -> Result<Measured, EngineError> {
    let mut once = || {
        let started = Instant::now();
        let done = call().is_some() && synchronize(device);
        done.then(|| started.elapsed().as_secs_f64())
            .ok_or_else(|| EngineError::Internal {
                reason: "the device failed at it".to_owned(),
            })
    };
    let mut first = None;
    for _ in 0..warm_ups {
        let secs = once()?;
        first.get_or_insert(secs);
    }
    reset_peaks(device);
    let between = memory_counts(device).allocated;
    let mut secs = Vec::with_capacity(runs);
    for _ in 0..runs.max(1) {
        secs.push(once()?);
    }
    let peaks = memory_peaks(device);
    let first = first.unwrap_or(secs[0]);
    secs.sort_by(f64::total_cmp);
    Ok(Measured {
        median_s: rounded(secs[secs.len() / 2]),
        min_s: rounded(secs[0]),
        first_s: rounded(first),
        runs: secs.len(),
        weights_gib: gib(between),
        peak_gib: gib(peaks.allocated),
        peak_reserved_gib: gib(peaks.reserved),
        weights_bytes,
    })
}

/// One line of output.
pub(super) fn write_line(out: &mut dyn Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    out.flush()
}

/// Microseconds and millionths of a GiB are all that a line of output needs.
pub fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

pub fn gib(bytes: u64) -> f64 {
    rounded(bytes as f64 / (1_u64 << 30) as f64)
}

#[cfg(test)]
mod tests {
    use tch::{Kind, Tensor};

    use super::*;

    #[test]
    fn only_the_runs_behind_the_warm_up_are_counted() {
        let mut calls = 0;
        let measured = timed(Device::Cpu, 2, 3, 5, &mut || {
            calls += 1;
            drop(Tensor::zeros([1 << 10], (Kind::Float, Device::Cpu)));
            Some(())
        })
        .unwrap();
        assert_eq!((calls, measured.runs, measured.weights_bytes), (5, 3, 5));
        assert!(measured.min_s <= measured.median_s);
        assert!(measured.peak_gib >= measured.weights_gib);
        assert!(timed(Device::Cpu, 0, 1, 0, &mut || None).is_err());
    }
}
