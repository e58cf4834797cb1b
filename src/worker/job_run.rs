//! One job: its folder, its recipe stage by stage, and its outcome.
//!
//! Generating and post-processing differ in their [`FrameStore`]. A stage that fails gets what [`stage_failure`] still
//! has for it; a job of an earlier program continues in its folder. The caller sends `Ended`.
//!
//! [`stage_failure`]: super::stage_failure

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use safelight_core::files::write_optional_json;
use safelight_core::job::{
    JobError, JobErrorKind, JobFolder, JobId, JobRequest, Recipe, Stage, Video,
};
use safelight_core::job_update::{
    JobOutcome, JobOutput, JobUpdate, MemorySample, PreviewFrame, StageTime,
};
use safelight_core::locks::FileLock;
use safelight_core::media::SampledSound;
use safelight_core::memory::{FallbackLevel, StageMemory};
use safelight_core::protocol::EngineReport;
use safelight_core::units::size_text;

use super::engine::{EngineManager, StageResult, StageRun};
use super::estimate::TimeEstimates;
use super::events::JobEvents;
use super::fingerprints;
use super::generated::GeneratedFrames;
use super::memory_pressure::MemoryPressureMonitor;
use super::oom_fallback::OomFallbacks;
use super::plan::{JobPlan, PlannedStage};
use super::postprocess::{self, PostprocessedFrames, ResultProvenance};
use super::save;
use super::{WorkerLimits, WorkerOptions};
use crate::telemetry::host;

/// Attempts to lock a folder, and the time between them: a search for unfinished jobs locks each for a moment.
const NUM_HOLDS: u32 = 10;
const HOLD_EVERY: Duration = Duration::from_millis(20);

/// Everything that one job needs.
pub(super) struct JobRun<'a> {
    pub(super) id: JobId,
    pub(super) request: &'a JobRequest,
    /// Folder of the job, if an earlier program left it unfinished.
    pub(super) resume: Option<&'a Path>,
    pub(super) events: &'a JobEvents<'a>,
    pub(super) options: &'a WorkerOptions,
    pub(super) limits: &'a WorkerLimits,
    pub(super) engine: &'a mut EngineManager,
    pub(super) estimates: &'a mut TimeEstimates,
    pub(super) fallbacks: OomFallbacks,
    pub(super) pressure: MemoryPressureMonitor,
    pub(super) plan: JobPlan,
    pub(super) progress: RunProgress,
}

/// Times, warnings and measurements of a job so far.
pub(super) struct RunProgress {
    started: Instant,
    pub(super) times: Vec<StageTime>,
    warnings: Vec<String>,
    peak_bytes: u64,
    /// Position of the stage whose engine was replaced last.
    pub(super) lost_in: Option<usize>,
}

impl RunProgress {
    pub(super) fn begin() -> Self {
        Self {
            started: Instant::now(),
            times: Vec::new(),
            warnings: Vec::new(),
            peak_bytes: 0,
            lost_in: None,
        }
    }
}

