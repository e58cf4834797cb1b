//! The texts that the first stage leaves for those behind it, on disk between processes.

use std::path::Path;

use tch::Tensor;

use crate::error::EngineError;
use crate::store::{self, Named};

/// The texts as the transformer gets them, `(1, 512, C)` each, zero behind the end of the text.
#[derive(Debug)]
pub struct PromptEmbeds {
    pub prompt: Tensor,
    /// Only where the job is guided.
    pub negative: Option<Tensor>,
}

impl PromptEmbeds {
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![("prompt_embeds", &self.prompt)];
        tensors.extend(
            self.negative
                .iter()
                .map(|negative| ("negative_prompt_embeds", negative)),
        );
        store::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = Named::read(path)?;
        Ok(Self {
            prompt: stored.take("prompt_embeds")?,
            negative: stored.find("negative_prompt_embeds"),
        })
    }
}
