//! One job: its folder, its recipe walked stage by stage, its engine restarted once when it dies,
//! and its one outcome.
//!
//! Sends no `Ended` itself: the caller does, in one place.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use safelight_core::job::{
    Clip, GenerateRequest, JobError, JobErrorKind, JobFolder, JobId, JobOutcome, JobOutput,
    JobUpdate, Recipe, Stage, StageTime,
};
use safelight_core::memory::{Fault, Rung, StageMemory};

use super::engine::{EngineSlot, StageResult, StageRun};
use super::estimate::Estimates;
use super::events::JobEvents;
use super::inputs::Inputs;
use super::ladder::{self, Ladder, Place};
use super::save;
use super::{WorkerLimits, WorkerOptions};

/// What the CPU is called where times are kept.
const CPU: &str = "CPU";

/// Everything one job needs.
pub(super) struct Walk<'a> {
    pub(super) id: JobId,
    pub(super) request: &'a GenerateRequest,
    pub(super) events: &'a JobEvents<'a>,
    pub(super) options: &'a WorkerOptions,
    pub(super) limits: &'a WorkerLimits,
    pub(super) engine: &'a mut EngineSlot,
    pub(super) estimates: &'a mut Estimates,
    pub(super) ladder: Ladder,
}

/// What has come together so far.
#[derive(Default)]
struct Gathered {
    clip: Clip,
    times: Vec<StageTime>,
    warnings: Vec<String>,
    peak_bytes: u64,
}

/// A stage that did not end well.
enum Trouble {
    /// Its engine is gone.
    Lost { reason: String },
    /// The engine said so.
    Failed(JobError),
}

impl Trouble {
    fn fault(&self) -> Option<Fault> {
        match self {
            Self::Lost { reason } => Fault::of_last_words(reason),
            Self::Failed(err) => err.fault,
        }
    }
}

