//! Frames of a generating job: decoded into memory, and written as a growing video while later sections are computed.
//!
//! A thread writes the growing file, so that the next section does not wait; each version replaces the one before as a
//! whole, so that a playable video exists at any time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use safelight_core::job::{
    GenerateRequest, JobError, JobErrorKind, JobFolder, Recipe, Stage, Video,
};
use safelight_core::job_update::{JobUpdate, PreviewFrame, SectionMade, StageTime};
use safelight_core::media::{RgbPixels, SampledSound, VideoFormat};

use super::inputs::JobInputs;
use super::job_run::{FrameStore, JobRun, SavedResult, check_room};
use super::save::{self, ResultMeta, WrittenFiles};

/// Prompts of the longest text encoders in f32, and the job's other small files.
const TEXTS_BYTES: u64 = 32 << 20;

pub(super) struct GeneratedFrames<'a> {
    request: &'a GenerateRequest,
    inputs: JobInputs,
    video: Video,
    /// Frames of the section that is being decoded.
    section_frames: Vec<Arc<RgbPixels>>,
    sound: Option<SampledSound>,
    growing: GrowingFile,
    /// Sections of an earlier program, whose frames are decoded again.
    num_replayed: u32,
}

impl<'a> GeneratedFrames<'a> {
    /// Copies the input files into the folder of a new job, or opens those of an earlier one.
    pub(super) fn open(
        request: &'a GenerateRequest,
        folder: &JobFolder,
        is_new: bool,
    ) -> Result<Self, JobError> {
        let inputs = if is_new {
            let inputs = JobInputs::copy(request, folder)?;
            // The first of the new frames are the old video's last.
            let doubled = inputs.num_extended.min(request.lead_frames());
            let num_frames = inputs.num_extended + request.num_frames as usize - doubled;
            save::check_frames(request, num_frames)?;
            check_room(folder, disk_bytes(request))?;
            inputs.keep(folder);
            inputs
        } else {
            JobInputs::reopen(request, folder)?
        };
        let recipe = Recipe::from_request(request);
        let finished = recipe.stages.iter().zip(folder.finished(&recipe));
        let replayed = finished.filter(|(stage, is_done)| **stage == Stage::Denoise && *is_done);
        Ok(Self {
            request,
            inputs,
            video: Video {
                frames: Vec::new(),
                fps: request.fps,
            },
            section_frames: Vec::new(),
            sound: None,
            growing: GrowingFile::default(),
            num_replayed: replayed.count() as u32,
        })
    }

    /// Shows the video so far, and starts writing it.
    fn show_section(&mut self, run: &mut JobRun<'_>, folder: &JobFolder, section: u32) {
        let Some(sections) = self.request.sections else {
            return;
        };
        // The next sections take as long.
        run.learn_times();
        run.events.certain(JobUpdate::Section(SectionMade {
            section,
            count: sections.count,
            video: Arc::new(self.video.clone()),
            path: self.growing.named(self.request).out,
        }));
        // A file with more sections stays until there are as many again.
        if sections.is_last(section) || section + 1 < self.num_replayed {
            return;
        }
        let (request, made) = (self.request, made(run));
        let problem = self
            .growing
            .write(request, folder, &self.video, &self.inputs, made);
        if let Some(err) = problem {
            run.warn(format!(
                "the video so far could not be written: {}",
                err.summary
            ));
        }
    }
}

