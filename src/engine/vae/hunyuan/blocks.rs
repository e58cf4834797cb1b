//! The blocks that encoder and decoder share: residual block, attention, middle, head.

use safelight_core::networks::HunyuanVaeConfig;
use tch::Tensor;

use super::conv::{CausalConv, PointConv};
use crate::kernels;
use crate::nn::{pixel_attention, wide_attention};
use crate::vae::kl::norm::{GroupNorm, Moments};
use crate::weights::{Weights, WeightsError};

/// Scores that attention may have at a time where libtorch has no kernel that does without them in memory.
const MAX_SCORES: i64 = 1 << 26;

/// And where it has one, which still wants enough rows at a time to fill a GPU.
const MAX_FUSED_SCORES: i64 = 1 << 29;

/// Fused kernels want rows of 16 bytes.
const FUSED_WIDTH: i64 = 8;

/// One clip's way through a network.
pub(super) struct Pass<'a> {
    pub(super) cancelled: &'a dyn Fn() -> bool,
}

impl Pass<'_> {
    /// `None` once the job is cancelled, so that `?` leaves the network between any two parts of a layer.
    pub(super) fn go_on(&self) -> Option<()> {
        (!(self.cancelled)()).then_some(())
    }
}

/// Statistics of all frames together: `(T, H, W, C)`
fn moments(clip: &Tensor) -> Moments {
    Moments::of(&as_picture(clip))
}

/// `(T, H, W, C)` → a view, `(1, T H, W, C)`
fn as_picture(clip: &Tensor) -> Tensor {
    let size = clip.size();
    clip.view([1, size[0] * size[1], size[2], size[3]])
}

/// norm, SiLU, convolution.
#[derive(Debug)]
pub(super) struct NormedConv {
    norm: GroupNorm,
    conv: CausalConv,
}

impl NormedConv {
    pub(super) fn new(
        norm: &Weights,
        conv: &Weights,
        [input, output]: [i64; 2],
        cfg: &HunyuanVaeConfig,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            norm: GroupNorm::new(norm, input, cfg.norm_num_groups)?,
            conv: CausalConv::new(&(conv / "conv"), [input, output])?,
        })
    }

    /// `(T, H, W, C)` → `(T, H, W, O)`
    pub(super) fn forward(&self, clip: &Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        let moments = moments(clip);
        let activate = |xs: &Tensor| self.activate(xs, &moments, None);
        self.conv.forward(clip, &activate, &|| pass.go_on())
    }

    /// Norm and SiLU of some of the frames. `lacking`: of `xs`, see [`CausalConv::lacking`].
    fn activate(&self, xs: &Tensor, moments: &Moments, lacking: Option<&Tensor>) -> Tensor {
        let ys = self.norm.activate(&as_picture(xs), Some(moments), lacking);
        ys.view_as(xs)
    }
}

/// norm, SiLU, convolution, twice, around a shortcut.
#[derive(Debug)]
pub(super) struct ResidualBlock {
    first: NormedConv,
    second: NormedConv,
    shortcut: Option<PointConv>,
}

impl ResidualBlock {
    pub(super) fn new(
        w: &Weights,
        [input, output]: [i64; 2],
        cfg: &HunyuanVaeConfig,
    ) -> Result<Self, WeightsError> {
        let part = |index, widths| {
            let [norm, conv] = ["norm", "conv"].map(|name| w / format!("{name}{index}"));
            NormedConv::new(&norm, &conv, widths, cfg)
        };
        let shortcut = || PointConv::new(&(w / "nin_shortcut" / "conv"), [input, output]);
        Ok(Self {
            first: part(1, [input, output])?,
            second: part(2, [output, output])?,
            shortcut: (input != output).then(shortcut).transpose()?,
        })
    }

    /// `clip`: `(T, H, W, C)`, whose memory the result may take → `(T, H, W, O)`
    pub(super) fn forward(&self, clip: Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        let (first, second) = (&self.first, &self.second);
        let inside = {
            let moments = moments(&clip);
            let activate = |xs: &Tensor| first.activate(xs, &moments, None);
            first
                .conv
                .forward_bare(&clip, &activate, &|| pass.go_on())?
        };
        let sum = match &self.shortcut {
            Some(shortcut) => shortcut.forward(&clip),
            None => clip,
        };
        let moments = moments(&inside);
        let activate = |xs: &Tensor| second.activate(xs, &moments, first.conv.lacking());
        second.conv.over(&inside, &activate, &mut |range, ys| {
            pass.go_on()?;
            let mut part = sum.narrow(0, range.start, range.end - range.start);
            kernels::add_to_pixels(&mut part, Some(&ys), second.conv.lacking());
            Some(())
        })?;
        Some(sum)
    }
}

