//! A job's folder: its request, its images, and what each finished stage left.
//!
//! It knows names and existence; tensors are written and read by the engine.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{JobId, JobRequest, Recipe, Stage};
use crate::compute::ComputeOptions;
use crate::enum_macros::file_paths;
use crate::files::{
    MAX_JSON_BYTES, is_left_half_written, make_new_private_folder, make_private_folder,
    partial_path, read_bounded, remove_partials, write_json,
};
use crate::locks::FileLock;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFolder(PathBuf);

file_paths! {
    JobFolder.0 {
        /// The copy of the start image: RGB, as the user sees it (turned by its EXIF rotation).
        start_image = "start.png";
        end_image = "end.png";
        mask = "mask.png";
        /// The folder with a copy of the mask where that is a video, under its own name.
        mask_video = "mask";
        /// Copy of a reference image, counted from 0, like [`Self::start_image`].
        reference(index) = "reference.{index:03}.png";
        /// The copy of an image that is a part of the prompt, as [`Self::reference`].
        prompt_image(index) = "prompt_image.{index:03}.png";
        /// Copy of a control image, counted from 0, like [`Self::start_image`].
        control(index) = "control.{index:03}.png";
        /// The folder with a copy of a control video, counted from 0, under its own name; there where it is no image.
        control_video(index) = "control.{index:03}";
        control_mask(index) = "control_mask.{index:03}.png";
        control_mask_video(index) = "control_mask.{index:03}";
        /// The folder with a copy of the video that is extended, under its own name.
        extended = "extend";
        /// The folder with a copy of the video that this one is made of, under its own name; there where it is no image.
        source_video = "source";
        source_image = "source.png";
        /// The folder with the last frames of the video that is extended, as large as the new ones: for models that see more than the last.
        seen = "seen";
        /// File that marks the folder of a job.
        request_file = "request.json";
        /// Device, libtorch and fallbacks that computed the frames of a post-processing job.
        computed_file = "computed.json";
        /// Finished frames of a post-processing job.
        parts = "parts";
        inputs_file = "inputs.json";
        compute_options_file = "compute_options.json";
        model_file = "model.json";
    }
}

impl JobFolder {
    /// Creates the folder of a new job under `jobs`, with its request.
    pub fn create(jobs: &Path, id: JobId, request: &JobRequest) -> io::Result<Self> {
        Self::create_with(jobs, id, |folder| folder.keep_request(request))
    }

    /// Makes the folder under a name for half-written files, so that a job is there with its request or not at all.
    fn create_with(
        jobs: &Path,
        id: JobId,
        fill: impl FnOnce(&Self) -> io::Result<()>,
    ) -> io::Result<Self> {
        let folder = Self(jobs.join(id.to_string()));
        make_private_folder(jobs)?;
        let partial = Self(partial_path(&folder.0));
        make_new_private_folder(&partial.0)?;
        // Two programs may have come to the same number: a folder with something in it takes no other's place.
        match fill(&partial).and_then(|()| fs::rename(&partial.0, &folder.0)) {
            Ok(()) => Ok(folder),
            Err(err) => {
                partial.remove().ok(); // The first error is the one that matters.
                Err(err)
            }
        }
    }

    /// Removes what programs that are no more have left half-written under `jobs`: folders, and files in those of jobs.
    pub fn remove_partials(jobs: &Path) {
        let entries = fs::read_dir(jobs).into_iter().flatten().flatten();
        for path in entries.map(|entry| entry.path()) {
            if !is_left_half_written(&path) {
                remove_partials(&path);
            } else if Self::open(&path).remove().is_ok() {
                let folder = path.display();
                tracing::info!("removed the folder of a job that never began: {folder}");
            }
        }
    }

    pub fn keep_request(&self, request: &JobRequest) -> io::Result<()> {
        write_json(&self.request_file(), request)
    }

