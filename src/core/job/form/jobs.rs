//! From a form to its jobs, for the window and the command line alike: one job a line of the prompt where that is wanted,
//! and one a result where a batch is not made at once. First every job is checked ([`jobs_of`]); then what is read from
//! files follows when its turn comes: wildcards ([`GenerateRequest::expand_prompts`]), and a free name for the result.

use super::seed::beyond_last;
use super::{FieldError, FormNotice, FormProblems, GenerateForm, SeedMode, ValidatedForm};
use crate::job::grid::expand as grid;
use crate::job::prompt::{self, PromptTimeline, WildcardFolders};
use crate::job::{FindModel, GenerateRequest, JobGrid};
use crate::model::ModelSpec;

/// Limit of jobs per prompt: all are checked and stored before the first begins.
const MAX_REPEATS: u32 = 1000;

pub struct ExpandedJobs {
    /// In the order in which they are made.
    pub jobs: Vec<ValidatedForm>,
    /// Number of seeds used, counted from the first.
    pub num_seeds: u64,
    /// One for each prompt of a form that varies settings; its jobs are among them.
    pub grids: Vec<JobGrid>,
}

/// All jobs of a form, or all problems of the first invalid one. `models` resolves the models of a grid.
pub fn jobs_of(
    form: &GenerateForm,
    spec: &ModelSpec,
    models: FindModel<'_>,
) -> Result<ExpandedJobs, Vec<FieldError>> {
    let prompts = form.prompts();
    let num_prompts = prompts.len();
    let is_single = num_prompts == 1;
    let seeds_each = if form.grid.is_empty() {
        form.batch_size.unwrap_or(1).max(1)
    } else {
        1
    };
    let mut made = ExpandedJobs {
        jobs: Vec::new(),
        num_seeds: 0,
        grids: Vec::new(),
    };
    for (index, prompt) in prompts.into_iter().enumerate() {
        let one = GenerateForm {
            seed: match form.seed_mode {
                SeedMode::Increment => form.seed_mode.next(form.seed, made.num_seeds),
                mode if index > 0 => mode.next(form.seed, 0),
                _ => form.seed,
            },
            ..form.with_prompt(prompt)
        };
        let prompt_number = |mut errors: Vec<FieldError>| {
            for err in errors.iter_mut().filter(|_| !is_single) {
                err.message = format!("job {}: {}", index + 1, err.message);
            }
            errors
        };
        if form.grid.is_empty() {
            made.jobs
                .extend(jobs_of_prompt(one, spec).map_err(prompt_number)?);
        } else {
            let (jobs, grid) = checked(one.clone(), spec)
                .and_then(|_| grid::jobs(&one, num_prompts, spec, models))
                .map_err(prompt_number)?;
            made.jobs.extend(jobs);
            made.grids.push(grid);
        }
        made.num_seeds += u64::from(seeds_each);
    }
    Ok(made)
}

/// One job for a whole batch, or one for each result, with the seeds from the form's on.
fn jobs_of_prompt(
    form: GenerateForm,
    spec: &ModelSpec,
) -> Result<impl Iterator<Item = ValidatedForm>, Vec<FieldError>> {
    let (first, num_repeats) = checked(form, spec)?;
    Ok((0..u64::from(num_repeats)).map(move |index| {
        let mut job = first.clone();
        job.request.seed += index;
        job
    }))
}

