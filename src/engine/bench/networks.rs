//! How long networks of full size take, and how much memory, without their files.
//!
//! The weights are random: time and memory do not depend on their values. One case at a time, one JSON object a line,
//! with the field names of the comparison program. With `--preserved` the numbers come from a file that is made for it,
//! and not all of them stay on the device (`streamed.rs`). Decides nothing about what is good enough.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::error::EngineError;
use crate::runtime::{self, LIBTORCH_VERSION, Runtime};
use safelight_core::job::DeviceChoice;
use serde::Serialize;
use tch::{Device, Kind};

use crate::bench::arguments::{BenchArguments, Sizes};
use crate::bench::error::BenchError;
use crate::bench::measure::{self, Measured, write_line};
use crate::bench::streamed;

/// One line of output.
#[derive(Debug, Serialize)]
struct Line<'a> {
    case: &'a str,
    #[serde(flatten)]
    measured: Option<Measured>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    total_s: f64,
    device: &'a str,
    dtype: &'a str,
    libtorch: &'a str,
    small: bool,
    #[serde(flatten)]
    sizes: Sizes,
}

/// Measures what `arguments` ask for. `false` when a case failed; its line says why.
pub fn run(arguments: &BenchArguments, out: &mut dyn Write) -> Result<bool, BenchError> {
    let runtime = open(arguments)?;
    let kind = match runtime.device {
        Device::Cuda(_) => Kind::BFloat16,
        _ => Kind::Float,
    };
    let mut all_well = true;
    for case in &arguments.cases {
        if !arguments.preserved.is_empty() {
            all_well &= streamed::run(case, arguments, &runtime, kind, out)?;
            continue;
        }
        let started = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(|| {
            case.measure(arguments, runtime.device, kind)
        }))
        .unwrap_or_else(|panic| Err(EngineError::from_panic(panic.as_ref())));
        runtime::empty_cache(runtime.device);
        all_well &= result.is_ok();
        let error = result.as_ref().err().map(ToString::to_string);
        let line = Line {
            case: case.name,
            measured: result.ok(),
            error,
            total_s: measure::rounded(started.elapsed().as_secs_f64()),
            device: &runtime.device_name,
            dtype: if kind == Kind::BFloat16 {
                "bf16"
            } else {
                "f32"
            },
            libtorch: LIBTORCH_VERSION,
            small: arguments.small,
            sizes: arguments.sizes,
        };
        write_line(out, &line)?;
    }
    Ok(all_well)
}

fn open(arguments: &BenchArguments) -> Result<Runtime, BenchError> {
    open_for(arguments.device, arguments.small)
}

/// The device, which must be a GPU unless what is measured is small.
pub fn open_for(device: DeviceChoice, is_small: bool) -> Result<Runtime, BenchError> {
    runtime::count_cpu_tensors();
    let refuse = |found: &str| BenchError::NeedsGpu {
        found: found.to_owned(),
    };
    if device == DeviceChoice::Cpu && !is_small {
        return Err(refuse("the CPU as asked"));
    }
    let runtime = Runtime::open(device)?;
    if runtime.device == Device::Cpu && !is_small {
        return Err(refuse(&runtime.line));
    }
    Ok(runtime)
}
