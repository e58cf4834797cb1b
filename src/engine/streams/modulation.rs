//! AdaLN modulation with one layer per block, from timestep, pooled text and distilled guidance.
//!
//! Shapes: as in [`streams`](super); `N` timesteps.

use safelight_core::networks::stream_blocks::{SINUSOIDS, StreamShape, ToldShape};
use tch::{Device, Kind, Tensor};

use super::StreamModulations;
use crate::nn::{Linear, timestep_embedding};
use crate::weights::{Weights, WeightsError};

/// Factor of the guidance before its sinusoidal embedding.
const GUIDANCE_FACTOR: f32 = 1000.0;

pub struct BlockModulationLayers {
    time_in: MlpEmbedder,
    vector_in: MlpEmbedder,
    guidance_in: Option<MlpEmbedder>,
    double: Vec<DoubleModulation>,
    single: Vec<Linear>,
    dim: i64,
    kind: Kind,
    device: Device,
}

/// Modulation layers of the blocks and of the final layer.
pub struct PerBlockModulation {
    pub blocks: BlockModulationLayers,
    /// `adaLN_modulation.1` and its dtype.
    last: (Linear, Kind),
}

/// Two linear layers with SiLU between them, in f32.
pub struct MlpEmbedder {
    in_layer: Linear,
    out_layer: Linear,
}

impl MlpEmbedder {
    pub fn new(in_dim: i64, dim: i64, w: &Weights) -> Result<Self, WeightsError> {
        Ok(Self {
            in_layer: Linear::new(in_dim, dim, &(w / "in_layer"))?,
            out_layer: Linear::new(dim, dim, &(w / "out_layer"))?,
        })
    }

    /// `(N, in_dim)` -> `(N, C)`
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        self.out_layer.forward(&self.in_layer.forward(xs).silu())
    }
}

/// Layer from the timestep vector to `count` shift, scale and gate vectors; run once for all steps.
fn modulation_layer(dim: i64, count: i64, w: &Weights) -> Result<Linear, WeightsError> {
    Linear::new(dim, count * dim, &w.seldom())
}

