//! Each stage, given what diffusers had there, gives what diffusers gave.

use super::*;
use crate::families::tests::skipped;
use crate::step_cache::SkipOptions;

#[test]
fn texts_become_the_embeddings_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let dir = tempfile::tempdir().unwrap();
        let mut record = StageCapture::stage(dir.path(), "encode_text").unwrap();
        let embeds = encode_text(&run.config, &mut run.work(&mut record, &NoHooks)).unwrap();
        record.finish().unwrap();
        let path = capture::merge(dir.path()).unwrap();
        let ours: BTreeMap<_, _> = tensor_files::read(&path).unwrap().into_iter().collect();
        let expected = run.embeds();
        assert_close(
            name,
            &embeds.prompt.prompt,
            &expected.prompt.prompt,
            TEXT_LIMIT,
        );
        assert_eq!(
            embeds.negative.is_some(),
            run.request.sampling.guidance_scale > 1.0
        );
        if let Some(negative) = &embeds.negative {
            let expected = expected.negative.unwrap();
            assert_close(name, &negative.prompt, &expected.prompt, TEXT_LIMIT);
        }
        for part in ["input_ids", "attention_mask"] {
            let key = format!("tokenizer.prompt.{part}");
            assert!(ours[&key].equal(run.get(&key)), "{name} {key}");
        }
        let key = "text_encoder.prompt.last_hidden_state";
        let rows = run.get(key).size()[1];
        assert_close(key, &ours[key].narrow(1, 0, rows), run.get(key), TEXT_LIMIT);
    }
}

#[test]
fn a_seed_draws_the_noise_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let drawn = noise(&run.shape().size(), run.request.seed).unwrap();
        assert_close(name, &drawn, run.get("noise.0"), NOISE_LIMIT);
    }
}

#[test]
fn schedules_are_those_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let solver = new_solver(&run.config.scheduler, &run.request).unwrap();
        let sigmas = Tensor::from_slice(solver.sigmas());
        assert_close(name, &sigmas, run.get("sigmas"), NOISE_LIMIT);
        let timesteps = solver.timesteps();
        assert_eq!(timesteps.kind(), run.get("timesteps").kind());
        assert!(timesteps.equal(run.get("timesteps")), "{name}");
    }
}

#[test]
fn a_picture_becomes_the_latents_of_the_reference() {
    let run = Run::open("image_to_video");
    let dir = tempfile::tempdir().unwrap();
    let mut record = StageCapture::stage(dir.path(), "encode_image").unwrap();
    let rgb = run.picture().unwrap();
    let work = &mut run.work(&mut record, &NoHooks);
    let latents = encode_image(&run.config, &rgb, None, work).unwrap();
    record.finish().unwrap();
    assert_close("condition", &latents, run.get("condition"), ENCODER_LIMIT);
    let path = capture::merge(dir.path()).unwrap();
    for (name, tensor) in tensor_files::read(&path).unwrap() {
        assert_close(&name, &tensor, run.get(&name), ENCODER_LIMIT);
    }
}

#[test]
fn a_call_without_some_blocks_is_that_of_the_reference() {
    let run = Run::open("text_to_video");
    let transformer = run.transformer();
    let timestep = run.get("step.00.timestep").double_value(&[]) as f32;
    let context = transformer.context(&run.embeds().prompt.prompt, None);
    let rope = transformer.rope(run.shape().size());
    for (name, blocks) in [("0", "0"), ("1", "1"), ("0,last", "0,2")] {
        let shortcut = SkipOptions {
            cache: None,
            without: blocks.parse().unwrap(),
        };
        let beside = CallInputs {
            context: &context,
            rope: &rope,
            control: None,
        };
        let (latents, timesteps) = (run.get("latents.initial"), run.timesteps(timestep));
        let found = transformer.forward_beside(latents, &timesteps, beside, shortcut, &NoHooks);
        let expected = skipped(&format!("wan.{name}"));
        assert_close(name, &found.unwrap(), &expected, CALL_LIMIT);
    }
}

