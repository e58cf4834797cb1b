//! Checks before a post-processing job: the disk space it needs, and the sound, transparency, colours and frame times of
//! its source. Refuses nothing.

use std::path::Path;

use safelight_core::job::{PostprocessKind, PostprocessRequest};
use safelight_core::media::{self, FoundSound, FrameStarts, MediaError, VideoFormat, VideoReader};

/// Sound of the source for the result; none of an image.
pub(super) fn sound_of(request: &PostprocessRequest) -> FoundSound {
    if request.is_image {
        return FoundSound::default();
    }
    media::sound_for(&request.source, &request.out).unwrap_or_else(|err| {
        tracing::warn!("the sound cannot be read: {err}");
        FoundSound {
            sound: None,
            left_out: Some(format!("The result has no sound: {err}")),
        }
    })
}

/// A guess at the bytes of all frames: half a byte a pixel in H.264 at a high quality, two without loss.
pub(super) fn room_of(request: &PostprocessRequest) -> u64 {
    let after = request.after;
    let pixels = u64::from(after.width) * u64::from(after.height) * u64::from(after.num_frames);
    let is_h264 = media::has_video_name(&request.out)
        && request
            .out
            .extension()
            .is_some_and(|it| it.eq_ignore_ascii_case("mp4"));
    if is_h264 { pixels / 2 } else { pixels * 2 }
}

/// The source, where it has transparency that the result keeps.
pub(super) fn alpha_source(request: &PostprocessRequest) -> Option<&Path> {
    request.keeps_alpha().then_some(&request.source)
}

/// Transparency, colours and parts of the source that the result does not have, in sentences. `reader`: of a video.
pub(super) fn unused_of(request: &PostprocessRequest, reader: Option<&VideoReader>) -> Vec<String> {
    // The engine says why a file cannot be read.
    let Ok(image) = media::open_image(&request.source) else {
        return Vec::new();
    };
    let has_alpha = reader.map_or_else(|| image.alpha.is_some(), VideoReader::has_alpha);
    let lost = (has_alpha && !request.keeps_alpha()).then(|| {
        let why = match &request.work {
            PostprocessKind::Interpolate { .. } => {
                "frames between frames are made without it".to_owned()
            }
            PostprocessKind::Depth { .. } => "a depth map has none".to_owned(),
            PostprocessKind::Upscale { .. } => {
                let format = VideoFormat::from_path(&request.out).map_or("", VideoFormat::name);
                format!(
                    "it is not written to {format}. Save the result as .png or .webp to keep it"
                )
            }
        };
        format!("The source's transparency is lost: {why}")
    });
    let video = reader.map_or_else(Vec::new, |reader| reader.format_notices().to_vec());
    let hdr = image.hdr_notice().filter(|_| reader.is_none());
    let own = hdr.into_iter().chain(image.notice).chain(image.unused);
    lost.into_iter().chain(own).chain(video).collect()
}

/// Starts of the result's frames where they are uneven, and a notice where those of the source are not kept.
pub(super) fn times_of(
    request: &PostprocessRequest,
    reader: Option<&VideoReader>,
) -> Result<(Option<FrameStarts>, Option<String>), MediaError> {
    let starts = reader.and_then(VideoReader::starts).cloned();
    let is_numbered = VideoFormat::from_path(&request.out)?.is_still();
    let fps = (request.after.fps * 100.0).round() / 100.0;
    Ok(match &request.work {
        _ if starts.is_none() => (None, None),
        PostprocessKind::Interpolate { .. } => {
            let note = format!("Uneven frame times: the result has an even {fps} fps");
            (None, Some(note))
        }
        PostprocessKind::Upscale { .. } | PostprocessKind::Depth { .. } if is_numbered => {
            let note = format!(
                "Uneven frame times, {fps} fps on average: numbered images do not keep them; choose a name that ends in .mp4, .webp or .gif"
            );
            (None, Some(note))
        }
        PostprocessKind::Upscale { .. } | PostprocessKind::Depth { .. } => (starts, None),
    })
}

#[cfg(test)]
mod tests {
    use safelight_core::media::{RgbPixels, VideoOptions, write_video};
    use serde_json::json;

    use super::*;

    fn request(source: &Path, out: &str, work: &str) -> PostprocessRequest {
        let info = json!({"width": 8, "height": 8, "fps": 4.0, "num_frames": 4});
        let request = json!({
            "source": source, "fingerprint": "", "is_image": false, "before": info, "after": info,
            "work": work, "network": "/n.safetensors", "passes": 1, "crf": 16, "out": out,
        });
        serde_json::from_value(request).expect("a request")
    }

    #[test]
    fn frame_times_are_kept_or_their_loss_is_reported() {
        let folder = tempfile::tempdir().expect("a folder");
        let source = folder.path().join("a.webp");
        let frame = |grey| RgbPixels::from_fn(8, 8, |_, _| [grey; 3]).expect("an image");
        let starts = FrameStarts::from_micros([0, 50_000, 700_000, 900_000, 1_000_000]);
        let options = VideoOptions {
            starts: Some(starts.clone()),
            ..VideoOptions::default()
        };
        write_video(&source, &[20, 80, 140, 200].map(frame), options).expect("it is written");
        let reader = VideoReader::open(&source).expect("it opens");
        let found =
            |out, work| times_of(&request(&source, out, work), Some(&reader)).expect("it is read");
        assert_eq!(found("b.webp", "upscale"), (Some(starts), None));
        let (starts, note) = found("b.png", "upscale");
        assert_eq!(starts, None);
        let expected = "Uneven frame times, 4 fps on average";
        assert!(note.expect("a note").starts_with(expected));
        let note = "Uneven frame times: the result has an even 4 fps".to_owned();
        assert_eq!(found("b.gif", "interpolate"), (None, Some(note)));
    }
}
