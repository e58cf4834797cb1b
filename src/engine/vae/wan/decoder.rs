//! Latents to pixels, one latent frame at a time, each chunk of frames handed out as soon as it exists.
//!
//! Does not undo the normalisation of the latents, and keeps no frame that it handed out.

use tch::{Kind, Tensor};

use super::blocks::{Head, Middle, Pass, ResidualBlock};
use super::config::{Level, WanVaeConfig};
use super::keys;
use super::resample::{Upsample, unpatchify};
use crate::vae::VaeError;
use crate::vae::causal::{CausalConv3d, ConvForm, Feed};
use crate::weights::{Weights, WeightsError};

#[derive(Debug)]
pub struct WanVaeDecoder {
    /// In front of the network: diffusers' `post_quant_conv`.
    entrance: CausalConv3d,
    conv1: CausalConv3d,
    middle: Middle,
    upsamples: Vec<UpLevel>,
    head: Head,
    patch_size: i64,
    kind: Kind,
}

impl WanVaeDecoder {
    /// Takes the decoder's half of the weights of a `vae` folder.
    pub fn new(cfg: &WanVaeConfig, weights: &Weights) -> Result<Self, VaeError> {
        Self::with_form(cfg, weights, ConvForm::for_weights(weights))
    }

    /// The same with convolutions computed in `form`, where the place and kind of the weights allow it.
    pub fn with_form(
        cfg: &WanVaeConfig,
        weights: &Weights,
        form: ConvForm,
    ) -> Result<Self, VaeError> {
        let form = form.or_fastest(weights);
        let root = keys::original_names(weights);
        let w = &root / "decoder";
        let levels = cfg.decoder_levels();
        let first = levels
            .first()
            .map_or(cfg.decoder_base_dim, |level| level.input);
        let last = levels
            .last()
            .map_or(cfg.decoder_base_dim, |level| level.output);
        let feed = |frames| Feed { form, frames };
        let upsamples = levels.into_iter().enumerate().map(|(i, level)| {
            UpLevel::new(
                &(&w / "upsamples" / i / "upsamples"),
                level,
                cfg.num_res_blocks + 1,
                form,
            )
        });
        Ok(Self {
            entrance: CausalConv3d::new(
                &(&root / "conv2"),
                [cfg.z_dim, cfg.z_dim],
                [1, 1, 1],
                form,
            )?,
            conv1: CausalConv3d::new(&(&w / "conv1"), [cfg.z_dim, first], [3, 3, 3], form)?,
            middle: Middle::new(&(&w / "middle"), first, feed(1))?,
            upsamples: upsamples.collect::<Result<_, _>>()?,
            head: Head::new(
                &(&w / "head"),
                [last, cfg.pixel_channels()],
                feed(cfg.temporal_factor()),
            )?,
            patch_size: cfg.patch_size,
            kind: weights.kind(),
        })
    }

    /// The keys of the decoder's half that nobody asked for.
    pub fn unexpected_keys(weights: &Weights) -> Vec<String> {
        let mut unexpected = weights.finish();
        unexpected.retain(|key| !keys::is_of_encoder(key));
        unexpected
    }

    /// `latents`: `(1, C, f, h, w)`, not normalised. Gives `frames` one chunk a latent frame, `(1, 3, n, H, W)` in
    /// -1..1, in the kind of the weights: first one frame, then as many as the temporal factor. `None` when cancelled.
    pub fn decode(
        &self,
        latents: &Tensor,
        cancelled: &dyn Fn() -> bool,
        frames: &mut dyn FnMut(Tensor),
    ) -> Option<()> {
        tch::no_grad(|| {
            let mut pass = Pass::new(cancelled);
            for i in 0..latents.size()[2] {
                if i > 0 {
                    pass.cache.rewind();
                }
                frames(self.decode_chunk(&latents.narrow(2, i, 1), &mut pass)?);
            }
            Some(())
        })
    }

    /// `latent`: `(1, C, 1, h, w)` → `(1, 3, n, H, W)`
    fn decode_chunk(&self, latent: &Tensor, pass: &mut Pass<'_>) -> Option<Tensor> {
        pass.go_on()?;
        let xs = latent.to_device(self.entrance.device()).to_kind(self.kind);
        // 1 c 1 h w -> 1 h w c
        let xs = xs.squeeze_dim(0).permute([1, 2, 3, 0]).contiguous();
        let xs = self.entrance.convolve(&xs, 1);
        let xs = self.conv1.forward(&xs, pass.cache.slot());
        let mut xs = self.middle.forward(&xs, pass)?;
        for level in &self.upsamples {
            xs = level.forward(&xs, pass)?;
        }
        let xs = self.head.forward(&xs, pass)?;
        Some(unpatchify(&xs, self.patch_size).clamp(-1.0, 1.0))
    }
}

#[derive(Debug)]
struct UpLevel {
    blocks: Vec<ResidualBlock>,
    upsample: Option<Upsample>,
}

impl UpLevel {
    fn new(
        w: &Weights,
        level: Level,
        num_res_blocks: i64,
        form: ConvForm,
    ) -> Result<Self, WeightsError> {
        let feed = Feed {
            form,
            frames: level.frames,
        };
        let blocks = (0..num_res_blocks).map(|i| {
            let input = if i == 0 { level.input } else { level.output };
            ResidualBlock::new(&(w / i), [input, level.output], feed)
        });
        Ok(Self {
            blocks: blocks.collect::<Result<_, _>>()?,
            upsample: level
                .step
                .map(|time| Upsample::new(&(w / num_res_blocks), level, time, form))
                .transpose()?,
        })
    }

    /// `xs`: `(T, H, W, C)` → `(T or 2T, H or 2H, W or 2W, O)`
    fn forward(&self, xs: &Tensor, pass: &mut Pass<'_>) -> Option<Tensor> {
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
