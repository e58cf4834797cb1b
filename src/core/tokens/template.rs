//! What stands around a prompt when a model gives it to its language model.
//!
//! The words are part of the trained model, so they are data: one character more moves every embedding. Encodes nothing
//! itself.

use super::tokenizer;

/// The words around a prompt, and what of their ids the model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptTemplate {
    pub before: &'static str,
    pub behind: &'static str,
    /// Ids that the model does not read, from the first on. Fixed, whatever a tokenizer makes of the words.
    pub dropped: usize,
    /// How many ids `behind` is.
    pub ids_behind: usize,
    /// Room for what the model reads: the prompt and the words around it, without those that are dropped.
    pub room: usize,
    /// Whether a short prompt goes on with the padding behind it, of which models that were trained with it make
    /// something; without it where not.
    pub is_padded: bool,
    /// Whether a prompt that is too long loses its own end, before the words behind it; where not, it loses those too.
    pub keeps_end: bool,
}

/// A user's words to a Qwen and the beginning of the answer, as `apply_chat_template` of Qwen 3 gives them with
/// `add_generation_prompt` and `enable_thinking`. Of 512 ids, without padding.
/// After <https://github.com/huggingface/diffusers/blob/v0.36.0/src/diffusers/pipelines/z_image/pipeline_z_image.py>.
pub const QWEN_CHAT: PromptTemplate = PromptTemplate {
    before: "<|im_start|>user\n",
    behind: "<|im_end|>\n<|im_start|>assistant\n",
    dropped: 0,
    ids_behind: 5,
    room: 512,
    is_padded: false,
    keeps_end: false,
};

impl PromptTemplate {
    /// Ids that the tokenizer has to give, padding and all.
    pub const fn length(&self) -> usize {
        self.dropped + self.room
    }

    /// The text to encode.
    pub fn around(&self, prompt: &str) -> String {
        format!("{}{prompt}{}", self.before, self.behind)
    }

    /// What is said of a prompt of which so many ids have no room; `role` is `prompt` or `negative`.
    pub fn cut_notice(&self, num_cut: usize, role: &str) -> Option<String> {
        let cut = if self.keeps_end {
            num_cut
        } else {
            num_cut.saturating_sub(self.ids_behind)
        };
        tokenizer::cut_notice(role, cut, self.room)
    }
}
