//! Prompt template of a model's language model.
//!
//! The text is part of the trained model: one character more changes every embedding. Encodes nothing.

use super::tokenizer;
use crate::job::prompt::WeightedText;

/// The words around a prompt, and what of their ids the model reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PromptTemplate {
    pub before: &'static str,
    pub behind: &'static str,
    /// Ids that the model does not read, from the first on. Fixed, whatever a tokenizer makes of the words.
    pub dropped: usize,
    /// Number of ids after the text.
    pub ids_behind: usize,
    /// Room for what the model reads: the prompt and the words around it, without those that are dropped.
    pub room: usize,
    /// Padding of a short prompt, for models that were trained with it.
    pub padding: PromptPadding,
    /// True if a prompt that is too long loses its own end, before the suffix; otherwise it loses the suffix too.
    pub keeps_end: bool,
    /// Text that is taken out of prompts, as it means an image; may be empty.
    pub removed: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptPadding {
    None,
    Before,
    After,
    /// After the text, to a multiple of so many ids. As in the model's training, its ids are all at position 1.
    ToMultiple(usize),
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
    padding: PromptPadding::None,
    keeps_end: false,
    removed: "",
};

impl PromptTemplate {
    /// Ids that the tokenizer has to give, padding and all.
    pub const fn length(&self) -> usize {
        self.dropped + self.room
    }

    /// Ids that are read of `num_ids` and their padding.
    pub fn padded(&self, num_ids: usize) -> usize {
        match self.padding {
            PromptPadding::None => num_ids,
            PromptPadding::Before | PromptPadding::After => self.length(),
            PromptPadding::ToMultiple(step) => num_ids.next_multiple_of(step).min(self.length()),
        }
    }

    /// The text to encode.
    pub fn around(&self, prompt: &str) -> String {
        format!("{}{prompt}{}", self.before, self.behind)
    }

    /// Parts to encode. Neighbours without weights are one, as a tokenizer may join letters across them.
    pub fn around_parts(&self, parts: &[WeightedText]) -> Vec<WeightedText> {
        let mut all = vec![WeightedText::plain(self.before)];
        all.extend_from_slice(parts);
        for part in all.iter_mut().skip(1).filter(|_| !self.removed.is_empty()) {
            part.text = part.text.replace(self.removed, "");
        }
        all.push(WeightedText::plain(self.behind));
        all.dedup_by(|next, last| {
            let joins = next.weight == 1.0 && last.weight == 1.0;
            if joins {
                last.text.push_str(&next.text);
            }
            joins
        });
        all
    }

    /// Notice about a prompt of which `num_cut` ids are truncated; `role` is `prompt` or `negative`.
    pub fn cut_notice(&self, num_cut: usize, role: &str) -> Option<String> {
        let cut = if self.keeps_end {
            num_cut
        } else {
            num_cut.saturating_sub(self.ids_behind)
        };
        tokenizer::cut_notice(role, cut, self.room)
    }
}
