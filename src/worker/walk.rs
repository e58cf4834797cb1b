//! One job: its folder, its recipe walked stage by stage, its engine restarted once when it dies,
//! and its one outcome. A job that a program left behind goes on in its folder.
//!
//! Sends no `Ended` itself: the caller does, in one place.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use safelight_core::job::{
    Clip, GenerateRequest, JobError, JobErrorKind, JobFolder, JobId, JobOutcome, JobOutput,
    JobUpdate, MemorySample, Recipe, Stage, StageTime,
};
use safelight_core::locks::Lock;
use safelight_core::memory::{Rung, StageMemory};
use safelight_core::protocol::EngineReport;
use safelight_core::units::size_text;

use super::climbing::Trouble;
use super::engine::{EngineSlot, Generating, StageResult, StageRun, Task};
use super::estimate::Estimates;
use super::events::JobEvents;
use super::fingerprints;
use super::inputs::Inputs;
use super::ladder::Ladder;
use super::neighbour::Neighbour;
use super::plan::{JobPlan, Planned};
use super::save;
use super::sections::{self, GrowingFile};
use super::{WorkerLimits, WorkerOptions};
use crate::telemetry::host;

/// A folder that somebody has is asked for again this often, within 200 ms.
const NUM_HOLDS: u32 = 10;
const HOLD_EVERY: Duration = Duration::from_millis(20);
/// Prompts of the longest text encoders in f32, and the job's other small files.
const TEXTS_BYTES: u64 = 32 << 20;

/// Everything one job needs.
pub(super) struct Walk<'a> {
    pub(super) id: JobId,
    pub(super) request: &'a GenerateRequest,
    /// The folder of the same job, where an earlier program left it.
    pub(super) resume: Option<&'a Path>,
    pub(super) events: &'a JobEvents<'a>,
    pub(super) options: &'a WorkerOptions,
    pub(super) limits: &'a WorkerLimits,
    pub(super) engine: &'a mut EngineSlot,
    pub(super) estimates: &'a mut Estimates,
    pub(super) ladder: Ladder,
    pub(super) neighbour: Neighbour,
    pub(super) plan: JobPlan,
}

/// What has come together so far.
#[derive(Default)]
pub(super) struct Gathered {
    /// Sections of an earlier program, whose frames are decoded again.
    pub(super) num_replayed: u32,
    pub(super) clip: Clip,
    pub(super) growing: GrowingFile,
    pub(super) times: Vec<StageTime>,
    pub(super) warnings: Vec<String>,
    peak_bytes: u64,
}

impl Gathered {
    /// Whether fewer sections are decoded than there were.
    fn is_replaying(&self) -> bool {
        let decoded = self.times.iter().filter(|time| time.stage == Stage::Decode);
        decoded.count() < self.num_replayed as usize
    }
}

