//! Prompts to token ids to embeddings.
//!
//! Encoders here know nothing of the model that reads their embeddings; cleaning and padding rules that belong to
//! one family are named after it.

mod classes;
mod clean;
mod clip;
mod place;
mod repair;
mod special;
mod spiece;
mod t5;
mod tokenizer;
mod umt5;

pub use clean::clean_wan_prompt;
pub use clip::{ClipTextConfig, ClipTextEmbeds, ClipTextEncoder};
pub use spiece::SpieceModel;
pub use t5::{T5Config, T5Encoder};
pub use tokenizer::{TextTokenizer, Tokens};
pub use umt5::{Umt5Config, Umt5Encoder};

#[cfg(test)]
pub(crate) mod tests;
