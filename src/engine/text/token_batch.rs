//! Ids of a text as a text encoder reads them.

use safelight_core::job::prompt::WeightedText;
use safelight_core::tokens::{PromptPadding, PromptTemplate, TextTokenizer, cut_notice};
use tch::{Kind, Tensor};

use crate::error::EngineError;

/// Ids and mask of one text, both `(1, length)` integers.
#[derive(Debug)]
pub struct TokenBatch {
    pub ids: Tensor,
    pub mask: Tensor,
    /// Weights of words, `(1, length)` in f32; `None` where all are 1.
    pub weights: Option<Tensor>,
    /// Number of ids that are not padding.
    pub num_tokens: i64,
    /// Number of ids that were truncated.
    pub num_cut: usize,
}

impl TokenBatch {
    pub fn encode(text: &str, tokenizer: &TextTokenizer) -> Result<Self, EngineError> {
        Self::from_parts(&[WeightedText::plain(text)], tokenizer)
    }

    pub fn from_parts(
        parts: &[WeightedText],
        tokenizer: &TextTokenizer,
    ) -> Result<Self, EngineError> {
        let said = tokenizer.encode_parts(parts)?;
        let is_weighted = said.weights.iter().any(|weight| *weight != 1.0);
        let weights = || Tensor::from_slice(&said.weights).unsqueeze(0);
        Ok(Self {
            ids: Tensor::from_slice(&said.ids).unsqueeze(0),
            mask: Tensor::from_slice(&said.mask()).unsqueeze(0),
            weights: is_weighted.then(|| weights().to_kind(Kind::Float)),
            num_tokens: said.num_tokens as i64,
            num_cut: said.num_cut,
        })
    }

    /// Ids of a text within a template, for whose length the tokenizer was opened.
    pub fn within(
        parts: &[WeightedText],
        template: &PromptTemplate,
        tokenizer: &TextTokenizer,
    ) -> Result<Self, EngineError> {
        let mut tokens = Self::from_parts(&template.around_parts(parts), tokenizer)?;
        if template.keeps_end && tokens.num_cut > 0 {
            let end = Self::encode(template.behind, tokenizer)?.ids;
            let end = end.narrow(1, 0, template.ids_behind as i64);
            let start = tokens.ids.size()[1] - end.size()[1];
            if let Some(weights) = &tokens.weights {
                _ = weights.narrow(1, start, end.size()[1]).fill_(1.0);
            }
            tokens.ids = Tensor::cat(&[tokens.ids.narrow(1, 0, start), end], 1);
        }
        if template.padding == PromptPadding::Before {
            let missing = tokens.ids.size()[1] - tokens.num_tokens;
            for xs in [&mut tokens.ids, &mut tokens.mask] {
                *xs = xs.roll([missing], [1]);
            }
            tokens.weights = tokens.weights.map(|it| it.roll([missing], [1]));
        }
        if matches!(template.padding, PromptPadding::ToMultiple(_)) {
            let read = template.padded(tokens.num_tokens as usize);
            return Ok(tokens.first(read as i64));
        }
        Ok(tokens)
    }

    /// Copy without the padding after the text, of which a text without tokens keeps one.
    pub fn unpadded(&self) -> Self {
        self.first(self.num_tokens.max(1))
    }

    fn first(&self, count: i64) -> Self {
        let used = |xs: &Tensor| xs.narrow(1, 0, count);
        Self {
            ids: used(&self.ids),
            mask: used(&self.mask),
            weights: self.weights.as_ref().map(used),
            ..*self
        }
    }

    /// Positions of the ids on all three axes of M-RoPE, `(3, length)` in f32, where padding does not just count on.
    pub fn places(&self, padding: PromptPadding) -> Option<Tensor> {
        let PromptPadding::ToMultiple(_) = padding else {
            return None;
        };
        let order = Tensor::arange(self.ids.size()[1], (Kind::Float, self.ids.device()));
        Some(order.masked_fill(&self.mask.eq(0), 1.0).repeat([3, 1]))
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
