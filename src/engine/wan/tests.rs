//! Every stage against what diffusers recorded (`tests/fixtures/wan`), and the promises of the stages.
//!
//! Limits are relative L2 distances; mistakes such as another GELU stand an order of magnitude above them.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::GenerateRequest;
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use super::*;
use crate::capture::{self, Capture};
use crate::hooks::NoHooks;
use crate::sampling::noise;
use crate::store;

const RUNS: [&str; 4] = ["text_to_video", "image_to_video", "euler", "text_to_image"];
const CPU: Placement = Placement {
    device: Device::Cpu,
    kind: Kind::Float,
};

const NOISE_LIMIT: f64 = 1e-6;
const TEXT_LIMIT: f64 = 1e-5;
const ENCODER_LIMIT: f64 = 1e-5;
const CALL_LIMIT: f64 = 5e-6;
const GUIDED_LIMIT: f64 = 2e-5;
const FINAL_LIMIT: f64 = 3e-5;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/wan")
}

/// One recorded run of diffusers.
struct Run {
    tensors: BTreeMap<String, Tensor>,
    request: GenerateRequest,
    config: WanConfig,
}

impl Run {
    fn open(name: &str) -> Self {
        let file = fixtures().join(format!("{name}.safetensors"));
        let tensors = store::read(&file).unwrap().into_iter().collect();
        let facts = fs::read(file.with_extension("json")).unwrap();
        let facts: Value = serde_json::from_slice(&facts).unwrap();
        let folder = fixtures().join("pipeline");
        let sampler = facts["scheduler"].as_str().unwrap_or("unipc");
        let request = json!({
            "model": "tiny", "family": "wan", "model_folder": folder, "out": "clip.mp4", "fps": 24.0,
            "prompt": facts["prompt"], "negative_prompt": facts["negative"], "width": facts["width"],
            "height": facts["height"], "num_frames": facts["frames"], "num_steps": facts["steps"],
            "guidance_scale": facts["guidance"], "shift": facts["flow_shift"], "sampler": sampler,
            "seed": facts["seed"],
        });
        Self {
            tensors,
            request: serde_json::from_value(request).unwrap(),
            config: WanConfig::read(&folder).unwrap(),
        }
    }

    fn get(&self, name: &str) -> &Tensor {
        let tensor = self.tensors.get(name);
        tensor.unwrap_or_else(|| panic!("the fixture has no {name}"))
    }

    fn step(&self, step: usize, part: &str) -> Option<&Tensor> {
        self.tensors.get(&format!("step.{step:02}.{part}"))
    }

    fn shape(&self) -> LatentShape {
        let r = &self.request;
        LatentShape::new(&self.config, r.width, r.height, r.num_frames).unwrap()
    }

    fn picture(&self) -> Option<Vec<u8>> {
        let pixels = self.tensors.get("image.source_u8")?;
        Some(pixels.flatten(0, 2).try_into().unwrap())
    }

    fn embeds(&self) -> PromptEmbeds {
        let whole = |name: &str| {
            let rows = self.tensors.get(name)?;
            let missing = TEXT_LENGTH as i64 - rows.size()[1];
            Some(rows.constant_pad_nd([0, 0, 0, missing]))
        };
        PromptEmbeds {
            prompt: whole("prompt_embeds").unwrap(),
            negative: whole("negative_prompt_embeds"),
        }
    }

    fn timesteps(&self, timestep: f32) -> TokenTimesteps {
        let (per_frame, frames) = self.shape().tokens(self.config.transformer.patch_size);
        if self.picture().is_some() {
            TokenTimesteps::with_clean_start(timestep, per_frame, per_frame * (frames - 1))
        } else {
            TokenTimesteps::uniform(timestep, per_frame * frames)
        }
    }

    fn transformer(&self) -> WanTransformer {
        let folder = self.config.folder.join("transformer");
        let weights = Weights::open(&folder, Kind::Float, Device::Cpu).unwrap();
        let weights = weights.translated(diffusers_from_original);
        let transformer = WanTransformer::new(&self.config.transformer, &weights).unwrap();
        assert!(weights.finish().is_empty(), "{:?}", weights.finish());
        transformer
    }

