//! ControlNets of Qwen-Image: blocks of the transformer's kind with a control image besides the noise, which run before the
//! transformer's blocks; the output of a layer after each is added there.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_qwenimage.py`).
//!
//! Shapes: as in [`qwen_image`](super).

use std::path::Path;

use safelight_core::job::ControlInput;
use safelight_core::networks::{QwenImageControlConfig, QwenImageControlKeys};
use tch::Tensor;

use super::QwenImageTransformer;
use super::backbone::QwenImageBackbone;
use crate::controls::LoadedControls;
use crate::error::EngineError;
use crate::nn::Rope;
use crate::stages::images::{ControlNet, ImageLatentShape, StreamControlNet};
use crate::streams::{ControlNetBlocks, FluxSequence, SequenceEmbedder, StreamBlocks, of_timestep};
use crate::weights::{Weights, WeightsError};
use crate::work::StageWork;

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
        shape: ImageLatentShape,
        latents: &Tensor,
        control: &ControlInput,
    ) -> Result<Tensor, EngineError> {
        self.embed_for(model.config.dim(), shape, latents, control)
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
