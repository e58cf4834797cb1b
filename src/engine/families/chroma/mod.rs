//! Chroma: text to image, image to image, inpainting.
//!
//! The reference is `ChromaPipeline`, `ChromaImg2ImgPipeline` and `ChromaInpaintPipeline` of diffusers 0.42.1, except
//! that unmasked pixels stay exactly. Blocks, tokens and their position ids are those of FLUX.1.
//!
//! The transformer is FLUX.1's, with one network that makes all modulation vectors, and attention that distinguishes text
//! from padding, in the arithmetic of diffusers 0.42.1 (`models/transformers/transformer_chroma.py`), except that hidden
//! states of that network stay in f32 between layers: there are few layers, each with a residual connection. Fields have
//! the authors' names; the blocks and the forward pass through them are in [`streams`](crate::streams).
//!
//! **Padding.** Of the tokens after a text one counts as text. diffusers adds 1 to the score of each pair of tokens that
//! count and 0 to the others, so that padding is attended to with less weight. (The authors hide it.) T5 gives equal hidden
//! states for padding far enough after the text; such tokens stay equal in all blocks, as text has no positions, so that
//! one of them represents all: the logarithm of their number is added to its scores.
//!
//! Shapes: `B` images of one text; `T` tokens of text, `I` of an image; `C` width. In the approximator: `N` timesteps, `V`
//! vectors for each; `A` width inside.

use std::rc::Rc;

use safelight_core::families::ModelFamily;
use safelight_core::families::chroma::{CALLS_AT_ONCE, TEXT_TOKENS};
use safelight_core::job::JobFolder;
use safelight_core::networks::{ChromaTransformerConfig, SchedulerConfig, T5Kind};
use tch::{Device, Kind, Tensor};

use super::family::ImageFamily;
use super::flux_backbone::FluxBackbone;
use crate::denoise::fits;
use crate::families::flux::{ROPE_THETA, position_ids, record};
use crate::nn::{Linear, rounded_timesteps, silu, timestep_embedding};
use crate::sampling::FlowSchedule;
use crate::stages::images::{
    CapturedInputs, ContextInput, ForwardPass, ImageModel, NoControlNet, WeightsDialect,
};
use crate::streams::{FluxSequence, StreamModulations};
use crate::text::{EncoderFiles, PaddingMode, PromptEmbeds, TextEmbeds, embeds_of, read_t5};
use crate::{EngineError, StageCapture, StageWork, Weights, WeightsError};

pub(crate) static FAMILY: ImageFamily<ChromaTransformer> = ImageFamily::NEW;

/// Indices of shift and scale of the last layer, in every dialect.
const SHIFT_AND_SCALE: (i64, i64) = (0, 1);
/// Row stride that libtorch's fused attention reads without a copy.
const ALIGNMENT: i64 = 8;
/// Shift of files without a scheduler: none.
const SHIFT: f64 = 1.0;

pub struct ChromaTransformer {
    backbone: FluxBackbone,
    approximator: ModulationApproximator,
    config: ChromaTransformerConfig,
}

impl ImageModel for ChromaTransformer {
    type Config = ChromaTransformerConfig;
    type Control = NoControlNet<Self>;
    type Context = FluxSequence;
    type Modulation = StreamModulations;

    const FAMILY: ModelFamily = ModelFamily::CHROMA;

    fn new(config: &ChromaTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &WeightsDialect::of::<Self>(w).weights;
        let channels = [
            config.in_channels,
            config.joint_attention_dim,
            config.in_channels,
        ];
        let axes = (&config.axes_dims_rope[..], ROPE_THETA);
        Ok(Self {
            backbone: FluxBackbone::new(&config.streams(), channels, axes, SHIFT_AND_SCALE, w)?,
            approximator: ModulationApproximator::new(config, &(w / "distilled_guidance_layer"))?,
            config: config.clone(),
        })
    }

    /// The text's mask is 1 for tokens that count as text, all of them before the others.
    fn context(&self, input: &ContextInput<'_, Self>) -> Result<FluxSequence, EngineError> {
        let (text, conditioning) = (input.text, input.conditioning);
        let (prompt, mask, shape) = (&text.prompt, text.mask()?, conditioning.shape);
        let mask = mask.to_device(Device::Cpu).to_kind(Kind::Float);
        let alike = alike_at_end(prompt, &mask);
        let kept = prompt.size()[1] - alike + 1;
        let bias = bias(&mask.view([-1]).narrow(0, 0, kept), alike, shape.tokens());
        let (device, kind) = self.backbone.place();
        let text = &TextEmbeds::of_states(prompt.narrow(1, 0, kept));
        let ids = position_ids(text, conditioning);
        Ok(FluxSequence {
            bias: Some(aligned(&bias, device, kind)),
            ..self.backbone.context(text, &ids, input.num_images)
        })
    }

