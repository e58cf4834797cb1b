//! Each stage, given what diffusers had there, gives what diffusers gave.

use super::*;
use crate::closeness::assert_same_pixels;
use crate::families::tests::skipped;

impl Run {
    /// The last latents, with the frame that an image gives.
    fn final_latents(&self) -> Tensor {
        let latents = self.get("latents.final");
        match self.tensors.get("condition") {
            Some(first) => with_first_frame(latents, first),
            None => latents.shallow_clone(),
        }
    }
}

#[test]
fn texts_become_the_embeddings_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let (embeds, ours) =
            recorded(|capture| encode_text(&run.config, &mut run.work(capture, &NoHooks)).unwrap());
        let expected = run.embeds();
        let (found, own) = (&embeds.prompt.prompt, &expected.prompt.prompt);
        assert_close(name, found, own, TEXT_LIMIT);
        let is_guided = run.request.sampling.guidance_scale > 1.0;
        assert_eq!(embeds.negative.is_some(), is_guided);
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
fn an_image_becomes_the_latents_of_the_reference() {
    let run = Run::open("image_to_video");
    let rgb = run.image().unwrap();
    let (latents, ours) = recorded(|capture| {
        encode_image(&run.config, &rgb, None, &mut run.work(capture, &NoHooks)).unwrap()
    });
    assert_close("condition", &latents, run.get("condition"), ENCODER_LIMIT);
    for (name, tensor) in ours {
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
        let skip = SkipOptions {
            cache: None,
            without: blocks.parse().unwrap(),
        };
        let inputs = CallInputs {
            context: &context,
            rope: &rope,
            control: None,
        };
        let (latents, timesteps) = (run.get("latents.initial"), run.timesteps(timestep));
        let found = transformer.forward(latents, &timesteps, inputs, skip, &NoHooks);
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
            let call = |text: &WanContext| transformer.call(input, &timesteps, text, &rope);
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
        let (state, ours) =
            recorded(|capture| run.denoise_part(Expert::Only, None, capture, &NoHooks));
        let latents = state.unwrap().latents;
        let limit = run.limit("latents.final", FINAL_LIMIT);
        assert_close(name, &latents, &run.final_latents(), limit);
        for (name, tensor) in ours {
            if !name.starts_with("transformer.in.") {
                let limit = run.limit(&name, FINAL_LIMIT);
                assert_close(&name, &tensor, run.get(&name), limit);
            }
        }
        assert!(run.latents().equal(&latents), "recording changed {name}");
    }
}

#[test]
fn latents_become_the_frames_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let latents = run.final_latents();
        let recorder = HookRecorder::default();
        let off = &mut StageCapture::off();
        decode(&run.config, &latents, None, &mut run.work(off, &recorder)).unwrap();
        let frames = recorder.frames.take();
        let found = frames.len() as i64;
        assert_eq!(found, latents.size()[2], "frames come in pieces");
        let found = Tensor::cat(&frames, 0).unsqueeze(0);
        assert_same_pixels(name, &found, run.get("output_u8"));
    }
}
