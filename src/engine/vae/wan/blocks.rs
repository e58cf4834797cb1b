//! Blocks shared by encoder and decoder: norm, residual block, attention, middle.
//!
//! `resample` changes the number of pixels.

use tch::{Kind, Tensor};

use crate::nn::{pixel_attention, pixel_norm_silu_into};
use crate::parallel::row_bands;
use crate::vae::causal::{CausalConv3d, ConvFeed, ConvForm, FrameCache, ToomCookConv};
use crate::vae::pointwise::{self, PointwiseSource, ScratchPlanes, frames_from, planes_from};
use crate::weights::{Weights, WeightsError};

/// One chunk's way through a network.
pub(super) struct ChunkPass<'a> {
    pub(super) cache: FrameCache,
    scratch: ScratchPlanes,
    pub(super) cancelled: &'a dyn Fn() -> bool,
}

impl<'a> ChunkPass<'a> {
    pub(super) fn new(cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            cache: FrameCache::default(),
            scratch: ScratchPlanes::new(),
            cancelled,
        }
    }

    /// To be called between two videos, or two tiles of one.
    pub(super) fn forget(&mut self) {
        self.cache = FrameCache::default();
    }

    /// `None` once the job is cancelled, so that `?` leaves the network between any two blocks.
    pub(super) fn check_cancelled(&self) -> Option<()> {
        (!(self.cancelled)()).then_some(())
    }
}

/// Each pixel's channels divided by their root mean square.
#[derive(Debug)]
pub(super) struct ChannelRmsNorm {
    gamma: Tensor,
    scale: f64,
    /// Both in one, for a pixel of length one, in f32.
    factor: Tensor,
}

/// libtorch's own kernel takes a pixel at a time: good from this width on, below it leaves most of a GPU idle.
const FUSED_NORM_WIDTH: i64 = 256;

impl ChannelRmsNorm {
    /// `trailing`: number of axes of length 1 after the channels of the stored `gamma`.
    pub(super) fn new(w: &Weights, dim: i64, trailing: usize) -> Result<Self, WeightsError> {
        let shape = [&[dim][..], &vec![1; trailing]].concat();
        let gamma = w.tensor("gamma", &shape)?.view([dim]);
        Ok(Self::with_gamma(gamma))
    }

    fn with_gamma(gamma: Tensor) -> Self {
        let scale = (gamma.numel() as f64).sqrt();
        Self {
            factor: gamma.to_kind(Kind::Float) * scale,
            gamma,
            scale,
        }
    }

    /// `xs`: `(…, C)`. In half precision it is rounded once at the end, where diffusers rounds three times.
    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        let dim = self.gamma.numel() as i64;
        // Lengths below 1e-12 count as that; so small a number only keeps zero from being divided by zero.
        let eps = 1e-24 / dim as f64;
        xs.rms_norm([dim], Some(&self.gamma), eps)
    }

    /// Norm and SiLU of `xs`, `(T, H, W, C)`, written to `out`, which has the same size and any strides: in one pass
    /// where there is a kernel for it, else in as few as libtorch needs.
    pub(super) fn activate_into(&self, xs: &Tensor, out: &Tensor) {
        if pixel_norm_silu_into(xs, &self.factor, out).is_some() {
            return;
        }
        if self.gamma.numel() as i64 >= FUSED_NORM_WIDTH {
            drop(self.forward(xs).silu_out(out));
            return;
        }
        let length = xs.norm_scalaropt_dim_dtype(2, [-1], true, Kind::Float);
        let inverse = length.clamp_min(1e-12).reciprocal_() * self.scale;
        // In half precision these three read and write halves and compute in f32.
        let ys = xs.empty_like();
        let mut ys = xs.mul_out(&ys, &inverse);
        drop(ys.g_mul_(&self.gamma).silu_out(out));
    }
}

#[derive(Debug)]
struct WanNormConv {
    norm: ChannelRmsNorm,
    conv: CausalConv3d,
    form: ConvForm,
}

