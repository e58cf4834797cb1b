//! What becomes of a stage that did not end well: a rung of the ladder, a new engine, or the job's error.
//!
//! The ladder itself knows nothing of engines and events; the walk decides which stage comes next.

use safelight_core::job::{GenerateRequest, JobError, JobErrorKind, JobUpdate, Stage, StageTime};
use safelight_core::memory::{Fault, Rung};

use super::engine::EngineSlot;
use super::ladder::{self, Asked, Place};
use super::plan::JobPlan;
use super::walk::{Gathered, Walk};

/// What the CPU is called where times are kept.
const CPU: &str = "CPU";

pub(super) enum Trouble {
    Lost { reason: String },
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
    pub(super) fn end_stage(&mut self, time: StageTime, gathered: &mut Gathered) {
        gathered.times.push(time);
        let rung = self.ladder.rung(time.stage);
        let at = (time.stage, time.section);
        let place = place(self.request, at, &self.plan, self.engine);
        self.ladder.finished(place);
        if rung == Rung::OnCpu {
            // For the estimate that the next one is announced with.
            self.estimates.learn(self.request, CPU, &[time]);
        }
        self.events.certain(JobUpdate::StageEnded(time));
    }

    /// Gives an engine up that is of no use any more, and counts it; whether the next try has one that runs.
    pub(super) fn count_lost_engine(&mut self, trouble: &Trouble) -> bool {
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
    pub(super) fn climb(
        &mut self,
        (stage, section): (Stage, u32),
        trouble: &Trouble,
        has_engine: bool,
        gathered: &mut Gathered,
    ) -> bool {
        let Some(fault) = trouble.fault() else {
            return false;
        };
        let place = place(self.request, (stage, section), &self.plan, self.engine);
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
        self.warn(text, gathered);
        true
    }

    /// What is left where no rung is: the reason why an engine was lost that a new one goes on from, where it may,
    /// or the job's error.
    pub(super) fn give_up(
        &self,
        (stage, section): (Stage, u32),
        trouble: Trouble,
        may_go_on: bool,
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
            let place = place(self.request, (stage, section), &self.plan, self.engine);
            let planned = self.plan.suggestions(self.request);
            return Err(ladder::exhausted(
                place,
                why,
                self.ladder.climbs(),
                &planned,
            ));
        }
        let reason = match trouble {
            Trouble::Lost { reason } => reason,
            Trouble::Failed(err) if fault == Some(Fault::Device) => err.details,
            Trouble::Failed(err) => return Err(err),
        };
        if may_go_on {
            Ok(reason)
        } else {
            Err(lost_twice(stage, &reason))
        }
    }
}

fn place<'a>(
    request: &'a GenerateRequest,
    (stage, section): (Stage, u32),
    plan: &JobPlan,
    engine: &'a EngineSlot,
) -> Place<'a> {
    Place {
        stage,
        section,
        asked: Asked::Generate(request),
        planned_tile: plan.of_stage(stage).tile,
        device_name: engine.device_name(),
        is_cpu: engine.is_on_cpu(),
    }
}

fn lost_twice(stage: Stage, reason: &str) -> JobError {
    let first_line = reason.lines().next().unwrap_or_default();
    let stage = stage.label();
    let what = format!(
        "the engine ended unexpectedly twice, the second time in the stage '{stage}' ({first_line})"
    );
    JobError::new(JobErrorKind::EngineLost, what)
        .advise("Run `safelight doctor` to check libtorch and the device")
        .detail(reason)
}
