//! Layers that Qwen-Image's transformer and its ControlNets share: embedders, modulation layers, blocks; and the
//! ControlNets.
//!
//! Shapes: as in [`qwen_image`](super).

use std::path::Path;

use safelight_core::networks::stream_blocks::SINUSOIDS;
use safelight_core::networks::{
    QwenImageControlConfig, QwenImageControlKeys, QwenImageTransformerConfig,
};
use tch::{Device, Kind, Tensor};

use super::QwenImageTransformer;
use crate::controls::LoadedControls;
use crate::nn::{Mlp, NUM_TIMESTEPS, Rope, TokenRmsNorm, scaled_timestep_embedding};
use crate::stages::images::{ControlImage, ControlNet, StreamControlNet};
use crate::streams::{
    ControlNetBlocks, DoubleModulation, EPS, FluxSequence, SequenceEmbedder, StreamBlocks,
    embedder, of_timestep,
};
use crate::{EngineError, StageWork, Weights, WeightsError};

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

/// Blocks of the transformer's kind with a control image besides the noise, which run before the transformer's blocks; the
/// output of a layer after each is added there. In the arithmetic of diffusers 0.42.1
/// (`models/controlnets/controlnet_qwenimage.py`).
pub struct QwenImageControl {
    backbone: QwenImageBackbone,
    control: ControlNetBlocks,
    config: QwenImageControlConfig,
}

impl QwenImageControl {
    /// `w`: the file's own names
    pub fn new(config: &QwenImageControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = QwenImageControlKeys::bare(true);
        let w = &w.translated(move |name| keys.file_key(name));
        let shape = config.blocks.streams();
        Ok(Self {
            backbone: QwenImageBackbone::new(&config.blocks, w)?,
            control: ControlNetBlocks::new(&shape, config.control_channels(), w)?,
            config: config.clone(),
        })
    }

    /// `prompt_embeds`: `(1, T, joint_attention_dim)`; `rope`: the transformer's
    pub fn prompt(&self, prompt_embeds: &Tensor, rope: Rope) -> FluxSequence {
        FluxSequence {
            txt: self.backbone.text(prompt_embeds),
            bias: None,
            rope,
        }
    }
}

impl ControlNet for QwenImageControl {
    type Model = QwenImageTransformer;
    type Prompt = FluxSequence;
    type Modulation = Vec<Tensor>;

    fn load(home: &Path, work: &mut StageWork<'_>) -> Result<LoadedControls<Self>, EngineError> {
        work.control_networks(home, Self::new)
    }

    fn embed(
        &self,
        model: &QwenImageTransformer,
        it: &ControlImage<'_>,
    ) -> Result<Tensor, EngineError> {
        self.embed_for(model.config.dim(), it)
    }

    fn modulations(
        &self,
        _: &QwenImageTransformer,
        timesteps: &[f32],
        _: &FluxSequence,
    ) -> Vec<Vec<Tensor>> {
        let blocks = self.backbone.modulations(&self.backbone.time(timesteps));
        let dim = self.config.blocks.dim();
        let each = 0..timesteps.len() as i64;
        each.map(|i| of_timestep(&blocks, i, dim)).collect()
    }
}

impl StreamControlNet for QwenImageControl {
    fn layers(&self) -> (&SequenceEmbedder, &StreamBlocks, &ControlNetBlocks) {
        let QwenImageBackbone { entry, blocks, .. } = &self.backbone;
        (entry, blocks, &self.control)
    }

    fn sequence(prompt: &FluxSequence) -> &FluxSequence {
        prompt
    }
}
