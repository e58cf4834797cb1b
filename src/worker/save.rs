//! The last stage: frames to a file that carries its own settings.
//!
//! Formats: [`media`].

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use safelight_core::compute::ComputeOptions;
use safelight_core::files::{read_json_or_default, write_atomically};
use safelight_core::job::{CARRIED_APP, GenerateRequest, JobError, JobErrorKind, Video};
use safelight_core::job_update::FallbackAttempt;
use safelight_core::media::{
    self, MediaError, MediaErrorKind, RgbPixels, SampledSound, SoundTrack, VideoOptions,
    VideoWriter,
};
use safelight_core::naming::numbered_path;
use safelight_core::protocol::EngineReport;
use safelight_core::settings::rocm_of;
use serde_json::{Value, json};

use super::inputs::JobInputs;

/// Refuses, before anything is computed, what could not be written in the end.
pub(super) fn check(request: &GenerateRequest) -> Result<(), JobError> {
    media::check_writable(&request.out)
        .and_then(|()| media::check_frame_size(&request.out, request.width, request.height))
        .map_err(error_of)?;
    for out in outs(request) {
        if request.batch_size > 1 {
            media::check_target(&out).map_err(error_of)?;
        }
        let sidecar = out.with_extension("json");
        // Beside an automatic name nothing is replaced, and the result is made all the same.
        let replaces = request.options.sidecar && !request.is_out_automatic;
        if replaces && sidecar.exists() && !is_ours(&sidecar) {
            return Err(JobError::invalid(format!(
                "the settings cannot be saved over a file that Safelight did not write: {}",
                sidecar.display()
            )));
        }
    }
    if let Some(folder) = &request.options.capture {
        fs::create_dir_all(folder).map_err(|err| {
            JobError::invalid(format!(
                "the folder for the capture cannot be created ({err}): {}",
                folder.display()
            ))
        })?;
    }
    Ok(())
}

fn outs(request: &GenerateRequest) -> Vec<PathBuf> {
    match request.batch_size {
        0 | 1 => vec![request.out.clone()],
        size => (1..=size as usize)
            .map(|number| numbered_path(&request.out, number))
            .collect(),
    }
}

/// Refuses, when the number of frames is known, numbered files that could not be written.
pub(super) fn check_frames(request: &GenerateRequest, num_frames: usize) -> Result<(), JobError> {
    media::check_frames_writable(&request.out, num_frames).map_err(error_of)
}

/// Returns true if a JSON file contains the settings of a result.
fn is_ours(path: &Path) -> bool {
    read_json_or_default::<Value>(path)["app"] == CARRIED_APP
}

#[derive(Clone, Copy)]
pub(super) struct ResultMeta<'a> {
    pub(super) engine: Option<&'a EngineReport>,
    pub(super) compute_options: ComputeOptions,
    pub(super) rungs: &'a [FallbackAttempt],
    /// Quality of lossy files.
    pub(super) crf: u8,
    /// That the job has made.
    pub(super) sound: Option<&'a SampledSound>,
}

/// Files of a result, and one sentence for each file next to it that could not be written.
pub(super) struct WrittenFiles {
    pub paths: Vec<PathBuf>,
    pub warnings: Vec<String>,
}

