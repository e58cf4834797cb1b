//! The blocks that encoder and decoder share: residual block, attention, middle, head.

use safelight_core::networks::HunyuanVaeConfig;
use tch::Tensor;

use super::conv::{CausalConv, GoOn, PointConv};
use crate::kernels;
use crate::vae::attention::{PixelAttention, as_image};
use crate::vae::kl::norm::{ChannelMoments, GroupNorm};
use crate::weights::{Weights, WeightsError};

/// Statistics of all frames together: `(T, H, W, C)`
fn moments(video: &Tensor) -> ChannelMoments {
    ChannelMoments::from_pixels(&as_image(video))
}

#[derive(Debug)]
pub(super) struct HunyuanNormConv {
    norm: GroupNorm,
    conv: CausalConv,
}

impl HunyuanNormConv {
    /// `end`: of the names of both.
    pub(super) fn new(
        w: &Weights,
        end: &str,
        [input, output]: [i64; 2],
        cfg: &HunyuanVaeConfig,
    ) -> Result<Self, WeightsError> {
        let [norm, conv] = ["norm", "conv"].map(|name| w / format!("{name}{end}"));
        Ok(Self {
            norm: GroupNorm::new(&norm, input, cfg.norm_num_groups)?,
            conv: CausalConv::new(&(conv / "conv"), [input, output])?,
        })
    }

    /// `(T, H, W, C)` → `(T, H, W, O)`
    pub(super) fn forward(&self, video: &Tensor, go_on: GoOn<'_>) -> Option<Tensor> {
        let moments = moments(video);
        let activate = |xs: &Tensor| self.activate(xs, &moments, None);
        self.conv.forward(video, &activate, go_on)
    }

    /// Norm and SiLU of some of the frames. `lacking`: of `xs`, see [`CausalConv::lacking`].
    fn activate(&self, xs: &Tensor, moments: &ChannelMoments, lacking: Option<&Tensor>) -> Tensor {
        let ys = self.norm.activate(&as_image(xs), Some(moments), lacking);
        ys.view_as(xs)
    }
}

#[derive(Debug)]
pub(super) struct HunyuanResidual {
    first: HunyuanNormConv,
    second: HunyuanNormConv,
    shortcut: Option<PointConv>,
}

impl HunyuanResidual {
    pub(super) fn new(
        w: &Weights,
        [input, output]: [i64; 2],
        cfg: &HunyuanVaeConfig,
    ) -> Result<Self, WeightsError> {
        let shortcut = || PointConv::new(&(w / "nin_shortcut" / "conv"), [input, output]);
        Ok(Self {
            first: HunyuanNormConv::new(w, "1", [input, output], cfg)?,
            second: HunyuanNormConv::new(w, "2", [output, output], cfg)?,
            shortcut: (input != output).then(shortcut).transpose()?,
        })
    }

    /// `video`: `(T, H, W, C)`, whose memory the result may take → `(T, H, W, O)`
    pub(super) fn forward(&self, video: Tensor, go_on: GoOn<'_>) -> Option<Tensor> {
        let (first, second) = (&self.first, &self.second);
        let inside = {
            let moments = moments(&video);
            let activate = |xs: &Tensor| first.activate(xs, &moments, None);
            first.conv.forward_bare(&video, &activate, go_on)?
        };
        let sum = match &self.shortcut {
            Some(shortcut) => shortcut.forward(&video),
            None => video,
        };
        let moments = moments(&inside);
        let activate = |xs: &Tensor| second.activate(xs, &moments, first.conv.lacking());
        second.conv.over(&inside, &activate, &mut |range, ys| {
            go_on()?;
            let mut part = sum.narrow(0, range.start, range.end - range.start);
            kernels::add_to_pixels(&mut part, Some(&ys), second.conv.lacking());
            Some(())
        })?;
        Some(sum)
    }
}

#[derive(Debug)]
pub(super) struct HunyuanMiddle {
    before: HunyuanResidual,
    attention: Option<PixelAttention>,
    after: HunyuanResidual,
}

impl HunyuanMiddle {
    pub(super) fn new(w: &Weights, cfg: &HunyuanVaeConfig) -> Result<Self, WeightsError> {
        let width = cfg.widest();
        let block = |name: &str| HunyuanResidual::new(&(w / name), [width, width], cfg);
        let attention = || PixelAttention::new(&(w / "attn_1"), width, cfg.norm_num_groups);
        Ok(Self {
            before: block("block_1")?,
            attention: cfg.mid_block_add_attention.then(attention).transpose()?,
            after: block("block_2")?,
        })
    }

    /// `(T, H, W, C)` → the same size
    pub(super) fn forward(&self, video: Tensor, go_on: GoOn<'_>) -> Option<Tensor> {
        let mut video = self.before.forward(video, go_on)?;
        if let Some(attention) = &self.attention {
            video = attention.forward(&video, None, go_on)?;
        }
        self.after.forward(video, go_on)
    }
}
