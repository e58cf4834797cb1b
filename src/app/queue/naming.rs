//! Free file names for the results of waiting jobs.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::fitting::LoraIndex;
use safelight_core::job::FormNotice;
use safelight_core::job::prompt::WildcardFolders;
use safelight_core::naming;

use crate::app::prelude::*;

pub(super) struct ResolvedOutput {
    pub(super) id: JobId,
    /// Request with resolved prompts and a new file name, and notices about the prompts.
    pub(super) found: Result<(JobRequest, Vec<FormNotice>), JobError>,
    /// All names that were given so far.
    pub(super) taken: HashSet<PathBuf>,
}

/// Returns whether there is a folder for the form's results: nothing can be saved without one, which is reported.
pub(super) fn has_folder(spec: &ModelSpec, cx: &mut AppContext) -> bool {
    let is_there = cx.output_folder(cx.form.makes_picture(spec)).is_some();
    if !is_there {
        let err = JobError::new(JobErrorKind::Disk, "no folder for results is known")
            .advise("Choose one in the settings");
        cx.tell_about(NoticeCause::ResultFolder, NoticeSeverity::Error, err);
    }
    is_there
}

/// Settles the prompts by the wildcards and LoRAs of `sources`, and gives the job a name that is free; blocks.
pub(super) fn find_output(
    mut request: JobRequest,
    folder: &Path,
    sources: Option<(WildcardFolders, LoraIndex)>,
    taken: &mut HashSet<PathBuf>,
) -> Result<(JobRequest, Vec<FormNotice>), JobError> {
    let generating = request.generate_mut().zip(sources);
    let expanded =
        generating.map(|(request, (wildcards, loras))| request.settle_prompts(&wildcards, &loras));
    let notices = expanded.transpose().map_err(|errors| {
        let messages: Vec<String> = errors.into_iter().map(|err| err.message).collect();
        JobError::new(JobErrorKind::InvalidRequest, messages.join("; "))
    })?;
    fs::create_dir_all(folder).map_err(|err| {
        JobError::new(JobErrorKind::Disk, folder_not_made_text(folder, &err))
            .advise("Choose another folder in the settings")
            .detail(err.to_string())
    })?;
    let stem = match &request {
        JobRequest::Generate(request) => {
            let slug = naming::slug(&request.prompt);
            format!("{}_{slug}_{}", naming::timestamp(), request.seed)
        }
        // Beside its source in lists by name.
        JobRequest::Finish(request) => request.stem(),
    };
    let extension = request.out().extension().unwrap_or_default();
    let extension = extension.to_string_lossy().into_owned();
    let out = naming::free_path(folder, &stem, &extension, taken);
    match &mut request {
        JobRequest::Generate(request) => (request.out, request.is_out_automatic) = (out, true),
        JobRequest::Finish(request) => (request.out, request.is_out_automatic) = (out, true),
    }
    Ok((request, notices.unwrap_or_default()))
}

fn folder_not_made_text(folder: &Path, why: &dyn std::fmt::Display) -> String {
    let folder = folder.display();
    format!("the folder for results cannot be made ({why}): {folder}")
}
