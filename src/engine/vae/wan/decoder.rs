//! Latents to pixels, one latent frame or a few at a time, each chunk of frames handed out as soon as it exists.
//!
//! Does not undo the normalisation of the latents, and keeps no frame that it handed out.

use safelight_core::networks::{VaeHalf, WanVaeConfig, WanVaeLevel};
use tch::{Kind, Tensor};

use super::blocks::{ChunkPass, WanHead, WanMiddle, WanResidual};
use super::resample::WanUpsample;
use crate::parallel::RankBands;
use crate::runtime::chunk_frames;
use crate::vae::causal::{CausalConv3d, ConvFeed, ConvForm};
use crate::vae::keys;
use crate::vae::pixel_patches::unpatchify;
use crate::vae::tiles::{LatentTile, TileBlender, TileGrid, Tiling, on_cpu};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct WanVaeDecoder {
    /// In front of the network: diffusers' `post_quant_conv`.
    entrance: CausalConv3d,
    conv1: CausalConv3d,
    middle: WanMiddle,
    upsamples: Vec<UpLevel>,
    head: WanHead,
    patch_size: i64,
    /// Pixels along an edge of one latent.
    spatial_factor: i64,
    /// Latent frames of every chunk but the first, which is one.
    chunk: i64,
    kind: Kind,
}

impl WanVaeDecoder {
    /// Takes the decoder's half of an autoencoder's weights, in any dialect.
    pub fn new(cfg: &WanVaeConfig, weights: &Weights) -> Result<Self, WeightsError> {
        Self::with_form(cfg, weights, ConvForm::for_weights(weights))
    }

