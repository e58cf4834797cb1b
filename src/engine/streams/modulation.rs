//! AdaLN modulation of blocks and final layer, from timestep, pooled text and distilled guidance: one layer for each block,
//! or one without bias that all blocks of a list share (FLUX.2).
//!
//! Shapes: as in [`streams`](super); `N` timesteps.

use safelight_core::networks::stream_blocks::{
    ModulationInputs, SHARED_MODULATIONS, SINUSOIDS, StreamShape,
};
use tch::{Device, Kind, Tensor};

use super::StreamModulations;
use crate::nn::{Linear, Mlp, timestep_embedding};
use crate::{Weights, WeightsError};

/// Factor of the guidance before its sinusoidal embedding.
const GUIDANCE_FACTOR: f32 = 1000.0;

pub struct StreamModulation {
    time_in: Mlp,
    vector_in: Option<Mlp>,
    guidance_in: Option<Mlp>,
    /// One for each block, or one for all.
    double: Vec<DoubleModulation>,
    single: Vec<Linear>,
    /// `adaLN_modulation.1` of the final layer and its dtype; `None` in ControlNets.
    last: Option<(Linear, Kind)>,
    shape: StreamShape,
    kind: Kind,
    device: Device,
}

/// `in_layer` and `out_layer` of an embedder.
pub fn embedder(has_bias: bool, in_dim: i64, dim: i64, w: &Weights) -> Result<Mlp, WeightsError> {
    Mlp::biased(has_bias, [in_dim, dim, dim], ["in_layer", "out_layer"], w)
}

impl StreamModulation {
    /// `inputs`: what modulates besides the timestep; `w`: the transformer's weights by the authors' names; `last`: those of
    /// the final layer, in its dtype
    pub fn new(
        shape: &StreamShape,
        inputs: Option<ModulationInputs>,
        w: &Weights,
        last: Option<&Weights>,
    ) -> Result<Self, WeightsError> {
        let (dim, has_bias, exact) = (shape.dim, !shape.is_shared, w.with_kind(Kind::Float));
        // Run once for all steps.
        let layer =
            |count: i64, w: &Weights| Linear::biased(has_bias, dim, count * dim, &w.seldom());
        let of_last = |last: &Weights| {
            let layer = layer(2, &(last / "adaLN_modulation.1"))?;
            Ok::<_, WeightsError>((layer, last.kind()))
        };
        let embedder = |inputs, name| embedder(has_bias, inputs, dim, &(&exact / name));
        let time_in = embedder(SINUSOIDS, "time_in")?;
        let pooled = inputs.and_then(|it| it.pooled);
        let pooled = pooled.map(|pooled| embedder(pooled, "vector_in"));
        let guidance = inputs.filter(|it| it.guidance_embeds);
        let guidance = guidance.map(|_| embedder(SINUSOIDS, "guidance_in"));
        let (double, single) = if has_bias {
            let double = |i| DoubleModulation::new(dim, &(w / "double_blocks" / i));
            let single = |i| layer(3, &(w / "single_blocks" / i / "modulation" / "lin"));
            let [num_double, num_single] = shape.blocks;
            let double: Result<Vec<_>, _> = (0..num_double).map(double).collect();
            let single: Result<Vec<_>, _> = (0..num_single).map(single).collect();
            (double?, single?)
        } else {
            let [img, txt, both] = SHARED_MODULATIONS.map(|name| w / name / "lin");
            let (img, txt) = (layer(6, &img)?, layer(6, &txt)?);
            (vec![DoubleModulation { txt, img }], vec![layer(3, &both)?])
        };
        Ok(Self {
            time_in,
            vector_in: pooled.transpose()?,
            guidance_in: guidance.transpose()?,
            double,
            single,
            last: last.map(of_last).transpose()?,
            shape: *shape,
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// Embeds pooled text, `(1, pooled_projection_dim)`, and distilled guidance in models with these inputs -> summand of
    /// the timestep embedding, `(1, C)` in f32
    pub fn vec(&self, pooled: Option<&Tensor>, distilled_guidance: f64) -> Option<Tensor> {
        let pooled = self.vector_in.as_ref().zip(pooled).map(|(layers, pooled)| {
            let pooled = pooled.to_device(self.device).to_kind(Kind::Float);
            layers.forward(&pooled.contiguous(), |xs| xs.silu())
        });
        let guidance = self.guidance_in.as_ref().map(|layers| {
            let guidance = self.sinusoids(&[distilled_guidance as f32 * GUIDANCE_FACTOR]);
            layers.forward(&guidance, |xs| xs.silu())
        });
        match (guidance, pooled) {
            (Some(guidance), Some(pooled)) => Some(guidance + pooled),
            (guidance, pooled) => guidance.or(pooled),
        }
    }

    /// `(values, 256)` in f32
    pub fn sinusoids(&self, values: &[f32]) -> Tensor {
        let values = Tensor::from_slice(values).to_device(self.device);
        timestep_embedding(&values, SINUSOIDS)
    }

    /// Modulation for each timestep: `sinusoids`: `(N, 256)`, `vec`: see [`vec`](Self::vec).
    ///
    /// Layers of each block are a quarter of the model. Many timesteps at once read them no more often than one does.
    pub fn modulations(&self, sinusoids: &Tensor, vec: Option<&Tensor>) -> Vec<StreamModulations> {
        let mut time = self.time_in.forward(sinusoids, |xs| xs.silu());
        if let Some(vec) = vec {
            time += vec;
        }
        let wide = time.silu();
        let time = &wide.to_kind(self.kind);
        let double = self.double.iter().map(|layers| layers.forward(time));
        let single = self
            .single
            .iter()
            .map(|layer| layer.forward(time).unsqueeze(0));
        let lists: [Vec<Tensor>; 2] = [double.collect(), single.collect()];
        let last = self.last.as_ref();
        let last = last.map(|(layer, kind)| layer.forward(&wide.to_kind(*kind)).unsqueeze(0));
        let dim = self.shape.dim;
        let of_list = |(all, count): (&Vec<Tensor>, i64), i: i64| {
            let each = all.iter().map(|all| one_of(all, i, dim)).cycle();
            each.take(count as usize).collect::<Vec<_>>()
        };
        let of_timestep = |i| StreamModulations {
            blocks: lists
                .iter()
                .zip(self.shape.blocks)
                .flat_map(|list| of_list(list, i))
                .collect(),
            final_layer: last.as_ref().map(|all| one_of(all, i, dim)),
        };
        (0..sinusoids.size()[0]).map(of_timestep).collect()
    }
}

fn one_of(all: &Tensor, i: i64, dim: i64) -> Tensor {
    // u n (m c) -> u m c
    let values = all.select(1, i);
    values.view([all.size()[0], -1, dim])
}

/// `txt_mod` and `img_mod` of one double block.
struct DoubleModulation {
    txt: Linear,
    img: Linear,
}

impl DoubleModulation {
    fn new(dim: i64, w: &Weights) -> Result<Self, WeightsError> {
        let of = |name| Linear::new(dim, 6 * dim, &(w / name / "lin").seldom());
        Ok(Self {
            txt: of("txt_mod")?,
            img: of("img_mod")?,
        })
    }

    /// `vec`: `(N, C)` -> text vectors, then image vectors: `(2, N, 6 C)`
    fn forward(&self, vec: &Tensor) -> Tensor {
        let size = [2, vec.size()[0], self.img.out_features()];
        let values = Tensor::empty(size, (vec.kind(), vec.device()));
        self.txt.forward_into(vec, &values.get(0));
        self.img.forward_into(vec, &values.get(1));
        values
    }
}
