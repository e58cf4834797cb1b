//! Data of the memory graph: samples on one time axis, stages as bands, events; and what is expected of a job before it runs.
//!
//! Times come from the engine, so that late messages do not distort the graph. A restarted engine begins at zero; its times follow the earlier ones.

pub mod panel;
pub mod planning;

use safelight_core::job::{GenerateRequest, Recipe, Stage};
use safelight_core::job_update::{FallbackAttempt, MemoryReclaim, MemorySample, StageTime};
use safelight_core::memory::DeviceClass;
use safelight_core::plan::{MemoryPlan, PlanOutcome};

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
        let far = |sample: &MemorySample| (sample.at_secs - at_secs).abs();
        let samples = self.samples.iter();
        samples.min_by(|a, b| far(a).total_cmp(&far(b)))
    }

    pub fn stage_at(&self, at_secs: f64) -> Option<&StageBand> {
        let end = self.end_secs();
        let mut bands = self.bands.iter().rev();
        bands.find(|band| (band.from_secs..=band.to_secs.unwrap_or(end)).contains(&at_secs))
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

    pub fn end(&mut self) {
        let now = self.end_secs();
        if let Some(band) = self.bands.last_mut()
            && band.to_secs.is_none()
        {
            band.to_secs = Some(now);
        }
    }
}

/// Expected memory of a job over time, stage by stage. Peaks come from the plan, times from earlier jobs of this kind on
/// this device; without any, stages have their usual shares instead of seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExpectedTimeline {
    pub stages: Vec<StageTime>,
    /// Seconds are known from earlier jobs; otherwise they are shares.
    pub is_timed: bool,
    pub streaming_secs: f64,
}

impl ExpectedTimeline {
    /// `secs_of`: seconds of a stage in earlier jobs, if known.
    pub fn of(
        plan: &MemoryPlan,
        request: &GenerateRequest,
        secs_of: impl Fn(Stage) -> Option<f64>,
    ) -> Self {
        let recipe = Recipe::from_request(request);
        let is_known = |stage: &Stage| !is_long(*stage) || secs_of(*stage).is_some();
        let is_timed = recipe.stages.iter().all(is_known);
        let stages = recipe.stages.iter().enumerate().map(|(position, &stage)| {
            let secs = if is_timed {
                secs_of(stage).unwrap_or(0.0)
            } else {
                usual_share(stage)
            };
            StageTime {
                stage,
                section: recipe.section(position),
                secs: secs.max(0.0),
            }
        });
        Self {
            stages: stages.collect(),
            is_timed,
            streaming_secs: streaming_secs(plan, request, &recipe),
        }
    }

    /// Seconds of the job; a sum of shares unless `is_timed`.
    pub fn total_secs(&self) -> f64 {
        self.stages.iter().map(|stage| stage.secs).sum()
    }

    /// Stages on a time axis that begins with the job.
    pub fn bands(&self) -> Vec<StageBand> {
        laid_out(self.stages.iter().copied(), 0.0)
    }

    /// Remaining stages of a running job after `bands`; empty without known times.
    pub fn rest(&self, bands: &[StageBand], now_secs: f64) -> Vec<StageBand> {
        let Some(current) = bands.last().filter(|_| self.is_timed) else {
            return Vec::new();
        };
        let is_current =
            |time: &&StageTime| (time.stage, time.section) == (current.stage, current.section);
        let stages = self.stages.iter();
        let mut rest = stages.skip_while(|time| !is_current(time)).copied();
        let now = rest.next().map(|time| StageTime {
            secs: match current.to_secs {
                Some(_) => 0.0,
                None => (time.secs - (now_secs - current.from_secs)).max(0.0),
            },
            ..time
        });
        laid_out(now.into_iter().chain(rest), now_secs)
    }
}

/// Stages one after the other, without those that take no time.
fn laid_out(times: impl Iterator<Item = StageTime>, from_secs: f64) -> Vec<StageBand> {
    let mut at = from_secs;
    let bands = times.filter(|time| time.secs > 0.0).map(|time| {
        let from_secs = at;
        at += time.secs;
        StageBand {
            stage: time.stage,
            section: time.section,
            from_secs,
            to_secs: Some(at),
        }
    });
    bands.collect()
}

