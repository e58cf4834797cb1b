//! Numbered PNG pictures as a clip: `clip_0001.png`, `clip_0002.png` and so on, as this program writes them.
//!
//! The name of any of them names them all, from the first number without a gap before it to the last.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::{ClipInfo, Sink};
use crate::media::{MediaError, open_picture, read_settings};

/// The rate of pictures that carry none.
const DEFAULT_FPS: f64 = 24.0;
const MAX_PICTURES: usize = 1 << 20;

pub(super) struct Numbered {
    files: Vec<PathBuf>,
    pub info: ClipInfo,
}

/// The one thing in the settings that matters here.
#[derive(Deserialize)]
struct Carried {
    request: CarriedRequest,
}

#[derive(Deserialize)]
struct CarriedRequest {
    fps: f64,
}

impl Numbered {
    /// `None` when the file has no number and so is a picture for itself.
    pub fn open(path: &Path) -> Result<Option<Self>, MediaError> {
        let Some((stem, width, number)) = number_of(path) else {
            return Ok(None);
        };
        let file = |number: u64| path.with_file_name(format!("{stem}{number:0width$}.png"));
        let mut first = number;
        while first > 0 && number - first < MAX_PICTURES as u64 && file(first - 1).is_file() {
            first -= 1;
        }
        let files: Vec<PathBuf> = (first..)
            .take(MAX_PICTURES)
            .map(file)
            .take_while(|file| file.is_file())
            .collect();
        let Some(start) = files.first() else {
            return Ok(None);
        };
        let picture = open_picture(start)?;
        let settings = read_settings(start).ok().flatten();
        let carried = settings.and_then(|text| serde_json::from_str::<Carried>(&text).ok());
        let fps = carried
            .map(|carried| carried.request.fps)
            .filter(|fps| fps.is_finite() && *fps > 0.0);
        let info = ClipInfo {
            width: picture.width,
            height: picture.height,
            fps: fps.unwrap_or(DEFAULT_FPS),
            num_frames: files.len() as u32,
            is_uneven: false,
        };
        Ok(Some(Self { files, info }))
    }

    pub fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub fn read(&self, first: usize, sink: &mut Sink<'_>) -> Result<(), MediaError> {
        for file in self.files.get(first..).unwrap_or_default() {
            sink(open_picture(file)?)?;
        }
        Ok(())
    }
}

/// What stands before the number in a file's name, the number's digits, and the number.
fn number_of(path: &Path) -> Option<(&str, usize, u64)> {
    let stem = path.file_stem()?.to_str()?;
    let digits = stem.len() - stem.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (front, number) = stem.split_at(stem.len() - digits);
    (digits >= 3).then_some(())?;
    Some((front, digits, number.parse().ok()?))
}
