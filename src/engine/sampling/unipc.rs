//! UniPC, the predictor-corrector of <https://arxiv.org/abs/2302.04867>, on flow sigmas and predicted x0.
//!
//! In the arithmetic of diffusers' `UniPCMultistepScheduler`, coefficients in f32, and finite where that is not: the
//! step to a sigma of 0 is first order, whose remaining term vanishes. Knows no other prediction than velocity.

use safelight_core::job::SamplerKind;
use tch::Tensor;

use super::schedule::lambda;
use super::{CallIndex, NoiseSchedule, SamplerStep, ScheduleEnd, StepOutput};

#[derive(Clone, Debug)]
pub struct UniPcOptions {
    /// 1 to 3.
    pub order: usize,
    /// `B(h) = h` instead of `exp(h) - 1`.
    pub is_bh1: bool,
    /// Steps in the logarithm of sigma alone, as FramePack has it, and not of the ratio of image to noise.
    pub is_of_sigma: bool,
    /// Fall back to lower orders at the end.
    pub lower_order_final: bool,
    pub end: ScheduleEnd,
    /// Steps after which the corrector is not used.
    pub disable_corrector: Vec<usize>,
}

impl Default for UniPcOptions {
    fn default() -> Self {
        Self {
            order: 2,
            is_bh1: false,
            is_of_sigma: false,
            lower_order_final: true,
            end: ScheduleEnd::Zero,
            disable_corrector: Vec::new(),
        }
    }
}

impl UniPcOptions {
    /// The form of it that `sampler` asks for.
    pub fn for_sampler(self, sampler: SamplerKind) -> Self {
        Self {
            is_bh1: self.is_bh1 || sampler == SamplerKind::UniPcBh1,
            ..self
        }
    }
}

/// Along a schedule whose sigmas are below 1, such as [`NoiseSchedule::unipc`] gives.
pub(super) struct UniPc {
    options: UniPcOptions,
    /// The predictions of x0 so far, newest last, no more than the order.
    predictions: Vec<Tensor>,
    last_latents: Option<Tensor>,
}

impl UniPc {
    pub(super) fn new(options: UniPcOptions) -> Self {
        Self {
            options,
            predictions: Vec::new(),
            last_latents: None,
        }
    }

    /// The order that a call's step had or will have, with the predictions up to its own: fewer near the end.
    fn order_of(&self, schedule: &NoiseSchedule, call: usize) -> usize {
        let left = schedule.timesteps.count() - call;
        let order = self.options.order.min(self.predictions.len());
        if schedule.sigmas[call + 1] == 0.0 {
            1
        } else if self.options.lower_order_final {
            order.min(left)
        } else {
            order
        }
    }

    /// UniC: the latents of a call again, now that the model has seen them.
    fn correct(&self, at: &CallIndex<'_>, last_latents: &Tensor, x0: &Tensor) -> Tensor {
        let order = self.order_of(at.schedule, at.call - 1);
        let c = self.coefficients(at.schedule, [at.call - 1, at.call], order);
        let newest = self.newest_prediction();
        let weights = if order == 1 {
            vec![0.5]
        } else {
            solve(&c.ratios, &c.b, order)
        };
        let mut sum = (x0 - newest) * f64::from(weights[order - 1]);
        for (difference, weight) in self.differences(&c, order).iter().zip(&weights) {
            sum = difference * f64::from(*weight) + sum;
        }
        c.base(last_latents, newest) - sum * f64::from(c.alpha * c.b_h)
    }

    fn predict(&self, at: &CallIndex<'_>, latents: &Tensor) -> Tensor {
        let order = self.order_of(at.schedule, at.call);
        let c = self.coefficients(at.schedule, [at.call, at.call + 1], order);
        let newest = self.newest_prediction();
        let weights = match order {
            1 => Vec::new(),
            2 => vec![0.5],
            _ => solve(&c.ratios, &c.b, order - 1),
        };
        let mut next = c.base(latents, newest);
        for (difference, weight) in self.differences(&c, order).iter().zip(&weights) {
            next -= difference * f64::from(*weight) * f64::from(c.alpha * c.b_h);
        }
        next
    }

    fn newest_prediction(&self) -> &Tensor {
        let newest = self.predictions.last();
        newest.expect("a step predicts x0 before anything reads it")
    }

    /// The older predictions against the newest, divided by how far back they are.
    fn differences(&self, c: &UniPcCoefficients, order: usize) -> Vec<Tensor> {
        let newest = self.newest_prediction();
        let older = self.predictions.iter().rev().skip(1);
        older
            .zip(&c.ratios[..order - 1])
            .map(|(prediction, ratio)| (prediction - newest) / f64::from(*ratio))
            .collect()
    }

