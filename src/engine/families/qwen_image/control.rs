//! ControlNets of Qwen-Image: blocks of the transformer's kind that see a control picture beside the noise, before the
//! transformer's own; a layer behind each gives what is added there.
//!
//! In the arithmetic of diffusers 0.42.1 (`models/controlnets/controlnet_qwenimage.py`).
//!
//! Shapes: as in [`transformer`](super::transformer).

use safelight_core::networks::{QwenImageControlConfig, QwenImageControlKeys};
use tch::Tensor;

use super::trunk::Trunk;
use crate::controls::acting::ControlNet;
use crate::hooks::Hooks;
use crate::nn::Rope;
use crate::streams::{ControlBlocks, Samples, Tokens, of_timestep};
use crate::weights::{Weights, WeightsError};

pub struct QwenImageControl {
    trunk: Trunk,
    control: ControlBlocks,
    config: QwenImageControlConfig,
}

/// A prompt as its blocks read it.
pub struct ControlText {
    /// `(1, T, C)`
    txt: Tensor,
    /// The transformer's, of so many pictures with such texts.
    rope: Rope,
}

impl QwenImageControl {
    /// `w`: the file's own names.
    pub fn new(config: &QwenImageControlConfig, w: &Weights) -> Result<Self, WeightsError> {
        let keys = QwenImageControlKeys::bare(true);
        let w = &w.translated(move |name| keys.file_key(name));
        let shape = config.blocks.streams();
        Ok(Self {
            trunk: Trunk::new(&config.blocks, w)?,
            control: ControlBlocks::new(&shape, config.control_channels(), w)?,
            config: config.clone(),
        })
    }

    /// The file's tensors that nobody has asked for.
    pub fn unexpected_keys(w: &Weights) -> Vec<String> {
        w.finish()
    }

    /// `prompt_embeds`: `(1, T, joint_attention_dim)`; `rope`: the transformer's of such tokens
    pub fn text(&self, prompt_embeds: &Tensor, rope: Rope) -> ControlText {
        ControlText {
            txt: self.trunk.text(prompt_embeds),
            rope,
        }
    }
}

impl ControlNet for QwenImageControl {
    type Text = ControlText;

    fn dim(&self) -> i64 {
        self.config.blocks.dim()
    }

    fn control_channels(&self) -> i64 {
        self.config.control_channels()
    }

    fn takes_mask(&self) -> bool {
        self.config.takes_mask()
    }

    fn embedded(&self, control: &Tensor) -> Tensor {
        let (kind, device) = (self.trunk.kind(), self.trunk.device());
        self.control
            .embedded(&control.to_device(device).to_kind(kind))
    }

    fn told(&self, timesteps: &[f32], _text: &ControlText) -> Vec<Vec<Tensor>> {
        let blocks = self.trunk.modulations(&self.trunk.told(timesteps));
        let each = 0..timesteps.len() as i64;
        each.map(|i| of_timestep(&blocks, i, self.dim())).collect()
    }

    fn samples(
        &self,
        img: &Tensor,
        control: (&Tensor, f64),
        told: &[Tensor],
        text: &ControlText,
        hooks: &dyn Hooks,
    ) -> Option<Samples> {
        let tokens = Tokens::of(img, &text.txt);
        let img = img
            .to_device(self.trunk.device())
            .to_kind(self.trunk.kind());
        let xs = self.trunk.embed(&img, &text.txt, &tokens);
        let places = (&tokens, &text.rope);
        self.control
            .samples(&self.trunk.blocks, xs, control, told, places, hooks)
    }
}
