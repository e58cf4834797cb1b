//! The engine's loop: one stage at a time on a worker thread, a regular pulse, cancel through a flag.
//!
//! Independent of models and processes: commands and messages use plain channels, so that tests run it within one
//! process.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use safelight_core::job::{CancelToken, DeviceChoice, JobError, JobErrorKind, JobRequest};
use safelight_core::job_update::MemorySample;
use safelight_core::protocol::{
    EngineCommand, EngineMessage, EngineReport, GroupMember, OutgoingMessage, PROTOCOL_VERSION,
    RankPlaces, StageEnd, StageOrder,
};
use tch::Device;

use crate::error::EngineError;
use crate::finish::{self, FinishContext};
use crate::memory::{ReleasePoint, forget_all, reclaim};
use crate::ranks::SharedRanks;
use crate::runtime::{self, DeviceRuntime};
use crate::stages::{self, StageContext};
use crate::{families, fault};

/// Interval of memory measurements while a stage runs.
const PULSE: Duration = Duration::from_millis(150);

/// Number of late reports of a device after which it counts as dead.
const DRAINS: usize = 3;

/// Serves commands until their channel closes. `false` when the device was refused.
pub fn serve(
    wanted: DeviceChoice,
    commands: &Receiver<EngineCommand>,
    messages: Sender<OutgoingMessage>,
) -> bool {
    let runtime = match DeviceRuntime::open(wanted) {
        Ok(runtime) => runtime,
        Err(err) => {
            let error = JobError::from_error(JobErrorKind::InvalidRequest, &err)
                .advise("Choose another device, or set runtime.libtorch to a libtorch for it");
            send(&messages, EngineMessage::Refused(error));
            return false;
        }
    };
    tracing::info!("engine {} on {}", env!("CARGO_PKG_VERSION"), runtime.line);
    if !send(&messages, EngineMessage::Ready(report(&runtime))) {
        return true;
    }

    let engine = Arc::new(EngineState {
        device: runtime.device,
        baseline: runtime::memory_counts(runtime.device).allocated,
        started: Instant::now(),
        is_busy: AtomicBool::new(false),
        ticks: Arc::default(),
        messages,
    });
    let (orders, order_receiver) = bounded::<EngineWork>(1);
    let worker = Arc::clone(&engine);
    let pulse = Arc::clone(&engine);
    // A thread that cannot be started is the end of this process; the app says so.
    let worker = spawn("engine-worker", move || worker.work(&order_receiver));
    spawn("engine-pulse", move || pulse.beat());

    let mut running = CancelToken::default();
    for command in commands {
        match command {
            EngineCommand::Join(member) => {
                if orders.send(EngineWork::Join(member)).is_err() {
                    break;
                }
            }
            EngineCommand::MeasureRanks(places) => {
                if orders.send(EngineWork::Measure(places)).is_err() {
                    break;
                }
            }
            EngineCommand::RunStage(order) => {
                running = CancelToken::default();
                if orders
                    .send(EngineWork::Run(order, running.clone()))
                    .is_err()
                {
                    break;
                }
            }
            EngineCommand::Cancel => running.cancel(),
        }
    }
    running.cancel();
    drop(orders);
    // Until the stage saw it: its thread must not be inside libtorch when the process ends.
    worker.join().ok();
    true
}

/// Sends a message; `false` when the receiver is gone.
fn send(messages: &Sender<OutgoingMessage>, message: EngineMessage) -> bool {
    messages.send((message, Vec::new())).is_ok()
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .expect("a process that just started can start a thread")
}

fn report(runtime: &DeviceRuntime) -> EngineReport {
    EngineReport {
        protocol: PROTOCOL_VERSION,
        libtorch: runtime::libtorch_version(),
        device: match runtime.device {
            Device::Cuda(index) => DeviceChoice::Cuda(index),
            _ if fault::claims_gpu() => DeviceChoice::Cuda(0),
            _ => DeviceChoice::Cpu,
        },
        device_name: runtime.device_name.clone(),
        pci: runtime.pci.clone(),
        total_bytes: runtime.total_bytes,
        used_bytes: runtime::memory_counts(runtime.device).used,
        class: runtime.class,
        line: runtime.line.clone(),
        gpu_problem: runtime.gpu_problem.clone(),
        addresses: None,
    }
}

enum EngineWork {
    Join(GroupMember),
    Measure(RankPlaces),
    Run(Box<StageOrder>, CancelToken),
}

struct EngineState {
    device: Device,
    /// Live bytes before anything was loaded.
    baseline: u64,
    started: Instant,
    is_busy: AtomicBool,
    ticks: Arc<AtomicU64>,
    messages: Sender<OutgoingMessage>,
}

