//! What configurations and the loop promise beside the right numbers.

use serde_json::json;

use super::*;
use crate::hook_recorder::HookRecorder;
use crate::hooks::NoHooks;

impl Run {
    fn denoise(
        &self,
        start: (Solver, DenoiseState),
        hooks: &dyn Hooks,
    ) -> Result<DenoiseState, EngineError> {
        self.sample(self.inputs(), start, &mut StageCapture::off(), hooks)
    }

    /// The same run with another number of steps.
    fn start_with_steps(&mut self, num_steps: usize) -> (Solver, DenoiseState) {
        self.facts["steps"] = num_steps.into();
        self.start()
    }

    /// Why it does not run.
    fn refusal(&self, start: (Solver, DenoiseState)) -> String {
        self.denoise(start, &NoHooks).unwrap_err().to_string()
    }
}

#[test]
fn flux_run_reports_its_steps_and_resumes_bit_for_bit() {
    let mut run = Run::open("dev");
    let recorder = HookRecorder::default();
    let start = run.start_with_steps(6);
    let whole = run.denoise(start, &recorder).unwrap();
    recorder.assert_steps(6, "dev");
    let previews = recorder.previews.borrow();
    assert_eq!(previews[0].size(), [1, 16, 1, 6, 8]);
    // The last step ends where it points to.
    let last = run.shape.pack(&previews[5].squeeze_dim(2));
    assert_close("preview", &last, &whole.latents, 1e-6);
    let state = recorder.states.borrow_mut().pop().unwrap();
    assert_eq!(state.step, 4);
    let (solver, _) = run.start();
    let again = run.denoise((solver, state), &NoHooks).unwrap();
    assert_eq!(again.latents, whole.latents);
}

#[test]
fn every_step_of_a_long_run_uses_its_own_timestep() {
    let mut run = Run::open("dev");
    let (mut solver, state) = run.start_with_steps(35);
    let distilled = run.guidance().distilled;
    let mut latents = state.latents;
    for call in solver.all_calls() {
        let timestep = solver.timestep(call);
        let velocity = run.prediction(&run.transformer, &latents, timestep, distilled);
        latents = solver.step(call, &velocity, &latents).latents;
    }
    let found = run.denoise(run.start(), &NoHooks).unwrap();
    assert_close("latents", &found.latents, &latents, 1e-5);
}

#[test]
fn a_run_can_be_stopped_between_blocks() {
    let run = Run::open("true_cfg");
    let whole = HookRecorder::default();
    assert!(run.denoise(run.start(), &whole).is_ok());
    // Two steps, two answers each, several blocks an answer.
    assert!(whole.asked.get() >= 2 * 2 * 3);
    for patience in 0..whole.asked.get() {
        let stopped = run.denoise(run.start(), &HookRecorder::impatient(patience));
        assert!(matches!(stopped, Err(EngineError::Cancelled)));
    }
}

#[test]
fn real_guidance_wants_a_scale_above_one_and_a_negative_prompt() {
    let mut run = Run::open("true_cfg");
    let guided = run.denoise(run.start(), &NoHooks).unwrap();
    run.facts["true_cfg"] = json!(1.0);
    let plain = run.denoise(run.start(), &NoHooks).unwrap();
    assert!(distance(&plain.latents, &guided.latents) > 1e-2);
    run.facts["true_cfg"] = json!(2.5);
    let kept = run.tensors.remove("negative_prompt_embeds");
    let alone = run.denoise(run.start(), &NoHooks).unwrap();
    assert_eq!(alone.latents, plain.latents);
    assert!(kept.is_some());
}

#[test]
fn distilled_guidance_affects_flux_dev_but_not_schnell() {
    for (name, has_guidance) in [("dev", true), ("schnell", false)] {
        let run = Run::open(name);
        let [low, high] = [1.0, 8.0].map(|scale| run.first_prediction(&run.transformer, scale));
        assert_eq!(distance(&low, &high) > 1e-3, has_guidance, "{name}");
    }
}

#[test]
fn half_precision_gives_nearly_the_same() {
    let run = Run::open("dev");
    let (_folder, path) = written(&weights_of("dev"));
    let exact = run.first_prediction(&run.transformer, 3.5);
    for (kind, limit) in [(Kind::BFloat16, 3e-2), (Kind::Half, 4e-3)] {
        let w = Weights::open(&path, kind, Device::Cpu).unwrap();
        let transformer = FluxTransformer::new(run.transformer.config(), &w).unwrap();
        let found = run.first_prediction(&transformer, 3.5);
        assert_eq!(found.kind(), Kind::Float);
        assert_close(&format!("{kind:?}"), &found, &exact, limit);
    }
}

