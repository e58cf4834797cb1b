//! How long a job will still take: from its own steps, and from how long the later stages took last time.
//!
//! The times of each kind of job are kept in a small file; losing it costs nothing but a first guess.

use std::collections::BTreeMap;
use std::path::PathBuf;

use safelight_core::files::write_atomically;
use safelight_core::job::{GenerateRequest, Recipe, Stage, StageTime};

/// Seconds of each stage, by kind of job.
#[derive(Debug, Default)]
pub(super) struct Estimates {
    file: Option<PathBuf>,
    known: BTreeMap<String, BTreeMap<String, f64>>,
}

impl Estimates {
    pub(super) fn load(file: Option<PathBuf>) -> Self {
        let known = file
            .as_ref()
            .and_then(|path| std::fs::read(path).ok())
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default();
        Self { file, known }
    }

    /// Remembers what a finished job took.
    pub(super) fn learn(&mut self, request: &GenerateRequest, device: &str, times: &[StageTime]) {
        let kind = kind_of_job(request, device);
        let entry = self.known.entry(kind).or_default();
        for time in times {
            entry.insert(time.stage.name().to_owned(), time.secs);
        }
        if let (Some(file), Ok(json)) = (&self.file, serde_json::to_vec_pretty(&self.known)) {
            // Only a guess is lost when it cannot be written.
            write_atomically(file, &json).ok();
        }
    }

    /// Seconds until the job's end, when `done` of `total` steps of `stage` took `elapsed_secs`.
    pub(super) fn secs_left(
        &self,
        request: &GenerateRequest,
        device: &str,
        recipe: &Recipe,
        stage: Stage,
        progress: Progress,
    ) -> f64 {
        let known = self.known.get(&kind_of_job(request, device));
        let seen = |stage: Stage| known.and_then(|known| known.get(stage.name()).copied());
        let of_stage = progress
            .secs_left()
            .or_else(|| seen(stage).map(|secs| (secs - progress.elapsed_secs).max(0.0)));
        let position = recipe
            .stages
            .iter()
            .position(|&other| other == stage)
            .unwrap_or(0);
        let later: f64 = recipe
            .stages
            .iter()
            .skip(position + 1)
            .filter_map(|&later| seen(later))
            .sum();
        of_stage.unwrap_or(0.0) + later
    }
}

/// How far a stage is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Progress {
    pub(super) done: u32,
    pub(super) total: u32,
    pub(super) elapsed_secs: f64,
}

impl Progress {
    fn secs_left(self) -> Option<f64> {
        (self.done > 0 && self.total > 0).then(|| {
            let left = self.total.saturating_sub(self.done);
            self.elapsed_secs / f64::from(self.done) * f64::from(left)
        })
    }
}

/// Jobs with one key take about the same time.
fn kind_of_job(request: &GenerateRequest, device: &str) -> String {
    format!(
        "{} {}x{}x{} {} {} steps{}{} on {device}",
        request.model,
        request.width,
        request.height,
        request.num_frames,
        request.sampler.name(),
        request
            .end_step
            .unwrap_or(request.num_steps)
            .saturating_sub(request.start_step),
        if request.vae_tile.is_some() {
            " tiled"
        } else {
            ""
        },
        if request.is_guided() { " guided" } else { "" }
    )
}
