//! Pixels to the mean and log variance of their latents.
//!
//! Does not resize or check pictures, draws nothing and does not normalise.

use safelight_core::networks::{KlVaeConfig, VaeHalf};
use tch::{Device, Kind, Tensor};

use super::blocks::{Conv, Downsample, Middle, NormedConv, ResidualBlock};
use super::canvas::{Bands, Canvas, Pass};
use crate::vae::tiles::{Grid, Mosaic, Tiling};
use crate::vae::{Posterior, keys};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct KlVaeEncoder {
    conv_in: Conv,
    /// From pixels to latents.
    down: Vec<DownLevel>,
    mid: Middle,
    /// norm_out and conv_out
    head: NormedConv,
    quant_conv: Option<Conv>,
    width: i64,
    /// Pixels along an edge of one latent.
    spatial_factor: i64,
    device: Device,
    kind: Kind,
}

impl KlVaeEncoder {
    /// Takes the encoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &KlVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let levels = cfg.block_out_channels.len();
        let root = keys::kl(weights, levels);
        let w = &root / "encoder";
        let moments = 2 * cfg.latent_channels;
        let conv_in = Conv::new(&(&w / "conv_in"), [3, cfg.narrowest()], 3)?;
        let down = (0..levels).map(|level| DownLevel::new(&(&w / "down" / level), level, cfg));
        let widths = [cfg.widest(), moments];
        Ok(Self {
            conv_in,
            down: down.collect::<Result<_, _>>()?,
            mid: Middle::new(&(&w / "mid"), cfg.widest(), cfg)?,
            head: NormedConv::new(&(&w / "norm_out"), &(&w / "conv_out"), widths, cfg)?,
            quant_conv: cfg
                .use_quant_conv
                .then(|| Conv::new(&(&root / "quant_conv"), [moments; 2], 1))
                .transpose()?,
            width: cfg.narrowest(),
            spatial_factor: cfg.spatial_factor(),
            device: weights.device(),
            kind: weights.kind(),
        })
    }

    /// The keys of the encoder's half that nobody asked for.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_kl(weights, VaeHalf::Encoder)
    }

    /// `pixels`: `(B, 3, H, W)` in -1..1, edges multiples of the spatial factor, anywhere and of any kind → latents
    /// `(B, C, h, w)`, where the weights are and in their kind. `None` when cancelled.
    pub fn encode(&self, pixels: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Posterior> {
        self.each(pixels, &|one| self.encode_one(one, &self.pass(cancelled)))
    }

    /// The same numbers, but for rounding, in less memory: each layer goes over the picture a band at a time.
    pub fn encode_in_bands(
        &self,
        pixels: &Tensor,
        bands: Bands,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Posterior> {
        let pass = self.pass(cancelled).in_bands(bands, self.width);
        self.each(pixels, &|one| self.encode_one(one, &pass))
    }

    /// As [`KlVaeDecoder::decode_tiled`](super::KlVaeDecoder::decode_tiled).
    pub fn encode_tiled(
        &self,
        pixels: &Tensor,
        tiling: Tiling,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Posterior> {
        if tiling.is_seamless() {
            let count = pixels.size()[2..].iter().product::<i64>();
            let bands = Bands::of_tiles(tiling, count, self.width, &self.pass(cancelled));
            return self.encode_in_bands(pixels, bands, cancelled);
        }
        let factor = self.spatial_factor;
        let latents = [2, 3].map(|dim| pixels.size()[dim] / factor);
        let Some(grid) = Grid::new(tiling, factor, latents) else {
            return self.encode(pixels, cancelled);
        };
        let pass = self.pass(cancelled);
        self.each(pixels, &|one| {
            let mut mosaic = Mosaic::new(grid, 1);
            let mut whole = None;
            for tile in grid.tiles() {
                let moments = self.encode_one(&tile.cut(one, 2, factor), &pass)?;
                let moments = moments.permute([0, 2, 3, 1]).contiguous();
                whole = mosaic.put(&tile, 0, &moments);
            }
            whole.map(|xs| xs.permute([0, 3, 1, 2]).contiguous())
        })
    }

    fn pass<'a>(&self, cancelled: &'a dyn Fn() -> bool) -> Pass<'a> {
        Pass::new(self.device, self.kind, cancelled)
    }

    /// Norms are over one picture, so pictures go through one after the other.
    fn each(
        &self,
        pixels: &Tensor,
        encode: &dyn Fn(&Tensor) -> Option<Tensor>,
    ) -> Option<Posterior> {
        tch::no_grad(|| {
            let pictures = pixels.split(1, 0);
            let pictures = pictures
                .iter()
                .map(|one| Some(encode(one)?.to_device(self.device)));
            let moments = Tensor::cat(&pictures.collect::<Option<Vec<_>>>()?, 0);
            let channels = moments.size()[1] / 2;
            Some(Posterior {
                mean: moments.narrow(1, 0, channels),
                logvar: moments.narrow(1, channels, channels).clamp(-30.0, 20.0),
            })
        })
    }

    /// `(1, 3, H, W)` → `(1, 2 · C, h, w)`
    fn encode_one(&self, pixels: &Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        let xs = Canvas::new(pixels.permute([0, 2, 3, 1]).contiguous());
        let mut xs = self.conv_in.forward(&xs, pass)?;
        for level in &self.down {
            xs = level.forward(xs, pass)?;
        }
        let xs = self.mid.forward(&xs, pass)?;
        let mut xs = self.head.forward(&xs, pass)?;
        if let Some(conv) = &self.quant_conv {
            xs = conv.forward(&xs, pass)?;
        }
        Some(xs.into_tensor(pass).permute([0, 3, 1, 2]).contiguous())
    }
}

#[derive(Debug)]
struct DownLevel {
    block: Vec<ResidualBlock>,
    downsample: Option<Downsample>,
}

impl DownLevel {
    fn new(w: &Weights, level: usize, cfg: &KlVaeConfig) -> Result<Self, WeightsError> {
        let widths = &cfg.block_out_channels;
        let output = widths[level];
        let before = widths[level.saturating_sub(1)];
        let block = (0..cfg.layers_per_block).map(|index| {
            let input = if index == 0 { before } else { output };
            ResidualBlock::new(&(w / "block" / index), [input, output], cfg)
        });
        Ok(Self {
            block: block.collect::<Result<_, _>>()?,
            downsample: (level + 1 < widths.len())
                .then(|| Downsample::new(&(w / "downsample"), output))
                .transpose()?,
        })
    }

    /// `(H, W, C)` → `(H/2, W/2, O)`, at the latents `(H, W, O)`
    fn forward(&self, canvas: Canvas, pass: &Pass<'_>) -> Option<Canvas> {
        let mut xs = canvas;
        for block in &self.block {
            xs = block.forward(&xs, pass)?;
        }
        match &self.downsample {
            Some(downsample) => downsample.forward(&xs, pass),
            None => Some(xs),
        }
    }
}