/// Frames of a job between the engine and its result.
pub(super) trait FrameStore {
    /// Reports what the input files lose.
    fn report_inputs(&self, run: &mut JobRun<'_>);

    /// Stages that need not run again, of `done` and of those whose results are on the disk.
    fn finished(&self, recipe: &Recipe, folder: &JobFolder, done: &[bool]) -> Vec<bool>;

    /// Prepares for the frames of a stage, and returns the number of the first one to compute.
    fn begin_stage(&mut self) -> u32;

    fn push(&mut self, frame: PreviewFrame) -> Result<(), JobError>;

    /// Takes the sound of the result, which replaces that of an earlier run of its stage.
    fn keep_sound(&mut self, _sound: SampledSound) {}

    /// Waits until all frames that were pushed are written, however their stage ended.
    fn settle(&mut self) -> Result<(), JobError> {
        Ok(())
    }

    /// Takes in a stage that finished.
    fn end_stage(
        &mut self,
        run: &mut JobRun<'_>,
        folder: &JobFolder,
        time: StageTime,
    ) -> Result<(), JobError>;

    fn save(&mut self, run: &mut JobRun<'_>, folder: &JobFolder) -> Result<SavedResult, JobError>;

    /// A cancelled job has less than an earlier program finished, so that its folder stays.
    fn is_behind(&self, _run: &JobRun<'_>) -> bool {
        false
    }

    /// Saves the finished part of a cancelled job, if there is one that is a result.
    fn save_part(&mut self, _run: &mut JobRun<'_>) -> Option<SavedResult> {
        None
    }

    /// The folder has results that a resumed job continues from.
    fn has_results(&self, recipe: &Recipe, folder: &JobFolder) -> bool;
}

/// Files of a result.
pub(super) struct SavedResult {
    pub(super) paths: Vec<PathBuf>,
    pub(super) num_frames: u32,
    /// Frames to show.
    pub(super) video: Video,
}

impl<'a> JobRun<'a> {
    /// Runs the job. Its folder is removed at the end, unless it failed with results or is paused.
    pub(super) fn run(&mut self) -> JobOutcome {
        let folder = match self.folder() {
            Ok(folder) => folder,
            Err(err) => return JobOutcome::Failed(err),
        };
        // Without working locks only the folder's age shows that the job runs.
        let held = hold(&folder, self.resume.is_some());
        if self.resume.is_some()
            && let Err(err) = &held
        {
            return JobOutcome::Failed(not_held(&folder, err));
        }
        let mut store = match self.open_store(&folder) {
            Ok(store) => store,
            Err(err) => {
                if self.resume.is_none() {
                    // The first error is the one that matters.
                    folder.remove().ok();
                }
                return JobOutcome::Failed(err);
            }
        };
        let outcome = match self.run_stages(&folder, store.as_mut()) {
            Ok(Some(output)) => JobOutcome::Finished(output),
            Ok(None) if self.events.is_paused() => return JobOutcome::Paused,
            Ok(None) if store.is_behind(self) => return JobOutcome::Cancelled,
            Ok(None) => match store.save_part(self) {
                Some(saved) => JobOutcome::Kept(self.output(saved)),
                None => JobOutcome::Cancelled,
            },
            Err(err) if store.has_results(&self.request.recipe(), &folder) => {
                return JobOutcome::Failed(err.keeping(folder.path()));
            }
            Err(err) => JobOutcome::Failed(err),
        };
        if let Err(err) = folder.remove() {
            tracing::warn!("a job's folder could not be removed: {err}");
        }
        outcome
    }

    /// The job's folder, created for a new job whose result can be written.
    fn folder(&self) -> Result<JobFolder, JobError> {
        match self.request {
            JobRequest::Generate(request) => save::check(request)?,
            JobRequest::Finish(request) => postprocess::check(request)?,
        }
        match self.resume {
            Some(folder) => Ok(JobFolder::open(folder)),
            None => JobFolder::create(&self.options.paths.jobs(), self.id, self.request)
                .map_err(|err| JobError::disk("the job's folder cannot be created", &err)),
        }
    }

    fn open_store(&self, folder: &JobFolder) -> Result<Box<dyn FrameStore + 'a>, JobError> {
        let is_new = self.resume.is_none();
        if !is_new {
            fingerprints::check_same(self.request, folder)?;
        }
        let store: Box<dyn FrameStore + 'a> = match self.request {
            JobRequest::Generate(request) => {
                Box::new(GeneratedFrames::open(request, folder, is_new)?)
            }
            JobRequest::Finish(request) => {
                Box::new(PostprocessedFrames::open(request, folder, is_new)?)
            }
        };
        if is_new {
            // Without it a resumed job takes whatever weights are there.
            let weights = fingerprints::of_model(self.request);
            write_optional_json(&folder.model_file(), &weights, "a job's weights");
        }
        Ok(store)
    }

