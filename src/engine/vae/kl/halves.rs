//! Both halves: latents to pixels, and pixels to the mean and log variance of their latents.
//!
//! Neither normalises latents or resizes, checks or clamps pixels.

use safelight_core::networks::{KlVaeConfig, VaeHalf};
use tch::Tensor;

use super::blocks::{KlConv, KlDownsample, KlMiddle, KlNormConv, KlResidual, KlUpsample};
use super::canvas::{BandedTensor, ImagePass};
use super::{KlHalf, KlWay, statistics};
use crate::vae::{Posterior, ResolutionLevel, keys};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct KlVaeDecoder {
    post_quant_conv: Option<KlConv>,
    conv_in: KlConv,
    mid: KlMiddle,
    /// From latents to pixels; the authors number them the other way round.
    up: Vec<ResolutionLevel<KlResidual, KlUpsample>>,
    head: KlNormConv,
    half: KlHalf,
}

impl KlVaeDecoder {
    /// Takes the decoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &KlVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let levels = cfg.block_out_channels.len();
        let root = keys::kl(weights, levels);
        let w = &root / "decoder";
        let cfg = &cfg.of_half(VaeHalf::Decoder);
        statistics::ignore(&root);
        let latents = cfg.latent_channels;
        let post_quant_conv = cfg
            .use_post_quant_conv
            .then(|| KlConv::new(&(&root / "post_quant_conv"), [latents; 2], 1))
            .transpose()?;
        let conv_in = KlConv::new(&(&w / "conv_in"), [latents, cfg.widest()], 3)?;
        let mid = KlMiddle::new(&(&w / "mid"), cfg.widest(), cfg)?;
        let up = (0..levels)
            .rev()
            .map(|level| up_level(&(&w / "up" / level), level, cfg));
        Ok(Self {
            post_quant_conv,
            conv_in,
            mid,
            up: up.collect::<Result<_, _>>()?,
            head: KlNormConv::new(&w, "_out", [cfg.narrowest(), 3], cfg)?,
            half: KlHalf::new(cfg, weights, [1, cfg.spatial_factor()]),
        })
    }

    /// Keys of the decoder that were not requested.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_kl(weights, VaeHalf::Decoder)
    }

    /// `latents`: `(B, C, h, w)`, not normalised, anywhere and of any kind → `(B, 3, H, W)`, nominally in -1..1, where
    /// the weights are and in their kind. `None` when cancelled.
    pub fn decode(
        &self,
        latents: &Tensor,
        way: KlWay,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        let one = |latents: &Tensor, pass: &ImagePass<'_>| self.decode_one(latents, pass);
        self.half.over(latents, way, &one, cancelled)
    }

    /// `(1, C, h, w)` → `(1, 3, H, W)`
    fn decode_one(&self, latents: &Tensor, pass: &ImagePass<'_>) -> Option<Tensor> {
        let mut xs = BandedTensor::new(latents.permute([0, 2, 3, 1]).contiguous());
        if let Some(conv) = &self.post_quant_conv {
            xs = conv.forward(&xs, pass)?;
        }
        let xs = self.conv_in.forward(&xs, pass)?;
        let mut xs = self.mid.forward(&xs, pass)?;
        for level in &self.up {
            let block = |block: &KlResidual, xs: BandedTensor| block.forward(&xs, pass);
            xs = level.forward(xs, block, |step, xs| step.forward(xs, pass))?;
        }
        let pixels = self.head.forward(&xs, pass)?.into_tensor(pass);
        Some(pixels.permute([0, 3, 1, 2]).contiguous())
    }
}

