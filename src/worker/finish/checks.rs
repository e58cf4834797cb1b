//! What is looked at before a job that finishes something begins: room on the disk, and the sound of its source.

use safelight_core::finish::FinishRequest;
use safelight_core::job::{JobError, JobErrorKind, JobFolder};
use safelight_core::media::{self, FoundSound};
use safelight_core::units::size_text;

/// What of the source's sound goes into the result; nothing of a picture.
pub(super) fn sound_of(request: &FinishRequest) -> FoundSound {
    if request.is_picture {
        return FoundSound::default();
    }
    media::sound_for(&request.source, &request.out).unwrap_or_else(|err| {
        tracing::warn!("the sound cannot be read: {err}");
        FoundSound {
            sound: None,
            left_out: Some(format!("the result has no sound: {err}")),
        }
    })
}

/// The frames must have room in the job's folder: without it a job would fail behind hours of work.
pub(super) fn check_room(
    free: Option<u64>,
    request: &FinishRequest,
    folder: &JobFolder,
) -> Result<(), JobError> {
    let needed = room_of(request);
    match free {
        Some(free) if free < needed => {
            let what = format!(
                "the job needs about {} of disk space, but {} is free: {}",
                size_text(needed),
                size_text(free),
                folder.path().display()
            );
            Err(JobError::new(JobErrorKind::Disk, what).advise("Free some space on that disk"))
        }
        _ => Ok(()),
    }
}

/// A guess at the bytes of all frames: half a byte a pixel in H.264 at a high quality, two without loss.
fn room_of(request: &FinishRequest) -> u64 {
    let after = request.after;
    let pixels = u64::from(after.width) * u64::from(after.height) * u64::from(after.num_frames);
    let is_h264 = media::has_clip_name(&request.out)
        && request
            .out
            .extension()
            .is_some_and(|it| it.eq_ignore_ascii_case("mp4"));
    if is_h264 { pixels / 2 } else { pixels * 2 }
}
