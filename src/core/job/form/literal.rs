//! Literal prompts: text that another program or an earlier job has expanded already, and that is used as it is.

use serde::{Deserialize, Serialize};

use super::GenerateForm;
use crate::job::prompt;

/// A prompt that is not expanded. It applies while the form's prompt equals `text`: editing makes that a template.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LiteralPrompt {
    pub text: String,
    /// The template that `text` was expanded from; `text` itself if none is known.
    pub template: String,
}

impl From<String> for LiteralPrompt {
    fn from(text: String) -> Self {
        Self {
            template: text.clone(),
            text,
        }
    }
}

impl LiteralPrompt {
    /// Returns true if using the template instead could change the text.
    pub fn differs_from_template(&self) -> bool {
        self.template != self.text || !prompt::is_plain(&self.text)
    }
}

impl GenerateForm {
    pub fn set_literal_prompt(&mut self, text: String) {
        self.prompt.clone_from(&text);
        self.literal_prompt = Some(text.into());
    }

    pub fn set_literal_negative(&mut self, text: String) {
        self.negative_prompt = Some(text.clone());
        self.literal_negative = Some(text.into());
    }

    /// The literal prompt; `None` if the prompt is a template.
    pub fn unedited_prompt(&self) -> Option<&LiteralPrompt> {
        let literal = self.literal_prompt.as_ref();
        literal.filter(|literal| literal.text == self.prompt)
    }

    /// Like [`unedited_prompt`](Self::unedited_prompt), but of the negative prompt.
    pub fn unedited_negative(&self) -> Option<&LiteralPrompt> {
        let literal = self.literal_negative.as_ref();
        literal.filter(|literal| self.negative_prompt.as_ref() == Some(&literal.text))
    }

    /// Makes the prompt a template again: the original one if it is known.
    pub fn use_prompt_as_template(&mut self) {
        if let Some(LiteralPrompt { template, .. }) = self.unedited_prompt().cloned() {
            (self.prompt, self.literal_prompt) = (template, None);
        }
    }

    /// Like [`use_prompt_as_template`](Self::use_prompt_as_template), but of the negative prompt.
    pub fn use_negative_as_template(&mut self) {
        if let Some(LiteralPrompt { template, .. }) = self.unedited_negative().cloned() {
            (self.negative_prompt, self.literal_negative) = (Some(template), None);
        }
    }

    pub fn prompts(&self) -> Vec<String> {
        let lines = match self.unedited_prompt() {
            _ if !self.is_one_a_line => Vec::new(),
            Some(literal) => prompt::literal_lines(&literal.text),
            None => prompt::lines(&self.prompt),
        };
        if lines.is_empty() {
            vec![self.prompt.clone()]
        } else {
            lines
        }
    }

    /// This form with one of its [`prompts`](Self::prompts) alone.
    pub(super) fn with_prompt(&self, prompt: String) -> Self {
        let literal_prompt = self.unedited_prompt().map(|whole| {
            if whole.text == prompt {
                whole.clone()
            } else {
                prompt.clone().into()
            }
        });
        Self {
            prompt,
            literal_prompt,
            ..self.clone()
        }
    }
}
