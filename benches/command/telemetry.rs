//! What watching the machine costs, measured by the thread that does it.
//!
//! Does what the thread beside a job does, ten times a second, and starts no engine.

use std::fs;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use safelight::cli::{Surroundings, out};
use safelight::telemetry::monitor::PERIOD;
use safelight::telemetry::record::Record;
use safelight::telemetry::sampler::{KeptNvml, Sampler, joined};
use safelight::telemetry::{DeviceQuery, Roots};
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind, JobId, MemorySample};
use safelight_core::settings::own_runtime;
use serde_json::json;

#[derive(Args, Debug)]
pub(super) struct TelemetryArgs {
    /// How long
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=3600))]
    secs: u64,
    /// auto, cpu or cuda:N
    #[arg(long)]
    device: Option<DeviceChoice>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &TelemetryArgs, surroundings: &Surroundings) -> ExitCode {
    let settings = surroundings.settings();
    let runtime = own_runtime(settings, &surroundings.paths.cache);
    let query = DeviceQuery {
        kind: runtime.as_ref().map_or("cpu", |runtime| runtime.kind()),
        device: args.device.unwrap_or(settings.runtime.device),
        ..DeviceQuery::default()
    };
    let Some((samples, cost, wall)) = measure(&query, Duration::from_secs(args.secs)) else {
        let what = "the kernel does not tell how long a thread has computed";
        let err = JobError::new(JobErrorKind::Internal, what);
        return out::print_job_error(&err, args.json);
    };
    let percent = cost.as_secs_f64() / wall.as_secs_f64() * 100.0;
    let micros = cost.as_secs_f64() * 1e6 / samples.max(1) as f64;
    if args.json {
        return out::print_json(
            &json!({"samples": samples, "secs": wall.as_secs_f64(), "core_percent": percent, "micros_per_sample": micros}),
            0,
        );
    }
    let text = format!(
        "{samples} samples in {:.1} s: {percent:.3} % of one core, {micros:.0} µs a sample\n",
        wall.as_secs_f64()
    );
    out::print(&text, 0)
}

/// The number of samples, the processor's time for them, and the time that passed.
fn measure(query: &DeviceQuery, length: Duration) -> Option<(usize, Duration, Duration)> {
    let nvml = KeptNvml::new();
    let mut sampler = Sampler::open(&Roots::of_this_machine(), &nvml, query);
    let mut record = Record::new(JobId(0), String::new());
    let before = time_of_this_thread()?;
    let began = Instant::now();
    let mut next = began;
    while began.elapsed() < length {
        let sample = sampler.sample();
        record.push(joined(sampler.class(), MemorySample::default(), sample));
        next += PERIOD;
        thread::sleep(next.saturating_duration_since(Instant::now()));
    }
    let cost = time_of_this_thread()?.saturating_sub(before);
    Some((record.samples.len(), cost, began.elapsed()))
}

/// How long this thread has had a processor, by the scheduler's own count in nanoseconds.
fn time_of_this_thread() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanos = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanos))
}
