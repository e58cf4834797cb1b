//! A running stage: forwards the engine's messages, stops it for its user or other programs, and ends it when it hangs.

use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use safelight_core::job::{JobError, JobErrorKind};
use safelight_core::job_update::{JobUpdate, MemorySample};
use safelight_core::media::SampledSound;
use safelight_core::memory::ResourceFault;
use safelight_core::protocol::{EngineCommand, EngineMessage, StageEnd, StageOrder};

use super::engine::{StageReport, StageResult, StageRun, engine_lost};
use super::estimate::{StepProgress, StepTime};
use super::events::preview_frame;
use super::link::EngineLink;
use super::memory_pressure::MemoryPressure;
use super::plan::PlannedStage;

/// Polling interval of the cancel flag and the clocks while the engine is silent.
pub(super) const WATCH: Duration = Duration::from_millis(25);

pub(super) struct StageWatch<'a> {
    pub(super) run: StageRun<'a>,
    pub(super) device_name: String,
    pub(super) report: StageReport,
    pub(super) began: Instant,
    pub(super) first_step: Option<StepTime>,
    /// The engine can take another stage.
    pub(super) engine_lives: bool,
    pub(super) planned: PlannedStage,
    pub(super) is_gpu: bool,
    /// Pressure that the stage stops for, and since when.
    pub(super) yielding: Option<(MemoryPressure, Instant)>,
    pub(super) last_memory: Option<MemorySample>,
    /// Error of a frame: the stage is being stopped.
    pub(super) failed: Option<JobError>,
}

