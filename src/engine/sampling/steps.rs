//! Samplers whose next latents are a weighted sum of those before, predictions and noise: all but UniPC.
//!
//! Formulas: ComfyUI's on flow models, and for Euler, Heun, LCM and one DPM-Solver++ those of their schedulers in diffusers.

use safelight_core::job::SamplerKind;
use tch::Tensor;

use super::noise::NoiseStream;
use super::schedule::shifted;
use super::{CallIndex, NoiseSpace, SamplerStep, StepOutput};

/// Weights of the terms whose sum is the next latents.
#[derive(Default)]
struct StepWeights {
    latents: f64,
    /// Weight of this call's prediction, which is x0 or the velocity.
    prediction: f64,
    /// Weights of the stored predictions, in their order.
    past: [f64; 3],
    noise: f64,
}

pub(super) struct WeightedSampler {
    kind: SamplerKind,
    /// Earlier predictions, newest first. Of a sampler with two calls a step, after the first of them only: its
    /// prediction, its latents and, where it drew some, its noise.
    past: Vec<Tensor>,
    noise: NoiseStream,
}

impl WeightedSampler {
    /// `seed`: the one that the initial latents were drawn with. As in ComfyUI on a CPU, other samplers than LCM draw
    /// from the next seed's stream; LCM continues the one of the initial latents, as in diffusers.
    pub(super) fn new(kind: SamplerKind, seed: u64) -> Self {
        let noise = match kind {
            SamplerKind::Lcm => NoiseStream::new(seed, 1),
            _ => NoiseStream::new(seed.wrapping_add(1), 0),
        };
        Self {
            kind,
            past: Vec::new(),
            noise,
        }
    }

    /// Number of tensors to remember before `at`.
    fn remembered(&self, at: &CallIndex<'_>) -> usize {
        use SamplerKind as K;
        let is_between = at.call % 2 == 1 && at.call < at.schedule.timesteps.count();
        let most = match self.kind {
            K::Heun | K::Res2s if is_between => return 2,
            K::DpmPpSde if is_between => return 3,
            K::DpmPp2m
            | K::DpmPp2mDiffusers
            | K::DpmPp2mSde
            | K::ResMultistep
            | K::GradientEstimation => 1,
            K::ErSde => 2,
            _ => 0,
        };
        at.done.min(most)
    }

    /// Weights of a call that does not end at a sigma of 0.
    fn weights(&self, at: &CallIndex<'_>) -> StepWeights {
        use SamplerKind as K;
        let sigma = |call: usize| f64::from(at.schedule.sigmas[call]);
        let (s, t) = (sigma(at.call), sigma(at.call + 1));
        let space = at.schedule.space;
        let image = |sigma| space.image_weight(sigma);
        // In a second call, the sigma of the first one.
        let is_second = self.kind.has_two_calls() && at.call % 2 == 1;
        let first = if is_second { sigma(at.call - 1) } else { s };
        let half_log_snr = |sigma: f64| -space.ratio(sigma).ln();
        let h = |time: &dyn Fn(f64) -> f64| time(t) - time(s);
        // Ratio of this step's length to the previous one's; `None` in the first step.
        let growth = |time: &dyn Fn(f64) -> f64| {
            let has_past = !self.past.is_empty();
            has_past.then(|| h(time) / (time(s) - time(sigma(at.call - 1))))
        };
        match self.kind {
            K::Heun if is_second => StepWeights {
                prediction: 0.5 * (s - first),
                past: [0.5 * (s - first), 1.0, 0.0],
                ..StepWeights::default()
            },
            K::Euler | K::Heun | K::UniPc | K::UniPcBh1 => multistep(1.0, t - s, None),
            K::GradientEstimation => {
                multistep(1.0, t - s, Some(1.0).filter(|_| !self.past.is_empty()))
            }
            K::Lcm => StepWeights {
                noise: t,
                ..multistep(0.0, image(t), None)
            },
            K::EulerAncestral if space == NoiseSpace::Flow => {
                let down = t * t / s;
                let scale = (1.0 - t) / (1.0 - down);
                StepWeights {
                    noise: (t * t - (scale * down).powi(2)).sqrt(),
                    ..multistep(scale * down / s, scale * (1.0 - down / s), None)
                }
            }
            K::DpmPp2m => multistep(t / s, 1.0 - t / s, growth(&log_time).map(|it| 0.5 * it)),
            K::DpmPp2mDiffusers => {
                let x0 = image(t) * -(-h(&half_log_snr)).exp_m1();
                multistep(t / s, x0, growth(&half_log_snr).map(|it| 0.5 * it))
            }
            K::DpmPp2mSde => {
                let h = h(&half_log_snr);
                let fresh = -(-2.0 * h).exp_m1();
                let change = growth(&half_log_snr).map(|it| 0.5 * it);
                StepWeights {
                    noise: t * fresh.sqrt(),
                    ..multistep(t / s * (-h).exp(), image(t) * fresh, change)
                }
            }
            K::ResMultistep => {
                let change = phi_2(-h(&log_time)) / phi_1(-h(&log_time));
                multistep(t / s, 1.0 - t / s, growth(&log_time).map(|it| change * it))
            }
            K::Res2s if is_second => {
                let h = log_time(t) - log_time(first);
                let second = 2.0 * h * phi_2(-h);
                StepWeights {
                    prediction: second,
                    past: [1.0 - t / first - second, t / first, 0.0],
                    ..StepWeights::default()
                }
            }
            K::Res2s => multistep(t / s, 1.0 - t / s, None),
            K::DpmPpSde if is_second => {
                let whole = ancestral(space, first, t);
                // Both draws belong to one Brownian motion along sigma.
                let shared = (first - s) / (first - t);
                StepWeights {
                    latents: 0.0,
                    past: [0.0, whole.latents, whole.noise * shared.sqrt()],
                    noise: whole.noise * (1.0 - shared).sqrt(),
                    ..whole
                }
            }
            K::DpmPpSde | K::EulerAncestral => ancestral(space, s, t),
            K::ErSde => {
                let past = (1..=self.past.len()).map(|back| space.ratio(sigma(at.call - back)));
                er_sde(space, s, t, &past.collect::<Vec<_>>())
            }
        }
    }
}

