//! A matrix product with an optional bias. How the matrix is stored is this file's business alone.
//!
//! What LoRAs add to it comes from the same [`Weights`]; no network knows of them.

use tch::{Device, Kind, Tensor};

use super::adapter::{Adapter, Parts};
use crate::weights::{Weights, WeightsError};

pub struct Linear {
    /// Rows of the matrix, one part below the other; nearly always one part.
    parts: Vec<Part>,
    /// Where LoRAs change it.
    adapter: Option<Adapter>,
}

struct Part {
    weight: Tensor,
    bias: Option<Tensor>,
}

impl Linear {
    pub fn new(in_features: i64, out_features: i64, w: &Weights) -> Result<Self, WeightsError> {
        Self::as_stored(in_features, out_features, w)?.adapted(in_features, w)
    }

    fn as_stored(
        in_features: i64,
        out_features: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        Ok(Self::of(
            w.tensor("weight", &[out_features, in_features])?,
            Some(w.tensor("bias", &[out_features])?),
        ))
    }

    pub fn without_bias(
        in_features: i64,
        out_features: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let weight = w.tensor("weight", &[out_features, in_features])?;
        Self::of(weight, None).adapted(in_features, w)
    }

    /// Several products of the same input, one result beside the other: `parts` are their names and sizes.
    ///
    /// Files have them as one matrix or as matrices of their own, below `w`. On a GPU those become one: a large
    /// product is faster than several. On the CPU they stay where the file is mapped, which costs no memory.
    pub fn fused(
        in_features: i64,
        parts: &[(&str, i64)],
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        if w.has("weight") || parts.is_empty() {
            let out_features = parts.iter().map(|(_, size)| size).sum();
            return Self::new(in_features, out_features, w);
        }
        let mut read = Vec::with_capacity(parts.len());
        for (name, size) in parts {
            read.append(&mut Self::as_stored(in_features, *size, &(w / name))?.parts);
        }
        if w.device() == Device::Cpu {
            let parts = Self {
                parts: read,
                adapter: None,
            };
            return parts.adapted(in_features, w);
        }
        let weights: Vec<&Tensor> = read.iter().map(|part| &part.weight).collect();
        let biases: Vec<&Tensor> = read.iter().filter_map(|part| part.bias.as_ref()).collect();
        Self::of(Tensor::cat(&weights, 0), Some(Tensor::cat(&biases, 0))).adapted(in_features, w)
    }

    /// A convolution whose kernel is also its stride: `kernel` lists the sizes, inputs are flattened patches.
    pub fn from_patch_conv(
        in_channels: i64,
        out_channels: i64,
        kernel: &[i64],
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let mut shape = vec![out_channels, in_channels];
        shape.extend_from_slice(kernel);
        let in_features = in_channels * kernel.iter().product::<i64>();
        Self::of(
            w.tensor("weight", &shape)?.view([out_channels, -1]),
            Some(w.tensor("bias", &[out_channels])?),
        )
        .adapted(in_features, w)
    }

    fn of(weight: Tensor, bias: Option<Tensor>) -> Self {
        Self {
            parts: vec![Part { weight, bias }],
            adapter: None,
        }
    }

    /// With what the LoRAs at this position add.
    fn adapted(mut self, in_features: i64, w: &Weights) -> Result<Self, WeightsError> {
        let updates = w.layer_updates()?;
        if updates.is_empty() {
            return Ok(self);
        }
        let sides = [self.out_features(), in_features];
        let Parts { bias, adapter } =
            Adapter::new(updates, sides, w.kind(), &|first, count| self.rows(first, count));
        if let Some(bias) = bias {
            let mut start = 0;
            for part in &mut self.parts {
                let features = part.weight.size()[0];
                let more = bias.narrow(0, start, features);
                // Never in place: what is stored may be a file.
                let sum = match &part.bias {
                    Some(own) => own.to_kind(Kind::Float) + more,
                    None => more,
                };
                part.bias = Some(sum.to_kind(w.kind()));
                start += features;
            }
        }
        self.adapter = adapter;
        if let Some(adapter) = &mut self.adapter
            && adapter.scales_rows()
        {
            let device = w.device();
            let biases: Vec<Tensor> = (self.parts.iter_mut())
                .map(|part| {
                    let zeros = || Tensor::zeros([part.weight.size()[0]], (w.kind(), device));
                    part.bias.take().unwrap_or_else(zeros)
                })
                .collect();
            adapter.set_bias(Tensor::cat(&biases, 0));
        }
        Ok(self)
    }

    /// Some of the matrix's rows, `(count, in_features)` in f32.
    fn rows(&self, first: i64, count: i64) -> Tensor {
        let wide = |part: &Part| part.weight.to_kind(Kind::Float);
        let parts: Vec<Tensor> = self.parts.iter().map(wide).collect();
        Tensor::cat(&parts, 0).narrow(0, first, count)
    }

    /// The type of the numbers that go in and come out.
    pub fn kind(&self) -> Kind {
        let first = self.parts.first();
        first.map_or(Kind::Float, |part| part.weight.kind())
    }

    pub fn out_features(&self) -> i64 {
        self.parts.iter().map(|part| part.weight.size()[0]).sum()
    }

    /// `xs`: `(.., in_features)` -> `(.., out_features)`
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        if let [only] = &self.parts[..]
            && xs.is_contiguous()
            && self.adapter.is_none()
        {
            return xs.linear(&only.weight, only.bias.as_ref());
        }
        let mut size = xs.size();
        size.pop();
        size.push(self.out_features());
        let out = Tensor::empty(&size, (xs.kind(), xs.device()));
        self.forward_into(xs, &out);
        out
    }

    /// The same into `out`. The rows of both may lie apart, at any one distance.
    pub fn forward_into(&self, xs: &Tensor, out: &Tensor) {
        let rows = |xs: &Tensor| xs.view([-1, xs.size().last().copied().unwrap_or(1)]);
        let (xs, out) = (rows(xs), rows(out));
        let mut start = 0;
        for Part { weight, bias } in &self.parts {
            let features = weight.size()[0];
            let part = out.narrow(1, start, features);
            drop(match bias {
                Some(bias) => bias.addmm_out(&part, &xs, &weight.tr()),
                None => xs.mm_out(&part, &weight.tr()),
            });
            start += features;
        }
        if let Some(adapter) = &self.adapter {
            adapter.add_to(&xs, &out);
        }
    }
}
