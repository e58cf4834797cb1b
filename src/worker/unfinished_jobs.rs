//! Unfinished jobs in their folders: they failed with results, or their program died.
//!
//! A worker resumes them, and removes old ones.

use std::fs;
use std::path::{Path, PathBuf};

use safelight_core::job::{JobFolder, JobId, JobRequest, Recipe, Stage};
use safelight_core::media::FrameSegments;

/// A job that can be resumed.
#[derive(Clone, Debug)]
pub struct UnfinishedJob {
    pub id: JobId,
    pub folder: PathBuf,
    pub request: JobRequest,
    /// Finished stages of a generating job, frames of a post-processing one; they are not computed again.
    pub num_done: usize,
    /// Number of all stages or frames.
    pub num_all: usize,
}

impl UnfinishedJob {
    fn at(path: &Path) -> Option<Self> {
        let id = number_of(path)?;
        let folder = JobFolder::open(path);
        let request = folder.request().inspect_err(|err| {
            if err.kind() != std::io::ErrorKind::NotFound {
                let folder = path.display();
                tracing::warn!(
                    "a job cannot be resumed: its settings cannot be read ({err}): {folder}"
                );
            }
        });
        let request = request.ok()?;
        // A job that cannot be held runs; it is released immediately.
        drop(folder.hold().ok()?);
        let (num_done, num_all) = match &request {
            JobRequest::Generate(request) => {
                let recipe = Recipe::from_request(request);
                (folder.num_finished(&recipe), recipe.stages.len())
            }
            JobRequest::Finish(request) => {
                let done = FrameSegments::at(&folder.parts());
                (done as usize, request.after.num_frames as usize)
            }
        };
        Some(Self {
            id,
            folder: path.to_owned(),
            request,
            num_done,
            num_all,
        })
    }

    /// Progress for people, such as `2 of 4 stages`, or the computer that knows it.
    pub fn progress(&self) -> String {
        if let Some(host) = self.request.computer() {
            return format!("on {host}");
        }
        let (mut done, mut all, mut what) = (self.num_done, self.num_all, "stages");
        match &self.request {
            JobRequest::Finish(_) => what = "frames",
            JobRequest::Generate(request) => {
                if let Some(sections) = request.sections {
                    let stages = Recipe::from_request(request).stages;
                    let finished = stages.iter().take(done);
                    done = finished.filter(|stage| **stage == Stage::Denoise).count();
                    (all, what) = (sections.count as usize, "sections");
                }
            }
        }
        format!("{done} of {all} {what}")
    }
}

/// The jobs below the folder of all jobs that no program runs, newest first.
pub fn left_in(jobs: &Path) -> Vec<UnfinishedJob> {
    let entries = fs::read_dir(jobs).into_iter().flatten().flatten();
    let left = entries.filter_map(|entry| UnfinishedJob::at(&entry.path()));
    let mut left: Vec<UnfinishedJob> = left.collect();
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
                "sections": {"count": count, "window": 9, "order": "original", "lead": 1},
            });
            fs::create_dir(jobs.path().join(id)).unwrap();
            let text = serde_json::to_vec(&request).unwrap();
            fs::write(jobs.path().join(id).join("request.json"), text).unwrap();
        }
        let left = left_in(jobs.path());
        let ids: Vec<JobId> = left.iter().map(|job| job.id).collect();
        assert_eq!(ids, [JobId(1)]);
        assert_eq!(left[0].progress(), "0 of 3 sections");
    }
}
