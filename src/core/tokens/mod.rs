//! Prompts to token ids: what the engine gives its text encoders, and what the window counts while somebody types.
//!
//! Cleaning and padding rules that belong to one family are named after it. Embeddings are the engine's.

mod charsmap;
mod classes;
mod clean;
mod count;
mod error;
mod gguf;
mod hunyuan;
mod llama_gguf;
mod repair;
mod special;
pub mod spiece;
mod tokenizer;

pub use clean::clean_wan_prompt;
pub use count::{
    CLIP_TOKENS, CountWish, PromptCount, TextReader, TextRule, TokenCount, TokenCounter,
};
pub use error::TokensError;
pub use hunyuan::HunyuanPrompt;
pub(crate) use llama_gguf::{GGUF_PAIRS, SPLITTERS};
pub use spiece::SpieceModel;
pub use tokenizer::{TextTokenizer, TokenIds, cut_notice};

#[cfg(test)]
mod tests;
