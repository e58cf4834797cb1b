//! The course that a job's memory is expected to take: stage by stage, how high and how long.
//!
//! Heights are the plan's. Times are those of earlier jobs of this kind on this device; where there was none, stages have
//! widths by what they usually take, and no seconds are told.

use safelight_core::job::{GenerateRequest, Recipe, Stage};
use safelight_core::memory::Plan;

use crate::app::memory::Band;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CourseStage {
    pub stage: Stage,
    /// Which time of it, counted from 0.
    pub section: u32,
    pub secs: f64,
    /// What tensors are expected to take at most.
    pub peak_bytes: u64,
}

/// A whole job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    pub stages: Vec<CourseStage>,
    /// The seconds are known from earlier jobs; else they are shares.
    pub is_timed: bool,
    /// What reading weights anew in each step adds at most.
    pub streaming_secs: f64,
}

/// A stage on the time axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    pub stage: Stage,
    pub from_secs: f64,
    pub to_secs: f64,
    pub peak_bytes: u64,
}

impl Course {
    /// `secs_of` tells what a stage of such a job took here, as far as that is known.
    pub fn of(
        plan: &Plan,
        request: &GenerateRequest,
        secs_of: impl Fn(Stage) -> Option<f64>,
    ) -> Self {
        let recipe = Recipe::of(request);
        let is_timed = recipe
            .stages
            .iter()
            .all(|stage| !is_long(*stage) || secs_of(*stage).is_some());
        let stages = recipe.stages.iter().enumerate().map(|(position, stage)| {
            let known = if is_timed {
                Some(secs_of(*stage).unwrap_or(0.0))
            } else {
                None
            };
            CourseStage {
                stage: *stage,
                section: recipe.section(position),
                secs: known.unwrap_or_else(|| usual_share(*stage)).max(0.0),
                peak_bytes: plan.of_stage(*stage).map_or(0, |plan| plan.peak_bytes),
            }
        });
        Self {
            stages: stages.collect(),
            is_timed,
            streaming_secs: streaming_secs(plan, request, &recipe),
        }
    }

    /// All of it, in seconds where they are known.
    pub fn total_secs(&self) -> f64 {
        self.stages.iter().map(|stage| stage.secs).sum()
    }

    /// On a time axis that begins with the job.
    pub fn spans(&self) -> Vec<Span> {
        laid_out(self.stages.iter(), 0.0)
    }

    /// What is still to come of a running job, behind the bands that it has had; nothing where no seconds are known.
    pub fn rest(&self, bands: &[Band], now_secs: f64) -> Vec<Span> {
        let Some(current) = bands.last().filter(|_| self.is_timed) else {
            return Vec::new();
        };
        let is_current =
            |stage: &&CourseStage| (stage.stage, stage.section) == (current.stage, current.section);
        let Some(position) = self.stages.iter().position(|stage| is_current(&stage)) else {
            return Vec::new();
        };
        let spent = now_secs - current.from_secs;
        let is_over = current.to_secs.is_some();
        let rest = self.stages.iter().skip(position).enumerate();
        let rest: Vec<CourseStage> = rest
            .map(|(index, stage)| CourseStage {
                secs: match index {
                    0 if is_over => 0.0,
                    0 => (stage.secs - spent).max(0.0),
                    _ => stage.secs,
                },
                ..*stage
            })
            .collect();
        laid_out(rest.iter(), now_secs)
    }
}

fn laid_out<'a>(stages: impl Iterator<Item = &'a CourseStage>, from_secs: f64) -> Vec<Span> {
    let mut at = from_secs;
    let mut spans = Vec::new();
    for stage in stages {
        let from_secs = at;
        at += stage.secs;
        if at > from_secs {
            spans.push(Span {
                stage: stage.stage,
                from_secs,
                to_secs: at,
                peak_bytes: stage.peak_bytes,
            });
        }
    }
    spans
}

/// Without whose time nothing is known of the whole.
fn is_long(stage: Stage) -> bool {
    stage.is_denoising() || stage == Stage::Decode
}

fn streaming_secs(plan: &Plan, request: &GenerateRequest, recipe: &Recipe) -> f64 {
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

/// Parts of a job whose pace nobody knows.
pub(in crate::app) fn usual_share(stage: Stage) -> f64 {
    match stage {
        Stage::EncodeText | Stage::EncodeImage | Stage::EncodeVision => 5.0,
        Stage::Denoise => 70.0,
        Stage::DenoiseHigh | Stage::DenoiseLow => 35.0,
        Stage::Unload => 1.0,
        Stage::Decode => 20.0,
        Stage::Upscale | Stage::Interpolate => 90.0,
        Stage::Save => 3.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(secs: &[(Stage, u32, f64)], is_timed: bool) -> Course {
        let stages = secs.iter().map(|(stage, section, secs)| CourseStage {
            stage: *stage,
            section: *section,
            secs: *secs,
            peak_bytes: 7,
        });
        Course {
            stages: stages.collect(),
            is_timed,
            streaming_secs: 0.0,
        }
    }

    fn in_sections(is_timed: bool) -> Course {
        course(
            &[
                (Stage::EncodeText, 0, 2.0),
                (Stage::Denoise, 0, 10.0),
                (Stage::Decode, 0, 4.0),
                (Stage::Denoise, 1, 10.0),
                (Stage::Decode, 1, 4.0),
            ],
            is_timed,
        )
    }

    #[test]
    fn stages_follow_each_other_from_the_beginning() {
        let spans = in_sections(true).spans();
        let times: Vec<(f64, f64)> = spans
            .iter()
            .map(|span| (span.from_secs, span.to_secs))
            .collect();
        assert_eq!(times[0], (0.0, 2.0));
        assert_eq!(times[4], (26.0, 30.0));
    }

    #[test]
    fn what_is_to_come_begins_where_the_job_is() {
        let band = |stage, section, from_secs, to_secs| Band {
            stage,
            section,
            from_secs,
            to_secs,
        };
        // The first section was slower than expected.
        let bands = [
            band(Stage::EncodeText, 0, 0.0, Some(3.0)),
            band(Stage::Denoise, 0, 3.0, None),
        ];
        let rest = in_sections(true).rest(&bands, 9.0);
        assert_eq!((rest[0].from_secs, rest[0].to_secs), (9.0, 13.0));
        assert_eq!(rest.last().map(|span| span.to_secs), Some(31.0));
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
        let band = Band {
            stage: Stage::EncodeText,
            section: 0,
            from_secs: 0.0,
            to_secs: None,
        };
        assert!(in_sections(false).rest(&[band], 1.0).is_empty());
        assert!(in_sections(true).rest(&[], 1.0).is_empty());
    }
}
