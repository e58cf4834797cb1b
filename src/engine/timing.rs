//! Time and memory of a call: warm-up runs, then timed runs with the device synchronised after each.

use std::time::Instant;

use safelight_core::units::in_gib;
use serde_json::{Value, json};
use tch::Device;

use crate::error::EngineError;
use crate::runtime::{memory_counts, memory_peaks, reset_peaks, synchronize};

/// Times `call`, which gives `None` on failure, and returns the fields of an output line: median, best and first time in
/// seconds, memory allocated between two runs and the peaks in a run in GiB.
pub(crate) fn timed(
    device: Device,
    [warm_ups, runs]: [usize; 2],
    call: &mut dyn FnMut() -> Option<()>,
) -> Result<Value, EngineError> {
    let mut once = || {
        let began = Instant::now();
        call().ok_or(EngineError::Cancelled)?;
        finished(device)?;
        Ok::<_, EngineError>(began.elapsed().as_secs_f64())
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
    // Libraries load, compile and search in the first run.
    let first = first.unwrap_or(secs[0]);
    secs.sort_by(f64::total_cmp);
    Ok(json!({
        "median_s": rounded(secs[secs.len() / 2]), "min_s": rounded(secs[0]), "first_s": rounded(first),
        "runs": secs.len(), "weights_gib": gib(between), "peak_gib": gib(peaks.allocated),
        "peak_reserved_gib": gib(peaks.reserved),
    }))
}

pub(crate) fn finished(device: Device) -> Result<(), EngineError> {
    if synchronize(device) {
        Ok(())
    } else {
        Err(EngineError::internal(
            "the device failed while it was measured",
        ))
    }
}

pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

pub(crate) fn gib(bytes: u64) -> f64 {
    rounded(in_gib(bytes))
}

#[cfg(test)]
mod tests {
    use tch::{Kind, Tensor};

    use super::*;

    #[test]
    fn only_the_runs_after_the_warm_up_are_counted() {
        let mut calls = 0;
        let line = timed(Device::Cpu, [2, 3], &mut || {
            calls += 1;
            drop(Tensor::zeros([1 << 10], (Kind::Float, Device::Cpu)));
            Some(())
        })
        .unwrap();
        assert_eq!((calls, &line["runs"]), (5, &json!(3)));
        let number = |name: &str| line[name].as_f64().unwrap();
        assert!(number("min_s") <= number("median_s"));
        assert!(number("peak_gib") >= number("weights_gib"));
        assert!(timed(Device::Cpu, [0, 1], &mut || None).is_err());
    }
}