/// First job of a form with one prompt, and the number of its jobs.
fn checked(
    mut form: GenerateForm,
    spec: &ModelSpec,
) -> Result<(ValidatedForm, u32), Vec<FieldError>> {
    // Each image of a batch chooses for itself.
    let negative = form.negative_prompt.as_deref().unwrap_or_default();
    let chooses = (form.unedited_prompt().is_none() && prompt::has_choices(&form.prompt))
        || (form.unedited_negative().is_none() && prompt::has_choices(negative));
    // A second pass takes one image.
    let is_together = spec.takes_batches() && !chooses && form.second_pass.is_none();
    let num_repeats = if is_together {
        1
    } else {
        form.batch_size.take().unwrap_or(1)
    };
    let mut found = FormProblems::default();
    for (field, text) in [
        ("prompt", form.prompt.as_str()),
        ("negative-prompt", negative),
    ] {
        let problem = prompt::check_length(text).err();
        found.check(field, problem.map(|err| err.to_string()));
    }
    let repeats = ("the number of repeats", "");
    if found.within("batch", repeats, &(1..=MAX_REPEATS), num_repeats)
        && found.check("seed", beyond_last(form.seed, num_repeats))
        && found.errors.is_empty()
    {
        return Ok((form.validate(spec)?, num_repeats));
    }
    Err(found.errors)
}

impl GenerateForm {
    /// First job of the form, or all its problems, for messages next to the fields while the user fills them in.
    pub fn first_job(
        &self,
        spec: &ModelSpec,
        models: FindModel<'_>,
    ) -> Result<ValidatedForm, Vec<FieldError>> {
        let one = self.with_prompt(self.prompts().into_iter().next().unwrap_or_default());
        if self.grid.is_empty() {
            return Ok(checked(one, spec)?.0);
        }
        let (own, _) = checked(one.clone(), spec)?;
        let mut first = grid::first(&one, self.prompts().len(), spec, models)?;
        first.notices.splice(0..0, own.notices);
        Ok(first)
    }

    pub fn num_results(&self, spec: &ModelSpec) -> usize {
        let prompts = self.prompts().len();
        if !self.grid.is_empty() {
            return prompts.saturating_mul(grid::num_cells(self, spec));
        }
        let most = if spec.takes_batches() {
            spec.limits.max_batch
        } else {
            u32::MAX
        };
        prompts.saturating_mul(self.batch_size.unwrap_or(1).clamp(1, most) as usize)
    }
}

impl GenerateRequest {
    /// Settles the choices, wildcards and comments in both prompts by the seed, and keeps what was written as their
    /// templates.
    ///
    /// A prompt that has a template already is made of it and stays: what a file carries is repeated to the letter,
    /// whatever has become of the wildcards. Whoever wants another choice puts the template in the prompt's place.
    pub fn expand_prompts(
        &mut self,
        wildcards: &WildcardFolders,
    ) -> Result<Vec<FormNotice>, Vec<FieldError>> {
        let (mut notices, mut errors) = (Vec::new(), Vec::new());
        let (brackets, label) = (self.options.bracket_use(self.family), self.family.label);
        let fail = |field, message| FieldError { field, message };
        let is_guided = self.is_guided();
        for (field, text, template) in [
            ("prompt", &mut self.prompt, &mut self.prompt_template),
            (
                "negative",
                &mut self.negative_prompt,
                &mut self.negative_prompt_template,
            ),
        ] {
            if template.is_none() {
                let chooses = prompt::has_choices(text);
                match prompt::expand(text, self.seed, wildcards) {
                    Ok(expanded) => {
                        *text = expanded.prompt;
                        *template = expanded.template;
                        // The form has reported the others.
                        let acts = field == "prompt" || is_guided;
                        let message = (chooses && acts).then(|| brackets.notice(text, label));
                        let message = message.flatten();
                        notices.extend(message.map(|message| FormNotice { field, message }));
                    }
                    Err(err) => errors.push(fail(field, err.to_string())),
                }
            } else if let Err(err) = prompt::check_length(text) {
                errors.push(fail(field, err.to_string()));
            }
            // A literal prompt keeps its template, so that it stays as it is when it is settled again.
            template.take_if(|template| template == text && prompt::is_plain(text));
        }
        // A choice may have brought times along.
        if self.sections.is_some()
            && errors.is_empty()
            && let Err(problem) = PromptTimeline::parse(&self.prompt)
        {
            errors.push(fail("prompt", problem));
        }
        if errors.is_empty() {
            Ok(notices)
        } else {
            Err(errors)
        }
    }
}
