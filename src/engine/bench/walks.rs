//! A transformer of random numbers along a whole walk from noise: without a step cache, and with each. What a cache saves,
//! and how far it leads away.
//!
//! The walk is Euler's along a schedule with a shift; texts are random. Random weights say how much time a skipped step
//! saves, and little about how alike the steps of a trained model are.

use std::time::Instant;

use safelight_core::job::{BlockSet, StepCache as Choice};
use serde::Serialize;
use tch::{Kind, Tensor};

use crate::bench::cases::Bench;
use crate::bench::measure::{Measured as Timed, rounded};
use crate::error::EngineError;
use crate::runtime::synchronize;
use crate::step_cache::{Caches, Measured, Shortcut, StepCache};

/// The schedule's, as most families have it.
const SHIFT: f64 = 3.0;

/// What is walked.
#[derive(Clone, Debug)]
pub struct Walks {
    pub steps: usize,
    pub caches: Vec<Choice>,
}

impl Walks {
    /// From noise alone on, and 0 at the end.
    fn sigmas(&self) -> Vec<f64> {
        let parts = (0..=self.steps).map(|step| 1.0 - step as f64 / self.steps as f64);
        parts
            .map(|part| SHIFT * part / (1.0 + (SHIFT - 1.0) * part))
            .collect()
    }

    /// As schedulers have them: 1000 for noise alone.
    pub(super) fn timesteps(&self) -> Vec<f32> {
        let sigmas = self.sigmas();
        let noisy = sigmas[..self.steps].iter();
        noisy.map(|sigma| (sigma * 1000.0) as f32).collect()
    }
}

/// A transformer as the steps of a job ask it.
pub(crate) struct Walked<'a> {
    /// What it is asked with: latents, and behind them, along the second axis, what stays.
    pub input: Tensor,
    /// What was measured of it for step caches, for so many calls.
    pub measured: &'a dyn Fn(usize) -> Measured,
    /// Input and call -> the velocity, as large as the latents; `None` when cancelled
    pub answer: &'a dyn Fn(&Tensor, usize, Shortcut<'_>) -> Option<Tensor>,
}

/// One walk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WalkLine {
    /// `none` for the walk that the others are compared with.
    pub cache: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<f64>,
    pub steps: usize,
    pub computed: usize,
    pub secs: f64,
    /// Of the latents that it ended at to those of the first walk, in the L2 norm.
    pub relative_l2: f64,
    /// Of the decoded frames to those of the first walk, in dB, where they were decoded and differ.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub psnr_db: Option<f64>,
    /// Why there is no such walk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl WalkLine {
    pub fn new(cache: Option<Choice>, steps: usize) -> Self {
        Self {
            cache: cache.map_or("none", |cache| cache.kind.name()).to_owned(),
            threshold: cache.map(|cache| cache.threshold),
            steps,
            computed: steps,
            secs: 0.0,
            relative_l2: 0.0,
            psnr_db: None,
            error: None,
        }
    }

    /// Of a cache that needs what was not measured.
    pub fn unmeasured(cache: Choice, steps: usize) -> Self {
        Self {
            computed: 0,
            error: Some("nobody has measured this model for it".to_owned()),
            ..Self::new(Some(cache), steps)
        }
    }
}

impl Bench {
    /// What a transformer is told in each of its calls: those of the walk, or of `steps` of a job.
    pub(crate) fn timesteps(&self, steps: usize) -> Vec<f32> {
        match &self.walks {
            Some(walks) => walks.timesteps(),
            None => vec![500.0; steps],
        }
    }

    /// Times one call of a transformer, or walks with it where that is asked for.
    pub(crate) fn steps(&self, walked: &Walked<'_>) -> Result<Timed, EngineError> {
        let Some(walks) = &self.walks else {
            return self
                .timed_answer(&mut || (walked.answer)(&walked.input, 0, Shortcut::default()));
        };
        // The first walk would pay for what libraries load.
        let warm_up = (walked.answer)(&walked.input, 0, Shortcut::default());
        drop(warm_up.ok_or(EngineError::Cancelled)?);
        let mut first = None;
        for cache in [None]
            .into_iter()
            .chain(walks.caches.iter().copied().map(Some))
        {
            let (mut line, end) = match (self.walk(walks, walked, cache)?, cache) {
                (Some(walked), _) => walked,
                (None, Some(cache)) => {
                    let line = WalkLine::unmeasured(cache, walks.steps);
                    self.walked.borrow_mut().push(line);
                    continue;
                }
                (None, None) => return Err(EngineError::Cancelled),
            };
            let whole = first.get_or_insert_with(|| end.shallow_clone());
            line.relative_l2 = ((&end - &*whole).norm() / whole.norm()).double_value(&[]);
            self.walked.borrow_mut().push(line);
        }
        self.timed(&mut || Some(()))
    }

    /// One walk and where it ended; `None` where the cache needs what was not measured.
    fn walk(
        &self,
        walks: &Walks,
        walked: &Walked<'_>,
        cache: Option<Choice>,
    ) -> Result<Option<(WalkLine, Tensor)>, EngineError> {
        let steps = walks.steps;
        let caches = Caches::new(|| StepCache::new(cache?, steps, (walked.measured)(steps)));
        if cache.is_some() && caches.num_skipped().is_none() {
            return Ok(None);
        }
        let device = self.weights.device();
        let mut input = walked.input.to_kind(Kind::Float).copy();
        let sigmas = walks.sigmas();
        if !synchronize(device) {
            return Err(EngineError::internal("the device failed at it"));
        }
        let began = Instant::now();
        let mut count = input.size()[1];
        for (call, pair) in sigmas.windows(2).enumerate() {
            let make = |shortcut: Shortcut<'_>| (walked.answer)(&input, call, shortcut);
            let velocity = caches.answer(call, BlockSet::default(), make);
            let velocity = velocity.ok_or(EngineError::Cancelled)?;
            count = velocity.size()[1];
            let moved = velocity.to_device(device) * (pair[1] - pair[0]);
            input = {
                let next = input.copy();
                drop(next.narrow(1, 0, count).g_add_(&moved));
                next
            };
        }
        if !synchronize(device) {
            return Err(EngineError::internal("the device failed at it"));
        }
        let secs = began.elapsed().as_secs_f64();
        let line = WalkLine {
            computed: steps - caches.num_skipped().unwrap_or_default(),
            secs: rounded(secs),
            ..WalkLine::new(cache, steps)
        };
        Ok(Some((line, input.narrow(1, 0, count))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_from_noise_alone_to_none() {
        let walks = Walks {
            steps: 4,
            caches: Vec::new(),
        };
        let sigmas = walks.sigmas();
        assert_eq!((sigmas[0], sigmas[4]), (1.0, 0.0));
        assert!((sigmas[2] - 0.75).abs() < 1e-12);
        assert_eq!(walks.timesteps(), [1000.0, 900.0, 750.0, 500.0]);
    }
}
