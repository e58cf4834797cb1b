//! The other sigma schedules, and sigmas that are given: against diffusers where it has them, and everywhere against
//! an equation whose solution is known.

use safelight_core::job::{GenerateRequest, SamplerKind, SigmaSchedule};
use safelight_core::networks::SchedulerConfig;
use tch::{Kind, Tensor};

use super::super::schedule::beta_quantile;
use super::super::{FlowSchedule, SamplerAlgorithm, Solver, UniPcOptions, linspace};
use super::{SEED, along, fixture, off, sampler, spacing, start, walk};

/// Those whose walk is an equation's; the others draw noise.
const SOLVERS: [SamplerKind; 9] = [
    SamplerKind::UniPc,
    SamplerKind::UniPcBh1,
    SamplerKind::Euler,
    SamplerKind::Heun,
    SamplerKind::DpmPp2m,
    SamplerKind::DpmPp2mDiffusers,
    SamplerKind::ResMultistep,
    SamplerKind::Res2s,
    SamplerKind::GradientEstimation,
];
/// Those of first order.
const SIMPLE: [SamplerKind; 2] = [SamplerKind::Euler, SamplerKind::GradientEstimation];

/// The walk of a fixture's name: `kind.setting.schedule.place.steps`.
fn solver(name: &str) -> Solver {
    let parts: Vec<&str> = name.split('.').collect();
    let sampler = match parts[1] {
        "bh1" => SamplerKind::UniPcBh1,
        _ => sampler(parts[0]),
    };
    let schedule: SigmaSchedule = parts[2].parse().unwrap();
    let schedule = schedule.of_diffusers();
    let (place, number) = parts[3].split_at(1);
    let num_steps: usize = parts[4].parse().unwrap();
    let whole = |algorithm| Solver::new(algorithm, 0..num_steps).unwrap();
    match place {
        "s" => {
            let spacing = spacing(schedule, number.parse().unwrap(), num_steps);
            let unipc = UniPcOptions::default();
            whole(SamplerAlgorithm::spaced(sampler, &spacing, unipc, SEED))
        }
        "t" => flux(sampler, schedule, number.parse().unwrap(), num_steps),
        "g" => {
            let config = FlowSchedule::from(SchedulerConfig::of_flux(true));
            let shift = config.mu(number.parse().unwrap()).exp();
            let even = linspace(1.0, 1.0 / num_steps as f64, num_steps).into_iter();
            let sigmas = even.map(|s| shift / (shift + (1.0 / s - 1.0))).collect();
            whole(along(sampler, sigmas))
        }
        other => panic!("the fixture has a place {other} that the test does not know"),
    }
}

pub(super) fn request(
    sampler: SamplerKind,
    schedule: SigmaSchedule,
    num_steps: usize,
) -> GenerateRequest {
    serde_json::from_value(serde_json::json!({
        "model": "flux1-dev", "family": "flux", "prompt": "", "negative_prompt": "", "width": 64, "height": 64,
        "num_frames": 1, "fps": 1.0, "num_steps": num_steps, "guidance_scale": 3.5, "seed": SEED,
        "sampler": sampler.name(), "sigma_schedule": schedule.name(),
    }))
    .unwrap()
}

fn flux(sampler: SamplerKind, schedule: SigmaSchedule, tokens: i64, num_steps: usize) -> Solver {
    let request = request(sampler, schedule, num_steps);
    let config = FlowSchedule::from(SchedulerConfig::of_flux(true));
    config.solver(&request, tokens, 0..num_steps).unwrap()
}

#[test]
fn every_recorded_schedule_and_walk_is_that_of_the_reference() {
    let recorded = fixture("schedules.safetensors");
    let mut walks = 0;
    for (key, expected) in &recorded {
        let Some(name) = key.strip_suffix(".latents") else {
            continue;
        };
        let mut solver = solver(name);
        let sigmas = Tensor::from_slice(solver.sigmas());
        let expected_sigmas = &recorded[&format!("{name}.sigmas")];
        assert_eq!(sigmas.size(), expected_sigmas.size(), "{name}");
        let most = (sigmas - expected_sigmas).abs().max().double_value(&[]);
        assert!(most <= 1e-6, "{name}: sigmas are off by {most:.1e}");
        let expected_timesteps = &recorded[&format!("{name}.timesteps")];
        let timesteps = solver.timesteps();
        assert_eq!(timesteps.kind(), expected_timesteps.kind(), "{name}");
        let most = (timesteps - expected_timesteps).abs().max();
        assert!(most.double_value(&[]) <= 1e-3, "{name}: {most}");
        let calls = solver.all_calls();
        let found = walk(&mut solver, calls.clone(), &start());
        for (call, found) in found.iter().enumerate() {
            let expected = expected.get(call as i64);
            // Diffusers' bh1 has no number at a sigma of 0.
            if name.contains("bh1") && call + 1 == calls.end {
                assert!(bool::try_from(found.isfinite().all()).unwrap(), "{name}");
                continue;
            }
            let off = off(found, &expected);
            assert!(off <= 1e-5, "{name} {call}: {off:.1e}");
        }
        walks += 1;
    }
    assert_eq!(walks, 160);
}

