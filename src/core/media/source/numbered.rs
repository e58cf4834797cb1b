//! Numbered PNG images as a video: `video_0001.png`, `video_0002.png` and so on, as Safelight writes them.
//!
//! The name of any of them means all, from the first number without a gap before it to the last.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{FrameSink, VideoFacts, VideoInfo};
use crate::media::open::png;
use crate::media::{MediaError, open_image, read_settings};

/// Rate of images without settings, in frames per second.
const DEFAULT_FPS: f64 = 24.0;
const MAX_IMAGES: usize = 1 << 20;

pub(super) struct NumberedSource {
    pub files: Vec<PathBuf>,
}

/// Settings inside an image, as far as they matter here.
#[derive(Deserialize)]
struct NumberedSettings {
    request: CarriedRequest,
}

#[derive(Deserialize)]
struct CarriedRequest {
    fps: f64,
}

impl NumberedSource {
    /// Returns `None` if the file's name has no number.
    pub fn open(path: &Path) -> Result<Option<(Self, VideoFacts)>, MediaError> {
        let Some((stem, width, number)) = number_of(path) else {
            return Ok(None);
        };
        let file = |number: u64| path.with_file_name(format!("{stem}{number:0width$}.png"));
        let mut first = number;
        while first > 0 && number - first < MAX_IMAGES as u64 && file(first - 1).is_file() {
            first -= 1;
        }
        let files: Vec<PathBuf> = (first..)
            .take(MAX_IMAGES)
            .map(file)
            .take_while(|file| file.is_file())
            .collect();
        let Some(start) = files.first() else {
            return Ok(None);
        };
        let first = open_image(start)?;
        let settings = read_settings(start).ok().flatten();
        let carried =
            settings.and_then(|text| serde_json::from_str::<NumberedSettings>(&text).ok());
        let fps = carried
            .map(|carried| carried.request.fps)
            .filter(|fps| fps.is_finite() && *fps > 0.0);
        let info = VideoInfo {
            width: first.image.width,
            height: first.image.height,
            fps: fps.unwrap_or(DEFAULT_FPS),
            num_frames: files.len() as u32,
            is_uneven: false,
        };
        let facts = VideoFacts {
            info,
            starts: None,
            notices: Vec::new(),
            conversions: Vec::new(),
        };
        Ok(Some((Self { files }, facts)))
    }

    /// Returns true if any image has transparent parts.
    pub fn has_alpha(&self) -> bool {
        let may_have = |file: &&PathBuf| png::may_have_alpha(file);
        let mut images = self.files.iter().filter(may_have);
        images.any(|file| open_image(file).is_ok_and(|image| image.alpha.is_some()))
    }

    pub fn read(&self, first: usize, sink: &mut FrameSink<'_>) -> Result<(), MediaError> {
        for file in self.files.get(first..).unwrap_or_default() {
            sink(open_image(file)?)?;
        }
        Ok(())
    }
}

/// The part of a file's name before its number, the number of digits, and the number.
fn number_of(path: &Path) -> Option<(&str, usize, u64)> {
    let stem = path.file_stem()?.to_str()?;
    let digits = stem.len() - stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (front, number) = stem.split_at(stem.len() - digits);
    (digits >= 3).then_some(())?;
    Some((front, digits, number.parse().ok()?))
}