    pub fn open(path: impl Into<PathBuf>) -> Self {
        Self(path.into())
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn seen_frame(&self, index: usize) -> PathBuf {
        self.seen().join(format!("{index:03}.png"))
    }

    /// Marks the job as alive for as long as what is returned is kept; fails when it already is, be it in another
    /// process.
    pub fn hold(&self) -> io::Result<FileLock> {
        FileLock::take(&self.0.join("alive.lock"))
    }

    /// Result path of a stage; the first one if the stage runs several times.
    pub fn result(&self, stage: Stage) -> Option<PathBuf> {
        self.section_result(stage, 0)
    }

    /// Result path of a stage's run number `section`: `latents.safetensors`, then `latents.001.safetensors`.
    pub fn section_result(&self, stage: Stage, section: u32) -> Option<PathBuf> {
        let name = stage.result_file()?;
        Some(self.0.join(of_section(name, section)))
    }

    /// The sampler's state in the middle of denoising a section, counted from 0.
    pub fn section_checkpoint(&self, section: u32) -> PathBuf {
        self.0
            .join(of_section("denoise.partial.safetensors", section))
    }

    pub fn request(&self) -> io::Result<JobRequest> {
        let text = read_bounded(&self.request_file(), MAX_JSON_BYTES)?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    }

    /// Options that the job started with. A resumed job uses them again, so that its numbers are the same; `None` before
    /// its first stage.
    pub fn compute_options(&self) -> Option<ComputeOptions> {
        let text = read_bounded(&self.compute_options_file(), MAX_JSON_BYTES).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Stages of the recipe that need not run again: like [`Self::num_finished`], except the decoding, whose frames are
    /// not saved.
    pub fn finished(&self, recipe: &Recipe) -> Vec<bool> {
        let num_finished = self.num_finished(recipe);
        let stages = recipe.stages.iter().enumerate();
        stages
            .map(|(position, stage)| position < num_finished && *stage != Stage::Decode)
            .collect()
    }

    /// Number of stages of the recipe that need not run again.
    ///
    /// A stage counts as finished if its result exists; a stage without a result, if a later one counts.
    pub fn num_finished(&self, recipe: &Recipe) -> usize {
        let is_there = |position: usize| {
            let result = self.section_result(recipe.stages[position], recipe.section(position));
            result.is_some_and(|path| path.exists())
        };
        (0..recipe.stages.len())
            .rfind(|&position| is_there(position))
            .map_or(0, |last| last + 1)
    }

    pub fn remove(&self) -> io::Result<()> {
        // Under the name of half-written files, so that the next start removes what an interruption leaves.
        let partial = partial_path(&self.0);
        let is_renamed = fs::rename(&self.0, &partial).is_ok();
        fs::remove_dir_all(if is_renamed { &partial } else { &self.0 })
    }
}

/// The name of a file that each section has one of.
fn of_section(name: &str, section: u32) -> String {
    match name.rsplit_once('.') {
        Some((stem, ending)) if section > 0 => format!("{stem}.{section:03}.{ending}"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use Stage::{Decode, Denoise, EncodeText, Save, Unload};

    use super::*;

    #[test]
    fn a_job_is_there_with_its_request_or_not_at_all_and_takes_no_others_place() {
        let folder = tempfile::tempdir().unwrap();
        let jobs = folder.path().join("jobs");
        let id = JobId(7);
        let make = |text: &str, fails: bool| {
            JobFolder::create_with(&jobs, id, |job| {
                assert_ne!(job.path(), jobs.join("7"), "it is not there yet");
                fs::write(job.path().join("request.json"), text)?;
                let full = || Err(io::Error::other("disk full"));
                if fails { full() } else { Ok(()) }
            })
        };
        let there = || fs::read_dir(&jobs).unwrap().count();
        assert!(make("one", true).is_err());
        assert_eq!(there(), 0, "no half of it stays");
        let job = make("one", false).unwrap();
        assert!(make("another", false).is_err(), "the number is taken");
        assert_eq!(fs::read(job.path().join("request.json")).unwrap(), b"one");
        assert_eq!(there(), 1);
    }

    #[test]
    fn remove_partials_deletes_only_job_files_of_dead_processes() {
        let jobs = tempfile::tempdir().unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        let dead = dead.id().to_string();
        let at = |name: &str| jobs.path().join(name.replace("DEAD", &dead));
        let mine = partial_path(&at("9")).join("request.json");
        let (unmade, half) = (at(".7.DEAD.partial"), at("8/.model.json.DEAD.partial"));
        let kept = [mine, at("8/request.json"), at("loose.txt")];
        for path in kept.iter().chain([&unmade.join("request.json"), &half]) {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        JobFolder::remove_partials(jobs.path());
        assert!(!unmade.exists() && !half.exists());
        assert!(kept.iter().all(|path| path.exists()));
        JobFolder::remove_partials(&at("nowhere"));
    }

    #[test]
    fn finished_stages_are_those_up_to_the_last_result() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::open(folder.path());
        let recipe = Recipe {
            stages: vec![EncodeText, Denoise, Unload, Decode, Save],
        };
        assert_eq!(job.num_finished(&recipe), 0);
        fs::write(job.result(Stage::Denoise).unwrap(), b"").unwrap();
        assert_eq!(job.num_finished(&recipe), 2);
        let found = job.result(Stage::Decode);
        assert_eq!(found, None, "frames go to the app, not to the folder");
    }

    #[test]
    fn the_last_finished_section_is_the_one_whose_latents_are_there() {
        let folder = tempfile::tempdir().unwrap();
        let job = JobFolder::open(folder.path());
        let sections = [Denoise, Unload, Decode].repeat(3);
        let stages = [&[EncodeText], &sections[..], &[Save]].concat();
        let recipe = Recipe { stages };
        for (number, name, finished) in [
            (0, "latents.safetensors", 2),
            (1, "latents.001.safetensors", 5),
            (2, "latents.002.safetensors", 8),
        ] {
            let path = job.section_result(Stage::Denoise, number).unwrap();
            assert_eq!(path.file_name().unwrap(), name);
            fs::write(path, b"").unwrap();
            assert_eq!(job.num_finished(&recipe), finished);
            let position = recipe.position(Stage::Denoise, number).unwrap();
            assert_eq!((position + 1, recipe.section(position)), (finished, number));
        }
        assert_eq!(recipe.position(Stage::Denoise, 3), None);
        assert_eq!(recipe.num_sections(), 3);
    }
}