impl FrameStore for GeneratedFrames<'_> {
    /// Unused parts of input files, and how much of each LoRA is applied: a warning if that is little.
    fn report_inputs(&self, run: &mut JobRun<'_>) {
        for text in &self.inputs.notices {
            run.warn(text.clone());
        }
        for checked in &self.inputs.loras {
            tracing::info!("{}", checked.line());
            run.events.certain(JobUpdate::Lora(checked.clone()));
            if checked.coverage.is_poor() {
                run.warn(checked.line());
            }
        }
    }

    fn finished(&self, recipe: &Recipe, folder: &JobFolder, done: &[bool]) -> Vec<bool> {
        still_done(recipe, done, &folder.finished(recipe))
    }

    fn begin_stage(&mut self) -> u32 {
        self.section_frames.clear();
        0
    }

    fn push(&mut self, frame: PreviewFrame) -> Result<(), JobError> {
        // A decode that begins again begins with the first frame.
        self.section_frames.truncate(frame.index as usize);
        self.section_frames.push(frame.image);
        Ok(())
    }

    fn keep_sound(&mut self, sound: SampledSound) {
        self.sound = Some(sound);
    }

    fn end_stage(
        &mut self,
        run: &mut JobRun<'_>,
        folder: &JobFolder,
        time: StageTime,
    ) -> Result<(), JobError> {
        if time.stage == Stage::Decode {
            let frames = std::mem::take(&mut self.section_frames);
            join(&mut self.video.frames, self.request, time.section, frames)?;
            self.show_section(run, folder, time.section);
        }
        Ok(())
    }

    fn save(&mut self, run: &mut JobRun<'_>, _folder: &JobFolder) -> Result<SavedResult, JobError> {
        // The whole video replaces it, and shows its error again.
        self.growing.settle();
        let video = std::mem::take(&mut self.video);
        let (expected, found) = (self.request.num_decoded(), video.frames.len());
        if found != expected {
            let what = format!("expected {expected} decoded frames, found {found}");
            return Err(JobError::new(JobErrorKind::Internal, what));
        }
        let video = self.inputs.join(self.request, video)?;
        let request = self.growing.named(self.request);
        let made = ResultMeta {
            sound: self.sound.as_ref(),
            ..made(run)
        };
        let written = save::write(&request, &video, &self.inputs, made)?;
        for text in written.warnings {
            // The result has the same settings.
            run.warn(text);
        }
        Ok(saved(written.paths, video))
    }

    fn is_behind(&self, run: &JobRun<'_>) -> bool {
        let times = run.progress.times.iter();
        let num_decoded = times.filter(|time| time.stage == Stage::Decode).count();
        num_decoded < self.num_replayed as usize
    }

    /// The sections that were finished.
    fn save_part(&mut self, run: &mut JobRun<'_>) -> Option<SavedResult> {
        if self.request.sections.is_none() || self.video.frames.is_empty() {
            return None;
        }
        let video = std::mem::take(&mut self.video);
        let written = self.growing.take_written();
        let written = written.filter(|(_, written)| written.frames.len() == video.frames.len());
        let (paths, video) = written.or_else(|| {
            let joined = self.inputs.join(self.request, video.clone()).ok()?;
            let written = save::write(self.request, &joined, &self.inputs, made(run));
            Some((written.ok()?.paths, video))
        })?;
        Some(saved(paths, video))
    }

    fn has_results(&self, recipe: &Recipe, folder: &JobFolder) -> bool {
        folder.num_finished(recipe) > 0
    }
}

fn saved(paths: Vec<PathBuf>, video: Video) -> SavedResult {
    SavedResult {
        paths,
        num_frames: video.frames.len() as u32,
        video,
    }
}

fn made<'a>(run: &'a JobRun<'_>) -> ResultMeta<'a> {
    ResultMeta {
        engine: run.engine.report(),
        compute_options: run.engine.compute_options(),
        rungs: run.fallbacks.attempts(),
        crf: run.limits.crf,
        sound: None,
    }
}

/// Estimated bytes for texts, latents and the sampler's state. Latents of an image have 16 channels in f32 for 8×8
/// pixels, those of a video for 4 frames of them; the sampler keeps up to three of their size.
fn disk_bytes(request: &GenerateRequest) -> u64 {
    let size = u64::from(request.width) * u64::from(request.height);
    let frames = u64::from(request.num_frames.div_ceil(4) * request.batch_size.max(1));
    TEXTS_BYTES + size * frames * 4
}

/// Inserts the decoded frames of one section, or takes all frames of a job without sections.
fn join(
    video: &mut Vec<Arc<RgbPixels>>,
    request: &GenerateRequest,
    section: u32,
    frames: Vec<Arc<RgbPixels>>,
) -> Result<(), JobError> {
    let Some(sections) = &request.sections else {
        *video = frames;
        return Ok(());
    };
    let part = sections.decoded(section);
    let (expected, found) = (part.num_frames as usize, frames.len());
    let place = part.at as usize..part.at as usize + part.replaces as usize;
    if expected != found || place.end > video.len() {
        let what = format!(
            "expected {expected} decoded frames of section {} and {} before, found {found} and {}",
            section + 1,
            place.end,
            video.len()
        );
        return Err(JobError::new(JobErrorKind::Internal, what));
    }
    video.splice(place, frames);
    Ok(())
}