/// `level` as the authors count: 0 is that of the pixels.
fn up_level(
    w: &Weights,
    level: usize,
    cfg: &KlVaeConfig,
) -> Result<ResolutionLevel<KlResidual, KlUpsample>, WeightsError> {
    let widths = &cfg.block_out_channels;
    let own = widths[level];
    let before = *widths.get(level + 1).unwrap_or(&own);
    let step = || KlUpsample::new(&(w / "upsample"), own, widths[level - 1]);
    ResolutionLevel::new(
        cfg.layers_per_block + 1,
        [before, own],
        |i, widths| KlResidual::new(&(w / "block" / i), widths, cfg),
        (level > 0).then(step),
    )
}

#[derive(Debug)]
pub struct KlVaeEncoder {
    conv_in: KlConv,
    down: Vec<ResolutionLevel<KlResidual, KlDownsample>>,
    mid: KlMiddle,
    head: KlNormConv,
    quant_conv: Option<KlConv>,
    half: KlHalf,
}

impl KlVaeEncoder {
    /// Takes the encoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &KlVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let levels = cfg.block_out_channels.len();
        let root = keys::kl(weights, levels);
        let w = &root / "encoder";
        statistics::ignore(&root);
        let moments = 2 * cfg.latent_channels;
        let conv_in = KlConv::new(&(&w / "conv_in"), [3, cfg.narrowest()], 3)?;
        let down = (0..levels).map(|level| down_level(&(&w / "down" / level), level, cfg));
        Ok(Self {
            conv_in,
            down: down.collect::<Result<_, _>>()?,
            mid: KlMiddle::new(&(&w / "mid"), cfg.widest(), cfg)?,
            head: KlNormConv::new(&w, "_out", [cfg.widest(), moments], cfg)?,
            quant_conv: cfg
                .use_quant_conv
                .then(|| KlConv::new(&(&root / "quant_conv"), [moments; 2], 1))
                .transpose()?,
            half: KlHalf::new(cfg, weights, [cfg.spatial_factor(), 1]),
        })
    }

    /// Keys of the encoder that were not requested.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_kl(weights, VaeHalf::Encoder)
    }

    /// `pixels`: `(B, 3, H, W)` in -1..1, edges multiples of the spatial factor, anywhere and of any kind → latents
    /// `(B, C, h, w)`, where the weights are and in their kind. `None` when cancelled.
    pub fn encode(
        &self,
        pixels: &Tensor,
        way: KlWay,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Posterior> {
        let one = |pixels: &Tensor, pass: &ImagePass<'_>| self.encode_one(pixels, pass);
        let moments = self.half.over(pixels, way, &one, cancelled)?;
        Some(Posterior::from_moments(&moments))
    }

    /// `(1, 3, H, W)` → `(1, 2 · C, h, w)`
    fn encode_one(&self, pixels: &Tensor, pass: &ImagePass<'_>) -> Option<Tensor> {
        let xs = BandedTensor::new(pixels.permute([0, 2, 3, 1]).contiguous());
        let mut xs = self.conv_in.forward(&xs, pass)?;
        for level in &self.down {
            let block = |block: &KlResidual, xs: BandedTensor| block.forward(&xs, pass);
            xs = level.forward(xs, block, |step, xs| step.forward(&xs, pass))?;
        }
        let xs = self.mid.forward(&xs, pass)?;
        let mut xs = self.head.forward(&xs, pass)?;
        if let Some(conv) = &self.quant_conv {
            xs = conv.forward(&xs, pass)?;
        }
        Some(xs.into_tensor(pass).permute([0, 3, 1, 2]).contiguous())
    }
}

fn down_level(
    w: &Weights,
    level: usize,
    cfg: &KlVaeConfig,
) -> Result<ResolutionLevel<KlResidual, KlDownsample>, WeightsError> {
    let widths = &cfg.block_out_channels;
    let (before, own) = (widths[level.saturating_sub(1)], widths[level]);
    let step = || KlDownsample::new(&(w / "downsample"), own);
    ResolutionLevel::new(
        cfg.layers_per_block,
        [before, own],
        |i, widths| KlResidual::new(&(w / "block" / i), widths, cfg),
        (level + 1 < widths.len()).then(step),
    )
}
