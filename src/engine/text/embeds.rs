//! Text embeddings of a job, for the later stages: saved on disk between processes, and blended where a prompt changes
//! over the video's time.

use std::path::Path;

use safelight_core::job::prompt::PromptShare;
use tch::{Kind, Tensor};

use super::EncodedText;
use crate::capture::StageCapture;
use crate::denoise::fits;
use crate::error::EngineError;
use crate::tensor_files::{self, TensorFile};

const NEGATIVE: &str = "negative_";

#[derive(Debug)]
pub struct TextEmbeds {
    /// `(1, T, C)`, padding included
    pub prompt: Tensor,
    /// `(1, T)`: 1 for text, 0 for the padding after it; only in families whose models read a mask.
    pub mask: Option<Tensor>,
    /// `(1, C)`, in families with an encoder that makes one vector of a text.
    pub pooled: Option<Tensor>,
}

impl TextEmbeds {
    /// Hidden states of tokens, `(1, T, C)`, all of which are text.
    pub fn of_states(states: Tensor) -> Self {
        Self {
            prompt: states,
            mask: None,
            pooled: None,
        }
    }

    /// For models that read no mask.
    #[must_use]
    pub fn without_mask(self) -> Self {
        Self { mask: None, ..self }
    }

    /// Returns whether states and pooled vector are as wide as this; `None`: no vector is read.
    pub fn has_widths(&self, states: i64, pooled: Option<i64>) -> bool {
        let is_pooled = |width| self.pooled.as_ref().is_some_and(|it| fits(it, &[1, width]));
        fits(&self.prompt, &[1, -1, states]) && pooled.is_none_or(is_pooled)
    }

    /// Tokens that count as text.
    pub fn len(&self) -> i64 {
        match &self.mask {
            Some(mask) => mask.to_kind(Kind::Int64).sum(Kind::Int64).int64_value(&[]),
            None => self.prompt.size().get(1).copied().unwrap_or(0),
        }
    }

    /// Returns whether there is no text at all, not even a template's.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Pooled vector, for models that read one in addition to the tokens.
    pub fn pooled(&self) -> Result<&Tensor, EngineError> {
        self.pooled.as_ref().ok_or_else(|| {
            EngineError::internal("the embeddings of the texts have no pooled vector")
        })
    }

    /// Mask for models that distinguish text from padding.
    pub fn mask(&self) -> Result<&Tensor, EngineError> {
        let mask = self.mask.as_ref();
        mask.ok_or_else(|| EngineError::internal("the embeddings of a text have no mask"))
    }

    /// Weighted blend of several texts, token by token. Where one text has ended, only the others count.
    fn blended(parts: &[(&Self, f64)]) -> Self {
        if let [(only, _)] = parts {
            return only.shallow_clone();
        }
        let sum = |of: &dyn Fn(&Self) -> Option<Tensor>| {
            let weighted = parts
                .iter()
                .map(|(part, share)| of(part).map(|xs| xs * *share));
            let weighted: Vec<Tensor> = weighted.collect::<Option<_>>()?;
            weighted.into_iter().reduce(|sum, next| sum + next)
        };
        let prompt = sum(&|part| {
            let own = part.prompt.to_kind(Kind::Float);
            Some(match &part.mask {
                // Padding may hold anything.
                Some(mask) => {
                    let mask = mask.unsqueeze(-1).to_kind(Kind::Float);
                    own.where_self(&mask.gt(0.5), &Tensor::from(0.0_f32))
                }
                None => own,
            })
        });
        let longest = parts.iter().max_by_key(|(part, _)| part.len());
        Self {
            prompt: prompt.unwrap_or_default(),
            mask: longest.and_then(|(part, _)| part.shallow_clone().mask),
            pooled: sum(&|part| Some(part.pooled.as_ref()?.to_kind(Kind::Float))),
        }
    }

    pub fn shallow_clone(&self) -> Self {
        Self {
            prompt: self.prompt.shallow_clone(),
            mask: self.mask.as_ref().map(Tensor::shallow_clone),
            pooled: self.pooled.as_ref().map(Tensor::shallow_clone),
        }
    }

