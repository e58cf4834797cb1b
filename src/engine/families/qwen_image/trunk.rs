//! What Qwen-Image's transformer and its ControlNets have alike: the ways of texts, pictures and timesteps into the
//! blocks, and the blocks.
//!
//! Shapes: as in [`transformer`](super::transformer).

use safelight_core::networks::QwenImageTransformerConfig;
use safelight_core::networks::stream_blocks::SINUSOIDS;
use tch::{Device, Kind, Tensor};

use crate::nn::{Linear, RmsNorm, scaled_timestep_embedding};
use crate::streams::{Blocks, DoubleModulation, EPS, MlpEmbedder, Tokens};
use crate::weights::{Weights, WeightsError};

/// What the model multiplies timesteps with, which come divided by it.
const TIME_FACTOR: f64 = 1000.0;

pub(super) struct Trunk {
    img_in: Linear,
    txt_norm: RmsNorm,
    txt_in: Linear,
    time_in: MlpEmbedder,
    pub(super) blocks: Blocks,
    /// Of each block.
    told: Vec<DoubleModulation>,
    dim: i64,
    kind: Kind,
    device: Device,
}

impl Trunk {
    /// `w`: by the names of Flux's authors.
    pub(super) fn new(
        config: &QwenImageTransformerConfig,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let (dim, text) = (config.dim(), config.joint_attention_dim);
        let time = &w.with_kind(Kind::Float) / "time_in";
        let shape = config.streams();
        let of_blocks = (0..config.num_layers).map(|i| w / "double_blocks" / i);
        let told = of_blocks.map(|w| DoubleModulation::new(dim, &w));
        Ok(Self {
            img_in: Linear::new(config.in_channels, dim, &(w / "img_in"))?,
            txt_norm: RmsNorm::new(text, EPS, &(w / "txt_norm"))?,
            txt_in: Linear::new(text, dim, &(w / "txt_in"))?,
            time_in: MlpEmbedder::new(SINUSOIDS, dim, &time)?,
            told: told.collect::<Result<_, _>>()?,
            blocks: Blocks::new(&shape, w)?,
            dim,
            kind: w.kind(),
            device: w.device(),
        })
    }

    pub(super) fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) fn device(&self) -> Device {
        self.device
    }

    /// `(1, T, joint_attention_dim)` -> `(1, T, C)`
    pub(super) fn text(&self, prompt_embeds: &Tensor) -> Tensor {
        let prompt = prompt_embeds.to_device(self.device).to_kind(self.kind);
        self.txt_in
            .forward(&self.txt_norm.forward(&prompt.contiguous()))
    }

    /// `timesteps`: of the scheduler, 1000 for noise alone -> what the layers that make modulations read: `(N, C)`
    pub(super) fn told(&self, timesteps: &[f32]) -> Tensor {
        let times = timesteps.iter().map(|t| t / TIME_FACTOR as f32);
        let times = Tensor::from_slice(&times.collect::<Vec<_>>()).to_device(self.device);
        let sinusoids = scaled_timestep_embedding(&times, TIME_FACTOR, SINUSOIDS);
        self.time_in.forward(&sinusoids).silu().to_kind(self.kind)
    }

    /// What [`told`](Self::told) gave to each block's modulations, text first: `(2, N, 6 C)`
    pub(super) fn modulations(&self, told: &Tensor) -> Vec<Tensor> {
        let blocks = self.told.iter().map(|layers| layers.forward(told));
        blocks.collect()
    }

    /// Texts and pictures one behind the other: `img`: `(B, I, in_channels)`, `txt`: `(1, T, C)` -> `(1, L, C)`
    pub(super) fn embed(&self, img: &Tensor, txt: &Tensor, tokens: &Tokens) -> Tensor {
        let xs = Tensor::empty([1, tokens.count(), self.dim], (self.kind, self.device));
        let mut texts = tokens.of_txt(&xs).view([tokens.pictures, -1, self.dim]);
        texts.copy_(&txt.expand_as(&texts));
        self.img_in
            .forward_into(&img.contiguous(), &tokens.of_img(&xs));
        xs
    }
}