impl BlockModulationLayers {
    pub fn new(shape: &StreamShape, told: ToldShape, w: &Weights) -> Result<Self, WeightsError> {
        let (dim, [num_double, num_single]) = (shape.dim, shape.blocks);
        let exact = w.with_kind(Kind::Float);
        let embedder = |inputs, name| MlpEmbedder::new(inputs, dim, &(&exact / name));
        let guidance = || embedder(SINUSOIDS, "guidance_in");
        let double = |i| DoubleModulation::new(dim, &(w / "double_blocks" / i));
        let single =
            |i| modulation_layer(dim, 3, &(w / "single_blocks" / i / "modulation" / "lin"));
        Ok(Self {
            time_in: embedder(SINUSOIDS, "time_in")?,
            vector_in: embedder(told.pooled, "vector_in")?,
            guidance_in: told.guidance_embeds.then(guidance).transpose()?,
            double: (0..num_double).map(double).collect::<Result<_, _>>()?,
            single: (0..num_single).map(single).collect::<Result<_, _>>()?,
            dim,
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// Embeds pooled text and, in models with that input, distilled guidance: `pooled`: `(1, pooled_projection_dim)` ->
    /// summand of the timestep embedding, `(1, C)` in f32
    pub fn vec(&self, pooled: &Tensor, distilled_guidance: f64) -> Tensor {
        let pooled = pooled.to_device(self.device).to_kind(Kind::Float);
        let vec = self.vector_in.forward(&pooled.contiguous());
        match &self.guidance_in {
            Some(guidance_in) => {
                let guidance = self.sinusoids(&[distilled_guidance as f32 * GUIDANCE_FACTOR]);
                guidance_in.forward(&guidance) + vec
            }
            None => vec,
        }
    }

    /// `(values, 256)` in f32
    pub fn sinusoids(&self, values: &[f32]) -> Tensor {
        let values = Tensor::from_slice(values).to_device(self.device);
        timestep_embedding(&values, SINUSOIDS)
    }

    /// Input of all modulation layers: `(N, C)` in f32
    fn wide(&self, sinusoids: &Tensor, vec: &Tensor) -> Tensor {
        (self.time_in.forward(sinusoids) + vec).silu()
    }

    /// Modulation of each block for all timesteps, text first: `(2 or 1, N, count * C)`
    fn of_all(&self, wide: &Tensor) -> Vec<Tensor> {
        let vec = &wide.to_kind(self.kind);
        let double = self.double.iter().map(|layers| layers.forward(vec));
        let single = self
            .single
            .iter()
            .map(|layer| layer.forward(vec).unsqueeze(0));
        double.chain(single).collect()
    }

    /// Modulation of the blocks for each timestep, see [`StreamModulations::blocks`]: `sinusoids`: `(N, 256)`, `vec`: see
    /// [`vec`](Self::vec)
    pub fn each(&self, sinusoids: &Tensor, vec: &Tensor) -> Vec<Vec<Tensor>> {
        let blocks = self.of_all(&self.wide(sinusoids, vec));
        let each = 0..sinusoids.size()[0];
        each.map(|i| of_timestep(&blocks, i, self.dim)).collect()
    }
}

impl PerBlockModulation {
    /// `w`: the transformer's weights, `last`: those of its final layer, in its dtype
    pub fn new(
        shape: &StreamShape,
        told: ToldShape,
        w: &Weights,
        last: &Weights,
    ) -> Result<Self, WeightsError> {
        let of_last = modulation_layer(shape.dim, 2, &(last / "adaLN_modulation.1"))?;
        Ok(Self {
            blocks: BlockModulationLayers::new(shape, told, w)?,
            last: (of_last, last.kind()),
        })
    }

    /// Modulation for each timestep: `sinusoids`: `(N, 256)`, `vec`: see [`vec`](BlockModulationLayers::vec).
    ///
    /// These layers are a quarter of the model. Many timesteps at once read them no more often than one does.
    pub fn modulations(&self, sinusoids: &Tensor, vec: &Tensor) -> Vec<StreamModulations> {
        let wide = self.blocks.wide(sinusoids, vec);
        let blocks = self.blocks.of_all(&wide);
        let (last, kind) = &self.last;
        let final_layer = last.forward(&wide.to_kind(*kind)).unsqueeze(0);
        each_timestep(&blocks, &final_layer, self.blocks.dim)
    }
}

/// Splits modulation by timestep: `blocks`: per block, `(streams, N, count * C)`, `final_layer`: `(1, N, 2 C)`
pub(super) fn each_timestep(
    blocks: &[Tensor],
    final_layer: &Tensor,
    dim: i64,
) -> Vec<StreamModulations> {
    (0..final_layer.size()[1])
        .map(|i| StreamModulations {
            blocks: of_timestep(blocks, i, dim),
            final_layer: one_of(final_layer, i, dim),
        })
        .collect()
}

pub fn of_timestep(blocks: &[Tensor], i: i64, dim: i64) -> Vec<Tensor> {
    blocks.iter().map(|all| one_of(all, i, dim)).collect()
}

fn one_of(all: &Tensor, i: i64, dim: i64) -> Tensor {
    // u n (m c) -> u m c
    let values = all.select(1, i);
    values.view([all.size()[0], -1, dim])
}

/// Text vectors, then image vectors: `vec`: `(N, C)` -> `(2, N, 6 C)`
pub(super) fn both_of([txt, img]: [&Linear; 2], vec: &Tensor) -> Tensor {
    let size = [2, vec.size()[0], img.out_features()];
    let values = Tensor::empty(size, (vec.kind(), vec.device()));
    txt.forward_into(vec, &values.get(0));
    img.forward_into(vec, &values.get(1));
    values
}

/// `txt_mod` and `img_mod` of one double block.
pub struct DoubleModulation {
    txt: Linear,
    img: Linear,
}

impl DoubleModulation {
    pub fn new(dim: i64, w: &Weights) -> Result<Self, WeightsError> {
        let of = |name| modulation_layer(dim, 6, &(w / name / "lin"));
        Ok(Self {
            txt: of("txt_mod")?,
            img: of("img_mod")?,
        })
    }

    /// `vec`: `(N, C)` -> text vectors, then image vectors: `(2, N, 6 C)`
    pub fn forward(&self, vec: &Tensor) -> Tensor {
        both_of([&self.txt, &self.img], vec)
    }
}
