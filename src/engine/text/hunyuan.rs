//! What stands around a prompt when HunyuanVideo and FramePack give it to Llama, and which part of the result they use.
//!
//! The words are part of the trained model, so they are data here: one character more moves every embedding. Encodes
//! nothing itself.
//! After <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/hunyuan_video/pipeline_hunyuan_video_framepack.py>.

use tch::Tensor;

use super::LlamaConfig;
use super::tokenizer::Tokens;

const BEFORE: &str = "<|start_header_id|>system<|end_header_id|>\n\n\
    Describe the video by detailing the following aspects: \
    1. The main content and theme of the video.\
    2. The color, shape, size, texture, quantity, text, and spatial relationships of the objects.\
    3. Actions, events, behaviors temporal relationships, physical movement changes of the objects.\
    4. background environment, light, style and atmosphere.\
    5. camera angles, movements, and transitions used in the video:<|eot_id|>\
    <|start_header_id|>user<|end_header_id|>\n\n";
const BEHIND: &str = "<|eot_id|>";

/// How many ids of Llama 3 stand before the prompt. Fixed, whatever a tokenizer makes of the words.
const TOKENS_BEFORE: i64 = 95;
/// Room for the prompt and what stands behind it.
const PROMPT_TOKENS: i64 = 256;
/// What stands behind the prompt is one id.
const TOKENS_BEHIND: usize = 1;
/// Behind the last layers a Llama is about to say its next word.
const LAYERS_SKIPPED: i64 = 2;

/// Chat with a Llama about a video, of which only the user's words count.
pub struct HunyuanTemplate;

impl HunyuanTemplate {
    /// Ids that the tokenizer has to give, padding and all.
    pub const LENGTH: usize = (TOKENS_BEFORE + PROMPT_TOKENS) as usize;

    /// The text to encode.
    pub fn around(prompt: &str) -> String {
        format!("{BEFORE}{prompt}{BEHIND}")
    }

    /// How many layers the embeddings come from.
    pub fn num_layers(config: &LlamaConfig) -> i64 {
        (config.num_hidden_layers - LAYERS_SKIPPED).max(0)
    }

    /// What belongs to the prompt, of hidden states `(1, LENGTH, C)` or a mask `(1, LENGTH)` -> 256 tokens of it,
    /// padding among them
    pub fn of_prompt(xs: &Tensor) -> Tensor {
        xs.narrow(1, TOKENS_BEFORE, xs.size()[1] - TOKENS_BEFORE)
    }

    /// What is said of a prompt that has no room; `role` is `prompt` or `negative`.
    pub fn cut_notice(tokens: &Tokens, role: &str) -> Option<String> {
        let cut = tokens.num_cut.saturating_sub(TOKENS_BEHIND);
        Tokens::notice_of_cut(role, cut, PROMPT_TOKENS)
    }
}
