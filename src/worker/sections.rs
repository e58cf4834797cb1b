//! A clip that grows section by section: where each section's frames go, and the file that has them all so far.
//!
//! The file is written by a thread of its own, so that the next section does not wait for it; it replaces the one
//! before as a whole, so that a playable clip is there at any time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Instant;

use safelight_core::job::{
    Clip, GenerateRequest, JobError, JobErrorKind, JobFolder, JobOutput, JobUpdate, Recipe,
    SectionMade, Stage,
};
use safelight_core::media::{ClipFormat, Picture};

use super::inputs::Inputs;
use super::save::{self, Made, Written};
use super::walk::{Gathered, Walk};

/// Puts what one section's decoding gave into the clip, or makes it the clip where it is made at once.
pub(super) fn join(
    clip: &mut Vec<Arc<Picture>>,
    request: &GenerateRequest,
    section: u32,
    frames: Vec<Arc<Picture>>,
) -> Result<(), JobError> {
    let Some(sections) = &request.sections else {
        *clip = frames;
        return Ok(());
    };
    let part = sections.decoded(section);
    let (expected, found) = (part.num_frames as usize, frames.len());
    let place = part.at as usize..part.at as usize + part.replaces as usize;
    if expected != found || place.end > clip.len() {
        let what = format!(
            "expected {expected} decoded frames of section {} and {} before, found {found} and {}",
            section + 1,
            place.end,
            clip.len()
        );
        return Err(JobError::new(JobErrorKind::Internal, what));
    }
    clip.splice(place, frames);
    Ok(())
}

/// Which stages need not be run again by another engine: those whose results are `on_disk`, and the decoding of frames
/// that are here, with the unloading before it.
pub(super) fn still_done(recipe: &Recipe, done: &[bool], on_disk: &[bool]) -> Vec<bool> {
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

impl Walk<'_> {
    /// Shows the clip so far, and has it written, where it grows section by section.
    pub(super) fn show_section(
        &mut self,
        (folder, inputs): (&JobFolder, &Inputs),
        section: u32,
        gathered: &mut Gathered,
        is_measure: bool,
    ) {
        let Some(sections) = self.request.sections else {
            return;
        };
        if is_measure {
            // What one section took is known for the next ones.
            self.estimates
                .learn(self.request, self.engine.device_name(), &gathered.times);
        }
        self.events.certain(JobUpdate::Section(SectionMade {
            section,
            count: sections.count,
            clip: Arc::new(gathered.clip.clone()),
            path: gathered.growing.named(self.request).out,
        }));
        // A file that has more of the clip stays until there is as much again.
        if sections.is_last(section) || section + 1 < gathered.num_replayed {
            return;
        }
        let (growing, clip) = (&mut gathered.growing, &gathered.clip);
        let problem = growing.write(self.request, folder, clip, inputs, self.made());
        if let Some(err) = problem {
            let text = format!("the clip so far could not be written: {}", err.summary);
            self.warn(text, gathered);
        }
    }

    /// What a cancelled job leaves: the sections that were made.
    pub(super) fn keep(
        &mut self,
        inputs: &Inputs,
        mut gathered: Gathered,
        started: Instant,
    ) -> Option<JobOutput> {
        if self.request.sections.is_none() || gathered.clip.frames.is_empty() {
            return None;
        }
        let written = std::mem::take(&mut gathered.growing)
            .into_written()
            .filter(|(_, clip)| clip.frames.len() == gathered.clip.frames.len());
        let (paths, clip) = written.or_else(|| {
            let clip = std::mem::take(&mut gathered.clip);
            let joined = inputs.join(self.request, clip.clone()).ok()?;
            let written = save::write(self.request, &joined, inputs, self.made());
            Some((written.ok()?.paths, clip))
        })?;
        Some(self.output(paths, clip, gathered, started))
    }

    /// A job goes on once; one that is made in sections once in each of them.
    pub(super) fn may_go_on(
        &self,
        recipe: &Recipe,
        lost_in: Option<usize>,
        position: usize,
    ) -> bool {
        lost_in.is_none_or(|before| {
            self.request.sections.is_some() && recipe.section(position) > recipe.section(before)
        })
    }

    pub(super) fn made(&self) -> Made<'_> {
        Made {
            engine: self.engine.report(),
            compute_options: self.engine.compute_options(),
            rungs: self.ladder.climbs(),
            crf: self.limits.crf,
        }
    }
}

/// The request of a job whose own file is this one.
fn own_name(request: &GenerateRequest, path: &Path) -> GenerateRequest {
    GenerateRequest {
        out: path.to_path_buf(),
        is_out_automatic: false,
        ..request.clone()
    }
}

/// The file of a clip that grows.
#[derive(Default)]
pub(super) struct GrowingFile {
    writing: Option<JoinHandle<Result<Written, JobError>>>,
    /// What was written last, and of how many frames it is.
    written: Option<(Vec<PathBuf>, Clip)>,
    being_written: Clip,
}

impl GrowingFile {
    /// The request with the name that this file has got: that is the job's own from then on.
    pub(super) fn named(&self, request: &GenerateRequest) -> GenerateRequest {
        match self.written.as_ref().and_then(|(paths, _)| paths.first()) {
            Some(path) => own_name(request, path),
            None => request.clone(),
        }
    }

    /// Begins to write the clip so far; the error is of the one before.
    pub(super) fn write(
        &mut self,
        request: &GenerateRequest,
        folder: &JobFolder,
        clip: &Clip,
        inputs: &Inputs,
        made: Made<'_>,
    ) -> Option<JobError> {
        let error = self.settle();
        // Numbered pictures would all get other names each time.
        if ClipFormat::from_path(&request.out).is_ok_and(ClipFormat::is_still) {
            return error;
        }
        let (request, inputs) = (self.named(request), inputs.clone());
        let folder = folder.clone();
        let (engine, rungs, crf) = (made.engine.cloned(), made.rungs.to_vec(), made.crf);
        let compute_options = made.compute_options;
        let own = clip.clone();
        self.being_written = clip.clone();
        let spawned = thread::Builder::new()
            .name("growing-clip".to_owned())
            .spawn(move || {
                let joined = inputs.join(&request, own)?;
                let made = Made {
                    engine: engine.as_ref(),
                    compute_options,
                    rungs: &rungs,
                    crf,
                };
                let written = save::write(&request, &joined, &inputs, made)?;
                if let Some(path) = written.paths.first()
                    && request.is_out_automatic
                    && let Err(err) = folder.keep_request(&own_name(&request, path))
                {
                    // A program that goes on with the job gives its clip another name.
                    tracing::warn!("the name of the clip so far could not be saved: {err}");
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

    /// Waits for the file that is being written.
    pub(super) fn settle(&mut self) -> Option<JobError> {
        let writing = self.writing.take()?;
        let clip = std::mem::take(&mut self.being_written);
        match writing.join() {
            Ok(Ok(written)) => {
                self.written = Some((written.paths, clip));
                None
            }
            Ok(Err(err)) => Some(err),
            Err(_) => Some(JobError::new(
                JobErrorKind::Internal,
                "an error in Safelight stopped the clip so far from being written",
            )),
        }
    }

    /// What has been written, once nothing is any more.
    pub(super) fn into_written(mut self) -> Option<(Vec<PathBuf>, Clip)> {
        if let Some(err) = self.settle() {
            tracing::warn!("the clip so far could not be written: {err}");
        }
        self.written
    }
}
