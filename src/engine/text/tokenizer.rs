//! `core`'s tokenizers with their ids as tensors.
//!
//! Everything about the ids themselves is [`safelight_core::tokens`]' business.

use std::path::Path;

use safelight_core::tokens::{self, TokenIds};
use tch::Tensor;

use crate::error::EngineError;

/// Ids and mask of one text, both `(1, length)` integers.
#[derive(Debug)]
pub struct Tokens {
    pub ids: Tensor,
    pub mask: Tensor,
    /// How many ids are not padding.
    pub num_tokens: i64,
    /// How many of the text's ids had no room.
    pub num_cut: usize,
}

impl Tokens {
    /// What is said of a text that is longer than the encoder reads.
    pub fn cut_notice(&self, role: &str) -> Option<String> {
        tokens::cut_notice(role, self.num_cut, self.ids.size()[1] as usize)
    }
}

impl From<TokenIds> for Tokens {
    fn from(said: TokenIds) -> Self {
        Self {
            ids: Tensor::from_slice(&said.ids).unsqueeze(0),
            mask: Tensor::from_slice(&said.mask()).unsqueeze(0),
            num_tokens: said.num_tokens as i64,
            num_cut: said.num_cut,
        }
    }
}

pub struct TextTokenizer(tokens::TextTokenizer);

impl TextTokenizer {
    /// Opens a tokenizer where users have it, as [`tokens::TextTokenizer::open`] does.
    pub fn open(place: &Path, class: Option<&str>, length: usize) -> Result<Self, EngineError> {
        Ok(Self(tokens::TextTokenizer::open(place, class, length)?))
    }

    pub fn encode(&self, text: &str) -> Result<Tokens, EngineError> {
        Ok(self.0.encode(text)?.into())
    }

    /// Refuses an encoder whose table ends before the tokenizer's ids do.
    pub fn check_ids(&self, table_size: i64) -> Result<(), EngineError> {
        Ok(self.0.check_ids(table_size)?)
    }

    /// One more than the largest id that can come out.
    pub fn vocab_size(&self) -> i64 {
        self.0.vocab_size()
    }
}
