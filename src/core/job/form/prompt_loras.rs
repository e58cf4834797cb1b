//! LoRAs that a prompt names: `<lora:name:0.8>` becomes a LoRA of the job when the prompt is expanded.

use std::path::Path;

use super::{FieldError, FormNotice, FormProblems};
use crate::job::prompt::{LoraTag, TaggedPrompt, WildcardFolders, has_choices};
use crate::job::{GenerateRequest, LoraChoice};
use crate::lora::{LayerTable, LoraFile, LoraIndex, fitting_plan};

/// Adds a notice on the LoRAs that a prompt names; prompts with choices get theirs when they are expanded.
pub(super) fn note(request: &GenerateRequest, found: &mut FormProblems) {
    if request.prompt_template.is_none()
        && !has_choices(&request.prompt)
        && let Ok(tagged) = TaggedPrompt::parse(&request.prompt)
        && !tagged.loras.is_empty()
    {
        found.note("prompt", usage(&tagged.loras));
    }
}

/// `LoRA ink is used at 0.8 from the prompt`.
fn usage(tags: &[LoraTag]) -> String {
    let used = |tag: &LoraTag| format!("{} is used at {}", tag.name, tag.strength);
    let used: Vec<String> = tags.iter().map(used).collect();
    format!("LoRA {} from the prompt", used.join(", "))
}

impl GenerateRequest {
    /// Expands the prompts by [`Self::expand_prompts`], and moves the LoRAs that they name to the LoRAs of the job. Reads
    /// the headers of the model and the LoRAs where there are any.
    pub fn settle_prompts(
        &mut self,
        wildcards: &WildcardFolders,
        index: &LoraIndex,
    ) -> Result<Vec<FormNotice>, Vec<FieldError>> {
        let has_tags = self.prompt_template.is_none();
        let has_negative_tags = self.negative_prompt_template.is_none();
        let is_noted = !has_choices(&self.prompt);
        let mut notices = self.expand_prompts(wildcards)?;
        let mut note = |field, message| notices.push(FormNotice { field, message });
        let mut tags = Vec::new();
        if has_tags {
            let tagged = take_tags(&mut self.prompt, &mut self.prompt_template);
            let tagged = tagged.map_err(|message| failed("prompt", message))?;
            if !is_noted && !tagged.loras.is_empty() {
                note("prompt", usage(&tagged.loras));
            }
            tagged.notices.into_iter().for_each(|it| note("prompt", it));
            tags = tagged.loras;
        }
        if has_negative_tags {
            let template = &mut self.negative_prompt_template;
            let tagged = take_tags(&mut self.negative_prompt, template);
            let tagged = tagged.map_err(|message| failed("negative", message))?;
            tagged
                .notices
                .into_iter()
                .for_each(|it| note("negative", it));
            for LoraTag { written, .. } in tagged.loras {
                let message = format!(
                    "{written} in the negative prompt is not used: write it into the prompt"
                );
                note("negative", message);
            }
        }
        let changed = self.add_tagged_loras(&tags, index);
        for message in changed.map_err(|message| failed("prompt", message))? {
            note("prompt", message);
        }
        Ok(notices)
    }

    /// Adds the LoRAs of tags; of several tags for one file the strengths add up, and count instead of the list's. Returns
    /// a sentence about each whose strength in the list is another.
    fn add_tagged_loras(
        &mut self,
        tags: &[LoraTag],
        index: &LoraIndex,
    ) -> Result<Vec<String>, String> {
        let mut notices = Vec::new();
        if tags.is_empty() {
            return Ok(notices);
        }
        let tables = (self.family.lora.tables)(&self.files).map_err(|err| err.to_string())?;
        let mut tagged: Vec<LoraChoice> = Vec::new();
        for tag in tags {
            let fits = |file: &Path| self.check_tagged(file, &tables).is_ok();
            let path = index.file_named(&tag.name, &fits);
            let path = path.map_err(|reason| format!("{reason} ({})", tag.written))?;
            self.check_tagged(&path, &tables)
                .map_err(|reason| format!("{} cannot be used: {reason}", tag.written))?;
            match tagged.iter_mut().find(|lora| lora.path == path) {
                Some(lora) => {
                    let low = lora.strength_2.unwrap_or(lora.strength)
                        + tag.strength_2.unwrap_or(tag.strength);
                    lora.strength += tag.strength;
                    lora.strength_2 = (low != lora.strength).then_some(low);
                }
                None => tagged.push(LoraChoice {
                    path,
                    strength: tag.strength,
                    strength_2: tag.strength_2,
                }),
            }
        }
        for lora in tagged {
            match self.loras.iter_mut().find(|own| own.path == lora.path) {
                Some(own) if own.strength != lora.strength => {
                    notices.push(format!(
                        "LoRA {} is used at {} from the prompt instead of {} from the list",
                        lora.path.display(),
                        lora.strength,
                        own.strength
                    ));
                    *own = lora;
                }
                Some(own) => *own = lora,
                None => self.loras.push(lora),
            }
        }
        Ok(notices)
    }

    /// The error is a sentence.
    fn check_tagged(&self, file: &Path, tables: &[LayerTable]) -> Result<(), String> {
        let read = LoraFile::read(file).map_err(|err| err.to_string())?;
        let plan = fitting_plan(&read, self.family, tables).map_err(|err| err.to_string())?;
        let is_listed = self.loras.iter().any(|lora| lora.path == file);
        if plan.widened().is_some() && !is_listed {
            return Err(
                "it needs a control image, so add it to the LoRAs instead of the prompt".to_owned(),
            );
        }
        Ok(())
    }
}

/// Takes the tags out of an expanded prompt; what was written is its template then.
fn take_tags(prompt: &mut String, template: &mut Option<String>) -> Result<TaggedPrompt, String> {
    let mut tagged = TaggedPrompt::parse(prompt).map_err(|err| err.to_string())?;
    if tagged.text != *prompt {
        let written = std::mem::replace(prompt, std::mem::take(&mut tagged.text));
        template.get_or_insert(written);
    }
    Ok(tagged)
}

fn failed(field: &'static str, message: String) -> Vec<FieldError> {
    vec![FieldError { field, message }]
}
