//! Remaining time of a job: from its own steps, and from the times of the later stages in earlier jobs.
//!
//! The times of each kind of job are kept in a small file, and how long a megapixel took, for sizes and batches that
//! were not made yet; losing it costs nothing but a first guess.

use std::collections::BTreeMap;
use std::path::PathBuf;

use safelight_core::files::{read_json_or_default, write_optional_json};
use safelight_core::job::{GenerateRequest, Recipe, Stage};
use safelight_core::job_update::StageTime;

/// Seconds of each stage, by kind of job; seconds a megapixel, by what decides the pace.
#[derive(Clone, Debug, Default)]
pub struct TimeEstimates {
    file: Option<PathBuf>,
    known: BTreeMap<String, BTreeMap<String, f64>>,
}

impl TimeEstimates {
    pub fn load(file: Option<PathBuf>) -> Self {
        let known = file.as_deref().map(read_json_or_default);
        let known = known.unwrap_or_default();
        Self { file, known }
    }

    /// Remembers what a finished job took.
    pub(super) fn learn(&mut self, request: &GenerateRequest, device: &str, times: &[StageTime]) {
        if let Some(file) = &self.file {
            // Another worker may have learned something.
            let written: BTreeMap<_, _> = read_json_or_default(file);
            self.known.extend(written);
        }
        for time in times {
            let stage = time.stage.name();
            let pace = time.secs / work(request, time.stage);
            let seen = [
                (kind_of_job(request, device), time.secs),
                (pace_of_job(request, device), pace),
            ];
            for (kind, secs) in seen {
                let entry = self.known.entry(kind).or_default();
                entry.insert(stage.to_owned(), secs);
            }
        }
        if let Some(file) = &self.file {
            write_optional_json(file, &self.known, "the times of jobs");
        }
    }

    /// Seconds that a stage of such a job took on a device, as far as that is known.
    pub fn secs_of(&self, request: &GenerateRequest, device: &str, stage: Stage) -> Option<f64> {
        let exact = self.known.get(&kind_of_job(request, device));
        let exact = exact.and_then(|known| known.get(stage.name()).copied());
        let pace = self.known.get(&pace_of_job(request, device));
        exact.or_else(|| Some(pace?.get(stage.name())? * work(request, stage)))
    }

    /// Seconds until the job's end, seen from a step of `stage`.
    pub(super) fn secs_left(
        &self,
        request: &GenerateRequest,
        device: &str,
        recipe: &Recipe,
        (stage, section): (Stage, u32),
        progress: StepProgress,
    ) -> f64 {
        let seen = |stage: Stage| self.secs_of(request, device, stage);
        let learned = || seen(stage).map(|secs| (secs - progress.now.secs).max(0.0));
        // The learned time knows more than a single step, which had the reading of weights before it.
        let (of_stage, counts_steps) = match (progress.by_steps(), learned()) {
            (Some(secs), _) => (secs, true),
            (None, Some(secs)) => (secs, false),
            (None, None) => (progress.by_one_step(), true),
        };
        // One count runs over the steps of both experts.
        let is_counted =
            |later| counts_steps && stage == Stage::DenoiseHigh && later == Stage::DenoiseLow;
        let position = recipe.position(stage, section).unwrap_or(0);
        // The next sections take as long as this one.
        let like_this = |later| (later == stage).then_some(progress.now.secs + of_stage);
        let later: f64 = recipe
            .stages
            .iter()
            .skip(position + 1)
            .filter(|&&later| !is_counted(later))
            .filter_map(|&later| seen(later).or_else(|| like_this(later)))
            .sum();
        of_stage + later
    }
}

/// A step that was made, and the seconds since its stage began.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepTime {
    pub(super) step: u32,
    pub(super) secs: f64,
}

/// Progress of a stage. The count may continue from the other expert's steps, or from those before an engine was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepProgress {
    /// First step that the stage reported.
    pub(super) first: StepTime,
    pub(super) now: StepTime,
    pub(super) total: u32,
}

impl StepProgress {
    fn num_left(self) -> f64 {
        f64::from(self.total.saturating_sub(self.now.step))
    }

    /// From the time between the stage's own steps; `None` before the second.
    fn by_steps(self) -> Option<f64> {
        let num_made = self.now.step.saturating_sub(self.first.step);
        if self.num_left() == 0.0 {
            return Some(0.0);
        }
        let secs = self.now.secs - self.first.secs;
        (num_made > 0).then(|| secs / f64::from(num_made) * self.num_left())
    }

    /// Of a stage of which nothing is known but its own steps.
    pub(super) fn secs_left(self) -> f64 {
        self.by_steps().unwrap_or_else(|| self.by_one_step())
    }

    /// As if everything so far had been one step.
    fn by_one_step(self) -> f64 {
        self.now.secs * self.num_left()
    }
}

/// Jobs with one key take about the same time.
fn kind_of_job(request: &GenerateRequest, device: &str) -> String {
    let (width, height) = (request.width, request.height);
    let (frames, batch, steps) = (request.num_frames, request.batch_size, num_steps(request));
    let pace = pace_of_job(request, device);
    format!("{width}x{height}x{frames}x{batch} {steps} steps {pace}")
}

