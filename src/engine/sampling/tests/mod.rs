//! Samplers against whole walks of diffusers' schedulers (`tests/fixtures/sampling`).
//!
//! Here with the model's own schedule; the others, and sigmas that are given, are `schedules.rs`'s; ComfyUI's samplers and
//! schedules `comfy.rs`'s.

mod comfy;
mod discrete;
mod schedules;

use std::collections::BTreeMap;
use std::ops::Range;

use safelight_core::job::{SamplerKind, SigmaSchedule};
use tch::{Device, Kind, Tensor};

use super::{SamplerAlgorithm, ScheduleEnd, SigmaSpacing, Solver, UniPcOptions, noise};
use crate::weights::tests::fixtures::{fixture as fixture_of, tensors_in};

const SIZE: [i64; 5] = [1, 2, 2, 1, 5];
const SEED: u64 = 17;

/// Each sampler, in the setting that users get.
fn samplers() -> impl Iterator<Item = String> {
    let all = SamplerKind::ALL.into_iter();
    all.map(|sampler| match sampler {
        SamplerKind::UniPc => "unipc.bh2".to_owned(),
        SamplerKind::UniPcBh1 => "unipc.bh1".to_owned(),
        _ => format!("{sampler}.plain"),
    })
}

fn spacing(schedule: SigmaSchedule, shift: f64, num_steps: usize) -> SigmaSpacing {
    SigmaSpacing {
        schedule,
        num_steps,
        shift,
        num_train_timesteps: 1000,
    }
}

/// Along sigmas that are shifted by 5.
fn along(sampler: SamplerKind, sigmas: Vec<f64>) -> SamplerAlgorithm {
    let spacing = spacing(SigmaSchedule::Model, 5.0, sigmas.len());
    SamplerAlgorithm::along(sampler, sigmas, &spacing, UniPcOptions::default(), SEED)
}

fn fixture(name: &str) -> BTreeMap<String, Tensor> {
    tensors_in(&fixture_of("sampling").join(name))
}

fn recorded() -> BTreeMap<String, Tensor> {
    fixture("recorded.safetensors")
}

/// The same formula as in `generate.py`.
fn velocity(latents: &Tensor, timestep: f32) -> Tensor {
    (latents * 2.0).sin() * 0.3 + latents * 0.5 + f64::from(timestep) / 1000.0
}

fn unipc_options(setting: &str) -> UniPcOptions {
    let plain = UniPcOptions::default();
    match setting {
        "bh2" => plain,
        "bh1" => UniPcOptions {
            is_bh1: true,
            ..plain
        },
        "order1" => UniPcOptions { order: 1, ..plain },
        "order3" | "order3_bh1" => UniPcOptions {
            order: 3,
            is_bh1: setting == "order3_bh1",
            ..plain
        },
        "sigma_min" | "no_lower_order" => UniPcOptions {
            end: ScheduleEnd::SigmaMin,
            lower_order_final: setting == "sigma_min",
            ..plain
        },
        "no_corrector" => UniPcOptions {
            disable_corrector: vec![0, 2],
            ..plain
        },
        other => panic!("the fixture has a setting {other} that the test does not know"),
    }
}

fn sampler(kind: &str) -> SamplerKind {
    match kind {
        "dpmpp" => SamplerKind::DpmPp2mDiffusers,
        name => name.parse().unwrap(),
    }
}

/// `kind.setting`, the whole schedule or a part of it.
fn solver(name: &str, shift: f64, num_steps: usize, part: Option<Range<usize>>) -> Solver {
    let (kind, setting) = name.split_once('.').unwrap();
    let unipc = match kind {
        "unipc" => unipc_options(setting),
        _ => UniPcOptions::default(),
    };
    let spacing = spacing(SigmaSchedule::Model, shift, num_steps);
    let algorithm = SamplerAlgorithm::spaced(sampler(kind), &spacing, unipc, SEED);
    Solver::new(algorithm, part.unwrap_or(0..num_steps)).unwrap()
}

fn start() -> Tensor {
    noise(&SIZE, SEED).unwrap()
}

/// The latents after each of `calls`.
fn walk(solver: &mut Solver, calls: Range<usize>, latents: &Tensor) -> Vec<Tensor> {
    let mut latents = latents.shallow_clone();
    calls
        .map(|call| {
            let velocity = velocity(&latents, solver.timestep(call));
            latents = solver.step(call, &velocity, &latents).latents;
            latents.shallow_clone()
        })
        .collect()
}

fn off(found: &Tensor, expected: &Tensor) -> f64 {
    (found - expected).norm().double_value(&[]) / expected.norm().double_value(&[])
}

