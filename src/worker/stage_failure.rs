//! Handling of a stage that failed: the next out-of-memory fallback, a new engine, or the job's error.

use safelight_core::job::{JobError, JobErrorKind, JobRequest, Recipe, Stage};
use safelight_core::job_update::{JobUpdate, StageTime};
use safelight_core::memory::{FallbackLevel, ResourceFault};

use super::engine::EngineManager;
use super::job_run::JobRun;
use super::oom_fallback::{self, FailedStage};
use super::plan::JobPlan;

/// Name of the CPU in the stored times.
const CPU: &str = "CPU";

impl JobRun<'_> {
    /// Records a stage that finished.
    pub(super) fn end_stage(&mut self, time: StageTime) {
        self.progress.times.push(time);
        let level = self.fallbacks.level(time.stage);
        let at = (time.stage, time.section);
        let stage = failed_stage(self.request, at, &self.plan, self.engine);
        self.fallbacks.finished(stage);
        if let Some(request) = self.request.generate()
            && level == FallbackLevel::OnCpu
        {
            // Feeds the estimate shown for the next one.
            self.estimates.learn(request, CPU, &[time]);
        }
        self.events.certain(JobUpdate::StageEnded(time));
    }

    /// Ends an engine that cannot be used after this failure, and counts it. Returns whether one still runs.
    pub(super) fn count_lost_engine(&mut self, failure: &JobError) -> bool {
        let fault = failure.fault;
        if fault.is_some_and(ResourceFault::ends_engine) {
            self.engine.drop_engine();
        }
        let is_running = self.engine.is_running();
        // An engine that never ran was not lost.
        if !is_running && (fault.is_some() || failure.kind == JobErrorKind::EngineLost) {
            self.fallbacks.count_restart(self.engine.device_name());
        }
        is_running
    }

    /// Moves the stage to its next fallback level and reports it. Returns `false` if there is none.
    pub(super) fn fall_back(
        &mut self,
        at: (Stage, u32),
        failure: &JobError,
        has_engine: bool,
    ) -> bool {
        let Some(fault) = failure.fault else {
            return false;
        };
        let stage = failed_stage(self.request, at, &self.plan, self.engine);
        let Some(level) = self.fallbacks.next(stage, fault, !has_engine) else {
            return false;
        };
        let generate = self.request.generate();
        let learned = generate.and_then(|it| self.estimates.secs_of(it, CPU, stage.stage));
        let cpu_secs = learned.unwrap_or_else(|| oom_fallback::guess_cpu_secs(stage));
        let text = oom_fallback::announce(stage, fault, level, cpu_secs);
        tracing::warn!("{text}\n{}", failure.details);
        self.warn(text);
        true
    }

    /// An engine is replaced once in a job, and once in each section.
    pub(super) fn may_replace_engine(&self, recipe: &Recipe, position: usize) -> bool {
        let has_sections = self
            .request
            .generate()
            .is_some_and(|it| it.sections.is_some());
        self.progress
            .lost_in
            .is_none_or(|before| has_sections && recipe.section(position) > recipe.section(before))
    }

    /// The reason why an engine was lost that may be replaced; otherwise the job's error.
    pub(super) fn lost_engine(
        &self,
        at: (Stage, u32),
        failure: JobError,
        may_replace: bool,
    ) -> Result<String, JobError> {
        let fault = failure.fault;
        if fault.is_some_and(ResourceFault::is_memory) {
            let attempts = self.fallbacks.attempts();
            let stage = failed_stage(self.request, at, &self.plan, self.engine);
            let advice = self.plan.advice();
            return Err(oom_fallback::exhausted(stage, failure, attempts, advice));
        }
        let is_lost = failure.kind == JobErrorKind::EngineLost;
        if !is_lost && fault != Some(ResourceFault::Device) {
            return Err(failure);
        }
        if may_replace {
            Ok(failure.details)
        } else {
            Err(lost_twice(at.0, &failure.details))
        }
    }

    pub(super) fn warn_of_new_engine(&mut self, stage: Stage, reason: &str) {
        let first_line = reason.lines().next().unwrap_or_default();
        let from = if stage.is_postprocess() {
            "at its last frame"
        } else {
            "from its last finished stage"
        };
        let text = format!(
            "the engine ended unexpectedly in the stage '{}' ({first_line}); the job continues {from}",
            stage.label()
        );
        tracing::warn!("{text}\n{reason}");
        self.warn(text);
    }
}

fn failed_stage<'a>(
    request: &'a JobRequest,
    (stage, section): (Stage, u32),
    plan: &JobPlan,
    engine: &'a EngineManager,
) -> FailedStage<'a> {
    FailedStage {
        stage,
        section,
        request,
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
        .advise("Run the Doctor to check libtorch and the device")
        .detail(reason)
}
