//! Devices of this computer that run jobs side by side: a worker for each, and the choice of the one for a job.
//!
//! The settings name them; with the automatic device all GPUs of the runtime are used. Other computers:
//! [`crate::window::computers`].

use std::collections::BTreeMap;
use std::io;
use std::num::NonZeroU32;

use safelight_core::job::DeviceChoice;
use safelight_core::memory::DeviceFacts;
use safelight_core::plan::MemoryPlanner;
use safelight_core::settings::{RuntimeSettings, own_runtime};

use crate::telemetry::{DeviceQuery, SystemRoots, device_facts, nvidia};
use crate::window::memory::planning::{PlanRequest, ReadPlan};
use crate::window::prelude::*;
use crate::window::queue::WaitingJob;
use crate::worker::environment::job_gpus;
use crate::worker::{WorkerEvent, WorkerHandle};

/// Starts a worker that wakes the app after each event.
pub type StartWorker = Box<dyn FnMut() -> io::Result<WorkerHandle>>;

/// Finds the GPUs that jobs may run on, on a background thread. Asks drivers.
pub type FindGpus = Arc<dyn Fn(&Settings) -> Vec<FoundGpu> + Send + Sync>;

pub type FoundGpu = (DeviceChoice, DeviceFacts);

/// Rank of a job's plan for a device that cannot hold it, as of [`MemoryPlan::rank`](safelight_core::plan::MemoryPlan).
const NO_FIT: u8 = 2;

pub struct LocalDevice {
    /// Such as `GPU 1`. Each has its own.
    pub name: String,
    pub device: DeviceChoice,
    facts: Option<DeviceFacts>,
    pub worker: WorkerHandle,
    /// Its engine or driver failed in the last job: others come first.
    is_lost: bool,
    /// Model of its last job.
    model: String,
}

pub struct JobDevices {
    pub list: Vec<LocalDevice>,
    start: StartWorker,
    find: FindGpus,
    read_plan: ReadPlan,
    found: Vec<FoundGpu>,
    finding: BackgroundTask<Vec<FoundGpu>>,
    /// Settings that `found` belongs to.
    followed: Option<RuntimeSettings>,
    /// `list` is as these settings say.
    is_applied: bool,
    /// Rank of the plan of a waiting job on each device.
    ranks: BTreeMap<JobId, Vec<u8>>,
    ranking: BackgroundTask<(JobId, Vec<u8>)>,
}

impl JobDevices {
    pub fn new(start: StartWorker, find: FindGpus, read_plan: ReadPlan) -> Self {
        Self {
            list: Vec::new(),
            start,
            find,
            read_plan,
            found: Vec::new(),
            finding: BackgroundTask::default(),
            followed: None,
            is_applied: false,
            ranks: BTreeMap::new(),
            ranking: BackgroundTask::default(),
        }
    }

    /// Follows the settings as soon as no device has a job. `is_free` is given the name of a device.
    pub(super) fn poll(&mut self, is_free: &dyn Fn(&str) -> bool, cx: &mut AppContext) {
        if let Some((id, ranks)) = self.ranking.take() {
            self.ranks.insert(id, ranks);
        }
        let runtime = &cx.settings.runtime;
        if self.followed.as_ref() != Some(runtime) {
            (self.followed, self.is_applied) = (Some(runtime.clone()), false);
            let (find, settings) = (Arc::clone(&self.find), cx.settings.clone());
            self.finding = cx.background.run("devices", move || find(&settings));
        }
        if let Some(found) = self.finding.take() {
            self.found = found;
        }
        if self.is_applied || self.finding.is_busy() {
            return;
        }
        let wanted = runtime.job_devices(self.found.iter().map(|(device, _)| *device).collect());
        let is_same = self.list.iter().map(|it| &it.device).eq(&wanted);
        self.is_applied = is_same || self.list.iter().all(|it| is_free(&it.name));
        if self.is_applied && !is_same {
            self.apply(&wanted, cx);
        }
    }