    /// Like `new`, with convolutions computed in `form` where device and kind of the weights allow it.
    pub fn with_form(
        cfg: &WanVaeConfig,
        weights: &Weights,
        form: ConvForm,
    ) -> Result<Self, WeightsError> {
        let form = form.or_fastest(weights);
        // Planes are made for the frames of one latent frame.
        let chunk = if form == ConvForm::Planes {
            1
        } else {
            chunk_frames()
        };
        let root = keys::wan(weights, cfg);
        let w = &root / "decoder";
        let levels = cfg.decoder_levels();
        let dim = cfg.decoder_dim();
        let first = levels.first().map_or(dim, |level| level.input);
        let last = levels.last().map_or(dim, |level| level.output);
        let feed = |frames| ConvFeed {
            form,
            frames,
            taps: cfg.taps(),
        };
        let frames = feed(cfg.temporal_factor() * chunk);
        let latents = feed(chunk);
        let upsamples = levels.into_iter().map(|level| {
            let frames = level.frames * chunk;
            UpLevel::new(&root, level, feed(frames))
        });
        Ok(Self {
            entrance: CausalConv3d::new(&(&root / "conv2"), [cfg.z_dim; 2], [1, 1, 1], latents)?,
            conv1: CausalConv3d::new(&(&w / "conv1"), [cfg.z_dim, first], [3, 3, 3], latents)?,
            middle: WanMiddle::new(&(&w / "middle"), first, latents)?,
            upsamples: upsamples.collect::<Result<_, _>>()?,
            head: WanHead::new(&(&w / "head"), [last, cfg.pixel_channels()], frames)?,
            patch_size: cfg.patch(),
            spatial_factor: cfg.spatial_factor(),
            chunk,
            kind: weights.kind(),
        })
    }

    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        keys::unexpected_of_wan(weights, VaeHalf::Decoder)
    }

    /// `latents`: `(1, C, f, h, w)`, not normalised. Gives `frames` the video in chunks, `(1, 3 or 4, n, H, W)` in -1..1, in the
    /// kind of the weights: first one frame, then as many as the temporal factor times the latent frames that are
    /// decoded at a time, at the end fewer. `None` when cancelled.
    ///
    /// `tiling`: in overlapping tiles, for less memory on the device, where the frames all come at the end, in order and
    /// in the same chunks. A video that fits into one tile is decoded whole.
    pub fn decode(
        &self,
        latents: &Tensor,
        tiling: Option<Tiling>,
        cancelled: &dyn Fn() -> bool,
        frames: &mut dyn FnMut(Tensor),
    ) -> Option<()> {
        let size = latents.size();
        let cell = self.spatial_factor / self.patch_size;
        let grid = tiling.and_then(|tiling| {
            let unit = if tiling.is_seamless() {
                cell
            } else {
                self.spatial_factor
            };
            let grid = TileGrid::new(tiling, unit, [size[3], size[4]])?;
            Some((grid, tiling))
        });
        tch::no_grad(|| {
            let mut pass = ChunkPass::new(cancelled);
            if let Some((grid, tiling)) = grid {
                return self.decode_tiles(latents, grid, tiling, pass, frames);
            }
            // Other ranks decode other rows.
            let bands = RankBands::of(size[3]);
            let _in_force = bands.as_ref().map(RankBands::in_force);
            let latents = match &bands {
                Some(bands) => bands.own(latents, 3),
                None => latents.shallow_clone(),
            };
            for (i, (start, len)) in self.chunks_of(size[2]).enumerate() {
                pass.cache.begin(i);
                let chunk = self.whole_part(&latents.narrow(2, start, len), &mut pass)?;
                let chunk = self.tiled_part(&chunk, &mut pass)?;
                let pixels = self.pixels(&chunk);
                frames(match &bands {
                    Some(bands) => bands.all_rows(&pixels, 3),
                    None => pixels,
                });
            }
            Some(())
        })
    }

    fn decode_tiles(
        &self,
        latents: &Tensor,
        grid: TileGrid,
        tiling: Tiling,
        mut pass: ChunkPass<'_>,
        frames: &mut dyn FnMut(Tensor),
    ) -> Option<()> {
        let uncut = if tiling.is_seamless() {
            TileSource::Wholes(self.wholes(latents, &mut pass)?)
        } else {
            TileSource::Latents(latents)
        };
        let mut mosaic = TileBlender::new(grid, self.spatial_factor / self.patch_size);
        for tile in grid.tiles() {
            pass.forget();
            for (i, chunk) in self.chunks_of(latents.size()[2]).enumerate() {
                pass.cache.begin(i);
                let part = self.cut(&uncut, &tile, (i, chunk), &mut pass)?;
                let chunk = self.tiled_part(&part, &mut pass)?;
                if let Some(whole) = mosaic.put(&tile, i, &chunk) {
                    frames(self.pixels(&whole));
                }
            }
        }
        Some(())
    }

    /// The first latent frame of each chunk of `latents`, and how many there are in it.
    fn chunks_of(&self, latents: i64) -> impl Iterator<Item = (i64, i64)> + use<> {
        let chunk = self.chunk;
        let later = (1..latents).step_by(chunk as usize);
        let later = later.map(move |start| (start, chunk.min(latents - start)));
        (latents > 0).then_some((0, 1)).into_iter().chain(later)
    }

    /// Input of `tiled_part` for a tile of chunk `i`; `start`, `len`: its latent frames.
    fn cut(
        &self,
        uncut: &TileSource<'_>,
        tile: &LatentTile,
        (i, (start, len)): (usize, (i64, i64)),
        pass: &mut ChunkPass<'_>,
    ) -> Option<Tensor> {
        match uncut {
            TileSource::Wholes(wholes) => {
                let part = tile.cut(&wholes[i], 1, 1 << self.whole_levels());
                Some(part.to_device(self.entrance.device()).contiguous())
            }
            TileSource::Latents(latents) => {
                let part = tile.cut(&latents.narrow(2, start, len), 3, 1);
                self.whole_part(&part, pass)
            }
        }
    }

    /// Output of the untiled part of the network for each chunk, kept off the device: 19 MB for 832 × 480 in half
    /// precision, where the pixels of the same frames take 10 MB.
    fn wholes(&self, latents: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Vec<Tensor>> {
        self.chunks_of(latents.size()[2])
            .enumerate()
            .map(|(i, (start, len))| {
                pass.cache.begin(i);
                let whole = self.whole_part(&latents.narrow(2, start, len), pass)?;
                Some(on_cpu(&whole))
            })
            .collect()
    }

    /// `xs`: `(n, H/p, W/p, 3 · p · p)` → `(1, 3, n, H, W)` in -1..1
    fn pixels(&self, xs: &Tensor) -> Tensor {
        unpatchify(xs, self.patch_size).clamp_(-1.0, 1.0)
    }

    /// Number of levels that seamless tiling does not cut: the one at latent resolution, if there are others.
    fn whole_levels(&self) -> usize {
        self.upsamples.len().saturating_sub(1).min(1)
    }

    /// The network up to those levels. `latents`: `(1, C, f, h, w)` → `(t, 2h, 2w, C)`
    fn whole_part(&self, latents: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        pass.check_cancelled()?;
        let xs = latents.to_device(self.entrance.device()).to_kind(self.kind);
        // 1 c f h w -> f h w c
        let xs = xs.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous();
        let xs = self.entrance.convolve(&xs, 1);
        let xs = self.conv1.forward(&xs, pass.cache.slot());
        let mut xs = self.middle.forward(&xs, pass)?;
        for level in &self.upsamples[..self.whole_levels()] {
            xs = level.forward(&xs, pass)?;
        }
        Some(xs)
    }

    /// The rest. `xs`: `(t, 2h, 2w, C)` → `(n, H/p, W/p, 3 · p · p)`
    fn tiled_part(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        let mut xs = xs.shallow_clone();
        for level in &self.upsamples[self.whole_levels()..] {
            xs = level.forward(&xs, pass)?;
        }
        self.head.forward(&xs, pass)
    }
}

/// Source that tiles are cut from.
enum TileSource<'a> {
    /// `(1, C, f, h, w)`
    Latents(&'a Tensor),
    /// For each chunk what `whole_part` gives.
    Wholes(Vec<Tensor>),
}

#[derive(Debug)]
struct UpLevel {
    blocks: Vec<WanResidual>,
    upsample: Option<WanUpsample>,
}

impl UpLevel {
    fn new(root: &Weights, level: WanVaeLevel, feed: ConvFeed) -> Result<Self, WeightsError> {
        let blocks = (0..level.num_blocks).map(|i| {
            let input = if i == 0 { level.input } else { level.output };
            WanResidual::new(&(root / level.block(i)), [input, level.output], feed)
        });
        let step = root / level.step_name();
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            upsample: level
                .step
                .map(|time| WanUpsample::new(&step, level, time, feed))
                .transpose()?,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T or 2T, H or 2H, W or 2W, next)`
    fn forward(&self, xs: &Tensor, pass: &mut ChunkPass<'_>) -> Option<Tensor> {
        let before = xs.shallow_clone();
        let mut xs = xs.shallow_clone();
        for block in &self.blocks {
            xs = block.forward(&xs, pass)?;
        }
        match &self.upsample {
            Some(upsample) => upsample.forward(&xs, &before, pass),
            None => Some(xs),
        }
    }
}