impl SamplerStep for WeightedSampler {
    fn calls_per_step(&self) -> usize {
        1 + usize::from(self.kind.has_two_calls())
    }

    fn step(&mut self, at: &CallIndex<'_>, velocity: &Tensor, latents: &Tensor) -> StepOutput {
        let (curr, next) = at.sigmas();
        let x0 = latents - velocity * f64::from(curr);
        let prediction = match self.kind {
            SamplerKind::Euler | SamplerKind::GradientEstimation => velocity.shallow_clone(),
            // By way of x0: that rounds as the reference does.
            SamplerKind::Heun => (latents - &x0) / f64::from(curr),
            _ => x0.shallow_clone(),
        };
        let weights = if next == 0.0 {
            StepWeights::default()
        } else {
            self.weights(at)
        };
        let noise = (weights.noise != 0.0).then(|| {
            let noise = self.noise.draw(at.done, &latents.size());
            noise.to_device(latents.device()).to_kind(latents.kind())
        });
        let parts = [
            (Some(latents), weights.latents),
            (Some(&prediction), weights.prediction),
            (noise.as_ref(), weights.noise),
        ];
        let past = self.past.iter().map(Some).zip(weights.past);
        let parts = parts.into_iter().chain(past);
        let parts = parts.filter(|(_, weight)| *weight != 0.0);
        let sum = parts
            .filter_map(|(part, weight)| Some(part? * weight))
            .reduce(|sum, part| sum + part);

        let older = std::mem::take(&mut self.past);
        let of_step = [Some(latents), noise.as_ref()].into_iter().flatten();
        let of_step = of_step.filter(|_| self.kind.has_two_calls());
        let newest = std::iter::once(&prediction).chain(of_step);
        let newest = newest.map(Tensor::shallow_clone);
        let after = CallIndex {
            schedule: at.schedule,
            call: at.call + 1,
            done: at.done + 1,
        };
        self.past = newest.chain(older).take(self.remembered(&after)).collect();
        StepOutput {
            latents: sum.unwrap_or_else(|| x0.shallow_clone()),
            x0,
        }
    }

    fn history(&self) -> Vec<Tensor> {
        self.past.iter().map(Tensor::shallow_clone).collect()
    }

    fn restore(&mut self, at: &CallIndex<'_>, history: Vec<Tensor>) -> bool {
        let is_sound = history.len() == self.remembered(at);
        self.past = history;
        is_sound
    }

    fn set_draws_before(&mut self, draws: usize) {
        if self.kind == SamplerKind::Lcm {
            self.noise.draws_before = draws;
        }
    }
}

