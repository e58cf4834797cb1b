//! ComfyUI's samplers and schedules against k-diffusion and formulas in f64 (`tests/fixtures/sampling/comfy.safetensors`).

use super::*;
use crate::sampling::comfy::comfy_sigmas;

#[test]
fn every_schedule_of_comfyui_is_that_of_the_record() {
    let mut schedules = 0;
    for (key, expected) in &fixture("comfy.safetensors") {
        let Some(name) = key.strip_prefix("schedule.") else {
            continue;
        };
        // A shift may have a dot.
        let (name, num_steps) = name.rsplit_once('.').unwrap();
        let (name, entries) = name.rsplit_once('.').unwrap();
        let (name, shift) = name.split_once('.').unwrap();
        let (shift, num_steps) = (shift.parse().unwrap(), num_steps.parse().unwrap());
        let spacing = spacing(name.parse().unwrap(), shift, num_steps);
        let found = comfy_sigmas(&spacing, entries.parse().unwrap()).unwrap();
        assert_eq!(found.len(), num_steps, "{key}");
        let off = (Tensor::from_slice(&found) - expected).abs().max();
        // k-diffusion computes these in f32.
        let is_rough = ["karras", "exponential"].contains(&name);
        let limit = if is_rough { 1e-6 } else { 1e-12 };
        let off = off.double_value(&[]);
        assert!(off <= limit, "{key}: {off:.1e}");
        schedules += 1;
    }
    assert_eq!(schedules, 216);
}

#[test]
fn every_sampler_of_comfyui_walks_as_recorded() {
    let recorded = fixture("comfy.safetensors");
    let mut walks = 0;
    for (key, expected) in &recorded {
        let Some(name) = key.strip_suffix(".latents") else {
            continue;
        };
        let parts: Vec<&str> = name.split('.').collect();
        let sampler: SamplerKind = parts[1].parse().unwrap();
        let num_steps: usize = parts[3].parse().unwrap();
        let steps = parts.get(4).map_or(0..num_steps, |part| {
            let (start, end) = part.split_once('-').unwrap();
            start.parse().unwrap()..end.parse().unwrap()
        });
        let sigmas: Vec<f64> = (&recorded[&format!("{name}.sigmas")]).try_into().unwrap();
        let algorithm = along(sampler, sigmas[..num_steps].to_vec());
        let mut solver = Solver::new(algorithm, steps.clone()).unwrap();
        let mut latents = start().to_kind(Kind::Double);
        for (row, step) in steps.enumerate() {
            for call in solver.calls(step) {
                let velocity = velocity(&latents, 0.0) + f64::from(solver.sigmas()[call]);
                latents = solver.step(call, &velocity, &latents).latents;
            }
            let off = off(&latents, &expected.get(row as i64));
            // The middle of a step is a sigma in f32 here.
            let limit = if sampler.has_two_calls() { 1e-4 } else { 1e-10 };
            assert!(off <= limit, "{name} {step}: {off:.1e}");
        }
        walks += 1;
    }
    assert_eq!(walks, 136);
}

#[test]
fn samplers_of_ratios_begin_below_one_as_in_comfyui() {
    let first = 5.0 * 0.9999 / (1.0 + 4.0 * 0.9999);
    for sampler in SamplerKind::ALL {
        let spacing = spacing(SigmaSchedule::Simple, 5.0, 4);
        let unipc = UniPcOptions::default();
        let algorithm = SamplerAlgorithm::spaced(sampler, &spacing, unipc, SEED);
        let found = Solver::new(algorithm, 0..4).unwrap().sigmas()[0];
        let expected = match sampler {
            SamplerKind::DpmPpSde | SamplerKind::DpmPp2mSde | SamplerKind::ErSde => first,
            SamplerKind::UniPc | SamplerKind::UniPcBh1 => 1.0 - 1e-6,
            _ => 1.0,
        };
        assert!((f64::from(found) - expected).abs() < 1e-7, "{sampler}");
    }
}

#[test]
fn repeated_entries_of_the_beta_schedule_keep_their_fraction() {
    for schedule in [SigmaSchedule::Beta, SigmaSchedule::Beta57] {
        let found = comfy_sigmas(&spacing(schedule, 3.0, 900), 1000).unwrap();
        assert_eq!(found.len(), 900);
        assert!(found.is_sorted_by(|a, b| a > b), "{schedule}");
    }
}

#[test]
fn noise_of_a_step_is_of_the_next_seed_and_the_same_in_a_batch_as_alone() {
    let made = |seed, images: i64| {
        let spacing = spacing(SigmaSchedule::Simple, 3.0, 4);
        let (sampler, unipc) = (SamplerKind::EulerAncestral, UniPcOptions::default());
        let algorithm = SamplerAlgorithm::spaced(sampler, &spacing, unipc, seed);
        let mut solver = Solver::new(algorithm, 0..4).unwrap();
        let zeros = Tensor::zeros([images, 3], (Kind::Float, Device::Cpu));
        solver.step(0, &zeros, &zeros).latents
    };
    let both = made(7, 2);
    assert_eq!(both.narrow(0, 0, 1), made(7, 1));
    assert_eq!(both.narrow(0, 1, 1), made(8, 1));
    let noise = noise(&[1, 3], 8).unwrap();
    let factor = made(7, 1) / noise;
    assert!(f64::try_from(factor.max() - factor.min()).unwrap() < 1e-6);
}
