//! What stands around a prompt when HunyuanVideo and FramePack give it to Llama.
//!
//! The words are part of the trained model, so they are data here: one character more moves every embedding. Encodes
//! nothing itself.
//! After <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/hunyuan_video/pipeline_hunyuan_video_framepack.py>.

use super::tokenizer;

const BEFORE: &str = "<|start_header_id|>system<|end_header_id|>\n\n\
    Describe the video by detailing the following aspects: \
    1. The main content and theme of the video.\
    2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects.\
    3. Actions, events, behaviors temporal relationships, physical movement changes of the objects.\
    4. background environment, light, style and atmosphere.\
    5. camera angles, movements, and transitions used in the video:<|eot_id|>\
    <|start_header_id|>user<|end_header_id|>\n\n";
const BEHIND: &str = "<|eot_id|>";

/// What stands behind the prompt is one id.
const TOKENS_BEHIND: usize = 1;

/// Chat with a Llama about a video, of which only the user's words count.
pub struct HunyuanPrompt;

impl HunyuanPrompt {
    /// How many ids of Llama 3 stand before the prompt. Fixed, whatever a tokenizer makes of the words.
    pub const TOKENS_BEFORE: usize = 95;
    /// Room for the prompt and what stands behind it.
    pub const TOKENS: usize = 256;
    /// Ids that the tokenizer has to give, padding and all.
    pub const LENGTH: usize = Self::TOKENS_BEFORE + Self::TOKENS;

    /// The text to encode.
    pub fn around(prompt: &str) -> String {
        format!("{BEFORE}{prompt}{BEHIND}")
    }

    /// What is said of a prompt of which so many ids have no room; `role` is `prompt` or `negative`.
    pub fn cut_notice(num_cut: usize, role: &str) -> Option<String> {
        let cut = num_cut.saturating_sub(TOKENS_BEHIND);
        tokenizer::cut_notice(role, cut, Self::TOKENS)
    }
}
