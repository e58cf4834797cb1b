//! Files that other programs write next to an image or video: `video.json`, `video.mp4.json`, `video.txt`, and FramePack
//! Studio's, which is named without the number after the video's.

use std::path::{Path, PathBuf};

use crate::media::{has_image_name, has_video_name};

/// Places where they may be; none for a file of settings, whose neighbour is of another image.
pub(super) fn places(path: &Path) -> Vec<PathBuf> {
    if !(has_image_name(path) || has_video_name(path)) {
        return Vec::new();
    }
    let mut longer = path.file_name().unwrap_or_default().to_owned();
    longer.push(".json");
    vec![
        path.with_extension("json"),
        path.with_file_name(longer),
        path.with_extension("txt"),
    ]
}

/// Place of `FramePack` Studio's file: `job_1.json` for `job_1_145.mp4`. Only that program leaves the number out.
pub(super) fn numbered_place(path: &Path) -> Option<PathBuf> {
    let stem = path.file_stem()?.to_string_lossy();
    let (start, number) = stem.rsplit_once('_')?;
    let is_number = !start.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && has_video_name(path)).then(|| path.with_file_name(format!("{start}.json")))
}