    fn denoise(
        &self,
        resume: Option<DenoiseState>,
        capture: &mut Capture,
        hooks: &dyn Hooks,
    ) -> Option<Tensor> {
        let first = self.tensors.get("condition");
        let embeds = self.embeds();
        denoise(
            &self.config,
            &self.request,
            &embeds,
            first,
            resume,
            CPU,
            capture,
            hooks,
        )
        .unwrap()
    }
}

fn distance(found: &Tensor, expected: &Tensor) -> f64 {
    assert_eq!(found.size(), expected.size());
    let (found, expected) = (found.to_kind(Kind::Double), expected.to_kind(Kind::Double));
    let difference = (found - &expected).norm().double_value(&[]);
    difference / expected.norm().double_value(&[]).max(f64::MIN_POSITIVE)
}

#[track_caller]
fn assert_close(what: &str, found: &Tensor, expected: &Tensor, limit: f64) {
    let distance = distance(found, expected);
    assert!(
        distance <= limit,
        "{what}: {distance:.1e} is above {limit:.0e}"
    );
}

#[test]
fn texts_become_the_embeddings_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let dir = tempfile::tempdir().unwrap();
        let mut record = Capture::stage(dir.path(), "encode_text").unwrap();
        let embeds = encode_text(&run.config, &run.request, CPU, &mut record, &NoHooks)
            .unwrap()
            .unwrap();
        record.finish().unwrap();
        let path = capture::merge(dir.path()).unwrap();
        let ours: BTreeMap<_, _> = store::read(&path).unwrap().into_iter().collect();
        let expected = run.embeds();
        assert_close(name, &embeds.prompt, &expected.prompt, TEXT_LIMIT);
        assert_eq!(embeds.negative.is_some(), run.request.guidance_scale > 1.0);
        if let Some(negative) = &embeds.negative {
            let expected = expected.negative.unwrap();
            assert_close(name, negative, &expected, TEXT_LIMIT);
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
    let mut record = Capture::stage(dir.path(), "encode_image").unwrap();
    let rgb = run.picture().unwrap();
    let latents = encode_image(&run.config, &run.request, &rgb, CPU, &mut record, &NoHooks)
        .unwrap()
        .unwrap();
    record.finish().unwrap();
    assert_close("condition", &latents, run.get("condition"), ENCODER_LIMIT);
    let path = capture::merge(dir.path()).unwrap();
    for (name, tensor) in store::read(&path).unwrap() {
        assert_close(&name, &tensor, run.get(&name), ENCODER_LIMIT);
    }
}