/// True for stages whose times are needed to estimate the whole job.
fn is_long(stage: Stage) -> bool {
    stage.is_denoising() || stage == Stage::Decode
}

fn streaming_secs(plan: &MemoryPlan, request: &GenerateRequest, recipe: &Recipe) -> f64 {
    let end = request
        .sampling
        .end_step
        .unwrap_or(request.sampling.num_steps);
    let num_steps = f64::from(end.saturating_sub(request.sampling.start_step));
    let denoising = recipe.stages.iter().filter(|stage| stage.is_denoising());
    let per_step: f64 = denoising
        .filter_map(|stage| plan.of_stage(*stage))
        .map(|stage| stage.copy_secs_per_step)
        .sum();
    // Both experts share the steps.
    let has_two = recipe.stages.contains(&Stage::DenoiseLow);
    per_step * num_steps / if has_two { 2.0 } else { 1.0 }
}

/// Usual share of a stage without known times.
pub(crate) fn usual_share(stage: Stage) -> f64 {
    match stage {
        Stage::EncodeText | Stage::EncodeImage | Stage::EncodeVision => 5.0,
        Stage::Denoise => 70.0,
        Stage::DenoiseHigh | Stage::DenoiseLow => 35.0,
        Stage::Unload => 1.0,
        Stage::Decode => 20.0,
        Stage::Upscale | Stage::Interpolate | Stage::Depth => 90.0,
        Stage::Save => 3.0,
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

    fn course(secs: &[(Stage, u32, f64)], is_timed: bool) -> ExpectedTimeline {
        let stages = secs.iter().map(|(stage, section, secs)| StageTime {
            stage: *stage,
            section: *section,
            secs: *secs,
        });
        ExpectedTimeline {
            stages: stages.collect(),
            is_timed,
            streaming_secs: 0.0,
        }
    }

    fn band(stage: Stage, section: u32, from_secs: f64, to_secs: Option<f64>) -> StageBand {
        StageBand {
            stage,
            section,
            from_secs,
            to_secs,
        }
    }

    fn in_sections(is_timed: bool) -> ExpectedTimeline {
        let (denoise, decode) = (Stage::Denoise, Stage::Decode);
        let first = [
            (Stage::EncodeText, 0, 2.0),
            (denoise, 0, 10.0),
            (decode, 0, 4.0),
        ];
        let second = [(denoise, 1, 10.0), (decode, 1, 4.0)];
        course(&[&first[..], &second].concat(), is_timed)
    }

    #[test]
    fn stages_follow_each_other_from_the_beginning() {
        let spans = in_sections(true).bands();
        let times = |index: usize| (spans[index].from_secs, spans[index].to_secs);
        assert_eq!((times(0), times(4)), ((0.0, Some(2.0)), (26.0, Some(30.0))));
    }

    #[test]
    fn expected_timeline_starts_at_the_current_time_of_the_job() {
        // The first section was slower than expected.
        let bands = [
            band(Stage::EncodeText, 0, 0.0, Some(3.0)),
            band(Stage::Denoise, 0, 3.0, None),
        ];
        let rest = in_sections(true).rest(&bands, 9.0);
        assert_eq!((rest[0].from_secs, rest[0].to_secs), (9.0, Some(13.0)));
        assert_eq!(rest.last().and_then(|band| band.to_secs), Some(31.0));
        let later = [band(Stage::Denoise, 1, 20.0, Some(50.0))];
        let rest = in_sections(true).rest(&later, 50.0);
        assert_eq!(rest.len(), 1, "the stage that is over is not to come");
        // It takes longer than it ever did: the next stage still comes.
        let slow = [band(Stage::Denoise, 1, 20.0, None)];
        assert_eq!(in_sections(true).rest(&slow, 90.0)[0].stage, Stage::Decode);
    }

    #[test]
    fn without_known_times_nothing_is_promised() {
        assert!(in_sections(false).rest(&[], 1.0).is_empty());
        let band = band(Stage::EncodeText, 0, 0.0, None);
        assert!(in_sections(false).rest(&[band], 1.0).is_empty());
        assert!(in_sections(true).rest(&[], 1.0).is_empty());
    }
}
