//! The memory plan of one job: made once the engine's device is known, applied stage by stage, and compared with
//! measured peaks.
//!
//! A model whose headers cannot be read has no plan: the engine reports what is wrong with it.

use std::cell::OnceCell;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use safelight_core::compute::DecodeChunk;
use safelight_core::families::read_footprint;
use safelight_core::files::write_optional_json;
use safelight_core::footprint::ModelFootprint;
use safelight_core::job::{DeviceChoice, JobError, JobErrorKind, JobRequest, Stage};
use safelight_core::job_update::{JobUpdate, MemorySample, MemoryWait};
use safelight_core::memory::{
    CONTEXT_BYTES, DeviceClass, DeviceFacts, FIRST_CONTEXT_BYTES, StageMemory,
};
use safelight_core::plan::{
    MeasuredPeak, MemoryPlan, MemoryPlanner, PeakCorrections, PlanOutcome, StageOutcome, StagePlan,
    suggestions,
};
use safelight_core::protocol::EngineReport;
use safelight_core::units::size_text;

use super::events::JobEvents;
use crate::telemetry::device::{DeviceQuery, device_facts};
use crate::telemetry::{SystemRoots, host};

/// Interval at which a job that waits for the memory of others looks again.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlannedStage {
    pub(super) memory: StageMemory,
    /// Tiles of the VAE without which the stage would not fit.
    pub(super) tile: Option<u32>,
    /// Largest chunk that fits into memory; [`DecodeChunk::Auto`] for a stage without chunks.
    pub(super) chunk: DecodeChunk,
}

pub(super) struct JobPlan {
    weights: Option<ModelFootprint>,
    decodes_in_chunks: bool,
    corrections: PeakCorrections,
    file: PathBuf,
    settled: OnceCell<SettledPlan>,
    measured: Vec<(Stage, u64)>,
}

struct SettledPlan {
    plan: MemoryPlan,
    device: String,
    /// Changes that would make the job fit, one phrase each; none if it does.
    advice: Vec<String>,
    /// Warning that the device may have more memory than its driver reports.
    doubt: Option<String>,
}

impl JobPlan {
    /// Reads the headers. `file`: corrections by earlier jobs.
    pub(super) fn new(request: &JobRequest, file: PathBuf) -> Self {
        let weights = match request {
            JobRequest::Generate(it) => {
                read_footprint(it.family, &it.files, &it.loras, &it.controls)
            }
            JobRequest::Finish(request) => ModelFootprint::of_postprocess(request),
        };
        if let Err(err) = &weights {
            tracing::debug!("no plan: {err}");
        }
        let weights = weights.ok();
        let decodes_in_chunks = weights
            .as_ref()
            .is_some_and(ModelFootprint::decodes_in_chunks);
        Self {
            decodes_in_chunks: decodes_in_chunks && request.num_frames() > 1,
            weights,
            corrections: PeakCorrections::load(&file),
            file,
            settled: OnceCell::new(),
            measured: Vec::new(),
        }
    }

    /// Makes the plan on the first call, which waits while it fits only without the jobs of other workers. `last`: the
    /// engine's last memory sample. Fails if not even half of a generating job fits.
    pub(super) fn settle(
        &self,
        request: &JobRequest,
        report: &EngineReport,
        last: Option<&MemorySample>,
        events: &JobEvents<'_>,
    ) -> Result<Option<&MemoryPlan>, JobError> {
        let Some(weights) = &self.weights else {
            return Ok(None);
        };
        if self.settled.get().is_some() {
            return Ok(None);
        }
        let mut planner = MemoryPlanner {
            weights,
            facts: facts(report, last),
            device: &report.device_name,
            corrections: &self.corrections,
        };
        let mut is_first = true;
        let plan = loop {
            let made = events.memory().reserve(|others| {
                let free = &mut planner.facts.host_available_bytes;
                *free = free.saturating_sub(others.expected);
                let plan = match request {
                    JobRequest::Generate(request) => planner.plan(request),
                    JobRequest::Finish(request) => planner.plan_postprocess(request),
                };
                let is_shared = plan.device.class != DeviceClass::Discrete;
                let waits = is_shared && others.reserved > 0 && !plan.fits();
                if waits && !events.waits_no_more() {
                    return None;
                }
                let bytes = plan.peak_bytes.saturating_add(plan.budget.overhead_bytes);
                Some((if is_shared { bytes } else { 0 }, plan))
            });
            if let Some(plan) = made {
                break plan;
            }
            if events.is_cancelled() {
                return Ok(None);
            }
            if std::mem::take(&mut is_first) {
                let total = planner.facts.total_bytes;
                events.certain(JobUpdate::Waiting(MemoryWait {
                    is_device: false,
                    is_for_jobs: true,
                    others_bytes: total.saturating_sub(planner.facts.host_available_bytes),
                    limit_bytes: total,
                }));
            }
            thread::sleep(RETRY_INTERVAL);
            planner.facts = facts(report, last);
        };
        tracing::info!("plan: {}", plan.verdict.text);
        let generate = request.generate().into_iter();
        let found = generate.flat_map(|request| suggestions(&planner, request, &plan, &[]));
        let advice: Vec<String> = found.map(|it| it.text).collect();
        if request.generate().is_some() && plan.is_hopeless() {
            let err = JobError::new(JobErrorKind::OutOfMemory, plan.verdict.text.clone());
            return Err(err.advise(advice.join(", or ")));
        }
        let settled = self.settled.get_or_init(|| SettledPlan {
            plan,
            device: report.device_name.clone(),
            advice,
            doubt: doubt(report, &SystemRoots::of_this_machine()),
        });
        Ok(Some(&settled.plan))
    }

