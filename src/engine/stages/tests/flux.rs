//! Whole jobs of Flux, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/flux/stages`).

use safelight_core::job::Recipe;
use serde_json::{Value, json};
use tch::Tensor;

use super::images::{Shapes, made_up_of, write_configs};
use super::jobs::{self, Job, json_of, try_stage};
use super::*;
use crate::closeness::{assert_close, distance};
use crate::text::tests::published::write_t5_json;

mod layouts;
pub(super) mod parity;
mod promises;
mod redux;

const DIFFUSERS_STEM: &str = "diffusion_pytorch_model.safetensors";
const TRANSFORMERS_STEM: &str = "model.safetensors";

/// The channels of a `variant` that is given more than noise: `fill` and `control`, which else are `dev`.
fn channels_of(variant: &str) -> Option<i64> {
    match variant {
        "fill" => Some(384),
        "control" => Some(128),
        _ => None,
    }
}

/// Tensors of the model that the runs of a `variant` were made with, `dev`, `schnell` or one with more channels.
fn shapes_of(variant: &str) -> Shapes {
    let from = |value: Value| serde_json::from_value(value).unwrap();
    let channels = channels_of(variant);
    let base = channels.map_or(variant, |_| "dev");
    let encoders = json_of("text/flux/encoders.json")["shapes"].take();
    let mut shapes: Shapes = serde_json::from_value(encoders).unwrap();
    let mut transformer = json_of("flux/denoise/shapes.json");
    shapes.insert("transformer".to_owned(), from(transformer[base].take()));
    shapes.insert("vae".to_owned(), from(json_of("vae/kl/flux/shapes.json")));
    if let Some(channels) = channels {
        let transformer = shapes.get_mut("transformer").unwrap();
        transformer.get_mut("x_embedder.weight").unwrap()[1] = channels;
    }
    shapes
}

/// Writes the configurations and tokenizers of a diffusers folder.
fn write_folder(variant: &str, folder: &Path) {
    let channels = channels_of(variant);
    let base = channels.map_or(variant, |_| "dev");
    let mut transformer = json_of(format!("flux/denoise/{base}/transformer/config.json"));
    if let Some(channels) = channels {
        transformer["in_channels"] = json!(channels);
        transformer["out_channels"] = json!(64);
    }
    let scheduler = format!("flux/denoise/{base}/scheduler/scheduler_config.json");
    let index = json!({
        "_class_name": "FluxPipeline",
        "transformer": ["diffusers", "FluxTransformer2DModel"],
        "vae": ["diffusers", "AutoencoderKL"],
        "text_encoder": ["transformers", "CLIPTextModel"],
        "text_encoder_2": ["transformers", "T5EncoderModel"],
        "tokenizer": ["transformers", "CLIPTokenizer"],
        "tokenizer_2": ["transformers", "T5TokenizerFast"],
        "scheduler": ["diffusers", "FlowMatchEulerDiscreteScheduler"],
    });
    let vae = json_of("vae/kl/flux/config.json");
    let [clip, t5] = ["", "_2"].map(|it| json_of(format!("text/flux/text_encoder{it}.json")));
    let configs = [
        ("model_index.json", index),
        ("transformer/config.json", transformer),
        ("scheduler/scheduler_config.json", json_of(scheduler)),
        ("vae/config.json", vae),
        ("text_encoder/config.json", clip),
        ("text_encoder_2/config.json", t5),
    ];
    write_configs(folder, configs);
    for tokenizer in ["tokenizer", "tokenizer_2"] {
        fs::create_dir(folder.join(tokenizer)).unwrap();
    }
    for file in ["vocab.json", "merges.txt"] {
        let from = super::jobs::fixtures().join("text/flux").join(file);
        fs::copy(from, folder.join("tokenizer").join(file)).unwrap();
    }
    let mut pieces = json_of("text/flux/tokens.json");
    let pieces = pieces["t5_pieces"].as_array_mut().unwrap();
    write_t5_json(&folder.join("tokenizer_2/tokenizer.json"), pieces);
}

/// A whole diffusers folder.
fn write_model(variant: &str, folder: &Path) {
    write_folder(variant, folder);
    let shapes = shapes_of(variant);
    for (component, stem) in [
        ("transformer", DIFFUSERS_STEM),
        ("vae", DIFFUSERS_STEM),
        ("text_encoder", TRANSFORMERS_STEM),
        ("text_encoder_2", TRANSFORMERS_STEM),
    ] {
        let tensors = made_up_of(component, &shapes);
        Tensor::write_safetensors(&tensors, folder.join(component).join(stem)).unwrap();
    }
}

impl Job {
    /// `facts`: fields of the request besides the model; images as pixels, `(H, W, 3)`.
    pub(super) fn new(
        variant: &str,
        facts: &Value,
        image: Option<&Tensor>,
        mask: Option<&Tensor>,
    ) -> Self {
        let mut request = json!({
            "model": "tiny", "family": "flux", "out": "a.png", "fps": 1.0, "num_frames": 1,
            "sampler": "euler", "prompt": "a red boat", "negative_prompt": "", "width": 32, "height": 32,
            "num_steps": 2, "guidance_scale": 3.5, "seed": 5, "max_sequence_length": 12,
        });
        jobs::merge(&mut request, facts.clone());
        Self::of(|folder| write_model(variant, folder), request, image, mask)
    }
}