impl Walk<'_> {
    /// Runs the job. Its folder goes at the end, unless it failed after some of it was made, or is paused.
    pub(super) fn run(&mut self) -> JobOutcome {
        let started = Instant::now();
        let (folder, inputs) = match self.prepare() {
            Ok(prepared) => prepared,
            Err(err) => return JobOutcome::Failed(err),
        };
        // Where locks do not work, the folder's age alone tells that the job lives.
        let held = hold(&folder, self.resume.is_some());
        if self.resume.is_some()
            && let Err(err) = &held
        {
            return JobOutcome::Failed(not_held(&folder, err));
        }
        let mut gathered = Gathered {
            clip: Clip {
                frames: Vec::new(),
                fps: self.request.fps,
            },
            ..Gathered::default()
        };
        let outcome = match self.walk(&folder, &inputs, &mut gathered, started) {
            Ok(Some(output)) => JobOutcome::Finished(output),
            Ok(None) if self.events.is_paused() => {
                drop(gathered.growing.into_written());
                return JobOutcome::Paused;
            }
            // What the earlier program had finished is there still.
            Ok(None) if gathered.is_replaying() => return JobOutcome::Cancelled,
            Ok(None) => self
                .keep(&inputs, gathered, started)
                .map_or(JobOutcome::Cancelled, JobOutcome::Kept),
            Err(err) if folder.num_finished(&Recipe::of(self.request)) > 0 => {
                drop(gathered.growing.into_written());
                return JobOutcome::Failed(err.keeping(folder.path()));
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
        if let Some(folder) = self.resume {
            let folder = JobFolder::at(folder);
            let inputs = Inputs::reopen(self.request, &folder)?;
            return Ok((folder, inputs));
        }
        let folder = JobFolder::create(&self.options.jobs, self.id, self.request)
            .map_err(|err| JobError::disk("the job's folder cannot be created", &err))?;
        let prepared = Inputs::copy(self.request, &folder).and_then(|inputs| {
            // The first of the new frames are the old clip's last.
            let doubled = inputs.num_extended.min(self.request.lead_frames());
            let num_frames = inputs.num_extended + self.request.num_frames as usize - doubled;
            save::check_frames(self.request, num_frames)?;
            check_room(
                host::free_bytes(folder.path()),
                room_of(self.request),
                &folder,
            )?;
            inputs.keep(self.request, &folder);
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
        gathered: &mut Gathered,
        started: Instant,
    ) -> Result<Option<JobOutput>, JobError> {
        let recipe = Recipe::of(self.request);
        self.events.certain(JobUpdate::Started(recipe.clone()));
        self.tell_of_inputs(inputs, gathered);
        let mut done = match self.resume {
            Some(_) => folder.finished(&recipe),
            None => vec![false; recipe.stages.len()],
        };
        let denoised = recipe.stages.iter().zip(&done);
        gathered.num_replayed = denoised
            .filter(|(stage, is_done)| **stage == Stage::Denoise && **is_done)
            .count() as u32;
        // Stages whose engine was lost: for good, which may be once, and for want of memory.
        let (mut lost_in, mut again_in) = (None, None);
        while let Some(position) = done.iter().position(|is_done| !is_done) {
            let (stage, section) = (recipe.stages[position], recipe.section(position));
            if self.events.is_cancelled() {
                return Ok(None);
            }
            if stage == Stage::Save {
                let output = self.save(inputs, gathered, started)?;
                if lost_in.is_none() && self.is_measure() {
                    self.estimates
                        .learn(self.request, self.engine.device_name(), &output.stages);
                }
                return Ok(Some(output));
            }
            self.events.certain(JobUpdate::Stage {
                stage,
                section,
                resumed: lost_in == Some(position) || again_in == Some(position),
            });
            let ended = self.run_stage(folder, &recipe, (stage, section), gathered);
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
                // The next engine reads the files again, as they are by then.
                fingerprints::check_same(self.request, folder)?;
                done = sections::still_done(&recipe, &done, &folder.finished(&recipe));
                continue;
            }
            let trouble = match ended {
                Ok(StageResult::Finished { secs }) => {
                    let time = StageTime {
                        stage,
                        section,
                        secs,
                    };
                    self.end_stage(time, gathered);
                    done[position] = true;
                    if stage == Stage::Decode {
                        let is_measure = lost_in.is_none() && self.is_measure();
                        self.show_section((folder, inputs), section, gathered, is_measure);
                    }
                    continue;
                }
                Ok(StageResult::Cancelled | StageResult::Yielded(_)) => return Ok(None),
                Ok(StageResult::Lost { reason }) => Trouble::Lost { reason },
                Err(err) => Trouble::Failed(err),
            };
            let had_engine = self.count_lost_engine(&trouble);
            if self.climb((stage, section), &trouble, had_engine, gathered) {
                fingerprints::check_same(self.request, folder)?;
                again_in = Some(position).filter(|_| !had_engine);
                continue;
            }
            let may_go_on = self.may_go_on(&recipe, lost_in, position);
            match self.give_up((stage, section), trouble, may_go_on) {
                Ok(reason) => {
                    fingerprints::check_same(self.request, folder)?;
                    lost_in = Some(position);
                    self.warn_of_resume(stage, &reason, gathered);
                    done = sections::still_done(&recipe, &done, &folder.finished(&recipe));
                }
                Err(err) => return Err(err),
            }
        }
        Err(JobError::new(
            JobErrorKind::Internal,
            "the recipe ended without saving anything",
        ))
    }

    /// The times of a job that was interrupted are nobody's measure.
    fn is_measure(&self) -> bool {
        // Two passes are of two sizes.
        let is_of_one_size = self.request.second_pass.is_none();
        let is_undisturbed = self.ladder.climbs().is_empty() && !self.neighbour.has_waited();
        self.resume.is_none() && is_of_one_size && is_undisturbed
    }

    fn run_stage(
        &mut self,
        folder: &JobFolder,
        recipe: &Recipe,
        (stage, section): (Stage, u32),
        gathered: &mut Gathered,
    ) -> Result<StageResult, JobError> {
        let (request, events) = (self.request, self.events);
        let (plan, ladder) = (&self.plan, &self.ladder);
        let planned = |engine: &EngineReport, last: Option<&MemorySample>| {
            if let Some(made) = plan.settle(request, engine, last)? {
                events.certain(JobUpdate::Plan(Box::new(made.clone())));
                for text in plan.warnings() {
                    events.certain(JobUpdate::Warning(text));
                }
            }
            let planned = plan.of_stage(stage);
            Ok(Planned {
                memory: ladder.memory(stage, planned.memory),
                ..planned
            })
        };
        let run = StageRun {
            id: self.id,
            stage,
            folder: folder.path(),
            task: Task::Generate(Generating {
                request: self.request,
                section,
                recipe,
                estimates: self.estimates,
            }),
            events: self.events,
            limits: self.limits,
            memory: self.ladder.memory(stage, StageMemory::default()),
            planned: &planned,
            neighbour: &mut self.neighbour,
        };
        let report = self.engine.run(run)?;
        gathered.peak_bytes = gathered.peak_bytes.max(report.peak_bytes);
        gathered.warnings.extend(report.warnings);
        // The plan assumes one latent frame at a time.
        let chunk = self.engine.compute_options().chunk;
        let is_as_planned = stage != Stage::Decode || chunk.frames() == 1;
        if self.ladder.rung(stage) == Rung::Ground && is_as_planned {
            self.plan.measured(stage, report.allocated_bytes);
        }
        if stage == Stage::Decode && matches!(report.result, StageResult::Finished { .. }) {
            let frames = &mut gathered.clip.frames;
            sections::join(frames, self.request, section, report.frames)?;
        }
        Ok(report.result)
    }

    pub(super) fn output(
        &mut self,
        paths: Vec<PathBuf>,
        clip: Clip,
        gathered: Gathered,
        started: Instant,
    ) -> JobOutput {
        JobOutput {
            paths,
            num_frames: clip.frames.len() as u32,
            clip: Arc::new(clip),
            seed: Some(self.request.seed),
            secs: started.elapsed().as_secs_f64(),
            stages: gathered.times,
            peak_bytes: gathered.peak_bytes,
            warnings: gathered.warnings,
            plan: self.plan.finish(self.request),
            rungs: self.ladder.climbs().to_vec(),
        }
    }

    /// Reports unused parts of input files, and how much of each LoRA is applied: a warning where that is little.
    fn tell_of_inputs(&self, inputs: &Inputs, gathered: &mut Gathered) {
        for text in &inputs.notices {
            self.warn(text.clone(), gathered);
        }
        for checked in &inputs.loras {
            tracing::info!("{}", checked.line());
            self.events.certain(JobUpdate::Lora(checked.clone()));
            if checked.coverage.is_poor() {
                self.warn(checked.line(), gathered);
            }
        }
    }

    /// Says at once, and in the job's outcome, what is done otherwise than asked.
    pub(super) fn warn(&self, text: String, gathered: &mut Gathered) {
        self.events.certain(JobUpdate::Warning(text.clone()));
        gathered.warnings.push(text);
    }

    fn warn_of_resume(&self, stage: Stage, reason: &str, gathered: &mut Gathered) {
        let first_line = reason.lines().next().unwrap_or_default();
        let text = format!(
            "the engine ended unexpectedly in the stage '{}' ({first_line}); the job continues from its last finished stage",
            stage.label()
        );
        tracing::warn!("{text}\n{reason}");
        self.warn(text, gathered);
    }

    fn save(
        &mut self,
        inputs: &Inputs,
        gathered: &mut Gathered,
        started: Instant,
    ) -> Result<JobOutput, JobError> {
        let stage = Stage::Save;
        self.events.certain(JobUpdate::Stage {
            stage,
            section: 0,
            resumed: false,
        });
        let began = Instant::now();
        // Of no use any more, and in the way while it is written; what was wrong with it shows again.
        gathered.growing.settle();
        let clip = std::mem::take(&mut gathered.clip);
        let (expected, found) = (self.request.num_decoded(), clip.frames.len());
        if found != expected {
            let what = format!("expected {expected} decoded frames, found {found}");
            return Err(JobError::new(JobErrorKind::Internal, what));
        }
        let clip = inputs.join(self.request, clip)?;
        let request = gathered.growing.named(self.request);
        let written = save::write(&request, &clip, inputs, self.made())?;
        for text in written.warnings {
            // The clip is there, and carries the same settings.
            self.warn(text, gathered);
        }
        let time = StageTime {
            stage,
            section: 0,
            secs: began.elapsed().as_secs_f64(),
        };
        gathered.times.push(time);
        self.events.certain(JobUpdate::StageEnded(time));
        gathered.warnings.extend(self.plan.warnings());
        Ok(self.output(written.paths, clip, std::mem::take(gathered), started))
    }
}

/// Whoever looks for jobs that were left holds each for a moment: that is no reason to give up one that is to go on.
pub(super) fn hold(folder: &JobFolder, goes_on: bool) -> io::Result<Lock> {
    let mut held = folder.hold();
    for _ in 0..NUM_HOLDS {
        if !goes_on || held.is_ok() {
            break;
        }
        thread::sleep(HOLD_EVERY);
        held = folder.hold();
    }
    held
}

/// Why a job that is there cannot be worked on.
pub fn not_held(folder: &JobFolder, err: &io::Error) -> JobError {
    if err.kind() == io::ErrorKind::WouldBlock {
        let what = "another window or program is working on this job";
        return JobError::new(JobErrorKind::InvalidRequest, what)
            .advise("Wait until it is done, or stop it there");
    }
    let folder = folder.path().display();
    JobError::disk(
        format!("the job's folder cannot be written to ({folder})"),
        err,
    )
}

/// What a job leaves in its folder, a guess at its bytes, must have room: without it the job would fail behind its longest
/// stage.
pub(super) fn check_room(
    free: Option<u64>,
    needed: u64,
    folder: &JobFolder,
) -> Result<(), JobError> {
    match free {
        Some(free) if free < needed => {
            let what = format!(
                "the job needs about {} of disk space, but {} is free: {}",
                size_text(needed),
                size_text(free),
                folder.path().display()
            );
            Err(JobError::new(JobErrorKind::Disk, what).advise("Free some space on that disk"))
        }
        _ => Ok(()),
    }
}

/// Bytes for texts, latents and the sampler's state. Latents of a picture have 16 channels in f32 for 8×8 pixels, those of
/// a clip for 4 frames of them; the state in the middle has up to three of their kind.
fn room_of(request: &GenerateRequest) -> u64 {
    let size = u64::from(request.width) * u64::from(request.height);
    let frames = u64::from(request.num_frames.div_ceil(4) * request.batch_size.max(1));
    TEXTS_BYTES + size * frames * 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::request_of_tests::request;

    #[test]
    fn a_job_is_refused_before_it_computes_where_its_folder_has_too_little_room() {
        let request = request();
        let folder = JobFolder::at("/jobs/1");
        let needed = room_of(&request);
        assert!(needed > 60_000_000 && needed < 80_000_000, "{needed}");
        assert!(check_room(Some(needed), needed, &folder).is_ok());
        assert!(check_room(None, needed, &folder).is_ok());
        let err = check_room(Some(1_000_000), needed, &folder).unwrap_err();
        assert!(
            err.summary.ends_with("but 977 KiB is free: /jobs/1"),
            "{err}"
        );
    }
}
