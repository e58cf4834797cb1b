//! Which part of a Llama's answer HunyuanVideo and FramePack use of a prompt.
//!
//! The words around the prompt are `core`'s: [`HunyuanPrompt`]. Encodes nothing itself.
//! After <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/hunyuan_video/pipeline_hunyuan_video_framepack.py>.

use safelight_core::tokens::HunyuanPrompt;
use tch::Tensor;

use super::tokenizer::Tokens;

/// Chat with a Llama about a video, of which only the user's words count.
pub struct HunyuanTemplate;

impl HunyuanTemplate {
    /// Ids that the tokenizer has to give, padding and all.
    pub const LENGTH: usize = HunyuanPrompt::LENGTH;

    /// The text to encode.
    pub fn around(prompt: &str) -> String {
        HunyuanPrompt::around(prompt)
    }

    /// What belongs to the prompt, of hidden states `(1, LENGTH, C)` or a mask `(1, LENGTH)` -> 256 tokens of it,
    /// padding among them
    pub fn of_prompt(xs: &Tensor) -> Tensor {
        let before = HunyuanPrompt::TOKENS_BEFORE as i64;
        xs.narrow(1, before, xs.size()[1] - before)
    }

    /// What is said of a prompt that has no room; `role` is `prompt` or `negative`.
    pub fn cut_notice(tokens: &Tokens, role: &str) -> Option<String> {
        HunyuanPrompt::cut_notice(tokens.num_cut, role)
    }
}
