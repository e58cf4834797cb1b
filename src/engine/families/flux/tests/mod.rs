//! The transformer and the denoising loop against diffusers' records (`tests/fixtures/flux/denoise`), and quirks. Tests of
//! every transformer are in `families/tests`.
//!
//! The weights are a formula of their names, see `generate.py` there. Limits are relative L2 distances.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use safelight_core::job::{SamplerKind, first_step};
use safelight_core::networks::{
    DenoiserConfig as _, FluxTransformerConfig, NetworkConfig as _, SchedulerConfig,
};
use serde_json::Value;
use tch::{Device, Kind, Tensor};

use super::*;
use crate::capture::StageCapture;
use crate::closeness::{assert_close, distance, limit, with_both_frequencies};
use crate::error::EngineError;
use crate::families::tests::{
    Facts, Fixtures, Tensors, TinyModel, config_of, opened, predictions_of, written,
};
use crate::guidance::GuidanceScales;
use crate::hooks::{DenoiseState, Hooks, NoHooks};
use crate::placement::ComputePlacement;
use crate::sampling::{FlowSchedule, SamplerAlgorithm, Solver, UniPcOptions};
use crate::stages::images::{NoiseDraws, ReferenceTokens, denoise_latents};
use crate::step_cache::SkipOptions;
use crate::text::TextEmbeds;
use crate::weights::Weights;
use crate::weights::tests::fixtures::{fixture, json_of, tensors_in, tensors_of};
use crate::weights::tests::made_up::made_up;

pub(crate) mod dialects;
mod fp8;
mod lora;
mod parity;
mod promises;
mod references;
mod streaming;

impl TinyModel for FluxTransformer {
    fn facts() -> Facts {
        Facts {
            fixtures: Fixtures {
                config: "flux/denoise/dev/transformer/config.json".into(),
                shapes: ("flux/denoise/shapes.json".into(), &["dev"]),
                loras: ("lora/forms.json".into(), "flux.".into()),
                predictions: ("lora/expected".into(), "flux."),
            },
            timestep: 750.0,
            size: (48, 64),
            input: "in.hidden_states",
            // Another order of sums: adding the change to the weights first is 3e-6 off.
            limits: [5e-6; 2],
            loras: &["kohya", "comfy", "peft", "peft_alpha", "outer"],
            other_loras: &[],
            streamed_loras: ["kohya", "peft"],
            named: ["blocks.1.", "img_in.weight"],
            fp8: 0.4,
            has_skips: false,
        }
    }

    fn originals(diffusers: &Tensors) -> Tensors {
        dialects::originals(diffusers)
    }

    fn text(config: &Self::Config, tokens: i64) -> TextEmbeds {
        let size = [1, tokens, config.joint_attention_dim];
        TextEmbeds {
            pooled: Some(made_up("in.pooled", &[1, config.pooled_projection_dim])),
            ..TextEmbeds::of_states(made_up("in.prompt_embeds", &size))
        }
    }

    /// With channels besides the latents in models that read some.
    fn input(
        config: &Self::Config,
        shape: ImageLatentShape,
        name: &str,
        num_images: i64,
    ) -> Tensor {
        made_up(name, &[num_images, shape.tokens(), config.in_channels])
    }
}

/// Texts of a run, and images besides the noise.
struct Inputs {
    prompt: TextEmbeds,
    negative: Option<TextEmbeds>,
    condition: Option<Tensor>,
    references: ReferenceTokens,
}

fn fixtures() -> PathBuf {
    fixture("flux/denoise")
}

/// The weights of `dev` or `schnell`.
fn weights_of(variant: &str) -> Tensors {
    let shapes = json_of(&fixtures().join("shapes.json"));
    tensors_of(&shapes[variant], "transformer.")
        .into_iter()
        .collect()
}

/// A recorded run of diffusers, and the model that it was made with.
struct Run {
    name: &'static str,
    facts: Value,
    tensors: BTreeMap<String, Tensor>,
    scheduler: FlowSchedule,
    transformer: FluxTransformer,
    shape: ImageLatentShape,
}

