//! From the prompts that were written to those that are read.

use super::{FieldError, GenerateForm, Notice};
use crate::job::prompt::{self, WildcardFolders};

impl GenerateForm {
    /// Settles the choices, wildcards and comments in both prompts by the form's seed, and keeps what was written as
    /// their templates.
    ///
    /// A prompt that has a template already is made of it and stays: what a file carries is repeated to the letter,
    /// whatever has become of the wildcards. Whoever wants another choice puts the template in the prompt's place.
    pub fn expand_prompts(
        &mut self,
        wildcards: &WildcardFolders,
    ) -> Result<Vec<Notice>, Vec<FieldError>> {
        let (mut notices, mut errors) = (Vec::new(), Vec::new());
        let prompts = [
            ("prompt", Some(&mut self.prompt), &mut self.prompt_template),
            (
                "negative",
                self.negative_prompt.as_mut(),
                &mut self.negative_prompt_template,
            ),
        ];
        for (field, text, template) in prompts {
            let (Some(text), None) = (text, &template) else {
                continue;
            };
            match prompt::expand(text, self.seed, wildcards) {
                Ok(expanded) => {
                    *text = expanded.prompt;
                    *template = expanded.template;
                    let messages = expanded.notices.into_iter();
                    notices.extend(messages.map(|message| Notice { field, message }));
                }
                Err(err) => errors.push(FieldError {
                    field,
                    message: err.to_string(),
                }),
            }
        }
        if errors.is_empty() {
            Ok(notices)
        } else {
            Err(errors)
        }
    }
}
