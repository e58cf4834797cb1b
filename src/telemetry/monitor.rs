//! Thread that samples the machine ten times per second while a job runs, and keeps the job's record.
//!
//! Only this thread waits for drivers: senders never wait, and continue if it hangs. It sleeps between jobs.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use safelight_core::job::{JobId, Stage};
use safelight_core::job_update::{MachineSample, MemoryReclaim, MemorySample};
use safelight_core::memory::DeviceClass;

use super::SystemRoots;
use super::device::DeviceQuery;
use super::record::TelemetryRecord;
use super::sampler::{KeptNvml, SensorSampler, joined};

/// Ten a second.
pub const PERIOD: Duration = Duration::from_millis(100);
/// Orders that may wait while a driver takes its time; what is beyond is lost to the record alone.
const ORDER_ROOM: usize = 256;
/// Age from which the engine's counts are ignored.
const STALE: Duration = Duration::from_secs(1);
/// Time limit for writing the record at the end of a job.
const WRITE_LIMIT: Duration = Duration::from_secs(3);

pub enum MonitorCommand {
    Begin(Box<TelemetryRecord>),
    Watch(Box<DeviceQuery>, String),
    Engine(MemorySample),
    Stage(Stage),
    StageEnd,
    Reclaimed(MemoryReclaim),
    /// Path of the record, and the waiting caller.
    End(Option<PathBuf>, Sender<()>),
}

pub struct TelemetryMonitor {
    orders: Sender<MonitorCommand>,
    latest: Arc<Mutex<LatestSample>>,
    folder: Option<PathBuf>,
}

#[derive(Clone, Copy)]
struct LatestSample {
    class: DeviceClass,
    machine: MachineSample,
}

impl Default for LatestSample {
    fn default() -> Self {
        Self {
            class: DeviceClass::Cpu,
            machine: MachineSample::default(),
        }
    }
}

impl TelemetryMonitor {
    /// Starts the thread; it ends when this is dropped. Records go into `folder`, or nowhere.
    pub fn start(roots: SystemRoots, folder: Option<PathBuf>) -> io::Result<Self> {
        let (orders, receiver) = bounded(ORDER_ROOM);
        let latest = Arc::new(Mutex::new(LatestSample::default()));
        let shown = Arc::clone(&latest);
        thread::Builder::new()
            .name("telemetry".to_owned())
            .spawn(move || watch(&roots, &receiver, &shown))?;
        Ok(Self {
            orders,
            latest,
            folder,
        })
    }

    pub fn begin(&self, job: JobId, model: &str) {
        self.send(MonitorCommand::Begin(Box::new(TelemetryRecord::new(
            job,
            model.to_owned(),
        ))));
    }

    /// Sets the device in use; `line` is the description by the engine.
    pub fn watch(&self, query: DeviceQuery, line: &str) {
        self.send(MonitorCommand::Watch(Box::new(query), line.to_owned()));
    }

    /// The engine's counts of this moment; gives them back joined with what the machine last said.
    pub fn join(&self, sample: MemorySample) -> MemorySample {
        self.send(MonitorCommand::Engine(sample));
        let LatestSample { class, machine } =
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        joined(class, sample, machine)
    }

    /// Last value of the driver for the memory of all programs on the device; `None` without one.
    pub fn device_used_bytes(&self) -> Option<u64> {
        let LatestSample { class, machine } =
            *self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        let used = joined(class, MemorySample::default(), machine).used_bytes;
        (used > 0).then_some(used)
    }

    /// Ends the job and writes its record. Waits for it, but not for ever.
    pub fn end(&self) {
        let (done, written) = bounded(1);
        self.send(MonitorCommand::End(self.folder.clone(), done));
        if written.recv_timeout(WRITE_LIMIT).is_err() {
            tracing::warn!("the job's telemetry was not written in time");
        }
    }

    pub fn send(&self, order: MonitorCommand) {
        // Full: the thread is stuck in a driver, and the job must not wait for that.
        self.orders.try_send(order).ok();
    }
}

struct WatchedJob<'n> {
    record: Box<TelemetryRecord>,
    sampler: SensorSampler<'n>,
    began: Instant,
    engine: MemorySample,
    sampled_at: Option<Instant>,
}

