//! The last stage: frames to a file that carries its own settings.
//!
//! Formats are `media`'s; here is only what is written with them.

use std::path::{Path, PathBuf};

use safelight_core::files::write_atomically;
use safelight_core::job::{Clip, GenerateRequest, JobError, JobErrorKind};
use safelight_core::media::{self, ClipOptions, ClipWriter, MediaError};
use safelight_core::protocol::EngineReport;
use serde_json::{Value, json};

use super::inputs::Inputs;

/// Who made the file.
const APP: &str = "Safelight";

/// Refuses, before anything is computed, what could not be written in the end.
pub(super) fn check(request: &GenerateRequest) -> Result<(), JobError> {
    media::check_writable(&request.out)
        .and_then(|()| media::check_frame_size(&request.out, request.width, request.height))
        .map_err(|err| error_of(&err))?;
    let invalid = |summary: String| JobError::new(JobErrorKind::InvalidRequest, summary);
    if request.sidecar {
        let sidecar = request.out.with_extension("json");
        if sidecar.exists() && !is_ours(&sidecar) {
            return Err(invalid(format!(
                "expected room for the settings, found a file that Safelight did not write: {}",
                sidecar.display()
            )));
        }
    }
    if let Some(folder) = &request.capture {
        std::fs::create_dir_all(folder).map_err(|err| {
            invalid(format!(
                "the folder for the capture cannot be made ({err}): {}",
                folder.display()
            ))
        })?;
    }
    Ok(())
}

/// Refuses, when the number of frames is known, numbered files that could not be written.
pub(super) fn check_frames(request: &GenerateRequest, num_frames: usize) -> Result<(), JobError> {
    media::check_frames_writable(&request.out, num_frames).map_err(|err| error_of(&err))
}

/// Whether a JSON file holds the settings of one of our results.
fn is_ours(path: &Path) -> bool {
    let read = std::fs::read(path).ok();
    let json: Option<Value> = read.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    json.is_some_and(|json| json["app"] == APP)
}

/// Writes the clip to the request's file; returns its path, or that of the first of numbered files.
pub(super) fn write(
    request: &GenerateRequest,
    clip: &Clip,
    settings: &Value,
) -> Result<PathBuf, JobError> {
    let options = ClipOptions {
        fps: clip.fps,
        settings: Some(settings.to_string()),
        ..ClipOptions::default()
    };
    let mut writer = ClipWriter::create(&request.out, options).map_err(|err| error_of(&err))?;
    for frame in &clip.frames {
        writer.push(frame).map_err(|err| error_of(&err))?;
    }
    let files = writer.finish().map_err(|err| error_of(&err))?;
    Ok(files
        .into_iter()
        .next()
        .unwrap_or_else(|| request.out.clone()))
}

/// Writes the settings beside the result when they are asked for; the error is a sentence.
pub(super) fn write_sidecar(
    request: &GenerateRequest,
    result: &Path,
    settings: &Value,
) -> Result<(), String> {
    if !request.sidecar {
        return Ok(());
    }
    // Beside the name that was asked for, also where frames are numbered.
    let path = result.with_file_name(
        request
            .out
            .with_extension("json")
            .file_name()
            .unwrap_or_default(),
    );
    let pretty = serde_json::to_vec_pretty(settings).unwrap_or_default();
    write_atomically(&path, &pretty).map_err(|err| {
        format!(
            "the settings could not be written ({err}): {}",
            path.display()
        )
    })
}

/// What is needed to make the same clip again, and what made it.
pub(super) fn settings_of(
    request: &GenerateRequest,
    inputs: &Inputs,
    engine: Option<&EngineReport>,
) -> Value {
    let mut request = json!(request);
    if let Some(fields) = request.as_object_mut() {
        // Where this machine keeps things repeats nothing. What the user named does, and stays.
        for local in [
            "out",
            "capture",
            "files",
            "latent_rgb",
            "image_role",
            "sidecar",
        ] {
            fields.remove(local);
        }
    }
    json!({
        "app": APP,
        "version": env!("CARGO_PKG_VERSION"),
        "libtorch": engine.map(|engine| engine.libtorch.as_str()),
        "device": engine.map(|engine| engine.device_name.as_str()),
        "inputs": inputs.fingerprints,
        "request": request,
    })
}

/// A failed write: the disk's fault, or the request's when its path cannot work.
pub(super) fn error_of(err: &MediaError) -> JobError {
    if err.is_disk_full() {
        return JobError::from_error(JobErrorKind::Disk, err)
            .advise("Free some space or choose another folder");
    }
    JobError::from_error(JobErrorKind::InvalidRequest, err)
        .advise("Choose another file name or folder")
}
