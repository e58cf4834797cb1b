//! Facts of an image or video in a few lines: size, frames, colours and transparency, and which of them are used.

use std::path::Path;

use super::{ClipReader, MediaError, first_image, media_info};

/// Describes the file at `path`, one fact a line.
pub fn describe_media(path: &Path) -> Result<Vec<String>, MediaError> {
    let info = media_info(path)?;
    let image = first_image(path)?;
    let reader = ClipReader::open(path).ok();
    let (width, height) = (info.width, info.height);
    let mut lines = vec![if info.num_frames > 1 {
        let (frames, fps) = (info.num_frames, (info.fps * 100.0).round() / 100.0);
        format!(
            "video of {width} × {height} pixels: {frames} frames, {fps} a second; where an image is needed, the first"
        )
    } else {
        let (width, height) = (image.picture.width, image.picture.height);
        format!("image of {width} × {height} pixels")
    }];
    lines.extend(
        image
            .colours
            .map(|colours| format!("colours: {colours}, converted to sRGB")),
    );
    lines.extend(image.notice);
    if image.alpha.is_some() {
        let kept = if info.num_frames > 1 {
            "not used"
        } else {
            "kept when it is upscaled to PNG or WebP; opaque where it is generated from"
        };
        lines.push(format!("transparent parts: {kept}"));
    } else if let Some(reader) = &reader {
        lines.extend(reader.notices());
    }
    let starts = reader.as_ref().and_then(ClipReader::starts);
    lines.extend(starts.map(|starts| {
        let fps = starts.fps();
        format!("uneven frame times, {fps:.1} fps on average")
    }));
    Ok(lines)
}
