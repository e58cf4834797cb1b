//! The engine of the worker: started when needed, kept for the next job, watched while a stage runs.
//!
//! A dead or hung engine is an error of the kind `EngineLost`; [`JobRun`](super::job_run::JobRun) decides what follows.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use safelight_core::compute::conv_backends::{ConvBackend, ConvBackendKey, MiopenMode};
use safelight_core::compute::{ComputeOptions, DecodeChunk};
use safelight_core::files::write_optional_json;
use safelight_core::job::{
    DeviceChoice, JobError, JobErrorKind, JobFolder, JobId, JobRequest, Recipe, Stage,
};
use safelight_core::job_update::{JobUpdate, MemorySample, PreviewFrame};
use safelight_core::media::SampledSound;
use safelight_core::memory::{FallbackLevel, ResourceFault, StageMemory};
use safelight_core::protocol::EngineReport;

use super::WorkerLimits;
use super::conv_backends::{self, ConvBackends};
use super::estimate::TimeEstimates;
use super::events::JobEvents;
use super::link::{EngineLauncher, EngineLink, EngineStart};
use super::memory_pressure::{MemoryPressure, MemoryPressureMonitor};
use super::plan::{PlannedStage, chunk_within};
use super::watching::StageWatch;

/// Time limit of an engine's start: loading a GPU runtime from a cold disk is slow.
pub(super) const START_LIMIT: Duration = Duration::from_mins(3);

/// Plans a stage from the engine's report and its last memory sample.
pub(super) type PlanStage<'a> =
    dyn Fn(&EngineReport, Option<&MemorySample>) -> Result<PlannedStage, JobError> + 'a;

pub(super) struct StageRun<'a> {
    pub(super) id: JobId,
    pub(super) request: &'a JobRequest,
    pub(super) recipe: &'a Recipe,
    pub(super) stage: Stage,
    /// Occurrence of the stage in the recipe, counted from 0.
    pub(super) section: u32,
    /// First frame to compute.
    pub(super) first_frame: u32,
    pub(super) folder: &'a Path,
    pub(super) estimates: &'a TimeEstimates,
    pub(super) events: &'a JobEvents<'a>,
    pub(super) limits: &'a WorkerLimits,
    /// Memory limits as far as they are known before the engine is.
    pub(super) memory: StageMemory,
    pub(super) planned: &'a PlanStage<'a>,
    pub(super) pressure: &'a mut MemoryPressureMonitor,
    /// Takes each frame of the result. Its error ends the stage.
    pub(super) take: &'a mut dyn FnMut(PreviewFrame) -> Result<(), JobError>,
}

/// End of a stage that did not fail.
pub(super) enum StageResult {
    Finished {
        secs: f64,
    },
    Cancelled,
    /// Other programs need its memory.
    Yielded(MemoryPressure),
}

/// Error of an engine that died or hung. `reason`: its last words.
pub(super) fn engine_lost(reason: String) -> JobError {
    let fault = ResourceFault::of_last_words(&reason);
    let what = if fault.is_some_and(ResourceFault::is_memory) {
        "the engine ran out of memory and ended"
    } else {
        "the engine ended unexpectedly"
    };
    JobError::new(JobErrorKind::EngineLost, what)
        .detail(reason)
        .with_fault(fault)
}

pub(super) struct StageReport {
    pub(super) result: Result<StageResult, JobError>,
    pub(super) warnings: Vec<String>,
    /// Of the result, if the stage made it.
    pub(super) sound: Option<SampledSound>,
    pub(super) peak_bytes: u64,
    /// The most that the allocator counted.
    pub(super) allocated_bytes: u64,
}

pub(super) struct EngineManager {
    launcher: Box<dyn EngineLauncher>,
    running: Option<RunningEngine>,
    wanted: DeviceChoice,
    last_report: Option<EngineReport>,
    /// Of the running engine.
    last_memory: Option<MemorySample>,
    conv_backends: ConvBackends,
    /// Of the last stage.
    last_options: ComputeOptions,
    /// Last job with warnings about its engine, and these warnings.
    warned: Option<(JobId, Vec<String>)>,
}

struct RunningEngine {
    link: EngineLink,
    device: DeviceChoice,
    runtime: Option<PathBuf>,
    /// Environment of the settings at its start.
    environment: String,
}

impl EngineManager {
    pub(super) fn new(launcher: Box<dyn EngineLauncher>, conv_backends: ConvBackends) -> Self {
        Self {
            launcher,
            conv_backends,
            last_options: ComputeOptions::default(),
            running: None,
            wanted: DeviceChoice::Auto,
            last_report: None,
            last_memory: None,
            warned: None,
        }
    }

