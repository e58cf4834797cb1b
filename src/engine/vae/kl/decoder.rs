//! Latents to pixels.
//!
//! Does not undo the normalisation of the latents, and does not clamp the pixels.

use safelight_core::networks::{KlVaeConfig, VaeHalf};
use tch::{Device, Kind, Tensor};

use super::blocks::{Conv, Middle, NormedConv, ResidualBlock, Upsample};
use super::canvas::{Bands, Canvas, Pass};
use crate::vae::keys;
use crate::vae::tiles::{Grid, Mosaic, Tiling};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct KlVaeDecoder {
    post_quant_conv: Option<Conv>,
    conv_in: Conv,
    mid: Middle,
    /// From latents to pixels; the authors number them the other way round.
    up: Vec<UpLevel>,
    /// norm_out and conv_out
    head: NormedConv,
    width: i64,
    /// Pixels along an edge of one latent.
    spatial_factor: i64,
    device: Device,
    kind: Kind,
}

impl KlVaeDecoder {
    /// Takes the decoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &KlVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        let levels = cfg.block_out_channels.len();
        let root = keys::kl(weights, levels);
        let w = &root / "decoder";
        let latents = cfg.latent_channels;
        let post_quant_conv = cfg
            .use_post_quant_conv
            .then(|| Conv::new(&(&root / "post_quant_conv"), [latents; 2], 1))
            .transpose()?;
        let conv_in = Conv::new(&(&w / "conv_in"), [latents, cfg.widest()], 3)?;
        let mid = Middle::new(&(&w / "mid"), cfg.widest(), cfg)?;
        let up = (0..levels)
            .rev()
            .map(|level| UpLevel::new(&(&w / "up" / level), level, cfg));
        Ok(Self {
            post_quant_conv,
            conv_in,
            mid,
            up: up.collect::<Result<_, _>>()?,
            head: NormedConv::new(
                &(&w / "norm_out"),
                &(&w / "conv_out"),
                [cfg.narrowest(), 3],
                cfg,
            )?,
            width: cfg.narrowest(),
            spatial_factor: cfg.spatial_factor(),
            device: weights.device(),
            kind: weights.kind(),
        })
    }

    /// The keys of the decoder's half that nobody asked for.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_kl(weights, VaeHalf::Decoder)
    }

    /// `latents`: `(B, C, h, w)`, not normalised, anywhere and of any kind → `(B, 3, H, W)`, nominally in -1..1, where
    /// the weights are and in their kind. `None` when cancelled.
    pub fn decode(&self, latents: &Tensor, cancelled: &dyn Fn() -> bool) -> Option<Tensor> {
        self.each(latents, &|one| self.decode_one(one, &self.pass(cancelled)))
    }

    /// The same numbers, but for rounding, in less memory: each layer goes over the picture a band at a time.
    pub fn decode_in_bands(
        &self,
        latents: &Tensor,
        bands: Bands,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        let pass = self.pass(cancelled).in_bands(bands, self.width);
        self.each(latents, &|one| self.decode_one(one, &pass))
    }

    /// With [`TileScheme::Seamless`](crate::vae::TileScheme::Seamless) in bands of as many pixels as a tile has, whose
    /// rest waits outside of the device where that has no room for it: nothing is cut apart, so there are no seams. With
    /// [`TileScheme::Separate`](crate::vae::TileScheme::Separate) what diffusers' `tiled_decode` gives where its
    /// overlap of a quarter is the tiling's.
    pub fn decode_tiled(
        &self,
        latents: &Tensor,
        tiling: Tiling,
        cancelled: &dyn Fn() -> bool,
    ) -> Option<Tensor> {
        if tiling.is_seamless() {
            let pixels = latents.size()[2..].iter().product::<i64>() * self.spatial_factor.pow(2);
            let bands = Bands::of_tiles(tiling, pixels, self.width, &self.pass(cancelled));
            return self.decode_in_bands(latents, bands, cancelled);
        }
        let size = latents.size();
        let Some(grid) = Grid::new(tiling, self.spatial_factor, [size[2], size[3]]) else {
            return self.decode(latents, cancelled);
        };
        let pass = self.pass(cancelled);
        self.each(latents, &|one| {
            let mut mosaic = Mosaic::new(grid, self.spatial_factor);
            let mut whole = None;
            for tile in grid.tiles() {
                let pixels = self.decode_one(&tile.cut(one, 2, 1), &pass)?;
                let pixels = pixels.permute([0, 2, 3, 1]).contiguous();
                whole = mosaic.put(&tile, 0, &pixels);
            }
            whole.map(|xs| xs.permute([0, 3, 1, 2]).contiguous())
        })
    }

    fn pass<'a>(&self, cancelled: &'a dyn Fn() -> bool) -> Pass<'a> {
        Pass::new(self.device, self.kind, cancelled)
    }

    /// Norms are over one picture, so pictures go through one after the other.
    fn each(&self, latents: &Tensor, decode: &dyn Fn(&Tensor) -> Option<Tensor>) -> Option<Tensor> {
        tch::no_grad(|| {
            let pictures = latents.split(1, 0);
            let pictures = pictures
                .iter()
                .map(|one| Some(decode(one)?.to_device(self.device)));
            match pictures.collect::<Option<Vec<_>>>()?.as_slice() {
                [one] => Some(one.shallow_clone()),
                pictures => Some(Tensor::cat(pictures, 0)),
            }
        })
    }

    /// `(1, C, h, w)` → `(1, 3, H, W)`
    fn decode_one(&self, latents: &Tensor, pass: &Pass<'_>) -> Option<Tensor> {
        let mut xs = Canvas::new(latents.permute([0, 2, 3, 1]).contiguous());
        if let Some(conv) = &self.post_quant_conv {
            xs = conv.forward(&xs, pass)?;
        }
        let xs = self.conv_in.forward(&xs, pass)?;
        let mut xs = self.mid.forward(&xs, pass)?;
        for level in &self.up {
            xs = level.forward(xs, pass)?;
        }
        let pixels = self.head.forward(&xs, pass)?.into_tensor(pass);
        Some(pixels.permute([0, 3, 1, 2]).contiguous())
    }
}

#[derive(Debug)]
struct UpLevel {
    block: Vec<ResidualBlock>,
    upsample: Option<Upsample>,
}

impl UpLevel {
    /// `level` as the authors count: 0 is that of the pixels.
    fn new(w: &Weights, level: usize, cfg: &KlVaeConfig) -> Result<Self, WeightsError> {
        let widths = &cfg.block_out_channels;
        let output = widths[level];
        let before = *widths.get(level + 1).unwrap_or(&output);
        let block = (0..=cfg.layers_per_block).map(|index| {
            let input = if index == 0 { before } else { output };
            ResidualBlock::new(&(w / "block" / index), [input, output], cfg)
        });
        Ok(Self {
            block: block.collect::<Result<_, _>>()?,
            upsample: (level > 0)
                .then(|| Upsample::new(&(w / "upsample"), output, widths[level - 1]))
                .transpose()?,
        })
    }

    /// `(H, W, C)` → `(2H, 2W, O)`, at the pixels `(H, W, O)`
    fn forward(&self, canvas: Canvas, pass: &Pass<'_>) -> Option<Canvas> {
        let mut xs = canvas;
        for block in &self.block {
            xs = block.forward(&xs, pass)?;
        }
        match &self.upsample {
            Some(upsample) => upsample.forward(xs, pass),
            None => Some(xs),
        }
    }
}
