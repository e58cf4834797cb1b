//! Jobs that a program left in their folders: they failed after some of them was made, or the program died.
//!
//! Names and counts only; a worker lets one go on, and removes those that are old.

use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::{GenerateRequest, JobFolder, JobId, Recipe};

/// A job that can go on.
#[derive(Clone, Debug)]
pub struct LeftJob {
    pub id: JobId,
    pub folder: PathBuf,
    pub request: GenerateRequest,
    /// Stages that need not be run again, and all.
    pub num_finished: usize,
    pub num_stages: usize,
}

impl LeftJob {
    /// Those below the folder of all jobs that no program has now, newest first.
    pub fn all(jobs: &Path) -> Vec<Self> {
        let entries = fs::read_dir(jobs).into_iter().flatten().flatten();
        let mut left: Vec<Self> = entries
            .filter_map(|entry| Self::at(&entry.path()))
            .collect();
        left.sort_by_key(|job| std::cmp::Reverse(job.id));
        left
    }

    fn at(path: &Path) -> Option<Self> {
        let id = number_of(path)?;
        let folder = JobFolder::at(path);
        let request = folder.request().ok()?;
        // One that cannot be held is alive; it is let go at once.
        drop(folder.hold().ok()?);
        let recipe = Recipe::of(&request);
        Some(Self {
            id,
            folder: path.to_owned(),
            num_finished: folder.num_finished(&recipe),
            num_stages: recipe.stages.len(),
            request,
        })
    }

    /// How far it is, for people.
    pub fn progress_text(&self) -> String {
        let finished = self.num_finished;
        match self.request.sections {
            Some(sections) => {
                let recipe = Recipe::of(&self.request);
                let made = (0..finished).filter(|position| {
                    recipe.stages[*position] == safelight_core::job::Stage::Denoise
                });
                format!("{} of {} sections", made.count(), sections.count)
            }
            None => format!("{finished} of {} stages", self.num_stages),
        }
    }
}

/// The number that a job's folder is named by.
pub fn number_of(folder: &Path) -> Option<JobId> {
    let name = folder.file_name()?.to_str()?;
    name.parse().ok().map(JobId)
}
