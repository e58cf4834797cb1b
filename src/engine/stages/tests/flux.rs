//! Whole jobs of Flux, stage by stage as the worker orders them, against recorded runs of diffusers
//! (`tests/fixtures/flux/stages`).

use std::collections::{BTreeMap, BTreeSet};

use safelight_core::job::{GenerateRequest, Recipe};
use safelight_core::media::{self, Picture};
use safelight_core::memory::StageMemory;
use safelight_core::protocol::EngineMessage;
use serde_json::{Value, json};
use tch::Tensor;
use tempfile::TempDir;

use super::*;
use crate::closeness::{assert_close, distance, limit, with_both_frequencies};
use crate::text::tests::published::write_t5_json;
use crate::weights::tests::made_up::made_up;

mod layouts;
mod parity;
mod promises;

/// Names and shapes of the tensors of each component.
type Shapes = BTreeMap<String, BTreeMap<String, Vec<i64>>>;

const DIFFUSERS_STEM: &str = "diffusion_pytorch_model.safetensors";
const TRANSFORMERS_STEM: &str = "model.safetensors";

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures")
}

fn json_of(path: impl AsRef<Path>) -> Value {
    let path = fixtures().join(path);
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Tensors of the model that the runs of a `variant` were made with, `dev`, `schnell` or `fill`.
fn shapes_of(variant: &str) -> Shapes {
    let from = |value: Value| serde_json::from_value(value).unwrap();
    let base = if variant == "fill" { "dev" } else { variant };
    let encoders = json_of("text/flux/encoders.json")["shapes"].take();
    let mut shapes: Shapes = serde_json::from_value(encoders).unwrap();
    let mut transformer = json_of("flux/denoise/shapes.json");
    shapes.insert("transformer".to_owned(), from(transformer[base].take()));
    shapes.insert("vae".to_owned(), from(json_of("vae/kl/flux/shapes.json")));
    if variant == "fill" {
        let transformer = shapes.get_mut("transformer").unwrap();
        transformer.get_mut("x_embedder.weight").unwrap()[1] = 384;
    }
    shapes
}

fn tensors_of(component: &str, shapes: &Shapes) -> Vec<(String, Tensor)> {
    let named = shapes[component].iter();
    named
        .map(|(name, shape)| (name.clone(), made_up(&format!("{component}.{name}"), shape)))
        .collect()
}

/// Writes the configurations and tokenizers of a diffusers folder.
fn write_folder(variant: &str, folder: &Path) {
    let base = if variant == "fill" { "dev" } else { variant };
    let mut transformer = json_of(format!("flux/denoise/{base}/transformer/config.json"));
    if variant == "fill" {
        transformer["in_channels"] = json!(384);
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
    for (name, value) in [
        ("model_index.json", index),
        ("transformer/config.json", transformer),
        ("scheduler/scheduler_config.json", json_of(scheduler)),
        ("vae/config.json", json_of("vae/kl/flux/config.json")),
        (
            "text_encoder/config.json",
            json_of("text/flux/text_encoder.json"),
        ),
        (
            "text_encoder_2/config.json",
            json_of("text/flux/text_encoder_2.json"),
        ),
    ] {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value.to_string()).unwrap();
    }
    for tokenizer in ["tokenizer", "tokenizer_2"] {
        fs::create_dir(folder.join(tokenizer)).unwrap();
    }
    for file in ["vocab.json", "merges.txt"] {
        let from = fixtures().join("text/flux").join(file);
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
        let tensors = tensors_of(component, &shapes);
        Tensor::write_safetensors(&tensors, folder.join(component).join(stem)).unwrap();
    }
}

/// A job with its folder and its model.
pub(super) struct Job {
    pub(super) request: GenerateRequest,
    folder: TempDir,
    model: TempDir,
}

/// What a stage told while it ran.
#[derive(Default)]
pub(super) struct Told {
    frames: Vec<(u32, u32, Vec<u8>)>,
    previews: Vec<(u32, u32)>,
    steps: Vec<(u32, u32)>,
    warnings: Vec<String>,
    pub(super) boundaries: Vec<String>,
}

impl Job {
    /// `facts`: what the request has beside the model; pictures by their pixels, `(H, W, 3)`.
    pub(super) fn new(
        variant: &str,
        facts: &Value,
        image: Option<&Tensor>,
        mask: Option<&Tensor>,
    ) -> Self {
        let model = tempfile::tempdir().unwrap();
        write_model(variant, model.path());
        let folder = tempfile::tempdir().unwrap();
        let files = safelight_core::model::ModelFiles::of_folder(model.path()).unwrap();
        let mut request = json!({
            "model": "tiny", "family": "flux", "files": files, "out": "a.png", "fps": 1.0, "num_frames": 1,
            "sampler": "euler", "prompt": "a red boat", "negative_prompt": "", "width": 32, "height": 32,
            "num_steps": 2, "guidance_scale": 3.5, "seed": 5, "max_sequence_length": 12,
            "capture": folder.path().join("delivered"),
        });
        for (name, value) in facts.as_object().unwrap() {
            request[name] = value.clone();
        }
        let job = JobFolder::at(folder.path());
        for (name, pixels, place) in [
            ("image", image, job.start_picture()),
            ("mask", mask, job.mask()),
        ] {
            if let Some(pixels) = pixels {
                media::write_png(&place, &picture(pixels)).unwrap();
                request[name] = json!("given.png");
            }
        }
        Self {
            request: serde_json::from_value(request).unwrap(),
            folder,
            model,
        }
    }

    fn order(&self, stage: Stage, capture: bool) -> StageOrder {
        StageOrder {
            job: safelight_core::job::JobId(1),
            stage,
            folder: self.folder.path().to_owned(),
            request: self.request.clone(),
            section: 0,
            memory: StageMemory::default(),
            capture,
        }
    }

    pub(super) fn stage(&self, stage: Stage, capture: bool) -> Told {
        let (done, told) = try_stage(&self.order(stage, capture), &|_, _| {});
        done.unwrap_or_else(|err| panic!("{stage:?}: {err}"));
        // Recorded runs read fewer tokens than their prompts have, to be small.
        let mut others = told
            .warnings
            .iter()
            .filter(|it| !it.ends_with("are cut off"));
        assert_eq!(others.next(), None, "{stage:?}");
        told
    }

    /// All stages that the worker orders of the engine -> what the last one told.
    fn run(&self, capture: bool) -> Told {
        let mut last = Told::default();
        for stage in Recipe::of(&self.request).stages {
            if stage != Stage::Save {
                last = self.stage(stage, capture);
            }
        }
        last
    }

    fn latents(&self) -> Tensor {
        let result = JobFolder::at(self.folder.path()).result(Stage::Denoise);
        store::read_one(&result.unwrap(), "latents").unwrap()
    }
}

/// Runs a stage while `watch` sees each message, with the token that cancels it.
pub(super) fn try_stage(
    order: &StageOrder,
    watch: &(dyn Fn(&EngineMessage, &CancelToken) + Sync),
) -> (Result<(), EngineError>, Told) {
    // A message is taken only when the one before it has been seen.
    let (messages, received) = crossbeam_channel::bounded(0);
    let cancel = CancelToken::default();
    let context = StageContext {
        order,
        device: Device::Cpu,
        // Other tests' tensors are counted too.
        baseline: u64::MAX,
        cancel: cancel.clone(),
        ticks: Arc::default(),
        messages,
    };
    std::thread::scope(|scope| {
        let told = scope.spawn(move || {
            let mut told = Told::default();
            for (message, payload) in received {
                watch(&message, &cancel);
                match message {
                    EngineMessage::Frame(header) => {
                        told.frames.push((header.index, header.count, payload));
                    }
                    EngineMessage::Preview(header) => {
                        told.previews.push((header.index, header.count));
                    }
                    EngineMessage::Step { step, num_steps } => {
                        told.steps.push((step, num_steps));
                    }
                    EngineMessage::Warning { text } => told.warnings.push(text),
                    EngineMessage::Reclaimed(reclaim) => told.boundaries.push(reclaim.boundary),
                    _ => {}
                }
            }
            told
        });
        let done = run(&context);
        drop(context);
        (done, told.join().unwrap())
    })
}

fn picture(pixels: &Tensor) -> Picture {
    let (height, width, _) = pixels.size3().unwrap();
    let rgb: Vec<u8> = pixels.flatten(0, -1).try_into().unwrap();
    Picture::new(width as u32, height as u32, rgb).unwrap()
}