impl WanNormConv {
    fn new(
        (norm, conv): (&Weights, &Weights),
        [input, output]: [i64; 2],
        feed: ConvFeed,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            norm: ChannelRmsNorm::new(norm, input, 3)?,
            conv: CausalConv3d::behind_norm(conv, [input, output], [3, 3, 3], feed)?,
            form: feed.form,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T, H, W, O)`
    fn forward(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Tensor {
        if let Some(form) = self.conv.planes_for(xs.size()[0]) {
            let planes = self.convolved(PointwiseSource::Frames(xs), form, pass);
            return frames_from(&planes, self.conv.bias(), None, &form.transform);
        }
        let slot = pass.cache.slot();
        if self.form == ConvForm::Planes {
            let xs = pointwise::activated(xs, &self.norm.factor);
            return self.conv.forward(&xs, slot);
        }
        let activate = |out: &Tensor| self.norm.activate_into(xs, out);
        self.conv.forward_filled(xs, slot, activate)
    }

    /// Planes after the convolution, without its bias.
    fn convolved(
        &self,
        source: PointwiseSource<'_>,
        form: &ToomCookConv,
        pass: &mut ChunkPass<'_>,
    ) -> Vec<Tensor> {
        let (factor, transform) = (&self.norm.factor, &form.transform);
        let ChunkPass { cache, scratch, .. } = pass;
        form.convolve(&planes_from(
            source,
            factor,
            cache.slot(),
            transform,
            scratch,
        ))
    }
}

#[derive(Debug)]
pub(super) struct WanResidual {
    first: WanNormConv,
    second: WanNormConv,
    shortcut: Option<CausalConv3d>,
}

impl WanResidual {
    pub(super) fn new(
        w: &Weights,
        [input, output]: [i64; 2],
        feed: ConvFeed,
    ) -> Result<Self, WeightsError> {
        let residual = w / "residual";
        let [norm1, conv1, norm2, conv2] = [0, 2, 3, 6].map(|i| &residual / i);
        let shortcut = (input != output)
            .then(|| CausalConv3d::new(&(w / "shortcut"), [input, output], [1, 1, 1], feed))
            .transpose()?;
        Ok(Self {
            first: WanNormConv::new((&norm1, &conv1), [input, output], feed)?,
            second: WanNormConv::new((&norm2, &conv2), [output, output], feed)?,
            shortcut,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T, H, W, O)`
    pub(super) fn forward(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        pass.check_cancelled()?;
        let shortcut = match &self.shortcut {
            Some(shortcut) => shortcut.convolve(xs, 1),
            None => xs.shallow_clone(),
        };
        let [first, second] = [&self.first, &self.second];
        let frames = xs.size()[0];
        let forms = first
            .conv
            .planes_for(frames)
            .zip(second.conv.planes_for(frames));
        let Some((form1, form2)) = forms else {
            let ys = first.forward(xs, pass);
            let mut ys = second.forward(&ys, pass);
            return Some(ys.g_add_(&shortcut));
        };
        // The frames between the two convolutions are never written down.
        let planes = first.convolved(PointwiseSource::Frames(xs), form1, pass);
        let source = PointwiseSource::Planes(&planes, first.conv.bias());
        let planes = second.convolved(source, form2, pass);
        let bias = second.conv.bias();
        Some(frames_from(
            &planes,
            bias,
            Some(&shortcut),
            &form2.transform,
        ))
    }
}

/// Attention of one head among the pixels of each frame.
#[derive(Debug)]
pub(super) struct WanVaeAttention {
    norm: ChannelRmsNorm,
    to_qkv: (Tensor, Tensor),
    proj: (Tensor, Tensor),
}

impl WanVaeAttention {
    pub(super) fn new(w: &Weights, dim: i64) -> Result<Self, WeightsError> {
        let pointwise = |name: &str, outputs: i64| -> Result<(Tensor, Tensor), WeightsError> {
            let w = w / name;
            let weight = w.tensor("weight", &[outputs, dim, 1, 1])?;
            Ok((weight.view([outputs, dim]), w.tensor("bias", &[outputs])?))
        };
        Ok(Self {
            norm: ChannelRmsNorm::new(&(w / "norm"), dim, 2)?,
            to_qkv: pointwise("to_qkv", 3 * dim)?,
            proj: pointwise("proj", dim)?,
        })
    }

