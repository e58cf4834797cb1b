//! Network calls that are measured, at the sizes and with the names of the comparison program: rows of their table, and
//! the random inputs and measurements that all of them share.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use clap::Args;
pub use safelight_core::measured::CaseKind;
use safelight_core::measured::CaseLine;
use safelight_core::networks::{DenoiserConfig as _, LanguageConfig, T5Config, T5Kind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tch::{Kind, Tensor};

use crate::hooks::NoHooks;
use crate::sampling::CpuGenerator;
use crate::stages::images::{
    ContextInput, ForwardPass, ImageConditioning, ImageLatentShape, ImageModel, LatentForm,
    ReferenceTokens, packed_size,
};
use crate::step_cache::SkipOptions;
use crate::text::{LanguageEncoder, T5Encoder, TextEmbeds};
use crate::timing::timed;
use crate::vae::Tiling;
use crate::{EngineError, Weights};

/// Timesteps, from 1000 for pure noise, whose modulations are computed together; the first one's step is measured.
pub(crate) const TIMESTEPS: [f32; 28] = [500.0; 28];
const WARM_UPS: usize = 2;

/// Layers of a small language model, unless more are read.
const SMALL_LAYERS: i64 = 4;

/// Fields of an output line.
pub(crate) type BenchLine = Result<Value, EngineError>;
/// Builds a network and measures it.
type CaseCall = fn(&CaseBench) -> BenchLine;

/// Replacements of a case's sizes.
#[derive(Args, Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct SizeArguments {
    #[arg(long, value_parser = size)]
    pub(crate) width: Option<i64>,
    #[arg(long, value_parser = size)]
    pub(crate) height: Option<i64>,
    #[arg(long, value_parser = size)]
    pub(crate) frames: Option<i64>,
    /// Images, or texts of a video, computed together
    #[arg(long, value_parser = size)]
    pub(crate) batch: Option<i64>,
    /// Edge of an autoencoder's tiles in pixels
    #[arg(long, value_parser = size)]
    pub(crate) tile: Option<i64>,
    /// Reference images, each as large as the result
    #[arg(long, value_parser = size)]
    pub(crate) references: Option<i64>,
}

#[derive(Debug)]
pub struct BenchCase {
    pub name: &'static str,
    pub kind: CaseKind,
    /// Width and height in pixels, and frames; zeros for text encoders.
    size: [i64; 3],
    /// Edge of tiles in pixels; `None`: no tiles.
    tile: Option<i64>,
    call: CaseCall,
}

/// Cases of reports: name, network, memory of the device in GiB that it needs, with some margin, and estimated work of one
/// call in TFLOP.
const REPORTED: [(&str, &str, f64, f64); 23] = [
    ("framepack", "FramePack", 26.5, 500.0),
    ("vae_hunyuan_9", "HunyuanVideo's autoencoder", 3.5, 400.0),
    ("llama3", "Llama 3", 14.0, 5.0),
    ("wan14b_320_17f", "Wan 14B", 28.0, 60.0),
    ("wan5b_704p_121f", "Wan 5B", 11.5, 550.0),
    ("vae_wan_480p_81f", "Wan 2.1's autoencoder", 5.0, 250.0),
    ("vae_wan_320_17f", "Wan 2.1's autoencoder", 2.5, 14.0),
    ("vae_wan22_704p_17f", "Wan 2.2's autoencoder", 8.0, 200.0),
    ("umt5xxl", "UMT5-XXL", 11.5, 6.0),
    ("wan13b_320_17f", "Wan 1.3B", 5.0, 6.0),
    ("z_image_1024", "Z-Image", 12.5, 60.0),
    ("qwen3_4b", "Qwen 3", 8.0, 4.0),
    ("krea2_1024", "Krea 2", 26.0, 120.0),
    ("qwen3_vl_4b", "Qwen 3 VL", 8.5, 4.0),
    ("chroma_1024", "Chroma", 17.5, 74.0),
    ("qwen_image_1024", "Qwen-Image", 41.0, 97.0),
    ("qwen_image_21_1024", "Qwen-Image 2.1", 15.0, 60.0),
    ("qwen3_vl_8b", "Qwen 3 VL", 16.5, 8.0),
    ("sdxl_1024", "SDXL", 7.5, 6.0),
    ("qwen25_vl_7b", "Qwen 2.5 VL", 15.0, 7.5),
    ("flux_1024", "Flux", 23.5, 74.0),
    ("vae_flux_1024_bands", "Flux's autoencoder", 2.5, 10.0),
    ("t5xxl", "T5-XXL", 9.5, 5.0),
];

