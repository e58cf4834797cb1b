//! Files that other programs write next to an image or video: `video.json`, `video.mp4.json`, `video.txt`, and FramePack
//! Studio's, which is named without the number after the video's.

use std::path::{Path, PathBuf};

/// Places where they may be.
pub(super) fn places(path: &Path) -> Vec<PathBuf> {
    let mut places = vec![path.with_extension("json")];
    let (Some(name), Some(stem)) = (path.file_name(), path.file_stem()) else {
        return places;
    };
    let mut longer = name.to_owned();
    longer.push(".json");
    places.push(path.with_file_name(longer));
    places.push(path.with_extension("txt"));
    let stem = stem.to_string_lossy();
    if let Some((start, number)) = stem.rsplit_once('_')
        && !start.is_empty()
        && number.bytes().all(|byte| byte.is_ascii_digit())
    {
        places.push(path.with_file_name(format!("{start}.json")));
    }
    places
}
