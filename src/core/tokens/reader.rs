//! Text that an encoder of a model reads, and its tokenizer.

use std::path::PathBuf;

use super::{PromptTemplate, TextTokenizer, clean_wan_parts};
use crate::job::prompt::WeightedText;
use crate::model::ModelSpec;

/// Ids of a text that CLIP reads.
pub const CLIP_TOKENS: u32 = 77;
/// More tokens than any prompt has.
const MAX_COUNTED: usize = 1 << 16;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextReader {
    pub name: &'static str,
    tokenizer: PathBuf,
    class: Option<String>,
    /// Token limit, including special tokens.
    pub limit: usize,
    rule: TextRule,
}

/// Preparation of a text before tokenization.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextRule {
    Plain,
    CleanedForWan,
    Within(&'static PromptTemplate),
    /// As many chunks of [`CLIP_TOKENS`] as the text takes.
    Chunks,
}

impl TextReader {
    pub(crate) fn first(spec: &ModelSpec, name: &'static str, limit: u32, rule: TextRule) -> Self {
        Self {
            name,
            tokenizer: spec.files.tokenizer.clone(),
            class: spec.files.tokenizer_class.clone(),
            limit: limit as usize,
            rule,
        }
    }

    pub(crate) fn second(spec: &ModelSpec, name: &'static str, limit: u32) -> Option<Self> {
        Some(Self {
            name,
            tokenizer: spec.files.tokenizer_2.clone()?,
            class: spec.files.tokenizer_2_class.clone(),
            limit: limit as usize,
            rule: TextRule::Plain,
        })
    }

    /// Returns whether texts are read in chunks.
    pub(crate) fn has_chunks(&self) -> bool {
        self.rule == TextRule::Chunks
    }

    /// The parts of a text as the encoder's tokenizer gets them, and how many of the ids that come of them are not the
    /// prompt's.
    pub(crate) fn prepared(&self, parts: Vec<WeightedText>) -> (Vec<WeightedText>, usize) {
        match self.rule {
            TextRule::Plain | TextRule::Chunks => (parts, 0),
            TextRule::CleanedForWan => (clean_wan_parts(&parts), 0),
            TextRule::Within(template) => (template.around_parts(&parts), template.dropped),
        }
    }

    pub(crate) fn open(&self) -> Result<TextTokenizer, String> {
        // Truncated tokens are counted too.
        TextTokenizer::open(&self.tokenizer, self.class.as_deref(), MAX_COUNTED)
            .map_err(|err| err.to_string())
    }
}