/// One call of a transformer. `size`: width and height in pixels, frames
pub(crate) const fn step(name: &'static str, size: [i64; 3], call: CaseCall) -> BenchCase {
    BenchCase {
        name,
        kind: CaseKind::Step,
        size,
        tile: None,
        call,
    }
}

/// Latents to pixels.
pub(crate) const fn decode(name: &'static str, size: [i64; 3], call: CaseCall) -> BenchCase {
    BenchCase {
        kind: CaseKind::Decode,
        ..step(name, size, call)
    }
}

/// A prompt to embeddings.
pub(crate) const fn text(name: &'static str, call: CaseCall) -> BenchCase {
    BenchCase {
        kind: CaseKind::Text,
        ..step(name, [0; 3], call)
    }
}

impl BenchCase {
    /// Weights that do not all stay on the device.
    pub(crate) const fn streaming(self) -> Self {
        Self {
            kind: CaseKind::Streaming,
            ..self
        }
    }

    /// With tiles of this edge in pixels.
    pub(crate) const fn tiled(self, edge: i64) -> Self {
        Self {
            tile: Some(edge),
            ..self
        }
    }

    /// The case in a report; `None`: not in reports
    pub(crate) fn reported(&self, family: &str) -> Option<CaseLine> {
        let row = REPORTED.iter().find(|(name, ..)| *name == self.name);
        let &(case, network, gib, tflop) = row?;
        let size = match self.size {
            [width, height, 1] => format!("{width}×{height}"),
            [width, height, frames] => format!("{width}×{height} with {frames} frames"),
        };
        let label = match self.kind {
            CaseKind::Step => format!("{network}, a call at {size}"),
            CaseKind::Decode | CaseKind::Streaming => format!("{network}, {size}"),
            CaseKind::Text => format!("{network} reads a prompt"),
        };
        Some(CaseLine {
            family: family.to_owned(),
            case: case.to_owned(),
            label,
            kind: self.kind,
            gib,
            tflop,
        })
    }

    /// Name of the network; `None`: not in reports
    pub(crate) fn network(&self) -> Option<&'static str> {
        let row = REPORTED.iter().find(|(name, ..)| *name == self.name);
        row.map(|(_, network, ..)| *network)
    }

    /// Builds the network of `weights` and measures it: fields of an output line, and the network's last output.
    pub(crate) fn run(
        &'static self,
        weights: Weights,
        (small, sizes): (bool, SizeArguments),
        purpose: BenchPurpose,
    ) -> Result<(Value, Option<Tensor>), EngineError> {
        let bench = CaseBench {
            case: self,
            weights,
            small,
            sizes,
            purpose,
            draws: RefCell::new(CpuGenerator::new(0)),
            output: RefCell::default(),
        };
        let done = catch_unwind(AssertUnwindSafe(|| tch::no_grad(|| (self.call)(&bench))));
        let line = done.unwrap_or_else(|panic| Err(EngineError::from_panic(panic.as_ref())))?;
        Ok((line, bench.output.take()))
    }

    /// Names and shapes of the network's tensors.
    pub(crate) fn outline(
        &'static self,
        at: (bool, SizeArguments),
        kind: Kind,
    ) -> Vec<(String, Vec<i64>)> {
        let weights = Weights::outline(kind);
        // It stops as soon as the network is built.
        drop(self.run(weights.clone(), at, BenchPurpose::Timing(1)));
        weights.outlined()
    }
}

/// Measurement that a case is built for.
pub(crate) enum BenchPurpose {
    /// Time and memory of this number of runs.
    Timing(usize),
    /// One output.
    Comparison,
}

/// Parts that a case is built from.
pub(crate) struct CaseBench {
    case: &'static BenchCase,
    pub(crate) weights: Weights,
    pub(crate) small: bool,
    sizes: SizeArguments,
    purpose: BenchPurpose,
    /// Inputs, equal each time and on every device.
    draws: RefCell<CpuGenerator>,
    /// Of the last run.
    output: RefCell<Option<Tensor>>,
}