#[test]
fn one_call_of_the_transformer_is_that_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let transformer = run.transformer();
        let rope = transformer.rope(run.shape().size());
        let embeds = run.embeds();
        let prompt = transformer.context(&embeds.prompt.prompt, None);
        let solver = new_solver(&run.config.scheduler, &run.request).unwrap();
        for step in 0..run.request.sampling.num_steps as usize {
            let timesteps = run.timesteps(solver.timestep(step));
            let per_token = run.step(step, "transformer.in.timestep").unwrap();
            assert!(timesteps.per_token().equal(per_token));
            let input = run.step(step, "transformer.in.hidden_states").unwrap();
            let call = |text: &WanContext| {
                transformer
                    .forward(input, &timesteps, text, &rope, &NoHooks)
                    .unwrap()
            };
            let cond = call(&prompt);
            let limit_of = |part: &str, base| run.limit(&format!("step.{step:02}.{part}"), base);
            let expected = run.step(step, "transformer.cond").unwrap();
            let limit = limit_of("transformer.cond", CALL_LIMIT);
            assert_close(name, &cond, expected, limit);
            if let Some(expected) = run.step(step, "transformer.uncond") {
                let negative = embeds.negative.as_ref().unwrap();
                let negative = transformer.context(&negative.prompt, None);
                let uncond = call(&negative);
                let limit = limit_of("transformer.uncond", CALL_LIMIT);
                assert_close(name, &uncond, expected, limit);
                let guided = &uncond + (cond - &uncond) * run.request.sampling.guidance_scale;
                let expected = run.step(step, "noise_pred").unwrap();
                let limit = limit_of("noise_pred", GUIDED_LIMIT);
                assert_close(name, &guided, expected, limit);
            }
        }
    }
}

#[test]
fn one_step_of_a_sampler_is_that_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let mut solver = new_solver(&run.config.scheduler, &run.request).unwrap();
        let mut latents = run.get("latents.initial").shallow_clone();
        for step in 0..run.request.sampling.num_steps as usize {
            let velocity = run.step(step, "noise_pred").unwrap();
            let next = solver.step(step, velocity, &latents);
            let expected = run.step(step, "latents").unwrap();
            assert_close(name, &next.latents, expected, NOISE_LIMIT);
            latents = expected.shallow_clone();
        }
    }
}

#[test]
fn the_whole_loop_ends_at_the_latents_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let dir = tempfile::tempdir().unwrap();
        let mut record = StageCapture::stage(dir.path(), "denoise").unwrap();
        let latents = run.denoise(None, &mut record, &NoHooks).unwrap();
        let expected = match run.tensors.get("condition") {
            Some(first) => with_first_frame(run.get("latents.final"), first),
            None => run.get("latents.final").shallow_clone(),
        };
        let limit = run.limit("latents.final", FINAL_LIMIT);
        assert_close(name, &latents, &expected, limit);
        record.finish().unwrap();
        let path = capture::merge(dir.path()).unwrap();
        for (name, tensor) in tensor_files::read(&path).unwrap() {
            if !name.starts_with("transformer.in.") {
                let limit = run.limit(&name, FINAL_LIMIT);
                assert_close(&name, &tensor, run.get(&name), limit);
            }
        }
        let plain = run
            .denoise(None, &mut StageCapture::off(), &NoHooks)
            .unwrap();
        assert!(plain.equal(&latents), "recording changed {name}");
    }
}

#[test]
fn latents_become_the_frames_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let latents = match run.tensors.get("condition") {
            Some(first) => with_first_frame(run.get("latents.final"), first),
            None => run.get("latents.final").shallow_clone(),
        };
        let keeper = Keeper::default();
        let off = &mut StageCapture::off();
        decode(&run.config, &latents, None, &mut run.work(off, &keeper)).unwrap();
        let frames = keeper.frames.take();
        assert_eq!(
            frames.len() as i64,
            latents.size()[2],
            "frames come in pieces"
        );
        let found = Tensor::cat(&frames, 0).unsqueeze(0).to_kind(Kind::Int);
        let expected = run.get("output_u8").to_kind(Kind::Int);
        assert_eq!(found.size(), expected.size());
        let difference = (found - expected).abs();
        assert!(difference.max().int64_value(&[]) <= 1);
        let share = difference.to_kind(Kind::Double).mean(Kind::Double);
        assert!(share.double_value(&[]) < 0.01);
    }
}
