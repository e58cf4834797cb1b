//! The blocks that encoder and decoder share: residual block, attention, middle, steps between levels, head.

use std::rc::Rc;

use safelight_core::networks::KlVaeConfig;
use tch::Tensor;

use super::canvas::{BandedTensor, ImagePass, RowBand, RowMapping};
use super::norm::{ChannelMoments, GroupNorm};
use crate::kernels;
use crate::nn::{ConvBias, channels_innermost, convolve_images, convolve_strided};
use crate::vae::attention::PixelAttention;
use crate::vae::doubling::DoublingConv;
use crate::weights::{Weights, WeightsError};

/// A convolution of images, 3 × 3 with a border of zeros or 1 × 1.
#[derive(Debug)]
pub(super) struct KlConv {
    /// `(O, C, k, k)`, channels innermost in memory
    weight: Tensor,
    bias: ConvBias,
    kernel: i64,
}

impl KlConv {
    pub(super) fn new(
        w: &Weights,
        [inputs, outputs]: [i64; 2],
        kernel: i64,
    ) -> Result<Self, WeightsError> {
        let weight = w.tensor("weight", &[outputs, inputs, kernel, kernel])?;
        Ok(Self {
            weight: channels_innermost(&weight),
            bias: ConvBias::new(w.tensor("bias", &[outputs])?),
            kernel,
        })
    }

    fn outputs(&self) -> i64 {
        self.bias.own.numel() as i64
    }

    fn reach(&self) -> RowMapping {
        if self.kernel == 1 {
            RowMapping::Pixel
        } else {
            RowMapping::Neighbours
        }
    }

    /// `xs`: `(1, h, W, C)` → `(1, h, W, O)`
    fn convolve(&self, xs: &Tensor) -> Tensor {
        let mut ys = self.convolve_bare(xs);
        self.complete(&mut ys, None);
        ys
    }

    /// Convolution without the [lacking](Self::lacking) bias.
    fn convolve_bare(&self, xs: &Tensor) -> Tensor {
        let padding = [self.kernel / 2; 2];
        convolve_images(xs, &self.weight, self.bias.fused(), padding)
    }

    /// Bias that has to be added to each channel of the output of [`convolve_bare`](Self::convolve_bare): `(O)` in f32.
    fn lacking(&self) -> Option<&Tensor> {
        self.bias.lacking()
    }

    /// Adds to `ys`, in place, what is lacking, and `others` of the same size.
    fn complete(&self, ys: &mut Tensor, others: Option<&Tensor>) {
        if others.is_some() || self.lacking().is_some() {
            kernels::add_to_pixels(ys, others, self.lacking());
        }
    }

    pub(super) fn forward(
        &self,
        canvas: &BandedTensor,
        pass: &ImagePass<'_>,
    ) -> Option<BandedTensor> {
        pass.over(canvas, self.reach(), self.outputs(), &|xs, band| {
            band.trim(&self.convolve(xs))
        })
    }
}

/// norm, SiLU, convolution.
#[derive(Debug)]
pub(super) struct KlNormConv {
    norm: GroupNorm,
    conv: KlConv,
}

impl KlNormConv {
    /// `end`: of the names of both.
    pub(super) fn new(
        w: &Weights,
        end: &str,
        [input, output]: [i64; 2],
        cfg: &KlVaeConfig,
    ) -> Result<Self, WeightsError> {
        let [norm, conv] = ["norm", "conv"].map(|name| w / format!("{name}{end}"));
        Ok(Self {
            norm: GroupNorm::new(&norm, input, cfg.norm_num_groups)?,
            conv: KlConv::new(&conv, [input, output], 3)?,
        })
    }

    pub(super) fn forward(
        &self,
        canvas: &BandedTensor,
        pass: &ImagePass<'_>,
    ) -> Option<BandedTensor> {
        let moments = canvas.moments(pass);
        let layer = |xs: &Tensor, band: &RowBand| {
            let mut ys = self.bare(xs, moments.as_ref(), None, band);
            self.conv.complete(&mut ys, None);
            ys
        };
        pass.over(canvas, RowMapping::Neighbours, self.conv.outputs(), &layer)
    }

