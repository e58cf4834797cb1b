//! From the arguments to the jobs: one for each prompt of a file, and one for each of a batch with models that make
//! one at a time. All of them are checked before the first begins.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use safelight_core::catalog::{Catalog, EMBEDDED_MODEL};
use safelight_core::job::{
    FieldError, GenerateForm, GenerateRequest, JobError, JobErrorKind, Notice, Validated, prompt,
};
use safelight_core::model::ModelSpec;
use safelight_core::settings::Settings;
use safelight_core::{media, naming};

use super::GenerateArgs;
use crate::cli::Surroundings;

/// How many jobs one prompt may become: all are checked, and kept, before the first begins.
const MAX_REPEATS: u32 = 1000;

/// The jobs that these arguments ask for, or all that is wrong with the first wrong one.
pub(super) fn of(
    args: &GenerateArgs,
    surroundings: &Surroundings,
) -> Result<Vec<Validated>, JobError> {
    let settings = surroundings.settings();
    let catalog = Catalog::load(&surroundings.paths, settings);
    let wanted = args.model.as_deref().unwrap_or(EMBEDDED_MODEL);
    let spec = catalog
        .open_with(wanted, &args.companions())
        .map_err(|err| JobError::from_error(JobErrorKind::BadModel, &err).advise(err.advice()))?;
    let mut forms = forms(args, &spec, settings)?;
    let wildcards = settings.wildcard_folders(&surroundings.paths);
    let mut notices = Vec::new();
    for form in &mut forms {
        let said = form.expand_prompts(&wildcards);
        notices.push(said.map_err(|errors| invalid(&errors))?);
    }
    name_files(&mut forms, args, args.extension(&spec, settings));
    let (companions, unused) = args.companions().of_model(&spec.files);
    let unused: Vec<Notice> = unused
        .into_iter()
        .map(|field| Notice {
            field,
            message: format!("--{field} is not used: {} has no such part", spec.name),
        })
        .collect();
    let jobs = forms.into_iter().zip(notices).map(|(form, notices)| {
        let mut checked = form.validate(&spec).map_err(|errors| invalid(&errors))?;
        checked
            .notices
            .splice(0..0, unused.iter().cloned().chain(notices));
        checked.request.companions = companions.clone();
        settle_paths(&mut checked.request)?;
        Ok(checked)
    });
    jobs.collect()
}

/// A form for each prompt and, where batches are several jobs, for each seed; without the file to write.
fn forms(
    args: &GenerateArgs,
    spec: &ModelSpec,
    settings: &Settings,
) -> Result<Vec<GenerateForm>, JobError> {
    let (prompts, template) = match &args.prompts_file {
        Some(file) => (prompts_of(file)?, None),
        None => (
            vec![args.prompt.clone().unwrap_or_default()],
            args.prompt_template.clone(),
        ),
    };
    let mut form = args.form(settings)?;
    // Each picture of a batch is to choose for itself; a carried prompt has chosen already.
    let negative = args.negative.iter();
    let chooses = template.is_none()
        && prompts
            .iter()
            .chain(negative)
            .any(|it| prompt::has_choices(it));
    let is_batch = args.batch.is_some_and(|size| size > 1);
    let is_split = is_batch && (spec.limits.max_batch <= 1 || chooses);
    let repeats = if is_split {
        form.batch_size.take().unwrap_or(1)
    } else {
        1
    };
    if !(1..=MAX_REPEATS).contains(&repeats) {
        return Err(JobError::new(
            JobErrorKind::InvalidRequest,
            format!("expected a batch between 1 and {MAX_REPEATS}, found {repeats}"),
        ));
    }
    let mut forms = Vec::new();
    for prompt in prompts {
        let first_seed = args.seed.unwrap_or_else(crate::cli::random_seed);
        if first_seed.checked_add(u64::from(repeats) - 1).is_none() {
            return Err(JobError::new(
                JobErrorKind::InvalidRequest,
                format!(
                    "expected a seed of at most {} for a batch of {repeats}, which counts on from it, found {first_seed}",
                    u64::MAX - u64::from(repeats) + 1
                ),
            ));
        }
        for index in 0..repeats {
            forms.push(GenerateForm {
                prompt: prompt.clone(),
                prompt_template: template.clone(),
                seed: first_seed + u64::from(index),
                ..form.clone()
            });
        }
    }
    Ok(forms)
}

/// Gives every form its file: the one that was asked for, numbered where they are several, else one here that no
/// file has.
fn name_files(forms: &mut [GenerateForm], args: &GenerateArgs, extension: &str) {
    let is_single = forms.len() == 1;
    let mut taken = HashSet::new();
    for (index, form) in forms.iter_mut().enumerate() {
        form.out = match &args.out {
            Some(out) if is_single => out.clone(),
            Some(out) => media::numbered_path(out, index + 1),
            None => {
                let stem = format!("{}_{}", naming::slug(&form.prompt), form.seed);
                naming::free_path(Path::new(""), &stem, extension, &mut taken)
            }
        };
    }
}

/// The lines of a file of prompts that are neither empty nor comments.
fn prompts_of(file: &Path) -> Result<Vec<String>, JobError> {
    let refused = |why: String| JobError::new(JobErrorKind::InvalidRequest, why);
    let text = std::fs::read_to_string(file).map_err(|err| {
        refused(format!(
            "the file with prompts cannot be read ({err}): {}",
            file.display()
        ))
    })?;
    let prompts = prompt::lines(text.trim_start_matches('\u{feff}'));
    if prompts.is_empty() {
        return Err(refused(format!(
            "expected at least one line with a prompt, found none: {}",
            file.display()
        )));
    }
    Ok(prompts)
}

/// The job goes on when its caller's folder is gone, and its metadata names files from anywhere.
pub(super) fn settle_paths(request: &mut GenerateRequest) -> Result<(), JobError> {
    let GenerateRequest {
        out,
        image,
        last_image,
        extend,
        mask,
        capture,
        loras,
        companions,
        ..
    } = request;
    let named: [&mut Option<PathBuf>; 11] = [
        image,
        last_image,
        extend,
        mask,
        capture,
        &mut companions.vae,
        &mut companions.text_encoder,
        &mut companions.text_encoder_2,
        &mut companions.image_encoder,
        &mut companions.tokenizer,
        &mut companions.tokenizer_2,
    ];
    let of_loras = loras.iter_mut().map(|lora| &mut lora.path);
    let named = named.into_iter().flatten().chain(of_loras);
    for path in std::iter::once(out).chain(named) {
        if let Ok(absolute) = std::path::absolute(&*path) {
            *path = absolute;
        }
        if path.to_str().is_none() {
            // Requests travel as JSON, which has no other texts.
            let what = format!("expected a path in UTF-8, found {}", path.display());
            return Err(JobError::new(JobErrorKind::InvalidRequest, what));
        }
    }
    Ok(())
}

/// All that is wrong, in one sentence each.
fn invalid(errors: &[FieldError]) -> JobError {
    let sentences: Vec<String> = errors
        .iter()
        .map(|err| format!("--{}: {}", err.field, err.message))
        .collect();
    JobError::new(JobErrorKind::InvalidRequest, sentences.join("; "))
}
