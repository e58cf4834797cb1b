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

use super::engine::{EngineSlot, StageResult, StageRun};
use super::estimate::Estimates;
use super::events::JobEvents;
use super::inputs::Inputs;
use super::save;
use super::{WorkerLimits, WorkerOptions};

/// Everything one job needs.
pub(super) struct Walk<'a> {
    pub(super) id: JobId,
    pub(super) request: &'a GenerateRequest,
    pub(super) events: &'a JobEvents<'a>,
    pub(super) options: &'a WorkerOptions,
    pub(super) limits: &'a WorkerLimits,
    pub(super) engine: &'a mut EngineSlot,
    pub(super) estimates: &'a mut Estimates,
}

/// What has come together so far.
#[derive(Default)]
struct Gathered {
    clip: Clip,
    times: Vec<StageTime>,
    warnings: Vec<String>,
    peak_bytes: u64,
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
        let mut lost_in = None;
        while let Some(&stage) = recipe.stages.get(position) {
            if self.events.is_cancelled() {
                return Ok(None);
            }
            if stage == Stage::Save {
                let output = self.save(inputs, &mut gathered, started)?;
                if lost_in.is_none() {
                    // The times of a job that was interrupted are nobody's measure.
                    self.estimates
                        .learn(self.request, self.engine.device_name(), &output.stages);
                }
                return Ok(Some(output));
            }
            self.events.certain(JobUpdate::Stage {
                stage,
                resumed: lost_in == Some(stage),
            });
            if stage == Stage::Decode {
                gathered.clip.frames.clear();
            }
            match self.run_stage(folder, &recipe, stage, &mut gathered)? {
                StageResult::Finished { secs } => {
                    let time = StageTime { stage, secs };
                    gathered.times.push(time);
                    self.events.certain(JobUpdate::StageEnded(time));
                    position += 1;
                }
                StageResult::Cancelled => return Ok(None),
                // A job goes on once.
                StageResult::Lost { reason } if lost_in.is_none() => {
                    lost_in = Some(stage);
                    self.warn_of_resume(stage, &reason, &mut gathered);
                    position = folder.num_finished(&recipe);
                }
                StageResult::Lost { reason } => return Err(lost_twice(stage, &reason)),
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
        };
        let report = self.engine.run(run)?;
        gathered.peak_bytes = gathered.peak_bytes.max(report.peak_bytes);
        gathered.warnings.extend(report.warnings);
        gathered.clip.frames.extend(report.frames);
        Ok(report.result)
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
        let written = save::write(self.request, &clip, inputs, self.engine.report())?;
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
        })
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
