//! Memory, temperature and power while a report is made, sampled by a thread of its own.
//!
//! Keeps no more samples than a plot has points.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use safelight_core::job::{MachineSample, MemorySample};
use safelight_core::units::in_gib;
use serde::{Deserialize, Serialize};

use crate::telemetry::sampler::{KeptNvml, Sampler, joined};
use crate::telemetry::{DeviceQuery, Roots};

const PERIOD: Duration = Duration::from_millis(500);
/// How often is looked whether the report is done.
const WATCH: Duration = Duration::from_millis(50);

/// What was sampled; what a machine does not tell is absent everywhere.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Course {
    pub samples: Vec<Sample>,
    /// When each section began, with its title.
    pub marks: Vec<(f64, String)>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sample {
    /// Seconds since the report began.
    pub at_secs: f64,
    /// Of the device, or of the machine where the CPU computes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_gib: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub celsius: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busy_percent: Option<f64>,
}

/// The thread that samples; it ends when this is dropped.
pub(super) struct Watch {
    course: Arc<Mutex<Course>>,
    ends: Arc<AtomicBool>,
    began: Instant,
}

impl Watch {
    pub(super) fn start(query: DeviceQuery, total_bytes: u64, began: Instant) -> Self {
        let watch = Self {
            course: Arc::default(),
            ends: Arc::default(),
            began,
        };
        let (course, ends) = (Arc::clone(&watch.course), Arc::clone(&watch.ends));
        let thread = thread::Builder::new().name("report-watch".to_owned());
        let sampling = move || {
            let nvml = KeptNvml::new();
            let mut sampler = Sampler::open(&Roots::of_this_machine(), &nvml, &query);
            let mut next = Instant::now();
            while !ends.load(Ordering::Relaxed) {
                if Instant::now() >= next {
                    let machine = sampler.sample();
                    let used = joined(sampler.class(), MemorySample::default(), machine).used_bytes;
                    let sample = of(machine, used, total_bytes, began.elapsed().as_secs_f64());
                    let mut course = course.lock().unwrap_or_else(PoisonError::into_inner);
                    course.samples.push(sample);
                    next = Instant::now() + PERIOD;
                }
                thread::sleep(WATCH);
            }
        };
        if let Err(err) = thread.spawn(sampling) {
            tracing::warn!("nothing watches the machine: {err}");
        }
        watch
    }

    pub(super) fn mark(&self, title: &str) {
        let at = self.began.elapsed().as_secs_f64();
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        course.marks.push((at, title.to_owned()));
    }

    pub(super) fn course(&self) -> Course {
        let course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        course.clone()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
    }
}

/// `used_bytes`: of a device with its own count; 0 where the host's memory is the device's.
fn of(machine: MachineSample, used_bytes: u64, total_bytes: u64, at_secs: f64) -> Sample {
    let of_host = machine
        .host_available_bytes
        .map(|available| total_bytes.saturating_sub(available));
    let used = Some(used_bytes).filter(|&bytes| bytes > 0).or(of_host);
    Sample {
        at_secs: (at_secs * 10.0).round() / 10.0,
        used_gib: used.map(|bytes| (in_gib(bytes) * 100.0).round() / 100.0),
        celsius: machine.temperature_celsius.map(f64::from),
        watts: machine.power_watts.map(|it| f64::from(it).round()),
        busy_percent: machine.busy_percent.map(f64::from),
    }
}
