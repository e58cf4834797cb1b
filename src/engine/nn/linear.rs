//! A matrix product with an optional bias. The matrix stays in its storage and is expanded for each product.

use tch::{Device, Kind, Tensor};

use crate::weights::{StoredMatrix, Weights, WeightsError};

pub struct Linear {
    /// Rows of the matrix, one part below the other; nearly always one part.
    parts: Vec<Part>,
    /// What is computed with, whatever the storage.
    kind: Kind,
}

struct Part {
    weight: StoredMatrix,
    bias: Option<Tensor>,
}

impl Linear {
    pub fn new(in_features: i64, out_features: i64, w: &Weights) -> Result<Self, WeightsError> {
        let weight = w.matrix("weight", [out_features, in_features])?;
        let bias = w.tensor("bias", &[out_features])?;
        Ok(Self::of(weight, Some(bias), w.kind()))
    }

    pub fn without_bias(
        in_features: i64,
        out_features: i64,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let weight = w.matrix("weight", [out_features, in_features])?;
        Ok(Self::of(weight, None, w.kind()))
    }

    /// Several products of the same input, one result beside the other: `parts` are their names and sizes.
    ///
    /// Files have them as one matrix or as matrices of their own, below `w`. On a GPU those become one where
    /// they are stored alike: a large product is faster than several. On the CPU they stay where the file is mapped,
    /// which costs no memory.
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
            read.append(&mut Self::new(in_features, *size, &(w / name))?.parts);
        }
        let weights: Vec<&StoredMatrix> = read.iter().map(|part| &part.weight).collect();
        if w.device() != Device::Cpu
            && let Some(weight) = StoredMatrix::stack(&weights)
        {
            let biases: Vec<&Tensor> = read.iter().filter_map(|part| part.bias.as_ref()).collect();
            return Ok(Self::of(weight, Some(Tensor::cat(&biases, 0)), w.kind()));
        }
        Ok(Self {
            parts: read,
            kind: w.kind(),
        })
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
        // Too small to be worth a narrow storage.
        let weight = StoredMatrix::plain(w.tensor("weight", &shape)?.view([out_channels, -1]));
        let bias = w.tensor("bias", &[out_channels])?;
        Ok(Self::of(weight, Some(bias), w.kind()))
    }

    fn of(weight: StoredMatrix, bias: Option<Tensor>, kind: Kind) -> Self {
        Self {
            parts: vec![Part { weight, bias }],
            kind,
        }
    }

    /// The type of the numbers that go in and come out.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    pub fn out_features(&self) -> i64 {
        self.parts.iter().map(|part| part.weight.rows()).sum()
    }

    /// `xs`: `(.., in_features)` -> `(.., out_features)`
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        if let [only] = &self.parts[..]
            && xs.is_contiguous()
        {
            return xs.linear(&only.weight.expand(self.kind), only.bias.as_ref());
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
            let features = weight.rows();
            let part = out.narrow(1, start, features);
            let weight = weight.expand(self.kind);
            drop(match bias {
                Some(bias) => bias.addmm_out(&part, &xs, &weight.tr()),
                None => xs.mm_out(&part, &weight.tr()),
            });
            start += features;
        }
    }
}
