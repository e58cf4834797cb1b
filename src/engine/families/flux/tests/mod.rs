//! The transformer and the loop against what diffusers recorded (`tests/fixtures/flux/denoise`).
//!
//! The weights are a formula of their names, see `generate.py` there. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::{Sampler, first_step};
use safelight_core::networks::{FluxTransformerConfig, NetworkConfig as _};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::*;
use crate::capture::Capture;
use crate::closeness::{assert_close, distance, limit, with_both_frequencies};
use crate::controls::acting::Controls;
use crate::denoise::DenoiseState;
use crate::error::EngineError;
use crate::families::tests::{Tensors, in_dialects, opened, written};
use crate::guidance::GuidanceScales;
use crate::hooks::{Hooks, NoHooks};
use crate::sampling::{Algorithm, FlowSchedule, Solver, UniPcOptions};
use crate::stages::stills::{self, Draws, LatentShape, noised};
use crate::store;
use crate::text::TextEmbeds;

use crate::weights::Weights;
use crate::weights::tests::made_up::made_up;

mod control;
mod dialects;
mod fp8;
mod gguf;
mod lora;
mod parity;
mod promises;
mod streaming;

/// What a run gives the model beside the noise.
struct Conditions {
    prompt: TextEmbeds,
    negative: Option<TextEmbeds>,
    image: Option<Tensor>,
    reference: Option<Reference>,
}

/// The walk of a run.
fn sample(
    transformer: &FluxTransformer,
    shape: LatentShape,
    conditions: Conditions,
    scales: GuidanceScales,
    solver: &mut Solver,
    state: &DenoiseState,
    capture: &mut Capture,
    hooks: &dyn Hooks,
) -> Result<DenoiseState, EngineError> {
    let model = FluxModel {
        transformer,
        shape,
        distilled_guidance: scales.distilled,
        image: conditions.image,
        reference: conditions.reference,
        controls: Controls::default(),
    };
    let conditions = stills::Conditions {
        prompt: &conditions.prompt,
        negative: conditions.negative.as_ref(),
        guiding: scales.real,
        step_cache: None,
        kept: None,
    };
    stills::walk_still(&model, &conditions, solver, state, capture, hooks)
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/flux/denoise")
}

/// The weights of `dev` or `schnell`.
fn weights_of(variant: &str) -> Tensors {
    let shapes = fs::read(fixtures().join("shapes.json")).unwrap();
    let shapes: BTreeMap<String, BTreeMap<String, Vec<i64>>> =
        serde_json::from_slice(&shapes).unwrap();
    let named = shapes[variant].iter();
    named
        .map(|(name, shape)| (name.clone(), made_up(&format!("transformer.{name}"), shape)))
        .collect()
}

/// Answers to made-up inputs at these timesteps.
fn answers(config: &FluxTransformerConfig, w: &Weights, timesteps: &[f32]) -> Vec<Tensor> {
    let transformer = FluxTransformer::new(config, w).unwrap();
    assert!(FluxTransformer::unexpected_keys(w).is_empty());
    let context = transformer.context(
        &made_up("in.prompt_embeds", &[1, 5, config.joint_attention_dim]),
        &made_up("in.pooled", &[1, config.pooled_projection_dim]),
        3.5,
    );
    let places: Vec<f32> = (0..12)
        .flat_map(|i| [0.0, (i / 3) as f32, (i % 3) as f32])
        .collect();
    let text = Tensor::zeros([5, 3], (Kind::Float, Device::Cpu));
    let rope = transformer.rope(&text, &Tensor::from_slice(&places).view([12, 3]), 1);
    let img = made_up("in.hidden_states", &[1, 12, config.in_channels]);
    let told = transformer.modulations(timesteps, &context);
    let answers = told.iter().map(|told| {
        let answer = transformer.forward(&img, told, &context, &rope, &NoHooks);
        answer.unwrap()
    });
    answers.collect()
}

/// A recorded run of diffusers, and the model that it was made with.
struct Run {
    name: &'static str,
    facts: Value,
    tensors: BTreeMap<String, Tensor>,
    scheduler: FlowSchedule,
    transformer: FluxTransformer,
    shape: LatentShape,
}

