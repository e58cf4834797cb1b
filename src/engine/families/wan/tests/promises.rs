//! What stages promise whoever runs them: to stop, to resume, to survive the disk, to refuse what cannot work.

use super::*;
use crate::families::tests::table;

#[test]
fn a_resumed_loop_gives_the_same_latents_bit_for_bit() {
    for (name, num_steps) in [("text_to_video", 6), ("image_to_video", 7), ("euler", 5)] {
        let mut run = Run::open(name);
        run.request.sampling.num_steps = num_steps;
        let (whole, recorder) = run.assert_resumes(name);
        recorder.assert_steps(num_steps as usize, name);
        let previews = recorder.previews.take();
        assert_eq!(previews.len(), num_steps as usize);
        assert_close("the last preview", previews.last().unwrap(), &whole, 1e-6);
    }
}

#[test]
fn resumed_run_captures_the_same_tensors_as_an_uninterrupted_one() {
    let mut run = Run::open("text_to_video");
    run.request.sampling.num_steps = 6;
    let names = |resume: bool| {
        let dir = tempfile::tempdir().unwrap();
        let mut record = StageCapture::stage(dir.path(), "denoise").unwrap();
        // One question before a step, and one in each of three blocks for two texts: dies in the fifth step.
        let recorder = HookRecorder::impatient(if resume { 4 * 7 + 3 } else { usize::MAX });
        let mut done = run.denoise_part(Expert::Only, None, &mut record, &recorder);
        if resume {
            assert!(done.is_none());
            record = StageCapture::stage(dir.path(), "denoise").unwrap();
            let state = recorder.states.take().pop();
            assert!(state.is_some());
            done = run.denoise_part(Expert::Only, state, &mut record, &NoHooks);
        }
        assert!(done.is_some());
        record.finish().unwrap();
        let path = dir.path().join("capture.denoise.safetensors");
        let tensors = tensor_files::read(&path).unwrap().into_iter();
        tensors.map(|(name, _)| name).collect::<Vec<_>>()
    };
    assert_eq!(names(true), names(false));
}

#[test]
fn a_state_of_another_job_is_not_used() {
    let run = Run::open("text_to_video");
    let whole = run.latents();
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
        let latents = run.denoise(Some(state), &NoHooks);
        assert!(latents.unwrap().equal(&whole));
    }
}

#[test]
fn every_wan_stage_stops_soon_after_cancellation() {
    let run = Run::open("image_to_video");
    let off = &mut StageCapture::off();
    for patience in [0, 1, 4] {
        run.assert_stops(patience);
        let recorder = HookRecorder::impatient(patience);
        let embeds = encode_text(&run.config, &mut run.work(off, &recorder));
        assert!(matches!(embeds, Err(EngineError::Cancelled)));
        assert_eq!(recorder.asked.get(), patience + 1);
        let recorder = HookRecorder::impatient(patience);
        let rgb = run.image().unwrap();
        let latents = encode_image(&run.config, &rgb, None, &mut run.work(off, &recorder));
        assert!(matches!(latents, Err(EngineError::Cancelled)));
        let recorder = HookRecorder::impatient(patience);
        let latents = run.get("latents.final");
        let frames = decode(&run.config, latents, None, &mut run.work(off, &recorder));
        assert!(matches!(frames, Err(EngineError::Cancelled)));
    }
}

#[test]
fn a_transformer_in_bf16_gives_velocities_in_f32() {
    let run = Run::open("euler");
    let half = ComputePlacement {
        kind: Kind::BFloat16,
        ..CPU
    };
    let weights = open_transformer(&run.config.files.transformer, half, &[], Expert::Only).unwrap();
    let transformer = WanTransformer::new(&run.config.transformer, &weights).unwrap();
    drop(weights);
    let size = run.shape().size();
    let latents = Tensor::zeros(size, (Kind::Float, Device::Cpu));
    let text = transformer.context(&run.embeds().prompt.prompt, None);
    let rope = transformer.rope(size);
    let timesteps = run.timesteps(500.0);
    let velocity = transformer.call(&latents, &timesteps, &text, &rope);
    drop(transformer);
    assert_eq!(velocity.kind(), Kind::Float);
    assert!(velocity.isfinite().all().int64_value(&[]) == 1);
}

#[test]
fn sizes_that_the_model_cannot_make_are_refused() {
    let run = Run::open("text_to_video");
    let sizes = [
        (0, 32, 5),
        (64, 48, 5),
        (65, 32, 5),
        (64, 32, 6),
        (64, 32, 0),
    ];
    for (width, height, num_frames) in sizes {
        let request = GenerateRequest {
            width,
            height,
            num_frames,
            ..run.request.clone()
        };
        let shape = latent_shape(&run.config, &request);
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
    let (expected, found) = (run.embeds(), loaded.negative.unwrap().prompt);
    assert!(loaded.prompt.prompt.equal(&expected.prompt.prompt));
    assert!(found.equal(&expected.negative.unwrap().prompt));
    tensor_files::write_one(&path, "latents", run.get("latents.final")).unwrap();
    let read = tensor_files::read_one(&path, "latents").unwrap();
    assert!(read.equal(run.get("latents.final")));
    assert!(tensor_files::read_one(&path, "other").is_err());
    assert!(PromptEmbeds::load(&path).is_err());
    assert!(DenoiseState::load(&path).is_err());
    let bytes = fs::read(&path).unwrap();
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    assert!(tensor_files::read_one(&path, "latents").is_err());
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
    WanConfig::read(&ModelFiles::of_folder(dir.path()).unwrap())
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    assert!(config_with("model_index.json", |_| ()).is_ok());
    for (place, value) in table(
        "transformer/config.json num_layers -> 0
         transformer/config.json num_attention_heads -> -2
         transformer/config.json attention_head_dim -> 7
         transformer/config.json ffn_dim -> 1e30
         transformer/config.json patch_size -> [1, 0, 2]
         transformer/config.json patch_size -> [2, 2]
         text_encoder/config.json feed_forward_proj -> \"relu\"
         text_encoder/config.json num_heads -> \"three\"
         text_encoder/config.json relative_attention_num_buckets -> 0
         scheduler/scheduler_config.json _class_name -> \"DDIMScheduler\"
         scheduler/scheduler_config.json use_flow_sigmas -> false
         scheduler/scheduler_config.json use_karras_sigmas -> true
         scheduler/scheduler_config.json solver_order -> 9
         scheduler/scheduler_config.json flow_shift -> -1.0
         vae/config.json z_dim -> 0",
    ) {
        let (file, key) = place.split_once(' ').unwrap();
        let value: Value = serde_json::from_str(value).unwrap();
        let found = config_with(file, |config| config[key] = value);
        let err = found.err().unwrap_or_else(|| panic!("{place}"));
        // Values of another type make a damaged file.
        let is_of_file = matches!(err, EngineError::Catalog(CatalogError::WrongFile { .. }));
        assert!(is_of_file, "{err}");
    }
}

#[test]
fn a_mis_shaped_weight_is_named() {
    let mut run = Run::open("euler");
    run.config.transformer.ffn_dim += 1;
    let text = run.refusal(Expert::Only);
    assert!(text.contains("'blocks.0.ffn.net.0.proj.weight'"), "{text}");
    assert!(text.contains("expected [97, 64], found [96, 64]"), "{text}");
}
