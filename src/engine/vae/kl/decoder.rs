//! Latents to pixels.
//!
//! Does not undo the normalisation of the latents, and does not clamp the pixels.

use safelight_core::networks::{KlVaeConfig, VaeHalf};
use tch::Tensor;

use super::blocks::{KlConv, KlMiddle, KlNormConv, KlResidual, KlUpsample};
use super::canvas::{BandedTensor, ImagePass};
use super::half::{KlHalf, KlWay};
use super::statistics;
use crate::vae::keys;
use crate::vae::level::ResolutionLevel;
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
            half: KlHalf::decoder(cfg, weights),
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