    /// Tensors with their names below a prefix.
    fn named(&self, prefix: &str) -> impl Iterator<Item = (String, &Tensor)> {
        let named = [
            ("prompt_embeds", Some(&self.prompt)),
            ("prompt_attention_mask", self.mask.as_ref()),
            ("pooled_prompt_embeds", self.pooled.as_ref()),
        ];
        let named = named.into_iter();
        named.filter_map(move |(name, tensor)| Some((format!("{prefix}{name}"), tensor?)))
    }

    fn take(stored: &mut TensorFile, prefix: &str) -> Result<Self, EngineError> {
        Ok(Self {
            prompt: stored.take(&format!("{prefix}prompt_embeds"))?,
            mask: stored.find(&format!("{prefix}prompt_attention_mask")),
            pooled: stored.find(&format!("{prefix}pooled_prompt_embeds")),
        })
    }
}

#[derive(Debug)]
pub struct PromptEmbeds {
    /// Of the prompt's first text, which is the only one where the prompt has no times.
    pub prompt: TextEmbeds,
    /// Of the other texts of the prompt's timeline.
    pub later: Vec<TextEmbeds>,
    /// Only where the job has real guidance.
    pub negative: Option<TextEmbeds>,
}

impl PromptEmbeds {
    /// Collects the embeddings of all `texts`, of which the first is the prompt; captures those that are to be
    /// captured.
    pub fn from_texts(
        texts: &[EncodedText],
        embeds: Vec<TextEmbeds>,
        capture: &mut StageCapture,
    ) -> Result<Self, EngineError> {
        let mut all: Option<Self> = None;
        for (text, embeds) in texts.iter().zip(embeds) {
            let prefix = if text.is_negative() { NEGATIVE } else { "" };
            if text.is_recorded {
                for (name, tensor) in embeds.named(prefix) {
                    capture.put(name, tensor);
                }
            }
            match &mut all {
                Some(all) if text.is_negative() => all.negative = Some(embeds),
                Some(all) => all.later.push(embeds),
                None => {
                    all = Some(Self {
                        prompt: embeds,
                        later: Vec::new(),
                        negative: None,
                    });
                }
            }
        }
        all.ok_or_else(|| EngineError::internal("there is no text to read"))
    }

    /// All texts, the negative one last.
    pub fn all(&self) -> impl Iterator<Item = &TextEmbeds> {
        let prompts = std::iter::once(&self.prompt).chain(&self.later);
        prompts.chain(&self.negative)
    }

    /// Appends tokens of image prompts, `(1, L, C)`, to the prompt; the negative prompt stays without.
    pub fn append_image_tokens(&mut self, tokens: &Tensor) {
        let prompt = &mut self.prompt.prompt;
        let tokens = tokens.to_device(prompt.device()).to_kind(prompt.kind());
        *prompt = Tensor::cat(&[&*prompt, &tokens], 1);
    }

    pub fn save(&self, path: &Path) -> Result<(), EngineError> {
        let mut tensors: Vec<(String, &Tensor)> = self.prompt.named("").collect();
        for (text, embeds) in (1..).zip(&self.later) {
            tensors.extend(embeds.named(&prefix(text)));
        }
        if let Some(negative) = &self.negative {
            tensors.extend(negative.named(NEGATIVE));
        }
        tensor_files::write(path, tensors.iter().map(|(name, tensor)| (name, *tensor)))
    }

    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let mut stored = TensorFile::read(path)?;
        let prompt = TextEmbeds::take(&mut stored, "")?;
        let mut later = Vec::new();
        while let Ok(text) = TextEmbeds::take(&mut stored, &prefix(later.len() + 1)) {
            later.push(text);
        }
        let negative = TextEmbeds::take(&mut stored, NEGATIVE).ok();
        Ok(Self {
            prompt,
            later,
            negative,
        })
    }

    pub fn of_section(&self, shares: &[PromptShare]) -> Result<TextEmbeds, EngineError> {
        let text = |number: usize| match number.checked_sub(1) {
            None => Some(&self.prompt),
            Some(later) => self.later.get(later),
        };
        let parts = shares
            .iter()
            .map(|share| Some((text(share.text)?, share.share)));
        match parts.collect::<Option<Vec<_>>>() {
            Some(parts) if !parts.is_empty() => Ok(TextEmbeds::blended(&parts)),
            _ => Err(EngineError::internal(
                "the texts are not those of this job's prompt",
            )),
        }
    }
}

/// Before the names of a later text of the prompt.
fn prefix(text: usize) -> String {
    format!("{text}.")
}
