//! ControlNets of Qwen-Image: blocks of the transformer's kind with a control image besides the noise, which run before the
//! transformer's blocks; the output of a layer after each is added there.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_qwenimage.py`).
//!
//! Shapes: as in [`qwen_image`](super).

use safelight_core::job::ControlInput;
use safelight_core::networks::{QwenImageControlConfig, QwenImageControlKeys};
use tch::Tensor;

use super::QwenImageTransformer;
use super::backbone::QwenImageBackbone;
use crate::error::EngineError;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::stages::images::{ControlNet, ImageLatentShape, StreamControlNet};
use crate::streams::{ControlNetBlocks, ControlNetOutput, TokenRanges, of_timestep};
use crate::weights::{Weights, WeightsError};

pub struct QwenImageControl {
    backbone: QwenImageBackbone,
    control: ControlNetBlocks,
    config: QwenImageControlConfig,
}

/// Prompt embedded once for all steps.
pub struct QwenImageControlPrompt {
    /// `(1, T, C)`
    txt: Tensor,
    rope: Rope,
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
    pub fn prompt(&self, prompt_embeds: &Tensor, rope: Rope) -> QwenImageControlPrompt {
        QwenImageControlPrompt {
            txt: self.backbone.text(prompt_embeds),
            rope,
        }
    }
}

impl ControlNet for QwenImageControl {
    type Model = QwenImageTransformer;
    type Prompt = QwenImageControlPrompt;
    type Modulation = Vec<Tensor>;

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
        _: &QwenImageControlPrompt,
    ) -> Vec<Vec<Tensor>> {
        let blocks = self.backbone.modulations(&self.backbone.time(timesteps));
        let each = 0..timesteps.len() as i64;
        each.map(|i| of_timestep(&blocks, i, self.dim())).collect()
    }
}

impl StreamControlNet for QwenImageControl {
    fn dim(&self) -> i64 {
        self.config.blocks.dim()
    }

    fn control_channels(&self) -> i64 {
        self.config.control_channels()
    }

    fn takes_mask(&self) -> bool {
        self.config.takes_mask()
    }

    fn embed_tokens(&self, control: &Tensor) -> Tensor {
        let (device, kind) = self.backbone.place();
        self.control
            .embedded(&control.to_device(device).to_kind(kind))
    }

    fn output(
        &self,
        img: &Tensor,
        control: (&Tensor, f64),
        modulation: &[Tensor],
        prompt: &QwenImageControlPrompt,
        hooks: &dyn Hooks,
    ) -> Option<ControlNetOutput> {
        let tokens = TokenRanges::of(img, &prompt.txt);
        let xs = self.backbone.entry.embed(img, &prompt.txt, &tokens);
        let places = (&tokens, &prompt.rope);
        let blocks = &self.backbone.blocks;
        self.control
            .output(blocks, xs, control, modulation, places, hooks)
    }
}
