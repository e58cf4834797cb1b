//! A case with its weights in a file, as a job has them: once with all of them on the device, then with so many GiB kept
//! free of them and the rest streamed.
//!
//! The file is made for it, and removed. One line each, with what the driver says was used at most, and whether the
//! answer was the same to the last bit.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::error::EngineError;
use crate::runtime::{self, Runtime};
use crate::weights::{StreamBytes, Weights};
use serde::Serialize;
use tch::{Device, Kind, Tensor};

use crate::bench::arguments::BenchArguments;
use crate::bench::cases::Case;
use crate::bench::error::BenchError;
use crate::bench::load::made_up::File;
use crate::bench::measure::{Measured, gib, write_line};

/// How often the driver is asked.
const WATCH: Duration = Duration::from_millis(5);

/// One line of output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    case: &'a str,
    /// Absent where all weights stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    preserved_gib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cap_gib: Option<f64>,
    /// Weights on the device, and the buffer that the others come into.
    #[serde(skip_serializing_if = "Option::is_none")]
    resident_gib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    window_gib: Option<f64>,
    #[serde(flatten)]
    measured: Option<Measured>,
    /// The most that was used of the device, by all programs.
    device_gib: f64,
    /// Whether the answer is that of the run with all weights on the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_same: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    device: &'a str,
    small: bool,
}

/// What a run gave.
struct Outcome {
    measured: Measured,
    answer: Option<Tensor>,
    bytes: Option<StreamBytes>,
}

/// `false` where a run failed or gave something else.
pub(super) fn run(
    case: &Case,
    arguments: &BenchArguments,
    runtime: &Runtime,
    kind: Kind,
    out: &mut dyn Write,
) -> Result<bool, BenchError> {
    let tensors = case.outline(arguments, kind);
    let file = File::of_network(&tensors).map_err(|err| BenchError::MadeUp(err.to_string()))?;
    let device = runtime.device;
    let mut whole: Option<Tensor> = None;
    let mut all_well = true;
    let preserved = arguments.preserved.iter().copied().map(Some);
    for preserved in std::iter::once(None).chain(preserved) {
        let cap = preserved.and(arguments.cap);
        runtime::empty_cache(device);
        let allowance = runtime::allowance(device, cap);
        let resident = preserved.map(|preserved| allowance.saturating_sub(preserved));
        runtime::limit(device, cap.map(|_| allowance));
        let watch = Watch::start(device);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let weights = Weights::open(file.path(), kind, device)?.with_residency(resident);
            let (measured, answer) = case.measure_streamed(arguments, weights.clone())?;
            let count: i64 = tensors
                .iter()
                .map(|(_, shape)| shape.iter().product::<i64>())
                .sum();
            Ok(Outcome {
                measured: Measured {
                    weights_bytes: 2 * count as u64,
                    ..measured
                },
                answer: answer.map(|answer| answer.to_device(Device::Cpu)),
                bytes: weights.stream_bytes(),
            })
        }))
        .unwrap_or_else(|panic| Err(EngineError::from_panic(panic.as_ref())));
        let used = watch.stop();
        runtime::limit(device, None);
        let answer = outcome.as_ref().ok().and_then(|it| it.answer.as_ref());
        let is_same = preserved
            .and_then(|_| whole.as_ref().zip(answer))
            .map(|(a, b)| a.equal(b));
        all_well &= outcome.is_ok() && is_same != Some(false);
        let bytes = outcome.as_ref().ok().and_then(|it| it.bytes);
        let line = Line {
            case: case.name,
            preserved_gib: preserved.map(gib),
            cap_gib: cap.map(gib),
            resident_gib: bytes.map(|bytes| gib(bytes.resident)),
            window_gib: bytes.map(|bytes| gib(bytes.window)),
            measured: outcome.as_ref().ok().map(|it| it.measured.clone()),
            device_gib: gib(used),
            is_same,
            error: outcome.as_ref().err().map(ToString::to_string),
            device: &runtime.device_name,
            small: arguments.small,
        };
        write_line(out, &line)?;
        if preserved.is_none() {
            whole = outcome.ok().and_then(|it| it.answer);
        }
    }
    Ok(all_well)
}

/// Asks the driver for what is used, all the time.
struct Watch {
    ends: Arc<AtomicBool>,
    most: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn start(device: Device) -> Self {
        let (ends, most) = (
            Arc::new(AtomicBool::new(false)),
            Arc::new(AtomicU64::new(0)),
        );
        let shared = (Arc::clone(&ends), Arc::clone(&most));
        let thread = thread::Builder::new().name("bench-watch".to_owned());
        let thread = thread.spawn(move || {
            let (ends, most) = shared;
            while !ends.load(Ordering::Relaxed) {
                most.fetch_max(runtime::memory_counts(device).used, Ordering::Relaxed);
                thread::sleep(WATCH);
            }
        });
        Self {
            ends,
            most,
            thread: thread.ok(),
        }
    }

    /// The most that was used.
    fn stop(mut self) -> u64 {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().ok(); // It has no result.
        }
        self.most.load(Ordering::Relaxed)
    }
}
