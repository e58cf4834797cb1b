//! The last stage: frames to a file that carries its own settings.
//!
//! Formats are `media`'s; here is only what is written with them.

use std::path::{Path, PathBuf};

use safelight_core::files::write_atomically;
use safelight_core::job::{Clip, GenerateRequest, JobError, JobErrorKind};
use safelight_core::media::{ClipOptions, ClipWriter, MediaError};
use safelight_core::protocol::EngineReport;
use serde_json::json;

/// Writes the clip to the request's file; returns its path, or that of the first of numbered files.
pub(super) fn write(
    request: &GenerateRequest,
    clip: &Clip,
    engine: Option<&EngineReport>,
) -> Result<PathBuf, JobError> {
    let settings = settings_of(request, engine);
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
    let path = files
        .into_iter()
        .next()
        .unwrap_or_else(|| request.out.clone());
    if request.sidecar {
        write_sidecar(&path.with_extension("json"), &settings)?;
    }
    Ok(path)
}

fn write_sidecar(path: &Path, settings: &serde_json::Value) -> Result<(), JobError> {
    let pretty = serde_json::to_vec_pretty(settings).unwrap_or_default();
    write_atomically(path, &pretty).map_err(|err| {
        JobError::new(
            JobErrorKind::Disk,
            format!(
                "the settings could not be written: {err}: {}",
                path.display()
            ),
        )
    })
}

/// What is needed to make the same clip again, and what made it.
fn settings_of(request: &GenerateRequest, engine: Option<&EngineReport>) -> serde_json::Value {
    json!({
        "app": "Safelight",
        "version": env!("CARGO_PKG_VERSION"),
        "libtorch": engine.map(|engine| engine.libtorch.as_str()),
        "device": engine.map(|engine| engine.device_name.as_str()),
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