impl Run {
    fn open(name: &'static str) -> Self {
        let file = fixtures().join(format!("{name}.safetensors"));
        let facts = fs::read(file.with_extension("json")).unwrap();
        let facts: Value = serde_json::from_slice(&facts).unwrap();
        let variant = facts["variant"].as_str().unwrap();
        let home = fixtures().join(variant);
        let config = FluxTransformerConfig::read(&home.join("transformer")).unwrap();
        let (_folder, path) = written(&weights_of(variant));
        let edge = |name: &str| facts[name].as_u64().unwrap() as u32;
        Self {
            name,
            tensors: store::read(&file).unwrap().into_iter().collect(),
            scheduler: FlowSchedule::read(Some(&home.join("scheduler")), true).unwrap(),
            transformer: FluxTransformer::new(&config, &opened(&path)).unwrap(),
            shape: LatentShape::new(config.latent_channels(), edge("width"), edge("height"))
                .unwrap(),
            facts,
        }
    }

    fn get(&self, name: &str) -> &Tensor {
        let found = self.tensors.get(name);
        found.unwrap_or_else(|| panic!("no '{name}' was recorded"))
    }

    fn limit(&self, tensor: &str, base: f64) -> f64 {
        limit(&format!("flux/denoise/{}", self.name), tensor, base)
    }

    /// The first answer of another model to this run.
    fn first_answer(&self, transformer: &FluxTransformer, distilled: f64) -> Tensor {
        let text = self.conditions().prompt;
        let context = transformer.context(&text.prompt, text.pooled().unwrap(), distilled);
        let rope = transformer.rope(self.get("text_ids"), self.get("latent_image_ids"), 1);
        let noise = self.get("latents.initial");
        let told = &transformer.modulations(&[1000.0], &context)[0];
        let answer = transformer.forward(noise, told, &context, &rope, &NoHooks);
        answer.unwrap()
    }

    /// The first answer of these weights to this run; all their keys must be read.
    fn answer_by(&self, w: &Weights) -> Tensor {
        let transformer = FluxTransformer::new(self.transformer.config(), w).unwrap();
        assert!(FluxTransformer::unexpected_keys(w).is_empty());
        self.first_answer(&transformer, 3.5)
    }

    fn number(&self, name: &str) -> f64 {
        self.facts[name].as_f64().unwrap()
    }

    fn guidance(&self) -> GuidanceScales {
        GuidanceScales {
            distilled: self.number("guidance"),
            real: self.number("true_cfg").into(),
        }
    }

    fn conditions(&self) -> Conditions {
        let text = |prefix: &str| {
            Some(TextEmbeds {
                prompt: self.tensors.get(&format!("{prefix}prompt_embeds"))?.copy(),
                mask: None,
                pooled: Some(
                    self.tensors
                        .get(&format!("{prefix}pooled_prompt_embeds"))?
                        .copy(),
                ),
            })
        };
        Conditions {
            prompt: text("").unwrap(),
            negative: text("negative_"),
            image: None,
            reference: None,
        }
    }

    /// The sampler of the run, with the latents that it begins with.
    fn start(&self) -> (Solver, DenoiseState) {
        let num_steps = self.number("steps") as usize;
        let schedule = self.scheduler.schedule(num_steps, self.shape.tokens());
        let has_picture = self.facts["has_picture"] == true;
        let first = if has_picture {
            first_step(num_steps as u32, self.number("strength")) as usize
        } else {
            0
        };
        let euler = Algorithm::of(Sampler::Euler, schedule, UniPcOptions::default(), 0);
        let solver = Solver::new(euler, first..num_steps).unwrap();
        let seeds = std::iter::once(self.number("seed") as u64);
        let draws = Draws::new(self.shape, 1 + usize::from(has_picture), seeds).unwrap();
        let latents = match self.tensors.get("image_latents") {
            Some(image) => noised(image, &draws.noise, solver.sigmas()[first]),
            None => draws.noise,
        };
        let state = DenoiseState {
            step: first,
            latents: self.shape.pack(&latents),
            history: Vec::new(),
        };
        (solver, state)
    }
}
