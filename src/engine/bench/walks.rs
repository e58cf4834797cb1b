//! Denoising loops of a transformer with random weights: without a step cache, and with each. Time saved by a cache, and
//! distance of its result.
//!
//! Euler's steps on a schedule with a shift. Random weights show how much time a skipped step saves, and little about
//! how similar the steps of a trained model are.

use std::time::Instant;

use safelight_core::job::{BlockSet, StepCache as Choice};
use serde_json::{Value, json};
use tch::{Kind, Tensor};

use super::timing::{finished, rounded};
use crate::error::EngineError;
use crate::step_cache::{CacheCalibration, ContextCache, ContextCaches, SkipOptions};

/// Shift of the schedule.
const SHIFT: f64 = 3.0;
/// Caches compared by default.
const USUAL: [&str; 6] = [
    "first_block:0.08",
    "first_block:0.2",
    "teacache:0.15",
    "magcache:0.1",
    "taylorseer:2",
    "taylorseer:3",
];

#[derive(Clone, Debug)]
pub(super) struct CacheWalks {
    steps: usize,
    caches: Vec<Choice>,
}

/// One call of a transformer as a job makes it.
pub(crate) struct StepCall<'a> {
    /// Latents, followed along the second axis by constant conditions.
    pub input: Tensor,
    /// Figures for step caches, for a number of calls.
    pub measured: &'a dyn Fn(usize) -> CacheCalibration,
    /// Input and index of the call -> the network's output; `None` when cancelled
    pub output: &'a dyn Fn(&Tensor, usize, SkipOptions<'_>) -> Option<Tensor>,
    /// An output -> the velocity, as large as the latents
    pub velocity: &'a dyn Fn(&Tensor) -> Tensor,
}

impl CacheWalks {
    /// `caches`: the usual ones where it is empty.
    pub(super) fn new(steps: usize, caches: &[Choice]) -> Self {
        let usual = || USUAL.iter().filter_map(|name| name.parse().ok()).collect();
        let caches = if caches.is_empty() {
            usual()
        } else {
            caches.to_vec()
        };
        Self { steps, caches }
    }

    /// From 1 to 0.
    fn sigmas(&self) -> Vec<f64> {
        let parts = (0..=self.steps).map(|step| 1.0 - step as f64 / self.steps as f64);
        parts
            .map(|part| SHIFT * part / (1.0 + (SHIFT - 1.0) * part))
            .collect()
    }

    /// From 1000 for pure noise.
    pub(super) fn timesteps(&self) -> Vec<f32> {
        let sigmas = self.sigmas();
        let noisy = sigmas[..self.steps].iter();
        noisy.map(|sigma| (sigma * 1000.0) as f32).collect()
    }

    /// One output line for each loop; the first has no cache, and the others are compared with it.
    pub(super) fn lines(&self, call: &StepCall<'_>) -> Result<Vec<Value>, EngineError> {
        // Libraries load in the first call.
        let warm_up = (call.output)(&call.input, 0, SkipOptions::default());
        drop(warm_up.ok_or(EngineError::Cancelled)?);
        let (mut line, exact) = self.walk(call, &ContextCaches::new(|| None))?;
        line["cache"] = "none".into();
        let mut lines = vec![line];
        for choice in &self.caches {
            let measured = || (call.measured)(self.steps);
            let caches = ContextCaches::new(|| ContextCache::new(*choice, self.steps, measured()));
            let mut line = if caches.num_skipped().is_some() {
                let (line, latents) = self.walk(call, &caches)?;
                let distance = ((latents - &exact).norm() / exact.norm()).double_value(&[]);
                super::merged(line, json!({"relative_l2": distance}))
            } else {
                let error = "this model has no figures for this cache";
                json!({"steps": self.steps, "computed": 0, "relative_l2": 0.0, "error": error})
            };
            line["cache"] = choice.kind.name().into();
            line["threshold"] = choice.threshold.into();
            lines.push(line);
        }
        Ok(lines)
    }

    /// One loop and its latents.
    fn walk(
        &self,
        call: &StepCall<'_>,
        caches: &ContextCaches,
    ) -> Result<(Value, Tensor), EngineError> {
        let device = call.input.device();
        let mut input = call.input.to_kind(Kind::Float);
        let sigmas = self.sigmas();
        finished(device)?;
        let began = Instant::now();
        let mut count = input.size()[1];
        for (index, pair) in sigmas.windows(2).enumerate() {
            let output = caches.answer(index, BlockSet::default(), |shortcut| {
                (call.output)(&input, index, shortcut)
            });
            let velocity = (call.velocity)(&output.ok_or(EngineError::Cancelled)?);
            count = velocity.size()[1];
            let change = velocity.to_device(device) * (pair[1] - pair[0]);
            // A copy: caches may hold the tensor.
            input = input.copy();
            drop(input.narrow(1, 0, count).g_add_(&change));
        }
        finished(device)?;
        let line = json!({
            "steps": self.steps, "computed": self.steps - caches.num_skipped().unwrap_or_default(),
            "secs": rounded(began.elapsed().as_secs_f64()), "relative_l2": 0.0,
        });
        Ok((line, input.narrow(1, 0, count)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_goes_from_pure_noise_to_none() {
        let walks = CacheWalks::new(4, &[]);
        let sigmas = walks.sigmas();
        assert_eq!((sigmas[0], sigmas[4]), (1.0, 0.0));
        assert!((sigmas[2] - 0.75).abs() < 1e-12);
        assert_eq!(walks.timesteps(), [1000.0, 900.0, 750.0, 500.0]);
        assert_eq!(walks.caches.len(), USUAL.len());
    }
}