    /// `xs`: `(T, H, W, C)` → the same shape
    pub(super) fn forward(&self, xs: &Tensor, pass: &ChunkPass<'_>) -> Option<Tensor> {
        pass.check_cancelled()?;
        let (frames, height, width, dim) = four(xs);
        let qkv = self
            .norm
            .forward(xs)
            .linear(&self.to_qkv.0, Some(&self.to_qkv.1));
        // t h w (3 c) -> 3 × t 1 (h w) c
        let pixels = |xs: &Tensor| xs.reshape([frames, 1, -1, dim]);
        let qkv = qkv.chunk(3, -1);
        let q = pixels(&qkv[0]);
        let of_all = |xs: &Tensor| match row_bands() {
            Some(bands) => pixels(&bands.all_rows(xs, 1)),
            None => pixels(xs),
        };
        let ys = pixel_attention(&q, &of_all(&qkv[1]), &of_all(&qkv[2]));
        let ys = ys.reshape([frames, height, width, dim]);
        ys.linear(&self.proj.0, Some(&self.proj.1))
            .g_add_(xs)
            .into()
    }
}

#[derive(Debug)]
pub(super) struct WanMiddle {
    before: WanResidual,
    attention: WanVaeAttention,
    after: WanResidual,
}

impl WanMiddle {
    pub(super) fn new(w: &Weights, dim: i64, feed: ConvFeed) -> Result<Self, WeightsError> {
        Ok(Self {
            before: WanResidual::new(&(w / 0), [dim, dim], feed)?,
            attention: WanVaeAttention::new(&(w / 1), dim)?,
            after: WanResidual::new(&(w / 2), [dim, dim], feed)?,
        })
    }

    /// `xs`: `(T, H, W, C)` → the same shape
    pub(super) fn forward(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        let xs = self.before.forward(xs, pass)?;
        let xs = self.attention.forward(&xs, pass)?;
        self.after.forward(&xs, pass)
    }
}

/// Norm, SiLU and the last convolution of either network.
#[derive(Debug)]
pub(super) struct WanHead(WanNormConv);

impl WanHead {
    pub(super) fn new(
        w: &Weights,
        [input, output]: [i64; 2],
        feed: ConvFeed,
    ) -> Result<Self, WeightsError> {
        let (norm, conv) = (w / 0, w / 2);
        WanNormConv::new((&norm, &conv), [input, output], feed).map(Self)
    }

    /// `xs`: `(T, H, W, C)` → `(T, H, W, O)`
    pub(super) fn forward(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        pass.check_cancelled()?;
        Some(self.0.forward(xs, pass))
    }
}

/// The sizes of a `(T, H, W, C)` tensor.
pub(super) fn four(xs: &Tensor) -> (i64, i64, i64, i64) {
    let size = xs.size();
    (size[0], size[1], size[2], size[3])
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::{ChannelRmsNorm, FUSED_NORM_WIDTH};
    use crate::drawn::drawn;

    #[test]
    fn norm_and_silu_match_their_formula_at_every_width_and_in_rows_that_lie_apart() {
        for (dim, kind, limit) in [
            (5, Kind::Float, 1e-6),
            (5, Kind::BFloat16, 6e-3),
            (FUSED_NORM_WIDTH, Kind::Float, 1e-6),
            (FUSED_NORM_WIDTH, Kind::BFloat16, 6e-3),
        ] {
            let gamma = (drawn(&[dim]) * 0.2 + 1.0).to_kind(kind);
            let xs = drawn(&[2, 3, 4, dim]).to_kind(kind);
            // A pixel without light, which must not become a division of zero by zero.
            drop(xs.narrow(2, 1, 1).zero_());
            let wide = xs.to_kind(Kind::Double);
            let length = wide.norm_scalaropt_dim(2, [-1], true).clamp_min(1e-12);
            let scale = gamma.to_kind(Kind::Double) * (dim as f64).sqrt();
            let expected = (wide / length * scale).silu();
            let out = Tensor::zeros([2, 3, 4, 3, dim].as_slice(), (kind, Device::Cpu));
            let norm = ChannelRmsNorm::with_gamma(gamma);
            norm.activate_into(&xs, &out.select(3, 1));
            let off = (out.select(3, 1).to_kind(Kind::Double) - &expected).norm();
            let off = f64::try_from(off / expected.norm()).unwrap();
            assert!(off < limit, "{dim}, {kind:?}: off by {off}");
            let beside =
                out.select(3, 0).abs().sum(Kind::Double) + out.select(3, 2).abs().sum(Kind::Double);
            assert_eq!(f64::try_from(beside).unwrap(), 0.0);
        }
    }
}