    /// A band of what lacks the convolution's bias. `lacking`: of `xs`; see [`KlConv::lacking`] for both.
    fn bare(
        &self,
        xs: &Tensor,
        moments: Option<&ChannelMoments>,
        lacking: Option<&Tensor>,
        band: &RowBand,
    ) -> Tensor {
        let xs = self.norm.activate(xs, moments, lacking);
        band.trim(&self.conv.convolve_bare(&xs))
    }
}

/// norm, SiLU, convolution, twice, around a shortcut.
#[derive(Debug)]
pub(super) struct KlResidual {
    first: KlNormConv,
    second: KlNormConv,
    nin_shortcut: Option<KlConv>,
}

impl KlResidual {
    pub(super) fn new(
        w: &Weights,
        [input, output]: [i64; 2],
        cfg: &KlVaeConfig,
    ) -> Result<Self, WeightsError> {
        Ok(Self {
            first: KlNormConv::new(w, "1", [input, output], cfg)?,
            second: KlNormConv::new(w, "2", [output, output], cfg)?,
            nin_shortcut: (input != output)
                .then(|| KlConv::new(&(w / "nin_shortcut"), [input, output], 1))
                .transpose()?,
        })
    }

    /// `(H, W, C)` → `(H, W, O)`
    pub(super) fn forward(
        &self,
        canvas: &BandedTensor,
        pass: &ImagePass<'_>,
    ) -> Option<BandedTensor> {
        let (first, second) = (&self.first, &self.second);
        let moments = canvas.moments(pass);
        let layer = |xs: &Tensor, band: &RowBand| first.bare(xs, moments.as_ref(), None, band);
        let inside = pass.over(canvas, RowMapping::Neighbours, first.conv.outputs(), &layer)?;
        let moments = inside.moments(pass);
        let layer = |xs: &Tensor, band: &RowBand| {
            let mut ys = second.bare(xs, moments.as_ref(), first.conv.lacking(), band);
            let mut before = canvas.rows(band.out.clone(), pass);
            if let Some(shortcut) = &self.nin_shortcut {
                before = shortcut.convolve(&before);
            }
            // Not in place of the input: without bands another caller may hold it.
            second.conv.complete(&mut ys, Some(&before));
            ys
        };
        pass.over_in_place(&inside, &layer)
    }
}

/// Residual block, attention, residual block at the width of the latents' end.
#[derive(Debug)]
pub(super) struct KlMiddle {
    block_1: KlResidual,
    attn_1: Option<PixelAttention>,
    block_2: KlResidual,
}

impl KlMiddle {
    pub(super) fn new(w: &Weights, width: i64, cfg: &KlVaeConfig) -> Result<Self, WeightsError> {
        Ok(Self {
            block_1: KlResidual::new(&(w / "block_1"), [width, width], cfg)?,
            attn_1: cfg
                .mid_block_add_attention
                .then(|| PixelAttention::new(&(w / "attn_1"), width, cfg.norm_num_groups))
                .transpose()?,
            block_2: KlResidual::new(&(w / "block_2"), [width, width], cfg)?,
        })
    }

    pub(super) fn forward(
        &self,
        canvas: &BandedTensor,
        pass: &ImagePass<'_>,
    ) -> Option<BandedTensor> {
        let mut canvas = self.block_1.forward(canvas, pass)?;
        if let Some(attention) = &self.attn_1 {
            // At the level of the latents all of an image is at hand.
            let moments = canvas.moments(pass);
            let ys = attention.forward(&canvas.whole(pass), moments.as_ref(), &|| {
                pass.check_cancelled()
            });
            canvas = BandedTensor::new(ys?);
        }
        self.block_2.forward(&canvas, pass)
    }
}

/// The encoder's step to the next level: edges are halved.
#[derive(Debug)]
pub(super) struct KlDownsample(KlConv);

impl KlDownsample {
    pub(super) fn new(w: &Weights, width: i64) -> Result<Self, WeightsError> {
        KlConv::new(&(w / "conv"), [width, width], 3).map(Self)
    }

