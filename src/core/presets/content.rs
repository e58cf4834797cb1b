//! Prompts and LoRAs of a user's preset.

use serde::{Deserialize, Serialize};

use crate::job::{ChosenLora, GenerateForm};
use crate::prompts::PromptEntry;

/// Absent parts stay as they are in the form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PresetContent {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<PromptEntry>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loras: Option<Vec<ChosenLora>>,
}

impl PresetContent {
    pub fn from_form(form: &GenerateForm, (has_prompt, has_loras): (bool, bool)) -> Self {
        Self {
            prompt: has_prompt.then(|| form.into()),
            loras: has_loras.then(|| form.loras.clone()),
        }
    }

    /// The form's own parts of the same kinds.
    #[must_use]
    pub fn of_same_kinds(&self, form: &GenerateForm) -> Self {
        Self::from_form(form, (self.prompt.is_some(), self.loras.is_some()))
    }

    pub fn put(&self, form: &mut GenerateForm) {
        if let Some(prompt) = &self.prompt {
            prompt.put(form);
            form.negative_prompt = Some(prompt.negative.clone());
        }
        if let Some(loras) = &self.loras {
            form.loras.clone_from(loras);
        }
    }

    /// `the prompts and 2 LoRAs`; empty for nothing.
    pub fn described(&self) -> String {
        let loras = self.loras.as_ref().map(|loras| match loras.len() {
            0 => "no LoRAs".to_owned(),
            1 => "1 LoRA".to_owned(),
            count => format!("{count} LoRAs"),
        });
        let prompt = self.prompt.as_ref().map(|_| "the prompts".to_owned());
        let parts: Vec<String> = prompt.into_iter().chain(loras).collect();
        parts.join(" and ")
    }
}
