//! A job that finishes something: its source read by the engine frame by frame, its frames kept in runs, and the runs
//! joined in the end.
//!
//! It goes on at the frame behind the last run, whoever stopped it. Sends no `Ended` itself: the caller does, in one place.

mod checks;
mod computed;
mod parts;

use std::cell::OnceCell;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use safelight_core::files::write_json;
use safelight_core::finish::{FinishRequest, fingerprint};
use safelight_core::job::{
    CARRIED_APP, Clip, Frame, JobError, JobErrorKind, JobFolder, JobId, JobOutcome, JobOutput,
    JobUpdate, Stage, StageTime,
};
use safelight_core::media::{self, ClipOptions, MediaError, Runs};
use safelight_core::memory::{
    DeviceClass, Fault, FinishPlanner, Plan, PlanOutcome, StageMemory, StageOutcome,
};
use serde_json::{Map, Value, json};

use super::engine::{EngineSlot, Finishing, StageReport, StageResult, StageRun, Task};
use super::events::JobEvents;
use super::fingerprints;
use super::ladder::{self, Asked, Ladder, Place};
use super::neighbour::Neighbour;
use super::plan::{self, Planned};
use super::save::error_of;
use super::walk::{check_room, hold, not_held};
use super::{WorkerLimits, WorkerOptions};
use crate::telemetry::host;
use checks::{alpha_of, room_of, sound_of, times_of, unused_of};
use computed::Computed;
use parts::Parts;

/// Everything one such job needs.
pub(super) struct FinishWalk<'a> {
    pub(super) id: JobId,
    pub(super) request: &'a FinishRequest,
    /// The folder of the same job, where an earlier program left it.
    pub(super) resume: Option<&'a Path>,
    pub(super) events: &'a JobEvents<'a>,
    pub(super) options: &'a WorkerOptions,
    pub(super) limits: &'a WorkerLimits,
    pub(super) engine: &'a mut EngineSlot,
    pub(super) ladder: Ladder,
    pub(super) neighbour: Neighbour,
    /// Made once the device is known.
    pub(super) plan: OnceCell<Plan>,
}

/// What has come together so far.
#[derive(Default)]
struct Gathered {
    /// The first frame that this program made.
    shown: Option<Frame>,
    times: Vec<StageTime>,
    warnings: Vec<String>,
    peak_bytes: u64,
    /// What the allocator counted at most.
    allocated_bytes: u64,
}