impl EngineState {
    fn work(&self, orders: &Receiver<EngineWork>) {
        let mut last = None;
        let mut ranks = SharedRanks::default();
        for work in orders {
            self.is_busy.store(true, Ordering::Relaxed);
            let end = match work {
                EngineWork::Join(member) => match ranks.join(&member, self.device) {
                    Ok(()) => continue,
                    Err(err) => StageEnd::Failed {
                        error: err.to_job_error(),
                    },
                },
                EngineWork::Measure(places) => match ranks.measure(&places, self.device) {
                    Ok(bytes_per_sec) => {
                        send(
                            &self.messages,
                            EngineMessage::RanksMeasured { bytes_per_sec },
                        );
                        continue;
                    }
                    Err(err) => StageEnd::Failed {
                        error: err.to_job_error(),
                    },
                },
                EngineWork::Run(order, cancel) => {
                    let is_first = last.replace(order.job) != Some(order.job);
                    self.run(*order, is_first, cancel, &mut ranks)
                }
            };
            self.is_busy.store(false, Ordering::Relaxed);
            self.send_pulse();
            if !send(&self.messages, EngineMessage::StageEnded(end)) {
                break;
            }
        }
    }

    /// One stage, with the one panic boundary: a panic fails this stage alone.
    fn run(
        &self,
        order: StageOrder,
        is_first: bool,
        cancel: CancelToken,
        ranks: &mut SharedRanks,
    ) -> StageEnd {
        let started = Instant::now();
        let stage = order.stage;
        if is_first {
            self.reclaim(ReleasePoint::WorkerStart);
        }
        runtime::reset_peaks(self.device);
        let result = ranks.begin(&order, self.device).and_then(|shared| {
            let result = catch_unwind(AssertUnwindSafe(|| self.compute(order, cancel)))
                .unwrap_or_else(|panic| Err(EngineError::from_panic(panic.as_ref())));
            drop(shared);
            ranks.end(result)
        });
        let result = result.map_err(|err| match err {
            EngineError::Cancelled => err,
            err => {
                let err = self.with_drained_device(err);
                forget_all();
                err
            }
        });
        if result.is_err() {
            self.reclaim(ReleasePoint::ExceptionCleanup);
        }
        runtime::trim_host();
        match result {
            Ok(()) => StageEnd::Finished {
                secs: started.elapsed().as_secs_f64(),
                peak_bytes: runtime::memory_peaks(self.device).allocated,
            },
            Err(EngineError::Cancelled) => StageEnd::Cancelled,
            Err(err) => {
                let error = err.to_job_error();
                tracing::error!("{}: {}", stage.name(), error.details);
                StageEnd::Failed { error }
            }
        }
    }

    fn compute(&self, order: StageOrder, cancel: CancelToken) -> Result<(), EngineError> {
        let (ticks, messages) = (Arc::clone(&self.ticks), self.messages.clone());
        let order = &stages::on_its_rung(order);
        match &order.request {
            JobRequest::Generate(request) => {
                let context = StageContext {
                    order,
                    request,
                    device: self.device,
                    baseline: self.baseline,
                    cancel,
                    ticks,
                    messages,
                };
                stages::run(&context, families::run)
            }
            JobRequest::Finish(request) => finish::run(&FinishContext {
                order,
                request,
                device: self.device,
                cancel,
                ticks,
                messages,
            }),
        }
    }

    /// Gives memory back and tells the app.
    fn reclaim(&self, boundary: ReleasePoint) {
        let given_back = reclaim(self.device, boundary);
        send(&self.messages, EngineMessage::Reclaimed(given_back));
    }

    /// A device reports failures of earlier calls late: those reports are drained now, so that the next attempt does
    /// not find them. A device that keeps failing is given up, whatever failed first.
    fn with_drained_device(&self, err: EngineError) -> EngineError {
        let is_well = (0..DRAINS).any(|_| runtime::synchronize(self.device));
        if is_well { err } else { err.of_dead_device() }
    }

    fn beat(&self) {
        loop {
            thread::sleep(PULSE);
            if self.is_busy.load(Ordering::Relaxed) && !self.send_pulse() {
                break;
            }
        }
    }

    /// Sends a pulse unless the channel is full; `false` when the receiver is gone.
    fn send_pulse(&self) -> bool {
        let counts = runtime::memory_counts(self.device);
        let pulse = EngineMessage::Pulse {
            ticks: self.ticks.load(Ordering::Relaxed),
            memory: MemorySample {
                at_secs: self.started.elapsed().as_secs_f64(),
                used_bytes: counts.used,
                allocated_bytes: counts.allocated,
                reserved_bytes: counts.reserved,
                total_bytes: counts.total,
                ..MemorySample::default()
            },
        };
        !matches!(
            self.messages.try_send((pulse, Vec::new())),
            Err(crossbeam_channel::TrySendError::Disconnected(_))
        )
    }
}
