//! Pixels to the mean and log variance of their latents.
//!
//! Does not resize or check pictures, draws nothing and does not normalise.

use safelight_core::networks::{KlVaeConfig, VaeHalf};
use tch::Tensor;

use super::blocks::{Conv, Downsample, Middle, NormedConv, ResidualBlock};
use super::canvas::{Canvas, Pass};
use super::half::{Half, KlWay};
use super::statistics;
use crate::vae::level::Level;
use crate::vae::{Posterior, keys};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct KlVaeEncoder {
    conv_in: Conv,
    down: Vec<Level<ResidualBlock, Downsample>>,
    mid: Middle,
    head: NormedConv,
    quant_conv: Option<Conv>,
    half: Half,
}

impl KlVaeEncoder {
    /// Takes the encoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &KlVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let levels = cfg.block_out_channels.len();
        let root = keys::kl(weights, levels);
        let w = &root / "encoder";
        statistics::ignore(&root);
        let moments = 2 * cfg.latent_channels;
        let conv_in = Conv::new(&(&w / "conv_in"), [3, cfg.narrowest()], 3)?;
        let down = (0..levels).map(|level| down_level(&(&w / "down" / level), level, cfg));
        Ok(Self {
            conv_in,
            down: down.collect::<Result<_, _>>()?,
            mid: Middle::new(&(&w / "mid"), cfg.widest(), cfg)?,
            head: NormedConv::new(&w, "_out", [cfg.widest(), moments], cfg)?,
            quant_conv: cfg
                .use_quant_conv
                .then(|| Conv::new(&(&root / "quant_conv"), [moments; 2], 1))
                .transpose()?,
            half: Half::encoder(cfg, weights),
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
        let one = |pixels: &Tensor, pass: &Pass<'_>| self.encode_one(pixels, pass);
        let moments = self.half.over(pixels, way, &one, cancelled)?;
        Some(Posterior::of(&moments))
    }

    /// `(1, 3, H, W)` → `(1, 2 · C, h, w)`
    fn encode_one(&self, pixels: &Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        let xs = Canvas::new(pixels.permute([0, 2, 3, 1]).contiguous());
        let mut xs = self.conv_in.forward(&xs, pass)?;
        for level in &self.down {
            let block = |block: &ResidualBlock, xs: Canvas| block.forward(&xs, pass);
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
) -> Result<Level<ResidualBlock, Downsample>, WeightsError> {
    let widths = &cfg.block_out_channels;
    let (before, own) = (widths[level.saturating_sub(1)], widths[level]);
    let step = || Downsample::new(&(w / "downsample"), own);
    Level::new(
        cfg.layers_per_block,
        [before, own],
        |i, widths| ResidualBlock::new(&(w / "block" / i), widths, cfg),
        (level + 1 < widths.len()).then(step),
    )
}
