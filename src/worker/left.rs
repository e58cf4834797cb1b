//! Jobs that a program left in their folders: they failed after some of them was made, or the program died.
//!
//! Names and counts only; a worker lets one go on, and removes those that are old.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use safelight_core::finish::FinishRequest;
use safelight_core::job::{GenerateRequest, JobFolder, JobId, JobRequest, Recipe};
use safelight_core::media::Runs;

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
        let request = folder.request();
        let request = request.inspect_err(|err| {
            if err.kind() != io::ErrorKind::NotFound {
                let folder = path.display();
                tracing::warn!(
                    "a job cannot be resumed: its settings cannot be read ({err}): {folder}"
                );
            }
        });
        let request = request.ok()?;
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

/// A job that finishes something and can go on.
#[derive(Clone, Debug)]
pub struct LeftFinish {
    pub id: JobId,
    pub folder: PathBuf,
    pub request: FinishRequest,
    /// Frames that need not be made again.
    pub num_frames: u32,
}

impl LeftFinish {
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
        let request = folder.finish_request().ok()?;
        // One that cannot be held is alive; it is let go at once.
        drop(folder.hold().ok()?);
        Some(Self {
            id,
            folder: path.to_owned(),
            num_frames: Runs::at(&folder.parts()),
            request,
        })
    }

    /// How far it is, for people.
    pub fn progress_text(&self) -> String {
        format!(
            "{} of {} frames",
            self.num_frames, self.request.after.num_frames
        )
    }
}

/// A job of either kind that can go on.
#[derive(Clone, Debug)]
pub struct Left {
    pub id: JobId,
    pub folder: PathBuf,
    pub request: JobRequest,
    /// How far it is, for people.
    pub progress: String,
}

/// All of them below the folder of all jobs, newest first.
pub fn left_in(jobs: &Path) -> Vec<Left> {
    let generating = LeftJob::all(jobs).into_iter().map(|job| Left {
        progress: job.progress_text(),
        id: job.id,
        folder: job.folder,
        request: job.request.into(),
    });
    let finishing = LeftFinish::all(jobs).into_iter().map(|job| Left {
        progress: job.progress_text(),
        id: job.id,
        folder: job.folder,
        request: job.request.into(),
    });
    let mut left: Vec<Left> = generating.chain(finishing).collect();
    left.sort_by_key(|job| std::cmp::Reverse(job.id));
    left
}

/// The number that a job's folder is named by.
pub fn number_of(folder: &Path) -> Option<JobId> {
    let name = folder.file_name()?.to_str()?;
    name.parse().ok().map(JobId)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_of_more_sections_than_there_can_be_is_left_out_alone() {
        let jobs = tempfile::tempdir().unwrap();
        for (id, count) in [("1", 3), ("2", u32::MAX)] {
            let request = serde_json::json!({
                "model": "framepack", "family": "framepack", "prompt": "a boat", "negative_prompt": "",
                "width": 256, "height": 256, "num_frames": 109, "fps": 30.0, "num_steps": 12,
                "guidance_scale": 4.0, "sampler": "unipc", "seed": 7,
                "sections": {"count": count, "window": 9, "order": "original"},
            });
            fs::create_dir(jobs.path().join(id)).unwrap();
            let text = serde_json::to_vec(&request).unwrap();
            fs::write(jobs.path().join(id).join("request.json"), text).unwrap();
        }
        let left = LeftJob::all(jobs.path());
        let ids: Vec<JobId> = left.iter().map(|job| job.id).collect();
        assert_eq!(ids, [JobId(1)]);
        assert_eq!(left[0].progress_text(), "0 of 3 sections");
    }
}
