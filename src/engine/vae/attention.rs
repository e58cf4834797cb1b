//! Single-head attention among the pixels of an image, or of a frame and the frames before it.
//!
//! Computed for some queries at a time, so that the scores of a large image are never in memory as a whole.

use tch::Tensor;

use super::kl::norm::{ChannelMoments, GroupNorm};
use crate::nn::{pixel_attention, wide_attention};
use crate::weights::{Weights, WeightsError};

/// Scores that attention may have at a time where libtorch has no kernel that does without them in memory.
const MAX_SCORES: i64 = 1 << 26;

/// And where it has one, which still wants enough rows at a time to fill a GPU.
const MAX_FUSED_SCORES: i64 = 1 << 29;

/// Fused kernels want rows of 16 bytes.
const FUSED_WIDTH: i64 = 8;

#[derive(Debug)]
pub(super) struct PixelAttention {
    norm: GroupNorm,
    /// Rows of q, k and v
    to_qkv: (Tensor, Tensor),
    proj_out: (Tensor, Tensor),
    width: i64,
}

impl PixelAttention {
    pub(super) fn new(w: &Weights, width: i64, groups: i64) -> Result<Self, WeightsError> {
        // diffusers' are matrices, the authors' and ComfyUI's are convolutions of one pixel.
        let pointwise = |name: &str| -> Result<(Tensor, Tensor), WeightsError> {
            let w = w / name;
            let axes = w.shape_of("weight").map_or(2, |shape| shape.len());
            let shape = [width, width, 1, 1, 1];
            let weight = w.tensor("weight", &shape[..axes.clamp(2, shape.len())])?;
            Ok((weight.view([width, width]), w.tensor("bias", &[width])?))
        };
        let [q, k, v] = [pointwise("q")?, pointwise("k")?, pointwise("v")?];
        Ok(Self {
            norm: GroupNorm::new(&(w / "norm"), width, groups)?,
            to_qkv: (
                Tensor::cat(&[q.0, k.0, v.0], 0),
                Tensor::cat(&[q.1, k.1, v.1], 0),
            ),
            proj_out: pointwise("proj_out")?,
            width,
        })
    }

    /// `frames`: `(T, H, W, C)`, at the level of the latents, `moments`: theirs, where they are known already
    /// -> the same size; `None` when cancelled
    pub(super) fn forward(
        &self,
        frames: &Tensor,
        moments: Option<&ChannelMoments>,
        go_on: &dyn Fn() -> Option<()>,
    ) -> Option<Tensor> {
        go_on()?;
        let size = frames.size();
        let pixels = size[1] * size[2];
        let ys = self.norm.forward(&as_image(frames), moments);
        let qkv = ys.linear(&self.to_qkv.0, Some(&self.to_qkv.1));
        drop(ys);
        // 1 (t h) w (3 c) -> 3 × 1 1 (t h w) c
        let qkv = qkv.view([1, 1, size[0] * pixels, 3 * self.width]);
        let qkv = qkv.chunk(3, -1);
        let mut parts = Vec::new();
        for frame in 0..size[0] {
            // A frame sees only the start of the sequence, so no mask is needed.
            let seen = (frame + 1) * pixels;
            let [keys, values] = [&qkv[1], &qkv[2]].map(|xs| xs.narrow(2, 0, seen));
            let rows = |scores: i64| (scores / seen.max(1)).max(1);
            let at_once = if self.width % FUSED_WIDTH == 0 {
                rows(MAX_FUSED_SCORES)
            } else {
                rows(MAX_SCORES)
            };
            let queries = qkv[0].narrow(2, frame * pixels, pixels);
            for queries in queries.split(at_once, 2) {
                go_on()?;
                let ys = wide_attention(&queries, &keys, &values, rows(MAX_SCORES))
                    .unwrap_or_else(|| pixel_attention(&queries, &keys, &values));
                parts.push(ys.linear(&self.proj_out.0, Some(&self.proj_out.1)));
            }
        }
        let ys = match &parts[..] {
            [whole] => whole.shallow_clone(),
            parts => Tensor::cat(parts, 2),
        };
        Some(ys.view(size.as_slice()).g_add_(frames))
    }
}

/// `(T, H, W, C)` → a view, `(1, T H, W, C)`
pub(super) fn as_image(frames: &Tensor) -> Tensor {
    let size = frames.size();
    frames.view([1, size[0] * size[1], size[2], size[3]])
}
