//! ControlNets of Qwen-Image: blocks of the transformer's kind that see a control picture beside the noise, before the
//! transformer's own; a layer behind each gives what is added there.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_qwenimage.py`).
//!
//! Shapes: as in [`transformer`](super::transformer).

use safelight_core::networks::{QwenImageControlConfig, QwenImageControlKeys};
use tch::Tensor;

use super::trunk::Trunk;
use crate::fault::Site;
use crate::hooks::Hooks;
use crate::nn::{Linear, Norm, Rope, TokenRows, gated_add, layer_norm};
use crate::streams::{EPS, Tokens};
use crate::weights::{Weights, WeightsError};

pub struct QwenImageControl {
    trunk: Trunk,
    embedder: Linear,
    /// Behind each block.
    behind: Vec<Linear>,
    config: QwenImageControlConfig,
}

/// What the blocks are told of one timestep, text first: `(2, 6, C)` each
pub struct ControlModulations(Vec<Tensor>);

impl QwenImageControl {
    /// `w`: the file's own names.
    pub fn new(config: &QwenImageControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let w = &w.translated(QwenImageControlKeys::file_key);
        let dim = config.blocks.dim();
        let layers = 0..config.blocks.num_layers;
        let behind = layers.map(|i| Linear::new(dim, dim, &(w / "controlnet_blocks" / i)));
        let embedder = w / "controlnet_x_embedder";
        Ok(Self {
            trunk: Trunk::new(&config.blocks, w)?,
            embedder: Linear::new(config.control_channels(), dim, &embedder)?,
            behind: behind.collect::<Result<_, _>>()?,
            config: config.clone(),
        })
    }

    /// The file's tensors that nobody has asked for.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish()
    }

    pub fn config(&self) -> &QwenImageControlConfig {
        &self.config
    }

    /// A text as its blocks read it: `(1, T, joint_attention_dim)` -> `(1, T, C)`
    pub fn text(&self, prompt_embeds: &Tensor) -> Tensor {
        self.trunk.text(prompt_embeds)
    }

    /// Control pictures as they join the noise in every call: `(B, I, control channels)` -> `(B, I, C)`
    pub fn embedded(&self, control: &Tensor) -> Tensor {
        let (kind, device) = (self.trunk.kind(), self.trunk.device());
        let control = control.to_device(device).to_kind(kind);
        // One by one, as how a product rounds depends on its rows.
        let each = control.split(1, 0);
        let each = each
            .iter()
            .map(|one| self.embedder.forward(&one.contiguous()));
        Tensor::cat(&each.collect::<Vec<_>>(), 0)
    }

    /// What the blocks are told of each of `timesteps`, as the scheduler has them: 1000 for noise alone.
    pub fn modulations(&self, timesteps: &[f32]) -> Vec<ControlModulations> {
        let blocks = self.trunk.modulations(&self.trunk.told(timesteps));
        let dim = self.config.blocks.dim();
        (0..timesteps.len() as i64)
            .map(|i| {
                let of_block = |all: &Tensor| all.select(1, i).view([2, 6, dim]);
                ControlModulations(blocks.iter().map(of_block).collect())
            })
            .collect()
    }

    /// `img`: `(B, I, in_channels)`; `control`: of [`embedded`](Self::embedded), of so many pictures or of one for all;
    /// `txt`: of [`text`](Self::text); `rope`: the transformer's of such tokens -> what is added behind the transformer's
    /// blocks, `strength` times: `(1, B * I, C)` each; `None` when cancelled
    pub fn residuals(
        &self,
        img: &Tensor,
        control: &Tensor,
        (modulations, strength): (&ControlModulations, f64),
        (txt, rope): (&Tensor, &Rope),
        hooks: &dyn Hooks,
    ) -> Option<Vec<Tensor>> {
        let (pictures, count, _) = img.size3().expect("tokens have three dimensions");
        let txt_len = pictures * txt.size()[1];
        let tokens = Tokens {
            txt: (0, txt_len),
            img: (txt_len, pictures * count),
            pictures,
            bias: None,
        };
        let ranges = [tokens.txt, tokens.img];
        let rows = |i: usize| TokenRows {
            values: &modulations.0[i],
            ranges: &ranges,
        };
        let img = img
            .to_device(self.trunk.device())
            .to_kind(self.trunk.kind());
        let mut xs = self.trunk.embed(&img, txt, &tokens);
        let mut own = tokens.of_img(&xs);
        let control = control.expand([pictures, -1, -1], false);
        gated_add(&mut own, &control.reshape([1, pictures * count, -1]), None);
        let mut normed = layer_norm(&xs, &Norm::modulated(rows(0), 0), EPS);
        let last = self.trunk.blocks.len() - 1;
        let mut samples = Vec::with_capacity(self.behind.len());
        for (i, (block, behind)) in self.trunk.blocks.iter().zip(&self.behind).enumerate() {
            hooks.go_on(Site::Block)?;
            // Nothing reads what stands behind the last block's second norm.
            let next = Norm::modulated(rows((i + 1).min(last)), 0);
            normed = block.forward(&mut xs, normed, rows(i), &next, &tokens, rope);
            let sample = behind.forward(&tokens.of_img(&xs));
            samples.push(if strength == 1.0 {
                sample
            } else {
                sample * strength
            });
        }
        Some(samples)
    }
}