/// `change`: share of the difference to the last prediction that is added to this one.
fn multistep(latents: f64, prediction: f64, change: Option<f64>) -> StepWeights {
    let change = change.unwrap_or(0.0);
    StepWeights {
        latents,
        prediction: prediction * (1.0 + change),
        past: [-prediction * change, 0.0, 0.0],
        noise: 0.0,
    }
}

/// Ancestral step from sigma `s` to `t`, in the ratio of noise to image.
fn ancestral(space: NoiseSpace, s: f64, t: f64) -> StepWeights {
    let [from, to] = [s, t].map(|sigma| space.image_weight(sigma));
    let down = space.ratio(t).powi(2) / space.ratio(s);
    let kept = down / space.ratio(s);
    StepWeights {
        noise: to * (space.ratio(t).powi(2) - down * down).sqrt(),
        ..multistep(to / from * kept, to * (1.0 - kept), None)
    }
}

/// ER-SDE-Solver, <https://arxiv.org/abs/2309.06169>, with the noise scaler of its authors. `past`: ratios of noise to
/// image of the remembered predictions.
fn er_sde(space: NoiseSpace, s: f64, t: f64, past: &[f64]) -> StepWeights {
    const NUM_POINTS: u32 = 200;
    let scaler = |u: f64| u * (u.powf(0.3).exp() + 10.0);
    let (from, to) = (space.ratio(s), space.ratio(t));
    let [before, image] = [s, t].map(|sigma| space.image_weight(sigma));
    let kept = scaler(to) / scaler(from);
    let mut weights = StepWeights {
        noise: image * (to * to - (from * kept).powi(2)).max(0.0).sqrt(),
        ..multistep(image / before * kept, image * (1.0 - kept), None)
    };
    let Some(&last) = past.first() else {
        return weights;
    };
    let (width, change) = ((from - to) / f64::from(NUM_POINTS), to - from);
    let points = (0..NUM_POINTS).map(|i| to + f64::from(i) * width);
    let sums = points.fold((0.0, 0.0), |(first, second), u| {
        (
            first + width / scaler(u),
            second + width * (u - from) / scaler(u),
        )
    });
    let mut slope = image * (change + sums.0 * scaler(to)) / (from - last);
    if let Some(&older) = past.get(1) {
        let curve = image * (0.5 * change * change + sums.1 * scaler(to));
        let curve = 2.0 * curve / (from - older);
        slope += curve / (from - last);
        weights.past[0] -= curve / (last - older);
        weights.past[1] = curve / (last - older);
    }
    weights.prediction += slope;
    weights.past[0] -= slope;
    weights
}

fn phi_1(z: f64) -> f64 {
    z.exp_m1() / z
}

fn phi_2(z: f64) -> f64 {
    (phi_1(z) - 1.0) / z
}

fn log_time(sigma: f64) -> f64 {
    -sigma.ln()
}

/// Sigmas of the calls of `sampler` along those of the steps, without the final 0. As in ComfyUI, samplers that need the
/// ratio of image to noise begin at the sigma of 1e-4 of the way instead of at 1.
pub(super) fn call_sigmas(
    sampler: SamplerKind,
    mut sigmas: Vec<f64>,
    space: NoiseSpace,
    shift: f64,
) -> Vec<f32> {
    use SamplerKind as K;
    if space == NoiseSpace::Flow
        && let Some(first) = sigmas.first_mut()
        && matches!(sampler, K::DpmPp2mSde | K::DpmPpSde | K::ErSde)
        && *first >= 1.0
    {
        *first = shifted(1.0 - 1e-4, shift);
    }
    let middle = |s: f64, t: f64| match sampler {
        K::Res2s => (s * t).sqrt(),
        K::DpmPpSde => {
            let ratio = (space.ratio(s) * space.ratio(t)).sqrt();
            match space {
                NoiseSpace::Flow => ratio / (1.0 + ratio),
                NoiseSpace::Exploding(_) => ratio,
            }
        }
        _ => t,
    };
    let mut calls = Vec::with_capacity(2 * sigmas.len());
    for (i, &sigma) in sigmas.iter().enumerate() {
        calls.push(sigma as f32);
        if let Some(&next) = sigmas.get(i + 1)
            && sampler.has_two_calls()
        {
            calls.push(middle(sigma, next) as f32);
        }
    }
    calls
}
