//! Each recorded stage, given what the reference gave it, and the whole loop.

use super::*;
use crate::hooks::NoHooks;

const RUNS: [&str; 4] = ["dev", "schnell", "true_cfg", "image_to_image"];

#[test]
fn noise_is_drawn_in_the_order_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let has_image = run.facts["has_image"] == true;
        let seeds = std::iter::once(run.number("seed") as u64);
        let draws = NoiseDraws::new(run.shape, 1 + usize::from(has_image), seeds).unwrap();
        let drawn: Vec<&Tensor> = draws.posterior.iter().chain([&draws.noise]).collect();
        assert_eq!(drawn.len(), 1 + usize::from(has_image));
        for (i, noise) in drawn.into_iter().enumerate() {
            assert_close(name, noise, run.get(&format!("noise.{i}")), 1e-6);
        }
        let (_, state) = run.start();
        assert_close(name, &state.latents, run.get("latents.initial"), 1e-6);
    }
}

#[test]
fn sigmas_are_shifted_by_the_number_of_tokens_or_not_at_all() {
    for name in RUNS {
        let run = Run::open(name);
        if let Some(mu) = run.facts["mu"].as_f64() {
            assert!((run.scheduler.mu(run.shape.tokens()) - mu).abs() < 1e-12);
        }
        let (solver, _) = run.start();
        let sigmas = Tensor::from_slice(solver.sigmas());
        assert_close(name, &sigmas, run.get("sigmas"), 1e-7);
        assert_close(name, &solver.timesteps(), run.get("timesteps"), 1e-7);
    }
    // 1024 by 1024 pixels.
    assert!((FlowSchedule::from(SchedulerConfig::of_flux(true)).mu(4096) - 1.15).abs() < 1e-12);
}

#[test]
fn one_call_of_the_transformer_is_that_of_the_reference() {
    with_both_frequencies(|| RUNS.into_iter().for_each(assert_one_call));
}

fn assert_one_call(name: &'static str) {
    let run = Run::open(name);
    let timestep = run.get("step.00.timestep").double_value(&[]) as f32;
    let input = run.get("step.00.transformer.in.hidden_states");
    let found = run.prediction(&run.transformer, input, timestep, run.number("guidance"));
    let key = "step.00.transformer.cond";
    // An eps of 1e-5 in place of 1e-6 is 3e-6 off.
    assert_close(name, &found, run.get(key), run.limit(key, 2e-6));
}

#[test]
fn the_whole_loop_is_that_of_the_reference() {
    with_both_frequencies(|| RUNS.into_iter().for_each(assert_whole_loop));
}

fn assert_whole_loop(name: &'static str) {
    let run = Run::open(name);
    let folder = tempfile::tempdir().unwrap();
    let mut record = StageCapture::stage(folder.path(), "denoise").unwrap();
    let found = run.sample(run.inputs(), run.start(), &mut record, &NoHooks);
    let state = found.unwrap();
    record.finish().unwrap();
    let found = tensors_in(&folder.path().join("capture.denoise.safetensors"));
    let of_loop = |key: &&String| {
        key.starts_with("step.") || key.starts_with("latents.") || key.ends_with("_ids")
    };
    for key in run.tensors.keys().filter(of_loop) {
        let limit = match key.rsplit('.').next().unwrap() {
            "timestep" => 1e-7,
            "text_ids" | "latent_image_ids" | "img_ids" | "txt_ids" => 0.0,
            "initial" => 1e-6,
            "cond" | "uncond" | "noise_pred" => 2e-5,
            _ => 3e-5,
        };
        let Some(found) = found.get(key) else {
            assert!(key.starts_with("transformer.in."), "{name}: no {key}");
            continue;
        };
        let limit = run.limit(key, limit);
        assert_close(&format!("{name}: {key}"), found, run.get(key), limit);
    }
    let unpacked = run.shape.unpack(&state.latents);
    let key = "latents.final";
    assert_close(name, &state.latents, run.get(key), run.limit(key, 3e-5));
    // What the autoencoder gets is this, scaled and shifted.
    let decoded = unpacked / 0.3611 + 0.1159;
    let key = "vae.decode.0.input";
    assert_close(name, &decoded, run.get(key), run.limit(key, 3e-5));
}