    pub(super) fn of_stage(&self, stage: Stage) -> PlannedStage {
        let Some(SettledPlan { plan, .. }) = self.settled.get() else {
            return PlannedStage::default();
        };
        PlannedStage {
            memory: plan.stage_memory(stage),
            // An upscaler chooses its own, by what is free then.
            tile: plan
                .of_stage(stage)
                .and_then(|plan| plan.tile.filter(|_| !stage.is_postprocess())),
            chunk: match stage {
                Stage::Decode if self.decodes_in_chunks => largest_chunk(plan, stage),
                _ => DecodeChunk::Auto,
            },
        }
    }

    /// Warnings: tiles of the VAE, which change the result a little, a job that does not fit, and a driver that reports less
    /// memory than there is.
    pub(super) fn warnings(&self) -> Vec<String> {
        let Some(SettledPlan { plan, doubt, .. }) = self.settled.get() else {
            return Vec::new();
        };
        let is_tiled = |it: &StagePlan| it.tile.is_some() && !it.stage.is_postprocess();
        let has_tiles = plan.stages.iter().any(is_tiled);
        let of_plan = if plan.fits() {
            has_tiles.then(|| plan.verdict.text.clone())
        } else {
            Some(format!("{}; trying anyway", plan.verdict.text))
        };
        doubt.clone().into_iter().chain(of_plan).collect()
    }

    /// Changes that would make the job fit, one phrase each; none if the plan says that it does.
    pub(super) fn advice(&self) -> &[String] {
        self.settled
            .get()
            .map_or(&[], |settled| settled.advice.as_slice())
    }

    /// Records the allocator's peak of a stage that ran as planned.
    pub(super) fn measured(&mut self, stage: Stage, peak_bytes: u64) {
        match self.measured.iter_mut().find(|(other, _)| *other == stage) {
            Some((_, peak)) => *peak = (*peak).max(peak_bytes),
            None => self.measured.push((stage, peak_bytes)),
        }
    }

    /// Compares predicted and measured peaks, and stores corrections for the next plan.
    pub(super) fn finish(&mut self, request: &JobRequest) -> Option<PlanOutcome> {
        let SettledPlan { plan, device, .. } = self.settled.get()?;
        // Another worker may have learned something.
        self.corrections = PeakCorrections::load(&self.file);
        let mut stages = Vec::new();
        for &(stage, measured_bytes) in &self.measured {
            let Some(planned) = plan.of_stage(stage).filter(|it| it.part.is_some()) else {
                continue;
            };
            let beside = planned.peak_bytes - planned.activation_bytes.min(planned.peak_bytes);
            let made = measured_bytes as f64 - beside as f64;
            // Next to networks that stay loaded, a stage's own peak is not known.
            if let Some(request) = request.generate().filter(|_| !plan.keeps_loaded) {
                let of = MeasuredPeak {
                    device,
                    class: plan.device.class,
                    family: request.family,
                    stage,
                };
                self.corrections
                    .learn(&of, planned.formula_bytes as f64, made);
            }
            stages.push(StageOutcome {
                stage,
                predicted_bytes: if plan.keeps_loaded {
                    plan.peak_bytes
                } else {
                    planned.peak_bytes
                },
                measured_bytes,
            });
        }
        let outcome = PlanOutcome::from_stages(stages)?;
        tracing::info!("plan: {}", outcome.line());
        write_optional_json(&self.file, &self.corrections, "measured peaks");
        Some(outcome)
    }
}

