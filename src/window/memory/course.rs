//! Expected memory of a job over time, stage by stage.
//!
//! Peaks come from the plan, times from earlier jobs of this kind on this device; without any, stages have their usual
//! shares instead of seconds.

use safelight_core::job::{GenerateRequest, Recipe, Stage};
use safelight_core::job_update::StageTime;
use safelight_core::plan::MemoryPlan;

use crate::window::memory::StageBand;

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
        let mut rest = self
            .stages
            .iter()
            .skip_while(|time| !is_current(time))
            .copied();
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
    let experts = if recipe.stages.contains(&Stage::DenoiseLow) {
        2.0
    } else {
        1.0
    };
    per_step * num_steps / experts
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