    /// `(H, W, C)` → `(H/2, W/2, C)`
    pub(super) fn forward(
        &self,
        canvas: &BandedTensor,
        pass: &ImagePass<'_>,
    ) -> Option<BandedTensor> {
        let conv = &self.0;
        let layer = |xs: &Tensor, band: &RowBand| {
            // A border of zeros below and to the right only, and below only where the image ends.
            let rows = band.input.end - band.input.start;
            let missing = 2 * (band.out.end - band.out.start) + 1 - rows;
            let xs = xs.constant_pad_nd([0, 0, 0, 1, 0, missing]);
            let (weight, bias) = (&conv.weight, conv.bias.fused());
            let mut ys = convolve_strided(&xs, weight, bias, [0, 0], 2);
            conv.complete(&mut ys, None);
            ys
        };
        pass.over(canvas, RowMapping::Halving, conv.outputs(), &layer)
    }
}

/// The decoder's step to the next level: edges are doubled.
#[derive(Debug)]
pub(super) struct KlUpsample {
    conv: Rc<DoublingConv>,
    width: i64,
    next: i64,
}

impl KlUpsample {
    pub(super) fn new(w: &Weights, width: i64, next: i64) -> Result<Self, WeightsError> {
        let conv = KlConv::new(&(w / "conv"), [width, width], 3)?;
        Ok(Self {
            conv: Rc::new(DoublingConv::new(&conv.weight, &conv.bias.own)),
            width,
            next,
        })
    }

    /// `(H, W, C)` → `(2H, 2W, C)`
    pub(super) fn forward(
        &self,
        canvas: BandedTensor,
        pass: &ImagePass<'_>,
    ) -> Option<BandedTensor> {
        let conv = Rc::clone(&self.conv);
        let layer = move |xs: &Tensor, band: &RowBand| band.trim(&conv.forward(xs));
        if self.next < self.width {
            // The largest image would only be kept until the next block makes it narrower: computing it three times
            // costs a tenth more work and needs much less memory.
            return pass.over_and_again(canvas, RowMapping::Doubling, self.width, Rc::new(layer));
        }
        pass.over(&canvas, RowMapping::Doubling, self.width, &layer)
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::super::canvas::RowBands;
    use super::*;

    #[test]
    fn deferred_bias_matches_a_bias_fused_into_the_convolution() {
        let cfg = KlVaeConfig {
            norm_num_groups: 2,
            ..KlVaeConfig::default()
        };
        let w = Weights::random(Kind::Float, Device::Cpu);
        let mut block = KlResidual::new(&w, [6, 8], &cfg).unwrap();
        let numbers = Tensor::arange(13 * 9 * 6, (Kind::Float, Device::Cpu));
        let xs = (numbers * 0.37).sin().view([1, 13, 9, 6]);
        let forward = |block: &KlResidual| {
            let whole = ImagePass::new(Device::Cpu, Kind::Float, &|| false);
            let bands = RowBands {
                size: 6,
                off_device: false,
            };
            let banded = ImagePass::new(Device::Cpu, Kind::Float, &|| false).in_bands(bands, 8);
            [whole, banded].map(|pass| {
                let canvas = block.forward(&BandedTensor::new(xs.copy()), &pass).unwrap();
                canvas.into_tensor(&pass)
            })
        };
        let fused = forward(&block);
        let shortcut = block.nin_shortcut.as_mut().unwrap();
        for conv in [shortcut, &mut block.first.conv, &mut block.second.conv] {
            assert!(conv.bias.apart.is_none());
            // Far from the small ones that such weights have.
            conv.bias.own = &conv.bias.own + 1.0;
        }
        let fused_far = forward(&block);
        let shortcut = block.nin_shortcut.as_mut().unwrap();
        for conv in [shortcut, &mut block.first.conv, &mut block.second.conv] {
            conv.bias.apart = Some(conv.bias.own.shallow_clone());
        }
        for (apart, expected) in forward(&block).iter().zip(&fused_far) {
            let off = (apart - expected).abs().max().double_value(&[]);
            assert!(off < 2e-5, "{off}");
        }
        assert!(!fused[0].allclose(&fused_far[0], 1e-2, 1e-2, false));
    }
}