impl CaseBench {
    /// A published config, with smaller numbers where a small network is measured.
    pub(crate) fn config<T: Serialize + DeserializeOwned>(
        &self,
        published: &T,
    ) -> Result<T, EngineError> {
        let small = small_numbers();
        let config = serde_json::to_value(published).map(|mut config| {
            let fields = config.as_object_mut().into_iter().flatten();
            for (name, value) in fields.filter(|(_, value)| self.small && !value.is_null()) {
                if let Some(number) = small.get(name) {
                    *value = number.clone();
                }
            }
            config
        });
        let config = config.and_then(serde_json::from_value);
        config.map_err(|err| EngineError::internal(err.to_string()))
    }

    /// The network, unless only its outline is wanted.
    pub(crate) fn built<T, E: Into<EngineError>>(
        &self,
        network: Result<T, E>,
    ) -> Result<T, EngineError> {
        let network = network.map_err(Into::into)?;
        if self.weights.outlined().is_empty() {
            Ok(network)
        } else {
            Err(EngineError::internal("this network is an outline"))
        }
    }

    /// Width and height in pixels, and frames: as the arguments say, else of the case, of a small one `small`.
    pub(crate) fn size(&self, small: [i64; 3]) -> [i64; 3] {
        let [width, height, frames] = if self.small { small } else { self.case.size };
        let own = &self.sizes;
        [
            own.width.unwrap_or(width),
            own.height.unwrap_or(height),
            own.frames.unwrap_or(frames),
        ]
    }

    pub(crate) fn image_shape(
        &self,
        form: LatentForm,
        channels: i64,
    ) -> Result<ImageLatentShape, EngineError> {
        let [width, height, _] = self.size([128, 128, 1]);
        form.shape(channels, width as u32, height as u32)
    }

    /// Tiles of an autoencoder, with the edge `small` in pixels for a small one. `patch`: pixels of a decoder's pixel
    pub(crate) fn tiling(&self, small: i64, patch: i64) -> Option<Tiling> {
        let tile = self.sizes.tile.or(self.case.tile)?;
        let tile = if self.small { small } else { tile };
        Some(Tiling::of_size(tile / patch))
    }

    pub(crate) fn batch(&self) -> i64 {
        self.sizes.batch.unwrap_or(1)
    }

    pub(crate) fn num_references(&self) -> i64 {
        self.sizes.references.unwrap_or(0)
    }

    /// Random embeddings of a prompt.
    pub(crate) fn text(&self, length: i64, width: i64) -> TextEmbeds {
        TextEmbeds::of_states(self.random(&[1, length, width], self.weights.kind()))
    }

    /// Normal numbers.
    pub(crate) fn random(&self, size: &[i64], kind: Kind) -> Tensor {
        let drawn = self.draws.borrow_mut().normal(size);
        let drawn = drawn.unwrap_or_else(|err| panic!("{err}"));
        drawn.to_device(self.weights.device()).to_kind(kind)
    }

    /// Random token ids below `vocab_size`, `(1, length)`
    pub(crate) fn random_ids(&self, vocab_size: i64, length: i64) -> Tensor {
        let drawn = self.random(&[1, length], Kind::Float).abs() * 1e3;
        drawn.to_kind(Kind::Int64).remainder(vocab_size)
    }

    /// Measures a call whose tensors are dropped or [kept](Self::keep).
    pub(crate) fn timed(&self, call: &mut dyn FnMut() -> Option<()>) -> BenchLine {
        let runs = match self.purpose {
            BenchPurpose::Timing(runs) => [WARM_UPS, runs],
            BenchPurpose::Comparison => [0, 1],
        };
        let line = timed(self.weights.device(), runs, call)?;
        let bytes = json!({"weights_bytes": self.weights.random_bytes()});
        Ok(merged(line, bytes))
    }

    pub(crate) fn timed_output(&self, call: &mut dyn FnMut() -> Option<Tensor>) -> BenchLine {
        self.timed(&mut || {
            // Never two at a time.
            drop(self.output.take());
            self.output.replace(call());
            self.output.borrow().as_ref().map(drop)
        })
    }

    /// Keeps an autoencoder's pixels for a comparison, else drops them. The last ones of a run are its output.
    pub(crate) fn keep(&self, pixels: Tensor) {
        if matches!(self.purpose, BenchPurpose::Comparison) {
            self.output.replace(Some(pixels));
        }
    }