    /// Returns `None` when the job was cancelled or paused.
    fn run_stages(
        &mut self,
        folder: &JobFolder,
        store: &mut dyn FrameStore,
    ) -> Result<Option<JobOutput>, JobError> {
        let recipe = self.request.recipe();
        self.events.certain(JobUpdate::Started(recipe.clone()));
        store.report_inputs(self);
        let none = vec![false; recipe.stages.len()];
        let mut done = store.finished(&recipe, folder, &none);
        // The stage that is tried again in a new engine.
        let mut again_in = None;
        while let Some(position) = done.iter().position(|is_done| !is_done) {
            let (stage, section) = (recipe.stages[position], recipe.section(position));
            if self.events.is_cancelled() {
                return Ok(None);
            }
            if stage == Stage::Save {
                return self.save(folder, store).map(Some);
            }
            let first_frame = store.begin_stage();
            let is_again = [self.progress.lost_in, again_in].contains(&Some(position));
            self.events.certain(JobUpdate::Stage {
                stage,
                section,
                resumed: is_again || first_frame > 0,
            });
            let ended = self.run_stage(folder, &recipe, (stage, section), first_frame, store);
            let settled = store.settle();
            if let Some(scarce) = self.pressure.is_why(&ended) {
                let (engine, events) = (&mut *self.engine, self.events);
                if !self
                    .pressure
                    .wait_for_room(scarce, engine, events, self.options)
                {
                    return Ok(None);
                }
                // The next engine reads the files again.
                fingerprints::check_same(self.request, folder)?;
                done = store.finished(&recipe, folder, &done);
                continue;
            }
            settled?;
            let failure = match ended {
                Ok(StageResult::Finished { secs }) => {
                    let time = StageTime {
                        stage,
                        section,
                        secs,
                    };
                    self.end_stage(time);
                    store.end_stage(self, folder, time)?;
                    done[position] = true;
                    continue;
                }
                Ok(StageResult::Cancelled | StageResult::Yielded(_)) => return Ok(None),
                Err(failure) => failure,
            };
            let has_engine = self.count_lost_engine(&failure);
            if self.fall_back((stage, section), &failure, has_engine) {
                again_in = Some(position).filter(|_| !has_engine);
            } else {
                let may_replace = self.may_replace_engine(&recipe, position);
                let reason = self.lost_engine((stage, section), failure, may_replace)?;
                self.warn_of_new_engine(stage, &reason);
                self.progress.lost_in = Some(position);
                done = store.finished(&recipe, folder, &done);
            }
            fingerprints::check_same(self.request, folder)?;
        }
        Err(JobError::new(
            JobErrorKind::Internal,
            "the recipe ended without saving anything",
        ))
    }

    /// The times are those of an undisturbed job.
    pub(super) fn is_measure(&self) -> bool {
        let generate = self.request.generate();
        // Two passes are of two sizes.
        let is_of_one_size = generate.is_some_and(|request| request.second_pass.is_none());
        let is_undisturbed = self.fallbacks.attempts().is_empty() && !self.pressure.has_waited();
        let is_whole = self.resume.is_none() && self.progress.lost_in.is_none();
        is_whole && is_of_one_size && is_undisturbed
    }

    /// Stores the times of a generating job for later estimates.
    pub(super) fn learn_times(&mut self) {
        if let Some(request) = self.request.generate().filter(|_| self.is_measure()) {
            let device = self.engine.device_name();
            self.estimates.learn(request, device, &self.progress.times);
        }
    }

    fn run_stage(
        &mut self,
        folder: &JobFolder,
        recipe: &Recipe,
        (stage, section): (Stage, u32),
        first_frame: u32,
        store: &mut dyn FrameStore,
    ) -> Result<StageResult, JobError> {
        let (request, events) = (self.request, self.events);
        let (plan, fallbacks) = (&self.plan, &self.fallbacks);
        let planned = |engine: &EngineReport, last: Option<&MemorySample>| {
            if stage.is_postprocess() {
                // Before the first frame.
                ResultProvenance::load(folder).by(engine).save(folder);
            }
            if let Some(made) = plan.settle(request, engine, last, events)? {
                events.certain(JobUpdate::Plan(Box::new(made.clone())));
                for text in plan.warnings() {
                    events.certain(JobUpdate::Warning(text));
                }
            }
            let planned = plan.of_stage(stage);
            Ok(PlannedStage {
                memory: fallbacks.memory(stage, planned.memory),
                ..planned
            })
        };
        let run = StageRun {
            id: self.id,
            request,
            recipe,
            stage,
            section,
            first_frame,
            folder: folder.path(),
            estimates: self.estimates,
            events,
            limits: self.limits,
            memory: fallbacks.memory(stage, StageMemory::default()),
            planned: &planned,
            pressure: &mut self.pressure,
            take: &mut |frame| store.push(frame),
        };
        let report = self.engine.run(run)?;
        if let Some(sound) = report.sound {
            store.keep_sound(sound);
        }
        self.progress.peak_bytes = self.progress.peak_bytes.max(report.peak_bytes);
        self.progress.warnings.extend(report.warnings);
        // The plan assumes one latent frame at a time.
        let chunk = self.engine.compute_options().chunk;
        let is_as_planned = stage != Stage::Decode || chunk.frames() == 1;
        let is_ground = self.fallbacks.level(stage) == FallbackLevel::Ground;
        if report.result.is_ok() && is_ground && is_as_planned {
            self.plan.measured(stage, report.allocated_bytes);
        }
        report.result
    }