#[test]
fn sums_that_leave_the_range_of_f16_are_held_at_its_end() {
    let mut tensors = weights_of("dev");
    for (name, size) in [
        ("x_embedder.bias", 6.5e4),
        ("transformer_blocks.0.ff.net.2.bias", 3e4),
    ] {
        let large = tensors[name].ones_like() * size;
        tensors.insert(name.to_owned(), large);
    }
    let (_folder, path) = written(&tensors);
    let run = Run::open("dev");
    let w = Weights::open(&path, Kind::Half, Device::Cpu).unwrap();
    let transformer = FluxTransformer::new(run.transformer.config(), &w).unwrap();
    let found = run.first_prediction(&transformer, 3.5);
    assert_eq!(found.isfinite().all().int64_value(&[]), 1);
}

#[test]
fn flux_fill_model_requires_and_uses_the_image_condition() {
    let mut run = Run::open("dev");
    let config = FluxTransformerConfig {
        in_channels: 384,
        out_channels: Some(64),
        ..run.transformer.config().clone()
    };
    let channels = (config.condition_channels(), config.latent_channels());
    assert_eq!(channels, (320, 16));
    let mut tensors = weights_of("dev");
    let wide = made_up("transformer.x_embedder.weight", &[64, 384]);
    tensors.insert("x_embedder.weight".to_owned(), wide);
    let (_folder, path) = written(&tensors);
    run.transformer = FluxTransformer::new(&config, &opened(&path)).unwrap();
    let image = made_up("image", &[1, run.shape.tokens(), 320]);
    let fill = |image: &Tensor| {
        let inputs = Inputs {
            condition: Some(image.shallow_clone()),
            ..run.inputs()
        };
        run.sample(inputs, run.start(), &mut StageCapture::off(), &NoHooks)
    };
    let filled = fill(&image).unwrap().latents;
    let other = fill(&(&image * 2.0)).unwrap().latents;
    assert!(distance(&other, &filled) > 1e-3);
    let err = fill(&image.narrow(1, 0, 1)).unwrap_err();
    assert!(err.to_string().contains("not of this job"), "{err}");
}

#[test]
fn an_image_that_is_seen_is_seen_by_each_of_a_batch() {
    let run = Run::open("dev");
    let seen = |seed: &str| ReferenceTokens {
        tokens: Some(made_up(seed, &[1, 6, 64])),
        shapes: vec![ImageLatentShape::new(16, 48, 32).unwrap()],
    };
    let make = |noise: &Tensor, references: ReferenceTokens| {
        let inputs = Inputs {
            references,
            ..run.inputs()
        };
        let mut start = run.start();
        start.1.latents = noise.shallow_clone();
        let found = run.sample(inputs, start, &mut StageCapture::off(), &NoHooks);
        found.unwrap().latents
    };
    let noise = ["one", "two"].map(|seed| made_up(seed, &[1, run.shape.tokens(), 64]) * 8.0);
    let batch = make(&Tensor::cat(&noise, 0), seen("image"));
    for (index, noise) in (0..).zip(&noise) {
        let alone = make(noise, seen("image"));
        assert_close("batch", &batch.narrow(0, index, 1), &alone, 1e-6);
        assert!(distance(&make(noise, seen("other")), &alone) > 1e-3);
        assert!(distance(&make(noise, ReferenceTokens::default()), &alone) > 1e-3);
    }
}

#[test]
fn mismatched_latents_steps_and_embeddings_are_refused() {
    let mut run = Run::open("dev");
    let (solver, mut state) = run.start();
    state.latents = state.latents.narrow(1, 1, 3);
    let text = run.refusal((solver, state));
    assert!(text.contains("no latents of this model"), "{text}");
    let (solver, mut state) = run.start();
    state.step = 99;
    assert!(run.denoise((solver, state), &NoHooks).is_err());
    let embeds = run.tensors["prompt_embeds"].narrow(2, 0, 7);
    run.tensors.insert("prompt_embeds".to_owned(), embeds);
    let text = run.refusal(run.start());
    assert!(text.contains("embeddings"), "{text}");
}

#[test]
fn nan_prompt_embeds_end_the_job_with_advice_to_try_another_dtype() {
    let mut run = Run::open("dev");
    let poison = run.get("prompt_embeds") * f64::NAN;
    run.tensors.insert("prompt_embeds".to_owned(), poison);
    let text = run.refusal(run.start());
    assert!(text.contains("another dtype"), "{text}");
}

#[test]
fn flux_file_with_ambiguous_head_count_requires_a_config() {
    let (_folder, path) = written(&weights_of("dev"));
    let err = FluxTransformerConfig::read(&path).unwrap_err();
    assert!(err.to_string().contains("config.json"), "{err}");
}
