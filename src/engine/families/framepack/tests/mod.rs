//! The transformer against what diffusers recorded (`tests/fixtures/framepack`).
//!
//! Weights and inputs are a formula of their names, see `generate.py` there. Limits are relative L2 distances.

mod dialects;
mod gguf;
mod lora;
mod network;
mod ranks;
mod sampler;
mod step_cache;
mod streaming;
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::networks::{FramePackTransformerConfig, NetworkConfig as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tch::{Device, Kind, Tensor};
use tempfile::TempDir;

use super::*;
use crate::closeness::{assert_close, distance, limit, with_both_frequencies};
use crate::hooks::NoHooks;
use crate::step_cache::{ContextCache, SkipOptions};
use crate::weights::Weights;
use crate::weights::tests::fixtures::{self, tensors_of};
use crate::weights::tests::made_up::made_up;

/// Of one call of the transformer.
const CALL_LIMIT: f64 = 5e-6;

/// A recorded call, whose inputs are a formula of its name.
#[derive(Deserialize)]
struct Case {
    config: String,
    layout: Places,
    /// Height and width in latents.
    size: [i64; 2],
    /// Tokens without and with padding.
    text: [i64; 2],
    image: i64,
    timestep: f32,
    guidance: f64,
}

#[derive(Deserialize)]
struct Places {
    latents: Vec<i64>,
    clean: Vec<i64>,
    history_2x: Vec<i64>,
    history_4x: Vec<i64>,
}

fn fixture(name: &str) -> PathBuf {
    fixtures::fixture("framepack/transformer").join(name)
}

fn read_json<T: DeserializeOwned>(name: &str) -> T {
    serde_json::from_slice(&fs::read(fixture(name)).unwrap()).unwrap()
}

fn cases() -> BTreeMap<String, Case> {
    read_json("cases.json")
}

fn config(name: &str) -> FramePackTransformerConfig {
    let config: FramePackTransformerConfig = read_json(&format!("{name}.json"));
    config.check().unwrap();
    config
}

/// The tensors of a fixture under diffusers' names.
fn tensors(config: &str) -> Vec<(String, Tensor)> {
    let shapes: Value = read_json("shapes.json");
    tensors_of(&shapes[config], &format!("{config}."))
}

/// A file of `tensors`, and the folder that it is in.
fn write(tensors: &[(String, Tensor)], kind: Kind) -> (TempDir, Weights) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("transformer.safetensors");
    Tensor::write_safetensors(tensors, &path).unwrap();
    let weights = Weights::open(&path, kind, Device::Cpu).unwrap();
    (folder, weights)
}

fn answer(name: &str) -> Tensor {
    fixtures::recorded("framepack/transformer/answers.safetensors", name)
}

/// `found` is what was recorded of the case `name`.
#[track_caller]
fn assert_answer(what: &str, found: &Tensor, name: &str) {
    let limit = limit("framepack/transformer/answers", name, CALL_LIMIT);
    assert_close(what, found, &answer(name), limit);
}

impl Case {
    /// The network's answer to the inputs of `name`.
    fn ask(&self, name: &str, transformer: &FramePackTransformer) -> Tensor {
        self.ask_cached(name, transformer, None)
    }

    /// The same as one call of a walk with a step cache.
    fn ask_cached(
        &self,
        name: &str,
        transformer: &FramePackTransformer,
        cache: Option<(&ContextCache, usize)>,
    ) -> Tensor {
        let given = |part: &str, shape: &[i64]| made_up(&format!("{name}.{part}"), shape);
        let [height, width] = self.size;
        let config = config(&self.config);
        let frames = |part: &str, places: &[i64]| {
            let count = places.len() as i64;
            given(part, &[1, config.in_channels, count, height, width])
        };
        let text = given("text", &[1, self.text[1], config.text_embed_dim]);
        let pooled = given("pooled", &[1, config.pooled_projection_dim]);
        let image = given("image", &[1, self.image, config.image_proj_dim]);
        let layout = SectionLayout {
            latents: self.layout.latents.clone(),
            clean: self.layout.clean.clone(),
            history_2x: self.layout.history_2x.clone(),
            history_4x: self.layout.history_4x.clone(),
        };
        let history = SectionHistory {
            clean: frames("clean", &layout.clean),
            history_2x: frames("history_2x", &layout.history_2x),
            history_4x: frames("history_4x", &layout.history_4x),
        };
        let section = transformer.section(&history, &layout, self.size);
        let (tokens, guidance) = (self.text[0], self.guidance);
        let context = transformer.context(&text, tokens, &pooled, &image, guidance, &section);
        // One of several, as the loop has it.
        let timesteps = [1.0, self.timestep];
        let told = &transformer.modulations(&timesteps, &context)[1];
        let latents = frames("latents", &layout.latents);
        let shortcut = SkipOptions {
            cache,
            ..SkipOptions::default()
        };
        let found = transformer.forward(&latents, told, &context, &section, shortcut, &NoHooks);
        found.unwrap()
    }
}
