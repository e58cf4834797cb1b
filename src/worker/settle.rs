//! Settles a job before it runs: its prompts, by wildcards and the LoRAs that they name, and the file of its result.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use safelight_core::fitting::LoraIndex;
use safelight_core::job::prompt::WildcardFolders;
use safelight_core::job::{FormNotice, JobError, JobErrorKind, JobFolder, JobRequest};
use safelight_core::naming;
use safelight_core::settings::{AppPaths, Settings};

use super::WorkerCommand;

/// Folders that jobs are settled by: wildcards, LoRAs, and those for results.
pub struct JobSources {
    wildcards: WildcardFolders,
    loras: LoraIndex,
    images: PathBuf,
    videos: PathBuf,
}

/// Files of jobs that run: no other job gets such a name, though it is not written yet.
static OUTPUT_NAMES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Name of a settled job's result, free again when this is dropped.
pub struct OutputName<'a>(pub &'a Path);

impl Drop for OutputName<'_> {
    fn drop(&mut self) {
        let mut names = OUTPUT_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        names.remove(self.0);
    }
}

impl JobSources {
    pub fn new(paths: &AppPaths, settings: &Settings) -> Self {
        Self {
            wildcards: settings.wildcard_folders(paths),
            loras: LoraIndex::new(paths, settings),
            images: settings.output.images_folder_or_default(paths),
            videos: settings.output.folder_or_default(paths),
        }
    }

    /// The request as it is made, with notices about its prompts. A resumed job has been settled: its folder has the
    /// request. Blocks.
    pub fn settle(
        &self,
        command: &WorkerCommand,
    ) -> Result<(JobRequest, Vec<FormNotice>), JobError> {
        let kept = command.resume.as_ref();
        if let Some(request) = kept.and_then(|folder| JobFolder::open(folder).request().ok()) {
            return Ok((request, Vec::new()));
        }
        let mut request = command.request.clone();
        let notices = match &mut request {
            JobRequest::Generate(request) => {
                let settled = if request.computer.is_some() {
                    // The LoRAs of that computer are named there.
                    request.expand_prompts(&self.wildcards)
                } else {
                    request.settle_prompts(&self.wildcards, &self.loras)
                };
                settled.map_err(|errors| {
                    let messages: Vec<String> = errors.into_iter().map(|err| err.message).collect();
                    JobError::invalid(messages.join("; "))
                })?
            }
            JobRequest::Finish(_) => Vec::new(),
        };
        self.name_output(&mut request)?;
        Ok((request, notices))
    }

    /// Gives an automatic name that is free. A bare one becomes one by the time, the prompt and the seed, in the folder
    /// for results, which is created.
    fn name_output(&self, request: &mut JobRequest) -> Result<(), JobError> {
        let (stem, is_image) = (stem_of(request), request.makes_images());
        let (out, is_automatic) = match request {
            JobRequest::Generate(request) => (&mut request.out, request.is_out_automatic),
            JobRequest::Finish(request) => (&mut request.out, request.is_out_automatic),
        };
        if !is_automatic {
            return Ok(());
        }
        let folder = out.parent().filter(|it| !it.as_os_str().is_empty());
        let (folder, stem) = match folder {
            Some(folder) => {
                let stem = out.file_stem().unwrap_or_default().to_string_lossy();
                (folder.to_path_buf(), stem.into_owned())
            }
            None if is_image => (self.images.clone(), stem),
            None => (self.videos.clone(), stem),
        };
        fs::create_dir_all(&folder).map_err(|err| {
            JobError::new(JobErrorKind::Disk, folder_not_made_text(&folder, &err))
                .advise("Choose another folder in the settings")
                .detail(err.to_string())
        })?;
        let extension = out.extension().unwrap_or_default().to_string_lossy();
        let mut names = OUTPUT_NAMES.lock().unwrap_or_else(PoisonError::into_inner);
        let first = folder.join(format!("{stem}.{extension}"));
        let is_free = |path: &PathBuf| naming::is_free(path) && !names.contains(path);
        *out = naming::names_like(&first).find(is_free).unwrap_or_default();
        names.insert(out.clone());
        Ok(())
    }
}

fn stem_of(request: &JobRequest) -> String {
    match request {
        JobRequest::Generate(request) => {
            let slug = naming::slug(&request.prompt);
            format!("{}_{slug}_{}", naming::timestamp(), request.seed)
        }
        // Next to its source in lists by name.
        JobRequest::Finish(request) => request.stem(),
    }
}

fn folder_not_made_text(folder: &Path, why: &dyn Display) -> String {
    let folder = folder.display();
    format!("the folder for results cannot be made ({why}): {folder}")
}