impl Run {
    fn open(name: &'static str) -> Self {
        let file = fixtures().join(format!("{name}.safetensors"));
        let facts = json_of(&file.with_extension("json"));
        let variant = facts["variant"].as_str().unwrap();
        let home = fixtures().join(variant);
        let config = FluxTransformerConfig::read(&home.join("transformer")).unwrap();
        let (_folder, path) = written(&weights_of(variant));
        let edge = |name: &str| facts[name].as_u64().unwrap() as u32;
        Self {
            name,
            tensors: tensors_in(&file),
            scheduler: FlowSchedule::from(SchedulerConfig::default())
                .read(Some(&home.join("scheduler")))
                .unwrap(),
            transformer: FluxTransformer::new(&config, &opened(&path)).unwrap(),
            shape: ImageLatentShape::new(config.latent_channels(), edge("width"), edge("height"))
                .unwrap(),
            facts,
        }
    }

    /// The denoising loop.
    fn sample(
        &self,
        inputs: Inputs,
        (mut solver, state): (Solver, DenoiseState),
        capture: &mut StageCapture,
        hooks: &dyn Hooks,
    ) -> Result<DenoiseState, EngineError> {
        let conditioning = ImageConditioning {
            negative: inputs.negative.as_ref(),
            guidance: self.guidance(),
            condition: inputs.condition,
            references: inputs.references,
            ..ImageConditioning::of_prompt(self.shape, &inputs.prompt)
        };
        let model = &self.transformer;
        let cpu = ComputePlacement::new(Device::Cpu, Kind::Float);
        denoise_latents(
            model,
            conditioning,
            &mut solver,
            &state,
            cpu,
            capture,
            hooks,
        )
    }

    fn get(&self, name: &str) -> &Tensor {
        let found = self.tensors.get(name);
        found.unwrap_or_else(|| panic!("no '{name}' was recorded"))
    }

    fn limit(&self, tensor: &str, base: f64) -> f64 {
        limit(&format!("flux/denoise/{}", self.name), tensor, base)
    }

    /// The first prediction of another model in this run.
    fn first_prediction(&self, transformer: &FluxTransformer, distilled: f64) -> Tensor {
        let noise = self.get("latents.initial");
        self.prediction(transformer, noise, 1000.0, distilled)
    }

    /// A prediction for the run's prompt.
    fn prediction(
        &self,
        transformer: &FluxTransformer,
        input: &Tensor,
        timestep: f32,
        distilled: f64,
    ) -> Tensor {
        let text = self.inputs().prompt;
        let conditioning = ImageConditioning {
            guidance: GuidanceScales {
                distilled,
                ..self.guidance()
            },
            ..ImageConditioning::of_prompt(self.shape, &text)
        };
        let skip = SkipOptions::default();
        predictions_of(transformer, input, &conditioning, &[timestep], skip).remove(0)
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

    fn inputs(&self) -> Inputs {
        let tensor = |name: String| Some(self.tensors.get(&name)?.copy());
        let text = |prefix: &str| {
            Some(TextEmbeds {
                pooled: Some(tensor(format!("{prefix}pooled_prompt_embeds"))?),
                ..TextEmbeds::of_states(tensor(format!("{prefix}prompt_embeds"))?)
            })
        };
        Inputs {
            prompt: text("").unwrap(),
            negative: text("negative_"),
            condition: None,
            references: ReferenceTokens::default(),
        }
    }

    /// The sampler of the run, with the latents that it begins with.
    fn start(&self) -> (Solver, DenoiseState) {
        let num_steps = self.number("steps") as usize;
        let schedule = self.scheduler.schedule(num_steps, self.shape.tokens());
        let has_image = self.facts["has_image"] == true;
        let first = if has_image {
            first_step(num_steps as u32, self.number("strength")) as usize
        } else {
            0
        };
        let euler = SamplerAlgorithm::new(SamplerKind::Euler, schedule, UniPcOptions::default(), 0);
        let solver = Solver::new(euler, first..num_steps).unwrap();
        let seeds = std::iter::once(self.number("seed") as u64);
        let draws = NoiseDraws::new(self.shape, 1 + usize::from(has_image), seeds).unwrap();
        let latents = match self.tensors.get("image_latents") {
            Some(image) => solver
                .space()
                .noised(image, &draws.noise, solver.sigmas()[first]),
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