    /// From the sigma of call `from` to that of call `to`, with the history before `from`.
    fn coefficients(
        &self,
        NoiseSchedule { sigmas, .. }: &NoiseSchedule,
        [from, to]: [usize; 2],
        order: usize,
    ) -> UniPcCoefficients {
        let is_of_sigma = self.options.is_of_sigma;
        let lambda = |call: usize| {
            if is_of_sigma {
                -sigmas[call].ln()
            } else {
                lambda(sigmas[call])
            }
        };
        let h = lambda(to) - lambda(from);
        let mut ratios: Vec<f32> = (1..order)
            .map(|back| (lambda(from - back) - lambda(from)) / h)
            .collect();
        ratios.push(1.0);
        let hh = -h;
        let phi_1 = hh.exp_m1();
        let b_h = if self.options.is_bh1 { hh } else { phi_1 };
        let mut phi = phi_1 / hh - 1.0;
        let mut factorial = 1.0;
        let mut b = Vec::with_capacity(order);
        for i in 1..=order {
            b.push(phi * factorial / b_h);
            factorial *= (i + 1) as f32;
            phi = phi / hh - 1.0 / factorial;
        }
        UniPcCoefficients {
            alpha: if is_of_sigma { 1.0 } else { 1.0 - sigmas[to] },
            sigma_ratio: sigmas[to] / sigmas[from],
            phi_1,
            b_h,
            ratios,
            b,
        }
    }
}

impl SamplerStep for UniPc {
    fn step(&mut self, at: &CallIndex<'_>, velocity: &Tensor, latents: &Tensor) -> StepOutput {
        let x0 = latents - velocity * f64::from(at.sigmas().0);
        let latents = match &self.last_latents {
            Some(last) if !self.options.disable_corrector.contains(&(at.call - 1)) => {
                self.correct(at, last, &x0)
            }
            _ => latents.shallow_clone(),
        };
        if self.predictions.len() == self.options.order {
            drop(self.predictions.remove(0));
        }
        self.predictions.push(x0.shallow_clone());
        let next = self.predict(at, &latents);
        self.last_latents = Some(latents);
        StepOutput { latents: next, x0 }
    }

    fn history(&self) -> Vec<Tensor> {
        let last = self.last_latents.iter();
        let tensors = self.predictions.iter().chain(last);
        tensors.map(Tensor::shallow_clone).collect()
    }

    fn restore(&mut self, at: &CallIndex<'_>, mut history: Vec<Tensor>) -> bool {
        let expected = match at.done.min(self.options.order) {
            0 => 0,
            predictions => predictions + 1,
        };
        if history.len() != expected {
            return false;
        }
        self.last_latents = history.pop();
        self.predictions = history;
        true
    }
}

struct UniPcCoefficients {
    alpha: f32,
    sigma_ratio: f32,
    phi_1: f32,
    b_h: f32,
    ratios: Vec<f32>,
    b: Vec<f32>,
}

impl UniPcCoefficients {
    /// The first-order part of both updates.
    fn base(&self, latents: &Tensor, prediction: &Tensor) -> Tensor {
        latents * f64::from(self.sigma_ratio) - prediction * f64::from(self.alpha * self.phi_1)
    }
}

/// Solves `sum over j of ratios[j]^i * x[j] = b[i]` for the first `size` rows and columns.
fn solve(ratios: &[f32], b: &[f32], size: usize) -> Vec<f32> {
    let mut rows: Vec<Vec<f64>> = (0..size)
        .map(|i| {
            let powers = ratios[..size].iter().map(|r| f64::from(*r).powi(i as i32));
            powers.chain([f64::from(b[i])]).collect()
        })
        .collect();
    for pivot in 0..size {
        let best = (pivot..size)
            .max_by(|&i, &j| rows[i][pivot].abs().total_cmp(&rows[j][pivot].abs()))
            .unwrap_or(pivot);
        rows.swap(pivot, best);
        let pivot_row = rows[pivot].clone();
        for (i, row) in rows.iter_mut().enumerate() {
            if i != pivot {
                let factor = row[pivot] / pivot_row[pivot];
                for (value, above) in row.iter_mut().zip(&pivot_row) {
                    *value -= factor * above;
                }
            }
        }
    }
    (0..size)
        .map(|i| (rows[i][size] / rows[i][i]) as f32)
        .collect()
}
