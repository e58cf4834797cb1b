//! Every stage against what diffusers recorded (`tests/fixtures/wan`), and the promises of the stages.
//!
//! Limits are relative L2 distances; mistakes such as another GELU stand an order of magnitude above them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::{ControlSettings, GenerateRequest};
use safelight_core::model::{CatalogError, ModelFiles};
use safelight_core::networks::{NetworkConfig as _, WanTransformerConfig};
use serde_json::{Value, json};
use tch::{Device, Kind, Tensor};

use super::*;
use crate::capture::StageCapture;
use crate::closeness::{assert_close, distance, limit};
use crate::hook_recorder::HookRecorder;
use crate::hooks::{DenoiseState, Hooks, NoHooks};
use crate::nn::Rope;
use crate::placement::ComputePlacement;
use crate::sampling::noise;
use crate::stages::video_latents::VideoLatentShape;
use crate::step_cache::SkipOptions;
use crate::tensor_files;
use crate::text::{PromptEmbeds, TextEmbeds};
use crate::weights::tests::fixtures::{fixture, json_of, tensors_in};

mod fp8;
mod gguf;
mod lora;
mod masks;
mod parity;
mod promises;
mod ranks;
mod samplers;
mod source;
mod step_cache;
mod streaming;
mod vace;
mod variants;

const RUNS: [&str; 4] = ["text_to_video", "image_to_video", "euler", "text_to_image"];
const CPU: ComputePlacement = ComputePlacement {
    device: Device::Cpu,
    kind: Kind::Float,
    resident_bytes: None,
    keeps: false,
};

const NOISE_LIMIT: f64 = 1e-6;
const TEXT_LIMIT: f64 = 1e-5;
const ENCODER_LIMIT: f64 = 1e-5;
const CALL_LIMIT: f64 = 5e-6;
const GUIDED_LIMIT: f64 = 2e-5;
const FINAL_LIMIT: f64 = 3e-5;

fn fixtures() -> PathBuf {
    fixture("wan")
}

/// One recorded run of diffusers.
struct Run {
    /// What it is called among all fixtures.
    fixture: String,
    tensors: BTreeMap<String, Tensor>,
    request: GenerateRequest,
    config: WanConfig,
    /// None was recorded.
    kept: Option<KeptVideo>,
    how: ControlSettings,
    place: ComputePlacement,
}

impl Run {
    fn open(name: &str) -> Self {
        Self::of(&fixtures(), name, &fixtures().join("pipeline"))
    }

    /// The run that is recorded as `name` in `home`, made with the model in `folder`.
    fn of(home: &Path, name: &str, folder: &Path) -> Self {
        let file = home.join(format!("{name}.safetensors"));
        let mut tensors = tensors_in(&file);
        if let Some(latents) = tensors.get("control.latents") {
            let whole = Tensor::cat(&[latents, &tensors["control.mask_latents"]], 1);
            tensors.insert("control_hidden_states".to_owned(), whole);
        }
        let facts = json_of(&file.with_extension("json"));
        let files = ModelFiles::of_folder(folder).unwrap();
        let sampler = facts["scheduler"].as_str().unwrap_or("unipc");
        let given = |name: &str| {
            let is_given = facts[name] == json!(true);
            is_given.then(|| format!("{name}.png"))
        };
        let count = facts["references"].as_u64().unwrap_or(0);
        let references: Vec<String> = (0..count).map(|i| format!("{i}.png")).collect();
        let request = json!({
            "model": "tiny", "family": "wan", "files": files, "out": "video.mp4", "fps": 24.0,
            "prompt": facts["prompt"], "negative_prompt": facts["negative"], "width": facts["width"],
            "height": facts["height"], "num_frames": facts["frames"], "num_steps": facts["steps"],
            "guidance_scale": facts["guidance"], "guidance_scale_2": facts["guidance_2"],
            "shift": facts["flow_shift"], "sampler": sampler, "seed": facts["seed"],
            "source_video": given("source_video"), "strength": facts["strength"].as_f64().filter(|_| given("source_video").is_some()),
            "image": given("image"), "last_image": given("last_image"), "references": references,
        });
        let all = fixtures().parent().unwrap().to_owned();
        let fixture = home.strip_prefix(all).unwrap().join(name);
        Self {
            fixture: fixture.display().to_string(),
            tensors,
            request: serde_json::from_value(request).unwrap(),
            config: WanConfig::read(&files).unwrap(),
            kept: None,
            place: CPU,
            how: ControlSettings {
                strength: facts["control"].as_f64().unwrap_or(1.0),
                ..ControlSettings::default()
            },
        }
    }

    fn get(&self, name: &str) -> &Tensor {
        let tensor = self.tensors.get(name);
        tensor.unwrap_or_else(|| panic!("the fixture has no {name}"))
    }

    fn limit(&self, tensor: &str, base: f64) -> f64 {
        limit(&self.fixture, tensor, base)
    }

    fn step(&self, step: usize, part: &str) -> Option<&Tensor> {
        self.tensors.get(&format!("step.{step:02}.{part}"))
    }

    fn shape(&self) -> VideoLatentShape {
        latent_shape(&self.config, &self.request).unwrap()
    }

    fn image(&self) -> Option<Vec<u8>> {
        let pixels = self.tensors.get("image.source_u8")?;
        Some(pixels.flatten(0, 2).try_into().unwrap())
    }

