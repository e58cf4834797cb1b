//! What the memory graph shows of one job: samples on one time axis, and the stages as bands.
//!
//! The axis is the engine's own clock, so a burst of late messages does not bend the graph; a
//! restarted engine begins at zero again and is put behind the old one.

pub mod course;
mod exporting;
pub mod planning;

use safelight_core::job::{Climb, MemorySample, Reclaim, Stage};
use safelight_core::memory::{DeviceClass, Plan, PlanOutcome};

use course::Course;

/// More than this and every second sample goes.
const MAX_SAMPLES: usize = 1200;

/// One stage's place on the time axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    pub stage: Stage,
    /// Which time of it, counted from 0.
    pub section: u32,
    pub from_secs: f64,
    /// Open while the stage runs.
    pub to_secs: Option<f64>,
}

/// Memory given back, and when.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub at_secs: f64,
    pub reclaim: Reclaim,
}

/// The samples, bands and marks of one job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryHistory {
    samples: Vec<MemorySample>,
    bands: Vec<Band>,
    marks: Vec<Mark>,
    /// The engine's clock at the first sample, less what earlier engines lived.
    origin_secs: f64,
    last_engine_secs: f64,
    /// What the plan said that the allocator would count at most.
    predicted_bytes: Option<u64>,
    /// The same by stage.
    predicted: Vec<(Stage, u64)>,
    /// The budget that it was planned in: what jobs go up to.
    cap_bytes: Option<u64>,
    /// The CPU and the GPU share one pool.
    is_unified: bool,
    course: Option<Course>,
    /// What was tried where memory ran out.
    climbs: Vec<Climb>,
    /// What was predicted and what was measured, of a job that has ended.
    outcome: Option<PlanOutcome>,
}

impl MemoryHistory {
    /// The samples, with times since the job's first.
    pub fn samples(&self) -> &[MemorySample] {
        &self.samples
    }

    pub fn bands(&self) -> &[Band] {
        &self.bands
    }

    pub fn marks(&self) -> &[Mark] {
        &self.marks
    }

    pub fn last(&self) -> Option<&MemorySample> {
        self.samples.last()
    }

    /// What the plan said of the highest peak.
    pub fn predicted_bytes(&self) -> Option<u64> {
        self.predicted_bytes
    }

    /// What the plan said of a stage.
    pub fn predicted_of(&self, stage: Stage) -> Option<u64> {
        let mut all = self.predicted.iter();
        all.find(|(of, _)| *of == stage).map(|(_, bytes)| *bytes)
    }

    /// What jobs go up to on the device, as it was planned.
    pub fn cap_bytes(&self) -> Option<u64> {
        self.cap_bytes
    }

    /// Whether what the system keeps of files lies in the same memory as the job.
    pub fn is_unified(&self) -> bool {
        self.is_unified
    }

    /// What is expected of the stages to come.
    pub fn course(&self) -> Option<&Course> {
        self.course.as_ref()
    }

    pub fn climbs(&self) -> &[Climb] {
        &self.climbs
    }

    pub fn outcome(&self) -> Option<&PlanOutcome> {
        self.outcome.as_ref()
    }

    pub fn predict(&mut self, plan: &Plan) {
        self.predicted_bytes = Some(plan.peak_bytes);
        self.cap_bytes = Some(plan.budget.cap_bytes);
        self.is_unified = plan.device.class == DeviceClass::Unified;
        let stages = plan.stages.iter();
        self.predicted = stages
            .map(|stage| (stage.stage, stage.peak_bytes))
            .collect();
    }

    pub fn expect(&mut self, course: Course) {
        self.course = Some(course);
    }

    /// The job has ended so.
    pub fn conclude(&mut self, outcome: Option<PlanOutcome>, climbs: Vec<Climb>) {
        self.end();
        self.outcome = outcome;
        self.climbs = climbs;
    }

    /// The most that was used.
    pub fn peak_bytes(&self) -> u64 {
        let used = self.samples.iter().map(|sample| sample.used_bytes);
        used.max().unwrap_or(0)
    }