#[test]
fn one_call_of_the_transformer_is_that_of_the_reference() {
    for name in RUNS {
        let run = Run::open(name);
        let transformer = run.transformer();
        let rope = transformer.rope(run.shape().size());
        let embeds = run.embeds();
        let prompt = transformer.text_context(&embeds.prompt);
        let solver = new_solver(&run.config.scheduler, &run.request).unwrap();
        for step in 0..run.request.num_steps as usize {
            let timesteps = run.timesteps(solver.timestep(step));
            let per_token = run.step(step, "transformer.in.timestep").unwrap();
            assert!(timesteps.per_token().equal(per_token));
            let input = run.step(step, "transformer.in.hidden_states").unwrap();
            let call = |text: &TextContext| {
                transformer
                    .forward(input, &timesteps, text, &rope, &NoHooks)
                    .unwrap()
            };
            let cond = call(&prompt);
            let expected = run.step(step, "transformer.cond").unwrap();
            assert_close(name, &cond, expected, CALL_LIMIT);
            if let Some(expected) = run.step(step, "transformer.uncond") {
                let negative = transformer.text_context(embeds.negative.as_ref().unwrap());
                let uncond = call(&negative);
                assert_close(name, &uncond, expected, CALL_LIMIT);
                let guided = &uncond + (cond - &uncond) * run.request.guidance_scale;
                let expected = run.step(step, "noise_pred").unwrap();
                assert_close(name, &guided, expected, GUIDED_LIMIT);
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
        for step in 0..run.request.num_steps as usize {
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
        let mut record = Capture::stage(dir.path(), "denoise").unwrap();
        let latents = run.denoise(None, &mut record, &NoHooks).unwrap();
        let expected = match run.tensors.get("condition") {
            Some(first) => with_first_frame(run.get("latents.final"), first),
            None => run.get("latents.final").shallow_clone(),
        };
        assert_close(name, &latents, &expected, FINAL_LIMIT);
        record.finish().unwrap();
        let path = capture::merge(dir.path()).unwrap();
        for (name, tensor) in store::read(&path).unwrap() {
            if !name.starts_with("transformer.in.") {
                assert_close(&name, &tensor, run.get(&name), FINAL_LIMIT);
            }
        }
        let plain = run.denoise(None, &mut Capture::off(), &NoHooks).unwrap();
        assert!(plain.equal(&latents), "recording changed {name}");
    }
}

/// Keeps what it is given; asks for a stop when it has been asked often enough.
#[derive(Default)]
struct Keeper {
    frames: RefCell<Vec<Tensor>>,
    states: RefCell<Vec<DenoiseState>>,
    steps: RefCell<Vec<(usize, usize)>>,
    previews: RefCell<Vec<Tensor>>,
    asked: Cell<usize>,
    patience: Option<usize>,
}

impl Hooks for Keeper {
    fn cancelled(&self) -> bool {
        self.asked.set(self.asked.get() + 1);
        self.patience
            .is_some_and(|patience| self.asked.get() > patience)
    }
    fn step(&self, step: usize, num_steps: usize) {
        self.steps.borrow_mut().push((step, num_steps));
    }
    fn preview(&self, x0_latents: &Tensor) {
        self.previews.borrow_mut().push(x0_latents.copy());
    }
    fn frames(&self, frames: &Tensor) {
        self.frames.borrow_mut().push(frames.copy());
    }
    fn checkpoint(&self, state: DenoiseState) {
        self.states.borrow_mut().push(state);
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
        let done = decode(&run.config, &latents, CPU, &mut Capture::off(), &keeper);
        assert!(done.unwrap().is_some());
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

#[test]
fn a_resumed_loop_gives_the_same_latents_bit_for_bit() {
    for (name, num_steps) in [("text_to_video", 6), ("image_to_video", 7), ("euler", 5)] {
        let mut run = Run::open(name);
        run.request.num_steps = num_steps;
        let keeper = Keeper::default();
        let whole = run.denoise(None, &mut Capture::off(), &keeper).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state.safetensors");
        let states = keeper.states.take();
        assert!(!states.is_empty());
        for state in states {
            state.save(&path).unwrap();
            let state = DenoiseState::load(&path).unwrap();
            let again = run.denoise(Some(state), &mut Capture::off(), &NoHooks);
            assert!(again.unwrap().equal(&whole), "{name}");
        }
        let counted: Vec<_> = (1..=num_steps as usize)
            .map(|i| (i, num_steps as usize))
            .collect();
        assert_eq!(keeper.steps.take(), counted);
        assert_eq!(keeper.previews.take().len(), num_steps as usize);
    }
}

#[test]
fn a_resumed_run_records_what_a_whole_one_does() {
    let mut run = Run::open("text_to_video");
    run.request.num_steps = 6;
    let names = |resume: bool| {
        let dir = tempfile::tempdir().unwrap();
        let mut record = Capture::stage(dir.path(), "denoise").unwrap();
        let keeper = Keeper {
            // One question before a step, and one in each of three blocks for two texts: dies in the fifth step.
            patience: resume.then_some(4 * 7 + 3),
            ..Keeper::default()
        };
        let mut done = run.denoise(None, &mut record, &keeper);
        if resume {
            assert!(done.is_none());
            record = Capture::stage(dir.path(), "denoise").unwrap();
            let state = keeper.states.take().pop();
            assert!(state.is_some());
            done = run.denoise(state, &mut record, &NoHooks);
        }
        assert!(done.is_some());
        record.finish().unwrap();
        let path = capture::merge(dir.path()).unwrap();
        let tensors = store::read(&path).unwrap().into_iter();
        tensors.map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(true), names(false));
}

#[test]
fn the_last_preview_is_the_result() {
    let run = Run::open("image_to_video");
    let keeper = Keeper::default();
    let latents = run.denoise(None, &mut Capture::off(), &keeper).unwrap();
    let previews = keeper.previews.take();
    assert_close("preview", previews.last().unwrap(), &latents, 1e-6);
}

#[test]
fn a_state_of_another_job_is_not_used() {
    let run = Run::open("text_to_video");
    let whole = run.denoise(None, &mut Capture::off(), &NoHooks).unwrap();
    let f32s = (Kind::Float, Device::Cpu);
    for (step, size, history) in [
        (1, vec![1, 2, 3], 2),
        (99, run.shape().size().to_vec(), 3),
        (2, run.shape().size().to_vec(), 1),
    ] {
        let tensor = || Tensor::zeros(&size, f32s);
        let state = DenoiseState {
            step,
            latents: tensor(),
            history: (0..history).map(|_| tensor()).collect(),
        };
        let latents = run.denoise(Some(state), &mut Capture::off(), &NoHooks);
        assert!(latents.unwrap().equal(&whole));
    }
}

#[test]
fn every_stage_stops_soon_when_it_is_asked_to() {
    let run = Run::open("image_to_video");
    let off = &mut Capture::off();
    for patience in [0, 1, 4] {
        let impatient = || Keeper {
            patience: Some(patience),
            ..Keeper::default()
        };
        let keeper = impatient();
        let embeds = encode_text(&run.config, &run.request, CPU, off, &keeper);
        assert!(embeds.unwrap().is_none());
        assert_eq!(keeper.asked.get(), patience + 1);
        let keeper = impatient();
        let rgb = run.picture().unwrap();
        let latents = encode_image(&run.config, &run.request, &rgb, CPU, off, &keeper);
        assert!(latents.unwrap().is_none());
        let keeper = impatient();
        assert!(run.denoise(None, off, &keeper).is_none());
        assert_eq!(keeper.asked.get(), patience + 1);
        let keeper = impatient();
        let frames = decode(&run.config, run.get("latents.final"), CPU, off, &keeper);
        assert!(frames.unwrap().is_none());
    }
}

#[test]
fn no_weights_stay_mapped_when_a_stage_is_over() {
    // Other tests of this process map weights too, so the measure is this folder alone.
    let run = Run::open("euler");
    let weights = Weights::open(
        &run.config.folder.join("transformer"),
        Kind::BFloat16,
        Device::Cpu,
    )
    .unwrap()
    .translated(diffusers_from_original);
    let transformer = WanTransformer::new(&run.config.transformer, &weights).unwrap();
    drop(weights);
    let size = run.shape().size();
    let latents = Tensor::zeros(size, (Kind::Float, Device::Cpu));
    let text = transformer.text_context(&run.embeds().prompt);
    let rope = transformer.rope(size);
    let timesteps = run.timesteps(500.0);
    let velocity = transformer.forward(&latents, &timesteps, &text, &rope, &NoHooks);
    drop(transformer);
    let velocity = velocity.unwrap();
    assert_eq!(velocity.kind(), Kind::Float);
    assert!(velocity.isfinite().all().int64_value(&[]) == 1);
}

#[test]
fn sizes_that_the_model_cannot_make_are_refused() {
    let run = Run::open("text_to_video");
    for (width, height, num_frames) in [
        (0, 32, 5),
        (64, 48, 5),
        (65, 32, 5),
        (64, 32, 6),
        (64, 32, 0),
    ] {
        let shape = LatentShape::new(&run.config, width, height, num_frames);
        assert!(matches!(shape, Err(EngineError::Request { .. })));
    }
}

#[test]
fn results_of_stages_survive_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("prompt.safetensors");
    let run = Run::open("text_to_video");
    run.embeds().save(&path).unwrap();
    let loaded = PromptEmbeds::load(&path).unwrap();
    assert!(loaded.prompt.equal(&run.embeds().prompt));
    assert!(
        loaded
            .negative
            .unwrap()
            .equal(&run.embeds().negative.unwrap())
    );
    save_tensor(&path, "latents", run.get("latents.final")).unwrap();
    assert!(
        load_tensor(&path, "latents")
            .unwrap()
            .equal(run.get("latents.final"))
    );
    assert!(load_tensor(&path, "other").is_err());
    assert!(PromptEmbeds::load(&path).is_err());
    assert!(DenoiseState::load(&path).is_err());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(load_tensor(&path, "latents").is_err());
}

/// A copy of the fixture's configuration files with one of them changed.
fn config_with(file: &str, change: impl FnOnce(&mut Value)) -> Result<WanConfig, EngineError> {
    let dir = tempfile::tempdir().unwrap();
    let files = [
        "model_index.json",
        "transformer/config.json",
        "text_encoder/config.json",
        "vae/config.json",
        "scheduler/scheduler_config.json",
    ];
    for name in files {
        let to = dir.path().join(name);
        fs::create_dir_all(to.parent().unwrap()).unwrap();
        fs::copy(fixtures().join("pipeline").join(name), to).unwrap();
    }
    let path = dir.path().join(file);
    let mut value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(&path, value.to_string()).unwrap();
    WanConfig::read(dir.path())
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    assert!(config_with("model_index.json", |_| ()).is_ok());
    let changes = [
        ("transformer/config.json", "num_layers", json!(0)),
        ("transformer/config.json", "num_attention_heads", json!(-2)),
        ("transformer/config.json", "attention_head_dim", json!(7)),
        ("transformer/config.json", "ffn_dim", json!(1e30)),
        ("transformer/config.json", "patch_size", json!([1, 0, 2])),
        ("transformer/config.json", "patch_size", json!([2, 2])),
        ("transformer/config.json", "in_channels", json!(16)),
        ("transformer/config.json", "text_dim", json!(41)),
        ("transformer/config.json", "image_dim", json!(1280)),
        (
            "text_encoder/config.json",
            "feed_forward_proj",
            json!("relu"),
        ),
        ("text_encoder/config.json", "num_heads", json!("three")),
        (
            "text_encoder/config.json",
            "relative_attention_num_buckets",
            json!(0),
        ),
        (
            "scheduler/scheduler_config.json",
            "_class_name",
            json!("DDIMScheduler"),
        ),
        (
            "scheduler/scheduler_config.json",
            "use_flow_sigmas",
            json!(false),
        ),
        (
            "scheduler/scheduler_config.json",
            "use_karras_sigmas",
            json!(true),
        ),
        ("scheduler/scheduler_config.json", "solver_order", json!(9)),
        ("scheduler/scheduler_config.json", "flow_shift", json!(-1.0)),
        (
            "model_index.json",
            "transformer_2",
            json!(["diffusers", "WanTransformer3DModel"]),
        ),
        ("vae/config.json", "z_dim", json!(0)),
    ];
    for (file, key, value) in changes {
        let found = config_with(file, |config| config[key] = value.clone());
        let err = found
            .err()
            .unwrap_or_else(|| panic!("{file}: {key} = {value}"));
        assert!(matches!(err, EngineError::Config { .. }), "{err}");
    }
}

#[test]
fn a_mis_shaped_weight_is_named() {
    let run = Run::open("euler");
    let mut config = run.config.clone();
    config.transformer.ffn_dim += 1;
    let err = denoise(
        &config,
        &run.request,
        &run.embeds(),
        None,
        None,
        CPU,
        &mut Capture::off(),
        &NoHooks,
    )
    .unwrap_err();
    let text = err.to_string();
    assert!(text.contains("'blocks.0.ffn.net.0.proj.weight'"), "{text}");
    assert!(text.contains("expected [97, 64], found [96, 64]"), "{text}");
}
