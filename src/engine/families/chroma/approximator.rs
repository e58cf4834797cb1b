//! Chroma's approximator: one network for all modulation vectors, with the index of a vector as an input.
//!
//! In the arithmetic of diffusers 0.42.1 (`ChromaApproximator` of `models/transformers/transformer_chroma.py`), except that
//! hidden states stay in f32 between layers: there are few layers, each with a residual connection.
//!
//! Shapes: `N` timesteps, `V` vectors of `C` channels for each; `A` width inside.

use safelight_core::families::chroma::CALLS_AT_ONCE;
use safelight_core::networks::ChromaTransformerConfig;
use tch::{Device, Kind, Tensor};

use crate::nn::{Linear, silu, timestep_embedding};
use crate::streams::StreamModulations;
use crate::weights::{Weights, WeightsError};

/// Epsilon of the norms, which the config lacks.
const EPS: f64 = f32::EPSILON as f64;
/// Factor of a vector's index before its sinusoidal embedding.
const NUMBER_FACTOR: f64 = 1000.0;

pub struct ModulationApproximator {
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
    pub fn new(config: &ChromaTransformerConfig, w: &Weights) -> Result<Self, WeightsError> {
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
    pub fn modulations(&self, timesteps: &[f32]) -> Vec<StreamModulations> {
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
            final_layer: vectors.narrow(0, of_txt + 6 * double, 2).unsqueeze(0),
        }
    }
}
