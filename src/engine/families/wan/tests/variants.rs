//! Every variant of Wan against recorded runs of diffusers: each stage, given what the reference gave it.
//!
//! The weights are a formula of their names, see `tests/fixtures/wan/variants/generate.py`.

use std::collections::BTreeMap;
use std::path::Path;

use safelight_core::media::{self, RgbPixels};
use tempfile::TempDir;

use super::*;
use crate::weights::tests::made_up::made_up;

const RUNS: [&str; 6] = ["t2v", "i2v21", "flf2v21", "t2v22", "i2v22", "i2v22_end"];

#[derive(serde::Deserialize)]
struct Manifest {
    /// Variant → component → which of the sets.
    variants: BTreeMap<String, BTreeMap<String, usize>>,
    /// Name → shape.
    sets: Vec<BTreeMap<String, Vec<i64>>>,
}

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
        let facts: Value =
            serde_json::from_slice(&fs::read(home.join(format!("{name}.json"))).unwrap()).unwrap();
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
    /// A picture as the reference opened it.
    fn picture_of(&self, name: &str) -> Option<RgbPixels> {
        let source = self.tensors.get(name)?;
        let [rows, columns] = [source.size()[0], source.size()[1]].map(|n| n as u32);
        let rgb: Vec<u8> = source.flatten(0, 2).try_into().unwrap();
        Some(RgbPixels::new(columns, rows, rgb).unwrap())
    }
}

/// Writes a whole diffusers folder of one variant.
fn write_model(variant: &str, folder: &Path) {
    let home = fixtures().join("variants");
    let manifest: Manifest =
        serde_json::from_slice(&fs::read(home.join("weights.json")).unwrap()).unwrap();
    copy_folder(&home.join(variant), folder);
    for shared in ["text_encoder", "tokenizer"] {
        let target = folder.join(shared);
        std::os::unix::fs::symlink(fixtures().join("pipeline").join(shared), target).unwrap();
    }
    for (component, &set) in &manifest.variants[variant] {
        let tensors: Vec<(String, Tensor)> = manifest.sets[set]
            .iter()
            .map(|(name, shape)| (name.clone(), made_up(&format!("{component}.{name}"), shape)))
            .collect();
        let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(k, v)| (&k[..], v)).collect();
        let stem = if component == "image_encoder" {
            "model"
        } else {
            "diffusion_pytorch_model"
        };
        let path = folder.join(component).join(format!("{stem}.safetensors"));
        Tensor::write_safetensors(&named, path).unwrap();
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
    if run.config.transformer_2.is_none() {
        return run
            .denoise_part(Expert::Only, None, capture, hooks)
            .unwrap();
    }
    let high = run
        .denoise_part(Expert::HighNoise, None, capture, hooks)
        .unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("latents.high.safetensors");
    high.save(&path).unwrap();
    let high = DenoiseState::load(&path).unwrap();
    run.denoise_part(Expert::LowNoise, Some(high), capture, hooks)
        .unwrap()
}