    /// Reports at once, and in the job's outcome, what is done differently than requested.
    pub(super) fn warn(&mut self, text: String) {
        self.events.certain(JobUpdate::Warning(text.clone()));
        self.progress.warnings.push(text);
    }

    fn save(
        &mut self,
        folder: &JobFolder,
        store: &mut dyn FrameStore,
    ) -> Result<JobOutput, JobError> {
        let (stage, section) = (Stage::Save, 0);
        self.events.certain(JobUpdate::Stage {
            stage,
            section,
            resumed: false,
        });
        let began = Instant::now();
        let saved = store.save(self, folder)?;
        let time = StageTime {
            stage,
            section,
            secs: began.elapsed().as_secs_f64(),
        };
        self.progress.times.push(time);
        self.events.certain(JobUpdate::StageEnded(time));
        self.progress.warnings.extend(self.plan.warnings());
        self.learn_times();
        Ok(self.output(saved))
    }

    fn output(&mut self, saved: SavedResult) -> JobOutput {
        let progress = &mut self.progress;
        JobOutput {
            paths: saved.paths,
            num_frames: saved.num_frames,
            video: Arc::new(saved.video),
            seed: self.request.generate().map(|request| request.seed),
            secs: progress.started.elapsed().as_secs_f64(),
            stages: std::mem::take(&mut progress.times),
            peak_bytes: progress.peak_bytes,
            warnings: std::mem::take(&mut progress.warnings),
            plan: self.plan.finish(self.request),
            rungs: self.fallbacks.attempts().to_vec(),
        }
    }
}

/// Locks a job's folder; waits a little for one that is resumed.
fn hold(folder: &JobFolder, is_resumed: bool) -> io::Result<FileLock> {
    let mut held = folder.hold();
    for _ in 0..NUM_HOLDS {
        if !is_resumed || held.is_ok() {
            break;
        }
        thread::sleep(HOLD_EVERY);
        held = folder.hold();
    }
    held
}

/// The error of a job whose folder cannot be locked.
pub fn not_held(folder: &JobFolder, err: &io::Error) -> JobError {
    if err.kind() == io::ErrorKind::WouldBlock {
        let what = "another window or program is working on this job";
        return JobError::invalid(what).advise("Wait until it is done, or stop it there");
    }
    let folder = folder.path().display();
    JobError::disk(
        format!("the job's folder cannot be written to ({folder})"),
        err,
    )
}

/// Refuses a job whose folder has less room than the `needed` bytes, an estimate: it would fail after its longest stage.
pub(super) fn check_room(folder: &JobFolder, needed: u64) -> Result<(), JobError> {
    room_error(host::free_bytes(folder.path()), needed, folder).map_or(Ok(()), Err)
}

fn room_error(free: Option<u64>, needed: u64, folder: &JobFolder) -> Option<JobError> {
    let free = free.filter(|free| *free < needed)?;
    let what = format!(
        "the job needs about {} of disk space, but {} is free: {}",
        size_text(needed),
        size_text(free),
        folder.path().display()
    );
    Some(JobError::new(JobErrorKind::Disk, what).advise("Free some space on that disk"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_is_refused_before_it_computes_if_its_folder_has_too_little_room() {
        let folder = JobFolder::open("/jobs/1");
        let needed = 70_000_000;
        assert!(room_error(Some(needed), needed, &folder).is_none());
        assert!(room_error(None, needed, &folder).is_none());
        let err = room_error(Some(1_000_000), needed, &folder).unwrap();
        let said = "but 977 KiB is free: /jobs/1";
        assert!(err.summary.ends_with(said), "{err}");
    }
}