/// Jobs with one key take about the same time a megapixel.
fn pace_of_job(request: &GenerateRequest, device: &str) -> String {
    let (model, sampler) = (&request.model, request.sampling.sampler.name());
    let tiled = request.options.vae_tile.map_or("", |_| " tiled");
    let guided = if request.is_guided() { " guided" } else { "" };
    let guider = request.sampling.guider;
    let skips = if guider.needs_negative() {
        ""
    } else {
        " skipping layers"
    };
    format!("{model} {sampler}{tiled}{guided}{skips} on {device}")
}

/// Work that a stage's time is proportional to: megapixels of all frames, and of each step while denoising.
fn work(request: &GenerateRequest, stage: Stage) -> f64 {
    let pixels = f64::from(request.width) * f64::from(request.height);
    // A section takes as long in a short video as in a long one.
    let num_frames = match &request.sections {
        Some(sections) => f64::from(sections.frames_a_section()),
        None => request.num_decoded() as f64,
    };
    let megapixels = pixels / 1e6 * num_frames;
    match stage {
        Stage::EncodeText | Stage::EncodeVision | Stage::Unload => 1.0,
        // One image, however many come of it.
        Stage::EncodeImage => pixels / 1e6,
        Stage::Denoise | Stage::DenoiseHigh | Stage::DenoiseLow => {
            megapixels * f64::from(num_steps(request).max(1))
        }
        Stage::Decode | Stage::Upscale | Stage::Interpolate | Stage::Depth | Stage::Save => {
            megapixels
        }
    }
}

fn num_steps(request: &GenerateRequest) -> u32 {
    let skipped = request.sampling.strength.map_or(0, |strength| {
        request
            .family
            .first_step(request.sampling.num_steps, strength)
    });
    let end = request
        .sampling
        .end_step
        .unwrap_or(request.sampling.num_steps);
    end.saturating_sub(request.sampling.start_step.max(skipped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing;

    fn request() -> GenerateRequest {
        let mut request = testing::request();
        request.files.transformer_2 = Some("low".into());
        (request.width, request.height, request.num_frames) = (32, 32, 5);
        (request.sampling.num_steps, request.sampling.guidance_scale) = (40, 1.0);
        request
    }

    fn time(stage: Stage, secs: f64) -> StageTime {
        StageTime {
            stage,
            section: 0,
            secs,
        }
    }

    fn left(estimates: &TimeEstimates, stage: Stage, first: (u32, f64), now: (u32, f64)) -> f64 {
        let request = request();
        let recipe = Recipe::from_request(&request);
        assert!(recipe.stages.contains(&Stage::DenoiseHigh));
        let mark = |(step, secs)| StepTime { step, secs };
        let (first, now) = (mark(first), mark(now));
        let progress = StepProgress {
            first,
            now,
            total: 40,
        };
        estimates.secs_left(&request, "gpu", &recipe, (stage, 0), progress)
    }

    #[test]
    fn steps_of_an_earlier_stage_and_the_reading_of_weights_do_not_count_as_this_stages_pace() {
        let nothing = TimeEstimates::default();
        // 30 s of reading and the first step, then 2 s each.
        let secs = left(&nothing, Stage::DenoiseLow, (21, 30.0), (25, 38.0));
        assert_eq!(secs, 2.0 * 15.0);
        let found = left(&nothing, Stage::DenoiseLow, (40, 30.0), (40, 30.0));
        assert_eq!(found, 0.0);
        let found = left(&nothing, Stage::DenoiseLow, (39, 3.0), (39, 3.0));
        assert_eq!(found, 3.0, "a first guess");
    }

    #[test]
    fn the_high_experts_steps_stand_for_the_low_experts_too_unless_its_time_is_a_learned_one() {
        let mut learned = TimeEstimates::default();
        let denoised = [
            time(Stage::DenoiseHigh, 50.0),
            time(Stage::DenoiseLow, 60.0),
        ];
        let times = [&denoised[..], &[time(Stage::Decode, 7.0)]].concat();
        learned.learn(&request(), "gpu", &times);
        let by_steps = left(&learned, Stage::DenoiseHigh, (1, 10.0), (5, 18.0));
        assert_eq!(by_steps, 2.0 * 35.0 + 7.0);
        let first = left(&learned, Stage::DenoiseHigh, (1, 10.0), (1, 10.0));
        assert_eq!(first, 40.0 + 60.0 + 7.0);
    }

    #[test]
    fn a_size_or_batch_that_was_not_made_yet_is_guessed_by_its_megapixels() {
        let mut learned = TimeEstimates::default();
        let times = [time(Stage::EncodeText, 3.0), time(Stage::Decode, 7.0)];
        learned.learn(&request(), "gpu", &times);
        let larger = GenerateRequest {
            width: 64,
            batch_size: 3,
            ..request()
        };
        let stage = Stage::DenoiseLow;
        let (step, secs, total) = (40, 1.0, 40);
        let first = StepTime { step, secs };
        let now = first;
        let progress = StepProgress { first, now, total };
        let recipe = Recipe::from_request(&larger);
        let left = |device: &str| learned.secs_left(&larger, device, &recipe, (stage, 0), progress);
        assert!((left("gpu") - 6.0 * 7.0).abs() < 1e-9, "{}", left("gpu"));
        assert_eq!(left("another"), 0.0);
    }
}