/// Returns the largest chunk for which a stage of the plan has room; [`DecodeChunk::Auto`] if only one frame fits.
fn largest_chunk(plan: &MemoryPlan, stage: Stage) -> DecodeChunk {
    let Some(planned) = plan.of_stage(stage) else {
        return DecodeChunk::default();
    };
    let kept = if plan.keeps_loaded {
        plan.peak_bytes.saturating_sub(planned.peak_bytes)
    } else {
        0
    };
    let one = planned.required_bytes().saturating_add(kept);
    let free = plan.budget.available_bytes.checked_sub(one);
    free.map_or_else(DecodeChunk::default, |free| {
        most_frames(free, planned.activation_bytes)
    })
}

/// `free`: bytes beyond the need of one latent frame. Each further one needs at most `activation` bytes, like the first.
fn most_frames(free: u64, activation: u64) -> DecodeChunk {
    let fits =
        |chunk: &DecodeChunk| u64::from(chunk.frames() - 1).saturating_mul(activation) <= free;
    let all = [DecodeChunk::Eight, DecodeChunk::Four, DecodeChunk::Two];
    all.into_iter().find(fits).unwrap_or_default()
}

/// Returns the chunk of a stage. `room`: the largest one that fits; `is_automatic`: [`DecodeChunk::Auto`] uses all of it.
pub(super) fn chunk_within(
    room: DecodeChunk,
    setting: DecodeChunk,
    is_automatic: bool,
) -> DecodeChunk {
    match setting {
        DecodeChunk::Auto if is_automatic => room,
        setting => setting.min(room),
    }
}

/// Facts of the engine's device. Its own memory does not count as used by others.
fn facts(report: &EngineReport, last: Option<&MemorySample>) -> DeviceFacts {
    let roots = &SystemRoots::of_this_machine();
    let host = host::memory(&roots.proc);
    let host_available_bytes = host.map_or(u64::MAX, |host| host.available_bytes);
    if report.device == DeviceChoice::Cpu {
        return DeviceFacts {
            class: DeviceClass::Cpu,
            total_bytes: report.total_bytes,
            used_bytes: 0,
            host_available_bytes,
        };
    }
    let first = || report.used_bytes.saturating_sub(FIRST_CONTEXT_BYTES);
    let used = last.map_or_else(first, |sample| {
        let beside = sample.used_bytes.saturating_sub(sample.reserved_bytes);
        beside.saturating_sub(CONTEXT_BYTES)
    });
    let own = DeviceFacts {
        class: report.class.unwrap_or(DeviceClass::Discrete),
        total_bytes: report.total_bytes,
        used_bytes: used,
        host_available_bytes,
    };
    if own.class != DeviceClass::Unified {
        return own;
    }
    let query = query(report, report.total_bytes);
    let held = last.map_or(0, |sample| sample.reserved_bytes);
    of_one_pool(own, device_facts(roots, &query), held)
}

/// Query of the engine's device in the kernel's tables. Only AMD's pools have a part that the host does not see.
fn query(report: &EngineReport, driver_total_bytes: u64) -> DeviceQuery {
    DeviceQuery {
        kind: "rocm",
        device: report.device,
        pci: report.pci.clone(),
        driver_total_bytes,
    }
}

/// Warns of an AMD runtime that reports a small part of a shared pool, such as 15.5 GiB of 128. The job cannot get more.
fn doubt(report: &EngineReport, roots: &SystemRoots) -> Option<String> {
    if report.class != Some(DeviceClass::Unified) {
        return None;
    }
    let seen = device_facts(roots, &query(report, 0)).total_bytes;
    (report.total_bytes < seen / 4 * 3).then(|| {
        let [reported, seen] = [report.total_bytes, seen].map(size_text);
        format!(
            "the GPU's driver gives {reported} of the {seen} that the kernel's tables say it may use: a newer kernel or ROCm may fix that, see the Doctor"
        )
    })
}

/// Facts of one pool: the part that only the GPU sees, and the engine's own memory, are free for the job though the host
/// does not count them as available.
fn of_one_pool(own: DeviceFacts, seen: DeviceFacts, held: u64) -> DeviceFacts {
    let available = own.host_available_bytes.max(seen.host_available_bytes);
    DeviceFacts {
        total_bytes: match seen.total_bytes {
            0 => own.total_bytes,
            total => own.total_bytes.min(total),
        },
        host_available_bytes: available.saturating_add(held).min(own.total_bytes),
        ..own
    }
}

#[cfg(test)]
mod tests {
    use safelight_core::memory::MemoryOptions;

    use super::*;
    use crate::telemetry::fake_tree::{lay_card, lay_meminfo, lay_node};