    pub(super) fn report(&self) -> Option<&EngineReport> {
        self.last_report.as_ref()
    }

    /// Returns the options of the last stage.
    pub(super) fn compute_options(&self) -> ComputeOptions {
        self.last_options
    }

    pub(super) fn device_name(&self) -> &str {
        self.last_report
            .as_ref()
            .map_or("unknown", |report| &report.device_name)
    }

    /// True if the device is the CPU or not known yet.
    pub(super) fn is_on_cpu(&self) -> bool {
        let device = self.last_report.as_ref().map(|report| report.device);
        device.is_none_or(|device| device == DeviceChoice::Cpu)
    }

    /// The folder with the libtorch of the running engine, where it computes on what that is for.
    pub(super) fn libtorch(&self) -> Option<&Path> {
        let report = self.last_report.as_ref()?;
        let libtorch = self.running.as_ref()?.runtime.as_deref()?;
        report.gpu_problem.is_none().then_some(libtorch)
    }

    /// Returns true if an engine can run a stage.
    pub(super) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// The device for the stages to come. An engine on another one, or on a libtorch that is not the chosen one any
    /// more, is ended.
    pub(super) fn want(&mut self, device: DeviceChoice) {
        self.wanted = device;
        if let Some(running) = &self.running
            && (running.device != device
                || running.runtime != self.launcher.runtime()
                || running.environment != self.launcher.environment())
        {
            self.running = None;
        }
    }

    pub(super) fn drop_engine(&mut self) {
        self.running = None;
    }

    /// Runs one stage, on a new engine if none is there.
    pub(super) fn run(&mut self, run: StageRun<'_>) -> Result<StageReport, JobError> {
        let mut report = StageReport {
            result: Ok(StageResult::Cancelled),
            warnings: Vec::new(),
            sound: None,
            peak_bytes: 0,
            allocated_bytes: 0,
        };
        if !self.make_ready(&run, &mut report)? {
            return Ok(report);
        }
        let Some(chosen) = self.conv_backend(&run) else {
            return Ok(report);
        };
        // A probe ends the engine, and so does another mode of MIOpen.
        if !self.make_ready(&run, &mut report)? {
            return Ok(report);
        }
        let options = self.options_of(&run);
        for text in self.warnings(run.id) {
            run.events.certain(JobUpdate::Warning(text.clone()));
            report.warnings.push(text);
        }
        let device_name = self.device_name().to_owned();
        if let (Some(report), Some(running)) = (&self.last_report, &self.running) {
            run.events.watch(report, running.runtime.as_deref());
        }
        let mut planned = match &self.last_report {
            Some(engine) => (run.planned)(engine, self.last_memory.as_ref())?,
            None => PlannedStage::default(),
        };
        let Some(running) = self.running.as_mut() else {
            return Ok(report);
        };
        let is_gpu = matches!(
            self.last_report.as_ref().map(|it| it.device),
            Some(DeviceChoice::Cuda(_))
        );
        planned.memory.conv_backend = chosen.backend;
        // After memory ran out, the planned chunk is known to be too large.
        let room = match planned.memory.rung {
            FallbackLevel::Ground => planned.chunk,
            _ => DecodeChunk::Auto,
        };
        // MIOpen may hang in sizes that no probe has tried: it tries one latent frame at a time.
        let chunk = chunk_within(room, options.chunk, is_gpu && !chosen.is_amd);
        self.last_options = ComputeOptions { chunk, ..options };
        planned.memory.compute_options = self.last_options;
        let mut watch = StageWatch {
            run,
            device_name,
            report,
            began: Instant::now(),
            first_step: None,
            engine_lives: true,
            planned,
            is_gpu,
            yielding: None,
            failed: None,
            last_memory: self.last_memory,
        };
        let result = watch.follow(&mut running.link);
        self.last_memory = watch.last_memory;
        if !watch.engine_lives {
            self.running = None;
        }
        if let Some((key, mode)) = &chosen.found
            && !matches!(result, Ok(StageResult::Cancelled | StageResult::Yielded(_)))
        {
            let lost = result.as_ref().err();
            let is_lost = |err: &&JobError| err.kind == JobErrorKind::EngineLost;
            let lost = lost.filter(|err| !watch.engine_lives && is_lost(err));
            let lost = lost.map(|err| err.details.as_str());
            let ran = (chosen.backend, *mode);
            self.conv_backends.count(key, ran, result.is_ok(), lost);
        }
        watch.report.result = result;
        Ok(watch.report)
    }

