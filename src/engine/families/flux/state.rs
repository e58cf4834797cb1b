//! What stages leave for those behind them, on disk between processes: texts and given pictures.

use std::path::Path;

use tch::Tensor;

use crate::error::EngineError;
use crate::store::{self, Named};

/// What the text encoders made of one text.
#[derive(Debug)]
pub struct TextEmbeds {
    /// `(1, T, joint_attention_dim)`, padding included
    pub prompt: Tensor,
    /// `(1, pooled_projection_dim)`
    pub pooled: Tensor,
}

#[derive(Debug)]
pub struct PromptEmbeds {
    pub prompt: TextEmbeds,
    /// Only where the job has real guidance.
    pub negative: Option<TextEmbeds>,
}

impl PromptEmbeds {
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![
            ("prompt_embeds", &self.prompt.prompt),
            ("pooled_prompt_embeds", &self.prompt.pooled),
        ];
        if let Some(negative) = &self.negative {
            tensors.push(("negative_prompt_embeds", &negative.prompt));
            tensors.push(("negative_pooled_prompt_embeds", &negative.pooled));
        }
        store::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = Named::read(path)?;
        let prompt = TextEmbeds {
            prompt: stored.take("prompt_embeds")?,
            pooled: stored.take("pooled_prompt_embeds")?,
        };
        let negative = match stored.find("negative_prompt_embeds") {
            None => None,
            Some(prompt) => Some(TextEmbeds {
                prompt,
                pooled: stored.take("negative_pooled_prompt_embeds")?,
            }),
        };
        Ok(Self { prompt, negative })
    }
}

/// A given picture in latents as the transformer has them, in f32.
#[derive(Debug)]
pub struct GivenImage {
    /// `(B, C, h, w)`, one for each picture that is made, or `(1, C, h', w')` in models that only see it
    pub latents: Tensor,
    /// What is made anew, 1 or 0 for each pixel: `(1, 1, H, W)`
    pub mask: Option<Tensor>,
    /// What the mask leaves of the picture, grey elsewhere: `(B, C, h, w)`
    pub masked: Option<Tensor>,
}

impl GivenImage {
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![("image_latents", &self.latents)];
        tensors.extend(self.mask.iter().map(|mask| ("mask", mask)));
        let masked = self.masked.iter();
        tensors.extend(masked.map(|masked| ("masked_image_latents", masked)));
        store::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = Named::read(path)?;
        Ok(Self {
            latents: stored.take("image_latents")?,
            mask: stored.find("mask"),
            masked: stored.find("masked_image_latents"),
        })
    }
}