    fn embeds(&self) -> PromptEmbeds {
        let whole = |name: &str| {
            let rows = self.tensors.get(name)?;
            let missing = TEXT_LENGTH as i64 - rows.size()[1];
            Some(TextEmbeds {
                prompt: rows.constant_pad_nd([0, 0, 0, missing]),
                mask: None,
                pooled: None,
            })
        };
        PromptEmbeds {
            prompt: whole("prompt_embeds").unwrap(),
            later: Vec::new(),
            negative: whole("negative_prompt_embeds"),
        }
    }

    fn timesteps(&self, timestep: f32) -> TokenTimesteps {
        let (per_frame, frames) = self.shape().tokens(self.config.transformer.patch_size);
        if self.image().is_some() {
            TokenTimesteps::with_clean_start(timestep, per_frame, per_frame * (frames - 1))
        } else {
            TokenTimesteps::uniform(timestep, per_frame * frames)
        }
    }

    fn transformer(&self) -> WanTransformer {
        let weights =
            open_transformer(&self.config.files.transformer, CPU, &[], Expert::Only).unwrap();
        let transformer = WanTransformer::new(&self.config.transformer, &weights).unwrap();
        assert!(weights.finish().is_empty(), "{:?}", weights.finish());
        transformer
    }

    /// The final latents of the loop of an only expert.
    fn latents(&self) -> Tensor {
        self.denoise(None, &NoHooks).unwrap()
    }

    /// `None` when cancelled.
    fn denoise(&self, resume: Option<DenoiseState>, hooks: &dyn Hooks) -> Option<Tensor> {
        let off = &mut StageCapture::off();
        let state = self.denoise_part(Expert::Only, resume, off, hooks)?;
        Some(state.latents)
    }

    /// Asserts that the loop saves states, and continues from each to the same latents, bit for bit. Returns these and the
    /// reports of the whole loop.
    fn assert_resumes(&self, what: &str) -> (Tensor, HookRecorder) {
        let (whole, recorder) = self.resumed(what);
        assert!(!recorder.states.borrow().is_empty(), "{what}");
        (whole, recorder)
    }

    /// As [`Self::assert_resumes`], of a loop that may be too short for a state.
    fn resumed(&self, what: &str) -> (Tensor, HookRecorder) {
        let recorder = HookRecorder::default();
        let whole = self.denoise(None, &recorder).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.safetensors");
        for state in recorder.states.borrow().iter() {
            state.save(&path).unwrap();
            let again = self.denoise(Some(DenoiseState::load(&path).unwrap()), &NoHooks);
            assert!(again.unwrap().equal(&whole), "{what}");
        }
        (whole, recorder)
    }

    /// Asserts that the loop ends at the query that cancels it.
    fn assert_stops(&self, patience: usize) {
        let recorder = HookRecorder::impatient(patience);
        assert!(self.denoise(None, &recorder).is_none());
        assert_eq!(recorder.asked.get(), patience + 1);
    }

    /// Why the loop of an expert is refused.
    fn refusal(&self, expert: Expert) -> String {
        let done = self.try_part(expert, None, &mut StageCapture::off(), &NoHooks);
        done.err().unwrap().to_string()
    }

    fn denoise_part(
        &self,
        expert: Expert,
        resume: Option<DenoiseState>,
        capture: &mut StageCapture,
        hooks: &dyn Hooks,
    ) -> Option<DenoiseState> {
        self.try_part(expert, resume, capture, hooks).unwrap()
    }

    fn work<'a>(&'a self, capture: &'a mut StageCapture, hooks: &'a dyn Hooks) -> StageWork<'a> {
        StageWork {
            request: &self.request,
            place: self.place,
            capture,
            hooks,
        }
    }

    /// `None` when cancelled.
    fn try_part(
        &self,
        expert: Expert,
        resume: Option<DenoiseState>,
        capture: &mut StageCapture,
        hooks: &dyn Hooks,
    ) -> Result<Option<DenoiseState>, EngineError> {
        let work = &mut self.work(capture, hooks);
        let given = |name| self.tensors.get(name).map(Tensor::shallow_clone);
        let conditions = WanConditioning {
            embeds: self.embeds(),
            image_latents: given("condition"),
            image_embeds: given("image_embeds"),
            base: given("base"),
            kept: self.kept.as_ref().map(|kept| KeptVideo {
                latents: kept.latents.shallow_clone(),
                mask: kept.mask.shallow_clone(),
            }),
            // As recorded, and as strong as trained.
            control: given("control_hidden_states").map(|latents| (latents, self.how.clone())),
        };
        match denoise(&self.config, expert, &conditions, resume, work) {
            Err(EngineError::Cancelled) => Ok(None),
            state => state.map(Some),
        }
    }
}

impl WanTransformer {
    /// A call without control blocks and step cache.
    fn call(
        &self,
        latents: &Tensor,
        timesteps: &TokenTimesteps,
        context: &WanContext,
        rope: &Rope,
    ) -> Tensor {
        let inputs = CallInputs {
            context,
            rope,
            control: None,
        };
        let found = self.forward(latents, timesteps, inputs, SkipOptions::default(), &NoHooks);
        found.unwrap()
    }
}

/// Result of a stage, and its capture.
fn recorded<T>(run: impl FnOnce(&mut StageCapture) -> T) -> (T, BTreeMap<String, Tensor>) {
    let folder = tempfile::tempdir().unwrap();
    let mut capture = StageCapture::stage(folder.path(), "stage").unwrap();
    let result = run(&mut capture);
    capture.finish().unwrap();
    let found = tensors_in(&folder.path().join("capture.stage.safetensors"));
    (result, found)
}