impl Walk<'_> {
    /// Runs the job. Its folder goes at the end, unless it failed after some of it was made.
    pub(super) fn run(&mut self) -> JobOutcome {
        let started = Instant::now();
        let (folder, inputs) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(err) => return JobOutcome::Failed(err),
        };
        // Where locks do not work, the folder's age alone tells that the job lives.
        let _held = folder.hold();
        let outcome = match self.walk(&folder, &inputs, started) {
            Ok(Some(output)) => JobOutcome::Finished(output),
            Ok(None) => JobOutcome::Cancelled,
            Err(err) if folder.num_finished(&Recipe::of(self.request)) > 0 => {
                let kept = format!(
                    "What was finished is kept for a week in {}",
                    folder.path().display()
                );
                let advice = [err.advice.as_str(), &kept].map(str::trim).join(". ");
                return JobOutcome::Failed(err.advise(advice.trim_start_matches(". ")));
            }
            Err(err) => JobOutcome::Failed(err),
        };
        if let Err(err) = folder.remove() {
            tracing::warn!("a job's folder could not be removed: {err}");
        }
        outcome
    }

    /// Checks what only the disk knows, and makes the job's folder with copies of its pictures.
    fn prepare(&self) -> Result<(JobFolder, Inputs), JobError> {
        save::check(self.request)?;
        let folder = JobFolder::create(&self.options.jobs, self.id, self.request)
            .map_err(|err| disk_error(&err, "the job's folder cannot be made"))?;
        let prepared = Inputs::copy(self.request, &folder).and_then(|inputs| {
            // The first of the new frames is the old clip's last.
            let doubled = inputs.num_extended.min(1);
            let num_frames = inputs.num_extended + self.request.num_frames as usize - doubled;
            save::check_frames(self.request, num_frames)?;
            Ok(inputs)
        });
        match prepared {
            Ok(inputs) => Ok((folder, inputs)),
            Err(err) => {
                // The first error is the one that matters.
                folder.remove().ok();
                Err(err)
            }
        }
    }

    fn walk(
        &mut self,
        folder: &JobFolder,
        inputs: &Inputs,
        started: Instant,
    ) -> Result<Option<JobOutput>, JobError> {
        let recipe = Recipe::of(self.request);
        self.events.certain(JobUpdate::Started(recipe.clone()));
        let mut gathered = Gathered {
            clip: Clip {
                frames: Vec::new(),
                fps: self.request.fps,
            },
            ..Gathered::default()
        };
        self.tell_of_loras(inputs, &mut gathered);
        let mut position = 0;
        // Stages whose engine was lost: for good, which may be once, and for want of memory.
        let (mut lost_in, mut again_in) = (None, None);
        while let Some(&stage) = recipe.stages.get(position) {
            if self.events.is_cancelled() {
                return Ok(None);
            }
            if stage == Stage::Save {
                let output = self.save(inputs, &mut gathered, started)?;
                if lost_in.is_none() && self.ladder.climbs().is_empty() {
                    // The times of a job that was interrupted are nobody's measure.
                    self.estimates
                        .learn(self.request, self.engine.device_name(), &output.stages);
                }
                return Ok(Some(output));
            }
            self.events.certain(JobUpdate::Stage {
                stage,
                resumed: lost_in == Some(stage) || again_in == Some(stage),
            });
            if stage == Stage::Decode {
                gathered.clip.frames.clear();
            }
            let trouble = match self.run_stage(folder, &recipe, stage, &mut gathered) {
                Ok(StageResult::Finished { secs }) => {
                    self.end_stage(StageTime { stage, secs }, &mut gathered);
                    position += 1;
                    continue;
                }
                Ok(StageResult::Cancelled) => return Ok(None),
                Ok(StageResult::Lost { reason }) => Trouble::Lost { reason },
                Err(err) => Trouble::Failed(err),
            };
            let had_engine = self.count_lost_engine(&trouble);
            if self.climb(stage, &trouble, had_engine, &mut gathered) {
                again_in = Some(stage).filter(|_| !had_engine);
                continue;
            }
            match self.give_up(stage, trouble, lost_in.is_some()) {
                Ok(reason) => {
                    lost_in = Some(stage);
                    self.warn_of_resume(stage, &reason, &mut gathered);
                    position = folder.num_finished(&recipe);
                }
                Err(err) => return Err(err),
            }
        }
        Err(JobError::new(
            JobErrorKind::Internal,
            "the recipe ended without saving anything",
        ))
    }

    fn run_stage(
        &mut self,
        folder: &JobFolder,
        recipe: &Recipe,
        stage: Stage,
        gathered: &mut Gathered,
    ) -> Result<StageResult, JobError> {
        let run = StageRun {
            id: self.id,
            stage,
            recipe,
            folder: folder.path(),
            request: self.request,
            events: self.events,
            limits: self.limits,
            estimates: self.estimates,
            memory: self.ladder.memory(stage, StageMemory::default()),
        };
        let report = self.engine.run(run)?;
        gathered.peak_bytes = gathered.peak_bytes.max(report.peak_bytes);
        gathered.warnings.extend(report.warnings);
        gathered.clip.frames.extend(report.frames);
        Ok(report.result)
    }

    fn end_stage(&mut self, time: StageTime, gathered: &mut Gathered) {
        gathered.times.push(time);
        let rung = self.ladder.rung(time.stage);
        self.ladder.finished(place(
            self.request,
            time.stage,
            self.engine.device_name(),
            self.engine.is_on_cpu(),
        ));
        if rung == Rung::OnCpu {
            // For the estimate that the next one is announced with.
            self.estimates.learn(self.request, CPU, &[time]);
        }
        self.events.certain(JobUpdate::StageEnded(time));
    }

    /// Gives an engine up that is of no use any more, and counts it; whether the next try has one that runs.
    fn count_lost_engine(&mut self, trouble: &Trouble) -> bool {
        let fault = trouble.fault();
        if fault.is_some_and(Fault::ends_engine) {
            self.engine.drop_engine();
        }
        let runs = self.engine.is_running();
        // An engine that never ran is not one that was lost.
        if !runs && (fault.is_some() || matches!(trouble, Trouble::Lost { .. })) {
            self.ladder.count_restart(self.engine.device_name());
        }
        runs
    }

    /// Whether there is a next rung for a stage whose memory ran out, or whose device failed; it is told.
    fn climb(
        &mut self,
        stage: Stage,
        trouble: &Trouble,
        has_engine: bool,
        gathered: &mut Gathered,
    ) -> bool {
        let Some(fault) = trouble.fault() else {
            return false;
        };
        let place = place(
            self.request,
            stage,
            self.engine.device_name(),
            self.engine.is_on_cpu(),
        );
        let Some(rung) = self.ladder.climb(place, fault, !has_engine) else {
            return false;
        };
        let cpu_secs = self.estimates.secs_of(self.request, CPU, stage);
        let cpu_secs = cpu_secs.unwrap_or_else(|| ladder::guess_cpu_secs(place));
        let text = ladder::announce(place, fault, rung, cpu_secs);
        let why = match trouble {
            Trouble::Lost { reason } => reason,
            Trouble::Failed(err) => &err.details,
        };
        tracing::warn!("{text}\n{why}");
        self.events.certain(JobUpdate::Warning(text.clone()));
        gathered.warnings.push(text);
        true
    }

    /// What is left where no rung is: the reason why an engine was lost that a new one goes on from, which happens once,
    /// or the job's error.
    fn give_up(
        &self,
        stage: Stage,
        trouble: Trouble,
        has_been_lost: bool,
    ) -> Result<String, JobError> {
        let fault = trouble.fault();
        if fault.is_some_and(Fault::is_memory) {
            let why = match trouble {
                Trouble::Failed(err) => err,
                Trouble::Lost { reason } => {
                    let first_line = "the engine ran out of memory and ended";
                    JobError::new(JobErrorKind::OutOfMemory, first_line)
                        .detail(reason)
                        .with_fault(fault)
                }
            };
            let name = self.engine.device_name();
            let place = place(self.request, stage, name, self.engine.is_on_cpu());
            return Err(ladder::exhausted(place, why, self.ladder.climbs()));
        }
        let reason = match trouble {
            Trouble::Lost { reason } => reason,
            Trouble::Failed(err) if fault == Some(Fault::Device) => err.details,
            Trouble::Failed(err) => return Err(err),
        };
        if has_been_lost {
            Err(lost_twice(stage, &reason))
        } else {
            Ok(reason)
        }
    }

    /// How much of each LoRA is applied; a warning where that is little.
    fn tell_of_loras(&self, inputs: &Inputs, gathered: &mut Gathered) {
        for checked in &inputs.loras {
            tracing::info!("{}", checked.line());
            self.events.certain(JobUpdate::Lora(checked.clone()));
            if checked.coverage.is_poor() {
                let text = checked.line();
                self.events.certain(JobUpdate::Warning(text.clone()));
                gathered.warnings.push(text);
            }
        }
    }

    fn warn_of_resume(&self, stage: Stage, reason: &str, gathered: &mut Gathered) {
        let first_line = reason.lines().next().unwrap_or_default();
        let text = format!(
            "the engine ended in the stage '{}' ({first_line}); the job goes on from its last finished stage",
            stage.label()
        );
        tracing::warn!("{text}\n{reason}");
        self.events.certain(JobUpdate::Warning(text.clone()));
        gathered.warnings.push(text);
    }

    fn save(
        &self,
        inputs: &Inputs,
        gathered: &mut Gathered,
        started: Instant,
    ) -> Result<JobOutput, JobError> {
        let stage = Stage::Save;
        self.events.certain(JobUpdate::Stage {
            stage,
            resumed: false,
        });
        let began = Instant::now();
        let clip = std::mem::take(&mut gathered.clip);
        let (expected, found) = (self.request.num_decoded(), clip.frames.len());
        if found != expected {
            let what = format!("expected {expected} decoded frames, found {found}");
            return Err(JobError::new(JobErrorKind::Internal, what));
        }
        let clip = inputs.join(self.request, clip)?;
        let made = save::Made {
            engine: self.engine.report(),
            rungs: self.ladder.climbs(),
        };
        let written = save::write(self.request, &clip, inputs, made)?;
        for text in written.warnings {
            // The clip is there, and carries the same settings.
            self.events.certain(JobUpdate::Warning(text.clone()));
            gathered.warnings.push(text);
        }
        let time = StageTime {
            stage,
            secs: began.elapsed().as_secs_f64(),
        };
        gathered.times.push(time);
        self.events.certain(JobUpdate::StageEnded(time));
        Ok(JobOutput {
            paths: written.paths,
            clip: Arc::new(clip),
            seed: self.request.seed,
            secs: started.elapsed().as_secs_f64(),
            stages: std::mem::take(&mut gathered.times),
            peak_bytes: gathered.peak_bytes,
            warnings: std::mem::take(&mut gathered.warnings),
            rungs: self.ladder.climbs().to_vec(),
        })
    }
}

/// Where a stage stands.
fn place<'a>(
    request: &'a GenerateRequest,
    stage: Stage,
    device_name: &'a str,
    is_cpu: bool,
) -> Place<'a> {
    Place {
        stage,
        section: 0,
        request,
        device_name,
        is_cpu,
    }
}

fn lost_twice(stage: Stage, reason: &str) -> JobError {
    let first_line = reason.lines().next().unwrap_or_default();
    JobError::new(
        JobErrorKind::EngineLost,
        format!(
            "the engine ended twice, the second time in the stage '{}' ({first_line})",
            stage.label()
        ),
    )
    .advise("See the details and `safelight doctor`; a smaller size may help")
    .detail(reason)
}

fn disk_error(err: &io::Error, what: &str) -> JobError {
    JobError::new(JobErrorKind::Disk, format!("{what}: {err}"))
        .advise("Free some space or choose another folder")
}
