//! Prompts to token ids to embeddings.
//!
//! Encoders here know nothing of the model that reads their embeddings; cleaning and padding rules that belong to
//! one family are named after it.

mod clean;
mod repair;
mod spiece;
mod tokenizer;
mod umt5;

pub use clean::clean_wan_prompt;
pub use spiece::SpieceModel;
pub use tokenizer::{TextTokenizer, Tokens};
pub use umt5::{Umt5Config, Umt5Encoder};

#[cfg(test)]
mod tests;