/// Stages that another engine need not run: those whose results are `on_disk`, and decoding whose frames are in memory,
/// with the unloading before it.
fn still_done(recipe: &Recipe, done: &[bool], on_disk: &[bool]) -> Vec<bool> {
    let is_decoded =
        |position: usize| recipe.stages.get(position) == Some(&Stage::Decode) && done[position];
    let stages = recipe.stages.iter().enumerate();
    stages
        .map(|(position, stage)| {
            let is_behind = *stage == Stage::Unload && is_decoded(position + 1);
            on_disk[position] || is_decoded(position) || is_behind
        })
        .collect()
}

/// The request with `path` as its own file.
fn own_name(request: &GenerateRequest, path: &Path) -> GenerateRequest {
    GenerateRequest {
        out: path.to_path_buf(),
        is_out_automatic: false,
        ..request.clone()
    }
}

/// File of a growing video.
#[derive(Default)]
struct GrowingFile {
    writing: Option<JoinHandle<Result<WrittenFiles, JobError>>>,
    /// Files of the last version, and its frames.
    written: Option<(Vec<PathBuf>, Video)>,
    being_written: Video,
}

impl GrowingFile {
    /// The request with the name of this file, if it has one.
    fn named(&self, request: &GenerateRequest) -> GenerateRequest {
        match self.written.as_ref().and_then(|(paths, _)| paths.first()) {
            Some(path) => own_name(request, path),
            None => request.clone(),
        }
    }

    /// Starts writing the video so far. Returns the error of the version before.
    fn write(
        &mut self,
        request: &GenerateRequest,
        folder: &JobFolder,
        video: &Video,
        inputs: &JobInputs,
        made: ResultMeta<'_>,
    ) -> Option<JobError> {
        let error = self.settle();
        // Numbered images would get other names each time.
        if VideoFormat::from_path(&request.out).is_ok_and(VideoFormat::is_still) {
            return error;
        }
        let (request, inputs) = (self.named(request), inputs.clone());
        let folder = folder.clone();
        let (engine, rungs, crf) = (made.engine.cloned(), made.rungs.to_vec(), made.crf);
        let compute_options = made.compute_options;
        let own = video.clone();
        self.being_written = video.clone();
        let spawned = thread::Builder::new()
            .name("growing-video".to_owned())
            .spawn(move || {
                let joined = inputs.join(&request, own)?;
                let made = ResultMeta {
                    engine: engine.as_ref(),
                    compute_options,
                    rungs: &rungs,
                    crf,
                    sound: None,
                };
                let written = save::write(&request, &joined, &inputs, made)?;
                if let Some(path) = written.paths.first()
                    && request.is_out_automatic
                    && let Err(err) = folder.keep_request(&own_name(&request, path).into())
                {
                    // A resumed job gives its video another name.
                    tracing::warn!("the name of the video so far could not be saved: {err}");
                }
                Ok(written)
            });
        match spawned {
            Ok(writing) => self.writing = Some(writing),
            Err(err) => {
                return error.or_else(|| Some(JobError::from_error(JobErrorKind::Internal, &err)));
            }
        }
        error
    }

    /// Waits for the file that is being written, and returns its error.
    fn settle(&mut self) -> Option<JobError> {
        let writing = self.writing.take()?;
        let video = std::mem::take(&mut self.being_written);
        match writing.join() {
            Ok(Ok(written)) => {
                self.written = Some((written.paths, video));
                None
            }
            Ok(Err(err)) => Some(err),
            Err(_) => Some(JobError::new(
                JobErrorKind::Internal,
                "an error in Safelight stopped the video so far from being written",
            )),
        }
    }

    /// Waits, and returns what was written last.
    fn take_written(&mut self) -> Option<(Vec<PathBuf>, Video)> {
        if let Some(err) = self.settle() {
            tracing::warn!("the video so far could not be written: {err}");
        }
        self.written.take()
    }
}

impl Drop for GrowingFile {
    /// Waits: a paused or failed job leaves a whole file.
    fn drop(&mut self) {
        self.take_written();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::testing::request;

    #[test]
    fn the_disk_space_of_a_job_grows_with_its_latents() {
        let needed = disk_bytes(&request());
        assert!(needed > 60_000_000 && needed < 80_000_000, "{needed}");
    }
}