    /// Measures one call of an image model, as a job calls it. `text`: embeddings of a prompt
    pub(crate) fn image_step<M: ImageModel<Config: Serialize>>(
        &self,
        published: &M::Config,
        text: impl Fn(&M::Config) -> TextEmbeds,
    ) -> BenchLine {
        let config = self.config(published)?;
        let model = self.built(M::new(&config, &self.weights))?;
        let text = text(&config);
        let shape = self.image_shape(M::LATENTS, config.latent_channels())?;
        let edges = [1, shape.channels, shape.height, shape.width];
        let references: Vec<_> = (0..self.num_references())
            .map(|_| self.random(&edges, Kind::Float))
            .collect();
        let device = self.weights.device();
        let mut conditioning = ImageConditioning::of_prompt(shape, &text);
        conditioning.references = ReferenceTokens::new(references.iter(), shape, device)?;
        let context = model.context(&ContextInput {
            text: &text,
            conditioning: &conditioning,
            num_images: self.batch(),
            timesteps: &TIMESTEPS,
            hooks: &NoHooks,
        })?;
        let modulations = model.modulations(&TIMESTEPS, &context);
        let size = packed_size::<M>(shape).into_iter();
        let size: Vec<i64> = size
            .map(|edge| if edge < 0 { self.batch() } else { edge })
            .collect();
        let latents = self.random(&size, Kind::Float);
        self.timed_output(&mut || {
            let input = model.model_input(&latents, &conditioning);
            let pass = ForwardPass {
                context: &context,
                modulation: &modulations[0],
                skip: SkipOptions::default(),
                controls: None,
                hooks: &NoHooks,
            };
            model.predict(&input, &pass)
        })
    }

    /// Measures a T5 that reads a prompt of `length` tokens; only UMT5 masks padding.
    pub(crate) fn t5(&self, published: &T5Config, length: i64) -> BenchLine {
        let config = self.config(published)?;
        let encoder = self.built(T5Encoder::new(&config, &self.weights))?;
        let ids = self.random_ids(config.vocab_size.min(32_000), length);
        let mask = (config.model_type == Some(T5Kind::Umt5)).then(|| ids.ones_like());
        self.timed_output(&mut || encoder.forward(&ids, mask.as_ref(), &NoHooks))
    }

    /// Measures a language model that reads a prompt of `length` tokens, up to its tap.
    pub(crate) fn language(&self, published: &LanguageConfig, length: usize) -> BenchLine {
        let mut config = LanguageConfig {
            // No file has it.
            tap: published.tap,
            ..self.config(published)?
        };
        if self.small {
            // Enough for what is read.
            let states = config.tap.states(SMALL_LAYERS);
            config.num_hidden_layers = states.into_iter().fold(SMALL_LAYERS, i64::max);
        }
        let encoder = self.built(LanguageEncoder::new(&config, &self.weights))?;
        let ids = self.random_ids(config.vocab_size, length as i64);
        let mask = ids.ones_like();
        self.timed_output(&mut || encoder.forward(&ids, &mask, &NoHooks))
    }
}

/// Numbers of small networks of the same structure, by the fields of their configs.
fn small_numbers() -> Value {
    json!({"approximator_hidden_dim": 128, "approximator_layers": 2, "audio_num_attention_heads": 2, "base_dim": 16, "cap_feat_dim": 64, "d_ff": 512,
        "d_model": 256, "decoder_base_dim": 16, "dim": 256, "ffn_dim": 256, "hidden_size": 256, "image_proj_dim": 72,
        "intermediate_size": 512, "joint_attention_dim": 128, "n_heads": 2, "n_kv_heads": 2, "n_layers": 4,
        "n_refiner_layers": 1, "num_attention_heads": 2, "num_heads": 4, "num_key_value_heads": 1, "num_layers": 2,
        "num_single_layers": 4, "pooled_projection_dim": 64, "text_dim": 128, "text_embed_dim": 256,
        "text_hidden_dim": 128, "text_intermediate_size": 256, "text_num_attention_heads": 1,
        "text_num_key_value_heads": 1, "vocab_size": 1000})
}

fn size(text: &str) -> Result<i64, String> {
    in_range(text, 16_384)
}

/// A whole number from 1 to `most`.
pub(crate) fn in_range(text: &str, most: i64) -> Result<i64, String> {
    match text.parse() {
        Ok(number) if (1..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected 1 to {most}, found {text:?}")),
    }
}

/// `base` with the fields of `others` that are not null added or replaced.
pub(crate) fn merged(mut base: Value, others: Value) -> Value {
    if let (Value::Object(base), Value::Object(others)) = (&mut base, others) {
        base.extend(others.into_iter().filter(|(_, value)| !value.is_null()));
    }
    base
}