/// Writes the video to the requested file, or each image of a batch to a separate one with the settings that reproduce it. If one cannot be written, earlier ones are kept.
pub(super) fn write(
    request: &GenerateRequest,
    video: &Video,
    inputs: &JobInputs,
    made: ResultMeta<'_>,
) -> Result<WrittenFiles, JobError> {
    let mut written = WrittenFiles {
        paths: Vec::new(),
        warnings: Vec::new(),
    };
    let outs = outs(request);
    let num_frames = video.frames.len() / outs.len();
    for (index, out) in outs.into_iter().enumerate() {
        let one = GenerateRequest {
            out,
            ..request.of_one(index)
        };
        let frames = video
            .frames
            .iter()
            .skip(index * num_frames)
            .take(num_frames);
        let secs = num_frames as f64 / video.fps;
        let sound = inputs.sound(&one, made.sound, secs);
        let mut settings = settings_of(&one, inputs, made);
        if let Some(kind) = sound.kind() {
            settings["sound"] = json!(kind);
        }
        let options = VideoOptions {
            fps: video.fps,
            crf: made.crf,
            settings: Some(settings.to_string()),
            keeps_others: one.is_out_automatic,
            ..VideoOptions::default()
        };
        let paths = write_frames(&one.out, frames, options, sound.track.as_ref())?;
        if one.options.sidecar
            && let Some(first) = paths.first()
            && let Err(why) = write_sidecar(&one, first, &settings)
        {
            written.warnings.push(why);
        }
        let unwritten = paths.first().and_then(|first| sound.write_next_to(first));
        written
            .warnings
            .extend(sound.warnings.into_iter().chain(unwritten));
        written.paths.extend(paths);
    }
    Ok(written)
}

fn write_frames<'a>(
    out: &Path,
    frames: impl Iterator<Item = &'a Arc<RgbPixels>>,
    options: VideoOptions,
    sound: Option<&SoundTrack>,
) -> Result<Vec<PathBuf>, JobError> {
    let mut writer = VideoWriter::create(out, options).map_err(error_of)?;
    for frame in frames {
        writer.push(frame).map_err(error_of)?;
    }
    writer.finish_with(sound).map_err(error_of)
}

/// Writes the settings beside the result, over no other file's where the name is an automatic one; the error is a
/// sentence.
fn write_sidecar(request: &GenerateRequest, result: &Path, settings: &Value) -> Result<(), String> {
    // Beside the name of all frames where they are numbered.
    let out = request.out.as_path();
    let first = numbered_path(out, 1);
    let path = if result == first { out } else { result }.with_extension("json");
    let pretty = serde_json::to_vec_pretty(settings).unwrap_or_default();
    let written = if request.is_out_automatic {
        // Creating the file reserves the name.
        File::create_new(&path).and_then(|_| {
            write_atomically(&path, &pretty).inspect_err(|_| {
                // Empty, and ours. The first error is the one that matters.
                fs::remove_file(&path).ok();
            })
        })
    } else {
        write_atomically(&path, &pretty)
    };
    written.map_err(|err| {
        format!(
            "the settings could not be written ({err}): {}",
            path.display()
        )
    })
}

/// Settings that reproduce the result, with the engine that computed it.
fn settings_of(request: &GenerateRequest, inputs: &JobInputs, made: ResultMeta<'_>) -> Value {
    let engine = made.engine;
    let mut settings = request.carried();
    settings["libtorch"] = json!(engine.map(|engine| engine.libtorch.as_str()));
    settings["device"] = json!(engine.map(|engine| engine.device_name.as_str()));
    let rocm = engine.and_then(|engine| rocm_of(&engine.libtorch));
    settings["rocm"] = json!(rocm.map(|(major, minor)| format!("{major}.{minor}")));
    settings["inputs"] = json!(inputs.fingerprints);
    let changed: Vec<&FallbackAttempt> = made
        .rungs
        .iter()
        .filter(|climb| climb.helped && climb.rung.changes_result())
        .collect();
    if !changed.is_empty() {
        settings["memory_rungs"] = json!(changed);
    }
    if made.compute_options != ComputeOptions::default() {
        settings["compute_options"] = json!(made.compute_options);
    }
    settings
}

/// A failed write: the disk's fault, or the request's when its path cannot work.
pub(super) fn error_of(err: MediaError) -> JobError {
    let advice = match err.kind {
        MediaErrorKind::FrameRate => "Change the video's frame rate in another program first",
        _ => "Choose another file name or folder",
    };
    let failure = JobError::from(err);
    match failure.kind {
        JobErrorKind::InvalidRequest => failure.advise(advice),
        _ => failure,
    }
}
