//! Pixels to the mean and log variance of their latents.
//!
//! Does not resize or check pictures, draws nothing and does not normalise.

use safelight_core::networks::{KlVaeConfig, VaeHalf};
use tch::Tensor;

use super::blocks::{KlConv, KlDownsample, KlMiddle, KlNormConv, KlResidual};
use super::canvas::{BandedTensor, ImagePass};
use super::half::{KlHalf, KlWay};
use super::statistics;
use crate::vae::level::ResolutionLevel;
use crate::vae::{Posterior, keys};
use crate::weights::{Weights, WeightsError};

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
            half: KlHalf::encoder(cfg, weights),
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
