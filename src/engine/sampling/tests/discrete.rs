//! Samplers of models with discrete noise levels against diffusers' schedulers (`tests/fixtures/sampling/discrete.safetensors`).

use safelight_core::job::SamplingOptions;
use safelight_core::networks::{DiscreteScheduleConfig, PredictionType, TimestepSpacing};

use super::schedules::request;
use super::*;
use crate::sampling::{DiscreteSchedule, ModelTimesteps, NoiseSchedule, NoiseSpace};

fn model(name: &str) -> DiscreteSchedule {
    let mut config = DiscreteScheduleConfig::default();
    if ["v", "zero"].contains(&name) {
        config.prediction_type = PredictionType::V;
    }
    if ["trailing", "zero"].contains(&name) {
        config.timestep_spacing = TimestepSpacing::Trailing;
    }
    config.rescale_betas_zero_snr = name == "zero";
    DiscreteSchedule::new(config)
}

/// A walk's sampler, schedule and model, and its steps.
fn parsed_walk(name: &str) -> (SamplerKind, SigmaSchedule, &str, usize) {
    let parts: Vec<&str> = name.split('.').collect();
    let (sampler, spacing) = match parts[1].split_once('-') {
        Some((sampler, "karras")) => (sampler, SigmaSchedule::KarrasDiffusers),
        Some((sampler, _)) => (sampler, SigmaSchedule::Model),
        None => (parts[1], SigmaSchedule::Model),
    };
    let steps = parts[3].parse().unwrap();
    (sampler.parse().unwrap(), spacing, parts[2], steps)
}

/// Returns whether the reference's own schedule for the sampler has other timesteps than the models here.
fn has_own_schedule(sampler: SamplerKind) -> bool {
    use SamplerKind as K;
    matches!(sampler, K::DpmPp2mSde | K::UniPc | K::Lcm)
}

#[test]
fn every_discrete_schedule_is_that_of_the_reference() {
    let recorded = fixture("discrete.safetensors");
    let mut schedules = 0;
    for (key, expected) in &recorded {
        let Some(name) = key.strip_suffix(".sigmas") else {
            continue;
        };
        let (sampler, spacing, of, num_steps) = parsed_walk(name);
        if has_own_schedule(sampler) {
            continue;
        }
        let found = model(of).schedule(sampler, spacing, num_steps);
        assert_eq!(found.sigmas.len() as i64, expected.numel() as i64, "{key}");
        for (part, found, expected) in [
            ("sigmas", Tensor::from_slice(&found.sigmas), expected),
            (
                "timesteps",
                found.timesteps.to_tensor(),
                &recorded[&format!("{name}.timesteps")],
            ),
            (
                "initial",
                Tensor::from(found.initial_scale),
                &recorded[&format!("{name}.initial")],
            ),
        ] {
            let far = (found - expected).abs() / expected.abs().clamp_min(1e-3);
            let far = far.max().double_value(&[]);
            assert!(far <= 4e-6, "{name} {part}: {far:.1e}");
        }
        schedules += 1;
    }
    assert_eq!(schedules, 75);
}

#[test]
fn every_discrete_walk_is_that_of_the_reference() {
    let recorded = fixture("discrete.safetensors");
    let mut walks = 0;
    for (key, expected) in &recorded {
        let Some(name) = key.strip_suffix(".latents") else {
            continue;
        };
        let (sampler, spacing, of, num_steps) = parsed_walk(name);
        let mut schedule = model(of).schedule(sampler, spacing, num_steps);
        if has_own_schedule(sampler) {
            let list = |part| Vec::<f32>::try_from(&recorded[&format!("{name}.{part}")]).unwrap();
            schedule.sigmas = list("sigmas");
            schedule.timesteps = ModelTimesteps::Exact(list("timesteps"));
            schedule.initial_scale = f64::from(schedule.sigmas[0]).hypot(1.0);
        }
        let unipc = UniPcOptions {
            is_of_sigma: true,
            ..UniPcOptions::default()
        };
        let algorithm = SamplerAlgorithm::new(sampler, schedule, unipc, SEED);
        let mut solver = Solver::new(algorithm, 0..num_steps).unwrap();
        let mut latents = solver.initial(start());
        for call in solver.all_calls() {
            latents = exploding_step(&mut solver, call, &latents);
            let far = off(&latents, &expected.get(call as i64));
            // x0 is the difference of latents in the thousands there.
            let limit = if of == "zero" { 2e-4 } else { 1e-5 };
            assert!(far <= limit, "{name} {call}: {far:.1e}");
        }
        walks += 1;
    }
    assert_eq!(walks, 108);
}