impl FinishWalk<'_> {
    /// Runs the job. Its folder stays where some of it was made and it failed, or is paused.
    pub(super) fn run(&mut self) -> JobOutcome {
        let started = Instant::now();
        let folder = match self.prepare() {
            Ok(folder) => folder,
            Err(err) => return JobOutcome::Failed(err),
        };
        // Where locks do not work, the folder's age alone tells that the job lives.
        let held = hold(&folder, self.resume.is_some());
        if self.resume.is_some()
            && let Err(err) = &held
        {
            return JobOutcome::Failed(not_held(&folder, err));
        }
        let outcome = match self.walk(&folder, started) {
            Ok(Some(output)) => JobOutcome::Finished(output),
            Ok(None) if self.events.is_paused() => return JobOutcome::Paused,
            Ok(None) => JobOutcome::Cancelled,
            Err(err) if Runs::at(&folder.parts()) > 0 => {
                return JobOutcome::Failed(err.keeping(folder.path()));
            }
            Err(err) => JobOutcome::Failed(err),
        };
        if let Err(err) = folder.remove() {
            tracing::warn!("a job's folder could not be removed: {err}");
        }
        outcome
    }

    /// Checks what only the disk knows, and makes the job's folder.
    fn prepare(&self) -> Result<JobFolder, JobError> {
        let request = self.request;
        let num_frames = request.after.num_frames as usize;
        media::check_frames_writable(&request.out, num_frames).map_err(|err| error_of(&err))?;
        let found = fingerprint(&request.source, request.is_picture);
        let found = found.map_err(|err| unusable(&err))?;
        if found != request.fingerprint {
            let what = format!(
                "this file has changed since the job was made: {}",
                request.source.display()
            );
            return Err(
                JobError::new(JobErrorKind::InvalidRequest, what).advise("Start the job anew")
            );
        }
        if let Some(folder) = self.resume {
            let folder = JobFolder::at(folder);
            fingerprints::check_same_network(request, &folder)?;
            return Ok(folder);
        }
        let folder = JobFolder::create_finishing(&self.options.jobs, self.id, request)
            .map_err(|err| JobError::disk("the job's folder cannot be created", &err))?;
        check_room(host::free_bytes(folder.path()), room_of(request), &folder).inspect_err(
            |_| {
                // The first error is the one that matters.
                folder.remove().ok();
            },
        )?;
        // Without it the job goes on with whatever network is there.
        if let Err(err) = write_json(&folder.model_file(), &fingerprints::of_network(request)) {
            tracing::warn!("a job's network could not be recorded: {err}");
        }
        Ok(folder)
    }

    fn walk(
        &mut self,
        folder: &JobFolder,
        started: Instant,
    ) -> Result<Option<JobOutput>, JobError> {
        let (request, stage) = (self.request, self.request.stage());
        self.events.certain(JobUpdate::Started(request.recipe()));
        let mut gathered = Gathered::default();
        // Before hours of work.
        for text in sound_of(request)
            .left_out
            .into_iter()
            .chain(unused_of(request))
        {
            self.warn(text, &mut gathered);
        }
        let (starts, note) = times_of(request).map_err(|err| unusable(&err))?;
        if let Some(text) = note {
            self.warn(text, &mut gathered);
        }
        let options = ClipOptions {
            starts,
            fps: if request.is_picture {
                ClipOptions::default().fps
            } else {
                request.after.fps
            },
            crf: request.crf,
            settings: None,
            keeps_others: request.is_out_automatic,
        };
        let runs = Runs::new(&folder.parts(), &request.out, options);
        let mut parts = Parts::new(runs.map_err(|err| error_of(&err))?);
        let mut has_lost = false;
        let mut resumed = self.resume.is_some();
        // A source may hold fewer frames than its header says: one that gave all it has is done.
        while parts.num_frames() < request.after.num_frames {
            if self.events.is_cancelled() {
                return Ok(None);
            }
            self.events.certain(JobUpdate::Stage {
                stage,
                section: 0,
                resumed,
            });
            let ended = self.run_stage(folder, &mut parts, &mut gathered);
            // What came before the end is kept, however it ended.
            let settled = parts.settle();
            if let Some(scarce) = self.neighbour.is_why(&ended) {
                let Self {
                    engine,
                    events,
                    options,
                    neighbour,
                    ..
                } = self;
                if !neighbour.wait_for_room(scarce, engine, events, options) {
                    return Ok(None);
                }
                // The next engine reads the network again, as it is by then.
                fingerprints::check_same_network(request, folder)?;
                resumed = true;
                continue;
            }
            settled?;
            match ended {
                Ok(StageResult::Finished { secs }) => {
                    let time = StageTime {
                        stage,
                        section: 0,
                        secs,
                    };
                    self.ladder.finished(place(request, self.engine));
                    let climbs = self.ladder.climbs();
                    Computed::kept(folder).climbed(climbs).keep(folder);
                    gathered.times.push(time);
                    self.events.certain(JobUpdate::StageEnded(time));
                    self.check_length(parts.num_frames(), &mut gathered)?;
                    break;
                }
                Ok(StageResult::Cancelled | StageResult::Yielded(_)) => return Ok(None),
                Ok(StageResult::Lost { reason }) => {
                    self.climb_or_go_on(Err(reason), &mut has_lost, &mut gathered)?;
                }
                Err(err) => self.climb_or_go_on(Ok(err), &mut has_lost, &mut gathered)?,
            }
            fingerprints::check_same_network(request, folder)?;
            resumed = true;
        }
        if self.events.is_cancelled() {
            return Ok(None);
        }
        self.save(folder, &parts, gathered, started).map(Some)
    }

    fn run_stage(
        &mut self,
        folder: &JobFolder,
        parts: &mut Parts,
        gathered: &mut Gathered,
    ) -> Result<StageResult, JobError> {
        let (request, stage) = (self.request, self.request.stage());
        let memory = self.ladder.memory(stage, StageMemory::default());
        let (plan, events) = (&self.plan, self.events);
        let planned = |engine: &_, last: Option<&_>| {
            // Before the first frame comes.
            Computed::kept(folder).by(engine).keep(folder);
            let facts = plan::facts(engine, last);
            let budget = facts.budget(&request.memory);
            if plan.get().is_none()
                && let Ok(planner) = FinishPlanner::read(request)
            {
                let made = plan.get_or_init(|| planner.plan(request, facts));
                events.certain(JobUpdate::Plan(Box::new(made.clone())));
                if !made.fits() {
                    let text = format!("{}; trying anyway", made.verdict.text);
                    events.certain(JobUpdate::Warning(text));
                }
            }
            let is_cpu = facts.class == DeviceClass::Cpu;
            let held = budget.available_bytes.max(1);
            Ok(Planned {
                memory: StageMemory {
                    cap_bytes: (!is_cpu).then_some(held),
                    ..memory
                },
                ..Planned::default()
            })
        };
        let shown = &mut gathered.shown;
        let first = parts.num_frames();
        let mut take = |frame: Frame| {
            shown.get_or_insert_with(|| frame.clone());
            parts.push(frame.picture)
        };
        let run = StageRun {
            id: self.id,
            stage,
            folder: folder.path(),
            task: Task::Finish(Finishing {
                request,
                first,
                take: &mut take,
            }),
            events: self.events,
            limits: self.limits,
            memory,
            planned: &planned,
            neighbour: &mut self.neighbour,
        };
        let StageReport {
            result,
            warnings,
            peak_bytes,
            allocated_bytes,
            ..
        } = self.engine.run(run)?;
        gathered.peak_bytes = gathered.peak_bytes.max(peak_bytes);
        gathered.allocated_bytes = gathered.allocated_bytes.max(allocated_bytes);
        gathered.warnings.extend(warnings);
        Ok(result)
    }

    /// The next rung where memory ran out, a new engine where one was lost for the first time, else the job's error.
    fn climb_or_go_on(
        &mut self,
        trouble: Result<JobError, String>,
        has_lost: &mut bool,
        gathered: &mut Gathered,
    ) -> Result<(), JobError> {
        let fault = match &trouble {
            Ok(err) => err.fault,
            Err(reason) => Fault::of_last_words(reason),
        };
        if fault.is_some_and(Fault::ends_engine) {
            self.engine.drop_engine();
        }
        let has_engine = self.engine.is_running();
        let place = place(self.request, self.engine);
        if let Some(fault) = fault {
            if let Some(rung) = self.ladder.climb(place, fault, !has_engine) {
                let text = ladder::announce(place, fault, rung, ladder::guess_cpu_secs(place));
                tracing::warn!("{text}");
                self.warn(text, gathered);
                return Ok(());
            }
            if fault.is_memory() {
                let why = trouble.unwrap_or_else(|reason| {
                    JobError::new(
                        JobErrorKind::OutOfMemory,
                        "the engine ran out of memory and ended",
                    )
                    .detail(reason)
                    .with_fault(Some(fault))
                });
                return Err(ladder::exhausted(place, why, self.ladder.climbs(), &[]));
            }
        }
        let reason = match trouble {
            Err(reason) => reason,
            Ok(err) if fault == Some(Fault::Device) => err.details,
            Ok(err) => return Err(err),
        };
        let first_line = reason.lines().next().unwrap_or_default();
        if std::mem::replace(has_lost, true) {
            let what = format!("the engine ended unexpectedly twice ({first_line})");
            return Err(JobError::new(JobErrorKind::EngineLost, what)
                .advise("Run `safelight doctor` to check libtorch and the device")
                .detail(reason));
        }
        self.ladder.count_restart(self.engine.device_name());
        let text = format!(
            "the engine ended unexpectedly ({first_line}); the job continues at its last frame"
        );
        tracing::warn!("{text}\n{reason}");
        self.warn(text, gathered);
        Ok(())
    }

    /// Whether all frames came that were counted; fewer are told, none is an error.
    fn check_length(&self, found: u32, gathered: &mut Gathered) -> Result<(), JobError> {
        let expected = self.request.after.num_frames;
        if found == 0 {
            let what = format!(
                "no frame of this file can be read: {}",
                self.request.source.display()
            );
            return Err(JobError::new(JobErrorKind::InvalidRequest, what));
        }
        if found < expected {
            self.warn(
                format!(
                    "the file has only {found} of the {expected} frames that its header tells of"
                ),
                gathered,
            );
        }
        Ok(())
    }

    /// Says at once, and in the job's outcome, what is done otherwise than asked.
    fn warn(&self, text: String, gathered: &mut Gathered) {
        self.events.certain(JobUpdate::Warning(text.clone()));
        gathered.warnings.push(text);
    }

    fn save(
        &self,
        folder: &JobFolder,
        parts: &Parts,
        mut gathered: Gathered,
        started: Instant,
    ) -> Result<JobOutput, JobError> {
        let (stage, began) = (Stage::Save, Instant::now());
        self.events.certain(JobUpdate::Stage {
            stage,
            section: 0,
            resumed: false,
        });
        let num_frames = parts.num_frames();
        let settings = self.settings(folder);
        // As it is now: a clip without its sound is more than none.
        let sound = sound_of(self.request).sound;
        let alpha = alpha_of(self.request).map_err(|err| unusable(&err))?;
        let paths = parts
            .runs()
            .join(Some(settings.to_string()), sound.as_ref(), alpha.as_ref());
        let paths = paths.map_err(|err| error_of(&err))?;
        let time = StageTime {
            stage,
            section: 0,
            secs: began.elapsed().as_secs_f64(),
        };
        gathered.times.push(time);
        self.events.certain(JobUpdate::StageEnded(time));
        let first = gathered.shown.map(|frame| frame.picture);
        Ok(JobOutput {
            paths,
            num_frames,
            clip: Arc::new(Clip {
                frames: first.into_iter().collect(),
                fps: self.request.after.fps,
            }),
            seed: None,
            secs: started.elapsed().as_secs_f64(),
            stages: gathered.times,
            peak_bytes: gathered.peak_bytes,
            warnings: gathered.warnings,
            plan: self.as_planned(gathered.allocated_bytes),
            rungs: self.ladder.climbs().to_vec(),
        })
    }

    /// What was predicted and what was measured, of a job that went as planned.
    fn as_planned(&self, measured_bytes: u64) -> Option<PlanOutcome> {
        let stage = self.request.stage();
        let predicted_bytes = self.plan.get()?.peak_bytes;
        let is_undisturbed = self.ladder.climbs().is_empty() && self.resume.is_none();
        let outcome = StageOutcome {
            stage,
            predicted_bytes,
            measured_bytes,
        };
        is_undisturbed
            .then(|| PlanOutcome::of(vec![outcome]))
            .flatten()
    }

    /// What the source carried, so that it can be made again, and what was done with it.
    fn settings(&self, folder: &JobFolder) -> Value {
        let carried = media::read_settings(&self.request.source);
        let carried = carried.ok().flatten();
        let carried =
            carried.and_then(|text| serde_json::from_str::<Map<String, Value>>(&text).ok());
        let mut settings = carried.unwrap_or_default();
        let mut done = json!(self.request);
        if let Some(fields) = done.as_object_mut() {
            for local in ["out", "is_out_automatic", "memory", "is_picture"] {
                fields.remove(local);
            }
            fields.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
            let computed = Computed::kept(folder).climbed(self.ladder.climbs());
            if let Value::Object(computed) = json!(computed) {
                fields.extend(computed);
            }
        }
        settings.entry("app").or_insert_with(|| json!(CARRIED_APP));
        match settings.entry("finished").or_insert_with(|| json!([])) {
            Value::Array(list) => list.push(done),
            other => *other = json!([done]),
        }
        Value::Object(settings)
    }
}

fn place<'a>(request: &'a FinishRequest, engine: &'a EngineSlot) -> Place<'a> {
    Place {
        stage: request.stage(),
        section: 0,
        asked: Asked::Finish(request),
        planned_tile: None,
        device_name: engine.device_name(),
        is_cpu: engine.is_on_cpu(),
    }
}

fn unusable(err: &MediaError) -> JobError {
    JobError::from_error(JobErrorKind::InvalidRequest, err)
}
