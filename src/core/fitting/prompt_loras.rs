//! LoRAs that a prompt names: `<lora:name:0.8>` becomes a LoRA of the job when the prompt is expanded.

use std::path::Path;

use super::fitting_plan;
use super::prompt_tags::LoraIndex;
use crate::families::def_of;
use crate::job::prompt::{LoraTag, TaggedPrompt, WildcardFolders, has_choices};
use crate::job::{FieldError, FormNotice, GenerateRequest, LoraChoice, tag_sentences};
use crate::lora::{LayerTable, LoraFile};

impl GenerateRequest {
    /// Expands the prompts by [`Self::expand_prompts`], moves the LoRAs that they name to the LoRAs of the job, and finds
    /// their embeddings. Reads the headers of the model, the LoRAs and the embeddings where there are any.
    pub fn settle_prompts(
        &mut self,
        wildcards: &WildcardFolders,
        index: &LoraIndex,
    ) -> Result<Vec<FormNotice>, Vec<FieldError>> {
        let is_new = [&self.prompt, &self.negative_prompt].map(|prompt| has_choices(prompt));
        let templates = [&self.prompt_template, &self.negative_prompt_template];
        let has_tags = templates.map(Option::is_none);
        let mut notices = self.expand_prompts(wildcards)?;
        notices.extend(self.take_prompt_loras(index, has_tags, is_new)?);
        notices.extend(self.find_embeddings(index)?);
        Ok(notices)
    }

    /// Moves the LoRAs that expanded prompts name to the LoRAs of the job. `has_tags`: for the prompt and the negative
    /// one; `is_new`: notices on their tags are wanted.
    pub fn take_prompt_loras(
        &mut self,
        index: &LoraIndex,
        has_tags: [bool; 2],
        is_new: [bool; 2],
    ) -> Result<Vec<FormNotice>, Vec<FieldError>> {
        let (mut notices, mut tags) = (Vec::new(), Vec::new());
        let prompts = [
            ("prompt", &mut self.prompt, &mut self.prompt_template),
            (
                "negative",
                &mut self.negative_prompt,
                &mut self.negative_prompt_template,
            ),
        ];
        for (number, (field, prompt, template)) in prompts.into_iter().enumerate() {
            if !has_tags[number] {
                continue;
            }
            let tagged = take_tags(prompt, template).map_err(|message| failed(field, message))?;
            // The form has reported the others.
            let sentences = tag_sentences(field, &tagged).into_iter();
            let sentences = sentences.filter(|_| is_new[number]);
            notices.extend(sentences.map(|message| FormNotice { field, message }));
            if field == "prompt" {
                tags = tagged.loras;
            }
        }
        let changed = self.add_tagged_loras(&tags, index);
        let changed = changed
            .map_err(|message| failed("prompt", message))?
            .into_iter();
        let field = "prompt";
        notices.extend(changed.map(|message| FormNotice { field, message }));
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
        let tables = def_of(self.family)
            .lora_tables(&self.files)
            .map_err(|err| err.to_string())?;
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
        if plan.widened().is_some() && !self.loras.iter().any(|lora| lora.path == file) {
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
