//! The latent upscaler: twice the edges of a video's latents, which another stage of sampling then refines.
//!
//! Latents are small: all of a video is in memory at once, over which its group norms go.

use safelight_core::networks::ltx2::LatentUpscalerConfig;
use tch::{Device, Kind, Tensor};

use crate::vae::causal::{CausalConv3d, ConvFeed, ConvForm};
use crate::weights::{Weights, WeightsError};

/// Epsilon of every norm.
const EPS: f64 = 1e-5;

#[derive(Debug)]
pub struct LatentUpscaler {
    initial: NormedConv,
    before: Vec<[NormedConv; 2]>,
    /// `(4 C, C, 3, 3)`, and its bias
    doubling: (Tensor, Tensor),
    after: Vec<[NormedConv; 2]>,
    last: CausalConv3d,
    kind: Kind,
    device: Device,
}

/// Convolution over time and space, and the group norm after it.
#[derive(Debug)]
struct NormedConv {
    conv: CausalConv3d,
    weight: Tensor,
    bias: Tensor,
}

impl NormedConv {
    fn new([conv, norm]: [&Weights; 2], widths: [i64; 2]) -> Result<Self, WeightsError> {
        Ok(Self {
            conv: centered_conv(conv, widths)?,
            weight: norm.tensor("weight", &[widths[1]])?,
            bias: norm.tensor("bias", &[widths[1]])?,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T, H, W, O)`
    fn forward(&self, xs: &Tensor) -> Tensor {
        // t h w c -> 1 c t h w and back
        let ys = convolve(&self.conv, xs).permute([3, 0, 1, 2]).unsqueeze(0);
        let ys = ys.group_norm(
            LatentUpscalerConfig::GROUPS,
            Some(&self.weight),
            Some(&self.bias),
            EPS,
            true,
        );
        ys.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous()
    }
}

impl LatentUpscaler {
    pub fn new(config: &LatentUpscalerConfig, w: &Weights) -> Result<Self, WeightsError> {
        let (own, mid) = (config.in_channels, config.mid_channels);
        let blocks = |list: &str| {
            let blocks = (0..config.num_blocks_per_stage).map(|i| {
                let w = w / list / i;
                let [conv1, norm1, conv2, norm2] =
                    ["conv1", "norm1", "conv2", "norm2"].map(|name| &w / name);
                Ok([
                    NormedConv::new([&conv1, &norm1], [mid, mid])?,
                    NormedConv::new([&conv2, &norm2], [mid, mid])?,
                ])
            });
            blocks.collect::<Result<Vec<_>, WeightsError>>()
        };
        let initial = [&(w / "initial_conv"), &(w / "initial_norm")];
        let doubling = w / "upsampler" / 0;
        Ok(Self {
            initial: NormedConv::new(initial, [own, mid])?,
            before: blocks("res_blocks")?,
            doubling: (
                doubling.tensor("weight", &[4 * mid, mid, 3, 3])?,
                doubling.tensor("bias", &[4 * mid])?,
            ),
            after: blocks("post_upsample_res_blocks")?,
            last: centered_conv(&(w / "final_conv"), [mid, own])?,
            kind: w.kind(),
            device: w.device(),
        })
    }

    /// `latents`: `(1, C, f, h, w)`, not normalised → `(1, C, f, 2h, 2w)` in f32; `None` when cancelled
    pub fn forward(&self, latents: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
        let latents = latents.to_device(self.device).to_kind(self.kind);
        // 1 c f h w -> f h w c
        let xs = latents.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous();
        tch::no_grad(|| {
            let xs = self.initial.forward(&xs).silu_();
            let xs = through(&self.before, xs, cancelled)?;
            let (weight, bias) = &self.doubling;
            let xs = xs.permute([0, 3, 1, 2]);
            let xs = xs.conv2d(weight, Some(bias), [1, 1], [1, 1], [1, 1], 1);
            let xs = xs.pixel_shuffle(2).permute([0, 2, 3, 1]).contiguous();
            let xs = through(&self.after, xs, cancelled)?;
            let xs = convolve(&self.last, &xs).permute([3, 0, 1, 2]);
            Some(xs.unsqueeze(0).to_kind(Kind::Float).contiguous())
        })
    }
}

/// `xs`: `(T, H, W, C)` → the same; `None` when cancelled
fn through(blocks: &[[NormedConv; 2]], xs: Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
    blocks.iter().try_fold(xs, |xs, [first, second]| {
        if cancelled() {
            return None;
        }
        let ys = first.forward(&xs).silu_();
        Some((second.forward(&ys) + xs).silu_())
    })
}

fn centered_conv(w: &Weights, widths: [i64; 2]) -> Result<CausalConv3d, WeightsError> {
    let feed = ConvFeed {
        form: ConvForm::for_weights(w),
        frames: 1,
        taps: 3,
    };
    CausalConv3d::new(w, widths, [3, 3, 3], feed)
}

/// A convolution with a frame of zeros before and after the video.
fn convolve(conv: &CausalConv3d, xs: &Tensor) -> Tensor {
    conv.convolve(&xs.constant_pad_nd([0, 0, 0, 0, 0, 0, 1, 1]), 1)
}
