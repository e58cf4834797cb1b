//! The ids that `core`'s tokenizers give as tensors.
//!
//! Everything about the ids themselves is [`safelight_core::tokens`]' business.

use safelight_core::tokens::{PromptTemplate, TextTokenizer, cut_notice};
use tch::Tensor;

use crate::error::EngineError;

/// Ids and mask of one text, both `(1, length)` integers.
#[derive(Debug)]
pub struct TokenBatch {
    pub ids: Tensor,
    pub mask: Tensor,
    /// Number of ids that are not padding.
    pub num_tokens: i64,
    /// Number of ids that were truncated.
    pub num_cut: usize,
}

impl TokenBatch {
    pub fn encode(text: &str, tokenizer: &TextTokenizer) -> Result<Self, EngineError> {
        let said = tokenizer.encode(text)?;
        Ok(Self {
            ids: Tensor::from_slice(&said.ids).unsqueeze(0),
            mask: Tensor::from_slice(&said.mask()).unsqueeze(0),
            num_tokens: said.num_tokens as i64,
            num_cut: said.num_cut,
        })
    }

    /// Those of a text within a template, for whose length the tokenizer was opened.
    pub fn within(
        text: &str,
        template: &PromptTemplate,
        tokenizer: &TextTokenizer,
    ) -> Result<Self, EngineError> {
        let mut tokens = Self::encode(&template.around(text), tokenizer)?;
        if template.keeps_end && tokens.num_cut > 0 {
            let end = Self::encode(template.behind, tokenizer)?.ids;
            let end = end.narrow(1, 0, template.ids_behind as i64);
            let start = tokens.ids.size()[1] - end.size()[1];
            tokens.ids = Tensor::cat(&[tokens.ids.narrow(1, 0, start), end], 1);
        }
        Ok(tokens)
    }

    /// Copy without padding.
    pub fn unpadded(&self) -> Self {
        let used = |xs: &Tensor| xs.narrow(1, 0, self.num_tokens);
        Self {
            ids: used(&self.ids),
            mask: used(&self.mask),
            ..*self
        }
    }

    /// Notice about a text that is longer than the encoder reads.
    pub fn cut_notice(&self, role: &str) -> Option<String> {
        cut_notice(role, self.num_cut, self.ids.size()[1] as usize)
    }
}

/// Part of the hidden states, `(1, L, C)`, or mask, `(1, L)`, that a model reads of a text within a template: without
/// the dropped ids
pub fn within_template(xs: &Tensor, template: &PromptTemplate) -> Tensor {
    let dropped = template.dropped as i64;
    xs.slice(1, dropped, None, 1)
}
