//! Spacing of sigmas between the ends of a schedule: the alternatives that users may choose.
//!
//! In the arithmetic of diffusers' flow-match schedulers, which take the ends from the model's shifted sigmas.

use safelight_core::job::SigmaSchedule;

use super::schedule::linspace;

/// Of <https://arxiv.org/abs/2206.00364>.
const RHO: f64 = 7.0;

/// As many sigmas as `simple` has, with its ends, spaced by `schedule`. `simple`: the model's own, from the largest on
/// and without the 0 at the end.
pub fn spaced(schedule: SigmaSchedule, simple: Vec<f64>) -> Vec<f64> {
    let (Some(&max), Some(&min)) = (simple.first(), simple.last()) else {
        return simple;
    };
    let num_steps = simple.len();
    match schedule {
        SigmaSchedule::Simple => simple,
        SigmaSchedule::Karras => karras(max, min, num_steps),
        SigmaSchedule::Exponential => linspace(max.ln(), min.ln(), num_steps)
            .into_iter()
            .map(f64::exp)
            .collect(),
        SigmaSchedule::Beta => linspace(0.0, 1.0, num_steps)
            .into_iter()
            .map(|passed| min + beta_quantile(1.0 - passed) * (max - min))
            .collect(),
    }
}

fn karras(max: f64, min: f64, num_steps: usize) -> Vec<f64> {
    let (max, min) = (max.powf(1.0 / RHO), min.powf(1.0 / RHO));
    linspace(0.0, 1.0, num_steps)
        .into_iter()
        .map(|passed| (max + passed * (min - max)).powf(RHO))
        .collect()
}

/// Karras sigmas as `UniPCMultistepScheduler` uses them for flow models: spaced between the noise-to-image ratios of
/// DDPM's training (linear betas from 0.0001 to 0.02), whatever the model's shift, and then used as flow sigmas.
pub fn karras_of_ddpm(num_steps: usize, num_train_timesteps: u32) -> Vec<f64> {
    let (first, last) = (1e-4, 0.02);
    let step = (last - first) / f64::from(num_train_timesteps.max(2) - 1);
    // In f32 where the reference is.
    let kept = |i: u32| f64::from(1.0 - (first + step * f64::from(i)) as f32);
    let ratio = |kept: f64| {
        let kept = (kept as f32).max(f32::MIN_POSITIVE);
        f64::from(((1.0 - kept) / kept).sqrt())
    };
    let max = ratio((0..num_train_timesteps).map(kept).product());
    karras(max, ratio(kept(0)), num_steps)
        .into_iter()
        .map(|ratio| ratio / (ratio + 1.0))
        .collect()
}

/// Quantile of a beta distribution with alpha = beta = 0.6 at probability `p`.
pub fn beta_quantile(p: f64) -> f64 {
    if p > 0.5 {
        return 1.0 - beta_quantile(1.0 - p);
    }
    // The distribution is symmetric: half of it is below 0.5.
    let wanted = p * 2.0 * beta_mass(0.5);
    let (mut low, mut high) = (0.0, 0.5);
    loop {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            return middle;
        }
        if beta_mass(middle) < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// The incomplete beta function of 0.6 and 0.6 up to `x`, at most a half, as its power series.
fn beta_mass(x: f64) -> f64 {
    const A: f64 = 0.6;
    // Every term is less than half the one before.
    const NUM_TERMS: u32 = 56;
    let (mut sum, mut term) = (0.0, 1.0);
    for n in 0..NUM_TERMS {
        let n = f64::from(n);
        sum += term / (A + n);
        term *= x * (1.0 - A + n) / (n + 1.0);
    }
    sum * x.powf(A)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [SigmaSchedule; 4] = SigmaSchedule::ALL;

    #[test]
    fn every_spacing_falls_from_end_to_end() {
        for schedule in ALL {
            for num_steps in [1, 2, 3, 50, 1000] {
                let simple = linspace(0.97, 0.02, num_steps);
                let found = spaced(schedule, simple.clone());
                assert_eq!(found.len(), num_steps, "{schedule:?}");
                assert!(found.is_sorted_by(|a, b| a > b), "{schedule:?}");
                let ends = |sigmas: &[f64]| (sigmas[0], sigmas[num_steps - 1]);
                let ((max, min), expected) = (ends(&found), ends(&simple));
                assert!((max - expected.0).abs() < 1e-12, "{schedule:?}");
                assert!((min - expected.1).abs() < 1e-12, "{schedule:?}");
            }
        }
    }

    #[test]
    fn no_steps_give_no_sigmas() {
        for schedule in ALL {
            assert!(spaced(schedule, Vec::new()).is_empty());
        }
    }

    #[test]
    fn ddpm_of_any_length_gives_sigmas_of_a_flow() {
        for num_train_timesteps in [1, 2, 1000, 5_000_000] {
            let found = karras_of_ddpm(9, num_train_timesteps);
            let is_flow = |sigma: &f64| (0.0..=1.0).contains(sigma);
            assert!(found.iter().all(is_flow), "{num_train_timesteps}");
        }
    }

    #[test]
    fn the_quantile_is_the_inverse_of_the_distribution_and_symmetric() {
        assert_eq!((beta_quantile(0.0), beta_quantile(1.0)), (0.0, 1.0));
        for p in linspace(1e-9, 1.0 - 1e-9, 101) {
            let x = beta_quantile(p);
            assert!((x + beta_quantile(1.0 - p) - 1.0).abs() < 1e-12, "{p}");
            if x <= 0.5 {
                let back = beta_mass(x) / (2.0 * beta_mass(0.5));
                assert!((back / p - 1.0).abs() < 1e-12, "{p}");
            }
        }
    }
}
