//! Data of the memory graph: samples on one time axis, stages as bands, and events.
//!
//! Times come from the engine, so that late messages do not distort the graph. A restarted engine begins at zero; its times follow the earlier ones.

pub mod course;
pub mod panel;
pub mod planning;

use safelight_core::job::Stage;
use safelight_core::job_update::{FallbackAttempt, MemoryReclaim, MemorySample};
use safelight_core::memory::DeviceClass;
use safelight_core::plan::{MemoryPlan, PlanOutcome};

use course::ExpectedTimeline;

/// Number of samples above which every second one is dropped.
const MAX_SAMPLES: usize = 1200;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StageBand {
    pub stage: Stage,
    /// Occurrence in the recipe, counted from 0.
    pub section: u32,
    pub from_secs: f64,
    /// `None` while the stage runs.
    pub to_secs: Option<f64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryHistory {
    /// Samples, with times since the job's first.
    pub samples: Vec<MemorySample>,
    pub bands: Vec<StageBand>,
    /// Seconds at which memory was freed.
    pub marks: Vec<(f64, MemoryReclaim)>,
    /// The engine's clock at the first sample, less the lifetimes of earlier engines.
    origin_secs: f64,
    last_engine_secs: f64,
    pub plan: Option<Box<MemoryPlan>>,
    pub course: Option<ExpectedTimeline>,
    /// Out-of-memory fallbacks.
    pub climbs: Vec<FallbackAttempt>,
    /// Predicted and measured peaks of a job that has ended.
    pub outcome: Option<PlanOutcome>,
}

impl MemoryHistory {
    pub fn last(&self) -> Option<&MemorySample> {
        self.samples.last()
    }

    pub fn predicted_of(&self, stage: Stage) -> Option<u64> {
        let plan = self.plan.as_ref()?.of_stage(stage)?;
        Some(plan.peak_bytes)
    }

    /// The system's page cache is in the same memory as the job.
    pub fn is_unified(&self) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.device.class == DeviceClass::Unified)
    }

    /// The rest of the device's memory; where it is main memory, what other programs leave of it.
    pub fn free_bytes(&self, sample: &MemorySample) -> u64 {
        let rest = sample.total_bytes.saturating_sub(sample.used_bytes);
        let plan = self.plan.as_ref();
        let is_main = plan.is_some_and(|plan| plan.device.class != DeviceClass::Discrete);
        let available = sample.machine.host_available_bytes.filter(|_| is_main);
        available.map_or(rest, |available| available.min(rest))
    }

    /// Expected memory of a planned job: stages without samples.
    pub fn expected(plan: &MemoryPlan, course: &ExpectedTimeline) -> Self {
        Self {
            bands: course.bands(),
            plan: Some(Box::new(plan.clone())),
            course: Some(course.clone()),
            ..Self::default()
        }
    }

    pub fn conclude(&mut self, outcome: Option<PlanOutcome>, climbs: Vec<FallbackAttempt>) {
        self.end();
        self.outcome = outcome;
        self.climbs = climbs;
    }

    pub fn peak_bytes(&self) -> u64 {
        let used = self.samples.iter().map(|sample| sample.used_bytes);
        used.max().unwrap_or(0)
    }

    pub fn nearest(&self, at_secs: f64) -> Option<&MemorySample> {
        let behind = self
            .samples
            .partition_point(|sample| sample.at_secs < at_secs);
        let known = [behind.checked_sub(1), Some(behind)]
            .into_iter()
            .flatten()
            .filter_map(|index| self.samples.get(index));
        known.min_by(|a, b| {
            let far = |sample: &MemorySample| (sample.at_secs - at_secs).abs();
            far(a).total_cmp(&far(b))
        })
    }

    pub fn stage_at(&self, at_secs: f64) -> Option<&StageBand> {
        let end = self.end_secs();
        self.bands
            .iter()
            .rev()
            .find(|band| (band.from_secs..=band.to_secs.unwrap_or(end)).contains(&at_secs))
    }

    /// Times of out-of-memory fallbacks: where the stage began again, otherwise where it ended.
    pub fn climb_marks(&self) -> Vec<(f64, FallbackAttempt)> {
        let mut marks: Vec<(f64, FallbackAttempt)> = Vec::new();
        for climb in self.climbs.iter().copied() {
            let earlier = marks.iter();
            let before = earlier
                .filter(|(_, other)| (other.stage, other.section) == (climb.stage, climb.section));
            let turn = before.count() + 1;
            let of_stage = self
                .bands
                .iter()
                .filter(|band| (band.stage, band.section) == (climb.stage, climb.section));
            let at = of_stage.clone().nth(turn).map(|band| band.from_secs);
            let end = of_stage.clone().next_back().and_then(|band| band.to_secs);
            marks.push((at.or(end).unwrap_or_else(|| self.end_secs()), climb));
        }
        marks
    }

    pub fn end_secs(&self) -> f64 {
        let last = self.last().map(|sample| sample.at_secs);
        let last = last.or_else(|| self.bands.last()?.to_secs);
        last.unwrap_or(0.0)
    }

    pub fn push(&mut self, sample: MemorySample) {
        if !sample.at_secs.is_finite() {
            return;
        }
        if self.samples.is_empty() {
            self.origin_secs = sample.at_secs;
        } else if sample.at_secs < self.last_engine_secs {
            self.origin_secs = sample.at_secs - self.end_secs();
        }
        self.last_engine_secs = sample.at_secs;
        let at_secs = sample.at_secs - self.origin_secs;
        self.samples.push(MemorySample { at_secs, ..sample });
        if self.samples.len() > MAX_SAMPLES {
            let mut index = 0;
            self.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
        }
    }

    pub fn begin(&mut self, stage: Stage, section: u32) {
        self.end();
        self.bands.push(StageBand {
            stage,
            section,
            from_secs: self.end_secs(),
            to_secs: None,
        });
    }

    pub fn reclaimed(&mut self, reclaim: MemoryReclaim) {
        let at_secs = self.end_secs();
        self.marks.push((at_secs, reclaim));
    }

    pub fn end(&mut self) {
        let now = self.end_secs();
        if let Some(band) = self.bands.last_mut()
            && band.to_secs.is_none()
        {
            band.to_secs = Some(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(at_secs: f64) -> MemorySample {
        MemorySample {
            at_secs,
            ..Default::default()
        }
    }

    #[test]
    fn samples_of_a_restarted_engine_continue_after_those_of_the_old_one() {
        let mut history = MemoryHistory::default();
        for secs in [100.0, 101.0, 102.0, 0.5, 1.5] {
            history.push(at(secs));
        }
        let times = history.samples.iter().map(|sample| sample.at_secs);
        assert_eq!(times.collect::<Vec<_>>(), [0.0, 1.0, 2.0, 2.0, 3.0]);
    }

    #[test]
    fn stages_are_bands_that_follow_each_other() {
        let mut history = MemoryHistory::default();
        history.begin(Stage::EncodeText, 0);
        history.push(at(10.0));
        history.push(at(12.0));
        history.begin(Stage::Denoise, 0);
        history.push(at(15.0));
        history.end();
        history.end();
        let bands = history.bands.iter();
        let bands = bands.map(|it| (it.stage, it.section, it.from_secs, it.to_secs));
        let first = (Stage::EncodeText, 0, 0.0, Some(2.0));
        let second = (Stage::Denoise, 0, 2.0, Some(5.0));
        assert_eq!(bands.collect::<Vec<_>>(), [first, second]);
    }

    #[test]
    fn nearest_sample_and_stage_are_found_for_a_time() {
        let mut history = MemoryHistory::default();
        assert!(history.nearest(1.0).is_none());
        history.begin(Stage::Decode, 0);
        for secs in [10.0, 12.0, 20.0] {
            history.push(at(secs));
        }
        let nearest = |secs| history.nearest(secs).unwrap().at_secs;
        assert_eq!([-5.0, 2.9, 8.0, 99.0].map(nearest), [0.0, 2.0, 10.0, 10.0]);
        let expected = Some(Stage::Decode);
        assert_eq!(history.stage_at(5.0).map(|band| band.stage), expected);
        assert!(history.stage_at(11.0).is_none());
    }

    #[test]
    fn a_rung_is_marked_where_its_stage_began_once_more() {
        let mut history = MemoryHistory::default();
        history.push(at(0.0));
        for begin in [3.0, 6.0] {
            history.push(at(begin));
            history.begin(Stage::Decode, 0);
        }
        history.push(at(9.0));
        use safelight_core::memory::FallbackLevel::{Tiles256, Tiles512};
        let climbs = [(Tiles512, false), (Tiles256, true)].map(|(rung, helped)| FallbackAttempt {
            stage: Stage::Decode,
            section: 0,
            rung,
            helped,
        });
        history.conclude(None, climbs.into());
        let times: Vec<f64> = history.climb_marks().iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [6.0, 9.0]);
    }

    #[test]
    fn a_long_job_keeps_a_bounded_history_of_its_whole_length() {
        let mut history = MemoryHistory::default();
        for index in 0..10_000 {
            history.push(at(f64::from(index)));
        }
        assert!(history.samples.len() <= MAX_SAMPLES);
        assert_eq!(history.samples[0].at_secs, 0.0);
        assert!(history.end_secs() > 9_000.0);
    }
}
