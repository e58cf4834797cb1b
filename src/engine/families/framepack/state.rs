//! What stages leave for those behind them, on disk between processes: texts, given pictures, and the frames where two
//! sections meet.

use std::path::{Path, PathBuf};

use safelight_core::job::prompt::PromptShare;
use tch::{Kind, Tensor};

use crate::error::EngineError;
use crate::store::{self, Named};

/// What the text encoders made of one text.
#[derive(Debug)]
pub struct TextEmbeds {
    /// `(1, T, text_embed_dim)`, padding included
    pub prompt: Tensor,
    /// `(1, T)`: 1 for text, 0 for padding behind it
    pub mask: Tensor,
    /// `(1, pooled_projection_dim)`
    pub pooled: Tensor,
}

impl TextEmbeds {
    /// Tokens that are text.
    pub fn len(&self) -> i64 {
        self.mask
            .to_kind(Kind::Int64)
            .sum(Kind::Int64)
            .int64_value(&[])
    }

    /// Whether there is no text at all, not even what a template puts there.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One text between several: token by token, as much of each as its share says. Where one has ended, the others
    /// go on.
    pub fn blended(parts: &[(&Self, f64)]) -> Self {
        if let [(only, _)] = parts {
            return only.shallow_clone();
        }
        let sum = |of: &dyn Fn(&Self) -> Tensor| {
            let weighted = parts.iter().map(|(part, share)| of(part) * *share);
            weighted.reduce(|sum, next| sum + next).unwrap_or_default()
        };
        let longest = parts.iter().max_by_key(|(part, _)| part.len());
        Self {
            prompt: sum(&|part| {
                let mask = part.mask.unsqueeze(-1).to_kind(Kind::Float);
                // Padding may hold anything.
                part.prompt
                    .to_kind(Kind::Float)
                    .where_self(&mask.gt(0.5), &Tensor::from(0.0_f32))
            }),
            mask: longest.map_or_else(Tensor::new, |(part, _)| part.mask.shallow_clone()),
            pooled: sum(&|part| part.pooled.to_kind(Kind::Float)),
        }
    }

    fn shallow_clone(&self) -> Self {
        Self {
            prompt: self.prompt.shallow_clone(),
            mask: self.mask.shallow_clone(),
            pooled: self.pooled.shallow_clone(),
        }
    }

    fn named(&self, prefix: &str) -> [(String, &Tensor); 3] {
        [
            (format!("{prefix}prompt_embeds"), &self.prompt),
            (format!("{prefix}prompt_attention_mask"), &self.mask),
            (format!("{prefix}pooled_prompt_embeds"), &self.pooled),
        ]
    }

    fn take(stored: &mut Named, prefix: &str) -> Result<Self, EngineError> {
        Ok(Self {
            prompt: stored.take(&format!("{prefix}prompt_embeds"))?,
            mask: stored.take(&format!("{prefix}prompt_attention_mask"))?,
            pooled: stored.take(&format!("{prefix}pooled_prompt_embeds"))?,
        })
    }
}

#[derive(Debug)]
pub struct PromptEmbeds {
    /// Of each text of the prompt's timeline; one where it has no times.
    pub texts: Vec<TextEmbeds>,
    /// Only where the job has real guidance.
    pub negative: Option<TextEmbeds>,
}

impl PromptEmbeds {
    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = Vec::new();
        for (i, text) in self.texts.iter().enumerate() {
            tensors.extend(text.named(&prefix(i)));
        }
        if let Some(negative) = &self.negative {
            tensors.extend(negative.named("negative_"));
        }
        store::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = Named::read(path)?;
        let mut texts = vec![TextEmbeds::take(&mut stored, "")?];
        while let Ok(text) = TextEmbeds::take(&mut stored, &prefix(texts.len())) {
            texts.push(text);
        }
        let negative = TextEmbeds::take(&mut stored, "negative_").ok();
        Ok(Self { texts, negative })
    }

    /// What a section is told.
    pub fn of_section(&self, shares: &[PromptShare]) -> Result<TextEmbeds, EngineError> {
        let parts = shares.iter().map(|share| {
            let text = self.texts.get(share.text);
            text.map(|text| (text, share.share))
        });
        match parts.collect::<Option<Vec<_>>>() {
            Some(parts) if !parts.is_empty() => Ok(TextEmbeds::blended(&parts)),
            _ => Err(EngineError::Internal {
                reason: "the texts are not those of this job's prompt".to_owned(),
            }),
        }
    }
}

/// The first text has the names that it has where it is the only one.
fn prefix(text: usize) -> String {
    match text {
        0 => String::new(),
        text => format!("{text}."),
    }
}

/// Given pictures in latents as the transformer has them, `(1, C, 1, h, w)` each, in f32.
#[derive(Debug)]
pub struct GivenImages {
    pub start: Tensor,
    pub end: Option<Tensor>,
    /// The last frames of a clip that is gone on from, `(1, C, f, h, w)`.
    pub clip: Option<Tensor>,
}

impl GivenImages {
    /// What stands in front of the first section: as many latent frames of the clip that is gone on from, or the start.
    pub fn lead(&self, frames: i64) -> Tensor {
        match &self.clip {
            Some(clip) if (1..=clip.size()[2]).contains(&frames) => {
                clip.narrow(2, clip.size()[2] - frames, frames)
            }
            _ => self.start.shallow_clone(),
        }
    }

    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors = vec![("image_latents", &self.start)];
        tensors.extend(self.end.iter().map(|end| ("last_image_latents", end)));
        tensors.extend(self.clip.iter().map(|clip| ("clip_latents", clip)));
        store::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = Named::read(path)?;
        Ok(Self {
            start: stored.take("image_latents")?,
            end: stored.find("last_image_latents"),
            clip: stored.find("clip_latents"),
        })
    }
}

/// Where a section's frames that the next one is blended with lie: `(1, 3, n, H, W)`, as decoded.
pub fn overlap_file(folder: &Path, section: u32) -> PathBuf {
    folder.join(format!("overlap.{section:03}.safetensors"))
}
