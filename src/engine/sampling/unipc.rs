//! UniPC, the predictor-corrector of <https://arxiv.org/abs/2302.04867>, on flow sigmas and predicted x0.
//!
//! In the arithmetic of diffusers' `UniPCMultistepScheduler`: coefficients in f32, timesteps cut to integers while
//! the update uses the exact sigmas. Knows no other prediction than velocity and no other schedule.

use tch::Tensor;

use super::{Stepped, linspace};

#[derive(Clone, Debug)]
pub struct UniPcOptions {
    pub num_train_timesteps: u32,
    /// 1 to 3.
    pub order: usize,
    /// `B(h) = h` instead of `exp(h) - 1`.
    pub is_bh1: bool,
    /// Fall back to lower orders at the end.
    pub lower_order_final: bool,
    /// Ends at the last sigma again instead of at 0.
    pub ends_at_sigma_min: bool,
    /// Steps after which the corrector is not used.
    pub disable_corrector: Vec<usize>,
}

impl Default for UniPcOptions {
    fn default() -> Self {
        Self {
            num_train_timesteps: 1000,
            order: 2,
            is_bh1: false,
            lower_order_final: true,
            ends_at_sigma_min: false,
            disable_corrector: Vec::new(),
        }
    }
}

pub struct UniPc {
    options: UniPcOptions,
    sigmas: Vec<f32>,
    timesteps: Vec<i64>,
    /// The predictions of x0 so far, newest last, no more than the order.
    predictions: Vec<Tensor>,
    /// The latents that the last predictor started from.
    last_latents: Option<Tensor>,
}

impl UniPc {
    pub fn new(num_steps: usize, shift: f64, options: UniPcOptions) -> Self {
        let train = f64::from(options.num_train_timesteps);
        let mut exact = linspace(1.0, 1.0 / train, num_steps + 1);
        exact.pop();
        for sigma in &mut exact {
            *sigma = shift * *sigma / (1.0 + (shift - 1.0) * *sigma);
        }
        // The logarithm of 1 - sigma is needed.
        const TINY: f64 = 1e-6;
        if let Some(first) = exact.first_mut()
            && (*first - 1.0).abs() < TINY
        {
            *first -= TINY;
        }
        let timesteps = exact.iter().map(|sigma| (sigma * train) as i64).collect();
        let mut sigmas: Vec<f32> = exact.into_iter().map(|sigma| sigma as f32).collect();
        let end = match sigmas.last() {
            Some(&last) if options.ends_at_sigma_min => last,
            _ => 0.0,
        };
        sigmas.push(end);
        Self {
            options,
            sigmas,
            timesteps,
            predictions: Vec::new(),
            last_latents: None,
        }
    }

    pub fn sigmas(&self) -> &[f32] {
        &self.sigmas
    }

    pub fn timesteps(&self) -> &[i64] {
        &self.timesteps
    }

    pub fn step(&mut self, step: usize, velocity: &Tensor, latents: &Tensor) -> Stepped {
        let x0 = latents - velocity * f64::from(self.sigmas[step]);
        let latents = match &self.last_latents {
            Some(last) if step > 0 && !self.options.disable_corrector.contains(&(step - 1)) => {
                self.correct(step, last, &x0)
            }
            _ => latents.shallow_clone(),
        };
        if self.predictions.len() == self.options.order {
            drop(self.predictions.remove(0));
        }
        self.predictions.push(x0.shallow_clone());
        let next = self.predict(step, &latents);
        self.last_latents = Some(latents);
        Stepped { latents: next, x0 }
    }

    pub fn history(&self) -> Vec<Tensor> {
        let last = self.last_latents.iter();
        let tensors = self.predictions.iter().chain(last);
        tensors.map(Tensor::shallow_clone).collect()
    }

    pub fn restore(&mut self, step: usize, mut history: Vec<Tensor>) -> bool {
        let expected = match step.min(self.options.order) {
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

    /// The order that `step` can have: as many predictions as there are, fewer near the end.
    fn order_of(&self, step: usize) -> usize {
        let order = self.options.order;
        let left = self.timesteps.len() - step;
        let order = if self.options.lower_order_final {
            order.min(left)
        } else {
            order
        };
        order.min(step.min(self.options.order) + 1)
    }

    /// UniC: the latents of `step` again, now that the model has seen them.
    fn correct(&self, step: usize, last_latents: &Tensor, x0: &Tensor) -> Tensor {
        let order = self.order_of(step - 1);
        let c = self.coefficients(step - 1, step, order);
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

    /// UniP: the latents of the step after `step`.
    fn predict(&self, step: usize, latents: &Tensor) -> Tensor {
        let order = self.order_of(step);
        let c = self.coefficients(step, step + 1, order);
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
    fn differences(&self, c: &Coefficients, order: usize) -> Vec<Tensor> {
        let newest = self.newest_prediction();
        let older = self.predictions.iter().rev().skip(1);
        older
            .zip(&c.ratios[..order - 1])
            .map(|(prediction, ratio)| (prediction - newest) / f64::from(*ratio))
            .collect()
    }

    /// From the sigma of step `from` to that of step `to`, with the history before `from`.
    fn coefficients(&self, from: usize, to: usize, order: usize) -> Coefficients {
        let lambda = |step: usize| {
            let sigma = self.sigmas[step];
            (1.0 - sigma).ln() - sigma.ln()
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
        Coefficients {
            alpha: 1.0 - self.sigmas[to],
            sigma_ratio: self.sigmas[to] / self.sigmas[from],
            phi_1,
            b_h,
            ratios,
            b,
        }
    }
}

struct Coefficients {
    alpha: f32,
    sigma_ratio: f32,
    phi_1: f32,
    b_h: f32,
    ratios: Vec<f32>,
    b: Vec<f32>,
}

impl Coefficients {
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