/// A walk's name: `kind.setting`, shift, steps, part.
fn parsed(walk: &str) -> (String, f64, usize, Option<Range<usize>>) {
    let parts: Vec<&str> = walk.split('.').collect();
    let part = parts.get(4).map(|part| {
        let (start, end) = part.split_once('-').unwrap();
        start.parse().unwrap()..end.parse().unwrap()
    });
    let (shift, num_steps) = (parts[2].parse().unwrap(), parts[3].parse().unwrap());
    (format!("{}.{}", parts[0], parts[1]), shift, num_steps, part)
}

#[test]
fn every_schedule_is_that_of_the_reference() {
    let recorded = recorded();
    let mut schedules = 0;
    for (key, expected) in &recorded {
        let Some(walk) = key.strip_suffix(".sigmas") else {
            continue;
        };
        let (name, shift, num_steps, part) = parsed(walk);
        let solver = solver(&name, shift, num_steps, part);
        let timesteps = &recorded[&format!("{walk}.timesteps")];
        assert!(solver.timesteps().equal(timesteps), "{walk}");
        let sigmas = Tensor::from_slice(solver.sigmas());
        assert_eq!(sigmas.size(), expected.size(), "{walk}");
        let off = (sigmas - expected).abs().max().double_value(&[]);
        assert!(off <= 1e-6, "{walk}: sigmas are off by {off:.1e}");
        schedules += 1;
    }
    assert_eq!(schedules, 150);
}

#[test]
fn every_walk_is_that_of_the_reference_and_finite_where_that_is_not() {
    let mut walks = 0;
    for (key, expected) in &recorded() {
        let Some(name) = key.strip_suffix(".latents") else {
            continue;
        };
        let (kind, shift, num_steps, part) = parsed(name);
        let mut solver = solver(&kind, shift, num_steps, part);
        let calls = solver.all_calls();
        let found = walk(&mut solver, calls, &start());
        let found_calls = found.len();
        assert_eq!(found_calls as i64, expected.size()[0], "{name}");
        for (call, found) in found.iter().enumerate() {
            let is_finite = bool::try_from(found.isfinite().all()).unwrap();
            assert!(is_finite, "{name} {call}");
            let expected = expected.get(call as i64);
            if bool::try_from(expected.isfinite().all()).unwrap() {
                let off = off(found, &expected);
                assert!(off <= 1e-6, "{name} {call}: {off:.1e}");
            } else {
                // The reference fails only in the step to 0, and only with bh1.
                assert!(name.contains("bh1"), "{name} {call}");
                assert!(call + 1 == found_calls, "{name} {call}");
            }
        }
        walks += 1;
    }
    assert_eq!(walks, 162);
}

#[test]
fn sampler_resumed_at_any_call_gives_identical_latents() {
    let others = ["unipc.order3", "unipc.no_corrector"].map(str::to_owned);
    for name in samplers().chain(others) {
        for part in [0..6, 2..5] {
            let new = || solver(&name, 5.0, 6, Some(part.clone()));
            let calls = new().all_calls();
            let whole = walk(&mut new(), calls.clone(), &start());
            for call in calls.clone() {
                let mut first = new();
                let before = walk(&mut first, calls.start..call, &start());
                let mut second = new();
                let history = first.history().iter().map(Tensor::copy).collect();
                assert!(second.restore(call, history), "{name} {call}");
                let begin = before.last().map_or_else(start, Tensor::copy);
                let after = walk(&mut second, call..calls.end, &begin);
                assert_eq!(after.last(), whole.last(), "{name} {call}");
            }
        }
    }
}

#[test]
fn samplers_of_two_calls_make_one_in_the_last_step() {
    for name in samplers() {
        let whole = solver(&name, 3.0, 4, None);
        let calls: Vec<_> = whole.steps().map(|step| whole.calls(step)).collect();
        let ends = whole.all_calls().map(|call| whole.is_step_end(call));
        let ends: Vec<bool> = ends.collect();
        if ["heun.plain", "dpmpp_sde.plain", "res_2s.plain"].contains(&name.as_str()) {
            assert_eq!(calls, [0..2, 2..4, 4..6, 6..7]);
            assert_eq!(ends, [false, true, false, true, false, true, true]);
            assert_eq!(solver(&name, 3.0, 4, Some(1..3)).all_calls(), 2..6);
        } else {
            assert_eq!(calls, [0..1, 1..2, 2..3, 3..4]);
            assert_eq!(ends, [true; 4]);
        }
        assert_eq!(whole.num_steps(), 4, "{name}");
        assert_eq!(whole.step_of(whole.all_calls().end), 4, "{name}");
    }
}

#[test]
fn between_two_steps_samplers_of_two_calls_keep_nothing() {
    for (name, kept) in [
        ("heun.plain", 2),
        ("res_2s.plain", 2),
        ("dpmpp_sde.plain", 3),
    ] {
        let mut solver = solver(name, 5.0, 3, None);
        for (call, length) in solver.all_calls().zip([kept, 0, kept, 0, 0]) {
            drop(solver.step(call, &start(), &start()));
            assert_eq!(solver.history().len(), length, "{name} {call}");
        }
    }
}

