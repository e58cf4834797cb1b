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
use crate::nn::{NUM_TIMESTEPS, Rope, TokenRmsNorm, scaled_timestep_embedding};
use crate::stages::images::{ControlImage, ControlNet, StreamControlNet, embed_tokens};
use crate::streams::{
    ControlNetBlocks, EPS, FluxSequence, SequenceEmbedder, StreamBlocks, StreamModulation,
    StreamModulations,
};
use crate::{EngineError, StageWork, Weights, WeightsError};

pub(super) struct QwenImageBackbone {
    pub(super) entry: SequenceEmbedder,
    txt_norm: TokenRmsNorm,
    modulation: StreamModulation,
    pub(super) blocks: StreamBlocks,
}

impl QwenImageBackbone {
    /// `w`: by the names of Flux's authors; `last`: weights of the final layer, which ControlNets lack
    pub(super) fn new(
        config: &QwenImageTransformerConfig,
        w: &Weights,
        last: Option<&Weights>,
    ) -> Result<Self, WeightsError> {
        let (text, shape) = (config.joint_attention_dim, config.streams());
        Ok(Self {
            entry: SequenceEmbedder::new(&shape, config.in_channels, text, w)?,
            txt_norm: TokenRmsNorm::new(text, EPS, &(w / "txt_norm"))?,
            modulation: StreamModulation::new(&shape, None, w, last)?,
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

    /// Modulation for each timestep of the scheduler; 1000 is pure noise.
    pub(super) fn modulations(&self, timesteps: &[f32]) -> Vec<StreamModulations> {
        let times = timesteps.iter().map(|t| t / NUM_TIMESTEPS);
        let times = Tensor::from_slice(&times.collect::<Vec<_>>()).to_device(self.entry.device);
        let sinusoids = scaled_timestep_embedding(&times, f64::from(NUM_TIMESTEPS), SINUSOIDS);
        self.modulation.modulations(&sinusoids, None)
    }
}

/// Blocks of the transformer's kind with a control image besides the noise, which run before the transformer's blocks; the
/// output of a layer after each is added there. In the arithmetic of diffusers 0.42.1
/// (`models/controlnets/controlnet_qwenimage.py`).
pub struct QwenImageControl {
    backbone: QwenImageBackbone,
    control: ControlNetBlocks,
}

impl QwenImageControl {
    /// `w`: the file's own names
    pub fn new(config: &QwenImageControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = QwenImageControlKeys::bare(true);
        let w = &w.translated(move |name| keys.file_key(name));
        let shape = config.blocks.streams();
        Ok(Self {
            backbone: QwenImageBackbone::new(&config.blocks, w, None)?,
            control: ControlNetBlocks::new(&shape, config.control_channels(), w)?,
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
        embed_tokens(self, model.config.dim(), it)
    }

    fn modulations(
        &self,
        _: &QwenImageTransformer,
        timesteps: &[f32],
        _: &FluxSequence,
    ) -> Vec<Vec<Tensor>> {
        let each = self.backbone.modulations(timesteps).into_iter();
        each.map(|it| it.blocks).collect()
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
