//! Convolutions of images with channels innermost in memory, as cuDNN and oneDNN want it.

use tch::{Device, Kind, Tensor};

use super::adapter::{AdapterRemainder, LoraAdapter};
use crate::kernels;
use crate::runtime::disable_miopen;
use crate::weights::{StoredMatrix, Weights, WeightsError};

/// Convolution bias, `(O)`. On a GPU, where libtorch adds it in a slow separate pass, it is kept separately in f32 and
/// added by a pass that runs anyway.
#[derive(Debug)]
pub struct ConvBias {
    pub own: Tensor,
    pub apart: Option<Tensor>,
}

impl ConvBias {
    pub fn new(own: Tensor) -> Self {
        let is_on_gpu = own.device() != Device::Cpu;
        Self {
            apart: is_on_gpu.then(|| own.to_kind(Kind::Float)),
            own,
        }
    }

    /// Bias that the convolution adds itself.
    pub fn fused(&self) -> Option<&Tensor> {
        self.apart.is_none().then_some(&self.own)
    }

    /// Bias that has to be added to each channel of the convolution's output.
    pub fn lacking(&self) -> Option<&Tensor> {
        self.apart.as_ref()
    }
}

/// Convolution of images with a border of zeros. Its weights may stream, and LoRAs change them.
pub struct ImageConv {
    weight: ConvWeight,
    bias: ConvBias,
    /// Of the weights: `(O, C, k, k)`
    size: [i64; 4],
    stride: i64,
    kind: Kind,
}

enum ConvWeight {
    /// Channels innermost in memory.
    Ready(Tensor),
    /// In its file: arranged, and changed by LoRAs, for each use.
    Streamed(Box<StoredMatrix>, Option<LoraAdapter>),
}

impl ImageConv {
    pub fn new(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        kernel: i64,
        stride: i64,
    ) -> Result<Self, WeightsError> {
        let size = [outputs, inputs, kernel, kernel];
        let stored = w.kernels("weight", size)?;
        let mut bias = w.tensor("bias", &[outputs])?;
        let updates = w.layer_updates()?;
        let base = |first, count| {
            let whole = stored.expand_early(Kind::Float);
            whole.narrow(0, first, count)
        };
        let sides = [stored.rows(), stored.columns()];
        let AdapterRemainder {
            bias: more,
            adapter,
        } = LoraAdapter::gather(updates, sides, Kind::Float, &base);
        if let Some(more) = more {
            bias = (bias.to_kind(Kind::Float) + more).to_kind(w.kind());
        }
        let mut conv = Self {
            weight: ConvWeight::Streamed(Box::new(stored), adapter),
            bias: ConvBias::new(bias),
            size,
            stride,
            kind: w.kind(),
        };
        match &conv.weight {
            ConvWeight::Streamed(stored, adapter)
                if matches!(**stored, StoredMatrix::Streamed(_)) =>
            {
                let tensors = adapter.iter().flat_map(LoraAdapter::tensors);
                tensors.for_each(|tensor| w.note_fixed(tensor));
            }
            _ => conv.weight = ConvWeight::Ready(conv.arranged()),
        }
        Ok(conv)
    }

    pub fn outputs(&self) -> i64 {
        self.size[0]
    }

    /// `(O, C, k, k)`, channels innermost in memory.
    fn arranged(&self) -> Tensor {
        let weight = match &self.weight {
            ConvWeight::Ready(weight) => return weight.shallow_clone(),
            ConvWeight::Streamed(stored, None) => stored.expand(self.kind),
            ConvWeight::Streamed(stored, Some(adapter)) => {
                let merged = adapter.merged(&stored.expand(Kind::Float));
                merged.to_kind(self.kind)
            }
        };
        channels_innermost(&weight.view(self.size))
    }

    /// `xs`: `(B, H, W, C)` → `(B, H', W', O)`
    pub fn forward(&self, xs: &Tensor) -> Tensor {
        let mut ys = self.forward_bare(xs);
        self.complete(&mut ys, None);
        ys
    }

    /// Convolution without the [lacking](Self::lacking) bias.
    pub fn forward_bare(&self, xs: &Tensor) -> Tensor {
        let padding = [self.size[2] / 2; 2];
        // On ROCm it may search for minutes for each size.
        let _guard = disable_miopen(xs.device());
        convolve_strided(
            xs,
            &self.arranged(),
            self.bias.fused(),
            padding,
            self.stride,
        )
    }

    /// Bias that [`Self::forward_bare`] leaves out: `(O)` in f32.
    pub fn lacking(&self) -> Option<&Tensor> {
        self.bias.lacking()
    }

    /// Adds to `ys`, in place, what is lacking, and `others` of the same size.
    pub fn complete(&self, ys: &mut Tensor, others: Option<&Tensor>) {
        if others.is_some() || self.lacking().is_some() {
            kernels::add_to_pixels(ys, others, self.lacking());
        }
    }
}

/// `xs`: `(T, H, W, C)` → `(T, H, W, O)`
pub fn convolve_images(
    xs: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    padding: [i64; 2],
) -> Tensor {
    convolve_strided(xs, weight, bias, padding, 1)
}

/// Like [`convolve_images`], of each `stride`-th pixel along both edges.
pub fn convolve_strided(
    xs: &Tensor,
    weight: &Tensor,
    bias: Option<&Tensor>,
    padding: [i64; 2],
    stride: i64,
) -> Tensor {
    // t h w c -> t c h w and back: strides only
    let ys = xs.permute([0, 3, 1, 2]);
    let ys = ys.conv2d(weight, bias, [stride; 2], padding, [1, 1], 1);
    ys.permute([0, 2, 3, 1]).contiguous()
}

/// `(O, C, h, w)` with channels innermost in memory, as in frames: the same size
pub fn channels_innermost(weight: &Tensor) -> Tensor {
    let rows = weight.permute([0, 2, 3, 1]).contiguous();
    rows.permute([0, 3, 1, 2])
}
