//! Prompts to token ids: for the engine's text encoders, and for the window's token counts.
//!
//! Cleaning and padding rules of one family are named after it. The engine computes embeddings.

mod charsmap;
mod classes;
mod clean;
mod clip_chunks;
mod files;
mod gemma;
mod gguf;
mod hunyuan;
mod packed;
mod pairs_gguf;
mod reader;
mod repair;
mod special;
pub mod spiece;
mod tekken;
mod template;
mod tokenizer;

pub(crate) use classes::check_merges;
pub use clean::{clean_wan_parts, clean_wan_prompt};
pub(crate) use clip_chunks::EMBEDDING;
pub use clip_chunks::{CHUNK_TOKENS, ClipChunk, ClipToken, EmbeddingName};
pub(crate) use files::tensor_bytes;
pub use hunyuan::HUNYUAN_PROMPT;
pub(crate) use packed::{PACKED_MERGES, packed_ids};
pub(crate) use pairs_gguf::{GGUF_PAIRS, SPLITTERS, TEKKEN_SPLITTER};
pub use reader::{CLIP_TOKENS, TextReader, TextRule};
pub use spiece::SpieceModel;
pub(crate) use tekken::{TEKKEN_MARK, count_tekken};
pub use template::{PromptPadding, PromptTemplate, QWEN_CHAT};
pub use tokenizer::{TextTokenizer, TokenIds, cut_notice};

#[cfg(test)]
mod tests;