    /// What was measured nearest to a moment.
    pub fn nearest(&self, at_secs: f64) -> Option<&MemorySample> {
        let behind = self
            .samples
            .partition_point(|sample| sample.at_secs < at_secs);
        let around = [behind.checked_sub(1), Some(behind)];
        let known = around
            .into_iter()
            .flatten()
            .filter_map(|index| self.samples.get(index));
        known.min_by(|a, b| {
            let far = |sample: &MemorySample| (sample.at_secs - at_secs).abs();
            far(a).total_cmp(&far(b))
        })
    }

    /// The stage that ran at a moment.
    pub fn stage_at(&self, at_secs: f64) -> Option<&Band> {
        let end = self.end_secs();
        self.bands
            .iter()
            .rev()
            .find(|band| (band.from_secs..=band.to_secs.unwrap_or(end)).contains(&at_secs))
    }

    /// When each rung of the memory's ladder was taken: where its stage began once more, else where it ended.
    pub fn climb_marks(&self) -> Vec<(f64, Climb)> {
        let mut marks: Vec<(f64, Climb)> = Vec::new();
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

    /// The end of the time axis.
    pub fn end_secs(&self) -> f64 {
        self.last().map_or(0.0, |sample| sample.at_secs)
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
        self.bands.push(Band {
            stage,
            section,
            from_secs: self.end_secs(),
            to_secs: None,
        });
    }

    pub fn reclaimed(&mut self, reclaim: Reclaim) {
        let at_secs = self.end_secs();
        self.marks.push(Mark { at_secs, reclaim });
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
    fn a_restarted_engine_goes_on_behind_the_old_one() {
        let mut history = MemoryHistory::default();
        for secs in [100.0, 101.0, 102.0, 0.5, 1.5] {
            history.push(at(secs));
        }
        let times: Vec<f64> = history
            .samples()
            .iter()
            .map(|sample| sample.at_secs)
            .collect();
        assert_eq!(times, [0.0, 1.0, 2.0, 2.0, 3.0]);
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
        assert_eq!(
            history.bands(),
            [
                Band {
                    stage: Stage::EncodeText,
                    section: 0,
                    from_secs: 0.0,
                    to_secs: Some(2.0)
                },
                Band {
                    stage: Stage::Denoise,
                    section: 0,
                    from_secs: 2.0,
                    to_secs: Some(5.0)
                },
            ]
        );
    }

    #[test]
    fn what_was_used_at_a_moment_is_the_nearest_sample() {
        let mut history = MemoryHistory::default();
        assert!(history.nearest(1.0).is_none());
        history.begin(Stage::Decode, 0);
        for secs in [10.0, 12.0, 20.0] {
            history.push(at(secs));
        }
        let nearest = |secs| history.nearest(secs).map(|sample| sample.at_secs);
        assert_eq!(nearest(-5.0), Some(0.0));
        assert_eq!(nearest(2.9), Some(2.0));
        assert_eq!(nearest(8.0), Some(10.0));
        assert_eq!(nearest(99.0), Some(10.0));
        assert_eq!(
            history.stage_at(5.0).map(|band| band.stage),
            Some(Stage::Decode)
        );
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
        let climb = |rung, helped| Climb {
            stage: Stage::Decode,
            section: 0,
            rung,
            helped,
        };
        let climbs = vec![
            climb(safelight_core::memory::Rung::Tiles512, false),
            climb(safelight_core::memory::Rung::Tiles256, true),
        ];
        history.conclude(None, climbs);
        let times: Vec<f64> = history.climb_marks().iter().map(|(at, _)| *at).collect();
        assert_eq!(times, [6.0, 9.0]);
    }

    #[test]
    fn a_long_job_keeps_a_bounded_history_of_its_whole_length() {
        let mut history = MemoryHistory::default();
        for index in 0..10_000 {
            history.push(at(f64::from(index)));
        }
        assert!(history.samples().len() <= MAX_SAMPLES);
        assert_eq!(history.samples()[0].at_secs, 0.0);
        assert!(history.end_secs() > 9_000.0);
    }
}
