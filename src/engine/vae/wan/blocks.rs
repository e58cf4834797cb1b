//! The blocks that encoder and decoder share: norm, residual block, attention, middle.
//!
//! What changes the number of pixels is in `resample`.

use tch::{Kind, Tensor};

use crate::vae::causal::{CausalConv3d, FrameCache};
use crate::weights::{Weights, WeightsError};

/// One chunk's way through a network.
pub(super) struct Pass<'a> {
    pub(super) cache: FrameCache,
    pub(super) cancelled: &'a dyn Fn() -> bool,
}

impl<'a> Pass<'a> {
    pub(super) fn new(cancelled: &'a dyn Fn() -> bool) -> Self {
        Self {
            cache: FrameCache::new(),
            cancelled,
        }
    }

    /// `None` once the job is cancelled, so that `?` leaves the network between any two blocks.
    pub(super) fn go_on(&self) -> Option<()> {
        (!(self.cancelled)()).then_some(())
    }
}

/// Each pixel's channels divided by their root mean square.
#[derive(Debug)]
pub(super) struct RmsNorm {
    gamma: Tensor,
    scale: f64,
}

impl RmsNorm {
    /// `trailing`: how many axes of length 1 the stored `gamma` has behind its channels.
    pub(super) fn new(w: &Weights, dim: i64, trailing: usize) -> Result<Self, WeightsError> {
        let shape = [&[dim][..], &vec![1; trailing]].concat();
        Ok(Self {
            gamma: w.tensor("gamma", &shape)?.view([dim]),
            scale: (dim as f64).sqrt(),
        })
    }

    /// `xs`: `(…, C)`. In half precision only the division is done in f32, as in diffusers.
    pub(super) fn forward(&self, xs: &Tensor) -> Tensor {
        let kind = xs.kind();
        let xs = xs.to_kind(Kind::Float);
        let length = xs.norm_scalaropt_dim(2, [-1], true).clamp_min(1e-12);
        (xs / length).to_kind(kind) * self.scale * &self.gamma
    }
}

/// norm, SiLU, convolution, twice, around a shortcut.
#[derive(Debug)]
pub(super) struct ResidualBlock {
    norm1: RmsNorm,
    conv1: CausalConv3d,
    norm2: RmsNorm,
    conv2: CausalConv3d,
    shortcut: Option<CausalConv3d>,
}

impl ResidualBlock {
    pub(super) fn new(w: &Weights, input: i64, output: i64) -> Result<Self, WeightsError> {
        let residual = w / "residual";
        let shortcut = (input != output)
            .then(|| CausalConv3d::new(&(w / "shortcut"), input, output, [1, 1, 1]))
            .transpose()?;
        Ok(Self {
            norm1: RmsNorm::new(&(&residual / 0), input, 3)?,
            conv1: CausalConv3d::new(&(&residual / 2), input, output, [3, 3, 3])?,
            norm2: RmsNorm::new(&(&residual / 3), output, 3)?,
            conv2: CausalConv3d::new(&(&residual / 6), output, output, [3, 3, 3])?,
            shortcut,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T, H, W, O)`
    pub(super) fn forward(&self, xs: &Tensor, pass: &mut Pass<'_>) -> Option<Tensor> {
        pass.go_on()?;
        let ys = self.norm1.forward(xs).silu();
        let ys = self.conv1.forward(&ys, pass.cache.slot());
        let ys = self.norm2.forward(&ys).silu();
        let mut ys = self.conv2.forward(&ys, pass.cache.slot());
        Some(match &self.shortcut {
            Some(shortcut) => ys.g_add_(&shortcut.convolve(xs, 1)),
            None => ys.g_add_(xs),
        })
    }
}

/// Attention of one head among the pixels of each frame.
#[derive(Debug)]
struct AttentionBlock {
    norm: RmsNorm,
    to_qkv: (Tensor, Tensor),
    proj: (Tensor, Tensor),
}

impl AttentionBlock {
    fn new(w: &Weights, dim: i64) -> Result<Self, WeightsError> {
        let pointwise = |name: &str, outputs: i64| -> Result<(Tensor, Tensor), WeightsError> {
            let w = w / name;
            let weight = w.tensor("weight", &[outputs, dim, 1, 1])?;
            Ok((weight.view([outputs, dim]), w.tensor("bias", &[outputs])?))
        };
        Ok(Self {
            norm: RmsNorm::new(&(w / "norm"), dim, 2)?,
            to_qkv: pointwise("to_qkv", 3 * dim)?,
            proj: pointwise("proj", dim)?,
        })
    }

    /// `xs`: `(T, H, W, C)` → the same shape
    fn forward(&self, xs: &Tensor) -> Tensor {
        let (frames, height, width, dim) = four(xs);
        let qkv = self
            .norm
            .forward(xs)
            .linear(&self.to_qkv.0, Some(&self.to_qkv.1));
        // t h w (3 c) -> 3 × t 1 (h w) c
        let qkv = qkv.view([frames, 1, height * width, 3 * dim]).chunk(3, -1);
        let ys = Tensor::scaled_dot_product_attention(
            &qkv[0],
            &qkv[1],
            &qkv[2],
            None::<&Tensor>,
            0.0,
            false,
            None,
            false,
        );
        let ys = ys.reshape([frames, height, width, dim]);
        ys.linear(&self.proj.0, Some(&self.proj.1)) + xs
    }
}

/// Residual block, attention, residual block at the width of the latents' end.
#[derive(Debug)]
pub(super) struct Middle {
    before: ResidualBlock,
    attention: AttentionBlock,
    after: ResidualBlock,
}

impl Middle {
    pub(super) fn new(w: &Weights, dim: i64) -> Result<Self, WeightsError> {
        Ok(Self {
            before: ResidualBlock::new(&(w / 0), dim, dim)?,
            attention: AttentionBlock::new(&(w / 1), dim)?,
            after: ResidualBlock::new(&(w / 2), dim, dim)?,
        })
    }

    /// `xs`: `(T, H, W, C)` → the same shape
    pub(super) fn forward(&self, xs: &Tensor, pass: &mut Pass<'_>) -> Option<Tensor> {
        let xs = self.before.forward(xs, pass)?;
        pass.go_on()?;
        let xs = self.attention.forward(&xs);
        self.after.forward(&xs, pass)
    }
}

/// Norm, SiLU and the last convolution of either network.
#[derive(Debug)]
pub(super) struct Head {
    norm: RmsNorm,
    conv: CausalConv3d,
}

impl Head {
    pub(super) fn new(w: &Weights, input: i64, output: i64) -> Result<Self, WeightsError> {
        Ok(Self {
            norm: RmsNorm::new(&(w / 0), input, 3)?,
            conv: CausalConv3d::new(&(w / 2), input, output, [3, 3, 3])?,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T, H, W, O)`
    pub(super) fn forward(&self, xs: &Tensor, pass: &mut Pass<'_>) -> Option<Tensor> {
        pass.go_on()?;
        let ys = self.norm.forward(xs).silu();
        Some(self.conv.forward(&ys, pass.cache.slot()))
    }
}

/// The sizes of a `(T, H, W, C)` tensor.
pub(super) fn four(xs: &Tensor) -> (i64, i64, i64, i64) {
    let size = xs.size();
    (size[0], size[1], size[2], size[3])
}
