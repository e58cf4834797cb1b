//! How many jobs a form stands for: one a line of the prompt where that is wanted, and one a result where a batch is
//! not made at once.

use safelight_core::job::{FieldError, GenerateRequest, Notice, Validated, prompt};
use safelight_core::model::ModelSpec;
use safelight_core::settings::Settings;

use crate::app::form::{FormState, takes_batches};
use crate::app::inputs::Sources;

/// Lines of a prompt that become jobs with one click.
pub(in crate::app) const MAX_LINES: usize = 500;

/// What a form stands for.
pub(in crate::app) struct MadeJobs {
    pub requests: Vec<GenerateRequest>,
    pub notices: Vec<Notice>,
    /// How many seeds are used, counted from the first.
    pub num_seeds: u64,
}

impl FormState {
    /// The prompts as they will be asked for: one, or one for each line; the hint while there is none.
    pub fn prompts(&self, spec: &ModelSpec) -> Vec<String> {
        let lines = if self.is_one_a_line {
            prompt::lines(&self.prompt)
        } else {
            Vec::new()
        };
        if lines.is_empty() {
            vec![self.effective_prompt(spec).to_owned()]
        } else {
            lines
        }
    }

    /// How many results one click makes, in however many jobs.
    pub fn num_results(&self, spec: &ModelSpec) -> usize {
        let num_prompts = if self.is_one_a_line {
            self.prompts(spec).len()
        } else {
            1
        };
        let most = if takes_batches(spec) {
            spec.limits.max_batch
        } else {
            u32::MAX
        };
        num_prompts.saturating_mul(self.batch_size.clamp(1, most) as usize)
    }

    /// All jobs that the form stands for, or all that is wrong with the first wrong one.
    pub(in crate::app) fn to_requests(
        &self,
        spec: &ModelSpec,
        sources: Sources<'_>,
        settings: &Settings,
    ) -> Result<MadeJobs, Vec<FieldError>> {
        let prompts = self.prompts(spec);
        if prompts.len() > MAX_LINES {
            return Err(vec![FieldError {
                field: "prompt",
                message: format!(
                    "expected at most {MAX_LINES} lines for one job a line, found {}",
                    prompts.len()
                ),
            }]);
        }
        let is_single = prompts.len() == 1;
        let mut made = MadeJobs {
            requests: Vec::new(),
            notices: Vec::new(),
            num_seeds: 0,
        };
        let mut form = Self {
            is_one_a_line: false,
            ..self.clone()
        };
        for (index, prompt) in prompts.into_iter().enumerate() {
            form.prompt = prompt;
            let checked = form.to_request(spec, sources, settings);
            let Validated { request, notices } = checked.map_err(|mut errors| {
                for err in errors.iter_mut().filter(|_| !is_single) {
                    err.message = format!("job {}: {}", index + 1, err.message);
                }
                errors
            })?;
            for notice in notices {
                if !made.notices.contains(&notice) {
                    made.notices.push(notice);
                }
            }
            let seeds_each = u64::from(form.batch_size.max(1));
            let first = self.seed_of_prompt(request.seed, index, seeds_each);
            made.num_seeds += seeds_each;
            made.requests
                .extend(repeated(request, first, form.batch_size, spec));
        }
        Ok(made)
    }
}

/// One job for a whole batch, or one for each result, with the seeds from `first` on.
fn repeated(
    request: GenerateRequest,
    first: u64,
    batch_size: u32,
    spec: &ModelSpec,
) -> impl Iterator<Item = GenerateRequest> {
    // Each picture of a batch is to choose for itself.
    let texts = [&request.prompt, &request.negative_prompt];
    let chooses = texts.into_iter().any(|text| prompt::has_choices(text));
    let repeats = if takes_batches(spec) && !chooses {
        1
    } else {
        batch_size.max(1)
    };
    let batch_size = if chooses { 1 } else { request.batch_size };
    (0..repeats).map(move |index| GenerateRequest {
        seed: first.wrapping_add(u64::from(index)),
        batch_size,
        ..request.clone()
    })
}