#[test]
fn the_beta_distribution_is_that_of_scipy() {
    let quantiles = &fixture("schedules.safetensors")["beta.quantiles"];
    let (p, expected) = (quantiles.get(0), quantiles.get(1));
    for i in 0..p.size()[0] {
        let (p, expected) = (p.double_value(&[i]), expected.double_value(&[i]));
        let found = beta_quantile(p, 0.6, 0.6);
        assert!((found - expected).abs() <= 1e-12, "{p}: {found} {expected}");
    }
}

/// Mean of the toy images, which are normally distributed.
const MEAN: f64 = 0.7;
const DEVIATION: f64 = 0.8;

/// Point of the exact flow of the toy images that starts at `noise`.
fn flowed(noise: &Tensor, sigma: f64) -> Tensor {
    let image = (1.0 - sigma) * DEVIATION;
    noise * (image * image + sigma * sigma).sqrt() + (1.0 - sigma) * MEAN
}

/// How far from the known end `solver` gets when it walks this flow, whose velocity is a formula.
fn error_of(mut solver: Solver) -> f64 {
    let noise = start().to_kind(Kind::Double);
    let calls = solver.all_calls();
    let sigmas: Vec<f64> = solver.sigmas().iter().copied().map(f64::from).collect();
    let mut latents = flowed(&noise, sigmas[calls.start]);
    for call in calls.clone() {
        let sigma = sigmas[call];
        let image = (1.0 - sigma) * DEVIATION * DEVIATION;
        let variance = (1.0 - sigma) * image + sigma * sigma;
        let x0 = (&latents - (1.0 - sigma) * MEAN) * (image / variance) + MEAN;
        let velocity = (&latents - x0) / sigma;
        latents = solver.step(call, &velocity, &latents).latents;
    }
    off(&latents, &flowed(&noise, sigmas[calls.end]))
}

#[test]
fn every_solver_converges_in_its_order_along_sigmas_that_are_given() {
    for sampler in SOLVERS {
        let error = |num_steps: usize| {
            let sigmas = linspace(0.95, 0.05, num_steps + 1);
            error_of(Solver::new(along(sampler, sigmas), 0..num_steps).unwrap())
        };
        let (coarse, fine) = (error(12), error(48));
        let order = (coarse / fine).log2() / 2.0;
        let holds = match sampler {
            _ if SIMPLE.contains(&sampler) => (0.9..1.1).contains(&order) && fine < 0.02,
            // Methods of order 2 and the corrector, which adds one.
            _ => order > 1.6 && fine < 2e-3,
        };
        let name = sampler.name();
        assert!(holds, "{name}: {coarse:.1e}, {fine:.1e}, order {order:.2}");
    }
}

#[test]
fn every_solver_gets_to_the_image_along_every_schedule() {
    let mut too_far = Vec::new();
    for schedule in SigmaSchedule::ALL {
        for sampler in SOLVERS {
            let error = |num_steps| {
                let unipc = UniPcOptions::default();
                let spacing = spacing(schedule, 5.0, num_steps);
                let fixed = SamplerAlgorithm::spaced(sampler, &spacing, unipc, SEED);
                [
                    error_of(Solver::new(fixed, 0..num_steps).unwrap()),
                    error_of(flux(sampler, schedule, 4096, num_steps)),
                ]
            };
            let (coarse, fine) = (error(20), error(160));
            // In the logarithm of sigma, and where the last step is wide in it, few steps are rough.
            let is_of_sigma = matches!(sampler, SamplerKind::DpmPp2m | SamplerKind::ResMultistep);
            let is_diffusers = schedule.is_diffusers();
            let most_coarse = if is_diffusers { 0.1 } else { 0.5 };
            let (most_coarse, most_fine) = match sampler {
                _ if is_of_sigma || schedule == SigmaSchedule::Normal => (f64::INFINITY, 0.02),
                _ if SIMPLE.contains(&sampler) => (most_coarse, 0.02),
                _ if is_diffusers => (most_coarse, 3e-3),
                _ => (most_coarse, 6e-3),
            };
            for (coarse, fine) in coarse.into_iter().zip(fine) {
                let misses = !(coarse < most_coarse && fine < most_fine);
                let case = format!("{sampler} {schedule}: {coarse:.1e} {fine:.1e}");
                too_far.extend(misses.then_some(case));
            }
        }
    }
    assert!(too_far.is_empty(), "{too_far:#?}");
}

#[test]
fn a_shift_of_the_request_is_a_fixed_one_and_nonsense_is_refused() {
    let config = FlowSchedule::from(SchedulerConfig::of_flux(true));
    let mut request = request(SamplerKind::Euler, SigmaSchedule::Model, 4);
    request.sampling.shift = Some(3.0);
    for sampler in SamplerKind::ALL {
        request.sampling.sampler = sampler;
        let of = |tokens| {
            let solver = config.solver(&request, tokens, 0..4).unwrap();
            solver.sigmas().to_vec()
        };
        assert_eq!(of(256), of(4096), "{}", sampler.name());
        let last = of(256)[if sampler.has_two_calls() { 6 } else { 3 }];
        assert!((last - 0.5).abs() < 1e-3, "{}: {last}", sampler.name());
    }
    assert!(config.solver(&request, 256, 3..5).is_err());
    for shift in [0.0, -1.0, f64::NAN] {
        request.sampling.shift = Some(shift);
        assert!(config.solver(&request, 256, 0..4).is_err(), "{shift}");
    }
    (request.sampling.shift, request.sampling.num_steps) = (None, 0);
    assert!(config.solver(&request, 256, 0..0).is_err());
}