    /// Warnings about the job's engine, each once: a job, or the rest of one, never moves from a GPU to the CPU silently.
    fn warnings(&mut self, job: JobId) -> Vec<String> {
        let report = self.last_report.as_ref();
        let problem = report.and_then(|report| report.gpu_problem.as_ref());
        let instead = problem.map(|problem| format!("The CPU computes, which is slow: {problem}"));
        let concerns = self.launcher.concerns().into_iter();
        let concerns = concerns.map(|concern| format!("The engine may fail: {}", concern.what));
        let mut reported = match self.warned.take() {
            Some((id, reported)) if id == job => reported,
            _ => Vec::new(),
        };
        let all = instead.into_iter().chain(concerns);
        let new: Vec<String> = all.filter(|text| !reported.contains(text)).collect();
        reported.extend_from_slice(&new);
        self.warned = Some((job, reported));
        new
    }

    /// Starts an engine where none is there; `false` when there is none in the end, as `report` says.
    fn make_ready(
        &mut self,
        run: &StageRun<'_>,
        report: &mut StageReport,
    ) -> Result<bool, JobError> {
        if self.running.is_some() {
            return Ok(true);
        }
        self.last_memory = None;
        let mut link = self.launcher.launch(self.wanted)?;
        let concerns = self.launcher.concerns();
        let reason =
            match link.await_report(START_LIMIT, &|| run.events.is_cancelled(), &concerns)? {
                EngineStart::Ready(engine) => {
                    run.events.certain(JobUpdate::Device(engine.line.clone()));
                    self.last_report = Some(engine);
                    self.running = Some(RunningEngine {
                        link,
                        device: self.wanted,
                        runtime: self.launcher.runtime(),
                        environment: self.launcher.environment(),
                    });
                    return Ok(true);
                }
                EngineStart::Cancelled => return Ok(false),
                EngineStart::TooLate => "it did not start in time".to_owned(),
                EngineStart::Died(words) => words,
            };
        report.result = Err(engine_lost(reason));
        Ok(false)
    }

    /// Returns the stage's convolution backend, probing the device if needed; `None` if the job was cancelled.
    fn conv_backend(&mut self, run: &StageRun<'_>) -> Option<StageBackend> {
        let choice = run.limits.conv_backend;
        let on_gpu = self
            .last_report
            .as_ref()
            .filter(|report| matches!(report.device, DeviceChoice::Cuda(_)));
        let is_of_autoencoder = conv_backends::is_of_autoencoder(run.stage);
        let order = is_of_autoencoder
            .then(|| self.launcher.probe(MiopenMode::default()))
            .flatten();
        let probed = on_gpu.cloned().zip(order);
        let is_amd = probed.is_some();
        if let Some(backend) = conv_backends::chosen(choice, run.stage, is_amd) {
            if is_amd {
                self.use_miopen(MiopenMode::default());
            }
            return Some(StageBackend {
                backend,
                is_amd,
                found: None,
            });
        }
        let (report, order) = probed?;
        let request = run.request.generate()?;
        let key = conv_backends::key(&report, &order, request, run.memory.rung);
        if self.conv_backends.backend(&key, request.family).is_none() {
            let text =
                "testing convolutions on this GPU, which happens seldom and can take some minutes";
            run.events.certain(JobUpdate::Warning(text.to_owned()));
            // A probe may hang the device and needs its memory.
            self.running = None;
            let launcher = &mut self.launcher;
            let mut order = |mode| launcher.probe(mode);
            let is_cancelled = || run.events.is_cancelled();
            self.conv_backends
                .probe(&key, report.device, &mut order, &is_cancelled)?;
        }
        let (backend, mode) = self.conv_backends.backend(&key, request.family)?;
        self.use_miopen(mode);
        Some(StageBackend {
            backend,
            is_amd,
            found: Some((key, mode)),
        })
    }

    /// Returns the options that the job started with; at its start, stores those of the settings in its folder.
    fn options_of(&self, run: &StageRun<'_>) -> ComputeOptions {
        let folder = JobFolder::open(run.folder);
        if let Some(kept) = folder.compute_options() {
            return kept;
        }
        let mut options = run.limits.compute_options;
        if self.is_on_cpu() {
            options = ComputeOptions {
                attention: options.attention,
                ..ComputeOptions::default()
            };
        }
        // Without it a resumed job takes those of the settings again.
        let file = folder.compute_options_file();
        write_optional_json(&file, &options, "the compute options of a job");
        options
    }

    /// Ends an engine that runs MIOpen in another mode.
    fn use_miopen(&mut self, mode: MiopenMode) {
        if self.launcher.set_miopen(mode) {
            self.running = None;
        }
    }
}

/// Convolution backend of a stage.
struct StageBackend {
    backend: ConvBackend,
    /// For a stage of an autoencoder.
    is_amd: bool,
    /// Key of the verdict and mode of MIOpen, if a probe chose the backend.
    found: Option<(ConvBackendKey, MiopenMode)>,
}
