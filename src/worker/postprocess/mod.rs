//! Frames of a post-processing job: encoded in runs as they come, and joined at the end.
//!
//! The engine reads the source frame by frame. A resumed job continues after the last run.

mod checks;
mod frame_writer;
mod provenance;

use safelight_core::files::make_private_folder;
use safelight_core::finish::fingerprint;
use safelight_core::job::{CARRIED_APP, JobError, JobFolder, PostprocessRequest, Recipe, Video};
use safelight_core::job_update::{PreviewFrame, StageTime};
use safelight_core::media::{self, FrameSegments, VideoOptions, VideoReader};
use serde_json::{Map, Value, json};

pub(super) use provenance::ResultProvenance;

use super::job_run::{FrameStore, JobRun, SavedResult, check_room};
use super::save::error_of;
use checks::{alpha_source, room_of, sound_of, times_of, unused_of};
use frame_writer::FrameWriter;

/// Refuses, before anything is computed, a result that could not be written and a source that has changed.
pub(super) fn check(request: &PostprocessRequest) -> Result<(), JobError> {
    let num_frames = request.after.num_frames as usize;
    media::check_frames_writable(&request.out, num_frames).map_err(error_of)?;
    let found = fingerprint(&request.source, request.is_image);
    let found = found?;
    if found != request.fingerprint {
        let what = format!(
            "this file has changed since the job was made: {}",
            request.source.display()
        );
        return Err(JobError::invalid(what).advise("Start the job anew"));
    }
    Ok(())
}

pub(super) struct PostprocessedFrames<'a> {
    request: &'a PostprocessRequest,
    writer: FrameWriter,
    /// First frame of this program, to show.
    first: Option<PreviewFrame>,
    /// Losses against the source, one sentence each.
    notices: Vec<String>,
}

impl<'a> PostprocessedFrames<'a> {
    pub(super) fn open(
        request: &'a PostprocessRequest,
        folder: &JobFolder,
        is_new: bool,
    ) -> Result<Self, JobError> {
        if is_new {
            check_room(folder, room_of(request))?;
        }
        let reader = (!request.is_image).then(|| VideoReader::open(&request.source));
        let reader = reader.transpose()?;
        let reader = reader.as_ref();
        let (starts, note) = times_of(request, reader)?;
        let fps = if request.is_image {
            VideoOptions::default().fps
        } else {
            request.after.fps
        };
        let options = VideoOptions {
            starts,
            fps,
            crf: request.crf,
            num_plays: reader.map_or(0, VideoReader::num_plays),
            settings: None,
            keeps_others: request.is_out_automatic,
        };
        make_private_folder(&folder.parts())
            .map_err(|err| JobError::disk("the job's folder cannot be created", &err))?;
        let runs = FrameSegments::new(&folder.parts(), &request.out, options);
        let notices = sound_of(request).left_out.into_iter();
        Ok(Self {
            request,
            writer: FrameWriter::new(runs.map_err(error_of)?),
            first: None,
            notices: notices
                .chain(unused_of(request, reader))
                .chain(note)
                .collect(),
        })
    }

    /// The source's settings, with an entry for this job.
    fn settings(&self, provenance: &ResultProvenance) -> Value {
        let carried = media::read_settings(&self.request.source);
        let carried = carried.ok().flatten();
        let carried =
            carried.and_then(|text| serde_json::from_str::<Map<String, Value>>(&text).ok());
        let mut settings = carried.unwrap_or_default();
        let mut done = json!(self.request);
        if let Some(fields) = done.as_object_mut() {
            for local in ["out", "is_out_automatic", "memory", "is_image"] {
                fields.remove(local);
            }
            fields.insert("version".to_owned(), json!(env!("CARGO_PKG_VERSION")));
            if let Value::Object(provenance) = json!(provenance) {
                fields.extend(provenance);
            }
        }
        settings.entry("app").or_insert_with(|| json!(CARRIED_APP));
        match settings.entry("finished").or_insert_with(|| json!([])) {
            Value::Array(list) => list.push(done),
            other => *other = json!([done]),
        }
        Value::Object(settings)
    }
}

impl FrameStore for PostprocessedFrames<'_> {
    fn report_inputs(&self, run: &mut JobRun<'_>) {
        for text in &self.notices {
            run.warn(text.clone());
        }
    }

    fn finished(&self, recipe: &Recipe, _folder: &JobFolder, done: &[bool]) -> Vec<bool> {
        // A source with fewer frames than its header says is done before the last.
        let is_done = self.writer.num_frames() >= self.request.after.num_frames;
        let stages = recipe.stages.iter().zip(done);
        stages
            .map(|(stage, done)| *done || (stage.is_postprocess() && is_done))
            .collect()
    }

    fn begin_stage(&mut self) -> u32 {
        self.writer.num_frames()
    }

    fn push(&mut self, frame: PreviewFrame) -> Result<(), JobError> {
        self.first.get_or_insert_with(|| frame.clone());
        self.writer.push(frame.image)
    }

    fn settle(&mut self) -> Result<(), JobError> {
        self.writer.settle()
    }

    fn end_stage(
        &mut self,
        run: &mut JobRun<'_>,
        folder: &JobFolder,
        _time: StageTime,
    ) -> Result<(), JobError> {
        let attempts = run.fallbacks.attempts();
        ResultProvenance::load(folder).with(attempts).save(folder);
        let (found, expected) = (self.writer.num_frames(), self.request.after.num_frames);
        if found == 0 {
            let what = format!(
                "no frame of this file can be read: {}",
                self.request.source.display()
            );
            return Err(JobError::invalid(what));
        }
        if found < expected {
            run.warn(format!(
                "The file has only {found} of the {expected} frames that its header tells of"
            ));
        }
        Ok(())
    }

    fn save(&mut self, run: &mut JobRun<'_>, folder: &JobFolder) -> Result<SavedResult, JobError> {
        let provenance = ResultProvenance::load(folder).with(run.fallbacks.attempts());
        let settings = self.settings(&provenance).to_string();
        // Read now: a source whose sound went meanwhile still gives a result.
        let sound = sound_of(self.request).sound;
        let alpha = alpha_source(self.request);
        let runs = self.writer.runs();
        let paths = runs.join(Some(settings), sound.as_ref(), alpha);
        Ok(SavedResult {
            paths: paths.map_err(error_of)?,
            num_frames: self.writer.num_frames(),
            video: Video {
                frames: self
                    .first
                    .take()
                    .map(|frame| frame.image)
                    .into_iter()
                    .collect(),
                fps: self.request.after.fps,
            },
        })
    }

    fn has_results(&self, _recipe: &Recipe, _folder: &JobFolder) -> bool {
        self.writer.num_frames() > 0
    }
}
