//! Layers that Qwen-Image's transformer and its ControlNets share: embedders, modulation layers, blocks.
//!
//! Shapes: as in [`qwen_image`](super).

use safelight_core::networks::QwenImageTransformerConfig;
use safelight_core::networks::stream_blocks::SINUSOIDS;
use tch::{Device, Kind, Tensor};

use crate::nn::{Mlp, NUM_TIMESTEPS, TokenRmsNorm, scaled_timestep_embedding};
use crate::streams::{DoubleModulation, EPS, SequenceEmbedder, StreamBlocks, embedder};
use crate::weights::{Weights, WeightsError};

pub(super) struct QwenImageBackbone {
    pub(super) entry: SequenceEmbedder,
    txt_norm: TokenRmsNorm,
    time_in: Mlp,
    pub(super) blocks: StreamBlocks,
    /// Per block.
    modulation: Vec<DoubleModulation>,
}

impl QwenImageBackbone {
    /// `w`: by the names of Flux's authors
    pub(super) fn new(
        config: &QwenImageTransformerConfig,
        w: &Weights,
    ) -> Result<Self, WeightsError> {
        let (dim, text) = (config.dim(), config.joint_attention_dim);
        let time = &w.with_kind(Kind::Float) / "time_in";
        let shape = config.streams();
        let blocks = (0..config.num_layers).map(|i| w / "double_blocks" / i);
        let modulation = blocks.map(|w| DoubleModulation::new(dim, &w));
        Ok(Self {
            entry: SequenceEmbedder::new(&shape, config.in_channels, text, w)?,
            txt_norm: TokenRmsNorm::new(text, EPS, &(w / "txt_norm"))?,
            time_in: embedder(true, SINUSOIDS, dim, &time)?,
            modulation: modulation.collect::<Result<_, _>>()?,
            blocks: StreamBlocks::new(&shape, w)?,
        })
    }

    pub(super) fn place(&self) -> (Device, Kind) {
        (self.entry.device, self.entry.kind)
    }

    /// `(1, T, joint_attention_dim)` -> `(1, T, C)`
    pub(super) fn text(&self, prompt_embeds: &Tensor) -> Tensor {
        let (device, kind) = self.place();
        let prompt = prompt_embeds.to_device(device).to_kind(kind);
        self.entry
            .text(&self.txt_norm.forward(&prompt.contiguous()))
    }

    /// Embeds timesteps of the scheduler, 1000 for pure noise: `(N, C)`, the input of all modulation layers
    pub(super) fn time(&self, timesteps: &[f32]) -> Tensor {
        let (device, kind) = self.place();
        let times = timesteps.iter().map(|t| t / NUM_TIMESTEPS);
        let times = Tensor::from_slice(&times.collect::<Vec<_>>()).to_device(device);
        let sinusoids = scaled_timestep_embedding(&times, f64::from(NUM_TIMESTEPS), SINUSOIDS);
        self.time_in
            .forward(&sinusoids, |xs| xs.silu())
            .silu()
            .to_kind(kind)
    }

    /// Modulation of each block, text first: `(N, C)` -> `(2, N, 6 C)`
    pub(super) fn modulations(&self, time: &Tensor) -> Vec<Tensor> {
        let blocks = self.modulation.iter().map(|layers| layers.forward(time));
        blocks.collect()
    }
}
