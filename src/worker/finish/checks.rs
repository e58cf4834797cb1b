//! What is looked at before a job that finishes something begins: how much room it needs on the disk, and the sound of its
//! source. Refuses nothing.

use safelight_core::finish::FinishRequest;
use safelight_core::media::{self, FoundSound};

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

/// A guess at the bytes of all frames: half a byte a pixel in H.264 at a high quality, two without loss.
pub(super) fn room_of(request: &FinishRequest) -> u64 {
    let after = request.after;
    let pixels = u64::from(after.width) * u64::from(after.height) * u64::from(after.num_frames);
    let is_h264 = media::has_clip_name(&request.out)
        && request
            .out
            .extension()
            .is_some_and(|it| it.eq_ignore_ascii_case("mp4"));
    if is_h264 { pixels / 2 } else { pixels * 2 }
}