#[test]
fn a_step_starts_where_the_velocity_points() {
    let latents = start();
    for name in samplers() {
        let mut solver = solver(&name, 5.0, 4, None);
        let x0 = Tensor::ones_like(&latents);
        for call in solver.all_calls() {
            let sigma = f64::from(solver.sigmas()[call]);
            let velocity = (&latents - &x0) / sigma;
            let found = solver.step(call, &velocity, &latents).x0;
            assert!(found.allclose(&x0, 1e-5, 1e-5, false), "{name} {call}");
            assert_eq!(found.kind(), Kind::Float);
        }
    }
}

#[test]
fn a_model_that_always_points_to_the_same_image_gets_there() {
    let image = Tensor::arange(20, (Kind::Float, Device::Cpu)).view(SIZE) / 10.0;
    for name in samplers() {
        for num_steps in [1, 3, 8] {
            let mut solver = solver(&name, 5.0, num_steps, None);
            let mut latents = start();
            for call in solver.all_calls() {
                let sigma = f64::from(solver.sigmas()[call]);
                let velocity = (&latents - &image) / sigma;
                latents = solver.step(call, &velocity, &latents).latents;
            }
            let is_there = latents.allclose(&image, 1e-4, 1e-4, false);
            assert!(is_there, "{name} {num_steps}");
        }
    }
}

#[test]
fn noise_that_is_left_at_the_end_stays() {
    let image = Tensor::zeros(SIZE, (Kind::Float, Device::Cpu));
    for name in samplers() {
        let mut solver = solver(&name, 5.0, 8, Some(0..4));
        let mut latents = start();
        let calls = solver.all_calls();
        for call in calls.clone() {
            let velocity = (&latents - &image) / f64::from(solver.sigmas()[call]);
            latents = solver.step(call, &velocity, &latents).latents;
        }
        let left = f64::from(solver.sigmas()[calls.end]);
        let found = latents.std(true).double_value(&[]) / left;
        assert!((0.5..1.5).contains(&found), "{name}: {found} of the noise");
    }
}

#[test]
fn a_late_beginning_scales_its_noise_to_its_sigma() {
    for name in samplers() {
        let whole = solver(&name, 5.0, 8, None);
        assert!(whole.initial(start()).equal(&start()), "{name}");
        let late = solver(&name, 5.0, 8, Some(3..8));
        let sigma = f64::from(late.sigmas()[late.calls(3).start]);
        assert!(sigma < 0.95, "{name}");
        assert!(late.initial(start()).equal(&(start() * sigma)), "{name}");
    }
}

#[test]
fn steps_that_the_schedule_does_not_have_are_refused() {
    let euler = || along(SamplerKind::Euler, vec![1.0, 0.9, 0.6, 0.2]);
    let new = |steps| Solver::new(euler(), steps);
    assert!(new(0..4).is_some() && new(3..4).is_some());
    assert!(new(0..5).is_none() && new(2..2).is_none() && new(4..4).is_none());
    assert!(new(Range { start: 3, end: 1 }).is_none());
}

#[test]
fn history_of_another_call_is_refused() {
    for name in samplers() {
        let mut long = solver(&name, 5.0, 6, Some(1..5));
        let calls = long.all_calls();
        assert!(!long.restore(calls.start - 1, Vec::new()), "{name}");
        assert!(!long.restore(calls.end + 1, Vec::new()), "{name}");
        assert!(!long.restore(calls.start, vec![start()]), "{name}");
        let much = (0..7).map(|_| start()).collect();
        assert!(!long.restore(calls.start + 1, much), "{name}");
    }
    for (name, call, count) in [
        ("unipc.bh2", 2, 2),
        ("dpmpp_2m.plain", 2, 0),
        ("er_sde.plain", 2, 1),
        ("dpmpp_sde.plain", 3, 2),
        ("heun.plain", 3, 0),
        ("heun.plain", 2, 2),
        ("euler.plain", 2, 1),
    ] {
        let history = (0..count).map(|_| start()).collect();
        assert!(!solver(name, 5.0, 6, None).restore(call, history), "{name}");
    }
}

#[test]
fn seeded_noise_is_independent_of_the_global_generator() {
    let size = [1, 3, 5, 7];
    let first = noise(&size, 7).unwrap();
    assert!(!noise(&size, 8).unwrap().equal(&first));
    let shared = || Tensor::randn([4], (Kind::Float, Device::Cpu));
    // Other tests may draw between two lines of this one.
    let others_go_on = (0..100).any(|_| {
        tch::manual_seed(1);
        let expected = shared();
        tch::manual_seed(1);
        assert!(noise(&size, 7).unwrap().equal(&first));
        shared().equal(&expected)
    });
    assert!(others_go_on);
    assert!(noise(&[-1], 7).is_err());
    assert!(noise(&[1 << 50], 7).is_err());
}