/// Latents after a call of the made-up model.
fn exploding_step(solver: &mut Solver, call: usize, latents: &Tensor) -> Tensor {
    let (space, sigma) = (solver.space(), solver.sigmas()[call]);
    let input = space.model_latents(latents, sigma);
    let prediction = velocity(&input, solver.timestep(call));
    let velocity = space.velocity(prediction, latents, sigma);
    solver.step(call, &velocity, latents).latents
}

#[test]
fn every_schedule_of_comfyui_on_discrete_levels_is_that_of_the_record() {
    let mut schedules = 0;
    for (key, expected) in &fixture("discrete.safetensors") {
        let Some((name, num_steps)) = key
            .strip_prefix("schedule.")
            .and_then(|name| name.split_once('.'))
        else {
            continue;
        };
        let (spacing, num_steps) = (name.parse().unwrap(), num_steps.parse().unwrap());
        let found = model("leading").schedule(SamplerKind::Euler, spacing, num_steps);
        let found = Tensor::from_slice(&found.sigmas[..num_steps]);
        let far = ((found - expected) / expected)
            .abs()
            .max()
            .double_value(&[]);
        // The table is one of f32 here, as in diffusers: its first entry is what is left of 1.
        assert!(far <= 4e-5, "{key}: {far:.1e}");
        schedules += 1;
    }
    assert_eq!(schedules, 21);
}

#[test]
fn a_shift_and_schedules_of_flows_are_refused() {
    let refusal = |change: fn(&mut SamplingOptions)| {
        let mut request = request(SamplerKind::Euler, SigmaSchedule::Model, 4);
        change(&mut request.sampling);
        model("leading")
            .solver(&request, 0..4)
            .err()
            .unwrap()
            .to_string()
    };
    let text = refusal(|sampling| sampling.shift = Some(3.0));
    assert!(text.contains("have no shift"), "{text}");
    let text = refusal(|sampling| sampling.dynamic_shift = true);
    assert!(text.contains("have no shift"), "{text}");
    let text = refusal(|sampling| sampling.sigma_schedule = SigmaSchedule::BongTangent);
    assert!(text.contains("choose another"), "{text}");
    let text = refusal(|sampling| sampling.num_steps = 0);
    assert!(text.contains("0 steps"), "{text}");
}

/// A flow at sigma s, divided by 1 - s, is an exploding one at s / (1 - s).
#[test]
fn samplers_walk_alike_in_flows_and_in_exploding_latents() {
    let flow = vec![0.9, 0.7, 0.5, 0.2, 0.1];
    let exploding = NoiseSpace::Exploding(PredictionType::Epsilon);
    for sampler in [
        SamplerKind::Euler,
        SamplerKind::Lcm,
        SamplerKind::DpmPp2mDiffusers,
        SamplerKind::DpmPp2mSde,
        SamplerKind::ErSde,
    ] {
        let mut of_flow = Solver::new(along(sampler, flow.clone()), 0..flow.len()).unwrap();
        let flow_sigmas = of_flow.sigmas().to_vec();
        let ratio = |sigma: &f32| sigma / (1.0 - sigma);
        let schedule = NoiseSchedule {
            sigmas: flow_sigmas.iter().map(ratio).collect(),
            timesteps: ModelTimesteps::Exact(of_flow.all_timesteps()),
            space: exploding,
            initial_scale: 1.0,
        };
        let algorithm = SamplerAlgorithm::new(sampler, schedule, UniPcOptions::default(), SEED);
        let mut solver = Solver::new(algorithm, 0..flow.len()).unwrap();
        let share = |call: usize| f64::from(1.0 - flow_sigmas[call]);
        let mut in_flow = start().to_kind(Kind::Double);
        let mut latents = &in_flow / share(0);
        for call in solver.all_calls() {
            // Of the image, which both have.
            let image = (&latents * 0.3).sin() * 0.5;
            let slope = |xs: &Tensor, sigma: f32| (xs - &image) / f64::from(sigma);
            let next = slope(&latents, solver.sigmas()[call]);
            latents = solver.step(call, &next, &latents).latents;
            let next = slope(&in_flow, flow_sigmas[call]);
            in_flow = of_flow.step(call, &next, &in_flow).latents;
            let far = off(&(&in_flow / share(call + 1)), &latents);
            assert!(far <= 1e-4, "{sampler} {call}: {far:.1e}");
        }
    }
}