    fn modulations(&self, timesteps: &[f32], _: &FluxSequence) -> Vec<StreamModulations> {
        self.approximator.modulations(&rounded_timesteps(timesteps))
    }

    /// `img`: `(B, I, in_channels)` -> velocity, as large
    fn predict(&self, img: &Tensor, pass: &ForwardPass<'_, Self>) -> Option<Tensor> {
        let none = || Some(Rc::default());
        self.backbone.forward(img, pass.context, pass, none)
    }

    fn encode_text(_: &JobFolder, work: &mut StageWork<'_>) -> Result<PromptEmbeds, EngineError> {
        let options = &work.request.options;
        let length = options.max_sequence_length.unwrap_or(TEXT_TOKENS) as usize;
        let files = EncoderFiles::first(&work.request.files);
        embeds_of(work, |texts, work| {
            let padded = (length, PaddingMode::Hidden);
            let read = read_t5(&files, T5Kind::T5, texts, padded, work)?;
            let embeds = read.into_iter().map(|read| TextEmbeds {
                mask: read.mask.as_ref().map(with_one_more),
                ..read
            });
            Ok(embeds.collect())
        })
    }

    fn schedule(_: &Self::Config) -> FlowSchedule {
        SchedulerConfig::of_shift(SHIFT).into()
    }

    fn config(&self) -> &ChromaTransformerConfig {
        &self.config
    }

    fn accepts(&self, text: &TextEmbeds) -> bool {
        let length = text.prompt.size().get(1).copied().unwrap_or(0);
        let has_mask = text.mask.as_ref().is_some_and(|it| fits(it, &[1, length]));
        has_mask && fits(&text.prompt, &[1, length, self.config.joint_attention_dim])
    }

    fn record(&self, inputs: &CapturedInputs<'_, Self>, capture: &mut StageCapture) {
        record(inputs, capture);
    }
}

/// A mask with the first padding token counted as text: `(1, T)` in f32
fn with_one_more(mask: &Tensor) -> Tensor {
    let count = mask.to_kind(Kind::Int64).sum(Kind::Int64);
    let places = Tensor::arange(mask.size()[1], (Kind::Int64, mask.device()));
    places.le_tensor(&count).unsqueeze(0).to_kind(Kind::Float)
}

/// Number of padding tokens with equal embeddings at the end of a text: at least 1, the last.
fn alike_at_end(prompt_embeds: &Tensor, mask: &Tensor) -> i64 {
    let rows = prompt_embeds.to_device(Device::Cpu).select(0, 0);
    let length = rows.size()[0];
    let last = rows.narrow(0, length - 1, 1);
    let is_alike = rows.eq_tensor(&last).all_dim(1, false);
    let is_padding = mask.view([-1]).eq(0.0);
    let other = is_alike.logical_and(&is_padding).logical_not();
    // After the last that is not.
    let others = other.nonzero();
    let alike = match others.size()[0] {
        0 => length,
        count => length - 1 - others.int64_value(&[count - 1, 0]),
    };
    alike.max(1)
}

/// Bias of attention scores for text tokens and `image` tokens after them, on the CPU in f32: `mask`: `(T)`, whose last
/// token represents `alike` ones -> `(1, 1, T + I, T + I)`, query first
fn bias(mask: &Tensor, alike: i64, image: i64) -> Tensor {
    let whole = Tensor::cat(
        &[mask, &Tensor::ones([image], (Kind::Float, Device::Cpu))],
        0,
    );
    let bias = whole.unsqueeze(1) * whole.unsqueeze(0);
    drop(
        bias.select(1, mask.size()[0] - 1)
            .g_add_scalar_((alike as f64).ln()),
    );
    bias.unsqueeze(0).unsqueeze(0)
}

/// The bias on a device, with row strides that kernels read without a copy in every call.
fn aligned(bias: &Tensor, device: Device, kind: Kind) -> Tensor {
    let length = bias.size()[3];
    let longer = bias.constant_pad_nd([0, (ALIGNMENT - length % ALIGNMENT) % ALIGNMENT]);
    let longer = longer.to_device(device).to_kind(kind);
    longer.narrow(3, 0, length)
}

/// Epsilon of the norms, which the config lacks.
const EPS: f64 = f32::EPSILON as f64;
/// Factor of a vector's index before its sinusoidal embedding.
const NUMBER_FACTOR: f64 = 1000.0;