    fn apply(&mut self, wanted: &[DeviceChoice], cx: &mut AppContext) {
        self.ranks.clear();
        let before = std::mem::take(&mut self.list);
        let mut workers = before.into_iter().map(|it| it.worker);
        for (index, &device) in wanted.iter().enumerate() {
            let worker = workers.next().map_or_else(&mut self.start, Ok);
            let worker = match worker {
                Ok(worker) => worker,
                Err(err) => {
                    let err = JobError::from_error(JobErrorKind::Internal, &err);
                    let advice = "Close other programs, then open Safelight again";
                    cx.notify(NoticeSeverity::Error, err.advise(advice));
                    break;
                }
            };
            let number = wanted[..index].iter().filter(|it| **it == device).count();
            let found = self.found.iter().find(|(found, _)| *found == device);
            self.list.push(LocalDevice {
                name: device_name(device, number),
                device,
                facts: found.map(|(_, facts)| *facts),
                worker,
                is_lost: false,
                model: String::new(),
            });
        }
        let is_known = |pin| self.list.iter().any(|it| it.device == pin);
        if !self.are_several() || !is_known(cx.job_device) {
            cx.job_device = DeviceChoice::Auto;
        }
        cx.background.free(workers.collect::<Vec<_>>());
    }

    /// The settings are in effect, and no job waits for its ranks: jobs may start.
    pub(super) fn are_ready(&self) -> bool {
        self.is_applied && !self.ranking.is_busy()
    }

    pub fn are_several(&self) -> bool {
        self.list.len() > 1
    }

    /// Choices for a job where there are several devices: any, or one of them.
    pub fn choices(&self) -> Vec<(DeviceChoice, String)> {
        let mut choices = Vec::new();
        if self.are_several() {
            choices.push((DeviceChoice::Auto, "Any device".to_owned()));
            let devices = self.list.iter().map(|it| it.device);
            choices.extend(devices.map(|device| (device, device_name(device, 0))));
            choices.dedup();
        }
        choices
    }

    pub(super) fn events(&self) -> impl Iterator<Item = WorkerEvent> {
        self.list.iter().flat_map(|it| it.worker.drain())
    }

    /// Index of the free device for a job: where its plan fits best, and its model ran last. `None` while it has to wait.
    pub(super) fn free_for(
        &mut self,
        job: &WaitingJob,
        is_free: &dyn Fn(&str) -> bool,
        cx: &AppContext,
    ) -> Option<usize> {
        if job.request.num_devices() > 1 && !self.list.iter().all(|it| is_free(&it.name)) {
            return None;
        }
        let is_pinned = job.device != DeviceChoice::Auto;
        let fits = |it: &LocalDevice| !is_pinned || it.device == job.device;
        let mut devices: Vec<usize> = (0..self.list.len()).collect();
        if self.list.iter().any(fits) {
            devices.retain(|&at| fits(&self.list[at]));
        } else {
            // The engine of the first one says what it lacks.
            devices.truncate(1);
        }
        if devices.iter().any(|&at| !self.list[at].is_lost) {
            devices.retain(|&at| !self.list[at].is_lost);
        }
        let ranks = self.ranks_of(job, cx)?;
        if devices.iter().any(|&at| ranks[at] < NO_FIT) {
            devices.retain(|&at| ranks[at] < NO_FIT);
        }
        devices.retain(|&at| is_free(&self.list[at].name));
        let model = job.request.model();
        let rank = |&at: &usize| (ranks[at], self.list[at].model != *model);
        devices.into_iter().min_by_key(rank)
    }

    /// Rank of a job's plan on each device; `None` until it is known. Equal devices have equal ranks.
    fn ranks_of(&mut self, job: &WaitingJob, cx: &AppContext) -> Option<Vec<u8>> {
        let is_needed = !self.are_equal() || shares_automatically(cx);
        let Some(request) = job.request.generate().filter(|_| is_needed) else {
            return Some(vec![0; self.list.len()]);
        };
        if !self.ranks.contains_key(&job.id) && !self.ranking.is_busy() {
            let (id, request, read) = (job.id, request.clone(), Arc::clone(&self.read_plan));
            let settings = cx.settings.clone();
            let facts: Vec<_> = self.list.iter().map(|it| it.facts).collect();
            self.ranking = cx.background.run("device-plans", move || {
                (id, plan_ranks(&read, &settings, &request, &facts))
            });
        }
        self.ranks.get(&job.id).cloned()
    }

