//! Samplers against whole walks of diffusers' schedulers (`tests/fixtures/sampling`).

use std::collections::BTreeMap;
use std::path::Path;

use tch::{Device, Kind, Tensor};

use super::{Euler, Solver, UniPc, UniPcOptions, noise};
use crate::store;

fn recorded() -> BTreeMap<String, Tensor> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/fixtures/sampling/recorded.safetensors");
    store::read(&path).unwrap().into_iter().collect()
}

/// The same formula as in `generate.py`.
fn velocity(latents: &Tensor, timestep: f32) -> Tensor {
    (latents * 2.0).sin() + latents * 0.5 + f64::from(timestep) / 1000.0
}

fn unipc(name: &str, num_steps: usize) -> Solver {
    let plain = UniPcOptions::default();
    let (shift, options) = match name {
        "plain" => (5.0, plain),
        "order1" => (3.0, UniPcOptions { order: 1, ..plain }),
        "order3" => (1.0, UniPcOptions { order: 3, ..plain }),
        "bh1" => {
            let options = UniPcOptions {
                is_bh1: true,
                ends_at_sigma_min: true,
                ..plain
            };
            (8.0, options)
        }
        "sigma_min" | "no_lower_order" => {
            let options = UniPcOptions {
                ends_at_sigma_min: true,
                lower_order_final: name == "sigma_min",
                ..plain
            };
            (5.0, options)
        }
        "no_corrector" => {
            let options = UniPcOptions {
                disable_corrector: vec![0, 2],
                ..plain
            };
            (5.0, options)
        }
        other => panic!("the fixture has a setting {other} that the test does not know"),
    };
    Solver::UniPc(UniPc::new(num_steps, shift, options))
}

fn euler(name: &str, num_steps: usize) -> Solver {
    let shift = name.strip_prefix("shift").unwrap().parse().unwrap();
    Solver::Euler(Euler::new(num_steps, shift, 1000))
}

fn start() -> Tensor {
    let values: Vec<f32> = (0..12).map(|i| -2.0 + 4.0 * i as f32 / 11.0).collect();
    Tensor::from_slice(&values).view([1, 3, 1, 2, 2])
}

#[test]
fn every_setting_walks_as_the_reference_does() {
    let recorded = recorded();
    let mut walks = 0;
    for (key, expected) in &recorded {
        let Some(walk) = key.strip_suffix(".latents") else {
            continue;
        };
        let [kind, name, steps] = walk.split('.').collect::<Vec<_>>()[..] else {
            panic!("an unknown walk {walk}");
        };
        let num_steps = steps.parse().unwrap();
        let mut solver = match kind {
            "unipc" => unipc(name, num_steps),
            _ => euler(name, num_steps),
        };
        assert!(
            solver
                .timesteps()
                .equal(&recorded[&format!("{walk}.timesteps")]),
            "{walk}"
        );
        let sigmas = Tensor::from_slice(solver.sigmas());
        let off = (sigmas - &recorded[&format!("{walk}.sigmas")]).abs().max();
        assert!(
            off.double_value(&[]) <= 1e-7,
            "{walk}: sigmas are off by {off:?}"
        );
        let mut latents = start();
        for step in 0..num_steps {
            let velocity = velocity(&latents, solver.timestep(step));
            latents = solver.step(step, &velocity, &latents).latents;
            let expected = expected.get(step as i64);
            let off = (&latents - &expected).norm().double_value(&[]);
            let off = off / expected.norm().double_value(&[]);
            // The reference's own walk without vector units is this far away.
            assert!(off <= 5e-6, "{walk} step {step}: {off:.1e}");
        }
        walks += 1;
    }
    assert_eq!(walks, 47);
}

#[test]
fn a_step_starts_where_the_velocity_points() {
    let latents = start();
    for mut solver in [unipc("plain", 4), euler("shift5", 4)] {
        let x0 = Tensor::ones_like(&latents);
        let sigma = f64::from(solver.sigmas()[0]);
        let velocity = (&latents - &x0) / sigma;
        let found = solver.step(0, &velocity, &latents).x0;
        assert!(found.allclose(&x0, 1e-5, 1e-6, false));
        assert_eq!(found.kind(), Kind::Float);
    }
}

#[test]
fn history_of_another_step_is_refused() {
    let latents = start();
    let mut solver = unipc("plain", 5);
    for step in 0..3 {
        assert_eq!(solver.history().len(), [0, 2, 3][step]);
        drop(solver.step(step, &latents, &latents));
    }
    let history = solver.history();
    assert!(!unipc("plain", 5).restore(1, history));
    assert!(unipc("plain", 5).restore(3, solver.history()));
    assert!(!euler("shift1", 5).restore(3, solver.history()));
}

#[test]
fn a_seed_gives_the_same_noise_whatever_others_draw() {
    let size = [1, 3, 5, 7];
    let first = noise(&size, 7).unwrap();
    tch::manual_seed(1);
    let shared = Tensor::randn([4], (Kind::Float, Device::Cpu));
    tch::manual_seed(1);
    let again = noise(&size, 7).unwrap();
    assert!(again.equal(&first));
    assert!(!noise(&size, 8).unwrap().equal(&first));
    assert!(Tensor::randn([4], (Kind::Float, Device::Cpu)).equal(&shared));
    assert!(noise(&[-1], 7).is_err());
    assert!(noise(&[1 << 50], 7).is_err());
}