fn watch(roots: &SystemRoots, orders: &Receiver<MonitorCommand>, latest: &Mutex<LatestSample>) {
    let nvml = KeptNvml::new();
    let mut watching: Option<WatchedJob<'_>> = None;
    let mut next = Instant::now();
    loop {
        let order = match &watching {
            Some(_) => orders.recv_deadline(next),
            None => orders.recv().map_err(RecvTimeoutError::from),
        };
        match order {
            Ok(MonitorCommand::Begin(record)) => {
                watching = Some(WatchedJob::new(record, roots));
                next = Instant::now();
            }
            Ok(MonitorCommand::End(folder, done)) => {
                if let Some(mut job) = watching.take() {
                    job.sample(latest);
                    job.finish(folder);
                }
                done.try_send(()).ok();
            }
            Ok(order) => {
                if let Some(job) = &mut watching {
                    job.take(order, roots, &nvml);
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(job) = &mut watching {
                    job.sample(latest);
                }
                // After a stall it continues from now and does not catch up.
                next = (next + PERIOD).max(Instant::now());
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

impl<'n> WatchedJob<'n> {
    fn new(record: Box<TelemetryRecord>, roots: &SystemRoots) -> Self {
        Self {
            record,
            sampler: SensorSampler::of_host(roots),
            began: Instant::now(),
            engine: MemorySample::default(),
            sampled_at: None,
        }
    }

    fn now_secs(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    fn take(&mut self, order: MonitorCommand, roots: &SystemRoots, nvml: &'n KeptNvml) {
        let now = self.now_secs();
        match order {
            MonitorCommand::Watch(query, line) => {
                self.sampler = SensorSampler::open(roots, nvml, &query);
                self.record.device = line;
            }
            MonitorCommand::Engine(sample) => {
                self.engine = sample;
                self.sampled_at = Some(Instant::now());
            }
            MonitorCommand::Stage(stage) => self.record.begin(stage, now),
            MonitorCommand::StageEnd => self.record.end(now),
            MonitorCommand::Reclaimed(reclaim) => self.record.reclaimed(reclaim, now),
            MonitorCommand::Begin(_) | MonitorCommand::End(..) => {}
        }
    }

    fn sample(&mut self, latest: &Mutex<LatestSample>) {
        let shown = LatestSample {
            class: self.sampler.class(),
            machine: self.sampler.sample(),
        };
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = shown;
        let is_stale = self
            .sampled_at
            .is_none_or(|sampled_at| sampled_at.elapsed() > STALE);
        let engine = MemorySample {
            at_secs: self.now_secs(),
            // The total does not change, and nothing else is known of a silent engine.
            ..if is_stale {
                MemorySample {
                    total_bytes: self.engine.total_bytes,
                    ..MemorySample::default()
                }
            } else {
                self.engine
            }
        };
        self.record.push(joined(shown.class, engine, shown.machine));
    }

    fn finish(mut self, folder: Option<PathBuf>) {
        let now = self.now_secs();
        self.record.end(now);
        let saved = folder.map(|folder| self.record.save(&folder));
        if let Some(Err(err)) = saved {
            tracing::warn!("the job's telemetry could not be written: {err}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::fake_tree::lay_meminfo;

    #[test]
    fn job_record_contains_stages_reclaimed_memory_and_engine_samples() {
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay_meminfo(&roots.proc, 16, 9);
        let folder = root.path().join("records");
        let monitor = TelemetryMonitor::start(roots, Some(folder.clone())).unwrap();
        monitor.begin(JobId(3), "a model");
        monitor.watch(DeviceQuery::default(), "CPU, 2 threads");
        monitor.send(MonitorCommand::Stage(Stage::Denoise));
        let joined = monitor.join(MemorySample {
            used_bytes: 5,
            allocated_bytes: 4,
            total_bytes: 100,
            ..MemorySample::default()
        });
        assert_eq!(joined.used_bytes, 5);
        monitor.send(MonitorCommand::Reclaimed(MemoryReclaim {
            boundary: "post-vae-decode".to_owned(),
            before_bytes: 4,
            after_bytes: 1,
        }));
        monitor.send(MonitorCommand::StageEnd);
        monitor.end();
        let record = TelemetryRecord::load(&folder, JobId(3)).unwrap();
        assert_eq!(record.model.as_str(), "a model");
        assert_eq!(record.device.as_str(), "CPU, 2 threads");
        let last = record.samples.last().unwrap();
        assert_eq!(last.used_bytes, 5);
        assert_eq!(last.allocated_bytes, 4);
        assert_eq!(last.total_bytes, 100);
        assert_eq!(last.machine.host_available_bytes, Some(9 << 30));
        assert_eq!(record.stages.len(), 1);
        assert!(record.stages[0].to_secs.is_some());
        assert_eq!(record.reclaims[0].reclaim.boundary, "post-vae-decode");
    }

    #[test]
    fn without_a_job_nothing_is_written_and_a_second_end_does_no_harm() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("records");
        let monitor =
            TelemetryMonitor::start(SystemRoots::under(root.path()), Some(folder.clone())).unwrap();
        monitor.send(MonitorCommand::Stage(Stage::Denoise));
        monitor.end();
        monitor.end();
        assert!(!folder.exists());
        // A job that began anew without an end leaves only its own.
        monitor.begin(JobId(1), "");
        monitor.begin(JobId(2), "");
        monitor.end();
        assert!(TelemetryRecord::load(&folder, JobId(1)).is_err());
        assert!(TelemetryRecord::load(&folder, JobId(2)).is_ok());
    }
}