#[test]
fn every_variant_denoises_as_the_reference_does() {
    for name in RUNS {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let folder = tempfile::tempdir().unwrap();
        let mut record = StageCapture::stage(folder.path(), "denoise").unwrap();
        let keeper = Keeper::default();
        let state = denoise_all(run, &mut record, &keeper);
        record.finish().unwrap();
        let found = tensor_files::read(&folder.path().join("capture.denoise.safetensors")).unwrap();
        let found: BTreeMap<_, _> = found.into_iter().collect();
        let num_steps = run.request.sampling.num_steps as usize;
        let told: Vec<_> = (1..=num_steps).map(|step| (step, num_steps)).collect();
        assert_eq!(*keeper.steps.borrow(), told, "{name}");
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
    let keeper = Keeper::default();
    let high = run
        .denoise_part(Expert::HighNoise, None, &mut StageCapture::off(), &keeper)
        .unwrap();
    let boundary = run.config.boundary().unwrap();
    let timesteps: Vec<f64> = run.get("timesteps").try_into().unwrap();
    let expected = timesteps.iter().filter(|&&t| t >= boundary).count();
    assert!(expected > 0 && expected < timesteps.len());
    assert_eq!(high.step, expected);
    let lost = run.try_part(Expert::LowNoise, None, &mut StageCapture::off(), &keeper);
    assert!(lost.unwrap_err().to_string().contains("high-noise"));
}

#[test]
fn an_expert_that_dies_goes_on_where_it_was() {
    let mut variant = VariantRun::open("t2v22");
    let run = &mut variant.run;
    run.request.sampling.num_steps = 20;
    let keeper = Keeper::default();
    let whole = denoise_all(run, &mut StageCapture::off(), &keeper);
    let high = run
        .denoise_part(Expert::HighNoise, None, &mut StageCapture::off(), &NoHooks)
        .unwrap();
    let states: Vec<_> = keeper.states.borrow_mut().drain(..).collect();
    let is_of_high = |state: &DenoiseState| state.step < high.step;
    assert!(states.iter().any(is_of_high) && !states.iter().all(is_of_high));
    for state in states {
        let is_high = is_of_high(&state);
        let expert = if is_high {
            Expert::HighNoise
        } else {
            Expert::LowNoise
        };
        let off = &mut StageCapture::off();
        let Ok(Some(mut behind)) = run.try_part(expert, Some(state), off, &NoHooks) else {
            panic!("a saved state must do");
        };
        if is_high {
            behind = run
                .denoise_part(Expert::LowNoise, Some(behind), off, &NoHooks)
                .unwrap();
        }
        assert!(behind.latents.equal(&whole.latents));
    }
}

#[test]
fn guidance_of_one_expert_alone_asks_twice_only_there() {
    let mut variant = VariantRun::open("t2v22");
    let run = &mut variant.run;
    run.request.sampling.guidance_scale_2 = Some(1.0);
    let folder = tempfile::tempdir().unwrap();
    let mut record = StageCapture::stage(folder.path(), "denoise").unwrap();
    denoise_all(run, &mut record, &NoHooks);
    record.finish().unwrap();
    let found = tensor_files::read(&folder.path().join("capture.denoise.safetensors")).unwrap();
    let asked = |part: &str| found.iter().filter(|(key, _)| key.ends_with(part)).count();
    assert_eq!(asked("transformer.cond"), 5);
    assert!(asked("transformer.uncond") < 5 && asked("transformer.uncond") > 0);
}

#[test]
fn given_pictures_become_the_latents_of_the_reference() {
    for name in ["i2v21", "flf2v21", "i2v22", "i2v22_end"] {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let (width, height) = (run.request.width, run.request.height);
        let resized = |name: &str| {
            let picture = run.picture_of(name)?;
            Some(media::resize_lanczos(&picture, width, height).unwrap().rgb)
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
        let folder = tempfile::tempdir().unwrap();
        let mut record = StageCapture::stage(folder.path(), "decode").unwrap();
        let latents = run.get("latents.final");
        decode(
            &run.config,
            latents,
            None,
            &mut run.work(&mut record, &NoHooks),
        )
        .unwrap();
        record.finish().unwrap();
        let found = tensor_files::read(&folder.path().join("capture.decode.safetensors")).unwrap();
        let pixels = found.iter().find(|(key, _)| key == "pixels").unwrap();
        assert_close(name, &pixels.1, run.get("pixels"), 3e-5);
    }
}

#[test]
fn given_pictures_become_the_embeddings_of_the_reference() {
    for name in ["i2v21", "flf2v21"] {
        let variant = VariantRun::open(name);
        let run = &variant.run;
        let pictures: Vec<RgbPixels> = ["image.source_u8", "last_image.source_u8"]
            .into_iter()
            .filter_map(|name| run.picture_of(name))
            .collect();
        let off = &mut StageCapture::off();
        let work = &mut run.work(off, &NoHooks);
        let found = encode_vision(&run.config, &pictures, work);
        assert_close(name, &found.unwrap(), run.get("image_embeds"), 1e-5);
        let wrong = encode_vision(&run.config, &[], work);
        assert!(wrong.unwrap_err().to_string().contains("pictures"));
    }
}

#[test]
fn latents_that_are_no_numbers_end_the_job_with_what_to_try() {
    let mut variant = VariantRun::open("t2v");
    let run = &mut variant.run;
    let poison = Tensor::full([1, 512, 40], f64::NAN, (Kind::Float, Device::Cpu));
    run.tensors.insert("prompt_embeds".to_owned(), poison);
    let err = run
        .try_part(Expert::Only, None, &mut StageCapture::off(), &NoHooks)
        .unwrap_err();
    assert!(err.to_string().contains("another dtype"), "{err}");
}

#[test]
fn two_experts_without_a_boundary_are_refused() {
    let variant = VariantRun::open("t2v22");
    let mut files = variant.run.config.files.clone();
    files.boundary_ratio = None;
    let err = WanConfig::read(&files).unwrap_err();
    assert!(err.to_string().contains("hands over"), "{err}");
}