/// One network for all modulation vectors, with the index of a vector as an input: `ChromaApproximator` of diffusers.
struct ModulationApproximator {
    in_proj: Linear,
    layers: Vec<ApproximatorLayer>,
    out_proj: Linear,
    /// Embedded index of each vector, `(V, inputs)` in f32.
    numbers: Tensor,
    config: ChromaTransformerConfig,
    kind: Kind,
}

struct ApproximatorLayer {
    /// `(A)` in f32
    norm: Tensor,
    in_layer: Linear,
    out_layer: Linear,
}

impl ModulationApproximator {
    /// `w`: `distilled_guidance_layer`
    fn new(config: &ChromaTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let inner = config.approximator_hidden_dim;
        let exact = w.with_kind(Kind::Float);
        let seldom = &w.seldom();
        let layer = |i| {
            let own = seldom / "layers" / i;
            Ok::<_, WeightsError>(ApproximatorLayer {
                norm: (&exact / "norms" / i).tensor("scale", &[inner])?,
                in_layer: Linear::new(inner, inner, &(&own / "in_layer"))?,
                out_layer: Linear::new(inner, inner, &(&own / "out_layer"))?,
            })
        };
        let inputs = config.approximator_num_channels;
        let [.., numbers] = config.approximator_inputs();
        // Computed on the CPU as in diffusers: angles of the last are some hundred thousand radians.
        let cpu = (Kind::Float, Device::Cpu);
        let places = Tensor::arange(config.num_vectors(), cpu) * NUMBER_FACTOR;
        Ok(Self {
            in_proj: Linear::new(inputs, inner, &(&exact / "in_proj"))?,
            layers: (0..config.approximator_layers)
                .map(layer)
                .collect::<Result<_, _>>()?,
            out_proj: Linear::new(inner, config.dim(), &(seldom / "out_proj"))?,
            numbers: timestep_embedding(&places, numbers).to_device(w.device()),
            config: config.clone(),
            kind: w.kind(),
        })
    }

    /// Modulation for each timestep; 1000 is pure noise.
    fn modulations(&self, timesteps: &[f32]) -> Vec<StreamModulations> {
        let parts = timesteps.chunks(CALLS_AT_ONCE);
        let vectors: Vec<Tensor> = parts.map(|part| self.vectors(part)).collect();
        let each = vectors.iter().flat_map(|all| all.unbind(0));
        each.map(|vectors| self.modulations_of(&vectors)).collect()
    }

    /// `(N, V, C)`
    fn vectors(&self, timesteps: &[f32]) -> Tensor {
        let [times, guidance, _] = self.config.approximator_inputs();
        let device = self.numbers.device();
        let count = timesteps.len() as i64;
        let timesteps = Tensor::from_slice(timesteps).to_device(device);
        // Guidance is always 0.
        let inputs = [
            timestep_embedding(&timesteps, times),
            timestep_embedding(&timesteps.zeros_like(), guidance),
        ];
        let inputs = Tensor::cat(&inputs, -1).unsqueeze(1);
        let num_vectors = self.config.num_vectors();
        let inputs = inputs.expand([count, num_vectors, -1], false);
        let numbers = self.numbers.expand([count, -1, -1], false);
        let mut xs = self.in_proj.forward(&Tensor::cat(&[inputs, numbers], -1));
        for layer in &self.layers {
            let normed = xs.rms_norm(layer.norm.size(), Some(&layer.norm), EPS);
            let wide = layer.in_layer.forward(&normed.to_kind(self.kind));
            xs += layer.out_layer.forward(&silu(wide)).to_kind(Kind::Float);
        }
        self.out_proj.forward(&xs.to_kind(self.kind))
    }

    /// `vectors`: `(V, C)`: for single blocks, images of double blocks, texts of double blocks, then shift and scale of the
    /// last layer.
    fn modulations_of(&self, vectors: &Tensor) -> StreamModulations {
        let (double, single) = (self.config.num_layers, self.config.num_single_layers);
        let of_img = 3 * single;
        let of_txt = of_img + 6 * double;
        let both = |i: i64| {
            let [txt, img] = [of_txt, of_img].map(|start| vectors.narrow(0, start + 6 * i, 6));
            Tensor::stack(&[txt, img], 0)
        };
        let one = |i: i64| vectors.narrow(0, 3 * i, 3).unsqueeze(0);
        StreamModulations {
            blocks: (0..double).map(both).chain((0..single).map(one)).collect(),
            final_layer: Some(vectors.narrow(0, of_txt + 6 * double, 2).unsqueeze(0)),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
