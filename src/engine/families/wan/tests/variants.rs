//! Every variant of Wan against recorded runs of diffusers: each stage, given what the reference gave it.
//!
//! The weights are a formula of their names, see `tests/fixtures/wan/variants/generate.py`.

use std::path::Path;

use safelight_core::media::{self, RgbPixels};
use tempfile::TempDir;

use super::*;
use crate::weights::tests::fixtures::tensors_of;

const RUNS: [&str; 6] = ["t2v", "i2v21", "flf2v21", "t2v22", "i2v22", "i2v22_end"];

/// A recorded run, and a folder with the model that it was made with.
pub(super) struct VariantRun {
    pub(super) run: Run,
    folder: TempDir,
}

impl VariantRun {
    pub(super) fn open(name: &str) -> Self {
        Self::open_in("variants", name)
    }

    /// One of another folder, made with one of these models.
    pub(super) fn open_in(home: &str, name: &str) -> Self {
        let home = fixtures().join(home);
        let facts = json_of(&home.join(format!("{name}.json")));
        let folder = tempfile::tempdir().unwrap();
        write_model(facts["variant"].as_str().unwrap(), folder.path());
        Self {
            run: Run::of(&home, name, folder.path()),
            folder,
        }
    }

    /// Of the model.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

impl Run {
    /// An image as the reference opened it.
    fn image_of(&self, name: &str) -> Option<RgbPixels> {
        let source = self.tensors.get(name)?;
        let [rows, columns] = [source.size()[0], source.size()[1]].map(|n| n as u32);
        let rgb: Vec<u8> = source.flatten(0, 2).try_into().unwrap();
        Some(RgbPixels::new(columns, rows, rgb).unwrap())
    }
}

/// Writes a whole diffusers folder of one variant.
fn write_model(variant: &str, folder: &Path) {
    let home = fixtures().join("variants");
    let manifest = json_of(&home.join("weights.json"));
    copy_folder(&home.join(variant), folder);
    for shared in ["text_encoder", "tokenizer"] {
        let target = folder.join(shared);
        std::os::unix::fs::symlink(fixtures().join("pipeline").join(shared), target).unwrap();
    }
    // Variant → component → which of the sets of shapes.
    for (component, set) in manifest["variants"][variant].as_object().unwrap() {
        let shapes = &manifest["sets"][set.as_u64().unwrap() as usize];
        let tensors = tensors_of(shapes, &format!("{component}."));
        let is_of_transformers = component == "image_encoder";
        let stem = if is_of_transformers {
            "model"
        } else {
            "diffusion_pytorch_model"
        };
        let path = folder.join(component).join(format!("{stem}.safetensors"));
        Tensor::write_safetensors(&tensors, path).unwrap();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy_folder(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

/// Runs the experts one after the other, through a file between them as two processes would.
pub(super) fn denoise_all(
    run: &Run,
    capture: &mut StageCapture,
    hooks: &dyn Hooks,
) -> DenoiseState {
    let mut part = |expert, state| run.denoise_part(expert, state, capture, hooks).unwrap();
    if run.config.transformer_2.is_none() {
        return part(Expert::Only, None);
    }
    let high = part(Expert::HighNoise, None);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latents.high.safetensors");
    high.save(&path).unwrap();
    let high = DenoiseState::load(&path).unwrap();
    part(Expert::LowNoise, Some(high))
}

#[test]
fn every_variant_denoises_as_the_reference_does() {
    for name in RUNS {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let recorder = HookRecorder::default();
        let (state, found) = recorded(|capture| denoise_all(run, capture, &recorder));
        recorder.assert_steps(run.request.sampling.num_steps as usize, name);
        for (key, expected) in &run.tensors {
            let limit = match key.rsplit('.').next().unwrap() {
                "timestep" | "timesteps" => 0.0,
                "sigmas" => 1e-6,
                "cond" | "uncond" | "noise_pred" => 2e-5,
                "latents" | "final" => 3e-5,
                _ => continue,
            };
            let limit = run.limit(key, limit);
            assert_close(&format!("{name}: {key}"), &found[key], expected, limit);
        }
        let limit = run.limit("latents.final", FINAL_LIMIT);
        assert_close(name, &state.latents, run.get("latents.final"), limit);
    }
}

#[test]
fn the_experts_share_the_steps_at_the_boundary_and_neither_makes_the_others() {
    let variant = VariantRun::open("t2v22");
    let run = &variant.run;
    let recorder = HookRecorder::default();
    let off = &mut StageCapture::off();
    let high = run.denoise_part(Expert::HighNoise, None, off, &recorder);
    let high = high.unwrap();
    let boundary = run.config.boundary().unwrap();
    let timesteps: Vec<f64> = run.get("timesteps").try_into().unwrap();
    let expected = timesteps.iter().filter(|&&t| t >= boundary).count();
    assert!(expected > 0 && expected < timesteps.len());
    assert_eq!(high.step, expected);
    assert!(run.refusal(Expert::LowNoise).contains("high-noise"));
}

#[test]
fn interrupted_wan_expert_resumes_at_its_checkpoint() {
    let mut variant = VariantRun::open("t2v22");
    let run = &mut variant.run;
    run.request.sampling.num_steps = 20;
    let recorder = HookRecorder::default();
    let whole = denoise_all(run, &mut StageCapture::off(), &recorder);
    let part = |expert, state| {
        let off = &mut StageCapture::off();
        run.denoise_part(expert, state, off, &NoHooks).unwrap()
    };
    let high = part(Expert::HighNoise, None);
    let states = recorder.states.take();
    let is_of_high = |state: &DenoiseState| state.step < high.step;
    assert!(states.iter().any(is_of_high) && !states.iter().all(is_of_high));
    for mut state in states {
        if is_of_high(&state) {
            state = part(Expert::HighNoise, Some(state));
        }
        let behind = part(Expert::LowNoise, Some(state));
        assert!(behind.latents.equal(&whole.latents));
    }
}

#[test]
fn guidance_of_one_expert_alone_asks_twice_only_there() {
    let mut variant = VariantRun::open("t2v22");
    let run = &mut variant.run;
    run.request.sampling.guidance_scale_2 = Some(1.0);
    let (_, found) = recorded(|capture| denoise_all(run, capture, &NoHooks));
    let asked = |part: &str| found.keys().filter(|key| key.ends_with(part)).count();
    assert_eq!(asked("transformer.cond"), 5);
    assert!(asked("transformer.uncond") < 5 && asked("transformer.uncond") > 0);
}

#[test]
fn given_images_become_the_latents_of_the_reference() {
    for name in ["i2v21", "flf2v21", "i2v22", "i2v22_end"] {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let (width, height) = (run.request.width, run.request.height);
        let resized = |name: &str| {
            let image = run.image_of(name)?;
            Some(media::resize_lanczos(&image, width, height).unwrap().rgb)
        };
        let start = resized("image.source_u8").unwrap();
        let end = resized("last_image.source_u8");
        let off = &mut StageCapture::off();
        let work = &mut run.work(off, &NoHooks);
        let found = encode_image(&run.config, &start, end.as_deref(), work);
        assert_close(name, &found.unwrap(), run.get("condition"), 1e-5);
    }
}

#[test]
fn the_latents_of_every_variant_become_the_frames_of_the_reference() {
    for name in RUNS {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let latents = run.get("latents.final");
        let ((), found) = recorded(|capture| {
            decode(&run.config, latents, None, &mut run.work(capture, &NoHooks)).unwrap();
        });
        assert_close(name, &found["pixels"], run.get("pixels"), 3e-5);
    }
}

#[test]
fn given_images_become_the_embeddings_of_the_reference() {
    for name in ["i2v21", "flf2v21"] {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let images: Vec<RgbPixels> = ["image.source_u8", "last_image.source_u8"]
            .into_iter()
            .filter_map(|name| run.image_of(name))
            .collect();
        let off = &mut StageCapture::off();
        let work = &mut run.work(off, &NoHooks);
        let found = encode_vision(&run.config, &images, work);
        assert_close(name, &found.unwrap(), run.get("image_embeds"), 1e-5);
        let wrong = encode_vision(&run.config, &[], work);
        assert!(wrong.unwrap_err().to_string().contains("images"));
    }
}

#[test]
fn nan_prompt_embeds_end_the_job_with_advice_to_try_another_dtype() {
    let mut variant = VariantRun::open("t2v");
    let run = &mut variant.run;
    let poison = Tensor::full([1, 512, 40], f64::NAN, (Kind::Float, Device::Cpu));
    run.tensors.insert("prompt_embeds".to_owned(), poison);
    let text = run.refusal(Expert::Only);
    assert!(text.contains("another dtype"), "{text}");
}

#[test]
fn two_experts_without_a_boundary_are_refused() {
    let variant = VariantRun::open("t2v22");
    let mut files = variant.run.config.files.clone();
    files.boundary_ratio = None;
    let err = WanConfig::read(&files).unwrap_err();
    assert!(err.to_string().contains("hands over"), "{err}");
}