impl StageWatch<'_> {
    /// An engine that has exited: fatal to the stage, unless it should stop anyway.
    fn lost(&mut self, link: &mut EngineLink) -> Result<StageResult, JobError> {
        self.engine_lives = false;
        let words = link.control.last_words();
        if self.run.events.is_cancelled() {
            return Ok(StageResult::Cancelled);
        }
        if let Some((scarce, _)) = self.yielding {
            return Ok(StageResult::Yielded(scarce));
        }
        if words.is_out_of_memory {
            return Err(JobError::new(
                JobErrorKind::OutOfMemory,
                "the computer ran out of memory, and the system stopped the engine",
            )
            .advise("Try a smaller size or fewer frames, or close other programs")
            .detail(words.text)
            .with_fault(Some(ResourceFault::HostMemory)));
        }
        Err(engine_lost(words.text))
    }

    fn order(&self) -> EngineCommand {
        let run = &self.run;
        let mut request = run.request.clone();
        if let (Some(tile), Some(request)) = (self.planned.tile, request.generate_mut()) {
            let requested = request.options.vae_tile.unwrap_or(tile);
            request.options.vae_tile = Some(tile.min(requested));
        }
        let generate = request.generate();
        let devices = request.num_devices();
        EngineCommand::RunStage(Box::new(StageOrder {
            job: run.id,
            stage: run.stage,
            folder: run.folder.to_owned(),
            capture: generate.is_some_and(|request| request.options.capture.is_some()),
            request,
            section: run.section,
            first_frame: run.first_frame,
            memory: self.planned.memory,
            devices,
        }))
    }

    pub(super) fn follow(&mut self, link: &mut EngineLink) -> Result<StageResult, JobError> {
        if link.commands.send(self.order()).is_err() {
            return self.lost(link);
        }
        let engine = link.control.process();
        self.run.events.memory().hold(engine, 0);
        let mut cancelled_at = None;
        let mut ticks = 0;
        let mut last_progress = Instant::now();
        loop {
            if self.run.events.is_cancelled() || self.failed.is_some() {
                let requested_at: &mut Instant = cancelled_at.get_or_insert_with(|| {
                    // Full or closed: the grace time ends the engine all the same.
                    link.commands.try_send(EngineCommand::Cancel).ok();
                    Instant::now()
                });
                if requested_at.elapsed() > self.run.limits.cancel_grace {
                    link.control.kill();
                    self.engine_lives = false;
                    return self.failed.take().map_or(Ok(StageResult::Cancelled), Err);
                }
            }
            let scarce = self.run.pressure.look(&self.run.events.memory().engines());
            if self.must_end_for_others(link, scarce) {
                break;
            }
            match link.messages.recv_timeout(WATCH) {
                Ok((EngineMessage::StageEnded(end), _)) => {
                    if let Some(err) = self.failed.take() {
                        return Err(err);
                    }
                    return match end {
                        StageEnd::Finished { secs, peak_bytes } => {
                            let allocated = self.report.allocated_bytes.max(peak_bytes);
                            self.report.allocated_bytes = allocated;
                            Ok(StageResult::Finished { secs })
                        }
                        StageEnd::Cancelled => Ok(self.stopped()),
                        StageEnd::Failed { error } => Err(error),
                    };
                }
                Ok((EngineMessage::Pulse { ticks: now, memory }, _)) => {
                    if now != ticks {
                        ticks = now;
                        last_progress = Instant::now();
                    }
                    self.report.peak_bytes = self.report.peak_bytes.max(memory.used_bytes);
                    let allocated = self.report.allocated_bytes.max(memory.allocated_bytes);
                    self.report.allocated_bytes = allocated;
                    self.last_memory = Some(memory);
                    let held = if self.is_gpu {
                        memory.reserved_bytes
                    } else {
                        memory.used_bytes
                    };
                    self.run.events.memory().hold(engine, held);
                    self.run.events.lossy(JobUpdate::Memory(memory));
                    let heard = self.is_gpu.then(|| self.run.pressure.hear(&memory));
                    if self.must_end_for_others(link, heard.flatten()) {
                        break;
                    }
                }
                Ok((message, payload)) => {
                    last_progress = Instant::now();
                    self.take(message, payload);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.lost(link),
            }
            if last_progress.elapsed() > self.run.limits.stall {
                link.control.kill();
                self.engine_lives = false;
                let secs = self.run.limits.stall.as_secs_f64();
                return Err(engine_lost(format!("no progress for {secs:.0} s")));
            }
        }
        // For other programs: it did not stop in time, or there is no memory left to wait.
        link.control.kill();
        self.engine_lives = false;
        Ok(self.stopped())
    }

    /// Asks the engine to stop where other programs need memory; whether it has to be ended.
    fn must_end_for_others(&mut self, link: &EngineLink, scarce: Option<MemoryPressure>) -> bool {
        if self.yielding.is_none() && scarce.is_some() {
            // Full or closed: the grace time ends the engine all the same.
            link.commands.try_send(EngineCommand::Cancel).ok();
        }
        if let Some(scarce) = scarce {
            let since = self.yielding.map_or_else(Instant::now, |(_, since)| since);
            self.yielding = Some((scarce, since));
        }
        self.yielding.is_some_and(|(scarce, since)| {
            scarce.is_urgent || since.elapsed() > self.run.limits.cancel_grace
        })
    }

    /// Why the engine stopped.
    fn stopped(&self) -> StageResult {
        match self.yielding {
            Some((scarce, _)) if !self.run.events.is_cancelled() => StageResult::Yielded(scarce),
            _ => StageResult::Cancelled,
        }
    }

    fn take(&mut self, message: EngineMessage, payload: Vec<u8>) {
        let events = self.run.events;
        match message {
            EngineMessage::Step { step, num_steps } => {
                let stage = self.run.stage;
                let secs = self.began.elapsed().as_secs_f64();
                let now = StepTime { step, secs };
                let progress = StepProgress {
                    first: *self.first_step.get_or_insert(now),
                    now,
                    total: num_steps,
                };
                let run = &self.run;
                let secs_left = match run.request.generate() {
                    Some(request) => run.estimates.secs_left(
                        request,
                        &self.device_name,
                        run.recipe,
                        (stage, run.section),
                        progress,
                    ),
                    None => progress.secs_left(),
                };
                events.lossy(JobUpdate::Step {
                    stage,
                    step,
                    num_steps,
                    secs_left,
                });
            }
            EngineMessage::Preview(header) => {
                if let Some(frame) = preview_frame(header, payload) {
                    events.lossy(JobUpdate::Preview(frame));
                }
            }
            EngineMessage::Frame(header) => {
                let Some(frame) = preview_frame(header, payload) else {
                    return;
                };
                if self.failed.is_none() {
                    self.failed = (self.run.take)(frame.clone()).err();
                }
                if self.run.stage.is_postprocess() {
                    // They may be large, and each shows as much as the next.
                    events.idle(JobUpdate::Frame(frame));
                } else {
                    events.lossy(JobUpdate::Frame(frame));
                }
            }
            EngineMessage::Sound { channels, rate } => {
                self.report.sound = Some(SampledSound::from_f32_bytes(&payload, channels, rate));
            }
            EngineMessage::Reclaimed(reclaim) => events.lossy(JobUpdate::Reclaimed(reclaim)),
            EngineMessage::Warning { text } => {
                events.certain(JobUpdate::Warning(text.clone()));
                self.report.warnings.push(text);
            }
            EngineMessage::Ready(_)
            | EngineMessage::Refused(_)
            | EngineMessage::Pulse { .. }
            | EngineMessage::StageEnded(_)
            | EngineMessage::RanksMeasured { .. } => {}
        }
    }
}