    fn are_equal(&self) -> bool {
        let kinds = self.list.iter().map(|it| it.facts);
        let mut kinds = kinds.map(|it| it.map(|it| (it.class, it.total_bytes)));
        let first = kinds.next();
        kinds.all(|kind| Some(kind) == first)
    }

    /// Number of GPUs that share a job which may start on device `at`, where the settings leave that to the program: all
    /// of them if they are equal and free, and one cannot hold the job as it is or no other job waits.
    pub(super) fn shared_by(
        &self,
        at: usize,
        job: &WaitingJob,
        is_alone: bool,
        is_free: &dyn Fn(&str) -> bool,
        cx: &AppContext,
    ) -> Option<NonZeroU32> {
        let is_gpu = |it: &LocalDevice| matches!(it.device, DeviceChoice::Cuda(_));
        let usable = |it: &LocalDevice| is_gpu(it) && !it.is_lost && is_free(&it.name);
        let is_large = || self.ranks.get(&job.id).is_some_and(|ranks| ranks[at] > 0);
        let is_shared = shares_automatically(cx)
            && job.request.generate().is_some()
            && job.request.num_devices() == 1
            && job.device == DeviceChoice::Auto
            && self.are_several()
            && self.are_equal()
            && self.list.iter().all(usable)
            && (is_alone || is_large());
        NonZeroU32::new(self.list.len() as u32).filter(|_| is_shared)
    }

    /// A job runs on the device now.
    pub(super) fn begin(&mut self, at: usize, job: &WaitingJob) {
        self.ranks.remove(&job.id);
        self.list[at].model = job.request.model().into_owned();
    }

    /// Takes in how a device's job ended. Returns whether another device can continue it.
    pub(super) fn end(
        &mut self,
        name: &str,
        failure: Option<&JobError>,
        pin: DeviceChoice,
    ) -> bool {
        let kind = failure.map(|err| err.kind);
        let is_lost = matches!(kind, Some(JobErrorKind::EngineLost | JobErrorKind::Device));
        let Some(device) = self.list.iter_mut().find(|it| it.name == name) else {
            return false;
        };
        device.is_lost = is_lost;
        let fits = |it: &LocalDevice| !it.is_lost && [DeviceChoice::Auto, it.device].contains(&pin);
        is_lost && self.list.iter().any(fits)
    }
}

fn shares_automatically(cx: &AppContext) -> bool {
    cx.settings.memory.devices == 0
}

fn device_name(device: DeviceChoice, number: usize) -> String {
    let name = match device {
        DeviceChoice::Auto => "This computer".to_owned(),
        DeviceChoice::Cpu => "CPU".to_owned(),
        DeviceChoice::Cuda(index) => format!("GPU {index}"),
    };
    match number {
        0 => name,
        more => format!("{name} #{}", more + 1),
    }
}

/// Ranks by what the devices have, whoever uses them now; all equal where the model cannot be read.
fn plan_ranks(
    read: &ReadPlan,
    settings: &Settings,
    request: &GenerateRequest,
    devices: &[Option<DeviceFacts>],
) -> Vec<u8> {
    let basis = read(settings, &PlanRequest::new(request, DeviceChoice::Cpu), &[]);
    let ranks = devices.iter().map(|facts| {
        let basis = basis.as_ref()?;
        let facts = (*facts)?;
        let planner = MemoryPlanner {
            weights: &basis.weights,
            facts: DeviceFacts {
                used_bytes: 0,
                host_available_bytes: u64::MAX,
                ..facts
            },
            device: "",
            corrections: &basis.corrections,
        };
        Some(planner.plan(request).rank())
    });
    ranks.map(Option::unwrap_or_default).collect()
}

pub fn find_gpus(paths: AppPaths) -> FindGpus {
    Arc::new(move |settings| {
        let runtime = own_runtime(settings, &paths.cache);
        let kind = runtime.map_or("cpu", |runtime| runtime.kind());
        let roots = SystemRoots::of_this_machine();
        let gpus = job_gpus(&settings.runtime, kind, &roots, nvidia::report);
        let facts = gpus.into_iter().map(|device| {
            let query = DeviceQuery {
                kind,
                device,
                ..DeviceQuery::default()
            };
            (device, device_facts(&roots, &query))
        });
        facts.collect()
    })
}