    fn report(total_bytes: u64) -> EngineReport {
        EngineReport {
            protocol: 1,
            libtorch: String::new(),
            device: DeviceChoice::Cuda(0),
            device_name: "a card".to_owned(),
            pci: String::new(),
            total_bytes,
            used_bytes: 0,
            class: None,
            line: String::new(),
            gpu_problem: None,
            addresses: None,
        }
    }

    #[test]
    fn unified_plan_counts_neither_the_carve_out_nor_engine_memory_as_others() {
        const GIB: u64 = 1 << 30;
        let own = DeviceFacts {
            class: DeviceClass::Unified,
            total_bytes: 96 * GIB,
            used_bytes: 0,
            host_available_bytes: 25 * GIB,
        };
        let seen = DeviceFacts {
            host_available_bytes: (25 + 90) * GIB,
            ..own
        };
        let facts = of_one_pool(own, seen, 2 * GIB);
        assert_eq!(facts.host_available_bytes, 96 * GIB);
        let choice = &MemoryOptions::default();
        assert_eq!(facts.budget(choice).used_by_others_bytes, 0);
        // Without a carve-out what the engine keeps is free for its next job.
        let facts = of_one_pool(own, own, 30 * GIB);
        let others = facts.budget(choice).used_by_others_bytes;
        assert_eq!(others, (96 - 55) * GIB);
    }

    #[test]
    fn a_decoder_takes_as_many_latent_frames_at_a_time_as_there_is_room_for() {
        let found = [0, 99, 100, 299, 300, 700, u64::MAX].map(|free| most_frames(free, 100));
        let frames = found.map(DecodeChunk::frames);
        assert_eq!(frames, [1, 1, 2, 2, 4, 8, 8]);
    }

    #[test]
    fn a_chosen_chunk_is_used_if_it_fits_and_an_automatic_one_is_the_largest_that_fits() {
        use DecodeChunk::{Auto, Eight, Four, One, Two};
        for (setting, room, is_automatic, expected) in [
            (Auto, Four, true, Four),
            (Auto, Four, false, Auto),
            (Auto, Auto, true, Auto),
            (Two, Four, false, Two),
            (Eight, Four, true, Four),
            (One, Four, true, One),
        ] {
            let found = chunk_within(room, setting, is_automatic);
            assert_eq!(found, expected, "{setting:?} in {room:?}");
        }
    }

    #[test]
    fn memory_used_by_the_engine_is_not_counted_as_used_by_others() {
        let report = EngineReport {
            used_bytes: FIRST_CONTEXT_BYTES + (1 << 30),
            ..report(24 << 30)
        };
        assert_eq!(facts(&report, None).used_bytes, 1 << 30);
        let sample = MemorySample {
            used_bytes: CONTEXT_BYTES + (5 << 30),
            reserved_bytes: 3 << 30,
            ..MemorySample::default()
        };
        assert_eq!(facts(&report, Some(&sample)).used_bytes, 2 << 30);
        let cpu = EngineReport {
            device: DeviceChoice::Cpu,
            ..report
        };
        assert_eq!(facts(&cpu, None).class, DeviceClass::Cpu);
    }

    #[test]
    fn driver_reporting_part_of_the_pool_is_used_for_planning_with_a_warning() {
        const GIB: u64 = 1 << 30;
        let root = tempfile::tempdir().unwrap();
        let roots = SystemRoots::under(root.path());
        lay_meminfo(&roots.proc, 124, 100);
        let tables = [("vram_total", GIB / 2), ("gtt_total", 110 * GIB)];
        lay_card(&roots.sysfs, "card0", "0x1002", "0000:c4:00.0", &tables);
        let node = "location_id 50176\ngfx_target_version 110501\n";
        lay_node(&roots.sysfs, 1, node);
        let report = |total_bytes| EngineReport {
            pci: "0000:c4:00.0".to_owned(),
            class: Some(DeviceClass::Unified),
            ..report(total_bytes)
        };
        let little = report(31 * GIB / 2);
        let doubted = "the GPU's driver gives 15.5 GiB of the 110.5 GiB that the kernel's tables say it may use: a newer kernel or ROCm may fix that, see the Doctor";
        assert_eq!(doubt(&little, &roots).as_deref(), Some(doubted));
        // What cannot be had is not planned with.
        let seen = device_facts(&roots, &query(&little, little.total_bytes));
        assert_eq!(seen.total_bytes, little.total_bytes);
        assert_eq!(doubt(&report(108 * GIB), &roots), None);
        let card = EngineReport {
            class: Some(DeviceClass::Discrete),
            ..little
        };
        assert_eq!(doubt(&card, &roots), None);
    }
}