/// Attention of one head among the pixels of a frame and of those before it.
#[derive(Debug)]
struct AttentionBlock {
    norm: GroupNorm,
    /// Rows of q, k and v
    to_qkv: (Tensor, Tensor),
    to_out: (Tensor, Tensor),
    width: i64,
}

impl AttentionBlock {
    fn new(w: &Weights, width: i64, cfg: &HunyuanVaeConfig) -> Result<Self, WeightsError> {
        // diffusers' are matrices, ComfyUI's are convolutions of one pixel.
        let pointwise = |name: &str| -> Result<(Tensor, Tensor), WeightsError> {
            let w = w / name;
            let axes = w.shape_of("weight").map_or(2, |shape| shape.len());
            let shape = [width, width, 1, 1, 1];
            let weight = w.tensor("weight", &shape[..axes.clamp(2, shape.len())])?;
            Ok((weight.view([width, width]), w.tensor("bias", &[width])?))
        };
        let [q, k, v] = [pointwise("q")?, pointwise("k")?, pointwise("v")?];
        let to_qkv = (
            Tensor::cat(&[q.0, k.0, v.0], 0),
            Tensor::cat(&[q.1, k.1, v.1], 0),
        );
        Ok(Self {
            norm: GroupNorm::new(&(w / "norm"), width, cfg.norm_num_groups)?,
            to_qkv,
            to_out: pointwise("proj_out")?,
            width,
        })
    }

    /// `(T, H, W, C)` → the same size
    fn forward(&self, clip: &Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        pass.go_on()?;
        let size = clip.size();
        let (frames, pixels) = (size[0], size[1] * size[2]);
        let ys = self.norm.forward(&as_picture(clip), None);
        let qkv = ys.linear(&self.to_qkv.0, Some(&self.to_qkv.1));
        drop(ys);
        // 1 (t h) w (3 c) -> 3 × 1 1 (t h w) c
        let qkv = qkv.view([1, 1, frames * pixels, 3 * self.width]);
        let qkv = qkv.chunk(3, -1);
        let sum = Tensor::empty(size.as_slice(), (clip.kind(), clip.device()));
        for frame in 0..frames {
            // What a frame may see is the start of the sequence, so no mask is needed.
            let seen = (frame + 1) * pixels;
            let [keys, values] = [&qkv[1], &qkv[2]].map(|xs| xs.narrow(2, 0, seen));
            let mut done = 0;
            for queries in qkv[0]
                .narrow(2, frame * pixels, pixels)
                .split(self.rows_at_once(seen), 2)
            {
                pass.go_on()?;
                let rows = MAX_SCORES / seen.max(1);
                let ys = wide_attention(&queries, &keys, &values, rows.max(1))
                    .unwrap_or_else(|| pixel_attention(&queries, &keys, &values));
                let ys = ys.linear(&self.to_out.0, Some(&self.to_out.1));
                let count = ys.size()[2];
                let place = frame * pixels + done;
                sum.view([-1, self.width])
                    .narrow(0, place, count)
                    .copy_(&ys.view([-1, self.width]));
                done += count;
            }
        }
        let mut sum = sum;
        Some(sum.g_add_(clip))
    }

    fn rows_at_once(&self, seen: i64) -> i64 {
        let scores = if self.width % FUSED_WIDTH == 0 {
            MAX_FUSED_SCORES
        } else {
            MAX_SCORES
        };
        (scores / seen.max(1)).max(1)
    }
}

/// Residual block, attention, residual block at the width of the latents' end.
#[derive(Debug)]
pub(super) struct Middle {
    before: ResidualBlock,
    attention: Option<AttentionBlock>,
    after: ResidualBlock,
}

impl Middle {
    pub(super) fn new(w: &Weights, cfg: &HunyuanVaeConfig) -> Result<Self, WeightsError> {
        let width = cfg.widest();
        let block = |name: &str| ResidualBlock::new(&(w / name), [width, width], cfg);
        let attention = || AttentionBlock::new(&(w / "attn_1"), width, cfg);
        Ok(Self {
            before: block("block_1")?,
            attention: cfg.mid_block_add_attention.then(attention).transpose()?,
            after: block("block_2")?,
        })
    }

    /// `(T, H, W, C)` → the same size
    pub(super) fn forward(&self, clip: Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        let mut clip = self.before.forward(clip, pass)?;
        if let Some(attention) = &self.attention {
            clip = attention.forward(&clip, pass)?;
        }
        self.after.forward(clip, pass)
    }
}
